//! The figures that several renderers show, read from a machine's metrics by name.

use crate::metrics::{self, MetricPart, parts_of};
use crate::numbers::{bytes, count, counted, percent};
use crate::schema::{
    KernelResult, MachineDescription, MachineResult, ProcessResult, RunResult, TlbDescription,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Bytes of a page of `pages_touched`; 4 KiB if the result does not describe the machine.
pub(crate) fn page_bytes(description: Option<&MachineDescription>) -> u64 {
    description.and_then(|machine| size_bytes(&machine.base_page)).unwrap_or(4096)
}

/// The bytes of a page size such as `16K`.
pub(crate) fn size_bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(['K', 'M', 'G']);
    let scale = match &size[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << scale)
}

/// A count among the metrics, if the result has it.
pub(crate) fn whole(machine: &MachineResult, name: &str) -> Option<u64> {
    match machine.metrics.get(name)? {
        crate::schema::Number::Count(n) => Some(*n),
        crate::schema::Number::Real(_) => None,
    }
}

/// How a process restricts transparent huge pages, in words.
pub(crate) fn forbidden(process: &ProcessResult) -> Option<&'static str> {
    match process.thp_disable.as_deref()? {
        "all" => Some("the process itself forbids transparent huge pages (`prctl(PR_SET_THP_DISABLE)`)"),
        _ => Some(
            "the process itself forbids transparent huge pages but where it advises them \
             (`prctl(PR_SET_THP_DISABLE)` with `PR_THP_DISABLE_EXCEPT_ADVISED`)",
        ),
    }
}

/// That areas are inferred, and what follows from that.
pub(crate) fn inferred_areas(gap: Option<u64>) -> Option<String> {
    let gap = bytes(gap?);
    Some(format!(
        "areas are inferred, as the trace has no mappings: memory is mapped in aligned pieces of {gap} when it is \
         touched (`--areas`, in studies `areas`); where superpages are possible depends on that"
    ))
}

/// Share of a program's instructions above which reports mention spinning.
const NOTICEABLE_SPIN_SHARE: f64 = 0.001;

/// The share of instructions that threads spent spinning, if it is noticeable. Measured.
pub(crate) fn spin_share(machine: &MachineResult) -> Option<f64> {
    let (spun, all) = (whole(machine, "spin_instructions")?, whole(machine, "instructions")?);
    // Spinning at the start of a region of interest may have begun before it.
    let share = (spun as f64 / all.max(1) as f64).min(1.0);
    (share > NOTICEABLE_SPIN_SHARE).then_some(share)
}

/// One class of a software-managed TLB's misses.
pub(crate) struct MissClassFigures {
    pub name: &'static str,
    /// The class's name for people.
    pub what: &'static str,
    pub misses: u64,
    /// Modelled cycles.
    pub cycles: u64,
}

/// The classes of a software-managed TLB, in the order of Uhlig et al. 1994, Table V; empty for other machines.
pub(crate) fn miss_classes(machine: &MachineResult) -> Vec<MissClassFigures> {
    let figures = |&(name, what): &(&'static str, &'static str)| {
        let misses = whole(machine, &format!("misses.{name}"))?;
        let cycles = whole(machine, &format!("miss_cycles.{name}"))?;
        Some(MissClassFigures { name, what, misses, cycles })
    };
    let classes = MetricPart::named("class").map_or(&[][..], |part| part.values);
    classes.iter().filter_map(figures).collect()
}

/// Share of all modelled cycles that page walks take. Unknown without instructions, which most cycles are of.
pub(crate) fn walk_cycle_share(machine: &MachineResult) -> Option<f64> {
    if whole(machine, "instructions") == Some(0) {
        return None;
    }
    Some(machine.metrics.get("walk_cycle_share")?.as_f64())
}

/// All modelled cycles. Unknown without instructions.
pub(crate) fn total_cycles(machine: &MachineResult) -> Option<f64> {
    if whole(machine, "instructions") == Some(0) {
        return None;
    }
    Some(machine.metrics.get("total_cycles")?.as_f64())
}

/// Share of all modelled cycles that references wait for caches and memory, on machines with caches.
pub(crate) fn memory_share(machine: &MachineResult) -> Option<f64> {
    let waits = machine.metrics.get("memory.stall_cycles")?.as_f64();
    total_cycles(machine).filter(|&cycles| cycles > 0.0).map(|cycles| waits / cycles)
}

/// Events per thousand instructions.
pub(crate) fn per_kilo_instruction(machine: &MachineResult, events: u64) -> Option<f64> {
    let instructions = whole(machine, "instructions")?;
    (instructions > 0).then(|| events as f64 * 1000.0 / instructions as f64)
}

