// One collective on one machine: its charts, its link loads, its table.

const ratio = (part) => (part === null ? "-" : percent(part));
const us = (time) => (time === null ? "-" : `${figure(time)} us`);
const chunkWords = (chunks) => `${chunks} ${chunks === 1 ? "chunk" : "chunks"} of each part`;
const gbps = (bytes, time) => (time ? bytes / time / 1e3 : NaN);

function describePoint(question, place) {
  const row = (name) => question.best[name][place];
  const rows = [["fastest known", us(row("time_us"))]];
  if (row("algbw_GBps") !== null) rows.push(["algbw", `${figure(row("algbw_GBps"))} GB/s`]);
  rows.push(["proven bound", row("lower_bound_us") > 0 ? `${us(row("lower_bound_us"))}, gap ${ratio(row("gap"))}` : "none"]);
  if (row("baseline") !== null) rows.push(["today", `${row("baseline")}, ${us(row("baseline_us"))}`]);
  if (row("speedup") !== null) rows.push(["speed-up", `${row("speedup").toFixed(2)}x`]);
  if (row("schedule") !== null) rows.push(["schedule", `${row("schedule")}, ${chunkWords(row("chunks_per_rank"))}`]);
  return [sizeWords(row("size_bytes")), rows];
}

// Curves of times, or of what they are as bandwidths.
function curvesOf(question, value) {
  const sizes = question.best.size_bytes;
  const of = (times) => times.map((time, place) => (time === null ? NaN : value(time, sizes[place])));
  return [
    ...question.library.map((one) => ({ name: one.name, look: "others", values: of(one.us) })),
    { name: "fastest of today's libraries", look: "today", values: of(question.best.baseline_us) },
    { name: "proven bound", look: "bound", values: of(question.best.lower_bound_us) },
    { name: "fastest known", look: "found", values: of(question.best.time_us) },
  ];
}

function legendOf(entries) {
  const legend = html("div", { class: "legend" });
  for (const [look, words, colour] of entries) {
    const path = svg("path", { class: `curve ${look}`, d: "M1 6H27" });
    if (colour) path.setAttribute("style", `stroke:${colour}`);
    legend.append(html("span", { class: "entry" }, svg("svg", { width: 28, height: 12 }, path), words));
  }
  return legend;
}

function figureOf(grid, title, hint, kind = "") {
  const host = html("div");
  const box = html("figure", kind ? { class: kind } : {}, html("figcaption", {}, title, " ", html("small", {}, hint)), host);
  grid.append(box);
  return host;
}

const toBound = (best, place) => (best.lower_bound_us[place] > 0 ? `${ratio(best.gap[place])} from the bound` : "no bound is proven");

function gistOf(question) {
  const { best } = question;
  const known = best.time_us.map((_, place) => place).filter((place) => best.time_us[place] !== null);
  if (!known.length) return "No algorithm is known.";
  const schedules = new Set(best.schedule.filter((name) => name !== null)).size;
  const words = [`${schedules} ${schedules === 1 ? "schedule serves" : "schedules serve"} all sizes`];
  const last = known.at(-1);
  if (best.algbw_GBps[last] !== null)
    words.push(`${figure(best.algbw_GBps[last])} GB/s at ${sizeWords(best.size_bytes[last])}, ${toBound(best, last)}`);
  const faster = known.filter((place) => best.speedup[place] !== null);
  if (faster.length) {
    const most = faster.reduce((a, b) => (best.speedup[b] > best.speedup[a] ? b : a));
    const gain = best.speedup[most];
    words.push(gain < 1.005 ? "as fast as today's libraries" : `up to ${gain.toFixed(2)}x as fast as today's libraries (${sizeWords(best.size_bytes[most])})`);
  }
  return `${words.join("; ")}.`;
}

