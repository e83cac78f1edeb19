// Designs whose every operation is counted: sides.rs writes the same table for the process shown first.

function sideFigures(machine) {
  const references = metric(machine, "translations");
  const energy = metric(machine, "energy_pj.all");
  return { name: machine.name, cycles: metric(machine, "miss_cycles"), energy: energy !== undefined && references > 0 ? energy / references : undefined,
    level1: perKilo(machine, metric(machine, "tlb.level1.misses")), walks: perKilo(machine, metric(machine, "walks")) };
}

function sideTable(process) {
  const sides = process.machines.filter((machine) => metric(machine, "translations") !== undefined).map(sideFigures);
  if (sides.length < 2) return null;
  const most = (of) => Math.max(0, ...sides.map((side) => side[of] || 0));
  const scales = { cycles: most("cycles"), energy: most("energy") };
  const dearest = sides.map((side) => side.energy).find((energy) => energy !== undefined);
  const head = (text, number) => el("th", { class: number ? "number" : null, scope: "col" }, text);
  const bar = (side, of, look) => el("td", { class: "picture" }, el("div", { class: "bar" },
    el("i", { class: look, style: `width:${scales[of] > 0 ? ((side[of] || 0) / scales[of] * 100).toFixed(2) : 0}%` })));
  const number = (text) => el("td", { class: "number" }, text);
  const rate = (value) => number(Number.isFinite(value) ? ratio(value) : "–");
  const row = (side, index) => el("tr", { class: index === 0 ? "emphasis" : null }, el("td", { class: "mono" }, side.name),
    bar(side, "cycles", ""), number(count(side.cycles)), number(index > 0 ? change(sides[0].cycles, side.cycles) : "–"),
    bar(side, "energy", "memory"), number(side.energy === undefined ? "–" : ratio(side.energy)),
    number(index > 0 && side.energy !== undefined ? signed(side.energy / dearest - 1) : "–"), rate(side.level1), rate(side.walks));
  return el("div", { class: "scroll" }, el("table", { class: "sides" },
    el("thead", {}, el("tr", {}, head("Design"), head("Cycles of misses"), head("cycles", true), head("change", true), head("Energy"),
      head("pJ a reference", true), head("change", true), head("level-1 misses per 1000 instr.", true), head("walks per 1000 instr.", true))),
    el("tbody", {}, sides.map(row))));
}
