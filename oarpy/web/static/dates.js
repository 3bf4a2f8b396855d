// Dates in the reader's language and time zone.
export function dates(within) {
  for (const one of within.querySelectorAll("time[data-at]")) {
    const at = new Date(Number(one.dataset.at) * 1000);
    one.title = at.toISOString();
    const before = new Date(Number(one.dataset.after) * 1000); // a time of the same day stands before it
    one.textContent = at.toLocaleString(undefined, one.dataset.exact !== undefined
      ? { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" }
      : one.dataset.long !== undefined
      ? { dateStyle: "medium", timeStyle: "medium" }
      : before.toDateString() === at.toDateString() ? { hour: "2-digit", minute: "2-digit" }
      : { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
  }
}
