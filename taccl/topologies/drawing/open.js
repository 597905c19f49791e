fillFacts(document.getElementById("facts"), pageData.facts);
drawMachine(document.getElementById("machine"), pageData.machine, document.getElementById("speeds"));
fillTable(document.getElementById("links"), pageData.header, pageData.rows);
whenSettled(() => { document.body.dataset.ready = "true"; });
