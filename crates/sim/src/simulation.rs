//! A simulation: streams in an arrangement, on any designs.
//!
//! An [`Arrangement`] says who runs where: one process or several in turns, on one core or several, alone or in an
//! operating system that touches pages of its own. Designs that [`Pass`] can simulate share one, which is faster, and
//! so do those that [`DataSides`] can; every other design is a [`System`]. Only `EngineKind` makes that choice.
//!
//! *Structure* (see [`pagewalk_mm::structure`]): the generator's visits run through the designs at each system call,
//! before the event of its return, and at each tick of the clock. The kernel works in the running address space:
//! entering it changes no identifier, and all spaces share its pages. A server has a space of its own: a visit switches
//! to it and back. Both have their own pages and code here, apart from the program's, with identifiers from the top of
//! [`Asid`]'s range.
//!
//! The program's instructions, references and touched pages count the program alone. Misses, walks, their cycles and
//! lookups of arrays count everything; [`Simulation::counts`] splits the references.

use crate::arrangement::Arrangement;
use crate::counts::{DesignCounts, SpaceCounts};
use crate::data_side::{DataSideError, DataSides};
use crate::error::PassError;
use crate::groups::{GroupCounts, Groups};
use crate::pass::Pass;
use crate::share::{EngineKind, Share};
use crate::spec::DesignSpec;
use crate::system::System;
use crate::visit_stream::VisitStream;
use pagewalk_mm::Kernel;
use pagewalk_mm::structure::{Generator, StructureSpec, Visitor, Visits};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::Asid;
use pagewalk_units::{RefIndex, SpaceId};
use rustc_hash::FxHashMap;

/// Activity of the kernel and the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StructureCounts {
    /// System calls that the programs made.
    pub calls: u64,
    /// Ticks of the clock.
    pub ticks: u64,
    /// Switches to a server.
    pub server_visits: u64,
    /// References of the kernel to its mapped data.
    pub kernel_references: u64,
    /// References of servers, fetches included.
    pub server_references: u64,
}

/// An engine that simulates designs.
pub(crate) trait Engine: Analysis + Send {
    fn begin_as_child(&mut self, asid: Asid);
    fn switch_to(&mut self, asid: Asid);
    /// Runs some spans of the running program's batch.
    fn run(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>);
    /// Runs references of a visitor with its own pages and blocks, without counting them for programs.
    fn visited(&mut self, asid: Asid, batch: &Batch<'_>);
    /// Counts of the first design so far, of the running program or of all programs.
    fn counted(&mut self) -> SpaceCounts;
    /// Counts of the first design by address space.
    fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)>;
    fn core_counts(&self, core: usize) -> Vec<DesignCounts>;
    /// The simulated kernels of the first design, by process.
    fn kernels(&self) -> Vec<(Asid, &Kernel)>;
    fn finish(&mut self) -> Vec<DesignCounts>;
}

fn engine(
    by: EngineKind,
    mut designs: Vec<DesignSpec>,
    arrangement: &Arrangement,
) -> Result<Box<dyn Engine>, PassError> {
    let cores = arrangement.cores.max(1);
    Ok(match by {
        EngineKind::DataSides => Box::new(DataSides::of(designs).map_err(|error| match error {
            DataSideError::Memory(machine, why) => PassError::DataSide(machine, why),
            other => unreachable!("the designs are alike: {other}"),
        })?),
        EngineKind::System => {
            let system = System::new(designs.remove(0), cores)?;
            Box::new(if arrangement.global_files { system.with_global_files() } else { system })
        }
        EngineKind::Pass => {
            let pass = Pass::with_cores(designs, cores)?;
            Box::new(if arrangement.global_files { pass.with_global_files()? } else { pass })
        }
    })
}

/// Designs in an arrangement.
pub struct Simulation {
    engines: Vec<Box<dyn Engine>>,
    /// The engine of each design, and its index there.
    places: Vec<(usize, usize)>,
    /// The running program.
    runs: Asid,
    groups: Groups,
    system: Option<StructureState>,
}

/// The structure around the programs.
struct StructureState {
    generator: Generator,
    visits: Visits,
    visitors: Vec<VisitorSpace>,
    counts: StructureCounts,
    /// Instructions of the programs to the next tick.
    to_tick: u64,
    stream: VisitStream,
}

/// The address space of a visitor: the kernel, which comes first, or a server.
#[derive(Clone, Copy)]
struct VisitorSpace {
    who: Visitor,
    asid: Asid,
}

impl StructureState {
    fn new(spec: StructureSpec) -> StructureState {
        let all = std::iter::once(Visitor::Kernel).chain((0..spec.servers.len()).map(Visitor::Server));
        let visitors = (1..).zip(all).map(|(from_top, who)| VisitorSpace {
            who,
            asid: Asid::new(Asid::COUNT - from_top).expect("SERVERS_MAX leaves room"),
        });
        StructureState {
            visitors: visitors.collect(),
            to_tick: spec.kernel.tick_instructions,
            generator: Generator::new(spec),
            visits: Visits::default(),
            counts: StructureCounts::default(),
            stream: VisitStream::default(),
        }
    }

