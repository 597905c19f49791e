// Lanes of bars: rank by rank, thread block by thread block or link by link.

const TOP = 22;
const [RECEIVE, WAIT] = ["receive", "wait"].map((kind) => data.kinds.indexOf(kind));
const isPale = (bar) => bars.kind[bar] === RECEIVE || bars.kind[bar] === WAIT;
const timeline = document.getElementById("timeline");
const lanes = { top: 0, height: 16, visible: 1 };
const shown = { critical: true, source: -2, hover: -1 };

function tallest() {
  return Math.max(180, Math.round(innerHeight * 0.62));
}

function resetLanes() {
  lanes.top = 0;
  lanes.height = Math.max(4, Math.min(18, (tallest() - TOP) / Math.max(1, numLanes)));
}

function scrollLanes(by) {
  lanes.top = Math.max(0, Math.min(numLanes - lanes.visible, lanes.top + by));
  redraw(drawings.inTime);
}

// The height of a lane without the gap below it.
const room = () => (lanes.height > 7 ? lanes.height - 2 : 0.85 * lanes.height);

function place(bar, width) {
  const lane = bars.lane[bar];
  const each = room() / (tracksOfLane[lane] * bars.slots[bar]);
  const x = toX(bars.start[bar], width);
  return {
    x,
    y: TOP + (lane - lanes.top) * lanes.height + each * (bars.track[bar] * bars.slots[bar] + bars.slot[bar]),
    w: Math.max(1, toX(bars.end[bar], width) - x),
    h: Math.max(0.75, each),
  };
}

function drawTimeline() {
  const wanted = TOP + numLanes * lanes.height + 2;
  const { pen, width, height } = prepare(timeline, Math.max(90, Math.min(tallest(), wanted)));
  lanes.visible = (height - TOP) / lanes.height;
  lanes.top = Math.max(0, Math.min(numLanes - lanes.visible, lanes.top));
  drawBands(pen, width, height);
  drawAxis(pen, width, height, TOP);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, TOP, width - GUTTER, height - TOP);
  pen.clip();
  const look = theLook();
  const from = Math.floor(lanes.top);
  const to = Math.min(numLanes, Math.ceil(lanes.top + lanes.visible));
  for (let lane = from; lane < to; lane++) drawLane(pen, width, lane, look);
  if (shown.critical) drawCritical(pen, width);
  if (shown.hover >= 0) drawHover(pen, width);
  pen.restore();
  drawNames(pen, width, height);
}

function drawBands(pen, width, height) {
  pen.fillStyle = colour("band");
  for (let lane = Math.floor(lanes.top); lane < numLanes; lane++) {
    const y = TOP + (lane - lanes.top) * lanes.height;
    if (y > height) break;
    if (data.lanes.rank[lane] % 2) pen.fillRect(0, y, width, lanes.height);
  }
}

// Of bars narrower than a pixel, one per pixel and place is drawn.
function drawLane(pen, width, lane, look) {
  const end = firstOfLane[lane + 1];
  const each = room() / tracksOfLane[lane];
  const top = TOP + (lane - lanes.top) * lanes.height;
  const scale = (width - GUTTER) / (view.t1 - view.t0);
  let [last, row, style] = [-1, -1, ""];
  for (let bar = firstFrom(null, firstOfLane[lane], end, view.t0 - longestOfLane[lane]); bar < end; bar++) {
    if (bars.start[bar] > view.t1) break;
    if (bars.end[bar] < view.t0) continue;
    const x = GUTTER + (bars.start[bar] - view.t0) * scale;
    const w = Math.max(1, (bars.end[bar] - bars.start[bar]) * scale);
    const h = each / bars.slots[bar];
    const y = top + each * bars.track[bar] + h * bars.slot[bar];
    if (w <= 1) {
      if (Math.floor(x) === last && y === row) continue;
      [last, row] = [Math.floor(x), y];
    }
    const wanted = look.of(bar);
    if (wanted.fill !== style) pen.fillStyle = style = wanted.fill;
    const gap = w > 4 ? 0.5 : 0;
    if (h >= 5 && isPale(bar)) {
      pen.fillRect(x + gap, y, w - 2 * gap, 2);
      pen.fillStyle = style = wanted.pale;
    }
    pen.fillRect(x + gap, y, w - 2 * gap, Math.max(0.75, h > 3 ? h - 0.5 : h));
    if (w > 24 && h >= 9) {
      pen.fillStyle = style = isPale(bar) ? look.ink : wanted.text;
      pen.fillText(String(bars.number[bar]), Math.max(x, GUTTER) + 4, y + h / 2 + 0.5);
    }
  }
}

