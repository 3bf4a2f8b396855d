// The state of the cluster: a cell a core, a block a node.
import { colour, hash, length, palette, sized, tipOf } from "./drawing.js";

const drawing = document.querySelector("[data-cells]");
const canvas = drawing.querySelector("canvas");
const spoken = drawing.querySelector("[aria-live]");
const tip = tipOf(drawing);
const choice = document.querySelector("[data-colour-by]");
const search = document.querySelector("[data-mark]");
const LETTERS = { f: "free", b: "busy", h: "busy while drained", d: "drained", z: "asleep", a: "absent", s: "suspected", x: "dead" };
let data = { nodes: [], jobs: {} };
let blocks = [];
let size = 10;
let focus = -1;

async function fetchCells() {
  const answer = await fetch(drawing.dataset.cells, { credentials: "same-origin" });
  if (!answer.ok) return;
  data = await answer.json();
  for (const node of data.nodes) {
    const jobs = [];
    for (let at = 0; at < node[2].length; at += 2) for (let left = node[2][at + 1]; left > 0; left--) jobs.push(node[2][at]);
    node[2] = jobs;
  }
  arrange();
  drawing.dataset.drawn = String(Math.round(performance.now()));
}

function arrange() {
  const total = data.nodes.reduce((sum, node) => sum + node[1].length, 0);
  const width = drawing.clientWidth;
  size = total > 4000 ? 7 : total > 800 ? 10 : total > 128 ? 14 : 18;
  if (width < 500) size = Math.min(size, 9);
  const gap = Math.max(6, size);
  const head = 14;
  blocks = [];
  let x = 0, y = 0, tallest = 0;
  for (const node of data.nodes) {
    const count = node[1].length;
    const columns = Math.min(Math.ceil(Math.sqrt(count * 2)), Math.max(1, Math.floor(width / size)));
    const rows = Math.ceil(count / columns);
    const wide = Math.max(columns * size, 40);
    if (x + wide > width && x > 0) { x = 0; y += tallest + gap; tallest = 0; }
    blocks.push({ x, y, columns, rows, width: wide, height: rows * size + head, node });
    x += wide + gap;
    tallest = Math.max(tallest, rows * size + head);
  }
  draw(width, y + tallest + 2, head);
}

function draw(width, height, head) {
  const context = sized(canvas, width, Math.max(height, 40));
  const colours = palette();
  const plain = { f: colours["cell-free"], d: colours["cell-drain"], z: colours["cell-sleep"], a: colours["cell-absent"], s: colours["cell-suspect"], x: colours["cell-dead"] };
  const by = choice ? choice.value : "job";
  const wanted = (search ? search.value : "").trim().toLowerCase();
  const known = new Map();
  const fill = (job) => {
    if (!known.has(job)) {
      const about = data.jobs[job] || [];
      const key = by === "user" ? hash(about[0]) : by === "queue" ? hash(about[1]) : job;
      known.set(job, by === "state" ? colours.run : colour(key, colours));
    }
    return known.get(job);
  };
  const marked = (node, job) => !wanted || node.toLowerCase().includes(wanted) || String(job) === wanted
    || (data.jobs[job] && data.jobs[job][0].toLowerCase() === wanted);
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "top";
  blocks.forEach((block, place) => {
    const [name, letters, jobs] = block.node;
    context.fillStyle = colours.muted;
    let label = name;
    while (label.length > 3 && context.measureText(label).width > block.width) label = label.slice(0, -1);
    context.fillText(label, block.x, block.y);
    for (let at = 0; at < letters.length; at++) {
      const letter = letters[at];
      context.globalAlpha = marked(name, jobs[at]) ? 1 : 0.18;
      const held = letter === "b" || letter === "h";
      context.fillStyle = held ? fill(jobs[at]) : plain[letter];
      const x = block.x + (at % block.columns) * size, y = block.y + head + Math.floor(at / block.columns) * size;
      context.fillRect(x, y, size - 1, size - 1);
      if (letter === "h") { context.fillStyle = plain.d; context.fillRect(x, y + size * 0.6, size - 1, size * 0.4 - 1); }
      if (!held && jobs[at]) { context.fillStyle = fill(jobs[at]); context.fillRect(x, y + size / 2, size - 1, size / 2 - 1); }
    }
    context.globalAlpha = 1;
    if (place === focus) {
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.strokeRect(block.x - 2, block.y - 2, block.width + 3, block.height + 3);
    }
  });
}

function at(event) {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  const block = blocks.find((candidate) => x >= candidate.x && x < candidate.x + candidate.width && y >= candidate.y && y < candidate.y + candidate.height);
  if (!block) return { x, y };
  const column = Math.floor((x - block.x) / size), row = Math.floor((y - block.y - 14) / size);
  const cell = row >= 0 && column < block.columns ? row * block.columns + column : -1;
  return { x, y, block, cell: cell < block.node[1].length ? cell : -1 };
}

function about(job) {
  const found = data.jobs[job];
  if (!found) return job ? `job ${job}` : "";
  const [user, queue, state, ends] = found;
  const left = ends ? `, walltime ends in ${length(ends - Date.now() / 1000)}` : "";
  return `job ${job} of ${user}, ${state}, queue ${queue}${left}`;
}

function summary(block) {
  const counts = {};
  for (const letter of block.node[1]) counts[LETTERS[letter]] = (counts[LETTERS[letter]] || 0) + 1;
  return `${block.node[0]}: ${Object.entries(counts).map(([word, count]) => `${count} ${word}`).join(", ")}`;
}

canvas.addEventListener("pointermove", (event) => {
  const found = at(event);
  if (!found.block) return tip("");
  const job = found.cell >= 0 ? found.block.node[2][found.cell] : 0;
  canvas.style.cursor = "pointer";
  tip(summary(found.block) + (job ? `\n${about(job)}` : ""), found.x, found.y);
});
canvas.addEventListener("pointerleave", () => tip(""));
canvas.addEventListener("click", (event) => {
  const found = at(event);
  if (!found.block) return;
  const job = found.cell >= 0 ? found.block.node[2][found.cell] : 0;
  location.assign(job ? `${drawing.dataset.jobs}/${job}` : `${drawing.dataset.nodes}/${encodeURIComponent(found.block.node[0])}`);
});
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
  const line = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step !== undefined) focus = Math.max(0, Math.min(blocks.length - 1, focus + step));
  else if (line !== undefined) {
    const from = blocks[Math.max(focus, 0)];
    const others = blocks.filter((other) => (other.y - from.y) * line > 0);
    if (others.length) {
      const y = line > 0 ? others[0].y : others[others.length - 1].y;
      focus = blocks.indexOf(others.filter((other) => other.y === y).reduce((best, other) => Math.abs(other.x - from.x) < Math.abs(best.x - from.x) ? other : best));
    }
  } else if (event.key === "Enter" && focus >= 0) return location.assign(`${drawing.dataset.nodes}/${encodeURIComponent(blocks[focus].node[0])}`);
  else return;
  event.preventDefault();
  spoken.textContent = summary(blocks[focus]);
  arrange();
  tip(spoken.textContent, blocks[focus].x, blocks[focus].y + blocks[focus].height - 10);
});
canvas.addEventListener("blur", () => { focus = -1; tip(""); arrange(); });
choice?.addEventListener("change", arrange);
search?.addEventListener("input", arrange);
window.addEventListener("oarpy:theme", arrange);
window.addEventListener("oarpy:changed", fetchCells);
let wide = 0;
new ResizeObserver(() => { if (drawing.clientWidth !== wide) { wide = drawing.clientWidth; arrange(); } }).observe(drawing);
fetchCells();
