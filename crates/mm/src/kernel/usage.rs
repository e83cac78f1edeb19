//! Memory in use: at once, at most, and samples over time.

use super::Kernel;

/// A process's memory at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySample {
    /// Instructions executed before the sample.
    pub instructions: u64,
    /// Backed bytes.
    pub backed_bytes: u64,
    /// Backed bytes in touched base pages.
    pub touched_bytes: u64,
}

/// Base pages in use at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesInUse {
    /// In frames of the process's own.
    pub backed: u64,
    /// Those of them that it has not touched.
    pub untouched: u64,
    /// In frames of the page cache or of the parent.
    pub foreign: u64,
}

impl std::ops::Add for PagesInUse {
    type Output = PagesInUse;

    fn add(self, other: PagesInUse) -> PagesInUse {
        PagesInUse {
            backed: self.backed + other.backed,
            untouched: self.untouched + other.untouched,
            foreign: self.foreign + other.foreign,
        }
    }
}

/// Most samples. Beyond it, every second one is dropped.
const MOST: usize = 256;

/// Samples at multiples of an interval, a power of two that doubles over time.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    interval: u64,
    samples: Vec<MemorySample>,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { interval: 1 << 10, samples: Vec::new() }
    }
}

impl Usage {
    pub fn samples(&self) -> &[MemorySample] {
        &self.samples
    }

    /// Records that memory was in this state until `now`.
    pub fn note(&mut self, now: u64, backed_bytes: u64, touched_bytes: u64) {
        loop {
            let last = self.samples.last().map_or(0, |sample| sample.instructions);
            let instructions = last + self.interval;
            if instructions > now {
                return;
            }
            self.samples.push(MemorySample { instructions, backed_bytes, touched_bytes });
            if self.samples.len() > MOST {
                self.interval *= 2;
                let interval = self.interval;
                self.samples.retain(|sample| sample.instructions.is_multiple_of(interval));
            }
        }
    }
}

/// Memory in use.
impl Kernel {
    /// Records peaks. While others have not heard what they lost, the sum is not right.
    pub(super) fn note_peaks(&mut self) {
        if self.memory.as_ref().is_some_and(|memory| memory.has_losses()) {
            return;
        }
        let PagesInUse { backed, untouched, foreign } = self.in_use() + self.others;
        let base = self.base.shift();
        let note = |peak: &mut u64, pages: u64| *peak = (*peak).max(pages << base);
        note(&mut self.counts.backed_bytes_peak, backed);
        note(&mut self.counts.untouched_bytes_peak, untouched);
        note(&mut self.counts.foreign_bytes_peak, foreign);
    }

    /// What the process uses now.
    pub fn in_use(&self) -> PagesInUse {
        let backed = self.table.backed();
        PagesInUse { backed, untouched: backed - self.table.touched(), foreign: self.table.foreign() }
    }

    /// Sets what other processes use from now on; peaks are of all together.
    pub fn beside(&mut self, others: PagesInUse) {
        self.others = others;
        self.note_peaks();
    }

    /// Records a memory sample up to instruction `now`; call it before the events at that instruction.
    pub fn reached(&mut self, now: u64) {
        self.now = now;
        self.children_end();
        let bytes = |pages: u64| pages << self.base.shift();
        self.usage.note(now, bytes(self.table.backed()), bytes(self.table.touched()));
    }

    /// Memory over time, up to the last [`Kernel::reached`]: at most 256 samples, at multiples of a power of two.
    pub fn samples(&self) -> &[MemorySample] {
        self.usage.samples()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_few_and_evenly_spaced() {
        let mut usage = Usage::default();
        for now in (0..50_000_000).step_by(777) {
            usage.note(now, now, now / 2);
        }
        usage.note(1 << 40, 7, 3);
        let samples = usage.samples();
        assert!((MOST / 2..=MOST).contains(&samples.len()), "{}", samples.len());
        let interval = samples[0].instructions;
        assert!(interval.is_power_of_two());
        for (at, sample) in (1..).zip(samples) {
            assert_eq!((sample.instructions, sample.backed_bytes), (at * interval, 7));
        }
        let mut usage = Usage::default();
        usage.note(1023, 1, 1);
        usage.note(1024, 2, 2);
        usage.note(3000, 3, 3);
        let of: Vec<_> = usage.samples().iter().map(|s| (s.instructions, s.backed_bytes)).collect();
        assert_eq!(of, [(1024, 2), (2048, 3)]);
    }
}
