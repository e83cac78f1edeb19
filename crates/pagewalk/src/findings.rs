//! Turns the simulator's findings into the printed result: names, symbols, metrics.

mod alternatives;
mod functions;
mod programs;

pub use alternatives::{cache_change, uncounted};

use crate::colors::color_misses;
use crate::makers::made_by;
use crate::waits::MachineWaits;
use alternatives::what_if;
pub(crate) use functions::unnamed_in_file;
use functions::{keep_costliest, no_jit_names};
use pagewalk_mm::{AddressSpace, MappingId, MappingInfo, ProcessMapping};
use pagewalk_report::metrics::sum;
use pagewalk_report::printable;
use pagewalk_report::schema::{
    Attribution, FunctionRow, Group, Heat, HeatRow, MachineResult, MappingRow, PageRow, ProcessResult,
    ReachPoint,
};
use pagewalk_sim::{DesignCounts, HeatMap, MappingCounts, PageWalks, ProfileResult};
use pagewalk_sweep::{group_metrics, metrics, partition};
use pagewalk_symbols::{JitError, ObjectError, Symbolizer};
use pagewalk_trace::{Analysis, Batch, Event, Mapping, MappingKind, Origin, StreamHeader, ThpDisable};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::RefIndex;
pub(crate) use programs::Payers;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Most rows of the report's page table.
const PAGES_MAX: usize = 1000;
/// Most mappings whose makers are named.
const MADE_BY_MAX: usize = 100;
/// Most mappings with rows of their own in the heat map.
const HEAT_MAPPINGS_MAX: usize = 24;

/// How much of a process to keep. Programs may start thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything.
    Full,
    /// Counters, mappings and the costliest functions.
    Brief,
}

impl Detail {
    /// Most rows of the function table.
    fn functions(self) -> usize {
        match self {
            Detail::Full => 2000,
            Detail::Brief => 20,
        }
    }
}

/// Turns findings into results, with one cache of symbols for all processes.
#[derive(Default)]
pub(crate) struct Namer {
    symbols: Arc<Mutex<Symbolizer>>,
    ahead: OnceLock<Sender<String>>,
    /// When the trace of each process was recorded, if it was: a newer map of JIT code belongs to another process.
    pub until: Vec<Option<SystemTime>>,
}

/// Preloads the symbols of code files while the program runs, to save time at the end.
pub(crate) struct SymbolPreloader<'a>(&'a Namer);

impl Analysis for SymbolPreloader<'_> {
    fn on_batch(&mut self, _batch: &Batch<'_>) {}

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let Event::Map(Mapping { protection, file: Some(file), .. }) = event else { return };
        if protection.execute {
            // Without a thread, symbols are read on demand.
            let _ =
                self.0.ahead.get_or_init(|| read_ahead(Arc::clone(&self.0.symbols))).send(file.path.clone());
        }
    }
}

/// Reads symbols of the files whose paths are sent, until the sender is dropped.
fn read_ahead(symbols: Arc<Mutex<Symbolizer>>) -> Sender<String> {
    let (send, paths) = channel::<String>();
    let read = move || {
        for path in paths {
            symbols.lock().unwrap_or_else(PoisonError::into_inner).prepare(&path);
        }
    };
    // Detached: nobody waits for it.
    let _ = std::thread::Builder::new().name("symbols".to_owned()).spawn(read);
    send
}

