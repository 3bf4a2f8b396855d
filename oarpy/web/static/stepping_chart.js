// A Gantt chart of one cluster: what is over, runs and is planned; what changed is marked, its place before an outline.
import { colour, palette, sized, tipOf } from "./drawing.js";

const AXIS = 22;
const MOST = 280;
// what is over is drawn once, so many bars at a time
const PILE = 500;
let colours = null;
window.addEventListener("oarpy:theme", () => { colours = null; });

export class Chart {
  constructor(name, procs, zoomed) {
    this.element = document.createElement("section");
    this.element.className = "panel";
    this.element.setAttribute("aria-label", `Cluster ${name}`);
    this.element.innerHTML = '<header><h2></h2><p class="small muted"></p></header><div class="body tight drawing chart">'
      + '<canvas tabindex="0" role="img"></canvas><div class="tip" hidden></div></div>';
    this.element.querySelector("h2").textContent = name;
    this.canvas = this.element.querySelector("canvas");
    this.tip = tipOf(this.element.querySelector(".chart"));
    this.layer = document.createElement("canvas");
    Object.assign(this, { name, procs, zoomed, drawn: 0, key: "", height: Math.max(48, Math.min(MOST, procs * 14)) });
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.tip(""));
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoomed.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.time(event.offsetX));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -0.2, ArrowRight: 0.2 }[event.key];
      if (by) { event.preventDefault(); zoomed.move(by); }
    });
  }

  // `over`, `bars`: what is over, and what runs or is planned; `before`: places of jobs that changed; `changed`: their ids
  show(cluster, over, bars, before, changed, now) {
    Object.assign(this, { over, bars, before, changed, now });
    const waiting = cluster.queue.length;
    this.element.querySelector("p").textContent = `${this.procs} processors, ${cluster.running.length} running, ${waiting} waiting`;
    const text = bars.slice(0, 20).map((bar) => `${bar.job} ${bar.kind} from ${bar.start} to ${bar.end}`);
    this.canvas.setAttribute("aria-label", `${this.name}: ${text.join("; ") || "nothing runs or is planned"}. Left and right move in time.`);
    this.draw();
  }

  x(time) { return ((time - this.zoomed.begin) / (this.zoomed.end - this.zoomed.begin)) * this.width; }
  time(x) { return this.zoomed.begin + (x / this.width) * (this.zoomed.end - this.zoomed.begin); }
  boxes(bar) {
    const left = this.x(bar.start), width = Math.max(1, this.x(bar.end) - left), scale = this.height / this.procs;
    return bar.rows.map(([low, high]) => [left, (this.procs - high) * scale, width, Math.max(1, (high - low) * scale)]);
  }

  draw() {
    colours ??= palette();
    this.width = this.canvas.clientWidth || 600;
    const context = sized(this.canvas, this.width, this.height + AXIS);
    this.pile();
    context.drawImage(this.layer, 0, 0, this.width, this.height + AXIS);
    this.boxesOf(context, this.over.slice(this.drawn));
    this.boxesOf(context, this.bars);
    context.setLineDash([4, 3]);
    context.lineWidth = 1.5;
    context.strokeStyle = colours.accent;
    for (const bar of this.before) for (const [x, y, width, height] of this.boxes(bar)) context.strokeRect(x + 1, y + 1, width - 2, Math.max(1, height - 2));
    context.setLineDash([]);
    this.instant(context, colours);
  }

  // the ground and most of what is over stay as they are while the reader looks at the same time
  pile() {
    const wanted = this.over.length - (this.over.length % PILE);
    const key = [this.zoomed.begin, this.zoomed.end, this.width, window.devicePixelRatio, colours.ground].join();
    let context = this.layer.getContext("2d");
    if (key !== this.key || wanted < this.drawn) {
      context = sized(this.layer, this.width, this.height + AXIS);
      context.fillStyle = colours.ground;
      context.fillRect(0, 0, this.width, this.height);
      this.axis(context, colours);
      Object.assign(this, { key, drawn: 0 });
    }
    this.boxesOf(context, this.over.slice(this.drawn, wanted));
    this.drawn = wanted;
  }

  boxesOf(context, bars) {
    for (const bar of bars) {
      if (bar.end < this.zoomed.begin || bar.start > this.zoomed.end) continue;
      for (const box of this.boxes(bar)) this.box(context, bar, box);
    }
  }

  box(context, bar, [x, y, width, height]) {
    context.globalAlpha = bar.kind === "planned" ? 0.4 : bar.kind === "over" ? 0.7 : 1;
    context.fillStyle = colour(bar.job, colours);
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    if (width > 3 && height > 3) {
      context.lineWidth = 1;
      context.strokeStyle = colours.ground;
      context.strokeRect(x, y, width, height);
    }
    if (this.changed.has(bar.job) && bar.kind !== "over") {
      context.lineWidth = 2;
      context.strokeStyle = colours.accent;
      context.strokeRect(x + 1, y + 1, Math.max(1, width - 2), Math.max(1, height - 2));
    }
    if (width > 26 && height > 10) {
      context.fillStyle = colours.ink;
      context.font = "11px sans-serif";
      context.fillText(String(bar.job), x + 4, y + height / 2 + 4, width - 8);
    }
  }

  axis(context, colours) {
    context.fillStyle = colours.muted;
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.font = "11px sans-serif";
    for (const time of ticks(this.zoomed.begin, this.zoomed.end, this.width / 90)) {
      const x = Math.round(this.x(time)) + 0.5;
      context.beginPath(); context.moveTo(x, 0); context.lineTo(x, this.height + 4); context.stroke();
      const text = String(time);
      if (x + 3 + context.measureText(text).width < this.width) context.fillText(text, x + 3, this.height + 15);
    }
  }

  instant(context, colours) {
    if (this.now === null) return;
    const x = this.x(this.now);
    context.strokeStyle = colours.now;
    context.lineWidth = 2;
    context.beginPath(); context.moveTo(x, 0); context.lineTo(x, this.height + 4); context.stroke();
  }

  point(event) {
    const hit = this.bars && [...this.over, ...this.bars].findLast((bar) => this.boxes(bar).some(([x, y, width, height]) =>
      event.offsetX >= x && event.offsetX <= x + width && event.offsetY >= y && event.offsetY <= y + height));
    this.tip(hit ? `${hit.job}: ${hit.kind}, ${hit.start} to ${hit.end}` : "", event.offsetX, event.offsetY);
  }
}

export function ticks(begin, end, most) {
  const rough = (end - begin) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let place = Math.ceil(begin / step); place * step <= end; place++) found.push(+(place * step).toPrecision(12));
  return found;
}
