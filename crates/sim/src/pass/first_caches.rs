//! First levels of caches, and what passes them.
//!
//! What a first level holds depends on the program's references alone, if nothing below changes it
//! ([`shares_first_level`]). So it sees a whole batch at once, fetches and data apart, and notes the moments at which
//! lines pass. Walks wait too: they change no translation. Then designs take lines and walks (`below_first`), and know
//! early enough what to prefetch. Kernels alone need costs at once: their designs' caches are in
//! step with the TLBs.
//!
//! Designs whose caches differ only below the first level share it.

use crate::attribution::Observer;
use crate::caches::MemoryCaches;
use crate::caches::waiting_walks::PassedAt;
use crate::code_lines::{CodeLines, LineRun};
use crate::design::Design;
use crate::moment::Moment;
use crate::pass::Pass;
use crate::pass::caches::{CachesPosition, Receiver, Stretch};
use pagewalk_cache::{CacheSpec, Hits, Requester, shares_first_level};
use pagewalk_trace::Batch;
use pagewalk_translate::Asid;
use pagewalk_units::Kind;
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
    /// What passes in the rest of the batch, if forerunners have seen it.
    coming: Option<Vec<PassedAt>>,
}

/// References that have caches of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Fetches,
    Data,
}

/// What a first level, or half of it, did in a batch.
#[derive(Default)]
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

    /// Whether fetches and data have one each.
    pub fn is_split(&self) -> bool {
        self.is_split
    }

    /// A stretch of a batch begins there.
    pub fn begin(&mut self, at: CachesPosition) {
        self.position = at;
    }

    /// From now on forerunners see the references: see [`FirstCaches::take_ahead`].
    pub fn follow(&mut self) {
        self.coming = Some(Vec::new());
    }

    /// Sees a batch, for a level that follows: a half of a split level, or all of one.
    pub fn see_ahead(&mut self, half: Option<Half>, stretch: Stretch<'_>) -> SeenAhead {
        self.passed.clear();
        match half {
            None => self.see(stretch),
            Some(half) => self.see_half(half, &stretch),
        }
        SeenAhead { passed: std::mem::take(&mut self.passed), hits: self.memory.hierarchy.take_hits() }
    }

    /// Takes what forerunners saw in the batch that begins. Its hits count at once, its misses when they are due: in a
    /// batch only misses, lookups less hits, are exact.
    pub fn take_ahead(&mut self, halves: impl Iterator<Item = SeenAhead>) {
        let mut coming = Vec::new();
        for SeenAhead { passed, hits } in halves {
            self.memory.hierarchy.add_hits(&hits);
            match coming.is_empty() {
                true => coming = passed,
                false => coming.extend(passed),
            }
        }
        coming.sort_by_key(|passed| passed.moment);
        self.coming = Some(coming);
    }

    /// Sees the references up to a position, which is at a moment. Returns what passes.
    pub fn reach(
        &mut self,
        batch: &Batch<'_>,
        lines: &CodeLines,
        asid: Asid,
        (to, until): (CachesPosition, Moment),
    ) -> Vec<PassedAt> {
        let from = std::mem::replace(&mut self.position, to);
        debug_assert!(from <= to, "references come in order");
        self.passed.clear();
        if from != to {
            let stretch = Stretch { batch, lines, asid, from, to };
            if self.coming.is_some() { self.take_coming(until) } else { self.see(stretch) }
        }
        std::mem::take(&mut self.passed)
    }

    /// Takes a list back that [`FirstCaches::reach`] gave, for its room.
    pub fn reuse(&mut self, passed: Vec<PassedAt>) {
        self.passed = passed;
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
        if self.is_split {
            self.see_half(Half::Data, &stretch);
            self.see_half(Half::Fetches, &stretch);
            self.passed.sort_by_key(|passed| passed.moment);
        } else {
            let FirstCaches { memory, passed, .. } = self;
            stretch.replay(&mut Noting::<true> { memory, passed });
        }
    }

    fn see_half(&mut self, half: Half, stretch: &Stretch<'_>) {
        let FirstCaches { memory, passed, .. } = self;
        match half {
            Half::Fetches => replay_fetches(stretch, &mut Noting { memory, passed }),
            Half::Data => {
                let data = stretch.from.data..stretch.to.data;
                memory.take_data(&stretch.batch.refs[data.clone()], stretch.asid, |index, line| {
                    passed.push(PassedAt { moment: Moment::of_data(data.start + index), line });
                });
            }
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
}
