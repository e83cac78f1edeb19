//! One stream to many analyses on all threads.
//!
//! In each round every analysis takes the same stretch while the next one is decoded; rounds end together. Which thread
//! does what makes no difference: an analysis takes all stretches in order, and shares nothing with the others.

use pagewalk_trace::{Analysis, Source, SourceError, Stretch};
use rayon::prelude::*;

/// Records of a stretch: a few megabytes, and some milliseconds of work, beside which the end of a round costs nothing.
const STRETCH: usize = 1 << 18;

/// Hands the whole stream to every analysis, on the threads of the pool that this runs in.
pub fn run<S: Source + Send>(mut source: S, analyses: &mut [&mut dyn Analysis]) -> Result<(), SourceError> {
    let (mut stretch, mut next) = (Stretch::default(), Stretch::default());
    let mut more = stretch.read(&mut source, STRETCH)?;
    while more {
        let play = || analyses.par_iter_mut().with_max_len(1).for_each(|analysis| stretch.play(*analysis));
        let (read, ()) = rayon::join(|| next.read(&mut source, STRETCH), play);
        more = read?;
        std::mem::swap(&mut stretch, &mut next);
    }
    Ok(())
}
