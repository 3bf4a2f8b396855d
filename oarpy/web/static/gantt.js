// Who held, holds and will hold what: cells by level from top to bottom, time from left to right, a line for now.
import { colour, hash, length, palette, shortDate, sized, tipOf, two } from "./drawing.js";

const drawing = document.querySelector("[data-gantt]");
const canvas = drawing.querySelector("canvas");
const spoken = drawing.querySelector("[aria-live]");
const tip = tipOf(drawing);
const by = document.querySelector("[data-colour-by]");
const path = document.querySelector("[data-path]");
const HEAD = 34, FOOT = 4;
let data = null;
let view = { from: Number(drawing.dataset.begin), to: Number(drawing.dataset.end), top: 0, bottom: 1 };
let crumbs = [];
let rects = [];
let chosen = -1;
let request = 0;
let timer = null;

async function fetchBars(padded = true) {
  const mine = ++request;
  const wide = view.to - view.from, margin = padded ? wide * 0.25 : 0;
  const begin = Math.floor(view.from - margin), end = Math.ceil(view.to + margin);
  drawing.setAttribute("aria-busy", "true");
  const answer = await fetch(`${drawing.dataset.gantt}?begin=${begin}&end=${end}`, { credentials: "same-origin" });
  if (!answer.ok || mine !== request) return;
  const first = data === null;
  data = await answer.json();
  data.tree = data.levels.map(([name, runs]) => {
    let place = 0;
    return { name, blocks: runs.map(([value, count]) => { const block = { value, first: place, end: place + count }; place += count; return block; }) };
  });
  if (first) { view.bottom = data.cells; drawing.dataset.drawn = String(Math.round(performance.now())); }
  drawing.removeAttribute("aria-busy");
  draw();
}

// 18 pixels a cell where that is little, else room for the names of up to 130 nodes
function tall() {
  const cells = (view.bottom - view.top) * 18 + HEAD + FOOT;
  const named = nodesIn(view.top, view.bottom).length * 11 + HEAD + FOOT;
  return Math.max(260, Math.min(720, Math.max(window.innerHeight - 270, cells < 720 ? cells : 560)), named <= 1500 ? named : 0);
}

function nodesIn(top, bottom) {
  const level = data.tree.find((entry) => entry.name === "network_address");
  return level ? level.blocks.filter((block) => block.end > top && block.first < bottom) : [];
}

function left() { return drawing.clientWidth < 560 ? 58 : 124; }
function toX(seconds, width) { return left() + (seconds - view.from) / (view.to - view.from) * (width - left()); }
function toTime(x, width) { return view.from + (x - left()) / (width - left()) * (view.to - view.from); }
function toY(place, height) { return HEAD + (place - view.top) / (view.bottom - view.top) * (height - HEAD - FOOT); }
function toPlace(y, height) { return view.top + (y - HEAD) / (height - HEAD - FOOT) * (view.bottom - view.top); }

const STEPS = [60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];

function draw() {
  if (!data) return;
  const width = drawing.clientWidth;
  const height = tall();
  const context = sized(canvas, width, height);
  const colours = palette();
  context.fillStyle = colours.surface;
  context.fillRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(left(), HEAD, width - left(), height - HEAD);
  context.clip();
  drawOutages(context, width, height, colours);
  drawBars(context, width, height, colours);
  drawWindows(context, width, height, colours);
  drawDrained(context, width, height, colours);
  context.restore();
  drawTime(context, width, height, colours);
  drawLevels(context, width, height, colours);
  drawNow(context, width, height, colours);
  showPath();
}

function outages(width, height, drained, each) {
  for (const [first, count, begin, end, state] of data.outages) {
    if ((state === "drained") !== drained || first + count <= view.top || first >= view.bottom) continue;
    const x = toX(data.base + begin, width), y = toY(first, height);
    each(x, y, Math.max(1, toX(data.base + end, width) - x), Math.max(1, toY(first + count, height) - y), state);
  }
}

