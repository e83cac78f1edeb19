//! What passes first levels of caches goes on to designs.
//!
//! Each part of a design's caches takes lines and walks in the order of their moments. The observed design does so
//! here, and tells the observer; others on a worker, if there is one.

use crate::attribution::{Observer, ReferenceWaits};
use crate::bits::bits;
use crate::caches::waiting_walks::{PassedAt, WaitingWalks, WalkCause};
use crate::caches::{MemoryCaches, WalkCost};
use crate::classes::FETCH;
use crate::code_lines::CodeLines;
use crate::design::Design;
use crate::moment::{CodePosition, Moment};
use crate::pass::Pass;
use crate::pass::cache_worker::{CacheWorker, Passage};
use crate::pass::caches::{CachesPosition, CachesProgress, page_of, wait};
use crate::pass::cohort::{Cohort, Divided};
use crate::pass::place::{ReferencePlace, site};
use crate::pass::process::Process;
use crate::store::PageStore;
use pagewalk_trace::{Batch, Span};
use pagewalk_units::VirtAddr;

/// The span of a data reference; `from`: a span before it or its own.
#[inline]
fn last_span_from(batch: &Batch<'_>, mut from: usize, data: usize) -> usize {
    // Without branches inside a piece, as its end cannot be foretold.
    const PIECE: usize = 8;
    const NEAR: usize = 8;
    let is_before = |span: &Span| span.first as usize <= data;
    for _ in 0..NEAR {
        let next = batch.spans[from + 1..].iter().take(PIECE);
        let before = next.map(|span| usize::from(is_before(span))).sum::<usize>();
        from += before;
        if before < PIECE {
            return from;
        }
    }
    from + batch.spans[from + 1..].partition_point(is_before)
}

