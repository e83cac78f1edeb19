// Which process is shown in which colours. Both can be given in the address, as in report.html#theme=dark&process=3.

const THEMES = ["auto", "light", "dark"];
let updateProcesses = () => {};
const state = { process: costliest(), theme: "auto" };

function readAddress() {
  if (!location.hash.includes("=")) return;
  const wanted = new URLSearchParams(location.hash.slice(1));
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

function showProcess() {
  const process = result.processes[state.process];
  if (!process) {
    for (const id of ["what-if", "who-pays", "time", "reach", "functions", "pages", "tlbs"]) showSection(id, false);
    return;
  }
  showSummary(process);
  showMappings(process);
  showMappingTable(process);
  showFunctions(process);
  showPages(process);
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
  if (result.processes.length < 2) return;
  byId("chooser").hidden = false;
  byId("process").append(...result.processes.map((process, index) =>
    el("option", { value: index }, `${baseName(process.program)} (${process.pid})`)));
  byId("process").addEventListener("change", (event) => choose(Number(event.target.value)));
  updateProcesses = showProcesses(choose);
}

document.documentElement.classList.add("scripts");
readAddress();
applyTheme();
fillChooser();
showProcess();

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
