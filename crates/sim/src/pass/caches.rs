//! Caches of memory beside the pass.
//!
//! They see every reference of the program in order, but what they hold changes no translation. So they lag behind:
//! TLBs run ahead over references that hit, and before one misses, the caches catch up with it. Then the walk's reads
//! find the caches as they would in program order.

use crate::attribution::{Observer, Wait, Waits};
use crate::bits::bits;
use crate::caches::{MemoryCaches, logical};
use crate::code_lines::{CodeLines, LineRun, sites_before};
use crate::pages::as_recorded;
use crate::pass::Pass;
use crate::pass::place::{CodePosition, ReferencePlace, site};
use pagewalk_cache::{CacheAddress, Requester};
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

/// Consecutive references of one kind.
enum Part<'a> {
    /// These of a run's fetches.
    Fetches(&'a LineRun, Range<u32>),
    /// Data references, by their numbers in the batch.
    Data(Range<usize>),
}

impl Stretch<'_> {
    /// Calls `each` with the span and the references of each part. They come in program order, but a run's fetches all
    /// come before data references among them, which is the same for caches.
    #[inline(always)]
    fn for_each(&self, mut each: impl FnMut(usize, Part<'_>)) {
        let CachesPosition { mut span, mut run, mut fetched, mut data } = self.from;
        loop {
            let here = self.batch.spans[span];
            let runs = self.lines.runs(here.block.index());
            let is_last = span == self.to.span;
            let end = if is_last { self.to.data } else { self.batch.span_end(span) };
            while let Some(next) = runs.get(run) {
                let until = end.min(here.first as usize + next.site as usize);
                if data < until {
                    each(span, Part::Data(data..until));
                    data = until;
                }
                let all = if is_last && run == self.to.run { self.to.fetched } else { next.fetches() };
                if fetched < all {
                    each(span, Part::Fetches(next, fetched..all));
                }
                if is_last && run == self.to.run {
                    break;
                }
                (run, fetched) = (run + 1, 0);
            }
            if data < end {
                each(span, Part::Data(data..end));
                data = end;
            }
            if is_last {
                break;
            }
            (span, run, fetched) = (span + 1, 0, 0);
        }
    }

    fn address(&self, at: VirtAddr) -> CacheAddress {
        CacheAddress::same(logical(self.asid, at))
    }

    /// Gives the references to some caches.
    fn replay(&self, memory: &mut MemoryCaches) {
        self.for_each(|_, part| match part {
            Part::Fetches(run, mut fetches) => {
                if fetches.start == 0 {
                    memory.executed();
                    memory.access(Kind::Fetch, self.address(run.address), run.bytes.into());
                    fetches.start = 1;
                }
                memory.hierarchy.repeated(Requester::Fetch, fetches.len() as u64);
            }
            Part::Data(data) => {
                for record in &self.batch.refs[data] {
                    memory.access(record.kind(), self.address(record.address()), record.size().bytes().into());
                }
            }
        });
    }

    /// As [`Stretch::replay`], and tells of references that miss a cache: their address, place and waits.
    fn replay_telling(
        &self,
        memory: &mut MemoryCaches,
        mut tell: impl FnMut(VirtAddr, &ReferencePlace<'_>, Waits),
    ) {
        self.for_each(|span, part| match part {
            Part::Fetches(run, mut fetches) => {
                if fetches.start == 0 {
                    memory.executed();
                    let address = self.address(run.address);
                    if let Some(waits) = memory.access_telling(Kind::Fetch, address, run.bytes.into()) {
                        let at = CodePosition::Instruction(run.instruction);
                        tell(run.address, &ReferencePlace { batch: self.batch, span, at, ahead: &[] }, waits);
                    }
                    fetches.start = 1;
                }
                memory.hierarchy.repeated(Requester::Fetch, fetches.len() as u64);
            }
            Part::Data(data) => {
                for index in data {
                    let record = self.batch.refs[index];
                    let (at, bytes) = (record.address(), record.size().bytes().into());
                    if let Some(waits) = memory.access_telling(record.kind(), self.address(at), bytes) {
                        tell(at, &site(self.batch, span, index), waits);
                    }
                }
            }
        });
    }
}

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
        for design in bits(sets.with_memory & sets.active) {
            let Some(memory) = &mut designs[design].memory else { continue };
            if design > 0 || !O::OBSERVES_WAITS {
                stretch.replay(memory);
                continue;
            }
            stretch.replay_telling(memory, |at, place, waits| {
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
            });
        }
    }
}

impl CodeLines {
    /// The position of a reference.
    fn position(&self, place: &ReferencePlace<'_>) -> CachesPosition {
        let (batch, span) = (place.batch, place.span);
        let (block, here) = (place.block(), batch.spans[span]);
        let (site, next) = match place.at {
            CodePosition::Instruction(index) => (sites_before(block, index) as usize, index),
            CodePosition::Site(site) => {
                let instruction = block.sites.get(site).map(|site| u32::from(site.instruction) + 1);
                (site, instruction.unwrap_or(u32::MAX))
            }
        };
        let runs = self.runs(here.block.index());
        let run = runs.partition_point(|run| run.instruction < next).saturating_sub(1);
        let fetched = runs.get(run).map_or(0, |run| run.fetches_before(next));
        CachesPosition { span, run, fetched, data: batch.span_end(span).min(here.first as usize + site) }
    }
}
