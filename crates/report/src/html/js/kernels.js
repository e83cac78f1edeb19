// Machines under several kernels: kernels.rs writes the same for the process shown first.

const kernelsOf = (process) => process.kernels || [];
const isHost = (row) => row.policy === "host";
const together = (row) => metric(row, "tlb_mcpi") ?? 0;

// Where the program was killed for want of memory: what it cost is told until there.
const killedAt = (row) => metric(row, "kernel.killed_at");

function perInstruction(row, name) {
  const instructions = metric(row, "instructions");
  return instructions > 0 && metric(row, name) !== undefined ? metric(row, name) / instructions : undefined;
}

const KERNEL_PARTS = [["walks", "walks"], ["hits", "lower-level hits"], ["bookkeeping", "bookkeeping"],
  ["copying", "copying and clearing"], ["rest", "rest of the kernel's work"]];

function kernelParts(row) {
  const instructions = metric(row, "instructions");
  if (!(instructions > 0)) return [0, 0, 0, 0, 0];
  const of = (name) => metric(row, name) ?? 0;
  const bookkeeping = of("kernel.bookkeeping_cycles");
  const copying = of("kernel.copy_cycles") + of("kernel.zero_cycles");
  const rest = Math.max(0, of("kernel.cycles") - bookkeeping - copying);
  return [of("walk_cycles"), of("l2_hit_cycles"), bookkeeping, copying, rest].map((cycles) => cycles / instructions);
}

// What was backed for nothing, as a part of all that was backed, each at its peak.
function kernelPrice(row) {
  const backed = metric(row, "kernel.backed_bytes_peak");
  const untouched = metric(row, "kernel.untouched_bytes_peak");
  return backed > 0 && untouched !== undefined ? untouched / backed : undefined;
}

function kernelGroups(process) {
  const groups = new Map();
  for (const row of kernelsOf(process)) groups.set(row.machine, [...(groups.get(row.machine) || []), row]);
  return [...groups];
}

function kernelFinding(process) {
  const [[machine, rows]] = kernelGroups(process);
  const host = rows.find(isHost);
  const best = rows.filter((row) => !isHost(row) && row.class === "modelled" && killedAt(row) === undefined)
    .reduce((a, b) => (a && together(a) <= together(b) ? a : b), null);
  if (!host || !best) return `${machine} under several kernels`;
  if (together(host) === 0) return "Address translation costs nothing under the host's kernel";
  const left = together(best) / together(host);
  if (left > 0.95) return "No kernel makes address translation much cheaper than the host's";
  return `${best.policy}: ${percent(1 - left)} of the cost of address translation is gone`;
}

// One costly kernel may cost a hundred times the others: its bar is cut, so that theirs can be told apart.
function kernelScale(rows) {
  const ordered = rows.map(together).sort((a, b) => a - b);
  const hosts = Math.max(0, ...rows.filter(isHost).map(together));
  const end = Math.min(ordered[ordered.length - 1], Math.max(hosts, 3 * ordered[Math.floor(ordered.length / 2)]));
  return {
    end, dearest: Math.max(0, ...rows.map((row) => kernelPrice(row) ?? 0)),
    percent: (value) => end > 0 ? Math.min(1, value / end) * 100 : 0,
    isCut: (row) => together(row) > end,
  };
}

function kernelLegend(rows, scale) {
  const key = (look, text) => el("span", { class: "entry" }, el("span", { class: `key ${look}` }), text);
  const occurring = KERNEL_PARTS.filter((_, part) => rows.some((row) => kernelParts(row)[part] > 0));
  return el("div", { class: "legend" }, occurring.map(([look, text]) => key(look, text)),
    rows.some(scale.isCut) ? key("cut", "longer than drawn") : null);
}

// The group's title, and for each column its title and its words where it stands alone.
const KERNEL_COLUMNS = [
  ["walks", [["", "walks"]]], ["change", [["", "change"]]],
  ["cycles per instruction", [["walks", "walk cycles"], ["hits", "hit cycles"], ["kernel", "kernel cycles"],
    ["together", "together"]]],
  ["promotions", [["", "promotions"]]],
  ["memory", [["peak", "memory"], ["for nothing", "for nothing"], ["price", "price"]]],
];

