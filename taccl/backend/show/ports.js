// How busy each port is over time, the busiest first, and above them how many sends are under way.

const PORT_ROW = 13;
const FLOW = 46;
const MOST_PORTS = 32;
const portsCanvas = document.getElementById("ports");
const portRows = [];
let allPorts = false;

function findPorts() {
  if (!topology) return;
  const uses = new Map();
  for (const bar of sends) {
    if (bars.link[bar] < 0) continue;
    for (const port of topology.ports[bars.link[bar]]) {
      if (!uses.has(port)) uses.set(port, { port, busy: 0, list: [], longest: 0 });
      const use = uses.get(port);
      use.list.push(bar);
      use.busy += portFreeAt(bar, port) - bars.start[bar];
      use.longest = Math.max(use.longest, bars.end[bar] - bars.start[bar]);
    }
  }
  for (const use of uses.values()) {
    use.list.sort((a, b) => bars.start[a] - bars.start[b]);
    portRows.push(use);
  }
  portRows.sort((a, b) => b.busy - a.busy || a.port - b.port);
}

// Short where there is little room: 0.gpu1→0.gpu2.
function portName(port) {
  const name = topology.portNames[port];
  return GUTTER < 150 ? name.replace(/\bnode(\d+)\./g, "$1.").replace(" -> ", "→") : name;
}

function drawPorts() {
  const rows = allPorts ? portRows : portRows.slice(0, MOST_PORTS);
  const top = 22 + FLOW;
  const { pen, width, height } = prepare(portsCanvas, top + rows.length * PORT_ROW + 3);
  drawAxis(pen, width, height, 22);
  drawFlow(pen, width);
  rows.forEach((use, row) => {
    const y = top + row * PORT_ROW;
    pen.fillStyle = colour("band");
    pen.fillRect(GUTTER, y + 1, width - GUTTER, PORT_ROW - 2);
    pen.fillStyle = colour("soft");
    pen.textAlign = "left";
    pen.fillText(portName(use.port), 6, y + PORT_ROW / 2, GUTTER - 58);
    pen.textAlign = "right";
    pen.fillStyle = colour("ink");
    pen.fillText(percent(use.busy / span), GUTTER - 6, y + PORT_ROW / 2);
    pen.textAlign = "left";
    drawUses(pen, width, y, use);
  });
}

function drawUses(pen, width, y, use) {
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, y, width - GUTTER, PORT_ROW);
  pen.clip();
  pen.fillStyle = colour("accent");
  let last = -1;
  for (let i = firstFrom(use.list, 0, use.list.length, view.t0 - use.longest); i < use.list.length; i++) {
    const bar = use.list[i];
    if (bars.start[bar] > view.t1) break;
    const x = toX(bars.start[bar], width);
    const w = Math.max(1, toX(portFreeAt(bar, use.port), width) - x - (i + 1 < use.list.length ? 0.6 : 0));
    if (w <= 1 && Math.floor(x) === last) continue;
    last = Math.floor(x);
    pen.fillRect(x, y + 2, w, PORT_ROW - 4);
  }
  pen.restore();
}

// Sends under way, averaged over each pixel.
function drawFlow(pen, width) {
  const pixels = Math.max(1, Math.floor(width - GUTTER));
  const slope = new Float64Array(pixels + 2);
  const scale = pixels / (view.t1 - view.t0);
  const add = (position, amount) => {
    const pixel = Math.min(pixels, Math.max(0, Math.floor(position)));
    const share = position >= pixels ? 0 : position <= 0 ? 1 : 1 - (position - pixel);
    slope[pixel] += amount * share;
    slope[pixel + 1] += amount * (1 - share);
  };
  for (const bar of sends) {
    if (bars.end[bar] <= view.t0 || bars.start[bar] >= view.t1) continue;
    add((bars.start[bar] - view.t0) * scale, 1);
    add((bars.end[bar] - view.t0) * scale, -1);
  }
  const flow = new Float64Array(pixels);
  let sum = 0;
  let most = 1;
  for (let pixel = 0; pixel < pixels; pixel++) {
    sum += slope[pixel];
    flow[pixel] = sum;
    most = Math.max(most, sum);
  }
  pen.fillStyle = colour("load-mid");
  pen.globalAlpha = 0.75;
  for (let pixel = 0; pixel < pixels; pixel++) {
    const h = ((FLOW - 8) * flow[pixel]) / most;
    pen.fillRect(GUTTER + pixel, 22 + FLOW - 4 - h, 1, h);
  }
  pen.globalAlpha = 1;
  pen.fillStyle = colour("soft");
  pen.fillText("sends under way", 6, 22 + FLOW / 2 - 7);
  pen.fillText(`at most ${Math.round(most)} here`, 6, 22 + FLOW / 2 + 8);
}

portsCanvas.addEventListener("pointermove", (event) => {
  const box = portsCanvas.getBoundingClientRect();
  const use = portRows[Math.floor((event.clientY - box.top - 22 - FLOW) / PORT_ROW)];
  const rows = allPorts ? portRows.length : Math.min(MOST_PORTS, portRows.length);
  if (!use || portRows.indexOf(use) >= rows) return hideTip();
  showTip(event, `port ${topology.portNames[use.port]}`, [
    ["busy", `${time(use.busy)}, ${percent(use.busy / span)} of the time`],
    ["sends", String(use.list.length)],
    ["links", String(topology.ports.filter((ports) => ports.includes(use.port)).length)],
  ]);
});
portsCanvas.addEventListener("pointerleave", hideTip);
