//! Caches of memory beside the pass.
//!
//! They see every reference of the program in order, but what they hold changes no translation. So they lag behind:
//! TLBs run ahead over references that hit, and before one misses, the caches catch up with it. Then the walk's reads
//! find the caches as they would in program order.
//!
//! Designs whose caches differ only below the first level share it, if they can: see
//! [`pagewalk_cache::shares_first_level`].

use crate::attribution::{Observer, Wait, Waits};
use crate::bits::bits;
use crate::caches::{MemoryCaches, logical};
use crate::code_lines::{CodeLines, LineRun};
use crate::counts::{CacheCosts, CacheTotals, cache_totals};
use crate::design::Design;
use crate::pages::as_recorded;
use crate::pass::Pass;
use crate::pass::place::{CodePosition, ReferencePlace, site};
use pagewalk_cache::{CacheAddress, Requester, shares_first_level};
use pagewalk_mm::MappingId;
use pagewalk_trace::Batch;
use pagewalk_translate::Asid;
use pagewalk_units::{Kind, VirtAddr};
use std::ops::Range;

/// How far the caches have come in a batch: what is next.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct CachesPosition {
    span: usize,
    /// The line run of its block.
    run: usize,
    /// Fetches of that run that they have seen.
    fetched: u32,
    /// The data reference.
    data: usize,
}

/// The references between two positions.
struct Stretch<'a> {
    batch: &'a Batch<'a>,
    lines: &'a CodeLines,
    asid: Asid,
    from: CachesPosition,
    to: CachesPosition,
}

/// Takes the references of a stretch.
trait Receiver {
    /// The caches that take them.
    fn memory(&mut self) -> &mut MemoryCaches;
    /// Some fetches of a run, by number.
    fn fetches(&mut self, stretch: &Stretch<'_>, span: usize, run: &LineRun, fetches: Range<u32>);
    /// Data references, by their numbers in the batch.
    fn data(&mut self, stretch: &Stretch<'_>, span: usize, data: Range<usize>);
}

impl Stretch<'_> {
    /// Gives its references to `receiver` in program order, but a run's fetches all before data references among them.
    /// That is the same for caches, since a run's later fetches change only counts (`LineGrain`).
    #[inline(always)]
    fn replay(&self, receiver: &mut impl Receiver) {
        let CachesPosition { mut span, mut run, mut fetched, mut data } = self.from;
        loop {
            let here = self.batch.spans[span];
            let is_last = span == self.to.span;
            let (end, last, part) = if is_last {
                (self.to.data, self.to.run, self.to.fetched)
            } else {
                (self.batch.span_end(span), usize::MAX, 0)
            };
            if (run, fetched) == (0, 0) && (last, part) != (0, 0) {
                receiver.memory().begin_block(here.block);
            }
            if !receiver.memory().has_counted_block() {
                for next in self.lines.runs(here.block.index()).iter().skip(run) {
                    let all = if run == last { part } else { next.fetches() };
                    let until = end.min(here.first as usize + next.site as usize);
                    if data < until {
                        receiver.data(self, span, data..until);
                        data = until;
                    }
                    if fetched < all {
                        receiver.fetches(self, span, next, fetched..all);
                    }
                    if run == last {
                        break;
                    }
                    (run, fetched) = (run + 1, 0);
                }
            }
            receiver.data(self, span, data..end);
            if is_last {
                break;
            }
            receiver.memory().end_block(here.block);
            (span, run, fetched, data) = (span + 1, 0, 0, end);
        }
    }

    #[inline(always)]
    fn address(&self, at: VirtAddr) -> CacheAddress {
        CacheAddress::same(logical(self.asid, at))
    }
}

/// Caches that nobody observes.
struct Unobserved<'a>(&'a mut MemoryCaches);

