//! The profiler: a baseline design with attribution, and its alternatives, in one pass.

mod attribution;
pub(crate) mod candidates;
mod functions;
mod heat;
mod makers;
mod programs;
mod trials;
mod waits;

pub use candidates::CostlyMapping;
pub use functions::{FunctionWalks, MovedCode};
pub use heat::HeatMap;
pub use makers::{CodePlace, Maker, Makers};
pub use programs::ProgramFindings;
pub(crate) use programs::{PageWait, PageWalk, Programs};
pub use trials::Alternative;

use crate::alternatives::{AlternativeKind, alternatives};
use crate::arrangement::Arrangement;
use crate::attribution::{MappingCounts, PageWalks};
use crate::counts::DesignCounts;
use crate::error::{DESIGNS_MAX, PassError};
use crate::groups::{GroupCounts, Groups};
use crate::host::HostKernel;
use crate::pass::Pass;
use crate::share::{EngineKind, Share};
use crate::simulation::Simulation;
use crate::spec::DesignSpec;
use attribution::Attribution;
use candidates::{CANDIDATES_MAX, WORTH_FOLLOWING, costliest, may_be_huge};
pub(crate) use makers::nameless;
use pagewalk_mm::{AddressSpace, MappingId, OneMapping, ProcessMapping, Thp, ThpMode};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{PageSize, Paging, RefIndex, SpaceId};
use std::collections::BTreeMap;
use std::sync::Arc;
use trials::{AbandonedAt, CountsAt, DesignRef, Trial};

/// Sizes of the lower TLB levels in the reach curve, as doublings of the machine's own.
const REACH: &[i32] = &[-6, -4, -2, -1, 0, 1, 2, 4];
/// Alternatives that differ from the baseline in pages only, and often not at all.
const FOLLOWED: [AlternativeKind; 2] = [AlternativeKind::AllSmall, AlternativeKind::ThpAlways];
/// Instructions before the first search for candidates; later searches come at each doubling.
const FIRST_LOOK: u64 = 1 << 20;

/// One point of the reach curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Page size of the design.
    pub page_size: PageSize,
    /// Entries of the last level for such pages.
    pub entries: u64,
    /// Walks with that many.
    pub walks: u64,
    /// Whether it is the machine's own size.
    pub own: bool,
}

/// Adds alternatives as designs, and makes the first machine count misses for other sizes of its last level.
fn add_own(specs: &mut Vec<DesignSpec>, alternatives: Vec<(AlternativeKind, DesignSpec)>) -> Vec<Trial> {
    let machine = &specs[0].machine;
    let (paging, has_lower) = (machine.paging, machine.last_level() > 1);
    let reach = |size| has_lower.then_some((REACH, size));
    specs[0].reach = reach(paging.base());
    let mut tried = Vec::new();
    for (kind, mut spec) in alternatives {
        if kind == AlternativeKind::AllHuge {
            spec.reach = reach(paging.huge());
        }
        tried.push(Trial::whole(kind, DesignRef::Own(specs.len())));
        specs.push(spec);
    }
    tried
}

/// Where a machine is simulated, and its index there.
#[derive(Clone, Copy)]
enum MachinePlace {
    /// In the first's pass.
    Pass(usize),
    /// In the simulation of the others.
    Others(usize),
}

/// The machines under the host's kernel in `mode` that the first's pass can take, at most `room`; the others; and where
/// each went. They share no policies, so that each is a design of its own.
fn split(
    machines: &[MachineSpec],
    mode: ThpMode,
    room: usize,
) -> (Vec<DesignSpec>, Vec<DesignSpec>, Vec<MachinePlace>) {
    let mut designs = machines.iter().map(|machine| HostKernel::new(mode).design(machine));
    let mut pass = Share::new(EngineKind::Pass, designs.next().expect("there is a first machine"));
    let host = HostKernel::new(mode);
    let mut others = Vec::new();
    let mut places = vec![MachinePlace::Pass(0)];
    for (design, machine) in designs.zip(&machines[1..]) {
        let by = EngineKind::of(&design, &Arrangement::default());
        if pass.takes(by, &design, room) {
            places.push(MachinePlace::Pass(pass.designs.len()));
            pass.add(design);
        } else {
            places.push(MachinePlace::Others(others.len()));
            others.push(host.design(machine));
        }
    }
    (pass.designs, others, places)
}

