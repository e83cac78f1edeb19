//! Which page size an array that mixes two is searched for first.
//!
//! A table of the size that addresses of a 2M block had last, without tags, so blocks that share an entry disturb each
//! other. What is not found at the predicted size is searched for at the other: one search more.
//!
//! Source: Papadopoulou et al., "Prediction-based superpage-friendly TLB designs", HPCA 2015, whose predictors take
//! their index from the instruction or from its base register. A recorded stream has neither; the address itself
//! differs from the base register by the displacement.

#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// By entry: whether the page was a large one.
    large: Vec<bool>,
    /// Doublings of a large page.
    shift: u32,
    /// References that were searched for a second time, at level 1 and at level 2.
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

    /// Whether so many searches of a level (0: the first) are made twice, as the page was found at the other size than
    /// the predicted one, or at none.
    pub fn searched_twice(&mut self, level: usize, page: u64, found: Option<u32>, times: u64) -> bool {
        let predicted = self.large[self.entry(page)];
        let twice = found.is_none_or(|shift| (shift > 0) != predicted);
        if twice {
            self.again[level] += times;
        }
        twice
    }

    /// The page is of this size, as doublings.
    pub fn learn(&mut self, page: u64, shift: u32) {
        let entry = self.entry(page);
        self.large[entry] = shift > 0;
    }
}
