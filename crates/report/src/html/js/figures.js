// What several views read from a process.

// The run that is shown; runs.js may read another.
let result = readData("pagewalk-result");

const metric = (machine, name) => machine && machine.metrics[name];
const perKilo = (machine, events) => events * 1000 / metric(machine, "instructions");
const baseName = (path) => path.split("/").pop() || path;
const walksOf = (row) => row.walks_data + row.walks_fetch;
const totalWalks = (process) => metric(process.machines[0], "walks") || 0;
const describe = (machine) => (result.descriptions || []).find((d) => d.name === machine.name);
// "16K" as bytes, and as people read it.
const sizeBytes = (size) => parseInt(size, 10) * 2 ** ({ K: 10, M: 20, G: 30 }[size.slice(-1)] || 0);
const pageName = (size) => size.replace(/([KMG])$/, " $1B");
const basePage = (machine) => (machine && describe(machine)?.base_page) || "4K";
const hugePage = (machine) => (machine && describe(machine)?.huge_page) || "2M";

// What ran, as in figures.rs: programs that take turns by their names.
const commandOf = (process) => process.command_line.length === 0 || process.origin === "interleaved"
  ? process.program : process.command_line.join(" ");

function weight(process) {
  const machine = process.machines[0];
  return metric(machine, "total_cycles") ?? metric(machine, "instructions") ?? 0;
}

// The costliest process image; the first of equals, as in figures.rs.
function costliest() {
  let best = 0;
  result.processes.forEach((process, index) => {
    if (weight(process) > weight(result.processes[best])) best = index;
  });
  return best;
}

function headline(process) {
  const program = baseName(process.program);
  const machine = process.machines[0];
  if (!machine) return `${program} ran, but no machine was simulated.`;
  if (metric(machine, "references") === 0) return `No reference of ${program} was counted.`;
  const counted = metric(machine, "instructions");
  const instructions = counted === undefined ? "an unknown number of" : count(counted);
  const walks = metric(machine, "walks");
  const share = metric(machine, "walk_cycle_share");
  if (walks === 0) return `${program} makes no page walk in ${instructions} instructions on ${machine.name}.`;
  if (walks === undefined || share === undefined) {
    return `${program} ran ${instructions} instructions on ${machine.name}.`;
  }
  return `${program} spends ${percent(share)} of its modelled cycles on page walks: ` +
    `${count(walks)} walks in ${instructions} instructions on ${machine.name}.`;
}

// Titles that say what the picture below them shows.

function whatIfFinding(process) {
  if (totalWalks(process) === 0) return "There are no page walks to remove";
  const doable = process.what_if.filter((w) => w.class === "modelled" && ["thp", "mapping_2m", "all_4k"].includes(w.id));
  if (doable.length === 0) return "What each alternative leaves of the walk cycles";
  const saved = (w) => w.baseline_walk_cycles - w.walk_cycles;
  const best = doable.reduce((a, b) => (saved(a) >= saved(b) ? a : b));
  if (saved(best) <= 0.05 * best.baseline_walk_cycles) return "No change within reach removes many page walks";
  const title = best.title[0].toUpperCase() + best.title.slice(1);
  return `${title}: ${percent(saved(best) / best.baseline_walk_cycles)} of the walk cycles are gone`;
}

function firstFinding(rows, all, otherwise) {
  const first = rows[0];
  if (!first || all === 0) return otherwise;
  return `${shorten(first.name, 60)} causes ${percent(walksOf(first) / all)} of all page walks`;
}

function timeFinding(columns) {
  const all = columns.reduce((a, b) => a + b, 0);
  if (all === 0) return "There are no page walks to show";
  const ordered = [...columns].sort((a, b) => b - a);
  const tenth = ordered.slice(0, Math.ceil(columns.length / 10)).reduce((a, b) => a + b, 0) / all;
  if (tenth < 0.15) return "Page walks are spread evenly over the run";
  return `The busiest tenth of the run holds ${percent(tenth)} of its page walks`;
}

function reachFinding(points, machine) {
  const [small, large] = [basePage(machine), hugePage(machine)];
  const own = points.find((p) => p.is_machine && p.page_size === small) || points.find((p) => p.is_machine);
  if (!own || own.walks === 0) return "How many page walks a larger or smaller TLB would leave";
  const huge = points.find((p) => p.page_size === large && p.entries === own.entries);
  const halved = points.filter((p) => p.page_size === own.page_size && p.entries > own.entries)
    .sort((a, b) => a.entries - b.entries).find((p) => p.walks * 2 <= own.walks);
  const more = halved ? `It takes ${ratio(halved.entries / own.entries).replace(/\.?0+$/, "")} times the entries to halve the page walks`
    : "Not even the largest TLB drawn halves the page walks";
  if (!huge || own.page_size === large || huge.walks >= own.walks) return more;
  const left = huge.walks / own.walks;
  return left < 0.001 ? `${more}; with ${pageName(large)} pages almost none remain`
    : `${more}; ${pageName(large)} pages leave ${percent(left)} of them`;
}

function pagesFinding(pages, all) {
  let sum = 0;
  for (let index = 0; index < pages.length; index++) {
    sum += walksOf(pages[index]);
    if (sum * 2 >= all) return `${index + 1 === 1 ? "One page takes" : `${exact(index + 1)} pages take`} half of all page walks`;
  }
  return `The ${exact(pages.length)} costliest pages take ${percent(all ? sum / all : 0)} of all page walks`;
}

function tlbFinding(machine) {
  const references = metric(machine, "references") || 0;
  const first = metric(machine, "tlb.level1.misses");
  const second = metric(machine, "tlb.level2.misses");
  if (!first || !references) return `Every reference hits the first level of ${machine.name}`;
  const misses = `${percent(first / references)} of references miss the first level of ${machine.name}`;
  return second === undefined ? misses : `${misses}, and ${percent(second / first)} of those walk`;
}