/// A mapping of the only process.
fn owned(mapping: MappingId) -> ProcessMapping {
    ProcessMapping { process: SpaceId::default(), mapping }
}

/// The profiler of one process.
pub struct Profile {
    pass: Pass<Attribution>,
    /// The machines that the first's pass does not simulate.
    others: Option<Simulation>,
    thp: Thp,
    paging: Paging,
    machines: Vec<MachinePlace>,
    tried: Vec<Trial>,
    what_if: bool,
    next_look: u64,
    groups: Groups,
    makers: Makers<MappingId>,
}

impl Profile {
    /// Whether this machine can be a profile's first. Others can be in a [`Simulation`].
    pub fn suits(machine: &MachineSpec) -> bool {
        machine.data_side.is_none() && HostKernel::new(ThpMode::Always).design(machine).fits_pass()
    }

    /// A profile on `machines`; the first gets attribution and, with `what_if`, alternatives. `thp` is the host's mode,
    /// which is the baseline. A machine whose TLBs do not hold its huge page gets none.
    ///
    /// # Errors
    /// If a machine cannot be simulated: see [`PassError`].
    pub fn new(machines: &[MachineSpec], thp: ThpMode, what_if: bool) -> Result<Profile, PassError> {
        let thp = Thp { mode: thp };
        let Some(first) = machines.first() else { return Err(PassError::DesignCount(0)) };
        let paging = first.paging;
        // Half of the pass is for alternatives, of which some come later.
        let room = if what_if { DESIGNS_MAX / 2 } else { DESIGNS_MAX };
        let (mut specs, others, places) = split(machines, thp.mode, room);
        let all = if what_if { alternatives(&specs[0], thp.mode) } else { Vec::new() };
        let (followed, own): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(kind, _)| FOLLOWED.contains(kind));
        let own = if what_if { add_own(&mut specs, own) } else { Vec::new() };
        let mut pass = Pass::new(specs, Attribution::new(paging.base()))?;
        pass.use_cache_worker(false);
        pass.store.minds_units = true;
        let mut tried = Vec::new();
        for (index, (kind, spec)) in followed.into_iter().enumerate() {
            pass.follow(spec.name, spec.policy)?;
            tried.push(Trial::whole(kind, DesignRef::Follower(index)));
        }
        tried.extend(own);
        Ok(Profile {
            pass,
            others: (!others.is_empty())
                .then(|| Simulation::new(others, &Arrangement::default()))
                .transpose()?,
            thp,
            paging,
            machines: places,
            tried,
            what_if,
            next_look: FIRST_LOOK,
            groups: Groups::new(),
            makers: Makers::default(),
        })
    }

    /// Sets the first search for candidates, for short streams.
    pub fn with_first_look(mut self, instructions: u64) -> Profile {
        self.next_look = instructions;
        self
    }

    /// Lets another thread simulate the caches of alternatives, below the first level, and `threads` the machines that
    /// the first's pass does not take, if these need several engines.
    pub fn on_threads(mut self, threads: usize) -> Profile {
        self.pass.use_cache_worker(true);
        self.others = self.others.map(|others| others.on_threads(threads, Simulation::STRETCH));
        self
    }

    /// Ends the pass and returns the result.
    pub fn finish(&mut self) -> ProfileResult<'_> {
        self.makers.finish();
        let counts = self.pass.finish();
        let executed = self.pass.executed.instructions;
        self.pass.observer_mut().heat.cover(executed);
        let others = self.others.as_mut().map_or_else(Vec::new, Simulation::finish);
        let of_machine = |place: &MachinePlace| match *place {
            MachinePlace::Pass(design) => counts[design].clone(),
            MachinePlace::Others(design) => others[design].clone(),
        };
        let machines = self.machines.iter().map(of_machine).collect();
        ProfileResult { profile: self, machines, counts }
    }

    /// Searches for costly mappings that are not candidates yet.
    fn look_for_candidates(&mut self) {
        if !self.pass.designs[0].machine.has_huge_pages() {
            return;
        }
        let walks = self.pass.walks_by_mapping();
        self.give_up_candidates(&walks);
        let known: Vec<AlternativeKind> = self.tried.iter().map(|tried| tried.kind).collect();
        let mut costly = costliest(&walks);
        costly.retain(|&mapping| {
            may_be_huge(self.pass.space(), mapping, self.paging.huge())
                && !known.contains(&AlternativeKind::Mapping(owned(mapping)))
        });
        for mapping in costly {
            let candidates = |t: &&Trial| matches!(t.kind, AlternativeKind::Mapping(_)) && t.end.is_none();
            // Two designs are reserved for the followers.
            let room = self.pass.designs.len() + 2 < Pass::<Attribution>::DESIGNS_MAX;
            if self.tried.iter().filter(candidates).count() >= CANDIDATES_MAX || !room {
                return;
            }
            let start = Some(CountsAt::of(&self.pass, 0));
            let policy = Arc::new(OneMapping { mapping: owned(mapping), rest: self.thp });
            let name = self.pass.space().info(mapping).name.clone();
            let design = self.pass.fork(name, policy);
            self.pass.make_huge(design, mapping);
            self.tried.push(Trial {
                kind: AlternativeKind::Mapping(owned(mapping)),
                design: DesignRef::Own(design),
                from_instruction: self.pass.executed.instructions,
                start,
                end: None,
            });
        }
    }

    /// Abandons candidates whose mappings cost too little.
    fn give_up_candidates(&mut self, walks: &BTreeMap<MappingId, u64>) {
        let baseline = CountsAt::of(&self.pass, 0);
        let cost = self.pass.designs[0].machine.cost;
        let per_walk = baseline.misses.walk_cycles as f64 / baseline.walks().max(1) as f64;
        let worth = self.pass.executed.instructions as f64 * cost.cycles_per_instruction * WORTH_FOLLOWING;
        let costliest = walks.iter().max_by_key(|&(&mapping, &walks)| (walks, mapping)).map(|(&id, _)| id);
        for tried in self.tried.iter_mut().filter(|tried| tried.end.is_none()) {
            let (AlternativeKind::Mapping(mapping), DesignRef::Own(design)) = (tried.kind, tried.design)
            else {
                continue;
            };
            let cost = walks.get(&mapping.mapping).copied().unwrap_or(0) as f64 * per_walk;
            if cost < worth && Some(mapping.mapping) != costliest {
                self.pass.stop(design);
                tried.end = Some(AbandonedAt {
                    instruction: self.pass.executed.instructions,
                    counts: CountsAt::of(&self.pass, design),
                    baseline: baseline.clone(),
                });
            }
        }
    }

    fn design(&self, at: DesignRef) -> usize {
        match at {
            DesignRef::Own(design) => design,
            DesignRef::Follower(index) => self.pass.followers[index].design(),
        }
    }

    /// Index of the first span of `batch` from `from` on before which a search is due, if any.
    fn look_due(&self, batch: &Batch<'_>, from: usize) -> Option<usize> {
        let rest = &batch.spans[from..];
        if !self.what_if
            || self.pass.executed.instructions + rest.len() as u64 * LONGEST_BLOCK < self.next_look
        {
            return None;
        }
        let mut instructions = self.pass.executed.instructions;
        for (i, span) in rest.iter().enumerate() {
            if instructions >= self.next_look {
                return Some(from + i);
            }
            instructions += batch.blocks.get(span.block).instructions.len() as u64;
        }
        None
    }
}

