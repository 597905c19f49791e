// What all drawings of a timeline share: the window of time, its axis, and colours of ranks.

const GUTTER = innerWidth < 600 ? 128 : 184;
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

// More ranks than `EIGHT` has colours go round the wheel in three shades.
function sourceColour(rank) {
  if (rank < 0) return isDark() ? "#8b95a1" : "#7a838d";
  if (numRanks <= EIGHT.length) return EIGHT[rank];
  const light = (isDark() ? [62, 74, 52] : [46, 60, 36])[rank % 3];
  return `hsl(${Math.round((360 * rank) / numRanks)} 68% ${light}%)`;
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