impl Namer {
    /// An analysis that preloads a stream's symbols.
    pub(crate) fn ahead(&self) -> SymbolPreloader<'_> {
        SymbolPreloader(self)
    }

    /// The result of one process, except how it ended.
    pub fn process(
        &self,
        header: &StreamHeader,
        machines: &[MachineSpec],
        findings: &mut ProfileResult<'_>,
        detail: Detail,
    ) -> ProcessResult {
        let (attribution, jit) = self.attribution(header.pid, &machines[0], findings, detail);
        let jit = jit.map(|error| no_jit_names(&error));
        let losses = jit.into_iter().chain(self.unnamed(&attribution.functions)).collect();
        let space = findings.space();
        let label = |of: ProcessMapping| label(&attribution.mappings, &space.info(of.mapping).name);
        let what_if = findings.alternatives().into_iter().map(|a| what_if(&a, label, &machines[0]));
        let what_if = what_if.collect();
        let mut process = ProcessResult {
            losses,
            thp_disable: thp_disable(findings.space().thp_disable()),
            machines: machines.iter().zip(findings.machines()).map(|(m, counts)| result(m, counts)).collect(),
            heat: match detail {
                Detail::Full => heat(findings.heat(), findings.space()),
                Detail::Brief => Heat::default(),
            },
            reach: reach(findings),
            what_if,
            attribution,
            ..blank(header)
        };
        process.advice = pagewalk_report::advise(&process, machines[0].paging.base().bytes());
        process
    }

    /// Files whose functions have no names, since the files have been rebuilt.
    fn unnamed(&self, functions: &[FunctionRow]) -> Vec<String> {
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let is_seen = |file: &&String| functions.iter().any(|row| row.object == **file);
        let of_another_build = symbols.rebuilt().iter().filter(is_seen).map(|file| rebuilt(file));
        let is_unread =
            |problem: &&ObjectError| functions.iter().any(|row| Path::new(&row.object) == problem.path);
        let unread = symbols.problems().iter().filter(is_unread);
        let unread = unread.map(|problem| printable(&problem.to_string()));
        of_another_build.chain(unread).collect()
    }

    fn attribution(
        &self,
        pid: u32,
        machine: &MachineSpec,
        findings: &mut ProfileResult<'_>,
        detail: Detail,
    ) -> (Attribution, Option<JitError>) {
        let waits = MachineWaits::of(findings.waits(), machine);
        let mappings = self.mappings(findings, detail, &waits);
        let (mut functions, jit) = self.functions((pid, 0), findings.functions(), findings.space(), &waits);
        keep_costliest(&mut functions, detail.functions());
        let (pages, pages_left_out) = page_rows(findings.pages(), findings.space(), &waits, detail);
        let groups = threads(&findings.groups(), |_| None);
        let name = |mapping: MappingId| findings.space().info(mapping).name.clone();
        let colors = match detail {
            Detail::Full => color_misses(machine, waits.pages(), name),
            Detail::Brief => None,
        };
        (Attribution { mappings, functions, pages, pages_left_out, groups, colors }, jit)
    }

    /// The mappings, with the makers of the costliest.
    fn mappings(
        &self,
        findings: &mut ProfileResult<'_>,
        detail: Detail,
        waits: &MachineWaits,
    ) -> Vec<MappingRow> {
        let mut rows = mappings(findings.mappings(), findings.space());
        for (id, row) in &mut rows {
            row.waits = waits.of_mapping(*id);
        }
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let many = if detail == Detail::Full { MADE_BY_MAX } else { 5 };
        for (id, row) in rows.iter_mut().take(many) {
            row.made_by = made_by(findings.makers(*id), findings.space(), &mut symbols);
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// The pages with most walks and those that wait longest, and how many others have walks.
fn page_rows(
    all: Vec<PageWalks>,
    space: &AddressSpace,
    waits: &MachineWaits,
    detail: Detail,
) -> (Vec<PageRow>, u64) {
    if detail != Detail::Full {
        return (Vec::new(), all.len() as u64);
    }
    let longest = waits.longest();
    let wait: BTreeSet<_> = longest.iter().copied().collect();
    let is_kept =
        |&(rank, page): &(usize, &PageWalks)| rank < PAGES_MAX || wait.contains(&(page.mapping, page.page));
    let walked = all.iter().enumerate().filter(is_kept);
    let mut kept: Vec<PageWalks> = walked.map(|(_, page)| *page).collect();
    let left_out = (all.len() - kept.len()) as u64;
    let have_walks: BTreeSet<_> = kept.iter().map(|page| (page.mapping, page.page)).collect();
    let only_wait = longest.into_iter().filter(|at| !have_walks.contains(at));
    kept.extend(only_wait.map(|(mapping, page)| PageWalks { page, mapping, walks_fetch: 0, walks_data: 0 }));
    let row = |page: &PageWalks| PageRow {
        address: page.page.0,
        mapping: space.info(page.mapping).name.clone(),
        process: None,
        walks_fetch: page.walks_fetch,
        walks_data: page.walks_data,
        waits: waits.of_page(page.mapping, page.page),
    };
    (kept.iter().map(row).collect(), left_out)
}

/// A process with only what its stream's header says.
pub fn blank(header: &StreamHeader) -> ProcessResult {
    ProcessResult {
        pid: header.pid,
        parent: header.parent,
        origin: origin(header.origin).to_owned(),
        program: header.program.clone(),
        command_line: header.arguments.clone(),
        inferred_gap: header.inferred_gap,
        ..ProcessResult::default()
    }
}

/// The note about a file that has been rebuilt.
pub fn rebuilt(file: &str) -> String {
    format!("the names of functions in {file}: the file is another build now than when it was mapped")
}

/// Whether a file backs the mapping, so that its code has names.
pub(crate) fn code_of_file(info: &MappingInfo) -> bool {
    matches!(info.kind, Some(MappingKind::File | MappingKind::SharedFile))
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Start => "start",
        Origin::Fork => "fork",
        Origin::Exec => "exec",
        Origin::Import => "import",
    }
}

fn thp_disable(mode: ThpDisable) -> Option<String> {
    let name = match mode {
        ThpDisable::Off => return None,
        ThpDisable::All => "all",
        ThpDisable::ExceptAdvised => "except_advised",
    };
    Some(name.to_owned())
}

/// Mappings with their identifiers, by cost.
fn mappings(
    counts: BTreeMap<MappingId, MappingCounts>,
    space: &AddressSpace,
) -> Vec<(MappingId, MappingRow)> {
    let row = |(id, counts): (MappingId, MappingCounts)| {
        let info = space.info(id);
        let row = MappingRow {
            page_bytes: info.page_bytes,
            late_blocks: counts.late_blocks.huge_otherwise,
            late_blocks_small_anyway: counts.late_blocks.small_anyway,
            name: info.name.clone(),
            kind: kind(info.kind).to_owned(),
            build_id: info.build_id.clone(),
            start: info.start.0,
            bytes: info.bytes_max,
            pages_touched: counts.pages_touched,
            references_fetch: counts.references_fetch,
            references_data: counts.references_data,
            walks_fetch: counts.walks_fetch,
            walks_data: counts.walks_data,
            walk_cycles: counts.walk_cycles,
            ..MappingRow::default()
        };
        (id, row)
    };
    let mut rows: Vec<(MappingId, MappingRow)> = counts.into_iter().map(row).collect();
    rows.sort_by_key(|(_, row)| (Reverse(row.walk_cycles), row.start));
    rows
}

/// Threads of processes. `program` names a space's process if there are several.
pub fn threads(all: &[pagewalk_sim::GroupCounts], program: impl Fn(Asid) -> Option<String>) -> Vec<Group> {
    let group = |group: &pagewalk_sim::GroupCounts| Group {
        kind: group.kind.to_owned(),
        name: match program(group.space) {
            Some(program) => format!("{} of {program}", group.name),
            None => group.name.clone(),
        },
        metrics: group_metrics(&group.counts),
    };
    all.iter().map(group).collect()
}

fn kind(kind: Option<MappingKind>) -> &'static str {
    match kind {
        Some(MappingKind::Anonymous) => "anonymous",
        Some(MappingKind::SharedAnonymous) => "shared_anonymous",
        Some(MappingKind::Heap) => "heap",
        Some(MappingKind::Stack) => "stack",
        Some(MappingKind::File) => "file",
        Some(MappingKind::SharedFile) => "shared_file",
        Some(MappingKind::Kernel) => "kernel",
        Some(MappingKind::Inferred) => "inferred",
        None => "unknown",
    }
}