/// One line of the TLB table.
pub(crate) struct TlbFigures<'a> {
    pub name: &'a str,
    pub description: Option<&'a TlbDescription>,
    pub lookups: u64,
    pub misses: u64,
    /// Its prefetches that a reference then hit, and all, if it prefetches.
    pub prefetches: Option<(u64, u64)>,
}

impl TlbFigures<'_> {
    pub fn hits(&self) -> u64 {
        self.lookups.saturating_sub(self.misses)
    }

    pub fn miss_ratio(&self) -> Option<f64> {
        (self.lookups > 0).then(|| self.misses as f64 / self.lookups as f64)
    }

    /// `12 of 30`: useful prefetches of all.
    pub fn useful_prefetches(&self) -> Option<String> {
        let (useful, all) = self.prefetches?;
        Some(format!("{} of {}", count(useful), count(all)))
    }

    /// `64 × 4-way, 4K`, and the replacement unless it is LRU; empty if the result does not describe the machine.
    pub fn geometry(&self) -> String {
        let Some(tlb) = self.description else { return String::new() };
        let unusual = Some(&tlb.replacement).filter(|name| *name != "lru");
        let unusual = unusual.map(|name| format!(", {name}")).unwrap_or_default();
        format!("{}, {}{unusual}", array(tlb.entries, tlb.ways), tlb.page_sizes.join("+"))
    }
}

/// An array's size: `64 × 4-way`, or `8 × full`.
pub(crate) fn array(entries: u64, ways: u64) -> String {
    if ways >= entries { format!("{entries} × full") } else { format!("{entries} × {ways}-way") }
}

/// The arrays of a machine: in the description's order, or else by name.
pub(crate) fn tlbs<'a>(
    machine: &'a MachineResult,
    description: Option<&'a MachineDescription>,
) -> Vec<TlbFigures<'a>> {
    let mut by_name: BTreeMap<&str, TlbFigures> = machine
        .metrics
        .keys()
        .filter_map(|key| parts_of("tlb.{array}.lookups", key)?.pop())
        .map(|name| {
            let of = |what| whole(machine, &format!("tlb.{name}.{what}"));
            let [lookups, misses] = ["lookups", "misses"].map(|what| of(what).unwrap_or(0));
            let prefetches = of("prefetches_useful").zip(of("prefetches"));
            (name, TlbFigures { name, description: None, lookups, misses, prefetches })
        })
        .collect();
    let mut rows = Vec::with_capacity(by_name.len());
    for tlb in description.map_or(&[][..], |d| &d.tlbs) {
        if let Some(row) = by_name.remove(tlb.name.as_str()) {
            rows.push(TlbFigures { description: Some(tlb), ..row });
        }
    }
    rows.extend(by_name.into_values());
    rows
}

/// References that missed every array of a level.
pub(crate) fn level_misses(machine: &MachineResult) -> Vec<(u32, u64)> {
    (1..=2).filter_map(|level| Some((level, whole(machine, &format!("tlb.level{level}.misses"))?))).collect()
}

/// The description that belongs to a machine.
pub(crate) fn description<'a>(result: &'a RunResult, machine: &str) -> Option<&'a MachineDescription> {
    result.descriptions.iter().find(|d| d.name == machine)
}

/// What is known of a process besides its command: its id, how it ended, its operating system. Formats of other tools
/// tell neither of the first two.
pub(crate) fn circumstances(process: &ProcessResult) -> Vec<String> {
    let ended = Some(process.ended.clone()).filter(|ended| ended != "unknown");
    let structure = process.structure.iter().map(|name| format!("under {name}"));
    pid(process).into_iter().chain(ended).chain(structure).collect()
}

/// A process's id, unless it is 0: no program has that.
fn pid(process: &ProcessResult) -> Option<String> {
    (process.pid != 0).then(|| format!("pid {}", process.pid))
}

/// A process by `name` and its id, if that is known.
pub(crate) fn named(name: &str, process: &ProcessResult) -> String {
    pid(process).map_or_else(|| name.to_owned(), |pid| format!("{name} ({pid})"))
}

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => path,
    }
}

/// What ran, for people: the command line, or the programs if there are several or no command line is known.
pub(crate) fn command(process: &ProcessResult) -> String {
    // The command lines of programs that take turns are concatenated, so nobody could tell them apart.
    if process.command_line.is_empty() || process.origin == "interleaved" {
        process.program.clone()
    } else {
        process.command_line.join(" ")
    }
}

