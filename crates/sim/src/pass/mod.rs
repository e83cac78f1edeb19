//! The pass: one stream, many designs.

mod below_first;
mod cache_worker;
mod caches;
mod cohort;
mod cores;
mod course;
mod first_caches;
mod folded_order;
mod follower;
mod forerunner;
mod global;
mod growth;
mod hugetlb;
mod kernel;
mod near_waits;
mod place;
mod plain_misses;
mod process;
mod results;
mod scout;
mod sets;
mod software;
mod spaces;
mod span_cursor;
mod threads;
mod together;
mod twins;
mod unfolded_order;
mod visitor;
mod walks;

pub(crate) use place::{ReferencePlace, site};

use crate::attribution::{NoObserver, Observer, lost_code};
use crate::bits::bits;
use crate::classes::{FETCH, STORE, class_of};
use crate::counts::DesignCounts;
use crate::design::siblings::groups;
use crate::design::{Design, share_huge};
use crate::error::PassError;
use crate::pages::pages_of;
use crate::pass::cores::Cores;
use crate::pass::course::{ExecutionTotals, PassProgress};
use crate::pass::follower::Follower;
use crate::pass::process::{Process, Spaces};
use crate::pass::sets::Sets;
use crate::pass::together::check_together;
use crate::sizes::splits_data;
use crate::spec::DesignSpec;
use crate::store::PageStore;
use crate::store::front::HitNotice;
use crate::untouched::UntouchedMemory;
use pagewalk_mm::{AddressSpace, Kernel, MappingId, PageSizePolicy, Scope};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{Kind, RefIndex};
use std::sync::Arc;

/// One stream through many designs: see the crate's documentation.
pub struct Pass<O: Observer = NoObserver> {
    /// The running address space.
    pub(crate) process: Process,
    spaces: Spaces,
    cores: Cores,
    pub(crate) store: PageStore,
    pub(crate) designs: Vec<Design>,
    sets: Sets,
    results: Results,
    pub(crate) followers: Vec<Follower>,
    course: PassProgress,
    pub(crate) executed: ExecutionTotals,
    untouched: UntouchedMemory,
    pub(crate) observer: O,
}

/// Where the results of specifications are.
#[derive(Default)]
struct Results {
    /// For each specification, its design and its index among the siblings.
    order: Vec<(usize, Option<usize>)>,
    /// The counts of designs whose process was killed, at that time.
    killed: Vec<(usize, DesignCounts)>,
}

impl<O: Observer> Pass<O> {
    /// Most different first levels in one pass: the bits of a residency word.
    pub const DESIGNS_MAX: usize = crate::error::DESIGNS_MAX;

    /// A pass over `specs`; the first one is observed. Specifications with the same policy (the same `Arc`) and equal
    /// first levels are one design, and cost little more.
    pub fn new(specs: Vec<DesignSpec>, observer: O) -> Result<Pass<O>, PassError> {
        Pass::build(specs, 1, observer)
    }

    /// A pass with the same machines for each of `cores`; the first core runs.
    pub(crate) fn build(specs: Vec<DesignSpec>, cores: usize, observer: O) -> Result<Pass<O>, PassError> {
        let Some(DesignSpec { machine, .. }) = specs.first() else { return Err(PassError::DesignCount(0)) };
        let paging = machine.paging;
        check_together(&specs, machine)?;
        // Kernels that share pages need stores.
        let shares = |spec: &DesignSpec| spec.kernel.as_ref().is_some_and(Kernel::shares);
        let traps =
            |spec: &DesignSpec| spec.machine.software().is_some_and(|software| software.system.modify);
        let split = specs.iter().any(|spec| splits_data(&spec.machine) || shares(spec) || traps(spec));
        let (distinct, order) = groups(&specs);
        if distinct.len() * cores > Self::DESIGNS_MAX {
            return Err(PassError::DesignCount(distinct.len() * cores));
        }
        if let Some(spec) = specs.iter().find(|spec| spec.kernel.is_some() && cores > 1) {
            return Err(PassError::KernelOfMany(spec.name.clone()));
        }
        let mut pass = Pass {
            process: Process::new(paging.base(), false),
            spaces: Spaces::default(),
            cores: Cores::new(cores, distinct.len()),
            store: PageStore::new(paging),
            designs: Vec::new(),
            sets: Sets::default(),
            results: Results { order, killed: Vec::new() },
            followers: Vec::new(),
            course: PassProgress { split, ..PassProgress::default() },
            executed: ExecutionTotals::default(),
            untouched: UntouchedMemory::default(),
            observer,
        };
        for group in (0..cores).flat_map(|_| &distinct) {
            let first = group.specs[0];
            let mut design = Design::new(first.clone(), pass.designs.len(), split)
                .map_err(|error| PassError::Kernel { design: first.name.clone(), error })?;
            design.hollow = group.hollow;
            group.siblings().iter().for_each(|&spec| design.siblings.add(spec.clone()));
            pass.add(design);
            pass.store.huge_refs.push(Default::default());
        }
        pass.sets.active = pass.cores.mask(0);
        if cores == 1 {
            pass.let_first_translate_for_twins();
        }
        if cores > 1 {
            pass.store.credited = pass.sets.active;
        }
        Ok(pass)
    }

