//! One stream to many analyses on all threads.
//!
//! In each round every analysis takes the same stretch while the next one is decoded; rounds end together. Which thread
//! does what makes no difference: an analysis takes all stretches in order, and shares nothing with the others.

use pagewalk_trace::{Analysis, Stretch};
use rayon::prelude::*;

/// Records of a stretch: a few megabytes, and some milliseconds of work, beside which the end of a round costs nothing.
const STRETCH: usize = 1 << 18;

/// Hands the whole stream that `read` reads on, stretch by stretch, to every analysis, on the threads of the pool that
/// this runs in. `read` is given how many records a stretch is to have, and says whether there were any.
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
