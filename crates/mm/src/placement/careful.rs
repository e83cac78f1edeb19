//! Careful mapping: the least used color.

use super::{Colors, Placement, start_of};

/// The color with the fewest of the process's pages so far; of several, the first from page coloring's on.
///
/// Kessler and Hill 1992 call it *best bin*; their memory is finite, so that they also weigh how many frames of a color
/// are free.
#[derive(Clone, Default)]
pub struct Careful {
    /// Pages placed by color.
    used: Vec<u64>,
}

impl Placement for Careful {
    fn name(&self) -> &'static str {
        "careful placement"
    }

    fn color(&mut self, page: u64, process: u32, colors: Colors) -> u64 {
        let page = page % colors.count + start_of(process, colors);
        self.used.resize(colors.count as usize, 0);
        let from_its_own = (0..colors.count).map(|step| (page + step) % colors.count);
        let color = from_its_own.min_by_key(|&color| self.used[color as usize]).unwrap_or(0);
        self.used[color as usize] += 1;
        color
    }
}