    fn add(&mut self, mut design: Design) {
        if design.policy.may_be_huge() && design.policy.scope() == Scope::Block {
            self.store.block_designs |= design.mask();
        }
        self.course.every_fetch |= design.needs_every_fetch(design.policy.as_ref(), self.course.hugetlb);
        let may_be_huge = design.os.is_some() || design.policy.may_be_huge();
        self.store.may_merge |= may_be_huge;
        debug_assert!(self.store.minds_units || !may_be_huge || self.store.now == 0);
        self.store.minds_units |= may_be_huge;
        if let Some(sets) = design.sets_to_mind(self.course.hugetlb) {
            self.sets.mindful |= design.mask();
            self.store.mind_hits(sets);
            self.store.front_clear();
        }
        self.add_caches(&mut design);
        if design.in_pieces {
            self.sets.in_pieces |= design.mask();
        }
        if let Some(os) = &design.os {
            self.sets.kernels |= design.mask();
            self.sets.swapping |= design.mask() * u64::from(os.kernel.swaps());
        }
        if design.machine.software().is_some() {
            self.sets.mapped |= design.mask();
        }
        if design.is_unified() {
            self.sets.unified |= design.mask();
        }
        self.process.fetches.in_place |= self.sets.fetches_may_miss();
        // Replacement that needs hits would have seen hits that are rolled back.
        self.course.every_fetch |= self.sets.fetches_may_miss() && self.sets.mindful != 0;
        self.sets.active |= design.mask();
        self.designs.push(design);
    }

    /// Stops a design: its counts freeze.
    pub(crate) fn stop(&mut self, design: usize) {
        self.settle();
        self.sets.active &= !self.designs[design].mask();
    }

    /// Adds a copy of the first design under `policy` from now on; returns its index.
    pub(crate) fn fork(&mut self, name: String, policy: Arc<dyn PageSizePolicy>) -> usize {
        self.settle();
        let bit = self.designs.len();
        let mut copy = self.designs[0].fork(&mut self.store, bit, policy);
        copy.name = name;
        self.untouched.fork(0, bit);
        self.results.order.push((bit, None));
        self.add(copy);
        bit
    }

    /// Moves all of `mapping` to huge pages in one design.
    pub(crate) fn make_huge(&mut self, design: usize, mapping: MappingId) {
        self.settle();
        debug_assert!(self.store.minds_units);
        self.store.may_merge = true;
        self.designs[design].make_huge(&mut self.store, mapping);
        self.untouched.make_huge(self.designs[design].mask(), mapping);
        self.note_extents(|unit| unit.mapping == mapping);
    }

    /// Lets the first design stand for `policy` too, until the two decide differently. From then on `policy` gets its
    /// own design, for which there must be room.
    pub(crate) fn follow(&mut self, name: String, policy: Arc<dyn PageSizePolicy>) -> Result<(), PassError> {
        let all = self.designs.len() + self.followers.len() + 1;
        if all > Self::DESIGNS_MAX {
            return Err(PassError::DesignCount(all));
        }
        self.course.every_fetch |= self.designs[0].needs_every_fetch(policy.as_ref(), self.course.hugetlb);
        self.followers.push(Follower::new(name, policy));
        Ok(())
    }