// Colours of all bars: full on the critical path and where no path is shown, fainter elsewhere,
// faintest where another source is picked out.
const looks = { of: null, dark: null };
function theLook() {
  if (looks.dark !== isDark()) Object.assign(looks, { of: makeLook(), dark: isDark() });
  return looks.of;
}
function makeLook() {
  const [paper, ink] = [colour("paper"), colour("ink")];
  const tints = (opacity, text) =>
    Array.from({ length: numRanks + 1 }, (_, rank) => ({
      fill: mixed(sourceColour(rank - 1), paper, opacity),
      pale: mixed(sourceColour(rank - 1), paper, opacity * 0.45),
      text: text || textOn(sourceColour(rank - 1)),
    }));
  const full = tints(1, null);
  const fainter = tints(0.62, ink);
  const faintest = tints(0.1, mixed(ink, paper, 0.25));
  const of = (bar) => {
    const source = bars.source[bar];
    if (shown.source >= -1 && source !== shown.source) return faintest[source + 1];
    return (shown.critical && !isCritical[bar] ? fainter : full)[source + 1];
  };
  return { of, ink };
}

// One frame round all chunks of a send, and a line from each send to the one that waited for it.
function drawCritical(pen, width) {
  const path = bars.critical
    .filter((bar) => bars.slot[bar] === 0)
    .sort((a, b) => bars.start[a] - bars.start[b] || bars.end[a] - bars.end[b]);
  pen.strokeStyle = colour("strong");
  pen.lineWidth = 1.5;
  for (const bar of path) {
    const at = place(bar, width);
    if (at.x + at.w < GUTTER || at.x > width) continue;
    pen.strokeRect(at.x + 0.75, at.y, Math.max(1, at.w - 1.5), at.h * bars.slots[bar]);
  }
  pen.lineWidth = 1;
  pen.setLineDash([3, 3]);
  pen.beginPath();
  for (let i = 1; i < path.length; i++) {
    const [before, after] = [place(path[i - 1], width), place(path[i], width)];
    pen.moveTo(Math.max(before.x, Math.min(before.x + before.w, after.x)), before.y + (before.h * bars.slots[path[i - 1]]) / 2);
    pen.lineTo(after.x, after.y + (after.h * bars.slots[path[i]]) / 2);
  }
  pen.stroke();
  pen.setLineDash([]);
}

function drawHover(pen, width) {
  const ends = [shown.hover, partner[shown.hover]].filter((bar) => bar >= 0).map((bar) => place(bar, width));
  pen.strokeStyle = colour("accent");
  pen.lineWidth = 2.5;
  for (const at of ends) pen.strokeRect(at.x, at.y, at.w, at.h);
  if (ends.length === 2) {
    pen.beginPath();
    pen.moveTo(ends[0].x + ends[0].w / 2, ends[0].y + ends[0].h / 2);
    pen.lineTo(ends[1].x + ends[1].w / 2, ends[1].y + ends[1].h / 2);
    pen.stroke();
  }
}

function drawNames(pen, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(0, TOP, width, height - TOP);
  pen.clip();
  const line = colour("line");
  let top = null;
  let free = TOP; // where the next name has room
  for (let lane = Math.floor(lanes.top); lane < numLanes; lane++) {
    const y = TOP + (lane - lanes.top) * lanes.height;
    if (y > height) break;
    const rank = data.lanes.rank[lane];
    if (lane === 0 || data.lanes.rank[lane - 1] !== rank || top === null) {
      top = Math.max(y, TOP);
      let last = lane;
      while (last + 1 < numLanes && data.lanes.rank[last + 1] === rank) last++;
      const bottom = Math.min(height, TOP + (last + 1 - lanes.top) * lanes.height);
      pen.fillStyle = line;
      if (lanes.height >= 8) pen.fillRect(0, y, width, 1);
      const middle = Math.min(top + 8, (top + bottom) / 2 + 1);
      if (bottom - top >= 9 || middle - 5 >= free) {
        free = middle + 7;
        pen.fillStyle = colour("ink");
        pen.font = "600 11px system-ui, sans-serif";
        pen.fillText(`rank ${rank}`, 6, middle);
        pen.font = "11px system-ui, sans-serif";
      }
    }
    if (lanes.height >= 10) {
      pen.fillStyle = colour("soft");
      pen.fillText(data.lanes.name[lane], 56, y + lanes.height / 2 + 0.5, GUTTER - 60);
    }
  }
  if (lanes.visible < numLanes - 0.01) {
    pen.fillStyle = colour("soft");
    const room = height - TOP;
    pen.fillRect(width - 4, TOP + (room * lanes.top) / numLanes, 4, (room * lanes.visible) / numLanes);
  }
  pen.restore();
}

