//! The folded order: data hits of the front are counted ahead of fetches, and fetches from one page together, at the
//! first of them.
//!
//! If fetches and data have separate first levels, that changes nothing: lower levels see the same order. But a data
//! reference may displace the executing page, and a fetch may displace a page that data references counted ahead have
//! hit: a kernel may remap it, or an array that serves both and ignores hits may evict it. Both are rare, and are
//! corrected: see [`Pass::refetch`] and [`Pass::give_back`].

use crate::attribution::Observer;
use crate::classes::{FETCH, class_of};
use crate::fetch::{Run, instruction_pages};
use crate::moment::CodePosition;
use crate::pass::Pass;
use crate::pass::place::ReferencePlace;
use crate::store::ExecutingPage;
use pagewalk_trace::{Batch, Ref, Span};
use pagewalk_units::Kind;

/// Most data references counted ahead if every fetch miss has to scan them.
const MOST_AHEAD: usize = 128;
/// Records per step of that scan.
const LOOKED_THROUGH: usize = 16;

/// The position of fetches in a batch.
struct FetchCursor {
    span: usize,
    run: usize,
    end: usize,
}

impl FetchCursor {
    /// The span of the data reference that fetches have reached.
    fn current(&self) -> usize {
        if self.run > 0 { self.span } else { self.span - 1 }
    }
}

impl<O: Observer> Pass<O> {
    pub(crate) fn run_folded(
        &mut self,
        batch: &Batch<'_>,
        spans: std::ops::Range<usize>,
        first: usize,
        end: usize,
    ) {
        self.course.disturbed = false;
        self.course.noted = None;
        let mut cursor = FetchCursor { span: spans.start, run: 0, end: spans.end };
        let most_ahead = if self.sets.unified == 0 { usize::MAX } else { MOST_AHEAD };
        let mut next = first;
        loop {
            if self.course.disturbed {
                self.course.left = end - next;
                self.refetch(batch, next);
            }
            // Not past a fetch that is still to be looked up.
            let most = if self.course.disturbed { 1 } else { most_ahead };
            let hits = self
                .store
                .take_data_hits(&batch.refs[next..end.min(next.saturating_add(most))], self.course.split);
            next += hits;
            if self.sets.mindful != 0 {
                self.tell_front();
            }
            if self.course.disturbed && hits > 0 {
                continue;
            }
            self.course.left = end - next;
            let until = if next == end { usize::MAX } else { next };
            if let Some(back) = self.fetch_until(batch, &mut cursor, until, &batch.refs[..next]) {
                next = back;
                continue;
            }
            if next == end {
                break;
            }
            let span = cursor.current();
            if self.sets.fetches_may_miss() {
                self.note_data(batch, span, next);
            }
            self.scout(batch.refs, next);
            self.data(batch, span, next);
            next += 1;
        }
    }

    /// Makes all fetches that precede data reference `until` in program order. `taken`: the batch's data references so
    /// far. On a rollback it stops and returns the first reference that was given back.
    fn fetch_until(
        &mut self,
        batch: &Batch<'_>,
        cursor: &mut FetchCursor,
        until: usize,
        taken: &[Ref],
    ) -> Option<usize> {
        self.store.running.fetches = 0;
        let before = self.course.disturbed;
        let back = self.fetch_in_order(batch, cursor, until, taken);
        // Fetches disturb only rows that a fetch began: see `open_row`.
        self.course.disturbed = before | std::mem::take(&mut self.store.running.open);
        back
    }

    fn fetch_in_order(
        &mut self,
        batch: &Batch<'_>,
        cursor: &mut FetchCursor,
        until: usize,
        taken: &[Ref],
    ) -> Option<usize> {
        if cursor.run > 0 {
            let back = self.fetch_runs(batch, cursor, until, taken);
            if back.is_some() || cursor.run > 0 {
                return back;
            }
        }
        loop {
            let rest = &batch.spans[cursor.span..cursor.end];
            let hits = self.store.take_fetch_hits(rest, &self.process.fetches, until);
            if self.sets.mindful != 0 {
                self.tell_front();
            }
            self.executed.instructions += hits.instructions;
            cursor.span += hits.spans;
            if !hits.more {
                return None;
            }
            let span = batch.spans[cursor.span];
            let head = self.process.fetches.heads[span.block.index()];
            self.executed.instructions += u64::from(head.instructions);
            let back = if head.is_several() {
                self.fetch_runs(batch, cursor, until, taken)
            } else {
                let at = cursor.span;
                cursor.span += 1;
                let ahead = taken.get(span.first as usize..).unwrap_or_default();
                let place = ReferencePlace { batch, span: at, at: CodePosition::Instruction(0), ahead };
                self.touch(FETCH, Kind::Fetch, head.vpn, head.translations, false, place);
                self.came_back(span.first)
            };
            if back.is_some() || cursor.run > 0 {
                return back;
            }
        }
    }

