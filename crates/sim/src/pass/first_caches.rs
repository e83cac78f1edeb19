//! First levels of caches, and what passes them.
//!
//! What a first level holds depends on the program's references alone, if nothing below changes it
//! ([`shares_first_level`]). So it sees a whole batch at once, fetches and data apart, and notes the moments at which
//! lines pass. Walks wait too: they change no translation. Then each design takes lines and walks in the order of their
//! moments, and knows early enough what to prefetch. Kernels alone need costs at once: their designs' caches are in
//! step with the TLBs.
//!
//! Designs whose caches differ only below the first level share it.

use crate::attribution::{Observer, Waits};
use crate::bits::bits;
use crate::caches::{MemoryCaches, WalkCost};
use crate::classes::FETCH;
use crate::code_lines::{CodeLines, LineRun};
use crate::design::Design;
use crate::moment::{CodePosition, Moment};
use crate::pass::Pass;
use crate::pass::cache_worker::{Alike, CacheWorker};
use crate::pass::caches::{CachesPosition, Receiver, Stretch, page_of, wait};
use crate::pass::place::{ReferencePlace, site};
use crate::pass::process::Process;
use crate::store::PageStore;
use crate::waiting_walks::{PassedAt, WalkCause};
use pagewalk_cache::{CacheSpec, Hits, Requester, shares_first_level};
use pagewalk_trace::Batch;
use pagewalk_translate::Asid;
use pagewalk_units::{Kind, VirtAddr};
use std::ops::Range;

/// One first level.
#[derive(Clone)]
pub(crate) struct FirstCaches {
    /// All caches of the first design that it feeds.
    specs: Vec<CacheSpec>,
    memory: MemoryCaches,
    /// The designs that it feeds, one bit each.
    pub feeds: u64,
    /// Whether it keeps in step with the TLBs.
    pub in_step: bool,
    /// Whether fetches and data have one each.
    is_split: bool,
    position: CachesPosition,
    passed: Vec<PassedAt>,
    /// What passes in the rest of the batch, if a forerunner has seen it.
    coming: Option<Vec<PassedAt>>,
}

/// What a first level did in a batch.
pub(crate) struct SeenAhead {
    passed: Vec<PassedAt>,
    hits: Vec<Hits>,
}

impl FirstCaches {
    /// That of a design, if nothing below changes what it holds.
    pub fn of(design: &Design, in_step: bool) -> Option<FirstCaches> {
        let specs = &design.machine.caches;
        if !shares_first_level(specs, specs) {
            return None;
        }
        let memory = MemoryCaches::first_level(&design.machine)?;
        Some(FirstCaches {
            specs: specs.clone(),
            is_split: memory.hierarchy.is_split(),
            memory,
            feeds: 0,
            in_step,
            position: CachesPosition::default(),
            passed: Vec::new(),
            coming: None,
        })
    }

    /// Whether it is a design's too.
    pub fn serves(&self, caches: &[CacheSpec], in_step: bool) -> bool {
        self.in_step == in_step && shares_first_level(&self.specs, caches)
    }

    /// The caches that see the program's references.
    pub fn memory(&self) -> &MemoryCaches {
        &self.memory
    }

    /// A stretch of a batch begins there.
    pub fn begin(&mut self, at: CachesPosition) {
        self.position = at;
    }

    /// From now on a forerunner sees the references: see [`FirstCaches::take_ahead`].
    pub fn follow(&mut self) {
        self.coming = Some(Vec::new());
    }

    /// Sees all of a batch, for a level that follows.
    pub fn see_ahead(&mut self, batch: &Batch<'_>, lines: &CodeLines, asid: Asid) -> SeenAhead {
        self.passed.clear();
        let (from, to) = (CachesPosition::before(batch, 0), lines.end_of(batch, batch.spans.len()));
        self.see(Stretch { batch, lines, asid, from, to });
        SeenAhead { passed: std::mem::take(&mut self.passed), hits: self.memory.hierarchy.take_hits() }
    }

    /// Takes what a forerunner saw in the batch that begins. Its hits count at once, its misses when they are due: in a
    /// batch only misses, lookups less hits, are exact.
    pub fn take_ahead(&mut self, seen: SeenAhead) {
        self.memory.hierarchy.add_hits(&seen.hits);
        self.coming = Some(seen.passed);
    }

    /// Sees the references of a stretch, which ends at a moment: then `passed` has what passes.
    fn reach(&mut self, stretch: Stretch<'_>, until: Moment) {
        self.passed.clear();
        self.position = stretch.to;
        if self.coming.is_some() { self.take_coming(until) } else { self.see(stretch) }
    }