function kernelHead() {
  const alone = (text, kind) => el("th", { class: kind, rowspan: 2, scope: "col" }, text);
  const upper = KERNEL_COLUMNS.map(([title, columns]) => columns.length === 1 ? alone(title, "number")
    : el("th", { class: "over", colspan: columns.length, scope: "colgroup" }, title));
  const lower = KERNEL_COLUMNS.filter(([, columns]) => columns.length > 1)
    .flatMap(([, columns]) => columns.map(([title]) => el("th", { class: "number", scope: "col" }, title)));
  return el("thead", {}, el("tr", {}, alone("Kernel"), alone("Cycles, and what takes them"), upper), el("tr", {}, lower));
}

function kernelLine(look, name, picture, figures) {
  const words = KERNEL_COLUMNS.flatMap(([, columns]) => columns.map(([, words]) => words));
  return el("tr", { class: look }, el("td", { class: "name" }, name), el("td", { class: "picture" }, picture),
    figures.map((figure, index) => el("td", word(words[index]), figure)));
}

function kernelBar(row, scale, mark) {
  const parts = kernelParts(row);
  let from = 0;
  const pieces = parts.map((part, index) => {
    const width = scale.percent(from + part) - scale.percent(from);
    from += part;
    return el("i", { class: KERNEL_PARTS[index][0], style: `width:${width.toFixed(2)}%` });
  });
  const words = parts.map((part, index) => index > 1 && part > 0 ? `${KERNEL_PARTS[index][0]} ${ratio(part)}` : null).filter(Boolean);
  return [el("div", { class: scale.isCut(row) ? "bar cut" : "bar" }, pieces, mark()),
    words.length ? el("span", { class: "sub" }, words.join(", ")) : null];
}

const killedText = (row) => `killed at instruction ${count(killedAt(row))}: no frame for ${bytes(metric(row, "kernel.killed_for_bytes"))}`;

function kernelRow(row, host, scale, mark) {
  const show = (value, how) => value === undefined ? "–" : how(value);
  const price = (part) => el("span", { class: "price" }, percent(part), el("span", { class: "bar" },
    el("i", { class: "memory", style: `width:${(scale.dearest > 0 ? part / scale.dearest * 100 : 0).toFixed(2)}%` })));
  const walks = metric(row, "walks") || 0;
  return kernelLine(isHost(row) ? "emphasis" : null, [row.policy, row.class === "modelled" ? null : [" ", tag(row.class)],
    killedAt(row) === undefined ? null : el("span", { class: "sub" }, killedText(row))],
    kernelBar(row, scale, mark), [
      count(walks), isHost(row) || killedAt(row) !== undefined ? "–" : change(host ? metric(host, "walks") || 0 : 0, walks),
      ...["walk_cycles", "l2_hit_cycles", "kernel.cycles"].map((name) => show(perInstruction(row, name), cycles)),
      show(metric(row, "tlb_mcpi"), cycles), show(metric(row, "kernel.promotions"), count),
      show(metric(row, "kernel.backed_bytes_peak"), bytes), show(metric(row, "kernel.untouched_bytes_peak"), bytes),
      show(kernelPrice(row), price)]);
}

function kernelGroup([machine, rows], scale) {
  const host = rows.find(isHost);
  const mark = () => host ? el("b", { style: `left:${scale.percent(together(host)).toFixed(2)}%` }) : null;
  const perfect = kernelLine(null, ["a perfect TLB ", tag("bound")],
    el("div", { class: "bar" }, el("i", { class: "bound", style: "width:0" }), mark()),
    ["0", change(host ? metric(host, "walks") || 0 : 0, 0), "0", "0", "–", "0", "–", "–", "–", "–"]);
  return el("tbody", {}, el("tr", { class: "machine" }, el("th", { colspan: 12, scope: "rowgroup" }, machine, " ", tag("modelled"))),
    rows.map((row) => kernelRow(row, host, scale, mark)), perfect);
}

function kernelTicks(scale) {
  if (!(scale.end > 0)) return null;
  const step = niceStep(scale.end, 4);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const labels = [];
  for (let index = 0; index * step <= scale.end; index++) {
    labels.push(el("span", { style: `left:${scale.percent(index * step).toFixed(2)}%` }, index ? (index * step).toFixed(digits) : "0"));
  }
  return el("tfoot", {}, el("tr", {}, el("td"), el("td", { class: "picture" }, el("div", { class: "ticks" }, labels)),
    el("td", { colspan: 10 })));
}

function kernelTable(process) {
  const rows = kernelsOf(process);
  const scale = kernelScale(rows);
  return [kernelLegend(rows, scale), el("table", { class: "what-if kernels" }, kernelHead(),
    kernelGroups(process).map((group) => kernelGroup(group, scale)), kernelTicks(scale))];
}