    /// Makes the runs of the cursor's block, and moves to the next block at its end.
    fn fetch_runs(
        &mut self,
        batch: &Batch<'_>,
        cursor: &mut FetchCursor,
        until: usize,
        taken: &[Ref],
    ) -> Option<usize> {
        let span = batch.spans[cursor.span];
        let head = self.process.fetches.heads[span.block.index()];
        let mut back = None;
        while let (Some(&run), None) = (self.process.fetches.runs(head).get(cursor.run), back) {
            let first = span.first + run.site;
            if first as usize > until {
                return None;
            }
            let ahead = taken.get(first as usize..).unwrap_or_default();
            let at = CodePosition::Instruction(run.instruction);
            let place = ReferencePlace { batch, span: cursor.span, at, ahead };
            self.touch(FETCH, Kind::Fetch, run.vpn, run.translations, run.crosses, place);
            cursor.run += 1;
            if run.crosses && self.sets.kernels != 0 {
                let next = self.course.rewound.map_or(until, |kept| first as usize + kept);
                self.open_row(batch, cursor.span, run, next);
            }
            back = self.came_back(first);
        }
        if cursor.run == self.process.fetches.runs(head).len() {
            (cursor.run, cursor.span) = (0, cursor.span + 1);
        }
        back
    }

    /// Begins a row whose first fetch is the second half of one that began on the previous page. It needs no lookup if
    /// both halves lie in one superpage. If its first touch made a kernel build that superpage, nothing has looked it
    /// up yet: the row's next fetch does, after the instruction's data references. `until`: the next data reference.
    fn open_row(&mut self, batch: &Batch<'_>, span: usize, run: Run, until: usize) {
        let page = self.store.find(run.vpn);
        let page =
            page.filter(|&page| self.sets.active & self.sets.kernels & !self.store.held(page, FETCH) != 0);
        let (Some(page), true) = (page, run.translations > 1) else { return };
        let Span { block: id, first } = batch.spans[span];
        let fetches = u64::from(run.translations) - 1;
        let instruction = run.instruction as u16;
        let own = |index: usize| {
            let site = batch.blocks.get(id).sites.get(index - first as usize);
            index < batch.span_end(span) && site.is_some_and(|site| site.instruction == instruction)
        };
        if until != usize::MAX && own(until) {
            self.store.running = ExecutingPage { vpn: run.vpn, fetches, span, instruction, open: true };
        } else {
            self.store.running.vpn = run.vpn;
            self.look_up_row(batch, page, fetches, span, run.instruction + 1);
        }
    }

    /// Looks up the next of the row's remaining `fetches`.
    fn look_up_row(&mut self, batch: &Batch<'_>, page: u32, fetches: u64, span: usize, instruction: u32) {
        let at = CodePosition::Instruction(instruction);
        let place = ReferencePlace { batch, span, at, ahead: &[] };
        self.catch_up(&place);
        // A page brought back for this fetch counts as found by it.
        self.store.running.fetches = fetches;
        self.backed(FETCH, page, &[]);
        // If its walk remaps the page, only later fetches use the new size.
        self.store.running.fetches = fetches - 1;
        self.access(FETCH, Kind::Fetch, page, 0, place);
        self.store.running.fetches = 0;
    }

    fn came_back(&mut self, first: u32) -> Option<usize> {
        self.course.rewound.take().map(|kept| first as usize + kept)
    }

    /// Rolls back data references counted ahead as hits, except the first `keep`, because a kernel drops translations
    /// at a fetch. They run again later. This must precede the remap, so that the counts go back where they came from.
    pub(crate) fn give_back(&mut self, ahead: &[Ref], keep: usize) {
        let end = self.course.rewound.unwrap_or(ahead.len());
        if keep >= end {
            return;
        }
        let base = self.store.paging.base();
        for record in &ahead[keep..end] {
            // The front has no references to two pages.
            let page = self.store.find(base.number(record.address())).expect("a hit page is known");
            self.store.take_back(page, class_of(record.kind(), self.course.split));
        }
        self.course.rewound = Some(keep);
    }

