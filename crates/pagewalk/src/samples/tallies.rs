//! Counts of samples.

use pagewalk_capture::samples::{Outcome, Sample};
use pagewalk_report::documents::samples::SampleCounts;
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// Samples that have something in common.
#[derive(Default)]
pub struct Tally {
    /// Their number.
    pub samples: u64,
    /// Those that walked.
    pub walks: u64,
    weight: Option<u64>,
    /// By process and number.
    pages: FxHashSet<(i32, u64)>,
}

impl Tally {
    /// Adds a sample at this address.
    pub fn add(&mut self, sample: &Sample, address: u64) {
        self.samples += 1;
        self.walks += u64::from(sample.outcome == Outcome::Walk);
        if let Some(weight) = sample.weight {
            self.weight = Some(self.weight.unwrap_or(0).saturating_add(weight));
        }
        self.pages.insert((sample.process, address >> 12));
    }

    /// As data, of so many samples in all.
    pub fn counts(&self, all: u64) -> SampleCounts {
        SampleCounts {
            samples: self.samples,
            share: if all > 0 { self.samples as f64 / all as f64 } else { 0.0 },
            walks: self.walks,
            weight: self.weight,
            pages: self.pages.len() as u64,
        }
    }
}

/// Tallies by name.
pub struct Named<K>(FxHashMap<K, Tally>);

impl<K> Default for Named<K> {
    fn default() -> Named<K> {
        Named(FxHashMap::default())
    }
}

impl<K: Hash + Eq> Named<K> {
    /// The tally of a name.
    pub fn of(&mut self, name: K) -> &mut Tally {
        self.0.entry(name).or_default()
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Tally)> {
        self.0.iter()
    }
}