    fn asid(&self, who: Visitor) -> Asid {
        match who {
            Visitor::Kernel => self.visitors[0].asid,
            Visitor::Server(index) => self.visitors[1 + index].asid,
        }
    }
}

impl Simulation {
    /// A simulation of `designs`.
    ///
    /// # Errors
    /// If a design cannot be simulated: see [`PassError`].
    pub fn new(designs: Vec<DesignSpec>, arrangement: &Arrangement) -> Result<Simulation, PassError> {
        if designs.is_empty() {
            return Err(PassError::DesignCount(0));
        }
        let (shares, places) = Share::all(designs, arrangement);
        let engines = shares.into_iter().map(|share| engine(share.by, share.designs, arrangement));
        let engines = engines.collect::<Result<_, _>>()?;
        let system = arrangement.structure.clone().map(StructureState::new);
        Ok(Simulation { engines, places, runs: Asid::default(), groups: Groups::new(), system })
    }

    /// The engine of the first design.
    fn first(&mut self) -> &mut dyn Engine {
        self.engines[self.places[0].0].as_mut()
    }

    fn each(&mut self, act: impl Fn(&mut dyn Engine)) {
        self.engines.iter_mut().for_each(|engine| act(engine.as_mut()));
    }

    fn in_order(&self, of_engine: Vec<Vec<DesignCounts>>) -> Vec<DesignCounts> {
        self.places.iter().map(|&(engine, place)| of_engine[engine][place].clone()).collect()
    }

    /// Counts of one core for every design, in order. A shared array counts for the core that used it last, so misses
    /// cover the first level only.
    pub fn core_counts(&self, core: usize) -> Vec<DesignCounts> {
        self.in_order(self.engines.iter().map(|engine| engine.core_counts(core)).collect())
    }

    /// Most programs under a structure; their identifiers begin at 0.
    pub fn programs_max(structure: Option<&StructureSpec>) -> usize {
        let visitors = structure.map_or(0, |spec| 1 + spec.servers.len());
        Asid::COUNT as usize - visitors
    }

    /// Switches to another program: see [`Pass::switch_to`].
    pub fn switch_to(&mut self, asid: Asid) {
        self.runs = asid;
        self.each(|engine| engine.switch_to(asid));
    }

    /// Marks a process as a child, before anything else: see [`Pass::begin_as_child`].
    pub fn begin_as_child(&mut self, asid: Asid) {
        self.each(|engine| engine.begin_as_child(asid));
    }

    /// Activity of the kernel and the servers so far; `None` without a structure.
    pub fn counts(&self) -> Option<StructureCounts> {
        self.system.as_ref().map(|system| system.counts)
    }

    /// Counts of each program so far on the first machine, in order.
    pub fn program_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        let visitors: Vec<Asid> =
            self.system.iter().flat_map(|system| &system.visitors).map(|visitor| visitor.asid).collect();
        let mut counts = self.first().space_counts();
        counts.retain(|(asid, _)| !visitors.contains(asid));
        counts
    }

    /// Counts of the kernel and the servers; here each of their fetches counts as an instruction.
    pub fn visitor_counts(&mut self) -> Vec<(Visitor, SpaceCounts)> {
        let counts: FxHashMap<Asid, SpaceCounts> = self.first().space_counts().into_iter().collect();
        let visitors = self.system.iter().flat_map(|system| &system.visitors);
        visitors.map(|one| (one.who, counts.get(&one.asid).copied().unwrap_or_default())).collect()
    }

    /// The simulated kernels of the first design, by process.
    pub(crate) fn kernels(&self) -> Vec<(Asid, &Kernel)> {
        self.engines[self.places[0].0].kernels()
    }

    /// Parts of the programs with counters of their own on the first machine.
    pub fn groups(&self) -> Vec<GroupCounts> {
        self.groups.all()
    }

    /// Final counts of every design, in order.
    pub fn finish(&mut self) -> Vec<DesignCounts> {
        let all = self.engines.iter_mut().map(|engine| engine.finish()).collect();
        self.in_order(all)
    }

    /// Runs the pending visits.
    fn visit(&mut self) {
        let Some(system) = &mut self.system else { return };
        let visits = std::mem::take(&mut system.visits);
        for (who, references) in visits.iter() {
            let asid = system.asid(who);
            let many = references.len() as u64;
            let batch = system.stream.batch(asid, references);
            // The kernel answers on the spot; visiting a server switches to it and back.
            match who {
                Visitor::Kernel => {
                    system.counts.kernel_references += many;
                    self.engines.iter_mut().for_each(|engine| engine.visited(asid, &batch));
                }
                Visitor::Server(_) => {
                    system.counts.server_references += many;
                    system.counts.server_visits += 1;
                    for engine in &mut self.engines {
                        engine.switch_to(asid);
                        engine.visited(asid, &batch);
                        engine.switch_to(self.runs);
                    }
                }
            }
        }
        system.visits = visits;
        system.visits.clear();
    }

    /// The end of the executions from `first` to the next tick or the batch's end, and whether the clock ticks there.
    fn until_tick(&mut self, batch: &Batch<'_>, first: usize) -> (usize, bool) {
        let end = batch.spans.len();
        let Some(system) = &mut self.system else { return (end, false) };
        let period = system.generator.spec().kernel.tick_instructions;
        if period == 0 {
            return (end, false);
        }
        for (index, span) in batch.spans.iter().enumerate().skip(first) {
            let instructions = batch.blocks.get(span.block).instructions.len() as u64;
            if instructions >= system.to_tick {
                // A block longer than the period sees one tick.
                system.to_tick = period;
                return (index + 1, true);
            }
            system.to_tick -= instructions;
        }
        (end, false)
    }
}

