// The page that goes through a schedule event by event. The server knows the runs; this knows where the reader is.
import { packed, read, unpacked, write } from "./stepping_link.js";
import { Pane } from "./stepping_pane.js";

const base = document.documentElement.dataset.base;
const find = (what) => document.querySelector(`[data-${what.replace(/=(.*)/, `="$1"`)}]`);
const panes = [];
const zoom = { begin: 0, end: 1, whole: true };
let link = {}, description = null, running = false, busy = Promise.resolve(), unwritten = 0;

async function ask(path, body) {
  const answer = await fetch(base + path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
  const found = answer.headers.get("content-type")?.includes("json") ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function failed(error) {
  find("error").hidden = !error;
  find("error").textContent = error ? error.message : "";
}

// one wish after the other; what goes wrong is told, and the page goes on
function inTurn(work) {
  busy = busy.then(async () => {
    try { failed(null); await work(); } catch (error) { failed(error); }
  });
  return busy;
}

const zoomed = {
  get begin() { return zoom.begin; },
  get end() { return zoom.end; },
  zoom(factor, around = (zoom.begin + zoom.end) / 2) {
    set(around - (around - zoom.begin) * factor, around + (zoom.end - around) * factor);
  },
  move(part) { const by = (zoom.end - zoom.begin) * part; set(zoom.begin + by, zoom.end + by); },
};
function set(begin, end) {
  Object.assign(zoom, { begin, end, whole: false });
  for (const pane of panes) for (const chart of pane.charts) chart.draw();
  remember();
}
function fit() {
  if (!zoom.whole) return;
  const spans = panes.map((pane) => pane.span());
  const begin = Math.min(...spans.map(([first]) => first)), end = Math.max(...spans.map(([, last]) => last));
  const stays = begin === zoom.begin && end <= zoom.end && end - begin > (zoom.end - begin) * 0.9;
  if (!stays) Object.assign(zoom, { begin, end: end + (end - begin) * 0.02 }); // else charts need not be drawn anew
}

function show() {
  fit();
  for (const pane of panes) pane.show();
  const { state, event, last } = panes[0], slider = find("slider");
  slider.max = last ?? Math.max(state.steps, 3 * description.jobs.length);
  slider.value = state.steps;
  slider.setAttribute("aria-valuetext", `event ${state.steps}`);
  find("where").textContent = state.steps ? `Event ${state.steps}${last === null ? "" : ` of ${last}`}, second ${state.now}.` : "Before the first event.";
  find("sentence").textContent = event ? sentence(event) : "";
  remember();
}

function sentence({ event, job, changed, sentence: rule, section }) {
  const what = { arrival: "arrives", end: "ends", begin: "begins", try: "is tried" }[event];
  const own = job === null ? "A pass looks at the jobs that wait." : `Job ${job} ${what}.`;
  const others = changed.length ? ` ${changed.length === 1 ? `Job ${changed[0]} is` : `${changed.length} other jobs are`} planned otherwise.` : "";
  return `${own}${others} ${rule} (${section})`;
}

// browsers take their time to write an address
function remember() {
  unwritten ||= setTimeout(writeLink, 200);
}
function writeLink() {
  clearTimeout(unwritten);
  unwritten = 0;
  const words = (choices) => Object.entries(choices).map(([key, value]) => `${key}:${value}`).join(" ");
  write({ scenario: link.scenario, step: panes[0]?.state.steps, from: zoom.whole ? "" : zoom.begin, to: zoom.whole ? "" : zoom.end,
    left: panes[0] && words(panes[0].choices), right: panes[1] && (words(panes[1].choices) || "-"), text: link.text });
}
const choicesOf = (words) => Object.fromEntries((words ?? "").split(" ").filter((word) => word.includes(":")).map((word) => word.split(/:(.*)/s)));

const step = () => panes[0]?.state.steps ?? panes[0]?.was ?? 0;
async function goTo(number) {
  for (const pane of panes) {
    let answer;
    do { answer = await pane.go({ step: Math.max(0, number) }); } while (!answer.done);
  }
  show();
}
async function runUntil(until) {
  running = true;
  find("do=stop").disabled = false;
  try {
    for (let done = false; running && !done;) {
      done = true;
      for (const pane of panes) done = (await pane.go({ until })).done && done;
      show();
      await new Promise(requestAnimationFrame);
    }
  } finally {
    running = false;
    find("do=stop").disabled = true;
  }
}

const acts = {
  step: () => goTo(step() + 1),
  back: () => goTo(step() - 1),
  size: () => runUntil((panes[0].state.now ?? Math.min(...description.jobs.map((job) => job.submit))) + Number(find("size").value)),
  until: () => runUntil(Number(find("until").value)),
  all: () => runUntil(null),
  in: () => zoomed.zoom(0.7),
  out: () => zoomed.zoom(1.4),
  whole: () => { zoom.whole = true; show(); },
  compare: async () => {
    if (panes.length === 2) panes.pop().element.remove(); else addPane({ ...panes[0].choices });
    sides();
    await goTo(step());
  },
  part: async () => {
    let found;
    do {
      found = await ask("part", { scenario: description.id, left: panes[0].choices, right: panes[1].choices });
      find("parted").textContent = `${found.compared} events compared …`;
    } while (!found.done);
    if (found.step !== null) await goTo(found.step);
    find("parted").textContent = found.step === null ? `They are equal in all ${found.compared} events.` : `They part at event ${found.step}.`;
  },
  edit: async () => {
    const text = find("text").value;
    const { scenario } = await ask("edit", { scenario: link.scenario, text });
    link.text = await packed(text);
    await open(scenario, 0, panes.map((pane) => pane.choices));
  },
  save: () => {
    const from = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([find("text").value])), download: "scenario.json" });
    from.click();
    URL.revokeObjectURL(from.href);
  },
};
const KEYS = { s: "step", b: "back", z: "size", u: "until", a: "all", "+": "in", "-": "out", 0: "whole" };

