// A chart over sizes: axes, curves, a dot for each point that can be opened.

const AROUND = { left: 54, right: 12, top: 10, bottom: 40 };

const sizeWords = (bytes) => size(bytes).replace(" ", "");
const figure = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x >= 1 ? x.toFixed(2) : String(Number(x.toPrecision(2))));

// Round values in a range: on a log axis 1, 2 and 5 times powers of ten, or these powers alone.
function ticksOf(low, high, log, many) {
  if (log) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const first of [1, 2, 5]) all.push({ at: first * 10 ** power, first });
    const inside = all.filter((tick) => tick.at >= low * 0.999 && tick.at <= high * 1.001);
    const tens = inside.filter((tick) => tick.first === 1);
    return (inside.length > many && tens.length > 1 ? tens : inside).map((tick) => tick.at);
  }
  const rough = (high - low) / many || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((first) => first * power).find((each) => each >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high * 1.0001; at += step) ticks.push(Number(at.toPrecision(9)));
  return ticks;
}

// All of what is known; of bounds, which may be far off, as much as is near it.
const FAR = 4;
function rangeOf(chart) {
  const known = (values) => values.filter((value) => Number.isFinite(value) && (!chart.log || value > 0));
  const of = (look) => known(chart.curves.filter((curve) => (curve.look === "bound") === look).flatMap((curve) => curve.values));
  const values = [...of(false), ...known((chart.stems ?? []).map((stem) => stem.value))];
  if (!values.length) return chart.log ? [0.1, 1] : [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (!chart.log) return [0, high * 1.08 || 1];
  const bounds = of(true);
  return [Math.max(Math.min(low, ...bounds), low / FAR) / 1.25, Math.min(Math.max(high, ...bounds), high * FAR) * 1.25];
}

// chart: {label, unit, sizes, log, height, curves: [{name, look, values}], stems, dots (values), describe, pick, isOpen}
function drawChart(host, chart) {
  let current = 0;
  const [low, high] = rangeOf(chart);
  const draw = (width = host.clientWidth) => {
    if (!width) return;
    const { height } = chart;
    const [w, h] = [width - AROUND.left - AROUND.right, height - AROUND.top - AROUND.bottom];
    const last = Math.max(1, chart.sizes.length - 1);
    const logs = chart.sizes.map((bytes) => Math.log2(bytes));
    const x = (place) => AROUND.left + 8 + ((w - 16) * (logs[place] - logs[0])) / (logs[last] - logs[0] || 1);
    const part = (value) => (chart.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    const y = (value) => AROUND.top + h * (1 - part(value));
    const picture = svg("svg", { class: "chart", width, height, role: "group", "aria-label": `${chart.label} over size` });
    drawAxes(picture, chart, { width, height, w, h, x, y, low, high });
    const cross = svg("line", { class: "cross", y1: AROUND.top, y2: AROUND.top + h, visibility: "hidden" });
    picture.append(cross);
    const inner = { x: AROUND.left, y: AROUND.top, width: w, height: h };
    const lines = svg("svg", { ...inner, viewBox: Object.values(inner).join(" ") });
    picture.append(lines);
    for (const curve of chart.curves) drawCurve(lines, curve, x, y);
    for (const stem of chart.stems ?? []) drawStem(picture, stem, x, y, AROUND.top + h);
    const nearest = (event) => {
      const at = event.clientX - picture.getBoundingClientRect().left;
      return logs.reduce((best, _, place) => (Math.abs(x(place) - at) < Math.abs(x(best) - at) ? place : best), 0);
    };
    picture.addEventListener("pointermove", (event) => {
      const place = nearest(event);
      cross.setAttribute("x1", x(place));
      cross.setAttribute("x2", x(place));
      cross.setAttribute("visibility", "visible");
      const line = event.target.dataset?.name;
      const [title, rows] = chart.describe(place);
      showTip(event, title, line ? [...rows, ["this line", line]] : rows);
    });
    picture.addEventListener("pointerleave", () => {
      cross.setAttribute("visibility", "hidden");
      hideTip();
    });
    if (chart.pick) {
      picture.addEventListener("click", (event) => chart.pick(nearest(event)));
      drawDots(picture, chart, x, y, current, (place) => { current = place; });
    }
    host.replaceChildren(picture);
  };
  whenResized(host, draw);
  return draw;
}

function drawAxes(picture, chart, { width, height, w, h, x, y, low, high }) {
  const bottom = AROUND.top + h;
  for (const value of ticksOf(low, high, chart.log, Math.max(3, h / 34))) {
    picture.append(svg("line", { class: "rule", x1: AROUND.left, x2: AROUND.left + w, y1: y(value), y2: y(value) }));
    picture.append(svg("text", { x: AROUND.left - 6, y: y(value) + 4, "text-anchor": "end" }, `${trim(value)}`));
  }
  picture.append(svg("path", { class: "axis", d: `M${AROUND.left} ${AROUND.top}V${bottom}H${AROUND.left + w}` }));
  const places = Math.max(1, Math.floor(w / 52));
  const stride = Math.ceil(chart.sizes.length / places);
  chart.sizes.forEach((bytes, place) => {
    const at = x(place);
    const words = sizeWords(bytes);
    picture.append(svg("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }));
    if (place % stride || at + 3.5 * words.length > width) return;
    picture.append(svg("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, words));
  });
  picture.append(svg("text", { x: AROUND.left + w / 2, y: height - 5, "text-anchor": "middle" }, "size of the call"));
  const up = { transform: `translate(12 ${AROUND.top + h / 2}) rotate(-90)`, "text-anchor": "middle" };
  picture.append(svg("text", up, chart.unit));
}

function drawCurve(picture, curve, x, y) {
  let path = "";
  let pen = "M";
  curve.values.forEach((value, place) => {
    if (!Number.isFinite(value) || value <= 0) {
      pen = "M";
      return;
    }
    path += `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  const line = svg("path", { class: `curve ${curve.look}`, d: path || "M0 0" });
  if (curve.colour) line.setAttribute("style", `stroke:${curve.colour}`);
  const thread = svg("path", { class: "thread", d: path || "M0 0", "data-name": curve.name });
  thread.addEventListener("pointerenter", () => line.classList.add("near"));
  thread.addEventListener("pointerleave", () => line.classList.remove("near"));
  picture.append(line, thread);
}

function drawStem(picture, stem, x, y, bottom) {
  const [at, top] = [x(stem.place), y(stem.value)];
  picture.append(svg("line", { class: "stem", x1: at, x2: at, y1: bottom, y2: top }));
  picture.append(svg("circle", { class: "dot", cx: at, cy: top, r: 4 }));
}

// One stop of the tab key for all dots; arrows go from dot to dot.
function drawDots(picture, chart, x, y, current, remember) {
  const dots = [];
  const go = (place) => {
    const dot = dots[Math.max(0, Math.min(dots.length - 1, place))];
    for (const other of dots) other?.setAttribute("tabindex", other === dot ? "0" : "-1");
    dot?.focus();
  };
  const shown = chart.dots.map((value, place) => ({ value, place })).filter((dot) => Number.isFinite(dot.value) && dot.value > 0);
  shown.forEach(({ value, place }, number) => {
    const [title, rows] = chart.describe(place);
    const dot = svg("circle", {
      class: `dot${chart.isOpen(place) ? " open" : ""}`, cx: x(place), cy: y(value), r: 4.5, role: "button",
      tabindex: place === current || (number === 0 && !shown.some((each) => each.place === current)) ? 0 : -1,
      "aria-label": `${title}: ${rows.map((row) => row.join(" ")).join(", ")}. Open its timeline.`, "data-place": place,
    });
    dots.push(dot);
    dot.addEventListener("focus", () => {
      remember(place);
      const box = dot.getBoundingClientRect();
      showTip({ clientX: box.right, clientY: box.bottom }, title, rows);
    });
    dot.addEventListener("blur", hideTip);
    dot.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: number - 1, ArrowRight: number + 1, Home: 0, End: shown.length - 1 }[event.key];
      if (to !== undefined) go(to);
      else if (event.key === "Enter" || event.key === " ") chart.pick(place);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    picture.append(dot);
  });
}