impl Analysis for Simulation {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        let mut first = 0;
        while first < batch.spans.len() {
            let (end, ticks) = self.until_tick(batch, first);
            let before = self.first().counted();
            self.each(|engine| engine.run(batch, first..end));
            let after = self.first().counted();
            self.groups.ran(self.runs, batch, before, after);
            first = end;
            if let (true, Some(system)) = (ticks, &mut self.system) {
                system.counts.ticks += 1;
                system.generator.tick(&mut system.visits);
                self.visit();
            }
        }
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        if let (Event::Syscall { number, .. }, Some(system)) = (event, &mut self.system) {
            system.counts.calls += 1;
            system.generator.call(*number, &mut system.visits);
            self.visit();
        }
        self.groups.happened(self.runs, event);
        self.each(|engine| engine.on_event(at, event));
    }

    /// The stream's number is its address space.
    fn on_turn(&mut self, space: SpaceId) {
        self.switch_to(Asid::new(space.0).expect("programs_max bounds them"));
    }
}

impl Engine for Pass {
    // Kernels share a pass only if there is one process.
    fn begin_as_child(&mut self, _asid: Asid) {
        Pass::begin_as_child(self);
    }

    fn switch_to(&mut self, asid: Asid) {
        Pass::switch_to(self, asid);
    }

    fn run(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        self.run_on_core(batch, spans);
    }

    fn visited(&mut self, asid: Asid, batch: &Batch<'_>) {
        Pass::visited(self, asid, batch);
    }

    fn counted(&mut self) -> SpaceCounts {
        Pass::counted(self)
    }

    fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        Pass::space_counts(self)
    }

    fn core_counts(&self, core: usize) -> Vec<DesignCounts> {
        Pass::core_counts(self, core)
    }

    fn kernels(&self) -> Vec<(Asid, &Kernel)> {
        self.kernel(0).map(|kernel| (Asid::default(), kernel)).into_iter().collect()
    }

    fn finish(&mut self) -> Vec<DesignCounts> {
        Pass::finish(self)
    }
}

impl Engine for System {
    fn begin_as_child(&mut self, asid: Asid) {
        System::begin_as_child(self, asid);
    }

    fn switch_to(&mut self, asid: Asid) {
        System::switch_to(self, asid);
    }

    fn run(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        self.run_on_core(batch, spans);
    }

    fn visited(&mut self, asid: Asid, batch: &Batch<'_>) {
        System::visited(self, asid, batch);
    }

    fn counted(&mut self) -> SpaceCounts {
        System::counted(self)
    }

    fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        System::space_counts(self)
    }

    fn core_counts(&self, core: usize) -> Vec<DesignCounts> {
        vec![System::core_counts(self, core)]
    }

    fn kernels(&self) -> Vec<(Asid, &Kernel)> {
        self.kernels_by_process()
    }

    fn finish(&mut self) -> Vec<DesignCounts> {
        vec![self.counts()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, Structures};
    use pagewalk_mm::Small;
    use pagewalk_mm::structure::Reference;
    use pagewalk_translate::MachineSpec;
    use pagewalk_units::{Kind, VirtAddr};
    use std::sync::Arc;

    /// Instructions of server visits do not advance the program's time.
    #[test]
    fn a_partition_moves_in_the_time_of_the_program() {
        let tuning = "[walker.mapped.tuning]\nperiod = 20\nprobe_after = 1\n";
        let machine = Library::text("mips_r2000").unwrap().into_owned() + tuning;
        let machine = MachineSpec::from_toml("tuned.toml", &machine).unwrap();
        let arrangement = Arrangement { structure: Structures::get("mach3").ok(), ..Arrangement::default() };
        let designs = vec![DesignSpec::new(&machine, Arc::new(Small))];
        let mut system = Simulation::new(designs, &arrangement).unwrap();
        let mut stream = VisitStream::default();
        let fetch = Reference { address: VirtAddr(0x1000), kind: Kind::Fetch };
        for page in 0..500 {
            let load = Reference { address: VirtAddr(page << 12), kind: Kind::Load };
            system.on_batch(&stream.batch(Asid::default(), &[fetch, load]));
            system.on_event(RefIndex(0), &Event::Syscall { number: 0, result: 0 });
        }
        let counts = system.finish().remove(0);
        let moves: Vec<u64> = counts.software.unwrap().moves.iter().map(|&(at, _)| at).collect();
        assert!(moves.len() > 20, "{moves:?}");
        assert!(moves.is_sorted() && moves.iter().all(|&at| at <= counts.instructions), "{moves:?}");
    }
}
