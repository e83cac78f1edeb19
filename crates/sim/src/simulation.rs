//! A simulation: streams in an arrangement, on any designs.
//!
//! An [`Arrangement`] says who runs where: one process or several in turns, on one core or several, alone or in an
//! operating system that touches pages of its own. Designs that [`Pass`](crate::Pass) can simulate share one, which
//! is faster, and so do those that [`DataSides`](crate::DataSides) can; every other design is a
//! [`System`](crate::System). Only `EngineKind` makes that choice.
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
use crate::error::PassError;
use crate::groups::GroupCounts;
use crate::player::{Player, StructureCounts};
use crate::profile::{CostlyMapping, ProgramFindings};
use crate::share::Share;
use crate::spec::DesignSpec;
use pagewalk_mm::structure::{StructureSpec, Visitor};
use pagewalk_mm::{Kernel, MappingInfo};
use pagewalk_trace::{Analysis, Batch, Event, Stretch};
use pagewalk_translate::Asid;
use pagewalk_units::{RefIndex, SpaceId};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;

/// Designs in an arrangement.
pub struct Simulation {
    /// The engines; the first design's is the first.
    players: Vec<Player>,
    /// The first design, without its kernel.
    first: DesignSpec,
    /// The engine of each design, and its index there.
    places: Vec<(usize, usize)>,
    /// The running program.
    runs: Asid,
    /// What all engines process next, each on a thread; none if they take every batch in turn.
    held: Option<HeldStretch>,
}

/// A stretch that is held until it has about so many records, and the threads that then process it.
struct HeldStretch {
    stretch: Stretch,
    most: usize,
    threads: ThreadPool,
}

impl Simulation {
    /// Records that engines on threads take at a time: some milliseconds of work.
    pub const STRETCH: usize = 1 << 18;

    /// A simulation of `designs`.
    ///
    /// # Errors
    /// If a design cannot be simulated: see [`PassError`].
    pub fn new(designs: Vec<DesignSpec>, arrangement: &Arrangement) -> Result<Simulation, PassError> {
        let Some(first) = designs.first() else { return Err(PassError::DesignCount(0)) };
        let first = DesignSpec::new(&first.machine, Arc::clone(&first.policy));
        let (shares, places) = Share::all(designs, arrangement);
        let players = shares.into_iter().enumerate();
        let players = players.map(|(index, share)| Player::new(share, arrangement, index == 0));
        Ok(Simulation {
            players: players.collect::<Result<_, _>>()?,
            first,
            places,
            runs: Asid::default(),
            held: None,
        })
    }

    /// Lets several engines run on `threads` threads, `stretch` records at a time. Where the host
    /// gives no threads, the engines take turns.
    pub fn on_threads(mut self, threads: usize, stretch: usize) -> Simulation {
        let threads = threads.min(self.players.len());
        let pool = (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build().ok());
        self.held =
            pool.flatten().map(|threads| HeldStretch { stretch: Stretch::default(), most: stretch, threads });
        self
    }

    /// Lets the engines process what is held.
    fn play(&mut self) {
        let Simulation { players, held: Some(HeldStretch { stretch, threads, .. }), .. } = self else {
            return;
        };
        threads.install(|| players.par_iter_mut().with_max_len(1).for_each(|player| stretch.play(player)));
        stretch.clear();
    }

    /// Lets the engines process what is held, if that is enough.
    fn play_enough(&mut self) {
        if self.held.as_ref().is_some_and(|held| !held.stretch.has_room(held.most)) {
            self.play();
        }
    }

    /// The engine of the first design, to be read.
    fn first(&mut self) -> &mut Player {
        self.play();
        &mut self.players[0]
    }

    fn in_order(&self, of_engine: Vec<Vec<DesignCounts>>) -> Vec<DesignCounts> {
        self.places.iter().map(|&(engine, place)| of_engine[engine][place].clone()).collect()
    }

