"use strict";

// An element with attributes and children; text is text, never markup.
function make(tag, attributes = {}, ...children) {
  const vector = ["svg", "g", "rect", "path", "text", "title", "defs", "marker", "line", "circle", "polyline", "polygon", "tspan"];
  const made = vector.includes(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const plural = (count, thing) => {
  if (count === 1) return `1 ${thing}`;
  return `${count.toLocaleString("en")} ${thing.endsWith("y") ? thing.slice(0, -1) + "ies" : thing + "s"}`;
};

const short = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");

// The look: as the system has it, or light or dark, remembered where the browser allows.
function themeButton(button) {
  const looks = ["auto", "light", "dark"];
  let look = "auto";
  try { look = localStorage.getItem("motet-theme") || "auto"; } catch { /* no storage here */ }
  const show = () => {
    if (look === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = look;
    button.textContent = `Theme: ${look}`;
  };
  button.addEventListener("click", () => {
    look = looks[(looks.indexOf(look) + 1) % looks.length];
    try { localStorage.setItem("motet-theme", look); } catch { /* no storage here */ }
    show();
  });
  show();
}

// Arrow keys move among the buttons of a group, which is one stop of the Tab key.
function roving(group, selector, keys = ["ArrowUp", "ArrowDown"]) {
  const items = () => [...group.querySelectorAll(selector)].filter((item) => item.offsetParent !== null);
  const settle = () => {
    const all = items();
    if (all.length && !all.some((item) => item.tabIndex === 0)) all[0].tabIndex = 0;
  };
  group.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { [keys[0]]: at - 1, [keys[1]]: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = all[Math.min(Math.max(to, 0), all.length - 1)];
    next.focus();
  });
  group.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (!item) return;
    for (const other of group.querySelectorAll(selector)) other.tabIndex = other === item ? 0 : -1;
  });
  settle();
  return settle;
}
