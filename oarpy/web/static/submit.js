// The form to submit: the scheduler's answer to it comes as one types, and the script has numbers of lines.
import { dates } from "./dates.js";

const form = document.querySelector("[data-submission]");
const shown = form.querySelector("[data-part]");
const script = form.elements.script;
const numbers = form.querySelector(".numbers");
const PAUSE = 450; // milliseconds without a key before the scheduler is asked
let due = null;
let asking = false;
let changed = false;

function soon() {
  changed = true;
  clearTimeout(due);
  due = setTimeout(ask, PAUSE);
}

// one question at a time: what was typed meanwhile is the next
async function ask() {
  if (asking) return;
  asking = true;
  changed = false;
  shown.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.dataset.submission, { method: "POST", body: new FormData(form), credentials: "same-origin", headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-part]") || page.querySelector("main");
    if (fresh && !changed) { shown.replaceChildren(...fresh.childNodes); dates(shown); }
  } catch { /* the button asks too */ }
  shown.removeAttribute("aria-busy");
  asking = false;
  if (changed) soon();
}

function count() {
  const lines = script.value.split("\n").length;
  if (numbers.childElementCount !== lines) {
    numbers.replaceChildren(...Array.from({ length: lines }, (_, at) => {
      const number = document.createElement("span");
      number.textContent = at + 1;
      return number;
    }));
  }
  numbers.scrollTop = script.scrollTop;
}

form.addEventListener("input", soon);
script.addEventListener("input", count);
script.addEventListener("scroll", () => { numbers.scrollTop = script.scrollTop; });
count();
if (script.value.trim().split("\n").length > 1) soon();
