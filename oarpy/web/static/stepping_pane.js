// One run with some choices: its state as the server tells it, its charts and its table of jobs.
import { Chart } from "./stepping_chart.js";

const ROWS = 100;
const COLUMNS = [["Job", ""], ["Arrival", "number"], ["Estimate", "number"], ["Processors", "number"], ["State", ""], ["Cluster", ""], ["Start", "number"], ["End", "number"], ["Promised", "number"]];

export class Pane {
  constructor(host, ask, description, choices, zoomed, changed) {
    this.element = document.querySelector("[data-pane-template]").content.firstElementChild.cloneNode(true);
    host.append(this.element);
    Object.assign(this, { ask, zoomed, description, choices, jobs: [], over: [], past: new Map(), state: { now: null, steps: null }, charts: [], changed: new Set(), page: 0, before: new Map(), was: null });
    this.recorded = description.jobs.some((job) => job.recorded !== undefined && job.recorded !== null);
    this.build(changed);
  }

  find(what) { return this.element.querySelector(`[data-${what}]`); }

  build(changed) {
    for (const choice of this.description.choices) {
      if (this.choices[choice.key] === choice.value) delete this.choices[choice.key];
      const label = document.createElement("label"), select = document.createElement("select");
      label.className = "row small";
      label.append(choice.label, select);
      select.append(new Option(choice.value ? `${choice.value} (file)` : "as in the file", ""));
      for (const value of choice.values) if (value !== choice.value) select.append(new Option(value, value));
      select.value = this.choices[choice.key] ?? "";
      select.dataset.choice = choice.key;
      select.addEventListener("change", () => {
        if (select.value) this.choices[choice.key] = select.value; else delete this.choices[choice.key];
        this.forget();
        changed();
      });
      this.find("choices").append(label);
    }
    if (!this.description.choices.length) this.find("choices").closest(".panel").remove();
    this.find("show").addEventListener("change", () => { this.page = 0; this.table(); });
    for (const button of this.element.querySelectorAll("[data-page]")) button.addEventListener("click", () => { this.page += +button.dataset.page; this.table(); });
    const columns = this.recorded ? [...COLUMNS, ["Recorded", "number"]] : COLUMNS;
    const row = document.createElement("tr");
    row.append(...columns.map(([name, kind]) => Object.assign(document.createElement("th"), { textContent: name, className: kind, scope: "col" })));
    this.element.querySelector("thead").append(row);
  }

  // the run behind it is another one now, to be gone to where this one was
  forget() { Object.assign(this, { was: this.state.steps ?? this.was, jobs: [], over: [], past: new Map(), state: { now: null, steps: null }, before: new Map() }); }

  async go(wish) {
    const answer = await this.ask("go", { scenario: this.description.id, choices: this.choices, here: this.state.steps, over: this.over.length, ...wish });
    if (!answer.state) return answer; // on its way
    const bars = this.bars ? this.places() : null;
    if (answer.whole) { this.jobs = []; this.isOver(0, []); }
    for (const [place, entry] of Object.entries(answer.jobs)) this.jobs[place] = entry;
    this.isOver(Math.min(answer.since, answer.over.count), answer.over.bars);
    this.changed = new Set(answer.whole && !bars ? [] : Object.keys(answer.jobs).map((place) => this.jobs[place].id));
    Object.assign(this, { state: answer.state, event: answer.event, clusters: answer.clusters, broker: answer.broker, last: answer.last, before: bars ?? new Map() });
    return answer;
  }

  // what is over: so many bars as before, and others behind them; also by cluster
  isOver(count, others) {
    while (this.over.length > count) this.past.get(this.over.pop().cluster).pop();
    for (const bar of others) {
      bar.kind = "over";
      this.over.push(bar);
      if (!this.past.has(bar.cluster)) this.past.set(bar.cluster, []);
      this.past.get(bar.cluster).push(bar);
    }
  }

  // where jobs were: by cluster and job
  places() {
    const found = new Map();
    for (const [cluster, bars] of this.bars) for (const bar of bars) {
      const key = `${cluster} ${bar.job}`;
      found.set(key, [...(found.get(key) ?? []), bar]);
    }
    return found;
  }