function drawOutages(context, width, height, colours) {
  const plain = { Absent: colours["cell-absent"], Suspected: colours["cell-suspect"], Dead: colours["cell-dead"] };
  context.globalAlpha = 0.45;
  outages(width, height, false, (x, y, wide, high, state) => {
    context.fillStyle = plain[state];
    context.fillRect(x, y, wide, high);
  });
  context.globalAlpha = 1;
}

// over the bars: jobs of a drained node go on
function drawDrained(context, width, height, colours) {
  context.strokeStyle = colours["cell-drain"];
  context.lineWidth = 1.5;
  outages(width, height, true, (x, y, wide, high) => {
    const first = Math.max(x, left()), last = Math.min(x + wide, width);
    context.save();
    context.beginPath();
    context.rect(first, y, last - first, high);
    context.clip();
    context.beginPath();
    for (let at = Math.floor((first - high) / 6) * 6; at < last; at += 6) { context.moveTo(at, y + high); context.lineTo(at + high, y); }
    context.stroke();
    context.restore();
  });
  context.lineWidth = 1;
}

function keyOf(bar) {
  if (by.value === "user") return hash(data.users[bar[4]]);
  if (by.value === "queue") return hash(data.queues[bar[5]]);
  if (by.value === "project") return hash(data.projects[bar[6]]);
  return bar[0];
}

const STATES = { Running: "run", Terminated: "done", Error: "error", Waiting: "wait", Hold: "hold", Launching: "launch", toLaunch: "launch", Finishing: "launch", Suspended: "stop", Resuming: "stop" };

function drawBars(context, width, height, colours) {
  rects = [];
  const tall = (height - HEAD - FOOT) / (view.bottom - view.top);
  const line = tall >= 6 ? 1 : 0;
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let place = 0; place < data.bars.length; place++) {
    const bar = data.bars[place];
    const begin = data.base + bar[1], end = data.base + bar[2];
    if (end < view.from || begin > view.to) continue;
    const x = toX(begin, width), wide = Math.max(1, toX(end, width) - x - (tall >= 3 ? 0.5 : 0));
    const fill = by.value === "state" ? colours[STATES[data.states[bar[7]]] || "done"] : colour(keyOf(bar), colours);
    context.fillStyle = fill;
    context.globalAlpha = chosen >= 0 && data.bars[chosen] && data.bars[chosen][0] !== bar[0] ? 0.35 : bar[3] ? 0.45 : 1;
    const runs = bar[8];
    for (let at = 0; at < runs.length; at += 2) {
      const first = runs[at], last = first + runs[at + 1];
      if (last <= view.top || first >= view.bottom) continue;
      const y = toY(first, height), high = Math.max(0.6, toY(last, height) - y - line);
      context.fillRect(x, y, wide, high);
      rects.push([x, y, wide, high, place]);
      if (bar[3] && high > 4 && wide > 4) { context.strokeStyle = fill; context.setLineDash([3, 2]); context.strokeRect(x + 0.5, y + 0.5, wide - 1, high - 1); context.setLineDash([]); }
      if (high >= 12 && wide >= 34) {
        const seen = Math.max(x, left());
        context.globalAlpha = 1;
        context.fillStyle = bar[3] ? colours.ink : "#fff";
        if (x + wide - seen > 34) context.fillText(String(bar[0]), seen + 3, y + high / 2, x + wide - seen - 5);
        context.fillStyle = fill;
        context.globalAlpha = chosen >= 0 && data.bars[chosen][0] !== bar[0] ? 0.35 : bar[3] ? 0.45 : 1;
      }
    }
  }
  context.globalAlpha = 1;
}

// where reservations may still move: an outline on the cells that they have now
function drawWindows(context, width, height, colours) {
  const bars = new Map(data.bars.filter((bar) => bar[3]).map((bar) => [bar[0], bar]));
  context.lineWidth = 1.5;
  for (const [job, ready, deadline, runs] of data.windows) {
    const begin = toX(data.base + ready, width), end = toX(data.base + deadline, width), bar = bars.get(job);
    context.strokeStyle = by.value === "state" ? colours.wait : colour(bar ? keyOf(bar) : job, colours);
    for (let at = 0; at < runs.length; at += 2) {
      const y = toY(runs[at], height), high = toY(runs[at] + runs[at + 1], height) - y;
      context.strokeRect(begin + 0.75, y + 0.75, Math.max(1, end - begin - 1.5), Math.max(1, high - 2.5));
    }
  }
  context.lineWidth = 1;
}

