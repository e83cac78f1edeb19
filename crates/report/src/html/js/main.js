// Which process of which run is shown in which colours. All can be given in the address, as in
// report.html#theme=dark&run=1&process=3.

const THEMES = ["auto", "light", "dark"];
let updateProcesses = () => {};
const state = { process: costliest(), theme: "auto" };

function readAddress() {
  const wanted = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const run = Number(wanted.get("run"));
  if (runChooser) takeRun(runChooser.options[run] ? run : 0);
  const index = Number(wanted.get("process"));
  if (wanted.has("process") && result.processes[index]) state.process = index;
  if (THEMES.includes(wanted.get("theme"))) state.theme = wanted.get("theme");
}

function applyTheme() {
  if (state.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = state.theme;
  byId("theme").textContent = state.theme[0].toUpperCase() + state.theme.slice(1);
}

function showPictures() {
  const process = result.processes[state.process];
  if (!process) return;
  showHeat(process);
  showReach(process);
  showTradeoff(process);
  showMemory(process);
  showPartition(process);
}

// Of sections that the page has as tables, the part of the process that is shown.
function showParts(process) {
  const shown = `${runChooser ? runChooser.value : 0}.${process}`;
  for (const section of document.querySelectorAll("section.made")) {
    const parts = [...section.querySelectorAll("[data-of]")];
    for (const part of parts) part.hidden = part.dataset.of !== shown;
    section.hidden = parts.every((part) => part.hidden);
  }
}

function showProcess() {
  const process = result.processes[state.process];
  for (const id of ["what-if", "who-pays", "time", "reach", "functions", "pages", "tlbs"]) showSection(id, Boolean(process));
  if (!process) {
    showNothing();
    return;
  }
  showSummary(process);
  showMappings(process);
  showMappingTable(process);
  showFunctions(process);
  showPages(process);
  showParts(state.process);
  showPictures();
  byId("process").value = String(state.process);
}

function choose(index) {
  state.process = index;
  showProcess();
  updateProcesses();
  byId("summary").scrollIntoView();
}

function fillChooser() {
  const several = showSection("processes", result.processes.length > 1);
  byId("chooser").hidden = !several;
  replace("processes-title", `${result.processes.length} process images ran`);
  replace("process", result.processes.map((process, index) =>
    el("option", { value: index }, `${baseName(process.program)} (${process.pid})`)));
  updateProcesses = several ? showProcesses(choose) : () => {};
}

function takeRun(index) {
  readRun(index);
  state.process = costliest();
}

// Stays where the reader is: the same part of another run is what they want to see.
function chooseRun(index) {
  takeRun(index);
  fillChooser();
  showProcess();
}

document.documentElement.classList.add("scripts");
readAddress();
applyTheme();
fillChooser();
showProcess();
offerRuns(chooseRun);

byId("process").addEventListener("change", (event) => choose(Number(event.target.value)));
byId("theme").addEventListener("click", () => {
  state.theme = THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length];
  applyTheme();
  showPictures();
});
let drawnWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== drawnWidth) showPictures();
  drawnWidth = innerWidth;
});
addEventListener("scroll", hideTooltip, { passive: true });
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", showPictures);
}
