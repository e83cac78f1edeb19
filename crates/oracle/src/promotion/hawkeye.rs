//! HawkEye: sampling, buckets and recovery of memory.

use super::{PromotionModel, Rules};

/// The settings and the state.
#[derive(Clone, Debug)]
pub struct HawkEye {
    /// Whether faults map superpages.
    pub at_fault: bool,
    /// Time between samples.
    pub period: u64,
    /// Duration of a sample.
    pub window: u64,
    /// Width of a bucket in pages of coverage.
    pub bucket_pages: u64,
    /// Number of buckets.
    pub buckets: u64,
    /// Weight of a new sample in percent.
    pub weight: u64,
    /// Time between runs of the promotion thread.
    pub run_period: u64,
    /// Maximum number of superpages built per run.
    pub promotions: usize,
    /// Memory limit in pages, if any.
    pub memory: Option<u64>,
    /// Number of untouched pages from which a superpage is split.
    pub wasted: u64,
    /// Start of the current sample, if one is being taken.
    pub since: Option<u64>,
    /// Blocks with their coverage, in the order in which they are promoted within each bucket.
    pub blocks: Vec<(u64, u64)>,
    /// Whether memory is being recovered.
    pub recovers: bool,
}

impl HawkEye {
    fn bucket(&self, coverage: u64) -> u64 {
        (coverage / self.bucket_pages).min(self.buckets - 1)
    }

    fn note(&mut self, number: u64, used: u64) {
        let Some(at) = self.blocks.iter().position(|&(block, _)| block == number) else {
            self.blocks.insert(0, (number, used * self.weight / 100));
            return;
        };
        let before = self.blocks[at].1;
        let coverage = (before * (100 - self.weight) + used * self.weight) / 100;
        let (from, to) = (self.bucket(before), self.bucket(coverage));
        if from == to {
            self.blocks[at].1 = coverage;
            return;
        }
        self.blocks.remove(at);
        let place = if from < to { 0 } else { self.blocks.len() };
        self.blocks.insert(place, (number, coverage));
    }
}

impl PromotionModel {
    pub(super) fn run_hawkeye(&mut self, mut hawkeye: HawkEye) {
        match hawkeye.since {
            Some(since) if self.now == since + hawkeye.window => {
                hawkeye.since = None;
                for number in self.candidates() {
                    let pages = self.block(number);
                    let used =
                        pages.filter(|page| self.used.get(page).is_some_and(|&at| at >= since)).count();
                    hawkeye.note(number, used as u64);
                }
            }
            None if self.now.is_multiple_of(hawkeye.period) => hawkeye.since = Some(self.now),
            _ => {}
        }
        if self.now.is_multiple_of(hawkeye.run_period) && !self.recover(&mut hawkeye) {
            self.promote_by_coverage(&mut hawkeye);
        }
        self.rules = Rules::HawkEye(hawkeye);
    }

    fn candidates(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.mapped.keys().map(|&page| self.number(page)).collect();
        numbers.dedup();
        numbers.retain(|&number| self.is_candidate(number));
        numbers
    }

    fn promote_by_coverage(&mut self, hawkeye: &mut HawkEye) {
        hawkeye.blocks.retain(|&(number, _)| self.is_candidate(number));
        for _ in 0..hawkeye.promotions {
            let used = hawkeye.blocks.iter().filter(|&&(_, coverage)| coverage > 0);
            let highest = used.map(|&(_, coverage)| hawkeye.bucket(coverage)).max();
            let is_next =
                |&(_, coverage): &(u64, u64)| coverage > 0 && Some(hawkeye.bucket(coverage)) == highest;
            let Some(at) = hawkeye.blocks.iter().position(is_next) else { return };
            let (number, _) = hawkeye.blocks.remove(at);
            self.promote(number);
        }
    }

    fn recover(&mut self, hawkeye: &mut HawkEye) -> bool {
        let Some(memory) = hawkeye.memory else { return false };
        let above = |pages: usize, percent: u64| pages as u64 * 100 > memory * percent;
        hawkeye.recovers = above(self.mapped.len(), if hawkeye.recovers { 70 } else { 85 });
        if !hawkeye.recovers {
            return false;
        }
        let mut huge: Vec<u64> = self
            .mapped
            .iter()
            .filter(|&(page, order)| *order == self.huge && !self.hugetlb.contains(page))
            .map(|(page, _)| self.number(*page))
            .collect();
        huge.dedup();
        for number in huge {
            let untouched: Vec<u64> =
                self.block(number).filter(|page| !self.touched.contains(page)).collect();
            if above(self.mapped.len(), 70) && untouched.len() as u64 >= hawkeye.wasted {
                self.take_apart(self.block(number).start);
                untouched.iter().for_each(|page| _ = self.mapped.remove(page));
            }
        }
        true
    }
}
