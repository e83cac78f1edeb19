//! Samples next to a recorded stream of the same program.
//!
//! Addresses differ from run to run, so what is compared are shares: of mappings by name, and of pages by their place
//! in a file or in the heap. Anonymous memory has no name of its own, and is one mapping.

use super::{ANONYMOUS, PagePlace, Sampled, UNKNOWN};
use crate::error::Error;
use crate::listener::Listener;
use crate::stream::follow_ahead;
use crate::traces;
use pagewalk_capture::WindowSpec;
use pagewalk_mm::AddressSpace;
use pagewalk_report::documents::samples::{ComparedMapping, StreamComparison};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_units::{RefIndex, VirtAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Compares with a trace.
pub fn compare(sampled: &Sampled, trace: &Path, listener: &dyn Listener) -> Result<StreamComparison, Error> {
    let reader = traces::open(trace, listener)?;
    let mut references = References::default();
    follow_ahead(reader, &WindowSpec::default(), &mut references).tell_losses(trace, listener);
    let (by_mapping, by_page) = references.named();
    let mut of_samples: BTreeMap<String, u64> = BTreeMap::new();
    for (name, tally) in sampled.mappings.iter() {
        *of_samples.entry(plain(name).to_owned()).or_default() += tally.samples;
    }
    let mappings: BTreeMap<String, (u64, u64)> = joined(&of_samples, &by_mapping);
    let pages: BTreeMap<PagePlace, (u64, u64)> = joined(&sampled.pages, &by_page);
    Ok(StreamComparison {
        trace: trace.display().to_string(),
        references: by_mapping.values().sum(),
        mapping_correlation: correlation(mappings.values().copied()),
        page_correlation: correlation(pages.values().copied()),
        pages: pages.len() as u64,
        mappings: shares(mappings),
    })
}

/// The shares of mappings, the largest difference first.
fn shares(mappings: BTreeMap<String, (u64, u64)>) -> Vec<ComparedMapping> {
    let sum = |of: fn(&(u64, u64)) -> u64| mappings.values().map(of).sum::<u64>().max(1) as f64;
    let (samples, references) = (sum(|both| both.0), sum(|both| both.1));
    let of = |(name, both): (String, (u64, u64))| ComparedMapping {
        name,
        sampled_share: both.0 as f64 / samples,
        referenced_share: both.1 as f64 / references,
    };
    let mut all: Vec<ComparedMapping> = mappings.into_iter().map(of).collect();
    let difference = |one: &ComparedMapping| (one.sampled_share - one.referenced_share).abs();
    all.sort_by(|a, b| difference(b).total_cmp(&difference(a)));
    all
}

/// Both counts of whatever either has.
fn joined<'a, K: Ord + Clone + 'a>(
    a: impl IntoIterator<Item = (&'a K, &'a u64)>,
    b: impl IntoIterator<Item = (&'a K, &'a u64)>,
) -> BTreeMap<K, (u64, u64)> {
    let mut both: BTreeMap<K, (u64, u64)> = BTreeMap::new();
    a.into_iter().for_each(|(key, &count)| both.entry(key.clone()).or_default().0 += count);
    b.into_iter().for_each(|(key, &count)| both.entry(key.clone()).or_default().1 += count);
    both
}

/// A mapping's name as both sides know it.
fn plain(name: &str) -> &str {
    let name = name.trim_end_matches(" [bss]").trim_end_matches(" [moved code]");
    match name.starts_with("[anonymous") || name.starts_with("[inferred") {
        true => ANONYMOUS,
        false => name,
    }
}

/// Counts a stream's references by page.
#[derive(Default)]
struct References {
    space: AddressSpace,
    by_mapping: FxHashMap<String, u64>,
    by_page: FxHashMap<PagePlace, u64>,
    /// References of the memory map as it is, by page number.
    open: FxHashMap<u64, u64>,
}

impl References {
    /// Attributes what was counted under the memory map as it is.
    fn close(&mut self) {
        for (page, count) in std::mem::take(&mut self.open) {
            let address = page << 12;
            let vma = self.space.vma(VirtAddr(address));
            let info = vma.map(|vma| (vma, self.space.info(vma.mapping)));
            let name = info.map_or(UNKNOWN, |(_, info)| plain(&info.name)).to_owned();
            let place = info.and_then(|(vma, info)| match info.name.as_str() {
                "[heap]" => Some(address.wrapping_sub(info.start.0)),
                name if name.starts_with('/') && !name.ends_with(']') => {
                    Some(address.wrapping_sub(vma.start).wrapping_add(vma.file_offset))
                }
                _ => None,
            });
            if let Some(place) = place {
                *self.by_page.entry((name.clone(), place >> 12)).or_default() += count;
            }
            *self.by_mapping.entry(name).or_default() += count;
        }
    }

    fn named(mut self) -> (BTreeMap<String, u64>, FxHashMap<PagePlace, u64>) {
        self.close();
        (self.by_mapping.into_iter().collect(), self.by_page)
    }
}

impl Analysis for References {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        let (mut last, mut count) = (u64::MAX, 0);
        for reference in batch.refs {
            let page = reference.address().0 >> 12;
            if page != last {
                if count > 0 {
                    *self.open.entry(last).or_default() += count;
                }
                (last, count) = (page, 0);
            }
            count += 1;
        }
        if count > 0 {
            *self.open.entry(last).or_default() += count;
        }
    }

    fn on_event(&mut self, _: RefIndex, event: &Event) {
        self.close();
        let mut changes = Vec::new();
        self.space.apply(event, &mut changes);
    }
}

/// Spearman's rank correlation: Pearson's of the ranks, where equal values share the mean of theirs.
fn correlation(pairs: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let pairs: Vec<(u64, u64)> = pairs.collect();
    let a = ranks(pairs.iter().map(|pair| pair.0));
    let b = ranks(pairs.iter().map(|pair| pair.1));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    (pairs.len() > 1 && scale > 0.0).then(|| product(&a, &b) / scale)
}

fn ranks(values: impl Iterator<Item = u64>) -> Vec<f64> {
    let values: Vec<u64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&at| values[at]);
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&at| ranks[at] = rank);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_of_ranks() {
        let of = |pairs: &[(u64, u64)]| correlation(pairs.iter().copied());
        assert_eq!(of(&[(1, 10), (2, 1000), (3, 1001)]), Some(1.0));
        assert_eq!(of(&[(1, 9), (2, 5), (3, 0)]), Some(-1.0));
        assert_eq!(of(&[(1, 1)]), None);
        assert_eq!(of(&[(1, 5), (2, 5)]), None, "one side is all alike");
        // Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4.
        let tied = of(&[(1, 1), (2, 2), (2, 3), (9, 4)]).unwrap();
        assert!((tied - 0.948_683).abs() < 1e-5, "{tied}");
        assert_eq!(ranks([5, 5, 5].into_iter()), [2.0, 2.0, 2.0]);
    }

    #[test]
    fn names_are_those_that_both_sides_have() {
        assert_eq!(plain("/bin/a [bss]"), "/bin/a");
        assert_eq!(plain("[anonymous 0x4a00000]"), ANONYMOUS);
        assert_eq!(plain("[heap]"), "[heap]");
    }
}
