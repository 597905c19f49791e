// What follows from the timeline that is shown, `data`.

const bars = data.bars;
const topology = data.topology;
const numBars = bars.lane.length;
const numRanks = data.nodeOf.length;
const numLanes = data.lanes.rank.length;
const isCritical = new Uint8Array(numBars);
for (const bar of bars.critical) isCritical[bar] = 1;

// Bars of a lane stand together, by start. A bar may begin long before the window and reach into it:
// never longer than the longest of its lane.
const firstOfLane = new Int32Array(numLanes + 1);
const longestOfLane = new Float64Array(numLanes);
const tracksOfLane = new Int32Array(numLanes).fill(1);
for (let bar = 0; bar < numBars; bar++) {
  const lane = bars.lane[bar];
  firstOfLane[lane + 1]++;
  longestOfLane[lane] = Math.max(longestOfLane[lane], bars.end[bar] - bars.start[bar]);
  tracksOfLane[lane] = Math.max(tracksOfLane[lane], bars.track[bar] + 1);
}
for (let lane = 0; lane < numLanes; lane++) firstOfLane[lane + 1] += firstOfLane[lane];

// The other end of a transfer, where send and receive are two bars.
const partner = new Int32Array(numBars).fill(-1);
data.arrows[0].forEach((sent, i) => {
  partner[sent] = data.arrows[1][i];
  partner[data.arrows[1][i]] = sent;
});

const moves = { transfer: true, send: true, "receive and send": true, read: true };
const sendsData = (bar) => moves[data.kinds[bars.kind[bar]]] === true;

// The first chunk of a contiguous send stands for all of it: one use of link and ports.
const sends = [];
for (let bar = 0; bar < numBars; bar++) if (sendsData(bar) && bars.slot[bar] === 0) sends.push(bar);
const freeAt = (bar) =>
  topology && topology.occupancy === "pipelined" && bars.link[bar] >= 0
    ? Math.max(bars.start[bar], bars.end[bar] - topology.alpha[bars.link[bar]])
    : bars.end[bar];

// A port that is faster than its link is free before the others.
const portFreeAt = (bar, port) => {
  const link = bars.link[bar];
  if (!topology.portBetas || !topology.beta[link]) return freeAt(bar);
  const share = topology.portBetas[link][topology.ports[link].indexOf(port)] / topology.beta[link];
  const alpha = topology.occupancy === "pipelined" ? 0 : topology.alpha[link];
  const begin = Math.min(bars.start[bar] + alpha, freeAt(bar));
  return begin + (freeAt(bar) - begin) * share;
};

const portsOf = (link) =>
  topology.ports[link]
    .map((port, i) => {
      const beta = topology.portBetas ? topology.portBetas[link][i] : topology.beta[link];
      const rate = beta < topology.beta[link] ? ` (${trim(beta)} us/MB)` : "";
      return topology.portNames[port] + rate;
    })
    .join(", ");

const time = (t) => (data.unit === "us" ? `${trim(t)} us` : `step ${trim(t)}`);