// moments of the axis in the reader's time zone, where days may have 23 or 25 hours
function ticks(step) {
  const found = [], from = new Date(view.from * 1000);
  const days = Math.max(1, step / 86400), first = new Date(from.getFullYear(), from.getMonth(), 1);
  for (let day = 0; ; day += days) {
    for (let second = 0; second < 86400; second += step) {
      const date = new Date(first.getFullYear(), first.getMonth(), 1 + day, 0, 0, second), at = date.getTime() / 1000;
      if (at > view.to) return found;
      if (at >= view.from) found.push([at, date]);
    }
  }
}

function drawTime(context, width, height, colours) {
  const room = width - left(), wide = view.to - view.from;
  const step = STEPS.find((seconds) => room / (wide / seconds) >= (seconds < 86400 ? 52 : 64)) || STEPS[STEPS.length - 1];
  context.fillStyle = colours.raised;
  context.fillRect(0, 0, width, HEAD - 2);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  const long = room / (wide / Math.max(step, 86400)) >= 90;
  const named = (date) => date.toLocaleDateString(undefined, { weekday: long ? "short" : undefined, day: "numeric", month: "short" });
  const marks = ticks(step), days = [];
  // the day that the view begins in has its name at the left
  if (step < 86400) days.push([left(), new Date(view.from * 1000)]);
  for (const [at, date] of marks) {
    const x = toX(at, width), midnight = date.getHours() === 0 && date.getMinutes() === 0;
    context.fillStyle = colours["line"];
    context.globalAlpha = midnight ? 0.9 : 0.4;
    context.fillRect(Math.round(x), HEAD - 8, 1, height);
    context.globalAlpha = 1;
    if (midnight) days.push([x, date]);
    if (step < 86400) label(`${two(date.getHours())}:${two(date.getMinutes())}`, x, 26, colours.muted, width);
  }
  days.forEach(([x, date], place) => label(named(date), x, 12, colours.ink, days[place + 1]?.[0] ?? width));
  function label(text, x, y, fill, until) {
    if (x + 3 + context.measureText(text).width > until) return;
    context.fillStyle = fill;
    context.fillText(text, x + 3, y);
  }
}

function drawLevels(context, width, height, colours) {
  const shown = data.tree.filter((level) => level.blocks.length > 1 || data.tree.length === 1);
  const room = left();
  context.fillStyle = colours.surface;
  context.fillRect(0, HEAD - 2, room, height);
  const visible = shown.map((level) => level.blocks.filter((block) => block.end > view.top && block.first < view.bottom));
  const columns = named(shown, visible, height, room > 100 ? 2 : 1);
  context.textBaseline = "middle";
  context.font = "10px system-ui, sans-serif";
  drawing.columns = columns.map((at, column) => ({ level: shown[at], blocks: visible[at], x: column * room / columns.length, end: (column + 1) * room / columns.length }));
  for (const column of drawing.columns) {
    let lastY = -100;
    for (const block of column.blocks) {
      const y = toY(Math.max(block.first, view.top), height), end = toY(Math.min(block.end, view.bottom), height);
      context.fillStyle = colours["line-soft"];
      context.fillRect(column.x, Math.round(y), width - column.x, 1);
      const middle = (y + end) / 2;
      if (middle - lastY >= 11) {
        context.fillStyle = colours.muted;
        context.fillText(block.value, column.x + 5, middle, column.end - column.x - 8);
        lastY = middle;
      }
    }
  }
  context.fillStyle = colours.line;
  context.fillRect(room - 1, 0, 1, height);
}