function showQuestion(question, number) {
  const section = html("section", { class: "question", id: `question-${number}` });
  section.append(html("h2", {}, question.name), html("p", { class: "gist" }, gistOf(question)));
  const grid = html("div", { class: "grid" });
  const others = question.library.length;
  const looks = [["found", "fastest known"], ["bound", "proven bound"], ["today", "fastest of today's libraries"]];
  if (others) looks.push(["others", `library algorithms (${others})`]);
  section.append(legendOf(looks), grid);
  document.getElementById("questions").append(section);
  const sizes = question.best.size_bytes;
  const shared = {
    sizes, describe: (place) => describePoint(question, place), pick: (place) => openPoint(question, place),
    isOpen: (place) => opened.question === question && opened.place === place,
  };
  const charts = [
    ["Bandwidth", "algbw (GB/s)", (time, bytes) => gbps(bytes, time)],
    ["Time", "time (us)", (time) => time],
  ];
  question.draws = charts.map(([title, unit, value]) => {
    const host = figureOf(grid, title, "click on a point for its timeline");
    const curves = curvesOf(question, value);
    return drawChart(host, { ...shared, label: title, unit, log: true, height: 320, curves, dots: curves.at(-1).values });
  });
  const gaps = question.best.gap.map((gap) => (gap === null ? NaN : Math.max(100 * gap, 1e-9)));
  question.draws.push(drawChart(figureOf(grid, "Gap", "how far the fastest known may be from the best there is"), {
    ...shared, label: "Gap", unit: "gap (% of the time)", height: 200, curves: [{ name: "gap", look: "found", values: gaps }], dots: gaps,
  }));
  showSearches(question, figureOf(grid, "Searches", "where they went, and what they took"));
  showHeat(question, grid, shared);
  showRows(question, section);
}

function showSearches(question, host) {
  const { searches } = question;
  const sizes = question.best.size_bytes;
  const stems = (searches.size_bytes ?? []).map((bytes, i) => ({ place: sizes.indexOf(bytes), value: searches.solve_s[i] ?? 0, i }));
  const describe = (place) => {
    const here = stems.filter((stem) => stem.place === place);
    const rows = here.map(({ i }) => [
      searches.known[i] ? "known from an earlier run" : searches.status[i],
      searches.failure[i] || `${us(searches.schedule_us[i])} in ${figure(searches.solve_s[i])} s, ${chunkWords(searches.chunks_per_rank[i])}`,
    ]);
    return [sizeWords(sizes[place]), rows.length ? rows : [["", "no search here"]]];
  };
  drawChart(host, { label: "Searches", unit: "solve time (s)", sizes, height: 200, curves: [], stems: stems.filter((stem) => stem.place >= 0), describe });
}

function showRows(question, section) {
  const { best } = question;
  const header = ["size", "time (us)", "bound (us)", "gap", "algbw (GB/s)", "busbw (GB/s)", "schedule", "today", "time (us)", "speed-up"];
  const plain = (value) => (value === null ? "-" : figure(value));
  const rows = best.size_bytes.map((bytes, place) => {
    const name = html("button", { type: "button" }, best.schedule[place] ?? "-");
    name.addEventListener("click", () => openPoint(question, place));
    const times = [best.time_us, best.lower_bound_us].map((column) => plain(column[place]));
    const speeds = [best.algbw_GBps, best.busbw_GBps].map((column) => plain(column[place]));
    const gain = best.speedup[place] === null ? "-" : `${best.speedup[place].toFixed(2)}x`;
    return [sizeWords(bytes), ...times, ratio(best.gap[place]), ...speeds, name, best.baseline[place] ?? "-", plain(best.baseline_us[place]), gain];
  });
  const table = html("table", { class: "figures" });
  fillTable(table, header, rows);
  section.append(html("details", {}, html("summary", {}, "All figures"), html("div", { class: "scrolls" }, table)));
}

// The fastest known of all questions side by side.
function showOverview(questions) {
  const section = html("section", { class: "question" });
  section.append(html("h2", {}, "All together"));
  document.getElementById("questions").append(section);
  const sizes = [...new Set(questions.flatMap((question) => question.best.size_bytes))].sort((a, b) => a - b);
  const curves = questions.map((question, number) => ({
    name: question.name, look: "found", colour: EIGHT[number % EIGHT.length],
    values: sizes.map((bytes) => question.best.algbw_GBps[question.best.size_bytes.indexOf(bytes)] ?? NaN),
  }));
  const describe = (place) => [
    sizeWords(sizes[place]),
    curves.filter((curve) => Number.isFinite(curve.values[place])).map((curve) => [curve.name, `${figure(curve.values[place])} GB/s`]),
  ];
  const host = figureOf(section, "Bandwidth", "the fastest known of each");
  host.after(legendOf(curves.map((curve) => ["found", curve.name, curve.colour])));
  drawChart(host, { label: "Bandwidth", unit: "algbw (GB/s)", sizes, log: true, height: 320, curves, describe });
}
