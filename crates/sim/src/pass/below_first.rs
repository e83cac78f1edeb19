//! What passes first levels of caches goes on to designs.
//!
//! Each part of a design's caches takes lines and walks in the order of their moments. The observed design does so
//! here, and tells the observer; others on a worker, if there is one.

use crate::attribution::{HearsWaits, Observer, ReferenceWaits, Wait, WaitingPage};
use crate::bits::bits;
use crate::caches::passage::{Listener, Nobody, WaitsByRequester};
use crate::caches::waiting_walks::{PassedAt, WaitingWalks, WalkCause};
use crate::caches::{MemoryCaches, WalkCost};
use crate::classes::FETCH;
use crate::code_lines::{CodeLines, CodeNumber};
use crate::design::Design;
use crate::moment::{CodePosition, Moment};
use crate::pass::Pass;
use crate::pass::cache_worker::{CacheWorker, Passage};
use crate::pass::caches::{CachesPosition, CachesProgress, page_at, page_of};
use crate::pass::cohort::{Cohort, Divided};
use crate::pass::near_waits::NearWaits;
use crate::pass::place::ReferencePlace;
use crate::pass::process::Process;
use crate::pass::span_cursor::SpanCursor;
use crate::store::PageStore;
use pagewalk_cache::Requester;
use pagewalk_trace::{Batch, Block, Span};
use pagewalk_units::VirtAddr;

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
        memory.take_passed(passed, waited, &mut Nobody);
        counts.walk_cycles = counts.walk_cycles.saturating_add(memory.take_waited_cycles());
    }

    /// Lets it go on to the observed design, with its walks.
    fn feed_observed(&mut self, passed: &[PassedAt], waited: &WaitingWalks, batch: &Batch<'_>) {
        self.expect_near_waits(passed.len());
        let Pass { designs, store, process, observer, course, .. } = self;
        let Design { memory: Some(memory), counts, .. } = &mut designs[0] else { return };
        let hears = observer.hears_waits();
        let CachesProgress { spans, near, .. } = &mut course.caches;
        let near = (hears == HearsWaits::Together).then_some(near);
        let (news, mut walks) = (Vec::with_capacity(TOGETHER), Vec::with_capacity(waited.len()));
        if hears == HearsWaits::Never {
            memory.take_passed(passed, waited, &mut walks);
        } else {
            let mut waiting = WaitingNews { store, process, observer, batch, spans, near, news, walks };
            memory.take_passed(passed, waited, &mut waiting);
            waiting.tell_all();
            walks = waiting.walks;
        }
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

/// A walk that waited, and what it cost.
type WaitedWalk = (WalkCause, WalkCost);

/// Takes the walks alone.
impl Listener for Vec<WaitedWalk> {
    fn walk(&mut self, cause: WalkCause, cost: WalkCost) {
        self.push((cause, cost));
    }
}

/// Tells the observer of waits. With many pages it first finds those of a group, so that the host waits for them
/// together.
struct WaitingNews<'a, O> {
    store: &'a mut PageStore,
    process: &'a Process,
    observer: &'a mut O,
    batch: &'a Batch<'a>,
    spans: &'a mut SpanCursor,
    /// If the observer hears of waits together.
    near: Option<&'a mut NearWaits>,
    news: Vec<(Moment, ReferenceWaits)>,
    walks: Vec<WaitedWalk>,
}

/// Waits of one group.
const TOGETHER: usize = 16;
/// Walks to prefetch ahead.
const WALKS_AHEAD: usize = 8;

/// A reference that waits.
#[derive(Clone, Copy)]
struct WaitingReference<'a> {
    of: WaitingPage,
    instruction: VirtAddr,
    block: &'a Block,
}

impl<O: Observer> Listener for WaitingNews<'_, O> {
    const HEARS_LINES: bool = true;

    fn near(&mut self, passed: &[PassedAt], each: &WaitsByRequester) {
        for &PassedAt { moment, line } in passed {
            let Some(by) = line.requester() else { continue };
            if !self.count_near(moment, by) {
                self.wait(moment, each[by as usize]);
            }
        }
    }

    #[inline(always)]
    fn wait(&mut self, moment: Moment, waits: ReferenceWaits) {
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

    fn walk(&mut self, cause: WalkCause, cost: WalkCost) {
        self.walks.push((cause, cost));
    }
}

impl<'a, O: Observer> WaitingNews<'a, O> {
    /// Counts a near line, if that is enough.
    #[inline(always)]
    fn count_near(&mut self, moment: Moment, by: Requester) -> bool {
        let Some(near) = &mut self.near else { return false };
        let PlacedReference { code, at, .. } = self.process.lines.reference(self.batch, moment, self.spans);
        let (_, Some(page)) = page_at(self.store, at) else { return false };
        let is_known = near.count(by, code, page);
        if !is_known {
            near.know(code, page);
        }
        is_known
    }

    #[inline(never)]
    fn tell_all(&mut self) {
        let mut references = [None; TOGETHER];
        let news = std::mem::take(&mut self.news);
        for (&(moment, _), reference) in news.iter().zip(&mut references) {
            let found = self.find(moment);
            if let Some(page) = found.of.id {
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
        let lines = &self.process.lines;
        let PlacedReference { span, code, at } = lines.reference(self.batch, moment, self.spans);
        WaitingReference {
            of: page_of(self.store, at),
            instruction: lines.instruction_at(code),
            block: self.batch.blocks.get(self.batch.spans[span].block),
        }
    }

    #[inline(always)]
    fn tell(&mut self, reference: &WaitingReference<'_>, waits: ReferenceWaits) {
        let &WaitingReference { of, instruction, block } = reference;
        let wait = Wait { process: self.store.asid, of, instruction, block, waits };
        self.observer.on_wait(&wait, &self.process.space);
    }
}

/// A reference of a batch: its span, its code and its address.
struct PlacedReference {
    span: usize,
    code: CodeNumber,
    at: VirtAddr,
}

impl CodeLines {
    /// The moment before a reference.
    fn moment(&self, place: &ReferencePlace<'_>) -> Moment {
        let &ReferencePlace { batch, span, at, .. } = place;
        match at {
            CodePosition::Site(site) => Moment::of_data(batch.reference_at(span, site)),
            // No run and no data reference come before the first instruction.
            CodePosition::Instruction(0) => Moment::of_run(batch.reference_at(span, 0), (span, 0)),
            CodePosition::Instruction(_) => self.position(place).moment(at),
        }
    }

    /// The reference of a moment.
    #[inline(always)]
    fn reference(&self, batch: &Batch<'_>, moment: Moment, spans: &mut SpanCursor) -> PlacedReference {
        match moment.run() {
            None => {
                let index = moment.data();
                let span = spans.span_of(batch.spans, index);
                let Span { block, first } = batch.spans[span];
                let code = self.number_of_site(block.index(), index - first as usize);
                PlacedReference { span, code: CodeNumber::Site(code), at: batch.refs[index].address() }
            }
            Some((span, run)) => {
                let code = self.number_of_run(batch.spans[span].block.index(), run);
                PlacedReference {
                    span,
                    code: CodeNumber::Run(code),
                    at: self.run(batch, (span, run)).address,
                }
            }
        }
    }
}