/// The total cost of a process on the first machine: cycles, else instructions.
pub(crate) fn weight(process: &ProcessResult) -> f64 {
    let Some(machine) = process.machines.first() else { return 0.0 };
    total_cycles(machine).or_else(|| whole(machine, "instructions").map(|n| n as f64)).unwrap_or(0.0)
}

/// Orders processes by walk cycles, then by [weight].
pub(crate) fn by_cost(one: &ProcessResult, other: &ProcessResult) -> Ordering {
    let walk_cycles =
        |process: &ProcessResult| process.machines.first().and_then(|m| whole(m, "walk_cycles"));
    walk_cycles(one).cmp(&walk_cycles(other)).then(weight(one).total_cmp(&weight(other)))
}

/// The process image that is shown in full: the costliest. A driver such as `gcc` or `sh -c` starts first and does
/// next to nothing.
pub(crate) fn costliest(result: &RunResult) -> Option<usize> {
    // The first of equals.
    let all = result.processes.iter().enumerate().rev();
    all.max_by(|(_, one), (_, other)| by_cost(one, other)).map(|(index, _)| index)
}

/// The finding in one sentence.
pub(crate) fn headline(process: &ProcessResult) -> String {
    let program = base_name(&process.program);
    let Some(machine) = process.machines.first() else {
        return format!("{program} ran, but no machine was simulated.");
    };
    if whole(machine, "references") == Some(0) {
        return format!("No reference of {program} was counted.");
    }
    let instructions = whole(machine, "instructions").map_or("an unknown number of".to_owned(), count);
    let waits = |spends: &str, of: &str| {
        let told = |share| format!("{spends} {}{of} waiting for caches and memory", percent(share));
        memory_share(machine).map(told).unwrap_or_default()
    };
    match (whole(machine, "walks"), walk_cycle_share(machine)) {
        (Some(0), _) => format!(
            "{program} makes no page walk in {instructions} instructions on {}{}.",
            machine.name,
            waits(" and spends", " of its modelled cycles"),
        ),
        (Some(walks), Some(share)) => format!(
            "{program} spends {} of its modelled cycles on page walks{}: {} walks in {instructions} \
             instructions on {}{}.",
            percent(share),
            waits(" and", ""),
            count(walks),
            machine.name,
            asked_for(process, walks).unwrap_or_default()
        ),
        (Some(walks), None) if whole(machine, "instructions") == Some(0) => format!(
            "{program} makes {} in {} on {}; the share of time is unknown, as there are no instructions.",
            counted(walks, "walk"),
            counted(whole(machine, "references").unwrap_or(0), "reference"),
            machine.name
        ),
        _ => format!("{program} ran {instructions} instructions on {}.", machine.name),
    }
}

/// The code that mapped the memory of at least a third of the walks.
fn asked_for(process: &ProcessResult, walks: u64) -> Option<String> {
    let row = process.attribution.mappings.iter().max_by_key(|row| row.walks())?;
    let part = row.walks() as f64 / walks as f64;
    let who = row.made_by.as_ref().filter(|_| part > 1.0 / 3.0)?;
    Some(format!(", {} of them in memory that {who} asked for", percent(part)))
}

/// One machine under one kernel, for tables.
pub(crate) struct KernelFigures<'a> {
    pub of: &'a KernelResult,
    pub walks: u64,
    /// Walks on the same machine under the host's kernel.
    pub host_walks: u64,
    /// Cycles of walks per instruction.
    pub walk_cycles: Option<f64>,
    /// Cycles of lower-level hits per instruction.
    pub hit_cycles: Option<f64>,
    /// Cycles of the kernel's work per instruction; absent for the host's kernel, whose work is not counted.
    pub kernel_cycles: Option<f64>,
    /// All these cycles per instruction.
    pub together: Option<f64>,
}