function barAt(event) {
  const box = timeline.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const width = timeline.clientWidth;
  const lane = Math.floor(lanes.top + (y - TOP) / lanes.height);
  if (x < GUTTER || y < TOP || lane < 0 || lane >= numLanes) return -1;
  const t = toTime(x, width);
  const slack = ((view.t1 - view.t0) / (width - GUTTER)) * 2;
  let best = -1;
  let nearest = Infinity;
  const end = firstOfLane[lane + 1];
  for (let bar = firstFrom(null, firstOfLane[lane], end, t - longestOfLane[lane] - slack); bar < end; bar++) {
    if (bars.start[bar] > t + slack) break;
    if (bars.end[bar] < t - slack) continue;
    const at = place(bar, width);
    const away =
      Math.max(0, at.x - x, x - at.x - at.w) + 4 * Math.max(0, at.y - y, y - at.y - at.h);
    if (away < nearest) [best, nearest] = [bar, away];
  }
  return best;
}

function describeBar(bar) {
  const rank = data.lanes.rank[bars.lane[bar]];
  const kind = data.kinds[bars.kind[bar]];
  const rows = [];
  const link = bars.link[bar];
  if (kind === "transfer") rows.push(["chunk", String(bars.number[bar])], ["link", `rank ${rank} to rank ${bars.peer[bar]}`]);
  else {
    rows.push(["step", `${bars.number[bar]} of rank ${rank}, ${data.lanes.name[bars.lane[bar]]}`], ["does", kind]);
    if (link >= 0) rows.push(["link", `rank ${topology.src[link]} to rank ${topology.dst[link]}`]);
  }
  if (bars.slots[bar] > 1) rows.push(["together with", `${bars.slots[bar] - 1} more in one send`]);
  if (bars.bytes[bar] > 0) rows.push(["size", `${size(bars.bytes[bar])} (${Math.round(bars.bytes[bar])} bytes)`]);
  rows.push(["start", time(bars.start[bar])], ["end", time(bars.end[bar])]);
  if (data.unit === "us") rows.push(["takes", time(bars.end[bar] - bars.start[bar])]);
  if (link >= 0) {
    rows.push(["cost", `${trim(topology.alpha[link])} us + ${trim(topology.beta[link])} us/MB`]);
    rows.push(["ports", portsOf(link)]);
  }
  if (isCritical[bar]) rows.push(["", "on the critical path"]);
  return [data.labels[bars.label[bar]] || kind, rows];
}

let grip = null;
timeline.addEventListener("pointerdown", (event) => {
  grip = { x: event.clientX, y: event.clientY, t0: view.t0, t1: view.t1, top: lanes.top };
  timeline.setPointerCapture(event.pointerId);
  timeline.classList.add("dragging");
});
timeline.addEventListener("pointerup", () => {
  grip = null;
  timeline.classList.remove("dragging");
});
timeline.addEventListener("pointermove", (event) => {
  if (grip) {
    const by = ((grip.x - event.clientX) / (timeline.clientWidth - GUTTER)) * (grip.t1 - grip.t0);
    lanes.top = Math.max(0, Math.min(numLanes - lanes.visible, grip.top + (grip.y - event.clientY) / lanes.height));
    look(grip.t0 + by, grip.t1 + by);
    return;
  }
  const bar = barAt(event);
  if (bar !== shown.hover) {
    shown.hover = bar;
    redraw([drawTimeline]);
  }
  if (bar < 0) hideTip();
  else showTip(event, ...describeBar(bar));
});
timeline.addEventListener("pointerleave", () => {
  shown.hover = -1;
  hideTip();
  redraw([drawTimeline]);
});
timeline.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const by = event.deltaY || event.deltaX;
    if (event.shiftKey) scrollLanes((Math.sign(by) * 40) / lanes.height);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const t = (event.deltaX / timeline.clientWidth) * (view.t1 - view.t0);
      look(view.t0 + t, view.t1 + t);
    } else {
      const x = event.clientX - timeline.getBoundingClientRect().left;
      zoom(Math.exp(Math.max(-1, Math.min(1, by / 300))), toTime(Math.max(GUTTER, x), timeline.clientWidth));
    }
  },
  { passive: false },
);
