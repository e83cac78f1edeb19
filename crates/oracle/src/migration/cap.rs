//! A cap on copying, as a list of all moves so far.

use super::{MigrationModel, Translation, Wishes};

/// A policy under a cap.
pub struct Capped {
    inner: Box<dyn MigrationModel>,
    /// Moves in each stretch, moves of each page in each stretch, and its cycles.
    limits: (usize, usize, u64),
    latest: u64,
    /// Allowed moves: the time, and the page.
    moves: Vec<(u64, u64)>,
}

impl Capped {
    /// `inner` under a cap: moves in each stretch, moves of each page in each stretch, and its cycles.
    pub fn new(inner: Box<dyn MigrationModel>, limits: (usize, usize, u64)) -> Capped {
        Capped { inner, limits, latest: 0, moves: Vec::new() }
    }

    fn cap(&mut self, mut wishes: Wishes) -> Wishes {
        let (all, of_page, stretch) = self.limits;
        let now = self.latest;
        wishes.moves.retain(|&(page, _)| {
            let so_far = || self.moves.iter().filter(|(time, _)| time / stretch == now / stretch);
            let allows = so_far().count() < all && so_far().filter(|of| of.1 == page).count() < of_page;
            if allows {
                self.moves.push((now, page));
            }
            allows
        });
        wishes
    }
}

impl MigrationModel for Capped {
    fn missed(&mut self, missing: Translation, tlbs: &[Translation], cycles: u64) -> Wishes {
        self.latest = self.latest.max(cycles);
        let wishes = self.inner.missed(missing, tlbs, cycles);
        self.cap(wishes)
    }

    fn left_frame(&mut self, page: u64) {
        self.inner.left_frame(page);
    }

    fn cache_hit(&mut self, frame: u64) {
        self.inner.cache_hit(frame);
    }

    fn cache_missed(&mut self, frame: u64, page: Option<u64>, cycles: u64) -> Wishes {
        self.latest = self.latest.max(cycles);
        let wishes = self.inner.cache_missed(frame, page, cycles);
        self.cap(wishes)
    }
}