    /// Counts of one core for every design, in order. A shared array counts for the core that used it last, so misses
    /// cover the first level only.
    pub fn core_counts(&mut self, core: usize) -> Vec<DesignCounts> {
        self.play();
        self.in_order(self.players.iter().map(|player| player.engine.core_counts(core)).collect())
    }

    /// Most programs under a structure; their identifiers begin at 0.
    pub fn programs_max(structure: Option<&StructureSpec>) -> usize {
        let visitors = structure.map_or(0, |spec| 1 + spec.servers.len());
        Asid::COUNT as usize - visitors
    }

    /// Switches to another program: see [`Pass::switch_to`](crate::Pass::switch_to).
    pub fn switch_to(&mut self, asid: Asid) {
        self.runs = asid;
        match &mut self.held {
            Some(held) => held.stretch.hold_turn(SpaceId(asid.index() as u32)),
            None => self.players.iter_mut().for_each(|player| player.switch_to(asid)),
        }
    }

    /// Marks a process as a child, before anything else: see [`Pass::begin_as_child`](crate::Pass::begin_as_child).
    pub fn begin_as_child(&mut self, asid: Asid) {
        self.players.iter_mut().for_each(|player| player.engine.begin_as_child(asid));
    }

    /// Activity of the kernel and the servers so far; `None` without a structure.
    pub fn counts(&mut self) -> Option<StructureCounts> {
        self.first().structure_counts()
    }

    /// Counts of each program so far on the first machine, in order.
    pub fn program_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        self.first().program_counts()
    }

    /// Counts of the kernel and the servers; here each of their fetches counts as an instruction.
    pub fn visitor_counts(&mut self) -> Vec<(Visitor, SpaceCounts)> {
        self.first().visitor_counts()
    }

    /// The simulated kernels of the first design, by process.
    pub(crate) fn kernels(&mut self) -> Vec<(Asid, &Kernel)> {
        self.first().engine.kernels()
    }

    /// Keeps who pays on the first machine. Call it before the run.
    pub fn keeping_walks(mut self) -> Simulation {
        if !self.first.machine.has_segment() {
            self.players[0].keep_walks(&self.first);
        }
        self
    }

    /// Who pays on the first machine, for each program, if that is kept. Which walks a direct segment saves is known
    /// only at the end, so machines that have one tell nothing.
    pub fn programs(&mut self) -> Vec<ProgramFindings<'_>> {
        self.first().programs()
    }

    /// Mappings that cause much of the walks on the first machine, costliest first, if who pays is kept. Each of those
    /// that `fits` is worth trying on huge pages.
    pub fn costly_mappings(&mut self, fits: impl Fn(&MappingInfo) -> bool) -> Vec<CostlyMapping> {
        let huge = self.first.machine.paging.huge();
        CostlyMapping::among(&self.programs(), huge, fits)
    }

    /// Parts of the programs with counters of their own on the first machine.
    pub fn groups(&mut self) -> Vec<GroupCounts> {
        self.first().groups()
    }

    /// Final counts of every design, in order.
    pub fn finish(&mut self) -> Vec<DesignCounts> {
        self.play();
        let all = self.players.iter_mut().map(|player| player.engine.finish()).collect();
        self.in_order(all)
    }
}

impl Analysis for Simulation {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        match &mut self.held {
            Some(held) => held.stretch.hold_batch(self.runs.index(), batch),
            None => self.players.iter_mut().for_each(|player| player.on_batch(batch)),
        }
        self.play_enough();
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        match &mut self.held {
            Some(held) => held.stretch.hold_event(at, event),
            None => self.players.iter_mut().for_each(|player| player.on_event(at, event)),
        }
        self.play_enough();
    }

    /// The stream's number is its address space.
    fn on_turn(&mut self, space: SpaceId) {
        self.switch_to(Asid::new(space.0).expect("programs_max bounds them"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visit_stream::VisitStream;
    use crate::{Library, Structures};
    use pagewalk_mm::Small;
    use pagewalk_mm::structure::Reference;
    use pagewalk_translate::MachineSpec;
    use pagewalk_units::{Kind, VirtAddr};

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