impl KernelFigures<'_> {
    /// Whether this is the host's kernel, the base of comparison.
    pub fn is_host(&self) -> bool {
        self.of.policy == "host"
    }

    /// A count by its metric's name, if the kernel has it.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.of.metrics.get(name).map(|value| value.as_f64() as u64)
    }

    /// [`KernelFigures::of`] for people.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(metrics::find(name)?.unit.text(*self.of.metrics.get(name)?))
    }

    /// The instruction at which the program was killed for lack of memory, where all figures end, and the bytes that no
    /// frame was free for.
    pub fn killed(&self) -> Option<(u64, u64)> {
        Some((self.of("kernel.killed_at")?, self.of("kernel.killed_for_bytes")?))
    }

    /// The cycles per instruction by part, in the order of [`KERNEL_PARTS`].
    pub fn parts(&self) -> [f64; 6] {
        let Some(instructions) = value(self.of, "instructions").filter(|&n| n > 0.0) else { return [0.0; 6] };
        let of = |name: &str| value(self.of, name).unwrap_or(0.0);
        let bookkeeping = of("kernel.bookkeeping_cycles");
        let copying = of("kernel.copy_cycles") + of("kernel.zero_cycles");
        let rest = (of("kernel.cycles") - bookkeeping - copying).max(0.0);
        [of("walk_cycles"), of("l2_hit_cycles"), of("memory.stall_cycles"), bookkeeping, copying, rest]
            .map(|cycles| cycles / instructions)
    }

    /// Cycles per instruction of waits for caches of memory, if there are any.
    pub fn waits(&self) -> Option<f64> {
        per_instruction(self.of, "memory.stall_cycles")
    }

    /// Bytes backed and never touched as a share of all backed bytes, each at its peak.
    pub fn price(&self) -> Option<f64> {
        let backed = self.of("kernel.backed_bytes_peak").filter(|&bytes| bytes > 0)?;
        Some(self.of("kernel.untouched_bytes_peak")? as f64 / backed as f64)
    }
}

/// [`KernelFigures::killed`] in words.
pub(crate) fn killed(at: u64, asked: u64) -> String {
    format!("killed at instruction {}: no frame for {}", count(at), bytes(asked))
}

/// Parts of the cycles of translation and, with caches, of memory: a name for the page's style, and words.
pub(crate) const KERNEL_PARTS: [(&str, &str); 6] = [
    ("walks", "walks"),
    ("hits", "lower-level hits"),
    ("waits", "waits for caches and memory"),
    ("bookkeeping", "bookkeeping"),
    ("copying", "copying and clearing"),
    ("rest", "rest of the kernel's work"),
];

fn value(row: &KernelResult, name: &str) -> Option<f64> {
    row.metrics.get(name).map(|value| value.as_f64())
}

fn per_instruction(row: &KernelResult, name: &str) -> Option<f64> {
    let instructions = value(row, "instructions").filter(|&n| n > 0.0)?;
    Some(value(row, name)? / instructions)
}

/// All rows of a process.
pub(crate) fn kernels(process: &ProcessResult) -> impl Iterator<Item = KernelFigures<'_>> {
    let walks = |row: &KernelResult| value(row, "walks").unwrap_or(0.0) as u64;
    process.kernels.iter().map(move |of| {
        let host = process.kernels.iter().find(|row| row.machine == of.machine && row.policy == "host");
        KernelFigures {
            of,
            walks: walks(of),
            host_walks: host.map_or(0, walks),
            walk_cycles: per_instruction(of, "walk_cycles"),
            hit_cycles: per_instruction(of, "l2_hit_cycles"),
            kernel_cycles: per_instruction(of, "kernel.cycles"),
            together: value(of, "mcpi")
                .or_else(|| value(of, "tlb_mcpi"))
                .filter(|_| value(of, "instructions") != Some(0.0)),
        }
    })
}

/// A data side's design, against the process's first.
pub(crate) struct SideFigures<'a> {
    pub name: &'a str,
    /// Level-1 misses per thousand instructions.
    pub level1: Option<f64>,
    /// Walks per thousand instructions.
    pub walks: Option<f64>,
    /// Cycles of misses, here and in the first design.
    pub cycles: (u64, u64),
    /// Picojoules per reference, here and in the first design that has any.
    pub energy: Option<(f64, f64)>,
}

/// The data sides of a process; empty if it has none.
pub(crate) fn sides(process: &ProcessResult) -> Vec<SideFigures<'_>> {
    let energy = |machine: &MachineResult| {
        let all = machine.metrics.get("energy_pj.all")?.as_f64();
        let references = whole(machine, "translations").filter(|&references| references > 0)?;
        Some(all / references as f64)
    };
    let first = process.machines.first().and_then(|machine| whole(machine, "miss_cycles")).unwrap_or(0);
    let dearest = process.machines.iter().find_map(energy);
    let side = |machine| {
        let per_kilo = |name| per_kilo_instruction(machine, whole(machine, name)?);
        Some(SideFigures {
            name: &machine.name,
            level1: per_kilo("tlb.level1.misses"),
            walks: per_kilo("walks"),
            cycles: (whole(machine, "translations").and(whole(machine, "miss_cycles"))?, first),
            energy: energy(machine).zip(dearest),
        })
    };
    process.machines.iter().filter_map(side).collect()
}
