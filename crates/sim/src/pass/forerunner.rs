//! First levels of caches that see the stream ahead of the pass, on whichever thread has time.
//!
//! What passes them depends on the references alone (`first_caches`). So the pass only takes what passed, batch by
//! batch, and a second processor shares the work. Where fetches and data have caches of their own, each half has a
//! forerunner, so that two processors share that too.

use crate::attribution::Observer;
use crate::code_lines::{CodeLines, LineGrain};
use crate::pass::Pass;
use crate::pass::caches::{CachesPosition, CachesProgress, Stretch};
use crate::pass::first_caches::{FirstCaches, Half, SeenAhead};
use pagewalk_trace::{Analysis, Batch};
use pagewalk_translate::Asid;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What all first levels did in a batch of so many spans.
struct BatchAhead {
    spans: usize,
    levels: Vec<SeenAhead>,
}

/// What each forerunner has seen.
pub(crate) struct BatchesAhead(Vec<Receiver<BatchAhead>>);

impl BatchesAhead {
    /// Lets first levels take what they did in a batch.
    pub fn begin(&self, batch: &Batch<'_>, levels: &mut [FirstCaches]) {
        let seen = |ahead: &Receiver<BatchAhead>| ahead.recv().expect("forerunners see each batch first");
        let mut halves: Vec<BatchAhead> = self.0.iter().map(seen).collect();
        let is_same = |half: &BatchAhead| half.spans == batch.spans.len();
        assert!(halves.iter().all(is_same), "the same batches, in the same order");
        assert!(halves.iter().all(|half| half.levels.len() == levels.len()), "the same first levels");
        for (index, level) in levels.iter_mut().enumerate() {
            level.take_ahead(halves.iter_mut().map(|half| std::mem::take(&mut half.levels[index])));
        }
    }
}

struct Forerunner {
    levels: Vec<FirstCaches>,
    /// What it sees; none: all.
    half: Option<Half>,
    lines: CodeLines,
    grain: LineGrain,
    asid: Asid,
    batches: Sender<BatchAhead>,
}

impl Analysis for Forerunner {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        if batch.spans.is_empty() {
            return;
        }
        let Forerunner { levels, half, lines, asid, .. } = self;
        let from = CachesPosition::before(batch, 0);
        let to = if *half == Some(Half::Data) {
            CachesPosition { data: batch.refs.len(), ..from }
        } else {
            lines.learn(batch.blocks.since(lines.blocks()), self.grain);
            lines.end_of(batch, batch.spans.len())
        };
        let stretch = || Stretch { batch, lines, asid: *asid, from, to };
        let levels = levels.iter_mut().map(|level| level.see_ahead(*half, stretch())).collect();
        // The pass may have ended.
        let _ = self.batches.send(BatchAhead { spans: batch.spans.len(), levels });
    }
}

impl<O: Observer> Pass<O> {
    /// Lets forerunners see the references for all first levels, before the first reference. None if there are none, or
    /// if some keep in step with the TLBs.
    pub(crate) fn send_forerunners(&mut self) -> Vec<Box<dyn Analysis>> {
        let CachesProgress { first, line_grain: Some(grain), ahead, .. } = &mut self.course.caches else {
            return Vec::new();
        };
        if first.is_empty() || first.iter().any(|first| first.in_step) {
            return Vec::new();
        }
        let halves: &[Option<Half>] = match first.iter().all(FirstCaches::is_split) {
            true => &[Some(Half::Fetches), Some(Half::Data)],
            false => &[None],
        };
        let forerunner = |&half: &Option<Half>| {
            let (batches, seen) = channel();
            let (levels, lines, asid) = (first.clone(), CodeLines::default(), self.store.asid);
            let forerunner: Box<dyn Analysis> =
                Box::new(Forerunner { levels, half, lines, grain: *grain, asid, batches });
            (forerunner, seen)
        };
        let (forerunners, seen) = halves.iter().map(forerunner).unzip();
        first.iter_mut().for_each(FirstCaches::follow);
        *ahead = Some(BatchesAhead(seen));
        forerunners
    }
}
