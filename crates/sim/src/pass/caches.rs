//! Caches of memory beside the pass.
//!
//! They see every reference of the program in order, but what they hold changes no translation. So they lag behind:
//! TLBs run ahead. Whole hierarchies catch up before a miss of the TLBs, so that the walk's reads find them as they
//! would in program order. Most designs can do with less: see `first_caches`.

use crate::attribution::{HearsWaits, Observer, ReferenceWaits, Wait, WaitingPage};
use crate::bits::bits;
use crate::caches::{MemoryCaches, logical};
use crate::code_lines::{CodeLines, LineGrain, LineRun};
use crate::counts::{CacheCosts, CacheTotals, cache_totals};
use crate::design::Design;
use crate::moment::{CodePosition, Moment};
use crate::pages::as_recorded;
use crate::pass::Pass;
use crate::pass::cache_worker::CacheWorker;
use crate::pass::cohort::Cohort;
use crate::pass::first_caches::FirstCaches;
use crate::pass::forerunner::BatchesAhead;
use crate::pass::near_waits::NearWaits;
use crate::pass::place::{ReferencePlace, site};
use crate::pass::span_cursor::SpanCursor;
use crate::store::PageStore;
use pagewalk_cache::{CacheAddress, Requester};
use pagewalk_mm::MappingId;
use pagewalk_trace::Batch;
use pagewalk_translate::Asid;
use pagewalk_units::{Kind, VirtAddr};
use std::ops::Range;

/// How far the caches have come in a batch: what is next.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct CachesPosition {
    pub span: usize,
    /// The line run of its block.
    pub run: usize,
    /// Fetches of that run that they have seen.
    pub fetched: u32,
    /// The data reference.
    pub data: usize,
}

impl CachesPosition {
    /// Before a span.
    pub fn before(batch: &Batch<'_>, span: usize) -> CachesPosition {
        CachesPosition { span, run: 0, fetched: 0, data: batch.spans[span].first as usize }
    }

    /// Its moment, if a reference of this kind comes next.
    pub fn moment(self, at: CodePosition) -> Moment {
        let CachesPosition { span, run, fetched, data } = self;
        match at {
            CodePosition::Site(_) => Moment::of_data(data),
            // In mid-run, that run's moment has passed: it comes before the next run.
            CodePosition::Instruction(_) => Moment::of_run(data, (span, run + usize::from(fetched > 0))),
        }
    }
}

/// How far the caches of a pass have come.
#[derive(Default)]
pub(crate) struct CachesProgress {
    /// Which fetches they see together; none if no design has caches.
    pub line_grain: Option<LineGrain>,
    /// Where whole hierarchies are.
    whole: CachesPosition,
    /// First levels that designs share.
    pub first: Vec<FirstCaches>,
    /// Takes what passes them for all designs but the observed one, if their costs may come late.
    pub worker: Option<CacheWorker>,
    /// The designs that differ from the observed one in their walks alone, which the worker has too.
    pub cohort: Option<Cohort>,
    /// What first levels did, batch by batch, if forerunners see the references.
    pub ahead: Option<BatchesAhead>,
    /// Of the batch that passes.
    pub spans: SpanCursor,
    /// What the observed design's first level missed and the next one served, since the last event.
    pub near: NearWaits,
}

/// The references between two positions.
pub(crate) struct Stretch<'a> {
    pub batch: &'a Batch<'a>,
    pub lines: &'a CodeLines,
    pub asid: Asid,
    pub from: CachesPosition,
    pub to: CachesPosition,
}

/// Takes the references of a stretch.
pub(crate) trait Receiver {
    /// Whether it takes data references.
    const TAKES_DATA: bool = true;

