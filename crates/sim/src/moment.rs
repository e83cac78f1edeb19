//! Moments of a batch.

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

    /// Before a run of fetches; `data`: the next data reference, `at`: the run's span, and its number in the block.
    pub fn of_run(data: usize, at: (usize, usize)) -> Moment {
        Moment { data: data as u32, span: at.0 as u32, run: at.1 as u32 }
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
