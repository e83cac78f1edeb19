//! Moments of a batch.

use pagewalk_trace::Batch;

/// A moment of a batch: just before a data reference, or before a run of fetches. Earlier ones are less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// The data reference, or the next one after the run.
    data: u32,
    /// The run's span, and its number in the block. A data reference comes after all runs before it.
    span: u32,
    run: u32,
}

impl Moment {
    /// Before a data reference of the batch.
    pub fn of_data(data: usize) -> Moment {
        Moment { data: data as u32, span: u32::MAX, run: u32::MAX }
    }

    /// Before a run of fetches of a span, which has so many data references of the span before it.
    pub fn of_run(batch: &Batch<'_>, span: usize, run: usize, site: usize) -> Moment {
        let data = batch.span_end(span).min(batch.spans[span].first as usize + site);
        Moment { data: data as u32, span: span as u32, run: run as u32 }
    }

    /// The data reference, or the next one.
    pub fn data(self) -> usize {
        self.data as usize
    }

    /// The span and number of a run of fetches; none if it is a data reference's.
    pub fn run(self) -> Option<(usize, usize)> {
        (self.span != u32::MAX).then_some((self.span as usize, self.run as usize))
    }
}

/// A position in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CodePosition {
    /// The fetch of an instruction, by number.
    Instruction(u32),
    /// A data reference, by number.
    Site(usize),
}