    /// The address space as it is now.
    pub fn space(&self) -> &AddressSpace {
        &self.process.space
    }

    /// The kernel of a specification, if it has one of its own.
    pub fn kernel(&self, specification: usize) -> Option<&Kernel> {
        let &(design, _) = self.results.order.get(specification)?;
        self.designs[design].os.as_ref().map(|os| &os.kernel)
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, for updates.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Counts what the front holds, so that all counters are exact.
    pub(crate) fn settle(&mut self) {
        self.store.front_clear();
        self.take_caches_back();
        self.tell_near_waits();
    }

    /// Runs the spans `spans` of a batch.
    pub(crate) fn run(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        if spans.is_empty() {
            return;
        }
        if self.process.fetches.heads.is_empty() {
            self.start();
        }
        self.process.fetches.learn(batch.blocks.since(self.process.fetches.heads.len()));
        self.course.plain = self.has_plain_misses();
        let first = batch.spans[spans.start].first as usize;
        let end = batch.span_end(spans.end - 1);
        self.executed.data_references += (end - first) as u64;
        self.begin_caches(batch, &spans);
        if self.course.every_fetch {
            self.run_every_fetch(batch, spans.clone());
        } else {
            self.run_folded(batch, spans.clone(), first, end);
        }
        self.end_caches(batch, &spans);
    }

    /// A data reference, which may miss the front.
    pub(crate) fn data(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        let record = batch.refs[index];
        let class = class_of(record.kind(), self.course.split);
        let place = place::site(batch, span, index);
        let pages = pages_of(self.store.paging.base(), record.address(), record.size().bytes().into());
        let (first, last) = pages.into_inner();
        self.touch(class, record.kind(), first, 1, false, place);
        for vpn in first + 1..=last {
            self.touch(class, record.kind(), vpn, 1, true, place);
        }
    }

    /// `n` consecutive translations of one page, the first of which may miss. `crosses`: the first is the second half
    /// of a reference that began on the previous page.
    pub(crate) fn touch(
        &mut self,
        class: usize,
        kind: Kind,
        vpn: u64,
        n: u32,
        crosses: bool,
        place: ReferencePlace<'_>,
    ) {
        if let Some(page) = self.store.front_hit(class, vpn, n) {
            let done = if crosses { self.note_crossing(class, vpn, page) } else { 0 };
            if self.sets.mindful != 0 {
                self.tell(class, page, self.sets.active & !done);
            }
            return;
        }
        if self.course.plain {
            self.miss_plain(class, kind, vpn, n, place);
            return;
        }
        self.catch_up(&place);
        // A first touch may clear the front: record what leaves it from here on.
        self.store.forget_lost();
        let known = self.store.find_missed(vpn);
        let page = match known {
            Some(page) => self.backed(class, page, place.ahead),
            None => {
                self.catch_up_before_fault(&place);
                self.fault(vpn, class == STORE, place.ahead)
            }
        };
        if self.sets.mapped != 0 {
            self.trap(class == STORE, page, known.is_none());
        }
        if class == STORE && self.sets.kernels != 0 {
            self.stored(page);
        }
        let done = if crosses { self.note_crossing(class, vpn, page) } else { 0 };
        // A miss may change the page's mapping: its first reference counts for the mapping it found.
        self.store.credit(page, class, 1);
        self.access(class, kind, page, done, place);
        if n > 1 {
            self.store.count(class, page, n - 1);
        }
    }

    /// Both halves of a crossing reference may lie in one huge page, so that the second needs no lookup. Returns the
    /// designs for which that holds.
    fn note_crossing(&mut self, class: usize, vpn: u64, page: u32) -> u64 {
        let before = self.store.front_page(class, vpn - 1).or_else(|| self.store.find(vpn - 1));
        let Some(before) = before else { return 0 };
        let by_kernels = if self.sets.kernels == 0 { 0 } else { self.store.supers.shared(before, page) };
        let shared =
            (share_huge(&self.store, before, page) & !self.sets.in_pieces | by_kernels) & self.sets.active;
        for design in bits(shared) {
            self.designs[design].note_inside(&self.store, class, page);
        }
        shared
    }

    /// A translation that some designs may miss. The designs in `done` need nothing more.
    pub(crate) fn access(
        &mut self,
        class: usize,
        kind: Kind,
        page: u32,
        done: u64,
        place: ReferencePlace<'_>,
    ) {
        self.store.now += 1;
        self.backed(class, page, place.ahead);
        let due = self.sets.active & !done;
        let held = self.store.held(page, class);
        let now = self.executed.instructions;
        if self.sets.mindful != 0 {
            self.tell(class, page, due & held);
        }
        if class != FETCH {
            // Not at fetches: data references may have been counted ahead of them.
            bits(due & !held & self.sets.kernels).for_each(|design| self.wake_at(design, class, page));
            self.course.disturbed |= due & !held & self.sets.unified != 0;
        }
        let mut walked_by = 0;
        for design in bits(due & !held) {
            let walked =
                self.designs[design].miss(&mut self.store, &self.process.space, class, kind, page, now);
            if self.sets.deferring >> design & 1 != 0 {
                self.defer(design, class, walked.map(|_| page), &place);
            } else if let Some(cost) = walked
                && self.observes(design)
            {
                self.observe(page, class == FETCH, cost, place, now);
            }
            walked_by |= u64::from(walked.is_some()) << design;
        }
        if class == FETCH && due & !held & self.sets.unified != 0 {
            self.give_back_evicted(place.ahead);
        }
        self.store.stamp(page, class);
        for design in bits(walked_by & self.sets.kernels) {
            self.serve(design, class, kind, page, place.ahead);
        }
        if self.sets.active & !self.store.held(page, class) == 0 && !self.minded_as_huge(page) {
            self.store.front_insert(class, page);
        }
    }
}

/// Designs that need hits.
impl<O: Observer> Pass<O> {
    /// Reports a hit of a page to those of `designs` that need hits.
    #[inline(never)]
    fn tell(&mut self, class: usize, page: u32, designs: u64) {
        let vpn = self.store.pages[page as usize].vpn;
        let latest = self.store.is_latest(class, vpn, self.course.every_fetch);
        if !latest || self.minded_as_huge(page) {
            for design in bits(designs & self.sets.mindful) {
                self.designs[design].hit(&self.store, class, page);
            }
        }
    }

