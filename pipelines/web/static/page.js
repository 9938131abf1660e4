"use strict";
// What the page does beside htmx's refreshing: charts, ages and zones, what was open stays open, new rows wait, changes
// are announced, and a page that could not be refreshed says so.
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => within.querySelectorAll(selector);
  const shown = new Map(); // chart element -> {text, view}
  const seen = new Map(); // list -> ids of its rows that were shown
  const STRUCK_S = 30;
  const inZone = document.documentElement.dataset.zone === "browser";
  let drift = 0; // of this clock against the server's, milliseconds
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
      element.classList.add("none");
      element.textContent = "Nothing was reported in this time; a longer one may have something.";
      return;
    }
    const options = {
      actions: false, ast: true, defaultStyle: false, renderer: "svg", mode: "vega-lite",
      tooltip: { disableDefaultStyle: true },
    };
    const width = Math.max(200, Math.min(1200, element.clientWidth - 150)); // an axis and a label beside it stay readable
    const spec = inZone ? text.replaceAll('"type":"utc"', '"type":"time"') : text;
    const made = await window.hwmarkEmbed(element, JSON.parse(spec, (key, value) => (key === "width" && value === 640 ? width : value)), options);
    before?.view.finalize();
    element.classList.remove("none");
    shown.set(element, { text, view: made.view });
  }

  function nameCells() { // on a phone a cell stands alone, with its column's name
    for (const table of all("#view table")) {
      const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
      for (const row of table.tBodies[0]?.rows ?? []) [...row.cells].forEach((cell, k) => { if (k) cell.dataset.column = names[k] ?? ""; });
    }
  }

  function sortable() { // a press on a column's head sorts by it
    for (const head of all("table[data-sort] thead th")) {
      if (head.querySelector("button")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const of = (row) => row.cells[head.cellIndex].textContent.trim();
        const rows = [...head.closest("table").tBodies[0].rows];
        rows.sort((a, b) => of(a).localeCompare(of(b), undefined, { numeric: true }) * (down ? -1 : 1));
        head.closest("table").tBodies[0].append(...rows);
      });
    }
  }

  function span(seconds) { // as pipelines/verdict/words.py has it
    const s = Math.max(0, Math.floor(seconds)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
    if (d > 1) return `${d} days`;
    if (h) return `${h} h${m % 60 ? ` ${m % 60} min` : ""}`;
    return m ? `${m} min` : `${s} s`;
  }

  function tick() { // ages go on, also while the server is away; an answer of the gate grows old
    for (const age of all("[data-at].age")) age.textContent = `(${span((Date.now() - drift - Date.parse(age.dataset.at)) / 1000)} ago)`;
    for (const answer of all("[data-answered]:not(.struck)")) {
      if (Date.now() - drift - Date.parse(answer.dataset.answered) < STRUCK_S * 1000) continue;
      answer.classList.add("struck");
      answer.after(" old, ask again");
    }
  }

  function zones() {
    if (!inZone) return;
    const two = (n) => String(n).padStart(2, "0");
    for (const time of all("time")) {
      const at = new Date(time.dateTime);
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
      const today = at.toDateString() === new Date().toDateString();
      time.textContent = today ? clock : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
    }
  }

  function point(event) { // the values of a chart of steps under a pointer or finger
    const chart = event.target.closest(".steps");
    if (!chart) return;
    const lines = [...all("[data-values]", chart)].map(({ dataset }) => [dataset.name, JSON.parse(dataset.values), JSON.parse(dataset.seconds)]);
    const box = chart.getBoundingClientRect(), minute = Math.floor(((event.clientX - box.left) / box.width) * lines[0][1].length);
    const at = new Date(Math.floor(Date.parse(chart.dataset.from) / 60000) * 60000 + minute * 60000);
    const clock = inZone ? at.toTimeString().slice(0, 5) : at.toISOString().slice(11, 16);
    const said = lines.map(([name, values, seconds]) => `${name} ${values[minute] ?? "not known"}${seconds[minute] ? ` (${seconds[minute]} s)` : ""}`);
    byId("pointed").textContent = `in the minute from ${clock}, at most: ${said.join(", ")}`;
  }

  function news() { // rows that came since wait, and shift nothing that is being read
    for (const list of all("[data-news]")) {
      const rows = [...list.children], known = seen.get(list.id);
      const fresh = known ? rows.filter((row) => !known.has(row.id)) : [];
      if (!known) seen.set(list.id, new Set(rows.map((row) => row.id)));
      if (!fresh.length || fresh.length === rows.length) { seen.set(list.id, new Set(rows.map((row) => row.id))); continue; }
      fresh.forEach((row) => { row.hidden = true; });
      const button = document.createElement("button");
      button.type = "button";
      button.id = `${list.id}-new`;
      button.textContent = `${fresh.length} new`;
      button.addEventListener("click", () => {
        fresh.forEach((row) => { row.hidden = false; known.add(row.id); });
        button.remove();
      });
      list.before(button);
    }
  }

  const drawAll = () => all("[data-spec]").forEach((element) => draw(element).catch(stale));

  function stale() {
    const banner = byId("stale");
    if (banner.hidden) banner.textContent = `Not up to date: this is how it was at ${byId("view")?.dataset.at}; hwmark does not answer.`;
    banner.hidden = false;
    byId("view")?.classList.add("grey");
  }

  function prepare() {
    drift = Date.now() - Date.parse(byId("view").dataset.now);
    nameCells();
    sortable();
    zones();
    news();
    tick();
    all("[data-print]").forEach((button) => { button.hidden = false; });
  }

  const selecting = () => !window.getSelection().isCollapsed;
  const events = document.body;
  events.addEventListener("htmx:beforeRequest", (event) => {
    const asks = event.detail?.requestConfig?.verb === "post";
    if (!asks && (document.hidden || selecting())) event.preventDefault();
  });
  events.addEventListener("htmx:beforeSwap", () => {
    open = [...all("#view details[open]")].map((element) => element.id);
  });
  events.addEventListener("htmx:afterSwap", () => {
    open.forEach((id) => byId(id)?.setAttribute("open", ""));
    byId("stale").hidden = true;
    prepare();
    const now = byId("view")?.dataset.state;
    if (now !== state) byId("announce").textContent = `Now: ${now}`;
    state = now;
    drawAll();
  });
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) events.addEventListener(name, stale);
  document.addEventListener("pointermove", point);
  document.addEventListener("click", (event) => {
    point(event);
    const copy = event.target.closest("[data-copy]");
    if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = "copied"; });
    if (event.target.closest("[data-print]")) window.print();
    const menu = byId("menu");
    if (menu?.open && !menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("copy", (event) => { // what is copied is in UTC, whatever zone is shown
    if (!inZone || !selecting()) return;
    const copied = window.getSelection().getRangeAt(0).cloneContents();
    all("time", copied).forEach((time) => { time.textContent = time.dateTime; });
    event.clipboardData.setData("text/plain", copied.textContent);
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && byId("menu")?.open) byId("menu").open = false;
    const typing = event.target.closest("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    (byId("q").offsetParent ? byId("q") : byId("menu")).scrollIntoView();
    if (!byId("q").offsetParent) byId("menu").open = true;
    (byId("q").offsetParent ? byId("q") : byId("q-menu")).focus();
  });
  window.addEventListener("hwmark-embed", drawAll);
  setInterval(tick, 1000);
  prepare();
  drawAll();
})();
