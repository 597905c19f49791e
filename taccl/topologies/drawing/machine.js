// A machine: a panel for each node with its switches, GPUs, bridges and NICs; below, what joins the nodes.

const MOST_NODES = 8;
const MARGIN = 12;
const RISE = 54; // between the rows of a node, for its links
const KINDS_OF_DEVICES = { gpu: "GPU", helper: "helper", switch: "switch", nic: "NIC", pcie: "PCIe bridge", fabric: "fabric" };
const WORDS = { gpu: "GPUs", helper: "helpers", switch: "switches", nic: "NICs", pcie: "PCIe", fabric: "the fabric" };
const BANDWIDTH_COLOURS = 5;

// Links in both directions as one pair, and the bandwidths that there are, the slowest first.
function readMachine(machine) {
  const pairs = new Map();
  machine.links.src.forEach((src, link) => {
    const dst = machine.links.dst[link];
    const key = src < dst ? `${src} ${dst}` : `${dst} ${src}`;
    if (!pairs.has(key)) pairs.set(key, { a: src, b: dst, links: [] });
    pairs.get(key).links.push(link);
  });
  const speeds = [...new Set(machine.links.gbps.map((speed) => speed ?? Infinity))].sort((a, b) => a - b);
  const degree = machine.devices.name.map(() => []);
  for (const pair of pairs.values()) {
    degree[pair.a].push(pair.b);
    degree[pair.b].push(pair.a);
  }
  return { ...machine, pairs: [...pairs.values()], speeds, next: degree };
}

const speedOf = (machine, link) => machine.links.gbps[link] ?? Infinity;
const speedWords = (speed) => (speed === Infinity ? "no limit" : `${trim(Number(speed.toPrecision(3)))} GB/s`);
// The fastest have the last colour; half as fast is the one before.
function speedClass(machine, speed) {
  const fastest = machine.speeds.at(-1);
  return speed === fastest ? BANDWIDTH_COLOURS : Math.max(1, BANDWIDTH_COLOURS - Math.round(Math.log2(fastest / speed)));
}

// Where everything is: a box {x, y, w, h} for each device that is shown.
function placeMachine(machine, width) {
  const devices = machine.devices;
  const all = [...new Set(devices.node.filter((node) => node >= 0))];
  const nodes = all.slice(0, MOST_NODES);
  const most = Math.max(...nodes.map((node) => devices.node.filter((of, i) => of === node && devices.kind[i] === "gpu").length));
  const least = Math.min(560, Math.max(230, most * 24 + 30));
  const columns = Math.max(1, Math.min(nodes.length, Math.floor((width + MARGIN) / (least + MARGIN))));
  const room = (width - (columns - 1) * MARGIN) / columns;
  const panelWidth = Math.min(room, Math.max(420, most * 46));
  const left = (width - columns * panelWidth - (columns - 1) * MARGIN) / 2;
  const outside = devices.name.map((_, i) => i).filter((i) => devices.node[i] < 0 && devices.at[i] < 0);
  const boxes = [];
  const panels = [];
  let y = 0;
  for (let first = 0; first < nodes.length; first += columns) {
    let lowest = y;
    nodes.slice(first, first + columns).forEach((node, column) => {
      const panel = { node, x: left + column * (panelWidth + MARGIN), y, w: panelWidth };
      placeNode(machine, panel, boxes);
      panels.push(panel);
      lowest = Math.max(lowest, y + panel.h);
    });
    y = lowest + (outside.length ? RISE : MARGIN);
    if (outside.length) {
      const spread = columns * panelWidth + (columns - 1) * MARGIN;
      const each = spread / outside.length;
      outside.forEach((device, i) => {
        const box = { x: left + i * each, y, w: each - (i + 1 < outside.length ? 8 : 0), h: 26, bar: true };
        if (boxes[device]) boxes[device].more.push(box);
        else boxes[device] = { ...box, more: [] };
      });
      y += 26 + MARGIN;
    }
  }
  return { boxes, panels, height: y, hidden: all.length - nodes.length };
}

