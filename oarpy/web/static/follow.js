// Outputs that grow: while the job runs, their end is fetched anew, and whoever reads at the end stays there.
const SHORTEST = 1500, LONGEST = 12000; // milliseconds between two looks; longer while nothing comes

export function followAll(within) {
  for (const part of within.querySelectorAll("[data-follow]")) {
    for (const text of part.querySelectorAll("pre")) text.scrollTop = text.scrollHeight;
    next(part, SHORTEST);
  }
}

function next(part, pause) {
  setTimeout(async () => {
    if (!part.isConnected) return;
    const grew = document.hidden ? false : await look(part);
    if (part.dataset.follow) next(part, grew ? SHORTEST : Math.min(pause * 1.5, LONGEST));
  }, pause);
}

async function look(part) {
  try {
    const answer = await fetch(part.dataset.follow, { credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-part] > .stack");
    if (!answer.ok || !fresh) return false;
    if (!fresh.dataset.follow) delete part.dataset.follow; // the job is over: this was the last look
    return renew(part, fresh);
  } catch { return false; }
}

function renew(part, fresh) {
  if (part.innerHTML === fresh.innerHTML) return false;
  const shown = [...part.querySelectorAll("pre")], other = [...fresh.querySelectorAll("pre")];
  const places = new Map(shown.map((text) => [text.ariaLabel, atEnd(text) ? Infinity : text.scrollTop]));
  const focused = shown.find((text) => text === document.activeElement)?.ariaLabel;
  part.replaceChildren(...fresh.childNodes);
  for (const text of other) {
    text.scrollTop = Math.min(places.get(text.ariaLabel) ?? Infinity, text.scrollHeight);
    if (text.ariaLabel === focused) text.focus({ preventScroll: true });
  }
  return true;
}

function atEnd(text) { return text.scrollHeight - text.scrollTop - text.clientHeight < 24; }