/// The heat map of walks; all mappings beyond the costliest share the last row.
fn heat(heat: &HeatMap, space: &AddressSpace) -> Heat {
    let mut walks: BTreeMap<MappingId, u64> = BTreeMap::new();
    for (_, mapping, row) in heat.rows() {
        *walks.entry(mapping).or_default() += row.iter().sum::<u64>();
    }
    let mut costliest: Vec<MappingId> = walks.keys().copied().collect();
    costliest.sort_by_key(|mapping| (Reverse(walks[mapping]), *mapping));
    let others: BTreeSet<MappingId> = costliest.into_iter().skip(HEAT_MAPPINGS_MAX).collect();
    let mut other_walks = vec![0; heat.columns()];
    let mut rows = Vec::new();
    for (start, mapping, walks) in heat.rows() {
        if others.contains(&mapping) {
            other_walks.iter_mut().zip(walks).for_each(|(sum, walks)| *sum += walks);
        } else {
            let mapping = space.info(mapping).name.clone();
            rows.push(HeatRow { start: start.0, bytes: heat.bytes_per_row(), mapping, walks });
        }
    }
    if !others.is_empty() {
        let mapping = format!("{} other mappings", others.len());
        rows.push(HeatRow { start: 0, bytes: 0, mapping, walks: other_walks });
    }
    Heat { instructions_per_column: heat.instructions_per_column(), columns: heat.columns() as u32, rows }
}

fn reach(findings: &ProfileResult<'_>) -> Vec<ReachPoint> {
    let point = |point: pagewalk_sim::Reach| ReachPoint {
        page_size: point.page_size.to_string(),
        entries: point.entries,
        reach_bytes: point.entries * point.page_size.bytes(),
        walks: point.walks,
        is_machine: point.own,
    };
    findings.reach().into_iter().filter(|point| point.entries > 0).map(point).collect()
}

/// The last component of a path.
pub fn short(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}

/// A mapping's name, without and with its maker.
fn label(mappings: &[MappingRow], name: &str) -> (String, String) {
    let row = mappings.iter().find(|row| row.name == name && row.made_by.is_some());
    (name.to_owned(), row.map_or_else(|| short(name).to_owned(), MappingRow::label))
}

pub fn result(machine: &MachineSpec, counts: &DesignCounts) -> MachineResult {
    let partition = partition(counts);
    MachineResult { name: machine.name.clone(), metrics: metrics(counts), partition }
}

/// Each machine summed over all processes.
pub(crate) fn totals(processes: &[ProcessResult]) -> Vec<MachineResult> {
    let Some(first) = processes.first() else { return Vec::new() };
    let total = |(index, machine): (usize, &MachineResult)| {
        let of_processes = processes.iter().filter_map(|process| process.machines.get(index));
        MachineResult::new(&machine.name, sum(of_processes.map(|machine| &machine.metrics)))
    };
    first.machines.iter().enumerate().map(total).collect()
}
