//! Stack distances from a sample of pages: SHARDS.
//!
//! A page belongs to the sample if its hash is below a threshold, so either all references to a page count or none. The
//! sample is then a stream over a fraction R of all pages: a distance d in it stands for about d / R in the whole
//! stream, and a reference for 1 / R references. If the sample is limited to a number of pages, the threshold is
//! lowered to the largest hash in the sample whenever there is one page too many, and that page leaves; references
//! count with the R at their time.
//!
//! Source: Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC construction with SHARDS", FAST 2015: fixed rate
//! and fixed size, both with the correction that the paper calls SHARDS-adj: surplus or missing references of the
//! sample are treated as hits of distance 0, so that misses are the sample's misses over R. The standard error is not
//! from the paper: pages are divided into eight parts by other bits of their hash, each part is sampled
//! separately, and the spread of the eight estimates gives the error of their mean.

use crate::feed::{Feed, ReferenceKinds, TouchSink};
use crate::invalidations::gone;
use crate::timeline::Timeline;
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{RefIndex, SpaceId, Vpn, mixed};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Number of parts that are sampled separately.
const PARTS: usize = 8;
const NO_PAGE: u64 = u64::MAX;

/// How to choose the sampled pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// This fraction of all pages, above 0 and up to 1.
    Rate(f64),
    /// At most this number of pages, at least 8.
    Pages(usize),
}

/// An estimate from a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimated value.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// An estimate of [`crate::StackDistances`] from a sample of pages, with its standard errors.
///
/// The sample says nothing about arrays with fewer entries than [`SampledDistances::resolution`]. Memory: about 100
/// bytes for each page of the sample.
///
/// ```
/// use pagewalk_reuse::{SampledDistances, Sampling, ReferenceKinds};
/// use pagewalk_units::Vpn;
///
/// let mut sampled = SampledDistances::new(ReferenceKinds::Data, Sampling::Rate(0.5));
/// for _ in 0..2 {
///     (0..10_000).for_each(|vpn| sampled.reference(Vpn(vpn)));
/// }
/// let misses = sampled.misses_with(20_000);
/// assert!((misses.value - 10_000.0).abs() < 4.0 * misses.standard_error);
/// ```
pub struct SampledDistances {
    feed: Feed,
    samples: Samples,
}

struct Samples {
    /// The page touched last.
    last: u64,
    /// Pages with this hash or a larger one are in no sample.
    threshold: u64,
    whole: Sample,
    parts: [Sample; PARTS],
}

impl SampledDistances {
    /// An empty sample for these kinds of references.
    pub fn new(serves: ReferenceKinds, sampling: Sampling) -> SampledDistances {
        let (rate, pages) = match sampling {
            Sampling::Rate(rate) => (rate, usize::MAX),
            Sampling::Pages(pages) => (1.0, pages.max(PARTS)),
        };
        let whole = Sample::new(1.0, rate, pages);
        let parts = std::array::from_fn(|_| Sample::new(1.0 / PARTS as f64, rate, pages.div_ceil(PARTS)));
        let samples = Samples { last: NO_PAGE, threshold: whole.threshold, whole, parts };
        SampledDistances { feed: Feed::new(serves), samples }
    }

    /// References a page, regardless of the kinds of references given to `new`.
    #[inline]
    pub fn reference(&mut self, vpn: Vpn) {
        self.feed.references += 1;
        self.samples.touch(vpn.0);
    }

    /// Invalidates the translations of these pages.
    pub fn invalidate(&mut self, vpns: Range<Vpn>) {
        self.samples.last = NO_PAGE;
        let Samples { whole, parts, .. } = &mut self.samples;
        std::iter::once(whole).chain(parts).for_each(|sample| sample.invalidate(vpns.start.0..vpns.end.0));
    }

    /// References so far, sampled or not: one for each page that a reference touches.
    pub fn references(&self) -> u64 {
        self.feed.references
    }

    /// The fraction of all pages that is currently sampled.
    pub fn rate(&self) -> f64 {
        self.samples.whole.rate()
    }

    /// The smallest number of entries for which the sample gives an estimate: the number that one page in each part's
    /// sample represents.
    pub fn resolution(&self) -> u64 {
        let rates = self.samples.parts.iter().map(Sample::rate);
        if self.rate() == 1.0 { 1 } else { (1.0 / rates.fold(1.0, f64::min)).ceil() as u64 }
    }

