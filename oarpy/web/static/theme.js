// The switch between the system's colours, light and dark; the choice is a cookie, so that pages come in their colours.
const button = document.querySelector("[data-theme-switch]");
const order = ["auto", "light", "dark"];
const root = document.documentElement;

function show(theme) {
  if (theme === "auto") root.removeAttribute("data-theme");
  else root.dataset.theme = theme;
  button.textContent = { auto: "◐", light: "○", dark: "●" }[theme];
  button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  button.title = `Colours: ${theme}`;
  window.dispatchEvent(new Event("oarpy:theme"));
}

if (button) {
  let theme = root.dataset.theme || "auto";
  show(theme);
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    document.cookie = `oarpy_theme=${theme}; path=${root.dataset.base || "/"}; max-age=31536000; samesite=strict`;
    show(theme);
  });
}