    fn take_coming(&mut self, until: Moment) {
        let FirstCaches { memory, passed, coming, .. } = self;
        let Some(coming) = coming else { return };
        let due = coming.partition_point(|passed| passed.moment < until);
        match due == coming.len() {
            true => std::mem::swap(passed, coming),
            false => passed.extend(coming.drain(..due)),
        }
        // A dirty line follows the access that evicts it.
        let mut by = Requester::Load;
        for PassedAt { line, .. } in passed {
            by = line.requester().unwrap_or(by);
            memory.hierarchy.count_passed(*line, by);
        }
    }

    fn see(&mut self, stretch: Stretch<'_>) {
        let FirstCaches { memory, passed, .. } = self;
        if self.is_split {
            let data = stretch.from.data..stretch.to.data;
            memory.take_data(&stretch.batch.refs[data.clone()], stretch.asid, |index, line| {
                passed.push(PassedAt { moment: Moment::of_data(data.start + index), line });
            });
            replay_fetches(&stretch, &mut Noting { memory, passed });
            passed.sort_by_key(|passed| passed.moment);
        } else {
            stretch.replay(&mut Noting::<true> { memory, passed });
        }
    }
}

/// Lets a first level see the fetches of a stretch.
fn replay_fetches(stretch: &Stretch<'_>, fetches: &mut Noting<'_, false>) {
    let Stretch { batch, lines, asid, mut from, to } = *stretch;
    let start = |span| CachesPosition { span, run: 0, fetched: 0, data: 0 };
    if (from.run, from.fetched) != (0, 0) && from.span < to.span {
        let next = start(from.span + 1);
        Stretch { from, to: next, ..*stretch }.replay(fetches);
        from = next;
    }
    if from.span < to.span {
        let Noting { memory, passed } = fetches;
        memory.take_fetches(&batch.spans[from.span..to.span], lines, asid, |(span, run), line| {
            let at = (from.span + span, run);
            let moment = Moment::of_run(stretch.data_before(at.0, lines.run(batch, at)), at);
            passed.push(PassedAt { moment, line });
        });
        from = start(to.span);
    }
    Stretch { from, ..*stretch }.replay(fetches);
}

/// Notes what has passed since the last time.
#[inline(always)]
fn note(memory: &mut MemoryCaches, all: &mut Vec<PassedAt>, moment: impl FnOnce() -> Moment) {
    let passed = memory.hierarchy.passed();
    if !passed.is_empty() {
        let moment = moment();
        all.extend(passed.iter().map(|&line| PassedAt { moment, line }));
        memory.hierarchy.clear_passed();
    }
}

/// A first level that sees fetches, and maybe data among them.
struct Noting<'a, const DATA: bool> {
    memory: &'a mut MemoryCaches,
    passed: &'a mut Vec<PassedAt>,
}

impl<const DATA: bool> Receiver for Noting<'_, DATA> {
    const TAKES_DATA: bool = DATA;

    #[inline(always)]
    fn fetches(&mut self, stretch: &Stretch<'_>, at: (usize, usize), run: &LineRun, mut fetches: Range<u32>) {
        if fetches.start == 0 {
            self.memory.executed();
            self.memory.access(Kind::Fetch, stretch.address(run.address), run.bytes.into());
            note(self.memory, self.passed, || Moment::of_run(stretch.data_before(at.0, run), at));
            fetches.start = 1;
        }
        self.memory.hierarchy.repeated(Requester::Fetch, fetches.len() as u64);
    }

    #[inline(always)]
    fn data(&mut self, stretch: &Stretch<'_>, _span: usize, data: Range<usize>) {
        for index in data {
            let record = stretch.batch.refs[index];
            let bytes = record.size().bytes().into();
            self.memory.access(record.kind(), stretch.address(record.address()), bytes);
            note(self.memory, self.passed, || Moment::of_data(index));
        }
    }
}

/// The span of a data reference; `from`: a span before it or its own.
#[inline]
fn last_span_from(batch: &Batch<'_>, mut from: usize, data: usize) -> usize {
    // Without branches inside a piece, as its end cannot be foretold.
    const PIECE: usize = 8;
    loop {
        let next = batch.spans[from + 1..].iter().take(PIECE);
        let before = next.map(|span| usize::from(span.first as usize <= data)).sum::<usize>();
        from += before;
        if before < PIECE {
            return from;
        }
    }
}

impl<O: Observer> Pass<O> {
    /// Gives a design with caches a first level that it shares, if it can.
    pub(crate) fn share_first_caches(&mut self, design: &mut Design) -> bool {
        let in_step = design.os.is_some();
        let serves = |first: &FirstCaches| first.serves(&design.machine.caches, in_step);
        let known = self.course.caches.first.iter().position(serves);
        let Some(index) = known.or_else(|| {
            let first = FirstCaches::of(design, in_step)?;
            self.course.caches.first.push(first);
            Some(self.course.caches.first.len() - 1)
        }) else {
            return false;
        };
        let mask = design.mask();
        self.course.caches.first[index].feeds |= mask;
        let machine = &design.machine;
        if let Some(memory) = &mut design.memory
            && memory.first_level.is_none()
        {
            memory.leave_first_level_to(index, machine, !in_step);
        }
        if design.memory.as_ref().is_some_and(MemoryCaches::defers_walks) {
            self.sets.deferring |= mask;
        }
        true
    }

