// Ranks by node; links wide and warm where much goes over them.

const topologyCanvas = document.getElementById("topology");
const net = { links: [], most: 0, what: "", spots: [] };
const MOST_UNUSED = 800;

function findLoads() {
  const loads = new Map();
  for (const bar of sends) {
    const link = bars.link[bar];
    const src = link < 0 ? data.lanes.rank[bars.lane[bar]] : topology.src[link];
    const dst = link < 0 ? bars.peer[bar] : topology.dst[link];
    const key = src * numRanks + dst;
    if (!loads.has(key)) loads.set(key, { src, dst, load: 0, sends: 0, link });
    const one = loads.get(key);
    one.sends++;
    one.load += topology ? bars.end[bar] - bars.start[bar] : 1;
  }
  if (topology && topology.src.length <= loads.size + MOST_UNUSED) {
    topology.src.forEach((src, link) => {
      const key = src * numRanks + topology.dst[link];
      if (!loads.has(key)) loads.set(key, { src, dst: topology.dst[link], load: 0, sends: 0, link });
    });
  }
  net.links = [...loads.values()].sort((a, b) => a.load - b.load);
  net.most = Math.max(0, ...net.links.map((one) => one.load));
  net.what = topology ? "link in use, of the whole time" : "sends over a link";
}

function drawTopology() {
  const width = topologyCanvas.clientWidth || 800;
  const nodes = Math.max(...data.nodeOf, 0) + 1;
  const columns = Math.max(1, Math.min(nodes, Math.round(Math.sqrt((nodes * width) / 560))));
  const rows = Math.ceil(nodes / columns);
  const cell = Math.min(width / columns, nodes > 6 ? 320 : 430);
  const { pen } = prepare(topologyCanvas, rows * cell);
  const left = (width - columns * cell) / 2;
  placeRanks(nodes, columns, cell, left);
  pen.textAlign = "center";
  for (let node = 0; node < nodes; node++) {
    const [x, y] = [left + (node % columns) * cell, Math.floor(node / columns) * cell];
    pen.fillStyle = colour("panel");
    pen.strokeStyle = colour("line");
    pen.beginPath();
    pen.roundRect(x + 8, y + 8, cell - 16, cell - 16, 10);
    pen.fill();
    pen.stroke();
    pen.fillStyle = colour("soft");
    if (nodes > 1) pen.fillText(`node ${node}`, x + 34, y + 22);
  }
  for (const link of net.links) drawLink(pen, link, link === net.hover);
  if (net.hover) drawLink(pen, net.hover, true);
  net.spots.forEach((spot, rank) => {
    pen.fillStyle = sourceColour(rank);
    pen.beginPath();
    pen.arc(spot.x, spot.y, spot.r, 0, 2 * Math.PI);
    pen.fill();
    pen.strokeStyle = colour("paper");
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.fillStyle = textOn(sourceColour(rank));
    pen.font = `600 ${Math.max(8, Math.min(12, spot.r))}px system-ui, sans-serif`;
    if (spot.r >= 7) pen.fillText(String(rank), spot.x, spot.y + 0.5);
  });
  drawScale();
}

function placeRanks(nodes, columns, cell, left) {
  const members = Array.from({ length: nodes }, () => []);
  data.nodeOf.forEach((node, rank) => members[node].push(rank));
  net.spots = [];
  members.forEach((ranks, node) => {
    const middle = { x: left + (node % columns + 0.5) * cell, y: (Math.floor(node / columns) + 0.5) * cell };
    const radius = cell * 0.37;
    const r = Math.max(2.5, Math.min(13, (2.2 * radius) / Math.max(4, ranks.length)));
    ranks.forEach((rank, i) => {
      const angle = (2 * Math.PI * i) / ranks.length - Math.PI / 2;
      const away = ranks.length === 1 ? 0 : radius;
      net.spots[rank] = { x: middle.x + away * Math.cos(angle), y: middle.y + away * Math.sin(angle), r };
    });
  });
}

// Both directions of a link are bent to their right, so that they lie apart.
function curve(link) {
  const [a, b] = [net.spots[link.src], net.spots[link.dst]];
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const bend = 0.09;
  return { a, b, c: { x: (a.x + b.x) / 2 - dy * bend, y: (a.y + b.y) / 2 + dx * bend } };
}
const along = ({ a, b, c }, s) => ({
  x: (1 - s) * (1 - s) * a.x + 2 * s * (1 - s) * c.x + s * s * b.x,
  y: (1 - s) * (1 - s) * a.y + 2 * s * (1 - s) * c.y + s * s * b.y,
});

function drawLink(pen, link, bright) {
  const path = curve(link);
  const share = net.most ? link.load / net.most : 0;
  pen.strokeStyle = bright ? colour("strong") : loadColour(share);
  pen.globalAlpha = link.load || bright ? 1 : 0.45;
  pen.lineWidth = (bright ? 1.5 : 0.5) + 4 * share * Math.min(1, 12 / Math.sqrt(net.links.length));
  pen.beginPath();
  pen.moveTo(path.a.x, path.a.y);
  pen.quadraticCurveTo(path.c.x, path.c.y, path.b.x, path.b.y);
  pen.stroke();
  if (link.load && (bright || net.links.length <= 200)) {
    const [tail, head] = [along(path, 0.6), along(path, 0.66)];
    const angle = Math.atan2(head.y - tail.y, head.x - tail.x);
    const wing = 5 + 3 * share;
    pen.fillStyle = pen.strokeStyle;
    pen.beginPath();
    pen.moveTo(head.x + wing * Math.cos(angle), head.y + wing * Math.sin(angle));
    pen.lineTo(head.x + wing * Math.cos(angle + 2.5), head.y + wing * Math.sin(angle + 2.5));
    pen.lineTo(head.x + wing * Math.cos(angle - 2.5), head.y + wing * Math.sin(angle - 2.5));
    pen.fill();
  }
  pen.globalAlpha = 1;
}

function drawScale() {
  drawLoadScale(document.getElementById("load-scale"));
  document.getElementById("load-what").textContent = `${net.what}: 0`;
  document.getElementById("load-max").textContent = topology ? percent(net.most / span) : trim(net.most);
}

topologyCanvas.addEventListener("pointermove", (event) => {
  const box = topologyCanvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let nearest = 9;
  let found;
  for (const link of net.links) {
    const path = curve(link);
    for (let s = 0.15; s < 0.9; s += 0.05) {
      const spot = along(path, s);
      const away = Math.hypot(spot.x - x, spot.y - y);
      if (away < nearest) [nearest, found] = [away, link];
    }
  }
  if (found !== net.hover) {
    net.hover = found;
    redraw(drawings.still);
  }
  if (!found) return hideTip();
  const rows = [["sends", String(found.sends)]];
  if (topology) {
    rows.push(["in use", `${time(found.load)}, ${percent(found.load / span)} of the time`]);
    rows.push(["cost", `${trim(topology.alpha[found.link])} us + ${trim(topology.beta[found.link])} us/MB`]);
    rows.push(["ports", portsOf(found.link)]);
  }
  return showTip(event, `rank ${found.src} to rank ${found.dst}`, rows);
});
topologyCanvas.addEventListener("pointerleave", () => {
  net.hover = undefined;
  hideTip();
  redraw(drawings.still);
});
