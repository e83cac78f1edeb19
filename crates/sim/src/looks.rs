//! When a kernel looked over the memory of its process.

/// By the clock of references: the kernel's time of each look, in order.
#[derive(Clone, Default)]
pub(crate) struct ScanTimes(Vec<(u64, u64)>);

impl ScanTimes {
    /// Notes a look.
    pub fn note(&mut self, clock: u64, time: u64) {
        self.0.push((clock, time));
    }

    /// When a page was used last, as the kernel can know it: at which of its looks the accessed bit was last found
    /// clear. That is the last look before the use `clock`: no later use is told than there was. `None`: never used.
    pub fn last_use(&self, clock: u64) -> Option<u64> {
        let looks_before = self.0.partition_point(|&(look, _)| look <= clock);
        (clock > 0).then(|| looks_before.checked_sub(1).map_or(0, |look| self.0[look].1))
    }
}