/// Longer blocks are rare; one only delays a search to the batch's end.
const LONGEST_BLOCK: u64 = 1024;

impl Analysis for Profile {
    fn forerunners(&mut self) -> Vec<Box<dyn Analysis>> {
        self.pass.send_forerunners()
    }

    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.makers.ran(batch, self.pass.space());
        let before = self.pass.counted();
        let mut from = 0;
        while let Some(at) = self.look_due(batch, from) {
            self.pass.run(batch, from..at);
            self.look_for_candidates();
            self.next_look = self.pass.executed.instructions.max(1) * 2;
            from = at;
        }
        self.pass.run(batch, from..batch.spans.len());
        self.groups.ran(Asid::default(), batch, before, self.pass.counted());
        self.others.iter_mut().for_each(|others| others.on_batch(batch));
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.groups.happened(Asid::default(), event);
        self.pass.on_event(at, event);
        self.makers.happened(event, |address| nameless(self.pass.space(), address));
        self.others.iter_mut().for_each(|others| others.on_event(at, event));
    }
}

/// The result of a finished profile.
pub struct ProfileResult<'a> {
    profile: &'a mut Profile,
    machines: Vec<DesignCounts>,
    /// Counts of the designs in the first machine's pass.
    counts: Vec<DesignCounts>,
}

