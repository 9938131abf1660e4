"use strict";
// What the page does beside htmx's refreshing: charts, what was open stays open, changes are announced, and a page that
// could not be refreshed says so.
(() => {
  const byId = (id) => document.getElementById(id);
  const shown = new Map(); // chart element -> {text, view}
  let open = [];
  let state = byId("view")?.dataset.state;

  async function draw(element) {
    if (!window.hwmarkEmbed) return;
    const answer = await fetch(element.dataset.spec, { headers: { Accept: "application/json" } });
    const text = await answer.text();
    const before = shown.get(element);
    if (!answer.ok || before?.text === text) return;
    if (answer.status === 204) {
      before?.view.finalize();
      shown.delete(element);
      element.textContent = "Nothing was reported in this time; a longer one may have something.";
      return;
    }
    const options = {
      actions: false, ast: true, defaultStyle: false, renderer: "svg", mode: "vega-lite",
      tooltip: { disableDefaultStyle: true },
    };
    const made = await window.hwmarkEmbed(element, JSON.parse(text), options);
    before?.view.finalize();
    shown.set(element, { text, view: made.view });
  }

  function nameCells() { // on a phone a cell stands alone, with its column's name
    for (const table of document.querySelectorAll("#view table:not(.matrix, .unnamed)")) {
      const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
      for (const row of table.tBodies[0]?.rows ?? []) [...row.cells].forEach((cell, k) => { cell.dataset.column = names[k] ?? ""; });
    }
  }

  const drawAll = () => document.querySelectorAll("[data-spec]").forEach((element) => draw(element).catch(stale));

  function stale() {
    const banner = byId("stale");
    if (banner.hidden) banner.textContent = `Not up to date: this is how it was at ${byId("view")?.dataset.at}; hwmark does not answer.`;
    banner.hidden = false;
  }

  const selecting = () => !window.getSelection().isCollapsed;
  const events = document.body;
  events.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden || selecting()) event.preventDefault();
  });
  events.addEventListener("htmx:beforeSwap", () => {
    open = [...document.querySelectorAll("#view details[open]")].map((element) => element.id);
  });
  events.addEventListener("htmx:afterSwap", () => {
    open.forEach((id) => byId(id)?.setAttribute("open", ""));
    byId("stale").hidden = true;
    nameCells();
    const now = byId("view")?.dataset.state;
    if (now !== state) byId("announce").textContent = `Now: ${now}`;
    state = now;
    drawAll();
  });
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) events.addEventListener(name, stale);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    byId("q").focus();
  });
  window.addEventListener("hwmark-embed", drawAll);
  nameCells();
  drawAll();
})();
