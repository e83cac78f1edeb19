//! Memory over time: samples of backed and touched bytes.

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
