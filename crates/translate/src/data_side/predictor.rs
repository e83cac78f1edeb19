//! Prediction of page sizes, for arrays that mix two.
//!
//! A table without tags holds the last page size of each 2M block, so blocks that share an entry disturb each other. If
//! the predicted size misses, a second search tries the other size.
//!
//! Source: Papadopoulou et al., "Prediction-based superpage-friendly TLB designs", HPCA 2015, whose predictors take
//! their index from the instruction or from its base register. A recorded stream has neither; the address itself
//! differs from the base register by the displacement.

#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// By entry: whether the last page was large.
    large: Vec<bool>,
    /// Doublings of a large page.
    shift: u32,
    /// Second searches, at level 1 and at level 2.
    pub again: [u64; 2],
}

impl Predictor {
    /// `entries`: a power of two.
    pub fn new(entries: u32, shift: u32) -> Predictor {
        Predictor { large: vec![false; entries as usize], shift, again: [0; 2] }
    }

    fn entry(&self, page: u64) -> usize {
        (page >> self.shift) as usize & (self.large.len() - 1)
    }

    /// Whether `times` searches of a level (0: the first) search twice, because the page was found at the other size or
    /// not at all.
    pub fn searched_twice(&mut self, level: usize, page: u64, found: Option<u32>, times: u64) -> bool {
        let predicted = self.large[self.entry(page)];
        let twice = found.is_none_or(|shift| (shift > 0) != predicted);
        if twice {
            self.again[level] += times;
        }
        twice
    }

    /// Records a page's size, as doublings.
    pub fn learn(&mut self, page: u64, shift: u32) {
        let entry = self.entry(page);
        self.large[entry] = shift > 0;
    }
}
