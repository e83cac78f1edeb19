// Several runs in one page: runs.rs writes their table, the chooser, and the data of each. A page of one run has none of that.

const runChooser = byId("run");

function readRun(index) {
  result = readData(index ? `pagewalk-result-${index + 1}` : "pagewalk-result");
  runChooser.value = String(index);
  byId("run-shown").textContent = runChooser.selectedOptions[0].textContent;
  document.querySelectorAll("#runs tbody").forEach((run, other) => run.classList.toggle("chosen", other === index));
}

function offerRuns(onChoose) {
  if (!runChooser) return;
  runChooser.addEventListener("change", () => onChoose(Number(runChooser.value)));
  document.querySelectorAll("#runs tbody").forEach((run, index) => run.addEventListener("click", () => onChoose(index)));
}
