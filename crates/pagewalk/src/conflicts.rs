//! Conflicts in a TLB's sets: which pages evict which, who owns them, and which misses the sets cause.

mod names;
mod result;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::placement::LayoutFile;
use crate::stream::{Ending, check_window, follow_ahead};
use crate::traces::{open, tell_grain};
use names::Names;
use pagewalk_capture::WindowSpec;
use pagewalk_layout::calls::{CallGraph, Calls};
use pagewalk_layout::evictions::{ArrayHistory, ArraySpec, DEFAULT_ROWS, Evictions};
use pagewalk_layout::graph::EvictionGraph;
use pagewalk_layout::objects::Owners;
use pagewalk_report::conflicts::ConflictsResult;
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::{Fills, MachineSpec, TlbSpec};
use pagewalk_units::PageSize;
use pagewalk_units::names::choice;
use std::path::Path;

pub use pagewalk_layout::graph::DrawThreshold;

/// What to watch and report.
pub struct ConflictOptions {
    /// The machine.
    pub machine: MachineSpec,
    /// The array's name; none: the arrays of the last level that hold base pages, without those of victims.
    pub tlb: Option<String>,
    /// The set to show first and draw; none: the one with most misses.
    pub set: Option<usize>,
    /// Evictions below this are left out.
    pub least: DrawThreshold,
    /// The region of interest.
    pub window: WindowSpec,
}

/// The result of watching a trace.
pub struct Conflicts {
    /// The result.
    pub result: ConflictsResult,
    /// How the stream ended.
    pub ending: Ending,
    histories: Vec<ArrayHistory>,
    owners: Owners,
    calls: CallGraph,
    header: StreamHeader,
    names: Names,
    set: Option<usize>,
    least: DrawThreshold,
}

impl ConflictOptions {
    /// Checks that the arrays can be watched.
    ///
    /// # Errors
    /// If there is no such array or set, or a page has no fixed set in it.
    pub fn check(&self) -> Result<(), Error> {
        check_set(&chosen(&self.machine, self.tlb.as_deref())?, self.set)
    }

    /// Watches a recorded stream.
    ///
    /// # Errors
    /// If the trace or the plan cannot be read or they do not fit; see [`ConflictOptions::check`].
    pub fn trace(
        &self,
        trace: &Path,
        plan: Option<&LayoutFile>,
        listener: &dyn Listener,
    ) -> Result<Conflicts, Error> {
        let tlbs = chosen(&self.machine, self.tlb.as_deref())?;
        if self.tlb.is_none() {
            tell_victims(&self.machine, listener);
        }
        let reader = open(trace, listener)?;
        tell_grain(trace, reader.header(), listener);
        let watched = match plan {
            Some(plan) => self.watch(plan.move_objects(trace, reader, listener)?, &tlbs),
            None => self.watch(reader, &tlbs),
        };
        check_window(&self.window, watched.ending.reached, listener)?;
        let mut names = Names::of(&watched.owners);
        let result = result::build(&watched, self, &tlbs, trace, &mut names);
        let StreamConflicts { header, histories, owners, calls, ending } = watched;
        let (set, least) = (self.set, self.least);
        Ok(Conflicts { result, ending, histories, owners, calls, header, names, set, least })
    }

    fn watch<S: Source + Send>(&self, source: S, tlbs: &[&TlbSpec]) -> StreamConflicts {
        let header = source.header().clone();
        let specs: Vec<ArraySpec> = tlbs.iter().filter_map(|tlb| ArraySpec::of(tlb)).collect();
        let evictions = Evictions::new(&header, &specs, DEFAULT_ROWS);
        let mut both = (evictions, Calls::new(&header));
        let ending = follow_ahead(source, &self.window, &mut both);
        let (evictions, calls) = both;
        let (histories, owners) = evictions.finish();
        StreamConflicts { header, histories, owners, calls: calls.finish(), ending }
    }
}

