// Puts the timeline together.

const KEY_FACTS = ["time", "lower bound", "gap"];

function fillSources() {
  const legend = document.getElementById("sources");
  legend.replaceChildren("Part of rank: ");
  const ranks = [...new Set(bars.source)].sort((a, b) => a - b);
  for (const rank of ranks) {
    const button = document.createElement("button");
    const swatch = document.createElement("i");
    button.type = "button";
    button.title = "Show only this one";
    swatch.style.background = sourceColour(rank);
    button.append(swatch, rank < 0 ? "unknown" : String(rank));
    button.setAttribute("aria-pressed", String(shown.source === rank));
    button.addEventListener("click", () => {
      shown.source = shown.source === rank ? -2 : rank;
      fillSources();
      redraw();
    });
    legend.append(button);
  }
}

const ACTIONS = {
  in: () => zoom(0.6),
  out: () => zoom(1 / 0.6),
  reset: () => {
    resetLanes();
    look(0, span);
  },
  taller: () => resize(1.3),
  flatter: () => resize(1 / 1.3),
  left: () => move(-0.15),
  right: () => move(0.15),
  up: () => scrollLanes(-40 / lanes.height),
  down: () => scrollLanes(40 / lanes.height),
  critical: () => showCritical(!shown.critical),
};
const KEYS = {
  "+": "in", "=": "in", "-": "out", _: "out", 0: "reset", "]": "taller", "[": "flatter", c: "critical",
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
};

function resize(factor) {
  const all = (tallest() - TOP) / Math.max(1, numLanes);
  lanes.height = Math.max(Math.min(2, all), Math.min(80, lanes.height * factor));
  redraw(drawings.inTime);
}
function move(share) {
  const by = share * (view.t1 - view.t0);
  look(view.t0 + by, view.t1 + by);
}
function showCritical(on) {
  shown.critical = on;
  document.getElementById("critical").checked = on;
  redraw();
}
function showPorts() {
  const some = Math.min(MOST_PORTS, portRows.length);
  document.getElementById("ports-shown").textContent = allPorts
    ? `${portRows.length} ports in use, the busiest first`
    : `${some} of ${portRows.length} ports in use, the busiest first`;
  document.getElementById("ports-more").hidden = portRows.length <= MOST_PORTS;
  document.getElementById("ports-more").textContent = allPorts ? "Show fewer" : "Show all";
}

fillFacts(document.getElementById("facts"), data.facts, KEY_FACTS);
fillNotes(document.getElementById("notes"), data.notes);
findPorts();
findLoads();
resetLanes();
fillSources();
showPorts();
document.getElementById("ports-section").hidden = !topology;
drawings.inTime.push(drawTimeline, ...(topology ? [drawPorts] : []));
drawings.still.push(drawTopology);

for (const button of document.querySelectorAll("[data-do]"))
  button.addEventListener("click", () => ACTIONS[button.dataset.do]());
document.getElementById("critical").addEventListener("change", (event) => showCritical(event.target.checked));
document.getElementById("ports-more").addEventListener("click", () => {
  allPorts = !allPorts;
  showPorts();
  redraw();
});
document.addEventListener("keydown", (event) => {
  const action = KEYS[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
  // Arrows scroll the page, unless the timeline is what they are meant for.
  if (event.key.startsWith("Arrow") && document.activeElement !== timeline) return;
  event.preventDefault();
  ACTIONS[action]();
}, { signal });
document.addEventListener("recolour", () => {
  fillSources();
  redraw();
}, { signal });
addEventListener("resize", () => redraw(), { signal });

timeline.setAttribute("aria-label", `Timeline of ${numBars} bars in ${numLanes} lanes, ${data.transfers} transfers`);
timeline.dataset.transfers = String(data.transfers);
timeline.dataset.bars = String(firstOfLane[numLanes]);
timeline.dataset.lanes = String(numLanes);
timeline.dataset.critical = String(bars.critical.length);
window.taccl = { bars: firstOfLane[numLanes], transfers: data.transfers, lanes: numLanes, view, look, zoom };
for (const draw of [...drawings.inTime, ...drawings.still]) draw();
