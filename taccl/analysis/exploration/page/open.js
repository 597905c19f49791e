// Puts the page together.

fillFacts(document.getElementById("about"), pageData.facts);
fillNotes(document.getElementById("remarks"), pageData.notes);
if (pageData.questions.length > 1) {
  pageData.questions.forEach((question, number) =>
    document.getElementById("contents").append(html("a", { href: `#question-${number}` }, question.name)));
  showOverview(pageData.questions);
}
pageData.questions.forEach(showQuestion);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opened.panel) closePoint();
});
window.explored = { openPoint, opened };
whenSettled(() => { document.body.dataset.ready = "true"; });