function addPane(choices) {
  panes.push(new Pane(find("panes"), ask, description, choices, zoomed, () => inTurn(() => goTo(step()))));
}
function sides() {
  find("panes").dataset.count = panes.length;
  find("do=compare").textContent = panes.length === 2 ? "One choice alone" : "Compare two choices";
  find("do=part").hidden = panes.length < 2;
  find("parted").textContent = "";
}

async function open(id, at, choices) {
  description = { id, ...(await ask(`scenario/${id}`)) };
  find("panes").replaceChildren();
  panes.length = 0;
  for (const some of choices) addPane(some);
  sides();
  find("text").value = description.text ?? "";
  find("editing").hidden = description.text === null;
  await goTo(at);
}

async function begin() {
  link = read();
  if (![...find("scenario").options].some((option) => option.value === link.scenario)) link.scenario = find("scenario").value;
  find("scenario").value = link.scenario;
  if (link.from) Object.assign(zoom, { begin: Number(link.from), end: Number(link.to), whole: false });
  try {
    let id = link.scenario;
    if (link.text) {
      const text = await unpacked(link.text).catch(() => { throw new Error("its text is damaged"); });
      id = (await ask("edit", { scenario: id, text })).scenario;
    }
    await open(id, Number(link.step ?? 0) || 0, [choicesOf(link.left), ...(link.right ? [choicesOf(link.right)] : [])]);
  } catch (error) {
    link.text = "";
    await open(link.scenario, 0, [{}]);
    failed(new Error(`The link cannot be followed: ${error.message}`));
  }
}

for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => {
  if (button.dataset.do === "stop") running = false; else inTurn(acts[button.dataset.do]);
});
find("slider").addEventListener("change", () => inTurn(() => goTo(Number(find("slider").value))));
find("scenario").addEventListener("change", () => inTurn(async () => {
  Object.assign(link, { scenario: find("scenario").value, text: "" });
  zoom.whole = true;
  await open(link.scenario, 0, [{}]);
}));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running = false;
  if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || !(event.key in KEYS)) return;
  event.preventDefault();
  inTurn(acts[KEYS[event.key]]);
});
window.addEventListener("oarpy:theme", () => { for (const pane of panes) for (const chart of pane.charts) chart.draw(); });
window.addEventListener("resize", () => { for (const pane of panes) for (const chart of pane.charts) chart.draw(); });
// for programs that look at the page: what `--steps` prints, when all wishes are done, and when the link has them
window.stepping = { object: (place = 0) => panes[place].object(), idle: () => busy, written: () => busy.then(writeLink) };
inTurn(begin);
