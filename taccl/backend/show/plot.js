// What all drawings share: the window of time, colours, sharp canvases, the tooltip.

const GUTTER = 184;
const span = data.span > 0 ? data.span : 1;
const view = { t0: 0, t1: span };
// Drawings along the axis of time, and those that the window does not concern.
const drawings = { inTime: [], still: [] };
const stale = new Set();

function redraw(which = [...drawings.inTime, ...drawings.still]) {
  if (!stale.size)
    requestAnimationFrame(() => {
      const wanted = [...stale];
      stale.clear();
      for (const draw of wanted) draw();
    });
  for (const draw of which) stale.add(draw);
}

function look(t0, t1) {
  const width = Math.min(span, Math.max(t1 - t0, span * 1e-6));
  const margin = 0.02 * width;
  view.t0 = Math.min(Math.max(t0, -margin), span - width + margin);
  view.t1 = view.t0 + width;
  redraw(drawings.inTime);
}

function zoom(factor, at = (view.t0 + view.t1) / 2) {
  look(at - (at - view.t0) * factor, at + (view.t1 - at) * factor);
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : systemIsDark.matches;
};

// Up to eight colours that are told apart by most eyes; more ranks go round the wheel in three shades.
const EIGHT = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a600", "#7f6bd6"];
function sourceColour(rank) {
  if (rank < 0) return isDark() ? "#8b95a1" : "#7a838d";
  if (numRanks <= EIGHT.length) return EIGHT[rank];
  const light = (isDark() ? [62, 74, 52] : [46, 60, 36])[rank % 3];
  return `hsl(${Math.round((360 * rank) / numRanks)} 68% ${light}%)`;
}

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

const toX = (t, width) => GUTTER + ((t - view.t0) / (view.t1 - view.t0)) * (width - GUTTER);
const toTime = (x, width) => view.t0 + ((x - GUTTER) / (width - GUTTER)) * (view.t1 - view.t0);

function drawAxis(pen, width, height, top) {
  const rough = ((view.t1 - view.t0) / (width - GUTTER)) * 90;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((each) => each >= rough);
  pen.textAlign = "center";
  for (let t = Math.ceil(Math.max(0, view.t0) / step) * step; t <= Math.min(view.t1, span); t += step) {
    const x = toX(t, width);
    pen.fillStyle = colour("line");
    pen.fillRect(Math.round(x), top, 1, height - top);
    pen.fillStyle = colour("soft");
    if (x >= GUTTER && x < width - 20) pen.fillText(trim(t), x, top / 2);
  }
  pen.textAlign = "left";
  pen.fillStyle = colour("soft");
  pen.fillText(data.unit === "us" ? "time in us" : "steps", 6, top / 2);
}

// The first of the bars `list[from .. to]` (by start) that begins at `t` or later.
function firstFrom(list, from, to, t) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (bars.start[list ? list[middle] : middle] < t) from = middle + 1;
    else to = middle;
  }
  return from;
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
