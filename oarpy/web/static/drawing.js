// What the drawings share: sharp canvases, colours of jobs, a tip at the pointer.
export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function palette() {
  const names = ["ground", "surface", "raised", "line", "line-soft", "ink", "muted", "accent", "now",
    "cell-free", "cell-drain", "cell-absent", "cell-sleep", "cell-suspect", "cell-dead", "job-s", "job-l", "run", "wait", "error", "done", "launch", "hold", "stop"];
  return Object.fromEntries(names.map((name) => [name, style(`--${name}`)]));
}

export function hash(text) {
  let value = 2166136261;
  for (const letter of String(text)) value = Math.imul(value ^ letter.charCodeAt(0), 16777619);
  return value >>> 0;
}

// neighbours get hues far apart
export function colour(key, colours) {
  const number = typeof key === "number" ? key : hash(key);
  const hue = (number * 137.508) % 360;
  const lightness = parseFloat(colours["job-l"]) + ((number * 7) % 3 - 1) * 6;
  return `hsl(${hue.toFixed(0)} ${colours["job-s"]} ${lightness.toFixed(0)}%)`;
}

export function sized(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export function tipOf(drawing) {
  const tip = drawing.querySelector(".tip");
  return (text, x, y) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const width = drawing.clientWidth;
    tip.style.left = `${Math.max(0, Math.min(x + 14, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 16}px`;
  };
}

export const two = (number) => String(number).padStart(2, "0");
// as the reader's language and time zone have it
export function shortDate(seconds) {
  return new Date(seconds * 1000).toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}
export function length(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}
