openTimeline(pageData, new AbortController().signal);
document.body.dataset.ready = "true";
