// Misses of a software-managed TLB by class: classes.rs writes the same table for the process shown first. And where its
// partition went, if it moves.

const MISS_CLASSES = [["l1u", "a page of the program"], ["l1k", "a mapped page of the kernel"], ["l2", "page-table entries of the program"],
  ["l3", "entries of those, and of the kernel"], ["invalid", "first touch of a page"], ["modify", "first store to a page"]];

function classTable(machine) {
  const classes = MISS_CLASSES.map(([name, what]) => ({ name, what, misses: metric(machine, `misses.${name}`), cycles: metric(machine, `miss_cycles.${name}`) }))
    .filter((row) => row.misses !== undefined && row.cycles !== undefined);
  const sum = (of) => classes.reduce((total, row) => total + row[of], 0);
  const all = { name: "all", what: "", misses: sum("misses"), cycles: sum("cycles") };
  if (all.misses === 0) return null;
  const share = (part, whole) => whole === 0 ? "–" : percent(part / whole);
  const head = (text, number) => el("th", { class: number ? "number" : null, scope: "col" }, text);
  const row = (one) => el("tr", { class: one === all ? "emphasis" : null },
    el("td", { class: "mono" }, one.name), el("td", {}, one.what),
    el("td", { class: "picture" }, el("div", { class: "bar" }, el("i", { style: `width:${all.cycles ? (one.cycles / all.cycles * 100).toFixed(2) : 0}%` }))),
    [share(one.cycles, all.cycles), count(one.cycles), one.misses ? ratio(one.cycles / one.misses) : "–", count(one.misses),
      share(one.misses, all.misses), metric(machine, "instructions") > 0 ? ratio(perKilo(machine, one.misses)) : "–"]
      .map((text) => el("td", { class: "number" }, text)));
  return el("div", { class: "scroll" }, el("table", { class: "classes" },
    el("thead", {}, el("tr", {}, head("Misses by class"), head("what misses"), head("Cycles, as a part of all classes'"), head("of all cycles", true),
      head("cycles", true), head("cycles each", true), head("misses", true), head("of all misses", true), head("per 1000 instr.", true))),
    el("tbody", {}, classes.map(row), row(all))));
}

const PARTITION_HEIGHT = 170;

// The partition from each move to the next, and to the end of the program.
function partitionSteps(machine) {
  const moves = machine.partition;
  const end = Math.max(metric(machine, "instructions") || 0, moves[moves.length - 1].instructions);
  return moves.map((move, index) => ({ from: move.instructions, to: moves[index + 1]?.instructions ?? end, lower: move.lower }));
}

function partitionChart(machine, width) {
  const steps = partitionSteps(machine);
  const end = Math.max(1, steps[steps.length - 1].to);
  const most = Math.max(...steps.map((step) => step.lower));
  const grain = Math.max(1, niceStep(most, 4));
  const highest = Math.ceil(most / grain) * grain;
  const [left, right, top] = [34, 8, 10];
  const x = (instructions) => left + (width - left - right) * instructions / end;
  const y = (lower) => top + PARTITION_HEIGHT * (1 - lower / highest);
  const line = steps.map((step) => `${x(step.from).toFixed(1)} ${y(step.lower).toFixed(1)}L${x(step.to).toFixed(1)} ${y(step.lower).toFixed(1)}`);
  const height = top + PARTITION_HEIGHT + 22;
  const show = (event) => {
    const at = (event.clientX - event.currentTarget.getBoundingClientRect().left - left) / (width - left - right) * end;
    const step = steps.find((one) => at < one.to) || steps[steps.length - 1];
    showTooltip(event, `${step.lower} slots`, [`from instruction ${count(step.from)} to ${count(step.to)}`]);
  };
  const mark = (lower) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(lower), y2: y(lower) }),
    svg("text", { x: left - 6, y: y(lower) + 4, "text-anchor": "end", class: "faint" }, String(lower))];
  const text = `Slots below the partition of ${machine.name}: ${steps[0].lower} at the start, at most ${most}, ${steps[steps.length - 1].lower} at the end`;
  return el("div", { class: "chart", style: `height:${height}px` }, svg("svg", { width, height, role: "img", "aria-label": text,
    onpointermove: show, onpointerleave: hideTooltip },
  svg("rect", { class: "ground", x: left, y: top, width: width - left - right, height: PARTITION_HEIGHT }),
  Array.from({ length: Math.round(highest / grain) + 1 }, (_, index) => mark(index * grain)),
  svg("path", { class: "partition", d: `M${line.join("L")}` }),
  svg("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }),
  svg("text", { x: left, y: y(0) + 16, class: "faint" }, "0"),
  svg("text", { x: width - right, y: y(0) + 16, "text-anchor": "end", class: "faint" }, `${count(end)} instructions`)));
}

function showPartition(process) {
  const place = byId("partition");
  const machines = process.machines.filter((machine) => (machine.partition || []).length > 0);
  place.hidden = machines.length === 0;
  if (place.hidden) return;
  place.replaceChildren(...machines.flatMap((machine) => [
    el("h3", {}, `Slots below the partition of ${machine.name}`),
    el("p", { class: "lead" }, `It moved ${exact(machine.partition.length - 1)} times; on average over instructions ` +
      `${ratio(metric(machine, "partition.lower_mean") || 0)} slots lay below it.`),
    partitionChart(machine, place.clientWidth)]));
}
