//! Times of a kernel's scans of its process's memory.

/// The clock of references and the kernel's time at each scan, in order.
#[derive(Clone, Default)]
pub(crate) struct ScanTimes(Vec<(u64, u64)>);

impl ScanTimes {
    /// Records a scan.
    pub fn note(&mut self, clock: u64, time: u64) {
        self.0.push((clock, time));
    }

    /// The last use of a page as the kernel can know it: the time of the last scan before the use at `clock`, so never
    /// too late. `None`: never used.
    pub fn last_use(&self, clock: u64) -> Option<u64> {
        let looks_before = self.0.partition_point(|&(look, _)| look <= clock);
        (clock > 0).then(|| looks_before.checked_sub(1).map_or(0, |look| self.0[look].1))
    }
}
