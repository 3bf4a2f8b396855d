// Plots of hours: days begin where the reader's do, and what an hour says has its date.
const SVG = "http://www.w3.org/2000/svg", LEFT = 50, RIGHT = 595;

export function hours(within) {
  for (const plot of within.querySelectorAll("svg[data-hours]")) {
    const begin = Number(plot.dataset.begin), end = Number(plot.dataset.end);
    const first = new Date(begin * 1000);
    for (let day = 1; ; day++) {
      const date = new Date(first.getFullYear(), first.getMonth(), first.getDate() + day), at = date.getTime() / 1000;
      if (at > end) break;
      const x = (LEFT + (at - begin) / (end - begin) * (RIGHT - LEFT)).toFixed(1);
      plot.append(part("line", { class: "day", x1: x, x2: x, y1: 10, y2: 176 }));
      if (RIGHT - x > 42) plot.append(part("text", { x: Number(x) + 3, y: 190 }, date.toLocaleDateString(undefined, { day: "numeric", month: "short" })));
    }
    for (const title of plot.querySelectorAll("title[data-at]")) {
      const at = new Date(Number(title.dataset.at) * 1000);
      title.textContent = `${at.toLocaleString(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })}: ${title.textContent}`;
    }
  }
}

function part(name, values, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}