// The levels whose names are drawn: nodes, beside them the cells if these have room, else the level above.
function named(shown, visible, height, most) {
  const places = shown.map((level, at) => at);
  const fitting = places.filter((at) => (height - HEAD) / Math.max(1, visible[at].length) >= 10);
  const finest = fitting.length ? fitting[fitting.length - 1] : 0;
  const nodes = shown.findIndex((level) => level.name === "network_address");
  if (nodes < 0) return places.filter((at) => fitting.includes(at) || at === 0).slice(-most);
  if (most === 1) return [visible[nodes].length > 1 ? nodes : Math.max(nodes, finest)];
  return finest > nodes ? [nodes, finest] : [nodes - 1, nodes].filter((at) => at >= 0);
}

function drawNow(context, width, height, colours) {
  const now = Date.now() / 1000 + data.skew;
  if (now < view.from || now > view.to) return;
  const x = toX(now, width);
  context.fillStyle = colours.now;
  context.fillRect(x - 0.75, HEAD - 6, 1.5, height);
  context.beginPath();
  context.arc(x, HEAD - 6, 3, 0, 7);
  context.fill();
}

function showPath() {
  path.replaceChildren(...[{ value: "all", first: 0, end: data.cells }, ...crumbs].map((crumb, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.textContent = at ? `› ${crumb.value}` : "all resources";
    button.addEventListener("click", () => { crumbs = crumbs.slice(0, at); rows(crumb); });
    return button;
  }));
}

function rows(block) { view.top = block.first; view.bottom = block.end; draw(); }

function moved() {
  view.from = Math.round(view.from);
  view.to = Math.round(Math.max(view.to, view.from + 60));
  const address = new URL(location);
  address.searchParams.delete("span");
  address.searchParams.set("begin", view.from);
  address.searchParams.set("end", view.to);
  history.replaceState(null, "", address);
  draw();
  clearTimeout(timer);
  const inside = data && view.from >= data.base && view.to <= data.base + data.wide && (view.to - view.from) > data.wide / 8;
  if (!inside || data.truncated) timer = setTimeout(fetchBars, 180);
}

function zoom(factor, around) {
  const middle = around ?? (view.from + view.to) / 2;
  const wide = Math.min(366 * 86400, Math.max(120, (view.to - view.from) * factor));
  const part = (middle - view.from) / (view.to - view.from);
  view.from = middle - part * wide;
  view.to = view.from + wide;
  moved();
}

function shift(part) {
  const by = (view.to - view.from) * part;
  view.from += by; view.to += by;
  moved();
}

function found(event) {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  let hit = -1;
  if (x >= left()) for (let at = rects.length - 1; at >= 0; at--) {
    const [rx, ry, wide, high, place] = rects[at];
    if (x >= rx - 1 && x <= rx + wide + 1 && y >= ry && y <= ry + Math.max(high, 2)) { hit = place; break; }
  }
  return { x, y, hit };
}

// the node under the pointer, and why it is away then
function place(x, y) {
  if (x < left() || y < HEAD) return "";
  const height = canvas.clientHeight, at = toPlace(y, height), seconds = toTime(x, drawing.clientWidth) - data.base;
  const [node] = nodesIn(at, at);
  if (!node) return "";
  const away = data.outages.find(([first, count, begin, end]) => first <= at && at < first + count && begin <= seconds && seconds < end);
  return node.value + (away ? `: ${away[4].toLowerCase()}${away[5] ? `, ${away[5]}` : ""}` : "");
}

function barText(place) {
  const bar = data.bars[place], room = bar[3] && data.windows.find((moving) => moving[0] === bar[0]);
  const cells = bar[8].reduce((sum, count, at) => sum + (at % 2 ? count : 0), 0);
  const begin = data.base + bar[1], end = data.base + bar[2];
  return `job ${bar[0]} of ${data.users[bar[4]]}, ${data.states[bar[7]]}${bar[3] ? " (planned)" : ""}\n${shortDate(begin)} to ${shortDate(end)} (${length(end - begin)})\n${cells} resources, queue ${data.queues[bar[5]]}${room ? `\nmay move between ${shortDate(data.base + room[1])} and ${shortDate(data.base + room[2])}` : ""}`;
}