  object() { return { now: this.state.now, steps: this.state.steps, jobs: this.jobs, ...Object.fromEntries(Object.entries(this.state).filter(([key]) => !["now", "steps"].includes(key))) }; }

  span() {
    let begin = Infinity, end = -Infinity;
    const grow = (bar) => { begin = Math.min(begin, bar.start); end = Math.max(end, bar.end); };
    this.over.forEach(grow);
    for (const cluster of this.clusters) { cluster.running.forEach(grow); cluster.planned.forEach(grow); }
    return begin < end ? [begin, end] : [0, 1];
  }

  show() {
    this.table();
    const kept = (bars, kind) => bars.map((bar) => ({ ...bar, kind }));
    this.bars = new Map(this.clusters.map((cluster) => [cluster.name, [...kept(cluster.running, "running"), ...kept(cluster.planned, "planned")]]));
    if (this.charts.length !== this.clusters.length) {
      this.charts = this.clusters.map((cluster) => new Chart(cluster.name, cluster.procs, this.zoomed));
      this.find("charts").replaceChildren(...this.charts.map((chart) => chart.element));
    }
    this.charts.forEach((chart, place) => {
      const cluster = this.clusters[place], bars = this.bars.get(cluster.name), over = this.past.get(cluster.name) ?? [];
      const before = [], marked = new Set(), now = new Map();
      for (const some of [over, bars]) for (const bar of some) if (this.changed.has(bar.job)) now.set(bar.job, [...(now.get(bar.job) ?? []), bar]);
      for (const id of this.changed) {
        const old = this.before.get(`${cluster.name} ${id}`) ?? [];
        if (JSON.stringify(old.map(spot)) === JSON.stringify((now.get(id) ?? []).map(spot))) continue;
        marked.add(id);
        before.push(...old);
      }
      chart.show(cluster, over, bars, before, marked, this.state.now);
    });
    this.find("broker").textContent = JSON.stringify(this.broker, null, 1);
  }

  table() {
    const wanted = { all: () => true, changed: (job) => this.changed.has(job.id), open: (job) => ["Submitted", "Waiting", "Running"].includes(job.state) }[this.find("show").value];
    const places = this.jobs.map((job, place) => place).filter((place) => wanted(this.jobs[place]));
    this.page = Math.max(0, Math.min(this.page, Math.ceil(places.length / ROWS) - 1));
    const some = places.slice(this.page * ROWS, (this.page + 1) * ROWS);
    this.find("range").textContent = places.length ? `${this.page * ROWS + 1} to ${this.page * ROWS + some.length} of ${places.length}` : "none";
    const body = this.element.querySelector("tbody");
    while (body.rows.length > some.length) body.lastElementChild.remove();
    while (body.rows.length < some.length) body.append(this.row());
    some.forEach((place, number) => this.fill(body.rows[number], this.jobs[place], this.description.jobs[place]));
  }

  row() {
    const row = document.createElement("tr");
    for (const [, kind] of this.recorded ? [...COLUMNS, ["Recorded", "number"]] : COLUMNS) row.append(Object.assign(document.createElement("td"), { className: kind }));
    return row;
  }

  // a step changes few of the rows
  fill(row, job, known) {
    row.classList.toggle("changed", this.changed.has(job.id));
    const where = job.clusters ?? (job.parts ? Object.entries(job.parts).map(([name, count]) => `${name} ${count}`) : [job.cluster ?? known.cluster]);
    const promised = job.promise ?? job.planned?.end ?? known.deadline;
    const cells = [job.id, known.submit, known.estimate, known.procs, job.state, where.filter(Boolean).join(", "), job.start, job.end, promised];
    if (this.recorded) cells.push(known.recorded);
    cells.forEach((value, place) => {
      const text = String(value ?? "–"), cell = row.cells[place];
      if (cell.textContent !== text) cell.textContent = text;
    });
  }
}

const spot = (bar) => [bar.start, bar.end, bar.rows];
