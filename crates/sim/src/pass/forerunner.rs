//! First levels of caches that see the stream ahead of the pass, on whichever thread has time.
//!
//! What passes them depends on the references alone (`first_caches`). So the pass only takes what passed, batch by
//! batch, and a second processor shares the work.

use crate::attribution::Observer;
use crate::code_lines::{CodeLines, LineGrain};
use crate::pass::Pass;
use crate::pass::caches::CachesProgress;
use crate::pass::first_caches::{FirstCaches, SeenAhead};
use pagewalk_trace::{Analysis, Batch};
use pagewalk_translate::Asid;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What all first levels did in a batch of so many spans.
struct BatchAhead {
    spans: usize,
    levels: Vec<SeenAhead>,
}

/// What a forerunner has seen.
pub(crate) struct BatchesAhead(Receiver<BatchAhead>);

impl BatchesAhead {
    /// Lets first levels take what they did in a batch.
    pub fn begin(&self, batch: &Batch<'_>, levels: &mut [FirstCaches]) {
        let seen = self.0.recv().expect("the forerunner sees each batch first");
        assert_eq!(seen.spans, batch.spans.len(), "the same batches, in the same order");
        levels.iter_mut().zip(seen.levels).for_each(|(level, seen)| level.take_ahead(seen));
    }
}

struct Forerunner {
    levels: Vec<FirstCaches>,
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
        let Forerunner { levels, lines, asid, .. } = self;
        lines.learn(batch.blocks.since(lines.blocks()), self.grain);
        let levels = levels.iter_mut().map(|level| level.see_ahead(batch, lines, *asid)).collect();
        // The pass may have ended.
        let _ = self.batches.send(BatchAhead { spans: batch.spans.len(), levels });
    }
}

impl<O: Observer> Pass<O> {
    /// Lets a forerunner see the references for all first levels, before the first reference. None if there are none,
    /// or if some keep in step with the TLBs.
    pub(crate) fn send_forerunner(&mut self) -> Option<Box<dyn Analysis>> {
        let CachesProgress { first, line_grain, ahead, .. } = &mut self.course.caches;
        let grain = (*line_grain)?;
        if first.is_empty() || first.iter().any(|first| first.in_step) {
            return None;
        }
        let levels = first.clone();
        first.iter_mut().for_each(FirstCaches::follow);
        let (batches, seen) = channel();
        *ahead = Some(BatchesAhead(seen));
        Some(Box::new(Forerunner {
            levels,
            lines: CodeLines::default(),
            grain,
            asid: self.store.asid,
            batches,
        }))
    }
}