    /// Notes the walks that a design has left to its caches. `page`: of the reference that caused the first of them.
    #[inline(never)]
    pub(crate) fn defer(
        &mut self,
        design: usize,
        class: usize,
        page: Option<u32>,
        place: &ReferencePlace<'_>,
    ) {
        let Some(memory) = &mut self.designs[design].memory else { return };
        let cause = page.map(|page| WalkCause {
            class,
            page,
            span: place.span,
            at: place.at,
            instructions: self.executed.instructions,
        });
        memory.note_walks(self.process.lines.moment(place), cause);
    }

    /// Lets first levels see the references up to `to`, which is that moment, and what passes go on. `all`: not only
    /// those in step.
    pub(crate) fn reach(&mut self, batch: &Batch<'_>, (to, until): (CachesPosition, Moment), all: bool) {
        for index in 0..self.course.caches.first.len() {
            let first = &mut self.course.caches.first[index];
            let feeds = first.feeds & self.sets.active;
            if feeds == 0 || !all && !first.in_step {
                continue;
            }
            let from = first.position;
            debug_assert!(from <= to, "references come in order");
            let lines = &self.process.lines;
            if from == to {
                first.passed.clear();
            } else {
                first.reach(Stretch { batch, lines, asid: self.store.asid, from, to }, until);
            }
            let in_step = first.in_step;
            let elsewhere = if in_step { 0 } else { self.send_away(index, feeds) };
            for design in bits(feeds & !elsewhere) {
                self.feed(index, design, batch);
            }
            if elsewhere != 0 {
                self.pass_on(index, elsewhere);
            }
        }
    }

    /// Which of these designs the worker feeds: all but the observed one. It has their caches from now on. `first`:
    /// their first level.
    fn send_away(&mut self, first: usize, designs: u64) -> u64 {
        let Some(worker) = &mut self.course.caches.worker else { return 0 };
        let designs = designs & self.sets.deferring & !1;
        for design in bits(designs & !worker.owns) {
            let Design { memory: Some(memory), machine, .. } = &mut self.designs[design] else { continue };
            let (caches, memory_latency) = (machine.caches.clone(), machine.cost.memory);
            let alike = Alike { first, caches, memory_latency };
            worker.own(alike, design, Box::new(memory.send_away()));
        }
        designs
    }

    /// Lets what passed a first level go on to designs that the worker feeds.
    fn pass_on(&mut self, first: usize, to: u64) {
        let Pass { designs, course, .. } = self;
        let passed = std::mem::take(&mut course.caches.first[first].passed);
        let walks = |design: usize| Some((design, designs[design].memory.as_mut()?.take_walks()));
        let walks = bits(to).filter_map(walks).collect();
        if let Some(worker) = &mut course.caches.worker {
            worker.take(passed, walks);
        }
    }

    /// Lets a worker feed all designs but the observed one, if there are others whose walks wait. `thread`: on a second
    /// thread.
    pub(crate) fn use_cache_worker(&mut self, thread: bool) {
        let has_work = self.sets.deferring & !1 != 0;
        let here = CacheWorker::here;
        // Without a thread the same is done on this one.
        let worker = || if thread { CacheWorker::thread().unwrap_or_else(|_| here()) } else { here() };
        self.course.caches.worker = has_work.then(worker);
    }

    /// Takes the caches back that the worker has.
    pub(crate) fn take_caches_back(&mut self) {
        let Pass { designs, course, .. } = self;
        let Some(worker) = course.caches.worker.as_mut().filter(|worker| worker.owns != 0) else { return };
        for (design, caches) in worker.give_back() {
            let Design { memory: Some(memory), counts, .. } = &mut designs[design] else { continue };
            memory.come_back(*caches);
            counts.walk_cycles = counts.walk_cycles.saturating_add(memory.take_waited_cycles());
        }
    }

