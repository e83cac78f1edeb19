// The parts that stand in the page without scripts too: summary.rs writes the same for the process shown first.

function card(label, value, note, kind) {
  return el("div", { class: "card" },
    el("div", { class: "label" }, label, tag(kind)),
    el("div", { class: "value" }, value),
    el("div", { class: "note" }, note));
}

function cards(process) {
  const machine = process.machines[0];
  if (!machine) return [];
  const counted = (name) => metric(machine, name) === undefined ? "–" : count(metric(machine, name));
  const walks = metric(machine, "walks") || 0;
  const share = metric(machine, "walk_cycle_share");
  const rate = perKilo(machine, walks);
  const perfect = process.what_if.find((w) => w.id === "perfect_tlb");
  const cycles = metric(machine, "total_cycles");
  const bound = perfect && cycles > 0 ? (perfect.baseline_walk_cycles - perfect.walk_cycles) / cycles : undefined;
  return [
    card("Instructions", counted("instructions"), `${counted("references_fetch")} fetches`, "measured"),
    card("Data references", counted("references_data"), "loads, stores and modifies", "measured"),
    card("Pages touched", counted("pages_touched"), bytes((metric(machine, "pages_touched") || 0) * sizeBytes(basePage(machine))), "measured"),
    card("Page walks", counted("walks"), `${counted("walks_data")} data, ${counted("walks_fetch")} fetch`, "modelled"),
    card("Walk rate", Number.isFinite(rate) ? ratio(rate) : "–", "per 1000 instructions (WPKI)", "modelled"),
    card("Walk references", counted("walk_references"),
      walks ? `${ratio((metric(machine, "walk_references") || 0) / walks)} per walk` : "no walks", "modelled"),
    card("Walk cycles", share === undefined ? "–" : percent(share), `${counted("walk_cycles")} of all modelled cycles`, "modelled"),
    card("Perfect TLB saves", bound === undefined ? "–" : percent(bound), "of all modelled cycles", "bound"),
    ...notes(process, machine),
  ];
}

// What a reader should know of the run before the figures are compared with a native one.
function notes(process, machine) {
  const spun = Math.min((metric(machine, "spin_instructions") || 0) / Math.max(metric(machine, "instructions") || 0, 1), 1);
  const waiting = spun > 0.001 ? [card("Waiting by spinning", percent(spun),
    "of instructions: threads run one at a time here, so spinning lasts longer than natively", "measured")] : [];
  const forbidden = {
    all: "the process itself forbids transparent huge pages (prctl(PR_SET_THP_DISABLE))",
    except_advised: "the process itself forbids transparent huge pages but where it advises them " +
      "(prctl(PR_SET_THP_DISABLE) with PR_THP_DISABLE_EXCEPT_ADVISED)",
  }[process.thp_disable];
  return forbidden ? [...waiting, card("Huge pages", "forbidden", forbidden, "measured")] : waiting;
}

const word = (text, attributes = {}) => ({ class: "number", "data-word": text, ...attributes });

function whatIfRow(whatIf, scale, dearest, cycles) {
  const isBaseline = whatIf.id === "baseline";
  const kind = isBaseline ? "baseline" : whatIf.class === "bound" ? "bound" : "";
  const part = relative(whatIf);
  const title = [whatIf.title];
  if (!isBaseline && whatIf.class === "bound") title.push(" ", tag("bound"));
  if (whatIf.from_instruction > 0) {
    const to = whatIf.to_instruction === undefined ? "" : ` to ${count(whatIf.to_instruction)}`;
    title.push(el("span", { class: "sub" }, `from instruction ${count(whatIf.from_instruction)}${to}`));
  }
  const saved = (whatIf.walk_cycles - whatIf.baseline_walk_cycles) / cycles;
  const price = whatIf.memory_price_mib;
  return el("tr", { class: isBaseline ? "emphasis" : null },
    el("td", { class: "name" }, title),
    el("td", { class: "picture" }, el("div", { class: "bar" },
      el("i", { class: kind, style: `width:${(part / scale * 100).toFixed(2)}%` }),
      el("b", { style: `left:${(100 / scale).toFixed(2)}%` }))),
    el("td", word("walks"), count(whatIf.walks)),
    el("td", word("walk cycles"), count(whatIf.walk_cycles)),
    el("td", word("change"), isBaseline ? "–" : change(whatIf.baseline_walk_cycles, whatIf.walk_cycles)),
    el("td", word("of all cycles"), isBaseline || !(cycles > 0) ? "–" : signed(saved)),
    el("td", word("memory price"), isBaseline ? "–" : el("span", { class: "price" }, mebibytes(price),
      el("span", { class: "bar" }, el("i", { class: "memory", style: `width:${dearest > 0 ? (price / dearest * 100).toFixed(2) : 0}%` })))));
}

const relative = (whatIf) => whatIf.baseline_walk_cycles > 0 ? whatIf.walk_cycles / whatIf.baseline_walk_cycles : 0;