    /// Misses of a fully associative LRU array of `entries` pages. Above 256 entries the resolution is a 256th of the
    /// power of two. Each call sums over at most some ten thousand steps.
    pub fn misses_with(&self, entries: u64) -> Estimate {
        let Samples { whole, parts, .. } = &self.samples;
        let of_parts = parts.each_ref().map(|part| part.misses_with(entries));
        let mean = of_parts.iter().sum::<f64>() / PARTS as f64;
        let variance =
            of_parts.iter().map(|of_part| (of_part - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64;
        // The finite-population correction: a sample of nearly all pages has a smaller error.
        let finite = 1.0 - self.rate();
        Estimate {
            value: whole.misses_with(entries),
            standard_error: (variance / PARTS as f64 * finite).sqrt(),
        }
    }
}

impl Samples {
    #[inline(never)]
    fn change(&mut self, vpn: u64) {
        self.last = vpn;
        let hash = hash(vpn);
        if hash >= self.threshold {
            return;
        }
        self.whole.refer(vpn, hash);
        self.parts[hash as usize % PARTS].refer(vpn, hash);
        let thresholds = self.parts.iter().map(|part| part.threshold);
        self.threshold = thresholds.fold(self.whole.threshold, u64::max);
    }
}

impl TouchSink for Samples {
    #[inline(always)]
    fn touch(&mut self, vpn: u64) {
        if vpn != self.last {
            self.change(vpn);
        }
    }
}

impl Analysis for SampledDistances {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.feed.run(batch, &mut self.samples);
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        for vpns in gone(event).into_iter().filter(|vpns| !vpns.is_empty()) {
            let own = self.feed.own(vpns.start.0..vpns.end.0);
            self.invalidate(Vpn(own.start)..Vpn(own.end));
        }
    }

    fn on_turn(&mut self, process: SpaceId) {
        self.feed.switch_to(process);
    }
}

/// The pages of one sample in order of last use, and the distances found.
struct Sample {
    /// The fraction of all pages in this sample at the highest threshold.
    share: f64,
    threshold: u64,
    most: usize,
    /// The sampled pages with their numbers in the timeline.
    numbers: FxHashMap<u64, u32>,
    /// The same pages in ascending order, to find those of a range.
    pages: BTreeSet<u64>,
    /// Numbers of pages that left the sample, for reuse.
    free: Vec<u32>,
    /// The same pages by hash, if the number of pages is limited.
    by_hash: BTreeSet<(u64, u64)>,
    order: Timeline,
    /// Number of references that the sampled ones stand for, by distance; see [`step`].
    distances: Vec<f64>,
    /// Number of references, likewise scaled, whose page was absent.
    absent: f64,
}

impl Sample {
    fn new(share: f64, rate: f64, most: usize) -> Sample {
        Sample {
            share,
            // Saturates to the largest number, which is no hash: see `hash`.
            threshold: (rate * 2.0_f64.powi(64)) as u64,
            most,
            numbers: FxHashMap::default(),
            pages: BTreeSet::new(),
            free: Vec::new(),
            by_hash: BTreeSet::new(),
            order: Timeline::new(),
            distances: Vec::new(),
            absent: 0.0,
        }
    }

    fn rate(&self) -> f64 {
        match self.threshold {
            u64::MAX => self.share,
            threshold => self.share * (threshold as f64 / 2.0_f64.powi(64)),
        }
    }

    fn refer(&mut self, vpn: u64, hash: u64) {
        if hash >= self.threshold {
            return;
        }
        let stands_for = 1.0 / self.rate();
        let next = self.free.last().copied().unwrap_or(self.numbers.len() as u32 + 1);
        let number = *self.numbers.entry(vpn).or_insert(next);
        if let Some(depth) = self.order.refer(number, number) {
            let step = step((depth as f64 * stands_for) as u64);
            if self.distances.len() <= step {
                self.distances.resize(step + 1, 0.0);
            }
            self.distances[step] += stands_for;
            return;
        }
        self.absent += stands_for;
        self.pages.insert(vpn);
        if self.free.last() == Some(&number) {
            self.free.pop();
        }
        if self.most < usize::MAX {
            self.by_hash.insert((hash, vpn));
            self.keep_to_most();
        }
    }

    /// Lowers the threshold until the number of pages is within the limit.
    fn keep_to_most(&mut self) {
        while self.numbers.len() > self.most {
            let Some(&(hash, vpn)) = self.by_hash.last() else { return };
            self.threshold = self.threshold.min(hash);
            self.leave(vpn, Timeline::forget);
        }
    }

    /// Removes a page from the sample, if it is there.
    fn leave(&mut self, vpn: u64, take: impl FnOnce(&mut Timeline, u32)) {
        if let Some(number) = self.numbers.remove(&vpn) {
            take(&mut self.order, number);
            self.free.push(number);
            self.pages.remove(&vpn);
            self.by_hash.remove(&(hash(vpn), vpn));
        }
    }

    fn invalidate(&mut self, vpns: Range<u64>) {
        if vpns.is_empty() {
            return;
        }
        let gone: Vec<u64> = self.pages.range(vpns).copied().collect();
        gone.into_iter().for_each(|vpn| self.leave(vpn, Timeline::remove));
    }

    fn misses_with(&self, entries: u64) -> f64 {
        self.absent + self.distances.iter().skip(step(entries)).sum::<f64>()
    }
}

/// log2 of the number of steps between one power of two and the next.
const STEP_BITS: u32 = 8;

/// The step of a distance: each distance up to 2^[`STEP_BITS`] has its own step; above, there are 2^[`STEP_BITS`] steps
/// between one power of two and the next.
fn step(distance: u64) -> usize {
    let bits = (u64::BITS - distance.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (((u64::from(bits)) << STEP_BITS) + (distance >> bits)) as usize
}

/// SplitMix64's hash, below `u64::MAX`.
fn hash(vpn: u64) -> u64 {
    mixed(vpn).min(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_order_and_without_gaps() {
        let mut last = 0;
        for distance in 1..200_000 {
            let step = step(distance);
            assert!(step == last || step == last + 1, "{distance}");
            last = step;
        }
        // The sizes that curves ask for are the beginnings of steps.
        for bits in 0..40 {
            for eighth in 8..16_u64 {
                let entries = (eighth << bits) >> 3;
                assert!(entries == 0 || step(entries - 1) < step(entries), "{entries}");
            }
        }
    }

    #[test]
    fn numbers_of_pages_that_left_are_given_again() {
        let mut sample = Sample::new(1.0, 1.0, 10);
        (0..10_000).for_each(|vpn| sample.refer(vpn, hash(vpn)));
        assert_eq!(sample.numbers.len(), 10);
        assert!(sample.numbers.values().all(|&number| number <= 11));
        assert!((0.0005..0.002).contains(&sample.rate()), "{}", sample.rate());
    }
}