function placeNode(machine, panel, boxes) {
  const { kind, node, at } = machine.devices;
  const own = kind.map((_, i) => i).filter((i) => node[i] === panel.node && at[i] < 0);
  const of = (wanted) => own.filter((i) => kind[i] === wanted);
  const leaves = (i) => machine.next[i].some((other) => node[other] !== panel.node);
  const gpus = of("gpu");
  const meshed = gpus.some((i) => machine.next[i].some((other) => kind[other] === "gpu" && node[other] === panel.node));
  const above = of("switch").filter((i) => !leaves(i));
  const next = (i) => machine.next[i].some((other) => kind[other] === "gpu");
  const bridges = [of("pcie").filter(next), of("pcie").filter((i) => !next(i))];
  const below = [...bridges, of("helper"), of("switch").filter(leaves), of("nic")].filter((row) => row.length);
  let y = panel.y + 30;
  if (above.length) {
    placeRow(above, panel, y, boxes, true);
    y += 26 + (meshed ? 26 : RISE);
  }
  y = (meshed ? placeMesh : placeRows)(machine, gpus, panel, y, boxes);
  for (const row of below) {
    y += RISE - 10;
    const bar = kind[row[0]] !== "nic" && kind[row[0]] !== "helper";
    y = bar ? placeRow(row, panel, y, boxes, true) : placeRows(machine, row, panel, y, boxes);
  }
  panel.h = y - panel.y + 14;
}

function placeRow(row, panel, y, boxes, bar) {
  const each = (panel.w - 28) / row.length;
  row.forEach((device, i) => {
    boxes[device] = { x: panel.x + 14 + i * each + 3, y, w: each - 6, h: 26, bar };
  });
  return y + 26;
}

// Boxes in as many rows as they need.
function placeRows(machine, row, panel, y, boxes) {
  const inner = panel.w - 28;
  const perRow = Math.min(row.length, Math.max(1, Math.floor(inner / 20)));
  const rows = Math.ceil(row.length / perRow);
  const each = inner / Math.ceil(row.length / rows);
  const side = Math.min(34, each - 3);
  row.forEach((device, i) => {
    const [r, c] = [Math.floor(i / Math.ceil(row.length / rows)), i % Math.ceil(row.length / rows)];
    boxes[device] = { x: panel.x + 14 + (c + 0.5) * each - side / 2, y: y + r * (side + 10), w: side, h: side };
  });
  return y + rows * (side + 10) - 10;
}

// GPUs that are linked to each other: where `places` says, else on an ellipse.
function placeMesh(machine, gpus, panel, y, boxes) {
  const side = Math.max(15, Math.min(32, (panel.w - 40) / Math.sqrt(gpus.length) / 2.2));
  const inset = machine.places?.[gpus[0]] ? 14 : 0; // room for lines that are bent
  const [w, h] = [panel.w - 40 - side - 2 * inset, Math.min(0.62 * panel.w, 60 + 30 * gpus.length, 420)];
  gpus.forEach((device, i) => {
    const angle = (2 * Math.PI * (i + 0.5)) / gpus.length - Math.PI / 2;
    const [fx, fy] = machine.places?.[device] ?? [0.5 + 0.5 * Math.cos(angle), 0.5 + 0.5 * Math.sin(angle)];
    boxes[device] = { x: panel.x + 20 + inset + fx * w, y: y + inset + fy * h, w: side, h: side };
  });
  return y + h + side + 2 * inset;
}

// The box of a device that is next to another box: what joins nodes stands below each row of them.
function nearestBox(box, other) {
  const all = [box, ...(box.more ?? [])].filter((each) => each.y > other.y || !box.more);
  return all.length ? all.reduce((a, b) => (Math.abs(b.y - other.y) < Math.abs(a.y - other.y) ? b : a)) : box;
}

function endsOf(a, b) {
  const middle = (box) => ({ x: box.x + box.w / 2, y: box.y + box.h / 2 });
  const end = (box, to) => {
    const { x, y } = middle(box);
    if (!box.bar) return { x, y };
    const beside = Math.abs(to.y - box.y) < 1;
    const edge = beside ? y : to.y > box.y ? box.y + box.h : box.y;
    return { x: Math.min(box.x + box.w - 6, Math.max(box.x + 6, middle(to).x)), y: edge };
  };
  return [end(a, b), end(b, a)];
}