    /// Lets what passed a first level go on to a design.
    fn feed(&mut self, first: usize, design: usize, batch: &Batch<'_>) {
        let Pass { designs, course, store, process, observer, .. } = self;
        let passed = &course.caches.first[first].passed;
        let Design { memory: Some(memory), counts, .. } = &mut designs[design] else { return };
        let waited = memory.take_walks();
        if design > 0 {
            memory.take_passed::<false>(passed, &waited, |_, _| {}, |_, _| {});
            counts.walk_cycles = counts.walk_cycles.saturating_add(memory.take_waited_cycles());
            return;
        }
        let mut walks = Vec::new();
        let mut waiting =
            WaitingNews { store, process, observer, batch, span: 0, news: Vec::with_capacity(TOGETHER) };
        let wait = |moment: Moment, waits: Waits| waiting.add(moment, waits);
        let walk = |cause: WalkCause, cost: WalkCost| walks.push((cause, cost));
        if O::OBSERVES_WAITS {
            memory.take_passed::<true>(passed, &waited, wait, walk);
        } else {
            memory.take_passed::<false>(passed, &waited, wait, walk);
        }
        waiting.tell_all();
        counts.walk_cycles = counts.walk_cycles.saturating_add(memory.take_waited_cycles());
        for (number, &(cause, cost)) in walks.iter().enumerate() {
            if let Some((ahead, _)) = walks.get(number + WALKS_AHEAD) {
                self.store.prefetch_page(ahead.page);
            }
            let WalkCause { class, page, span, at, instructions } = cause;
            let place = ReferencePlace { batch, span, at, ahead: &[] };
            self.observe(page, class == FETCH, cost, place, instructions);
        }
    }
}

/// Tells the observer of waits. With many pages it first finds those of a group, so that the host waits for them
/// together.
struct WaitingNews<'a, O> {
    store: &'a PageStore,
    process: &'a Process,
    observer: &'a mut O,
    batch: &'a Batch<'a>,
    /// A span before that of the next wait, or its own.
    span: usize,
    news: Vec<(Moment, Waits)>,
}

/// Waits of one group.
const TOGETHER: usize = 16;
/// Walks to prefetch ahead.
const WALKS_AHEAD: usize = 8;

/// A reference that waits.
#[derive(Clone, Copy)]
struct WaitingReference<'a> {
    at: VirtAddr,
    page: Option<u32>,
    instruction: VirtAddr,
    place: ReferencePlace<'a>,
}

impl<'a, O: Observer> WaitingNews<'a, O> {
    #[inline(always)]
    fn add(&mut self, moment: Moment, waits: Waits) {
        if !self.store.has_many_pages() {
            let reference = self.find(moment);
            self.tell(&reference, waits);
            return;
        }
        self.news.push((moment, waits));
        if self.news.len() == TOGETHER {
            self.tell_all();
        }
    }

    #[inline(never)]
    fn tell_all(&mut self) {
        let mut references = [None; TOGETHER];
        let news = std::mem::take(&mut self.news);
        for (&(moment, _), reference) in news.iter().zip(&mut references) {
            let found = self.find(moment);
            if let Some(page) = found.page {
                self.store.prefetch_page(page);
                self.observer.expect_wait(page);
            }
            *reference = Some(found);
        }
        for (&(_, waits), reference) in news.iter().zip(references.iter().flatten()) {
            self.tell(reference, waits);
        }
        self.news = news;
        self.news.clear();
    }

    #[inline(always)]
    fn find(&mut self, moment: Moment) -> WaitingReference<'a> {
        let (at, instruction, place) = self.process.lines.place(self.batch, moment, &mut self.span);
        WaitingReference { at, page: page_of(self.store, at), instruction, place }
    }

    #[inline(always)]
    fn tell(&mut self, reference: &WaitingReference<'_>, waits: Waits) {
        let &WaitingReference { at, page, instruction, ref place } = reference;
        let wait = wait(self.store, (at, page), instruction, place, waits);
        self.observer.on_wait(&wait, &self.process.space);
    }
}

impl CodeLines {
    /// The moment before a reference.
    fn moment(&self, place: &ReferencePlace<'_>) -> Moment {
        self.position(place).moment(place.at)
    }

    /// The reference of a moment: its address, its instruction's, and its place. `latest`: a span before it or its own.
    fn place<'a>(
        &self,
        batch: &'a Batch<'a>,
        moment: Moment,
        latest: &mut usize,
    ) -> (VirtAddr, VirtAddr, ReferencePlace<'a>) {
        let block = |span: usize| batch.spans[span].block.index();
        match moment.run() {
            None => {
                let index = moment.data();
                *latest = last_span_from(batch, *latest, index);
                let number = index - batch.spans[*latest].first as usize;
                let instruction = self.instruction_of_site(block(*latest), number);
                (batch.refs[index].address(), instruction, site(batch, *latest, index))
            }
            Some((span, number)) => {
                let run = self.run(batch, (span, number));
                let at = CodePosition::Instruction(run.instruction);
                let instruction = self.instruction_of_run(block(span), number);
                (run.address, instruction, ReferencePlace { batch, span, at, ahead: &[] })
            }
        }
    }
}
