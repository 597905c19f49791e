// The schedule behind a point: the machine under its loads, and its timeline.

const opened = { question: null, place: -1, panel: null, ending: null, drawing: null };
const timelines = new Map(); // by name, those that were unpacked

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

// What `changed` took away: entries that are as in the first timeline.
function restored(before, changes) {
  const isDictionary = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isDictionary(before) || !isDictionary(changes)) return changes;
  const whole = { ...before };
  for (const [key, value] of Object.entries(changes)) whole[key] = restored(before[key], value);
  return whole;
}

async function timelineAt(name, bytes) {
  if (!timelines.has(name)) timelines.set(name, unpacked(pageData.timelines[name]));
  const kept = await timelines.get(name);
  const own = kept.find(([of]) => of === bytes)[1];
  return own === kept[0][1] ? own : restored(kept[0][1], own);
}

// The dot that was opened has the focus again.
function closePoint() {
  const { question, place } = opened;
  opened.ending?.abort();
  opened.panel?.remove();
  Object.assign(opened, { question: null, place: -1, panel: null, ending: null });
  hideTip();
  for (const draw of question?.draws ?? []) draw();
  if (question) document.querySelector(`#${idOf(question)} .dot[data-place="${place}"]`)?.focus({ preventScroll: true });
}
const idOf = (question) => `question-${pageData.questions.indexOf(question)}`;

async function openPoint(question, place) {
  const name = question.best.schedule[place];
  if (name === null) return;
  const bytes = question.best.size_bytes[place];
  closePoint();
  const ending = new AbortController();
  Object.assign(opened, { question, place, ending });
  for (const draw of question.draws) draw();
  const data = await timelineAt(name, bytes);
  if (ending.signal.aborted) return;
  const panel = html("div", { class: "opened", role: "region", "aria-label": `${name} at ${sizeWords(bytes)}` });
  opened.panel = panel;
  const heading = html("h3", { tabindex: "-1" }, `${name} at ${sizeWords(bytes)}`);
  panel.append(html("div", { class: "bar" }, heading, buttonsOf(question, place)));
  panel.append(document.getElementById("timeline-part").content.cloneNode(true));
  showMachine(panel, question, place, ending.signal);
  document.getElementById(idOf(question)).append(panel);
  openTimeline(data, ending.signal);
  heading.focus({ preventScroll: true });
  panel.scrollIntoView({ block: "start" });
  document.body.dataset.opened = `${name} ${bytes}`;
}

function buttonsOf(question, place) {
  const tools = html("div", { class: "tools" });
  for (const [words, to, hint] of [["‹", place - 1, "Smaller size"], ["›", place + 1, "Larger size"]]) {
    const button = html("button", { type: "button", title: hint, "aria-label": hint }, words);
    button.disabled = !question.best.schedule[to];
    button.addEventListener("click", () => openPoint(question, to));
    tools.append(button);
  }
  const close = html("button", { type: "button" }, "Close");
  close.addEventListener("click", closePoint);
  tools.append(close);
  return tools;
}

function showMachine(panel, question, place, signal) {
  const host = html("div");
  const scale = html("canvas", { class: "load-scale" });
  const legend = html("div", { class: "tools legend" }, "carries data: 0%", scale, "100% of the time");
  panel.append(html("section", {}, html("div", { class: "bar" }, html("h2", {}, "Load of the machine's links"), legend), host));
  const drawing = drawMachine(host, pageData.machines[question.machine]);
  const loads = loadsAt(question, place);
  const show = () => {
    drawing.show(loads);
    drawLoadScale(scale);
  };
  document.addEventListener("recolour", show, { signal });
  requestAnimationFrame(show);
}