impl Receiver for Unobserved<'_> {
    #[inline(always)]
    fn memory(&mut self) -> &mut MemoryCaches {
        self.0
    }

    #[inline(always)]
    fn fetches(&mut self, stretch: &Stretch<'_>, _span: usize, run: &LineRun, mut fetches: Range<u32>) {
        if fetches.start == 0 {
            self.0.executed();
            self.0.access(Kind::Fetch, stretch.address(run.address), run.bytes.into());
            fetches.start = 1;
        }
        self.0.hierarchy.repeated(Requester::Fetch, fetches.len() as u64);
    }

    #[inline(always)]
    fn data(&mut self, stretch: &Stretch<'_>, _span: usize, data: Range<usize>) {
        for record in &stretch.batch.refs[data] {
            let (kind, bytes) = (record.kind(), record.size().bytes().into());
            self.0.access(kind, stretch.address(record.address()), bytes);
        }
    }
}

/// Caches whose misses are told: the reference's address, place and waits.
struct Observed<'a, T> {
    memory: &'a mut MemoryCaches,
    tell: T,
}

impl<T: FnMut(VirtAddr, &ReferencePlace<'_>, Waits)> Receiver for Observed<'_, T> {
    #[inline(always)]
    fn memory(&mut self) -> &mut MemoryCaches {
        self.memory
    }

    fn fetches(&mut self, stretch: &Stretch<'_>, span: usize, run: &LineRun, mut fetches: Range<u32>) {
        if fetches.start == 0 {
            self.memory.executed();
            let address = stretch.address(run.address);
            if let Some(waits) = self.memory.access_telling(Kind::Fetch, address, run.bytes.into()) {
                let at = CodePosition::Instruction(run.instruction);
                let place = ReferencePlace { batch: stretch.batch, span, at, ahead: &[] };
                (self.tell)(run.address, &place, waits);
            }
            fetches.start = 1;
        }
        self.memory.hierarchy.repeated(Requester::Fetch, fetches.len() as u64);
    }

    fn data(&mut self, stretch: &Stretch<'_>, span: usize, data: Range<usize>) {
        for index in data {
            let record = stretch.batch.refs[index];
            let (at, bytes) = (record.address(), record.size().bytes().into());
            if let Some(waits) = self.memory.access_telling(record.kind(), stretch.address(at), bytes) {
                (self.tell)(at, &site(stretch.batch, span, index), waits);
            }
        }
    }
}

/// Designs with caches.
impl<O: Observer> Pass<O> {
    /// Adds the caches of a design, which leave their first level to an earlier design if they can: a design that has
    /// seen the same references of the program.
    pub(crate) fn add_caches(&mut self, design: &mut Design) {
        let mask = design.mask();
        let counts_blocks = design.os.is_none();
        let Some(memory) = &mut design.memory else { return };
        if !counts_blocks {
            memory.count_each_fetch();
        }
        self.sets.with_memory |= mask;
        let caches = &design.machine.caches;
        let is_alike = |other: &Design| {
            let is_whole = other.memory.as_ref().is_some_and(|memory| memory.first_level_of.is_none());
            is_whole && shares_first_level(&other.machine.caches, caches)
        };
        let first = self.designs.iter().position(is_alike).filter(|_| self.cores.all.len() == 1);
        if let Some(first) = first
            && let Some(feeding) = &mut self.designs[first].memory
        {
            feeding.hierarchy.log_passed();
            memory.leave_first_level_to(first, caches);
            self.sets.feed(first, mask);
            return;
        }
        let own = memory.line_grain();
        self.course.line_grain = Some(self.course.line_grain.map_or(own, |all| own.and(all)));
    }

    /// The counts of a design's caches.
    pub(crate) fn caches_of(&self, design: &Design) -> Vec<CacheTotals> {
        let Some(memory) = &design.memory else { return Vec::new() };
        let first = memory.first_level_of.and_then(|first| self.designs[first].memory.as_ref());
        cache_totals(&design.machine, memory, first.map(|first| &first.hierarchy))
    }

    /// What the caches of a design have cost so far; none if it has none.
    pub(crate) fn cache_costs(&self, design: usize) -> Option<CacheCosts> {
        let design = &self.designs[design];
        let stall_cycles = design.memory.as_ref()?.counts.stall_cycles;
        Some(CacheCosts::of(&self.caches_of(design), stall_cycles))
    }
}

/// The course of the caches.
impl<O: Observer> Pass<O> {
    /// Lets the caches begin with the first of `spans`, whose blocks they learn.
    pub(crate) fn begin_caches(&mut self, batch: &Batch<'_>, spans: &Range<usize>) {
        if let Some(grain) = self.course.line_grain {
            let lines = &mut self.process.lines;
            lines.learn(batch.blocks.since(lines.blocks()), grain);
            let data = batch.spans[spans.start].first as usize;
            self.course.cached = CachesPosition { span: spans.start, run: 0, fetched: 0, data };
        }
    }

    /// Lets the caches reach the end of `spans`.
    pub(crate) fn end_caches(&mut self, batch: &Batch<'_>, spans: &Range<usize>) {
        if self.course.line_grain.is_some() {
            let span = spans.end - 1;
            let run = self.process.lines.runs(batch.spans[span].block.index()).len();
            self.replay(batch, CachesPosition { span, run, fetched: 0, data: batch.span_end(span) });
        }
    }

    /// Lets the caches catch up: they see all references before this one.
    #[inline]
    pub(crate) fn catch_up(&mut self, place: &ReferencePlace<'_>) {
        if self.course.line_grain.is_some() {
            let to = self.process.lines.position(place);
            self.replay(place.batch, to);
        }
    }

    #[inline(never)]
    fn replay(&mut self, batch: &Batch<'_>, to: CachesPosition) {
        let from = std::mem::replace(&mut self.course.cached, to);
        debug_assert!(from <= to, "references come in order");
        if from == to {
            return;
        }
        let Pass { process, store, designs, observer, sets, .. } = self;
        let stretch = Stretch { batch, lines: &process.lines, asid: store.asid, from, to };
        for design in bits(sets.caching()) {
            let memory = designs[design].memory.as_mut().filter(|memory| memory.first_level_of.is_none());
            let Some(memory) = memory else { continue };
            memory.enter(store.asid);
            if design > 0 || !O::OBSERVES_WAITS || sets.active & 1 == 0 {
                stretch.replay(&mut Unobserved(memory));
                continue;
            }
            let tell = |at: VirtAddr, place: &ReferencePlace<'_>, waits| {
                let vpn = store.paging.base().number(as_recorded(at));
                let mapping = store.find(vpn).map(|page| store.pages[page as usize].mapping);
                let wait = Wait {
                    page: store.address(vpn),
                    mapping: mapping.unwrap_or(MappingId::UNKNOWN),
                    instruction: place.instruction(),
                    block: place.block(),
                    waits,
                };
                observer.on_wait(&wait, &process.space);
            };
            stretch.replay(&mut Observed { memory, tell });
        }
        self.feed();
    }

    /// Lets what passed shared first levels go on to the designs that share them.
    fn feed(&mut self) {
        let Pass { designs, sets, .. } = self;
        for &(first, others) in &sets.fed {
            let mut passed = Vec::new();
            if let Some(memory) = &mut designs[first].memory {
                passed = memory.hierarchy.take_passed();
            }
            for design in bits(others & sets.active) {
                designs[design].memory.iter_mut().for_each(|memory| memory.pass(&passed));
            }
            if let Some(memory) = &mut designs[first].memory {
                memory.hierarchy.give_back_passed(passed);
            }
        }
    }
}

impl CodeLines {
    /// The position of a reference.
    fn position(&self, place: &ReferencePlace<'_>) -> CachesPosition {
        let (batch, span) = (place.batch, place.span);
        let (block, here) = (place.block(), batch.spans[span]);
        // These are in the order of their instructions.
        let sites = &block.sites[..self.sites(here.block.index())];
        let (site, next) = match place.at {
            CodePosition::Instruction(index) => {
                (sites.partition_point(|site| u32::from(site.instruction) < index), index)
            }
            CodePosition::Site(site) if site < sites.len() => (site, u32::from(sites[site].instruction) + 1),
            CodePosition::Site(site) => (site, u32::MAX),
        };
        let runs = self.runs(here.block.index());
        let run = runs.partition_point(|run| run.instruction < next).saturating_sub(1);
        let fetched = runs.get(run).map_or(0, |run| run.fetches_before(next));
        CachesPosition { span, run, fetched, data: batch.span_end(span).min(here.first as usize + site) }
    }
}
