// Dates in the reader's language and time zone.
export function dates(within) {
  for (const time of within.querySelectorAll("time[data-at]")) {
    const at = new Date(Number(time.dataset.at) * 1000);
    time.title = at.toISOString();
    const before = new Date(Number(time.dataset.after) * 1000); // a time of the same day stands before it
    time.textContent = at.toLocaleString(undefined, time.dataset.exact !== undefined
      ? { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" }
      : time.dataset.long !== undefined
      ? { dateStyle: "medium", timeStyle: "medium" }
      : before.toDateString() === at.toDateString() ? { hour: "2-digit", minute: "2-digit" }
      : { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
  }
}
