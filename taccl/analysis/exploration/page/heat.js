// How busy each link is at each size under the fastest schedule known: a row for each link, a column for each size.

const MOST_LINKS = 256;

// For each link of the machine the part of the time that it carries data.
function loadsAt(question, place) {
  const name = question.best.schedule[place];
  if (name === null) return null;
  const megabytes = question.best.size_bytes[place] / 2 ** 20;
  return pageData.busy[name].map((each) => Math.min(1, (each * megabytes) / question.best.time_us[place]));
}

// Links that are used, by the kinds of their ends, and the busiest of them where there are too many.
function linksShown(machine, loads) {
  const peak = machine.links.src.map((_, link) => Math.max(0, ...loads.map((column) => column?.[link] ?? 0)));
  const used = peak.map((_, link) => link).filter((link) => peak[link] > 0);
  const shown = used.sort((a, b) => peak[b] - peak[a]).slice(0, MOST_LINKS);
  const kind = (device) => KINDS_OF_DEVICES[machine.devices.kind[device]];
  const classes = new Map();
  for (const link of shown.sort((a, b) => a - b)) {
    const key = `${kind(machine.links.src[link])} → ${kind(machine.links.dst[link])}, ${speedWords(speedOf(machine, link))}`;
    if (!classes.has(key)) classes.set(key, []);
    classes.get(key).push(link);
  }
  return { classes, used: used.length };
}

function showHeat(question, grid, { sizes, pick }) {
  const machine = pageData.machines[question.machine];
  const loads = sizes.map((_, place) => loadsAt(question, place));
  const { classes, used } = linksShown(machine, loads);
  const count = Math.min(used, MOST_LINKS);
  const host = figureOf(grid, "Link load", `${count} of ${used} links in use, part of the time that each carries data; click on a column for its timeline`, "wide");
  const canvas = html("canvas", { class: "heat", role: "img", "aria-label": `Load of ${count} links at each size` });
  const scale = html("canvas", { class: "load-scale" });
  host.append(canvas);
  host.after(html("div", { class: "legend" }, html("span", {}, "0%"), scale, html("span", {}, "100% of the time")));
  const each = Math.max(2, Math.min(14, Math.floor(420 / Math.max(1, count))));
  const spots = [];
  const draw = () => {
    const left = canvas.clientWidth < 600 ? 20 : 170;
    const heading = left < 100 ? 16 : 6;
    const height = [...classes.values()].reduce((sum, links) => sum + Math.max(links.length * each, left < 100 ? 0 : 12) + heading, 0) + 24;
    const { pen, width } = prepare(canvas, height);
    drawLoadScale(scale);
    const column = (width - left - 8) / sizes.length;
    spots.length = 0;
    let y = 4;
    for (const [words, links] of classes) {
      pen.fillStyle = colour("soft");
      pen.textAlign = "left";
      if (left < 100) y += heading;
      pen.fillText(words, 4, left < 100 ? y - 8 : y + Math.max(6, (links.length * each) / 2), left < 100 ? width - 8 : left - 10);
      for (const link of links) {
        loads.forEach((shares, place) => {
          pen.fillStyle = shares ? loadColour(shares[link]) : colour("band");
          pen.fillRect(left + place * column, y, column - 1, each > 4 ? each - 1 : each);
        });
        spots.push({ link, y });
        y += each;
      }
      y += left < 100 ? 0 : heading;
    }
    pen.fillStyle = colour("soft");
    pen.textAlign = "center";
    const stride = Math.ceil(52 / column);
    sizes.forEach((bytes, place) => {
      const at = left + (place + 0.5) * column;
      if (place % stride || at + 16 > width) return;
      pen.fillText(sizeWords(bytes), at, height - 9);
    });
    return { left, column };
  };
  let shape = { left: 0, column: 1 };
  const redraw = () => { shape = draw(); };
  whenResized(host, redraw);
  document.addEventListener("recolour", redraw);
  const placeOf = (event) => {
    const place = Math.floor((event.clientX - canvas.getBoundingClientRect().left - shape.left) / shape.column);
    return place >= 0 && place < sizes.length ? place : -1;
  };
  canvas.addEventListener("pointermove", (event) => {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const [spot, place] = [spots.find((one) => y >= one.y && y < one.y + each), placeOf(event)];
    if (!spot || place < 0 || !loads[place]) return hideTip();
    const name = (end) => machine.devices.name[machine.links[end][spot.link]];
    return showTip(event, `${name("src")} → ${name("dst")}`, [
      ["size", sizeWords(sizes[place])], ["busy", `${percent(loads[place][spot.link])} of the time`],
      ["schedule", question.best.schedule[place]], ["bandwidth", speedWords(speedOf(machine, spot.link))],
    ]);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => placeOf(event) >= 0 && pick(placeOf(event)));
}