    /// Some fetches of a run, by number; `at`: its span, and its number in the block.
    fn fetches(&mut self, stretch: &Stretch<'_>, at: (usize, usize), run: &LineRun, fetches: Range<u32>);
    /// Data references, by their numbers in the batch.
    fn data(&mut self, stretch: &Stretch<'_>, span: usize, data: Range<usize>);
}

impl Stretch<'_> {
    /// Gives its references to `receiver` in program order, but a run's fetches all before data references among them.
    /// That is the same for caches, since a run's later fetches change only counts (`LineGrain`).
    #[inline(always)]
    pub fn replay<R: Receiver>(&self, receiver: &mut R) {
        let CachesPosition { mut span, mut run, mut fetched, mut data } = self.from;
        loop {
            let here = self.batch.spans[span];
            let is_last = span == self.to.span;
            let (end, last, part) = if is_last {
                (self.to.data, self.to.run, self.to.fetched)
            } else {
                (self.batch.span_end(span), usize::MAX, 0)
            };
            for next in self.lines.runs(here.block.index()).iter().skip(run) {
                let all = if run == last { part } else { next.fetches() };
                let until = self.data_before(span, next);
                if R::TAKES_DATA && data < until {
                    receiver.data(self, span, data..until);
                    data = until;
                }
                if fetched < all {
                    receiver.fetches(self, (span, run), next, fetched..all);
                }
                if run == last {
                    break;
                }
                (run, fetched) = (run + 1, 0);
            }
            if R::TAKES_DATA {
                receiver.data(self, span, data..end);
            }
            if is_last {
                break;
            }
            (span, run, fetched, data) = (span + 1, 0, 0, end);
        }
    }

    /// The first data reference of a span that comes after a run of its block.
    #[inline(always)]
    pub fn data_before(&self, span: usize, run: &LineRun) -> usize {
        self.batch.reference_at(span, run.site as usize)
    }

    #[inline(always)]
    pub fn address(&self, at: VirtAddr) -> CacheAddress {
        CacheAddress::same(logical(self.asid, at))
    }
}

/// Caches that nobody observes.
struct Unobserved<'a>(&'a mut MemoryCaches);

