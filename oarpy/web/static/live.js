// States arrive without reloading: the server's stream of events says that something changed, and the parts of the
// page marked data-live are fetched anew. Notices carry nothing that matters: a lost one delays.
const body = document.body;
const dot = document.querySelector("[data-live-state]");
const KINDS = ["job", "event", "node", "queue", "gone"];
const SHORTEST = 700; // milliseconds between two looks, longer where a look takes long
let due = null;
let last = 0;
let pause = SHORTEST;

function say(state, text) {
  if (!dot) return;
  dot.dataset.state = state;
  dot.textContent = text;
}

function soon() {
  if (due !== null || document.hidden) return;
  due = setTimeout(look, Math.max(50, last + pause - Date.now()));
}

async function look() {
  due = null;
  last = Date.now();
  window.dispatchEvent(new Event("oarpy:changed"));
  const parts = [...document.querySelectorAll("[data-live]")];
  if (parts.length && !parts.some((part) => part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"))) {
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1" }, credentials: "same-origin" });
      if (answer.redirected) return location.reload();
      if (answer.ok) swap(parts, new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { say("off", "offline"); }
  }
  pause = Math.max(SHORTEST, 4 * (Date.now() - last));
}

function swap(parts, fresh) {
  for (const part of parts) {
    const other = fresh.getElementById(part.id);
    if (!other || other.innerHTML === part.innerHTML) continue;
    const before = new Map([...part.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.dataset.state]));
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    part.replaceChildren(...other.childNodes);
    for (const row of part.querySelectorAll("[data-row]")) {
      if (before.size && before.get(row.dataset.row) !== row.dataset.state) row.classList.add("fresh");
    }
    if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    window.dispatchEvent(new CustomEvent("oarpy:swapped", { detail: part }));
  }
}

function listen() {
  const source = new EventSource(body.dataset.stream);
  source.onopen = () => { say("on", "live"); };
  source.onerror = () => { say("off", "offline"); };
  source.onmessage = soon;
  for (const name of KINDS) source.addEventListener(name, soon);
  // where the stream begins; after a break that is where the page has to catch up
  let begun = false;
  source.addEventListener("begin", () => { if (begun) soon(); begun = true; });
}

if (body.dataset.stream) {
  listen();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
}
