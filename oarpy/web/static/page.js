// What every page has: dates in the reader's time, parts that load later, questions before actions, keys.
import "./theme.js";
import "./live.js";
import { dates } from "./dates.js";
import { followAll } from "./follow.js";
import { hours } from "./hours.js";

async function load(part) {
  const pause = Number(part.dataset.loadPause || 0) * 1000; // what changes slowly is asked for seldom
  if (pause && Date.now() - Number(part.dataset.loaded || 0) < pause) return;
  part.dataset.loaded = String(Date.now());
  part.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(part.dataset.load, { credentials: "same-origin" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = fresh.querySelector("[data-part]") || fresh.querySelector("main");
    if (found) { part.replaceChildren(...found.childNodes); dates(part); hours(part); followAll(part); }
  } catch { /* the link in it leads there too */ }
  part.removeAttribute("aria-busy");
}

// what follows an output renews itself
function loadAll() { for (const part of document.querySelectorAll("[data-load]")) if (!part.querySelector("[data-follow]")) load(part); }

dates(document);
loadAll();
hours(document);
followAll(document);
window.addEventListener("oarpy:swapped", (event) => dates(event.detail));
let again = null;
window.addEventListener("oarpy:changed", () => {
  if (document.querySelector("[data-load]") && again === null) again = setTimeout(() => { again = null; loadAll(); }, 3000);
});

// a filter that is chosen applies at once; what is empty stays out of the address
for (const form of document.querySelectorAll("form[data-filters]")) {
  form.addEventListener("change", (event) => { if (event.target.matches("select")) form.requestSubmit(); });
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
}
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-filters] :disabled")) field.disabled = false;
});

// keys: g and a letter goes to a page, / to the first filter
let prefix = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (event.key === "/") {
    const field = document.querySelector("form[data-filters] input");
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === "g") { prefix = true; setTimeout(() => { prefix = false; }, 1000); }
  else if (prefix) { prefix = false; document.querySelector(`.top nav a[data-key="${CSS.escape(event.key)}"]`)?.click(); }
});