    /// Reports the front's hits.
    #[inline(never)]
    pub(crate) fn tell_front(&mut self) {
        let told = self.store.take_told();
        for design in bits(self.sets.active & self.sets.mindful) {
            for &HitNotice { class, page } in &told {
                self.designs[design].hit(&self.store, class as usize, page);
            }
        }
        self.store.give_back_told(told);
    }

    /// Whether a design that needs hits holds the page as part of a huge one: it then needs every hit.
    fn minded_as_huge(&self, page: u32) -> bool {
        let unit = self.store.pages[page as usize].unit;
        self.sets.mindful != 0
            && (self.store.units[unit as usize].huge
                | self.store.block_designs
                | self.store.supers.users(page))
                & self.sets.mindful
                != 0
    }
}

impl<O: Observer> Analysis for Pass<O> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.run_on_core(batch, 0..batch.spans.len());
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        if let Some(range) = lost_code(event, &self.process.space) {
            self.tell_near_waits();
            self.observer.on_lost_code(self.store.asid, range);
        }
        let mut changes = Vec::new();
        self.process.space.apply(event, &mut changes);
        if !changes.is_empty() {
            self.tell_near_waits();
        }
        for change in changes {
            self.apply(change);
        }
        match *event {
            Event::Advise { start, bytes, .. } => self.part(start, bytes),
            Event::Spin { instructions } => {
                self.executed.spun = self.executed.spun.saturating_add(instructions)
            }
            _ => self.expect_hugetlb(event),
        }
        self.note_grown(event);
        if self.sets.kernels != 0 {
            self.tell_kernels(event);
        }
    }
}