impl Conflicts {
    /// A Graphviz graph for each array: of the requested set, or of the one with most misses.
    pub fn dot(&mut self) -> String {
        let Conflicts { histories, owners, names, set, least, .. } = self;
        let graph = |history: &ArrayHistory| {
            let set = set.unwrap_or_else(|| result::sets_by_misses(history)[0]);
            let graph = EvictionGraph::new(history, set, *least);
            let page = |page: usize| names::page(&history.pages[page], owners);
            graph.to_dot(history, page, |row| names.cause(row, history, owners))
        };
        histories.iter().map(graph).collect()
    }

    /// The calls between pages and functions, for callgrind_annotate and KCachegrind.
    pub fn callgrind(&mut self) -> String {
        let command = self.header.arguments.join(" ");
        let names = &mut self.names;
        self.calls.to_callgrind(&command, |file, offset| names.function(file, offset))
    }

    /// Files whose functions have no names, since the files have been rebuilt.
    pub fn unnamed(&self) -> impl Iterator<Item = String> {
        self.names.lost()
    }
}

/// What one stream showed.
struct StreamConflicts {
    header: StreamHeader,
    histories: Vec<ArrayHistory>,
    owners: Owners,
    calls: CallGraph,
    ending: Ending,
}

/// Says which arrays of base pages are left out.
fn tell_victims(machine: &MachineSpec, listener: &dyn Listener) {
    for tlb in machine.tlbs.iter().filter(|tlb| tlb.fills == Fills::Victims && tlb.holds(PageSize::FOUR_KIB))
    {
        listener.note(&format!("array `{}` is left out: {VICTIMS}", tlb.name));
    }
}

const VICTIMS: &str = "victims of the level above fill it, not walks, so it has no misses by itself";

/// The machine's array of this name, or the arrays of its last level that hold base pages, without those of victims.
fn chosen<'a>(machine: &'a MachineSpec, name: Option<&str>) -> Result<Vec<&'a TlbSpec>, Error> {
    let usage = |why: String| Error::new(Fault::Usage, format!("machine `{}`: {why}", machine.name));
    let base = PageSize::FOUR_KIB;
    let all: Vec<&str> = machine.tlbs.iter().map(|tlb| tlb.name.as_str()).collect();
    let is_usual = |tlb: &&TlbSpec| tlb.holds(base) && tlb.fills == Fills::Walks;
    let last = machine.tlbs.iter().filter(is_usual).map(|tlb| tlb.level).max();
    let wanted = |tlb: &&TlbSpec| match name {
        Some(name) => tlb.name == name,
        None => Some(tlb.level) == last && is_usual(tlb),
    };
    let tlbs: Vec<&TlbSpec> = machine.tlbs.iter().filter(wanted).collect();
    if tlbs.is_empty() {
        return Err(match name {
            Some(name) => usage(format!("no array `{name}`: {}", choice(name, &all))),
            None => usage("no array holds 4K pages".to_owned()),
        });
    }
    if let Some(tlb) = tlbs.iter().find(|tlb| !tlb.holds(base) || tlb.pages_per_entry > 1) {
        let why = format!("array `{}` does not have one entry for each 4K page", tlb.name);
        return Err(usage(why).or("give another one with --tlb, or another machine with -m"));
    }
    if let Some(tlb) = tlbs.iter().find(|tlb| tlb.fills == Fills::Victims) {
        let why = format!("array `{}` cannot be watched: {VICTIMS}", tlb.name);
        return Err(usage(why).or("give another one with --tlb"));
    }
    if let Some(tlb) = tlbs.iter().find(|tlb| tlb.index.sets().is_none()) {
        let why =
            format!("array `{}` is {}: pages have no set there that others fight for", tlb.name, tlb.index);
        return Err(usage(why).or("give another one with --tlb, or another machine with -m"));
    }
    Ok(tlbs)
}

fn check_set(tlbs: &[&TlbSpec], set: Option<usize>) -> Result<(), Error> {
    let sets = tlbs.iter().map(|tlb| tlb.geometry.sets()).min().unwrap_or(0);
    match set {
        Some(set) if set >= sets => {
            Err(Error::new(Fault::Usage, format!("--set {set}: sets go from 0 to {}", sets - 1)))
        }
        _ => Ok(()),
    }
}
