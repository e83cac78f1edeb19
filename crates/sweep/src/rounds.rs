//! Passes one stream to many analyses on all threads.
//!
//! In each round every analysis processes the same stretch while the next one is decoded; rounds end together. The
//! assignment to threads does not matter: an analysis processes all stretches in order and shares nothing.

use pagewalk_trace::{Analysis, Stretch};
use rayon::prelude::*;

/// Records per stretch: a few megabytes and some milliseconds of work, so that ending a round costs nothing in
/// comparison.
const STRETCH: usize = 1 << 18;

/// Passes the stream from `read`, stretch by stretch, to every analysis, on the current thread pool. `read` gets the
/// number of records for a stretch, and returns whether there were any.
pub fn run<E: Send>(
    mut read: impl FnMut(&mut Stretch, usize) -> Result<bool, E> + Send,
    analyses: &mut [&mut dyn Analysis],
) -> Result<(), E> {
    let (mut stretch, mut next) = (Stretch::default(), Stretch::default());
    let mut more = read(&mut stretch, STRETCH)?;
    while more {
        let play = || analyses.par_iter_mut().with_max_len(1).for_each(|analysis| stretch.play(*analysis));
        let (is_read, ()) = rayon::join(|| read(&mut next, STRETCH), play);
        more = is_read?;
        std::mem::swap(&mut stretch, &mut next);
    }
    Ok(())
}