impl ProfileResult<'_> {
    /// Counts of each machine, in order.
    pub fn machines(&self) -> &[DesignCounts] {
        &self.machines
    }

    /// The address space at the end, with the names of all mappings.
    pub fn space(&self) -> &AddressSpace {
        self.profile.pass.space()
    }

    /// Walks against the size of the lower levels, for the baseline and for huge pages everywhere: of the machine
    /// itself at its own size, of LRU arrays at others.
    pub fn reach(&self) -> Vec<Reach> {
        let pass = &self.profile.pass;
        let all_huge = self.profile.tried.iter().find(|tried| tried.kind == AlternativeKind::AllHuge);
        let designs = [
            (Some(0), self.profile.paging.base()),
            (all_huge.map(|t| self.profile.design(t.design)), self.profile.paging.huge()),
        ];
        let mut points: Vec<Reach> = Vec::new();
        for (index, page_size) in designs {
            let family = index.and_then(|index| pass.designs[index].reach.as_ref());
            let misses = family.iter().flat_map(|family| family.misses());
            for (doublings, (entries, walks)) in REACH.iter().zip(misses) {
                let own = *doublings == 0;
                let walks = match index {
                    Some(index) if own => pass.designs[index].counts.walks.iter().sum(),
                    _ => walks,
                };
                let point = Reach { page_size, entries: entries as u64, walks, own };
                // Arrays cannot shrink below one set: keep one point per size.
                match points.last_mut() {
                    Some(last) if (last.entries, last.page_size) == (point.entries, page_size) => {
                        *last = point
                    }
                    _ => points.push(point),
                }
            }
        }
        points
    }

    /// The makers of a mapping without a file, and all its bytes.
    pub fn makers(&self, mapping: MappingId) -> (&[Maker], u64) {
        self.profile.makers.of(mapping)
    }

    /// Parts of the process with counters of their own on the first machine.
    pub fn groups(&self) -> Vec<GroupCounts> {
        self.profile.groups.all()
    }

    /// Counts of each named mapping.
    pub fn mappings(&mut self) -> BTreeMap<MappingId, MappingCounts> {
        self.profile.pass.mapping_counts()
    }

    /// Pages with walks, costliest first.
    pub fn pages(&self) -> Vec<PageWalks> {
        self.profile.pass.page_walks()
    }

    /// Walks by instruction, by ascending address.
    pub fn functions(&self) -> Vec<FunctionWalks> {
        self.profile.pass.observer().functions.rows()
    }

    /// Walks over address space and time.
    pub fn heat(&self) -> &HeatMap {
        &self.profile.pass.observer().heat
    }
}