// `loads`: for each link the part of the time that it is busy, or null: links are then drawn by bandwidth.
function drawMachine(host, given, legend) {
  const machine = readMachine(given);
  let loads = null;
  const draw = (width = host.clientWidth) => {
    if (!width) return;
    const layout = placeMachine(machine, width);
    const picture = svg("svg", { width, height: layout.height, class: "machine", role: "img", "aria-label": `Drawing of ${machine.name}` });
    const lines = svg("g", { class: "links" });
    for (const panel of layout.panels) drawPanel(picture, panel, layout.panels.length);
    picture.append(lines);
    drawTrunks(lines, layout);
    for (const pair of sorted(machine, loads)) drawPair(lines, machine, layout, pair, loads);
    machine.devices.name.forEach((_, device) => drawDevice(picture, machine, layout, device, lines));
    host.replaceChildren(picture);
    if (layout.hidden) host.append(html("p", { class: "help" }, `${layout.hidden} more nodes are not drawn.`));
  };
  whenResized(host, draw);
  if (legend) fillSpeeds(legend, machine);
  return {
    show(shares) {
      loads = shares;
      draw();
    },
  };
}

// What matters most is drawn last.
function sorted(machine, loads) {
  const weight = (pair) => Math.max(...pair.links.map((link) => (loads ? loads[link] : speedOf(machine, link))));
  return [...machine.pairs].sort((a, b) => weight(a) - weight(b));
}

function drawPanel(picture, panel, panels) {
  picture.append(svg("rect", { class: "node", x: panel.x + 0.5, y: panel.y + 0.5, width: panel.w - 1, height: panel.h - 1, rx: 10 }));
  if (panels > 1) picture.append(svg("text", { class: "of-node", x: panel.x + 14, y: panel.y + 18 }, `node ${panel.node}`));
}

function drawTrunks(lines, layout) {
  for (const box of layout.boxes) {
    if (!box?.more?.length) continue;
    const x = box.x + 3;
    lines.append(svg("path", { class: "trunk", d: `M${x} ${box.y + 13}V${box.more.at(-1).y + 13}` }));
  }
}

function drawPair(lines, machine, layout, pair, loads) {
  if (!layout.boxes[pair.a] || !layout.boxes[pair.b]) return;
  const [boxA, boxB] = [nearestBox(layout.boxes[pair.a], layout.boxes[pair.b]), nearestBox(layout.boxes[pair.b], layout.boxes[pair.a])];
  const [from, to] = endsOf(boxA, boxB);
  const bend = isBlocked(machine, layout, pair, from, to) ? 0.16 : 0;
  const line = (a, b) => svg("path", { d: pathOf(a, b, bend) });
  const group = svg("g", { class: "link", "data-a": pair.a, "data-b": pair.b });
  const speed = Math.max(...pair.links.map((link) => speedOf(machine, link)));
  if (loads) {
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const aside = pair.links.length > 1 ? 2 : 0;
    const [dx, dy] = [(-(to.y - from.y) * aside) / length, ((to.x - from.x) * aside) / length];
    for (const link of pair.links) {
      const side = machine.links.src[link] === pair.a ? 1 : -1;
      const path = line({ x: from.x + side * dx, y: from.y + side * dy }, { x: to.x + side * dx, y: to.y + side * dy });
      const style = `stroke:${loadColour(loads[link])};stroke-width:${loads[link] ? 1.2 + 2.4 * loads[link] : 0.8}`;
      path.setAttribute("style", style);
      group.append(path);
    }
  } else {
    const rank = speedClass(machine, speed);
    const path = line(from, to);
    path.setAttribute("class", `speed speed-${rank}${pair.links.length > 1 ? "" : " oneway"}`);
    group.append(path);
  }
  const hit = line(from, to);
  hit.setAttribute("class", "hit");
  group.append(explained(hit, () => describePair(machine, pair, loads)));
  lines.append(group);
}

function pathOf(a, b, bend) {
  const [x, y] = [(a.x + b.x) / 2 - (b.y - a.y) * bend, (a.y + b.y) / 2 + (b.x - a.x) * bend];
  const words = (at) => `${at.x.toFixed(1)} ${at.y.toFixed(1)}`;
  return bend ? `M${words(a)}Q${words({ x, y })} ${words(b)}` : `M${words(a)}L${words(b)}`;
}

// Whether another GPU lies on the straight line between two.
function isBlocked(machine, layout, pair, from, to) {
  const { kind, node } = machine.devices;
  if (kind[pair.a] !== "gpu" || kind[pair.b] !== "gpu") return false;
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  return layout.boxes.some((box, device) => {
    if (kind[device] !== "gpu" || node[device] !== node[pair.a] || device === pair.a || device === pair.b) return false;
    const [x, y] = [box.x + box.w / 2 - from.x, box.y + box.h / 2 - from.y];
    const along = (x * dx + y * dy) / length;
    return along > 0 && along < length && Math.abs(x * dy - y * dx) / length < box.w / 3;
  });
}