impl Receiver for Unobserved<'_> {
    #[inline(always)]
    fn fetches(&mut self, stretch: &Stretch<'_>, _: (usize, usize), run: &LineRun, mut fetches: Range<u32>) {
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

impl<T: FnMut(VirtAddr, &ReferencePlace<'_>, ReferenceWaits)> Receiver for Observed<'_, T> {
    fn fetches(
        &mut self,
        stretch: &Stretch<'_>,
        (span, _): (usize, usize),
        run: &LineRun,
        mut fetches: Range<u32>,
    ) {
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

/// The number of the first page that a reference to `at` touches, and its id if the store has it.
#[inline]
pub(crate) fn page_at(store: &mut PageStore, at: VirtAddr) -> (u64, Option<u32>) {
    let number = store.paging.base().number(as_recorded(at));
    (number, store.find_missed(number))
}

/// The first page that a reference to `at` touches.
pub(crate) fn page_of(store: &mut PageStore, at: VirtAddr) -> WaitingPage {
    let (number, id) = page_at(store, at);
    let mapping = id.map_or(MappingId::UNKNOWN, |page| store.pages[page as usize].mapping);
    WaitingPage { page: store.address(number), id, mapping }
}

/// Designs with caches.
impl<O: Observer> Pass<O> {
    /// Adds the caches of a design.
    pub(crate) fn add_caches(&mut self, design: &mut Design) {
        if design.memory.is_none() {
            return;
        }
        let (mask, is_shared) = (design.mask(), self.share_first_caches(design));
        self.sets.in_step |= if is_shared && design.os.is_none() { 0 } else { mask };
        let Some(memory) = &mut design.memory else { return };
        let memory = match memory.first_level {
            Some(first) => self.course.caches.first[first].memory(),
            None => {
                self.sets.whole_caches |= mask;
                memory
            }
        };
        let own = memory.line_grain();
        let all = &mut self.course.caches.line_grain;
        *all = Some(all.map_or(own, |all| own.and(all)));
    }

    /// The counts of a design's caches.
    pub(crate) fn caches_of(&self, design: &Design) -> Vec<CacheTotals> {
        let Some(memory) = &design.memory else { return Vec::new() };
        let first = memory.first_level.map(|first| &self.course.caches.first[first].memory().hierarchy);
        cache_totals(&design.machine, memory, first)
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
        if let Some(grain) = self.course.caches.line_grain {
            let lines = &mut self.process.lines;
            lines.learn(batch.blocks.since(lines.blocks()), grain);
            let at = CachesPosition::before(batch, spans.start);
            let CachesProgress { whole, first, ahead, spans: cursor, .. } = &mut self.course.caches;
            *whole = at;
            cursor.begin(spans.clone());
            first.iter_mut().for_each(|first| first.begin(at));
            if let Some(ahead) = ahead.as_ref().filter(|_| spans.start == 0) {
                ahead.begin(batch, first);
            }
        }
    }

    /// Lets the caches reach the end of `spans`.
    pub(crate) fn end_caches(&mut self, batch: &Batch<'_>, spans: &Range<usize>) {
        if self.course.caches.line_grain.is_some() {
            let to = self.process.lines.end_of(batch, spans.end);
            self.replay(batch, to);
            self.reach(batch, (to, Moment::of_run(to.data, (spans.end, 0))), true);
        }
    }

    /// Lets the caches that must be in step catch up: they see all references before this one.
    #[inline]
    pub(crate) fn catch_up(&mut self, place: &ReferencePlace<'_>) {
        if self.sets.in_step != 0 {
            self.catch_up_with(place, false);
        }
    }

    /// Lets all caches catch up if the first touch of a page may give a follower its own design: with the first one's
    /// caches.
    #[inline]
    pub(crate) fn catch_up_before_fault(&mut self, place: &ReferencePlace<'_>) {
        let follows = || self.followers.iter().any(|follower| follower.design.is_none());
        if self.course.caches.line_grain.is_some() && follows() {
            self.catch_up_with(place, true);
        }
    }

    #[inline(never)]
    fn catch_up_with(&mut self, place: &ReferencePlace<'_>, all: bool) {
        let to = self.process.lines.position(place);
        self.replay(place.batch, to);
        self.reach(place.batch, (to, to.moment(place.at)), all);
    }

    /// Lets whole hierarchies see the references up to `to`.
    fn replay(&mut self, batch: &Batch<'_>, to: CachesPosition) {
        let from = std::mem::replace(&mut self.course.caches.whole, to);
        debug_assert!(from <= to, "references come in order");
        if from == to {
            return;
        }
        let Pass { process, store, designs, observer, sets, .. } = self;
        let stretch = Stretch { batch, lines: &process.lines, asid: store.asid, from, to };
        for design in bits(sets.whole_caches & sets.active) {
            let Some(memory) = &mut designs[design].memory else { continue };
            if design > 0 || observer.hears_waits() == HearsWaits::Never {
                stretch.replay(&mut Unobserved(memory));
                continue;
            }
            let tell = |at: VirtAddr, place: &ReferencePlace<'_>, waits| {
                let (process_id, of) = (store.asid, page_of(store, at));
                let (instruction, block) = (place.instruction(), place.block());
                let wait = Wait { process: process_id, of, instruction, block, waits };
                observer.on_wait(&wait, &process.space);
            };
            stretch.replay(&mut Observed { memory, tell });
        }
    }
}

impl CodeLines {
    /// The position after the first `spans` of a batch.
    pub(crate) fn end_of(&self, batch: &Batch<'_>, spans: usize) -> CachesPosition {
        let span = spans - 1;
        let run = self.runs(batch.spans[span].block.index()).len();
        CachesPosition { span, run, fetched: 0, data: batch.span_end(span) }
    }

    /// The position of a reference.
    pub(crate) fn position(&self, place: &ReferencePlace<'_>) -> CachesPosition {
        let (batch, span) = (place.batch, place.span);
        let block = batch.spans[span].block.index();
        let (site, next) = match place.at {
            CodePosition::Instruction(index) => (self.sites_before(block, index), index),
            CodePosition::Site(site) => (site, self.instruction_after(block, site)),
        };
        let runs = self.runs(block);
        let run = runs.partition_point(|run| run.instruction < next).saturating_sub(1);
        let fetched = runs.get(run).map_or(0, |run| run.fetches_before(next));
        CachesPosition { span, run, fetched, data: batch.reference_at(span, site) }
    }
}