let drag = null;
canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from: view.from, to: view.to, far: false }; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointermove", (event) => {
  if (!data) return;
  if (drag) {
    const by = (event.clientX - drag.x) / (drawing.clientWidth - left()) * (drag.to - drag.from);
    if (Math.abs(event.clientX - drag.x) > 3) drag.far = true;
    if (drag.far) { view.from = drag.from - by; view.to = drag.to - by; tip(""); draw(); }
    return;
  }
  const { x, y, hit } = found(event);
  canvas.style.cursor = hit >= 0 || x < left() ? "pointer" : "grab";
  tip([hit >= 0 ? barText(hit) : "", place(x, y)].filter(Boolean).join("\n"), x, y);
});
canvas.addEventListener("pointerup", (event) => {
  const was = drag;
  drag = null;
  if (!data || !was) return;
  if (was.far) return moved();
  const { x, y, hit } = found(event);
  if (hit >= 0) return location.assign(`${drawing.dataset.jobs}/${data.bars[hit][0]}`);
  if (x < left() && y > HEAD) {
    const column = drawing.columns.find((strip) => x >= strip.x && x < strip.end);
    const place = toPlace(y, canvas.clientHeight);
    const block = column && column.blocks.find((candidate) => place >= candidate.first && place < candidate.end);
    if (block) { crumbs = crumbs.filter((crumb) => crumb.first <= block.first && crumb.end >= block.end && crumb.end - crumb.first > block.end - block.first); crumbs.push(block); rows(block); }
  }
});
canvas.addEventListener("pointerleave", () => tip(""));
canvas.addEventListener("wheel", (event) => {
  if (!data || !(event.ctrlKey || event.metaKey || event.shiftKey)) return;
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  if (event.shiftKey && !event.ctrlKey) shift((event.deltaY || event.deltaX) > 0 ? 0.15 : -0.15);
  else zoom(event.deltaY > 0 ? 1.25 : 0.8, toTime(event.clientX - box.left, drawing.clientWidth));
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  if (!data) return;
  const order = data.bars.map((bar, place) => place).filter((place) => data.base + data.bars[place][2] > view.from && data.base + data.bars[place][1] < view.to).reverse();
  const next = (step) => {
    if (!order.length) return;
    chosen = order[(order.indexOf(chosen) + step + order.length) % order.length];
    spoken.textContent = barText(chosen);
    draw();
    const rect = rects.find((shape) => shape[4] === chosen);
    if (rect) tip(spoken.textContent, Math.max(rect[0], left()), rect[1]);
  };
  const keys = {
    ArrowLeft: () => shift(-0.2), ArrowRight: () => shift(0.2), "+": () => zoom(0.6), "-": () => zoom(1.6), "=": () => zoom(0.6),
    ArrowDown: () => next(1), ArrowUp: () => next(-1), Escape: () => { chosen = -1; tip(""); draw(); },
    Enter: () => { if (chosen >= 0) location.assign(`${drawing.dataset.jobs}/${data.bars[chosen][0]}`); },
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
for (const button of document.querySelectorAll("[data-gantt-do]")) {
  button.addEventListener("click", () => {
    const action = button.dataset.ganttDo;
    if (action === "in") zoom(0.5);
    else if (action === "out") zoom(2);
    else if (action === "back") shift(-0.5);
    else if (action === "on") shift(0.5);
    else { const half = (view.to - view.from) / 2, now = Date.now() / 1000; view.from = now - half; view.to = now + half; moved(); }
  });
}
by.addEventListener("change", draw);
window.addEventListener("oarpy:theme", draw);
window.addEventListener("oarpy:changed", () => { if (!drag) fetchBars(); });
setInterval(() => { if (!document.hidden && !drag) draw(); }, 30000);
let wide = 0;
new ResizeObserver(() => { if (drawing.clientWidth !== wide) { wide = drawing.clientWidth; draw(); } }).observe(drawing);
fetchBars();