function describePair(machine, pair, loads) {
  const name = (device) => machine.devices.name[device];
  const rows = [];
  for (const link of pair.links) {
    const { src, dst, alpha, beta } = machine.links;
    rows.push([`to ${name(dst[link])}`, `${speedWords(speedOf(machine, link))}, ${trim(alpha[link])} us + ${trim(beta[link])} us/MB`]);
    if (loads) rows.push(["", `busy ${percent(loads[link])} of the time`]);
  }
  return [`${name(pair.a)} ${pair.links.length > 1 ? "↔" : "→"} ${name(pair.b)}`, rows];
}

function drawDevice(picture, machine, layout, device, lines) {
  const box = layout.boxes[device];
  if (!box) return;
  const { kind, name, rank } = machine.devices;
  const helpers = name.map((_, i) => i).filter((i) => machine.devices.at[i] === device);
  for (const each of [box, ...(box.more ?? [])]) {
    const group = svg("g", { class: `device ${kind[device]}` });
    group.append(svg("rect", { x: each.x, y: each.y, width: each.w, height: each.h, rx: each.bar ? 6 : 5 }));
    const words = rank[device] >= 0 && kind[device] === "gpu" ? String(rank[device]) : shortName(machine, device, each, helpers);
    const text = svg("text", { x: each.x + each.w / 2, y: each.y + each.h / 2 }, words);
    if (each.w < 24) text.setAttribute("style", "font-size:9px");
    group.append(text);
    group.addEventListener("pointerenter", () => light(lines, device));
    group.addEventListener("pointerleave", () => light(lines, -1));
    picture.append(explained(group, () => describeDevice(machine, device, helpers)));
  }
}

function shortName(machine, device, box, helpers) {
  const name = machine.devices.name[device];
  const short = name.includes(".") ? name.slice(name.indexOf(".") + 1) : name;
  const cans = [...new Set(helpers.flatMap((helper) => machine.devices.can[helper]))];
  const long = cans.length ? `${short} (${cans.join(", ")})` : short;
  if (box.w > 7 * long.length) return long;
  if (box.w > 7 * short.length) return short;
  const digits = short.match(/\d+$/);
  return digits && box.w > 7 * digits[0].length ? digits[0] : "";
}

function describeDevice(machine, device, helpers) {
  const { name, kind, node, rank, can } = machine.devices;
  const rows = [["is", KINDS_OF_DEVICES[kind[device]] + (node[device] >= 0 ? ` of node ${node[device]}` : "")]];
  if (rank[device] >= 0) rows.push(["rank", String(rank[device])]);
  if (can[device].length) rows.push(["can", can[device].join(", ")]);
  for (const helper of helpers) rows.push([name[helper], can[helper].join(", ")]);
  const kinds = new Map();
  machine.links.src.forEach((src, link) => {
    if (src !== device) return;
    const words = `to ${WORDS[kind[machine.links.dst[link]]]}`;
    kinds.set(words, [...(kinds.get(words) ?? []), speedOf(machine, link)]);
  });
  for (const [words, speeds] of kinds) {
    const each = [...new Set(speeds)].map(speedWords).join(" or ");
    rows.push([words, speeds.length > 1 ? `${speeds.length} links of ${each}` : each]);
  }
  return [name[device], rows];
}

// The links of one device; -1: of all.
function light(lines, device) {
  for (const link of lines.querySelectorAll(".link"))
    link.classList.toggle("faint", device >= 0 && Number(link.dataset.a) !== device && Number(link.dataset.b) !== device);
}

function fillSpeeds(legend, machine) {
  const kind = (device) => machine.devices.kind[device];
  for (const speed of [...machine.speeds].reverse()) {
    const joins = new Set();
    let count = 0;
    machine.links.src.forEach((src, link) => {
      if (speedOf(machine, link) !== speed) return;
      count++;
      joins.add([kind(src), kind(machine.links.dst[link])].sort().map((each) => KINDS_OF_DEVICES[each]).join("–"));
    });
    const swatch = svg("svg", { width: 26, height: 12 }, svg("path", { d: "M1 6H25", class: `speed speed-${speedClass(machine, speed)}` }));
    legend.append(html("span", { class: "entry" }, swatch, `${speedWords(speed)} · ${[...joins].join(", ")} · ${count} links`));
  }
}
