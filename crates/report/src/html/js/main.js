// Which process of which run is shown in which colours. All can be given in the address, as in
// report.html#theme=dark&run=1&process=3.

const THEMES = ["auto", "light", "dark"];
const PLACES = ["summary", "sections"];
const costliest = byId("summary").dataset.costliest.split(" ").map(Number);
const runChooser = byId("run");
const state = { run: 0, process: costliest[0], theme: "auto" };
// What was taken out of the page, by run and process: tables keep their order there.
const kept = new Map();
let shown = { ...state };

function key({ run, process }) {
  return `${run}.${process}`;
}

// The text of an element, which may be compressed.
async function textOf(id) {
  const element = byId(id);
  if (element.type !== "application/gzip") return element.textContent;
  const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  return new Response(new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"))).text();
}

const parsed = new Map();
function data(id) {
  if (!parsed.has(id)) parsed.set(id, textOf(id).then(JSON.parse));
  return parsed.get(id);
}

const cellsOf = async ({ run, process }) =>
  (await data(run ? `pagewalk-result-${run + 1}` : "pagewalk-result")).processes[process].heat.rows;

// Charts by their elements: their data stands there before they are drawn.
const charts = new WeakMap();
function chartOf(host) {
  if (!charts.has(host)) charts.set(host, JSON.parse(host.querySelector("script").textContent));
  return charts.get(host);
}

async function draw() {
  const at = shown;
  const hosts = [...document.querySelectorAll("#sections .chart")];
  const of = (kind) => hosts.filter((host) => chartOf(host).kind === kind);
  for (const host of of("plot")) drawPlot(host, chartOf(host));
  for (const host of of("bars")) drawBars(host, chartOf(host));
  for (const host of of("heat")) {
    const cells = await cellsOf(at);
    // The reader may have gone on.
    if (at !== shown) return;
    drawHeat(host, chartOf(host), cells);
  }
}

function applyTheme() {
  if (state.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = state.theme;
  byId("theme").textContent = state.theme[0].toUpperCase() + state.theme.slice(1);
}

// Puts what is chosen in the place of what is shown.
async function exchange() {
  const wanted = key(state);
  if (wanted === key(shown)) return;
  const views = kept.has(wanted) ? null : await data("pagewalk-views");
  if (wanted !== key(state) || wanted === key(shown)) return;
  kept.set(key(shown), PLACES.map((place) => [...byId(place).childNodes]));
  PLACES.forEach((place, index) => {
    if (views) byId(place).innerHTML = views[state.run][state.process][index];
    else byId(place).replaceChildren(...kept.get(wanted)[index]);
  });
  shown = { ...state };
}

function mark() {
  for (const part of document.querySelectorAll("[data-run]:not(tbody)")) part.hidden = Number(part.dataset.run) !== state.run;
  for (const link of document.querySelectorAll("nav a")) link.hidden = !byId(link.hash.slice(1));
  document.querySelectorAll("#runs tbody").forEach((run, index) => run.classList.toggle("chosen", index === state.run));
  for (const table of document.querySelectorAll(".processes table")) {
    for (const row of sorting.get(table)) {
      row.tabIndex = 0;
      row.classList.toggle("chosen", Number(row.dataset.opens) === state.process);
    }
  }
  for (const chooser of document.querySelectorAll(".chooser[data-run] select")) chooser.value = String(state.process);
  if (!runChooser) return;
  runChooser.value = String(state.run);
  byId("run-shown").textContent = runChooser.selectedOptions[0].textContent;
}

async function show() {
  await exchange();
  sortTables(document);
  mark();
  await draw();
}

async function choose(process) {
  state.process = process;
  await show();
  byId("summary").scrollIntoView();
}

// Stays where the reader is: the same part of another run is what they want to see.
function chooseRun(run) {
  state.run = run;
  state.process = costliest[run];
  return show();
}

function readAddress() {
  const wanted = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const run = Number(wanted.get("run"));
  if (runChooser && runChooser.options[run]) [state.run, state.process] = [run, costliest[run]];
  const known = document.querySelector(`.chooser[data-run="${state.run}"] select`);
  if (wanted.has("process") && known?.options[Number(wanted.get("process"))]) state.process = Number(wanted.get("process"));
  if (THEMES.includes(wanted.get("theme"))) state.theme = wanted.get("theme");
}

document.documentElement.classList.add("scripts");
readAddress();
applyTheme();
show();

for (const chooser of document.querySelectorAll(".chooser[data-run] select")) {
  chooser.addEventListener("change", () => choose(Number(chooser.value)));
}
for (const table of document.querySelectorAll(".processes table")) {
  const open = (event) => {
    const row = event.target.closest("tr[data-opens]");
    if (row) choose(Number(row.dataset.opens));
  };
  setAll(table, { onclick: open, onkeydown: (event) => { if (event.key === "Enter") open(event); } });
}
runChooser?.addEventListener("change", () => chooseRun(Number(runChooser.value)));
document.querySelectorAll("#runs tbody").forEach((run, index) => run.addEventListener("click", () => chooseRun(index)));
byId("theme").addEventListener("click", () => {
  state.theme = THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length];
  applyTheme();
  draw();
});
let drawnWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== drawnWidth) draw();
  drawnWidth = innerWidth;
});
addEventListener("scroll", hideTooltip, { passive: true });
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", draw);
}
