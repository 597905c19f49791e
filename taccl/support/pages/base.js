// What all pages share: errors that are seen, the data, numbers in words, colours, sharp canvases, the tooltip.

const report = (message) => {
  const errors = JSON.parse(document.body.dataset.errors || "[]");
  document.body.dataset.errors = JSON.stringify([...errors, String(message)]);
};
window.addEventListener("error", (event) => report(event.message));
window.addEventListener("unhandledrejection", (event) => report(event.reason));
window.addEventListener("securitypolicyviolation", (event) => report(event.violatedDirective));

const pageData = JSON.parse(document.getElementById("data").textContent);

const trim = (x) => String(Number(x.toPrecision(7)));
const percent = (x) => `${(100 * x).toFixed(1)}%`;
const size = (bytes) => {
  for (const [unit, name] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "KB"]])
    if (bytes >= unit) return `${trim(bytes / unit)} ${name}`;
  return `${trim(bytes)} bytes`;
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : systemIsDark.matches;
};

// Whoever draws with colours hears "recolour" at the document.
const recolour = () => document.dispatchEvent(new Event("recolour"));
systemIsDark.addEventListener("change", recolour);
document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  recolour();
});

// Up to eight colours that are told apart by most eyes.
const EIGHT = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a600", "#7f6bd6"];

function prepare(canvas, height) {
  const width = canvas.clientWidth || 800;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colour("paper");
  pen.fillRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  return { pen, width, height };
}

const swatch = document.createElement("canvas").getContext("2d");
function hex(name) {
  swatch.fillStyle = name;
  return parseInt(swatch.fillStyle.slice(1), 16);
}
function textOn(fill) {
  const [r, g, b] = [16, 8, 0].map((shift) => (hex(fill) >> shift) & 255);
  return 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#000" : "#fff";
}
// A colour laid over another with some opacity, as one opaque colour: much faster to draw with.
function mixed(over, under, opacity) {
  const [a, b] = [hex(over), hex(under)];
  const mix = (shift) => Math.round(((a >> shift) & 255) * opacity + ((b >> shift) & 255) * (1 - opacity));
  return `#${((1 << 24) | (mix(16) << 16) | (mix(8) << 8) | mix(0)).toString(16).slice(1)}`;
}

function loadColour(share) {
  const stops = ["load-low", "load-mid", "load-high"].map((name) => parseInt(colour(name).slice(1), 16));
  const at = Math.min(0.9999, Math.max(0, share)) * 2;
  const [from, to] = [stops[Math.floor(at)], stops[Math.floor(at) + 1]];
  const mix = (shift) => {
    const [p, q] = [(from >> shift) & 255, (to >> shift) & 255];
    return Math.round(p + (q - p) * (at % 1));
  };
  return `rgb(${mix(16)} ${mix(8)} ${mix(0)})`;
}

function drawLoadScale(canvas) {
  const { pen, width } = prepare(canvas, 12);
  for (let x = 0; x < width; x++) {
    pen.fillStyle = loadColour(x / width);
    pen.fillRect(x, 0, 1, 12);
  }
}

const tip = document.getElementById("tip");
function showTip(event, title, rows) {
  tip.replaceChildren();
  const heading = document.createElement("b");
  heading.textContent = title;
  const table = document.createElement("table");
  for (const [label, value] of rows) {
    const row = table.insertRow();
    row.insertCell().textContent = label;
    row.insertCell().textContent = value;
  }
  tip.append(heading, table);
  tip.hidden = false;
  const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
  const below = event.clientY + 16 + tip.offsetHeight > innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16)}px`;
  tip.style.top = `${Math.max(4, below ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16)}px`;
}
const hideTip = () => { tip.hidden = true; };

function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function fillFacts(list, facts, keys = []) {
  for (const [label, value] of facts) {
    const box = html("div", keys.includes(label) ? { class: "key" } : {});
    box.append(html("dt", {}, label), html("dd", {}, value));
    list.append(box);
  }
}

function fillNotes(list, notes) {
  for (const note of notes) list.append(html("li", {}, note));
}

function fillTable(table, header, rows) {
  const head = html("tr", {}, ...header.map((words) => html("th", { scope: "col" }, words)));
  table.append(html("thead", {}, head), html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((cell) => html("td", {}, cell))))));
}