function whatIfTable(process) {
  const scale = Math.max(1, ...process.what_if.map(relative));
  const dearest = Math.max(...process.what_if.map((w) => w.memory_price_mib));
  const cycles = metric(process.machines[0], "total_cycles");
  const head = (text, number) => el("th", { class: number ? "number" : null, scope: "col" }, text);
  const tick = (at, text) => el("span", { style: `left:${(at / scale * 100).toFixed(2)}%` }, text);
  return el("table", { class: "what-if" },
    el("thead", {}, el("tr", {}, head("Alternative"), head("Walk cycles, as it is = 100 %"), head("walks", true),
      head("walk cycles", true), head("change", true), head("of all cycles", true), head("memory price", true))),
    el("tbody", {}, process.what_if.map((whatIf) => whatIfRow(whatIf, scale, dearest, cycles))),
    el("tfoot", {}, el("tr", {}, el("td"), el("td", { class: "picture" },
      el("div", { class: "ticks" }, tick(0, "0"), tick(0.5, "50 %"), tick(1, "100 %"))), el("td", { colspan: 5 }))));
}

const arraySize = (entries, ways) => ways >= entries ? `${entries} × full` : `${entries} × ${ways}-way`;

function tlbNames(machine) {
  const named = Object.keys(machine.metrics).filter((key) => /^tlb\..*\.lookups$/.test(key)).map((key) => key.slice(4, -8)).sort();
  const described = (describe(machine)?.tlbs || []).map((tlb) => tlb.name).filter((name) => named.includes(name));
  return [...described, ...named.filter((name) => !described.includes(name))];
}

function tlbTable(machine) {
  const rate = (events) => metric(machine, "instructions") > 0 ? ratio(perKilo(machine, events)) : "–";
  const head = (text, number) => el("th", { class: number ? "number" : null, scope: "col" }, text);
  const cell = (text) => el("td", { class: "number" }, text);
  const row = (name) => {
    const shape = describe(machine)?.tlbs.find((tlb) => tlb.name === name);
    const lookups = metric(machine, `tlb.${name}.lookups`) || 0;
    const misses = metric(machine, `tlb.${name}.misses`) || 0;
    return el("tr", { class: misses >= lookups ? "faint" : null },
      el("td", { class: "mono" }, name), el("td", {}, shape ? String(shape.level) : ""),
      el("td", {}, shape ? shape.serves.join(", ") : ""), el("td", {}, shape ? shape.page_sizes.join(", ") : ""),
      el("td", {}, shape ? arraySize(shape.entries, shape.ways) : ""), cell(count(lookups)), cell(count(misses)),
      cell(lookups > 0 ? percent(misses / lookups) : "–"), cell(rate(misses)));
  };
  const level = (n) => {
    const misses = metric(machine, `tlb.level${n}.misses`);
    return misses === undefined ? null : el("tr", { class: "emphasis" }, el("td", {}, `Level ${n}`), el("td", {}, String(n)),
      el("td", { colspan: 3 }, "missed every array of the level"), cell(""), cell(count(misses)), cell(""), cell(rate(misses)));
  };
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, head("Array"), head("level"), head("serves"), head("pages"), head("entries"),
      head("lookups", true), head("misses", true), head("miss ratio", true), head("misses per 1000 instr.", true))),
    el("tbody", {}, tlbNames(machine).map(row), level(1), level(2))));
}

function walkerLine(machine) {
  const shape = describe(machine);
  if (!shape) return null;
  const caches = shape.walk_caches.map((cache) => {
    const lookups = metric(machine, `walk_cache.${cache.name}.lookups`);
    const hits = metric(machine, `walk_cache.${cache.name}.hits`);
    const share = lookups > 0 ? `, ${percent(hits / lookups)} hits` : "";
    return `${cache.name} (${arraySize(cache.entries, cache.ways)}${share})`;
  });
  const cost = Object.entries(shape.cost).map(([name, cycles]) => `${name} ${cycles}`);
  return el("p", { class: "lead" }, `Page table: ${shape.walker || `radix, ${shape.walk_levels} levels`}. Page-walk caches: ` +
    `${caches.join(", ") || "none"}. Prices in cycles: ${cost.join(", ") || "none"}.`);
}

const tlbTables = (process) => process.machines.flatMap((machine) => [
  process.machines.length > 1 ? el("h3", {}, machine.name) : null, tlbTable(machine), classTable(machine), walkerLine(machine)]);

function showNothing() {
  for (const id of ["cut", "command", "advice", "losses", "cards"]) replace(id);
  replace("headline", "No process was recorded.");
}

function showSummary(process) {
  const structure = process.structure ? `, under ${process.structure}` : "";
  const ended = `${process.origin}, pid ${process.pid}, ${process.ended}${structure}`;
  replace("cut", process.cut_short ? `Cut short: these figures lack ${process.cut_short}` : "");
  replace("command", el("code", {}, commandOf(process)), ` (${ended})`);
  replace("headline", headline(process));
  replace("advice", withCode(process.advice));
  replace("losses", process.losses.map((loss) => el("li", {}, `Lost: ${loss}`)));
  replace("cards", cards(process));
  const kernels = kernelsOf(process).length > 0;
  if (showSection("what-if", kernels || process.what_if.length > 0)) {
    replace("what-if-title", kernels ? kernelFinding(process) : whatIfFinding(process));
    byId("what-if-lead").hidden = kernels;
    byId("kernels-lead").hidden = !kernels;
    replace("what-if-table", kernels ? kernelTable(process) : whatIfTable(process));
  }
  if (process.machines[0]) replace("tlbs-title", tlbFinding(process.machines[0]));
  replace("tlb-tables", tlbTables(process));
}
