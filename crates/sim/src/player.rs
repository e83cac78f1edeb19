//! An engine among its streams, with the operating system around them.

use crate::arrangement::Arrangement;
use crate::by_traps::TrapSimulation;
use crate::census::Census;
use crate::counts::{DesignCounts, SpaceCounts};
use crate::data_side::{DataSideError, DataSides};
use crate::error::PassError;
use crate::groups::{GroupCounts, Groups};
use crate::pass::Pass;
use crate::profile::{ProgramFindings, Programs};
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
    /// From now on keeps the walks of the first machine.
    fn keep_walks(&mut self);
    /// Those walks, if they are kept.
    fn walks(&mut self) -> Option<&mut Programs>;
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
        EngineKind::Traps => {
            let design = designs.remove(0);
            let traps = design.traps.expect("traps simulate it");
            let simulation = TrapSimulation::new(&design, traps, cores)?;
            Box::new(if arrangement.global_files { simulation.with_global_files() } else { simulation })
        }
        EngineKind::System => {
            let system = System::new(designs.remove(0), cores)?;
            Box::new(if arrangement.global_files { system.with_global_files() } else { system })
        }
        EngineKind::Pass => {
            let pass = Pass::on_cores(designs, cores, Programs::default())?;
            Box::new(if arrangement.global_files { pass.with_global_files()? } else { pass })
        }
    })
}

/// One engine. Each has the structure for itself, and so can run on a thread of its own.
pub(crate) struct Player {
    pub engine: Box<dyn Engine>,
    /// The running program.
    runs: Asid,
    /// Only of the first design's engine.
    groups: Option<Groups>,
    /// The same, if walks are kept.
    census: Option<Box<Census>>,
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

impl Player {
    /// The engine of a share of designs; `is_first`: it has the first design.
    pub fn new(share: Share, arrangement: &Arrangement, is_first: bool) -> Result<Player, PassError> {
        Ok(Player {
            engine: engine(share.by, share.designs, arrangement)?,
            runs: Asid::default(),
            groups: is_first.then(Groups::new),
            census: None,
            system: arrangement.structure.clone().map(StructureState::new),
        })
    }

    /// Switches to another program.
    pub fn switch_to(&mut self, asid: Asid) {
        self.runs = asid;
        self.engine.switch_to(asid);
        self.census.iter_mut().for_each(|census| census.switch_to(asid));
    }

    /// See [`Simulation::counts`](crate::Simulation::counts).
    pub fn structure_counts(&self) -> Option<StructureCounts> {
        self.system.as_ref().map(|system| system.counts)
    }

    /// See [`Simulation::program_counts`](crate::Simulation::program_counts).
    pub fn program_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        let visitors: Vec<Asid> =
            self.system.iter().flat_map(|system| &system.visitors).map(|visitor| visitor.asid).collect();
        let mut counts = self.engine.space_counts();
        counts.retain(|(asid, _)| !visitors.contains(asid));
        counts
    }

    /// See [`Simulation::visitor_counts`](crate::Simulation::visitor_counts).
    pub fn visitor_counts(&mut self) -> Vec<(Visitor, SpaceCounts)> {
        let counts: FxHashMap<Asid, SpaceCounts> = self.engine.space_counts().into_iter().collect();
        let visitors = self.system.iter().flat_map(|system| &system.visitors);
        visitors.map(|one| (one.who, counts.get(&one.asid).copied().unwrap_or_default())).collect()
    }

    /// From now on keeps walks, and counts for programs on a design.
    pub fn keep_walks(&mut self, design: &DesignSpec) {
        self.engine.keep_walks();
        self.census = Some(Box::new(Census::new(design)));
    }

    /// Passes new walks on to the census.
    fn note_walks(&mut self) {
        if let (Some(walks), Some(census)) = (self.engine.walks(), &mut self.census) {
            census.walked(walks.take_walks());
            census.waited(walks.take_waits());
        }
    }

    /// See [`Simulation::programs`](crate::Simulation::programs).
    pub fn programs(&mut self) -> Vec<ProgramFindings<'_>> {
        let (Some(walks), Some(census)) = (self.engine.walks(), &mut self.census) else { return Vec::new() };
        census.programs(|process| walks.functions_of(process))
    }

    /// See [`Simulation::groups`](crate::Simulation::groups).
    pub fn groups(&self) -> Vec<GroupCounts> {
        self.groups.as_ref().map_or_else(Vec::new, Groups::all)
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
                    self.engine.visited(asid, &batch);
                }
                Visitor::Server(_) => {
                    system.counts.server_references += many;
                    system.counts.server_visits += 1;
                    self.engine.switch_to(asid);
                    self.engine.visited(asid, &batch);
                    self.engine.switch_to(self.runs);
                }
            }
        }
        system.visits = visits;
        system.visits.clear();
        self.note_walks();
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

impl Analysis for Player {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.census.iter_mut().for_each(|census| census.on_batch(batch));
        let mut first = 0;
        while first < batch.spans.len() {
            let (end, ticks) = self.until_tick(batch, first);
            match &mut self.groups {
                Some(groups) => {
                    let before = self.engine.counted();
                    self.engine.run(batch, first..end);
                    groups.ran(self.runs, batch, before, self.engine.counted());
                }
                None => self.engine.run(batch, first..end),
            }
            self.note_walks();
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
        if let Some(groups) = &mut self.groups {
            groups.happened(self.runs, event);
        }
        self.census.iter_mut().for_each(|census| census.on_event(at, event));
        self.engine.on_event(at, event);
    }

    /// The stream's number is its address space.
    fn on_turn(&mut self, space: SpaceId) {
        self.switch_to(Asid::new(space.0).expect("programs_max bounds them"));
    }
}

impl Engine for Pass<Programs> {
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

    fn keep_walks(&mut self) {
        self.observer.keep();
    }

    fn walks(&mut self) -> Option<&mut Programs> {
        Some(&mut self.observer)
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

    fn keep_walks(&mut self) {
        System::keep_walks(self);
    }

    fn walks(&mut self) -> Option<&mut Programs> {
        System::walks(self)
    }

    fn finish(&mut self) -> Vec<DesignCounts> {
        vec![self.counts()]
    }
}