    /// Rolls back from the first data reference that no longer hits, because a fetched page replaced another in an
    /// array that serves data too.
    pub(crate) fn give_back_evicted(&mut self, ahead: &[Ref]) {
        if let Some(keep) = self.first_evicted(ahead) {
            self.give_back(ahead, keep);
        }
    }

    /// The first of these hits that would no longer hit the front.
    fn first_evicted(&self, ahead: &[Ref]) -> Option<usize> {
        let base = self.store.paging.base();
        let is_gone = |record: &Ref| {
            let class = class_of(record.kind(), self.course.split);
            self.store.front_page(class, base.number(record.address())).is_none()
        };
        match self.store.lost() {
            Some([]) => None,
            Some(&[only]) => {
                let is_of = |record: &Ref| base.number(record.address()) == only;
                // Most fetches displace no page that was counted ahead: scan many at a time.
                let of_any = |chunk: &[Ref]| chunk.iter().fold(false, |any, record| any | is_of(record));
                let mut chunks = ahead.chunks(LOOKED_THROUGH).enumerate().filter(|(_, chunk)| of_any(chunk));
                chunks.find_map(|(number, chunk)| {
                    let at = chunk.iter().position(|record| is_of(record) && is_gone(record))?;
                    Some(number * LOOKED_THROUGH + at)
                })
            }
            Some(lost) => ahead
                .iter()
                .position(|record| lost.contains(&base.number(record.address())) && is_gone(record)),
            None => ahead.iter().position(is_gone),
        }
    }

    /// Records the position of a data reference that may disturb fetches, and the executing page if there are kernels.
    fn note_data(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        if self.sets.kernels == 0 && !self.course.disturbed {
            self.course.noted = Some((span, index));
            return;
        }
        let before = self.store.running;
        self.note_running(batch, span, index);
        // An earlier reference of the same instruction may have disturbed a page that is still to be looked up.
        let ExecutingPage { instruction, .. } = self.store.running;
        self.course.disturbed &= (span, instruction) == (before.span, before.instruction);
    }

    /// Records the executing page at a data reference.
    fn note_running(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        let Span { block: id, first } = batch.spans[span];
        let block = batch.blocks.get(id);
        let base = self.store.paging.base();
        self.store.running = ExecutingPage::default();
        let Some(site) = block.sites.get(index - first as usize) else { return };
        let mut following = block.instructions.iter().skip(site.instruction.into());
        let Some(at) = following.next() else { return };
        let head = self.process.fetches.heads[id.index()];
        if !head.is_several() {
            let (vpn, fetches) = (head.vpn, following.len() as u64);
            self.store.running =
                ExecutingPage { vpn, fetches, span, instruction: site.instruction, open: false };
            return;
        }
        let vpn = *instruction_pages(at, base).end();
        let mut fetches = 0;
        for next in following {
            let pages = instruction_pages(next, base);
            if *pages.start() != vpn {
                break;
            }
            fetches += 1;
            if *pages.end() != vpn {
                break;
            }
        }
        self.store.running = ExecutingPage { vpn, fetches, span, instruction: site.instruction, open: false };
    }

    /// Corrects fetches after a kernel dropped translations at the last noted data reference. The row's later fetches
    /// were counted as hits when it began: looks up the next of them, unless data reference `next` belongs to the same
    /// instruction and so comes first.
    fn refetch(&mut self, batch: &Batch<'_>, next: usize) {
        if let Some((span, index)) = self.course.noted.take() {
            let head = self.process.fetches.heads[batch.spans[span].block.index()];
            if !head.is_several() && self.store.front_page(FETCH, head.vpn).is_some() {
                self.course.disturbed = false;
                return;
            }
            self.note_running(batch, span, index);
        }
        let ExecutingPage { vpn, fetches, span, instruction, .. } = self.store.running;
        if self.store.front_page(FETCH, vpn).is_some() {
            // All designs hold it: the row goes on.
            self.course.disturbed = false;
            return;
        }
        let Span { block: id, first } = batch.spans[span];
        let site =
            (next < batch.span_end(span)).then(|| batch.blocks.get(id).sites.get(next - first as usize));
        if site.flatten().is_some_and(|site| site.instruction == instruction) {
            return;
        }
        self.course.disturbed = false;
        let page = self.store.find(vpn).filter(|&page| self.sets.active & !self.store.held(page, FETCH) != 0);
        if let (Some(page), true) = (page, fetches > 0) {
            self.look_up_row(batch, page, fetches, span, u32::from(instruction) + 1);
            // That walk disturbs no row: it is for the executing page itself.
            self.course.disturbed = false;
        }
    }
}
