// Drawings as SVG: elements, and what they say when they are pointed at.

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// `describe` gives the title and the rows of the tooltip.
function explained(element, describe) {
  element.addEventListener("pointermove", (event) => showTip(event, ...describe()));
  element.addEventListener("pointerleave", hideTip);
  return element;
}

// Draw into an element now and whenever it has another width.
function whenResized(element, draw) {
  let width = element.clientWidth;
  if (width) draw(width);
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 2) return;
    width = element.clientWidth;
    requestAnimationFrame(() => draw(width)); // an observer that changes what it observes is an error
  }).observe(element);
}

// Call once drawings have the width that is left to them: a scroll bar that appears takes some of it, which an
// observer hears in the next frame, and draws in the one after.
function whenSettled(then, frames = 3) {
  if (frames) requestAnimationFrame(() => whenSettled(then, frames - 1));
  else then();
}