impl<O: Observer> Pass<O> {
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
            let feeds = first.feeds & (self.sets.active | self.sets.twins);
            if feeds == 0 || !all && !first.in_step {
                continue;
            }
            let in_step = first.in_step;
            let passed = first.reach(batch, &self.process.lines, self.store.asid, (to, until));
            let passed = if in_step {
                // Their walks never wait.
                let walks = WaitingWalks::default();
                bits(feeds).for_each(|design| self.feed(design, &passed, &walks, batch));
                passed
            } else {
                let elsewhere = self.send_away(index, feeds);
                self.pass_on(index, (feeds, elsewhere), passed, batch)
            };
            self.course.caches.first[index].reuse(passed);
        }
    }

    /// Lets what passed a first level go on to designs that it feeds, `elsewhere` on the worker. Returns the list, or
    /// another, for its room.
    fn pass_on(
        &mut self,
        first: usize,
        (to, elsewhere): (u64, u64),
        mut passed: Vec<PassedAt>,
        batch: &Batch<'_>,
    ) -> Vec<PassedAt> {
        let mut walks = self.take_walks(to);
        let has_followers = |cohort: &mut Cohort| cohort.first() == first && cohort.followers() != 0;
        if let Some(mut cohort) = self.course.caches.cohort.take_if(has_followers) {
            let together = cohort.followers() | 1;
            let (of_cohort, others) = walks.into_iter().partition(|(design, _)| together >> design & 1 != 0);
            self.feed_cohort(&mut cohort, &passed, of_cohort, batch);
            self.course.caches.cohort = Some(cohort);
            walks = others;
        }
        let (there, here): (Vec<_>, Vec<_>) =
            walks.into_iter().partition(|(design, _)| elsewhere >> design & 1 != 0);
        here.iter().for_each(|(design, walks)| self.feed(*design, &passed, walks, batch));
        if let Some(worker) = self.course.caches.worker.as_mut().filter(|_| !there.is_empty()) {
            let passed = std::mem::take(&mut passed);
            worker.take(Passage { parts: Vec::new(), passed, walks: there });
        }
        passed
    }

    /// The walks of designs that have waited until now, in ascending order of designs.
    fn take_walks(&mut self, designs: u64) -> Vec<(usize, WaitingWalks)> {
        let walks = |design: usize| Some((design, self.designs[design].memory.as_mut()?.take_walks()));
        let mut all: Vec<_> = bits(designs).filter_map(walks).collect();
        if let [(0, observed), others @ ..] = &mut all[..] {
            let twins = others.iter_mut().filter(|(design, _)| self.sets.twins >> design & 1 != 0);
            twins.for_each(|(_, walks)| walks.clone_from(observed));
        }
        all
    }

    /// Which of these designs the worker feeds: all but the observed one. It has their caches from now on. `first`:
    /// their first level.
    fn send_away(&mut self, first: usize, designs: u64) -> u64 {
        let deferring = designs & self.sets.deferring;
        let Some(owned) = self.course.caches.worker.as_ref().map(|worker| worker.owns) else { return 0 };
        for design in bits(deferring & !1 & !owned) {
            let Some(memory) = &mut self.designs[design].memory else { continue };
            let memory = Box::new(memory.send_away());
            if deferring & 1 != 0 {
                self.join_cohort(first, design, &memory);
            }
            if let Some(worker) = &mut self.course.caches.worker {
                worker.own(design, memory);
            }
        }
        deferring & !1
    }

    /// Lets a design follow the observed one, if their caches are alike.
    fn join_cohort(&mut self, first: usize, design: usize, memory: &MemoryCaches) {
        let Pass { designs, course, .. } = self;
        let CachesProgress { worker: Some(worker), cohort, .. } = &mut course.caches else { return };
        let Design { memory: Some(observed), machine, .. } = &designs[0] else { return };
        if cohort.is_none() {
            *cohort = Cohort::of(first, machine, observed);
        }
        if let Some(cohort) = cohort.as_mut().filter(|cohort| cohort.admits(first, &designs[design].machine))
        {
            let earlier = bits(cohort.followers());
            let walks = earlier.map(|design| (design, WaitingWalks::default())).collect();
            let parts = cohort.join(design, memory, observed);
            worker.take(Passage { parts, passed: Vec::new(), walks });
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
        let cohort = course.caches.cohort.take();
        let (observed, others) = designs.split_first_mut().expect("a pass has designs");
        for (design, mut caches) in worker.give_back() {
            if let (Some(cohort), Some(observed)) = (&cohort, &observed.memory) {
                cohort.complete(design, &mut caches, observed);
            }
            let Design { memory: Some(memory), counts, .. } = &mut others[design - 1] else { continue };
            memory.come_back(*caches);
            counts.walk_cycles = counts.walk_cycles.saturating_add(memory.take_waited_cycles());
        }
    }

    /// Lets what passed a first level go on to the observed design and those that follow it, with their walks.
    fn feed_cohort(
        &mut self,
        cohort: &mut Cohort,
        passed: &[PassedAt],
        mut walks: Vec<(usize, WaitingWalks)>,
        batch: &Batch<'_>,
    ) {
        debug_assert!(
            walks.iter().map(|(design, _)| *design).eq(bits(cohort.followers() | 1)),
            "all take part"
        );
        let Some(observed) = &mut self.designs[0].memory else { return };
        let meanwhile = walks.iter().map(|(_, walks)| walks);
        let Divided { parts, alike, own } = cohort.divide_passed(passed, meanwhile, observed);
        let before = observed.take_counts();
        self.feed_observed(&alike, &WaitingWalks::default(), batch);
        cohort.reuse(alike);
        if let Some(observed) = &mut self.designs[0].memory {
            cohort.count_for_all(observed, &before);
        }
        let (_, observed_walks) = walks.remove(0);
        self.feed_observed(&own, &observed_walks, batch);
        if let Some(worker) = &mut self.course.caches.worker {
            worker.take(Passage { parts, passed: own, walks });
        }
    }

    /// Lets what passed a first level go on to a design, with its walks.
    fn feed(&mut self, design: usize, passed: &[PassedAt], waited: &WaitingWalks, batch: &Batch<'_>) {
        if design == 0 {
            self.feed_observed(passed, waited, batch);
            return;
        }
        let Design { memory: Some(memory), counts, .. } = &mut self.designs[design] else { return };
        memory.take_passed::<false>(passed, waited, |_, _| {}, |_, _| {});
        counts.walk_cycles = counts.walk_cycles.saturating_add(memory.take_waited_cycles());
    }

    /// Lets it go on to the observed design, with its walks.
    fn feed_observed(&mut self, passed: &[PassedAt], waited: &WaitingWalks, batch: &Batch<'_>) {
        let Pass { designs, store, process, observer, .. } = self;
        let Design { memory: Some(memory), counts, .. } = &mut designs[0] else { return };
        let (mut walks, hears_waits) = (Vec::new(), observer.hears_waits());
        let mut waiting =
            WaitingNews { store, process, observer, batch, span: 0, news: Vec::with_capacity(TOGETHER) };
        let wait = |moment: Moment, waits: ReferenceWaits| waiting.add(moment, waits);
        let walk = |cause: WalkCause, cost: WalkCost| walks.push((cause, cost));
        if hears_waits {
            memory.take_passed::<true>(passed, waited, wait, walk);
        } else {
            memory.take_passed::<false>(passed, waited, wait, walk);
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
    news: Vec<(Moment, ReferenceWaits)>,
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
    fn add(&mut self, moment: Moment, waits: ReferenceWaits) {
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
    fn tell(&mut self, reference: &WaitingReference<'_>, waits: ReferenceWaits) {
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
