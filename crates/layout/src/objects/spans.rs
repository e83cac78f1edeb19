//! Address ranges with their owners. Neighbours of one owner may be several spans.

use super::OwnerId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
struct Span {
    end: u64,
    owner: OwnerId,
    /// The wrapping addend that turns an address into its file offset.
    to_file: Option<u64>,
}

/// Ranges by first byte; they do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    spans: BTreeMap<u64, Span>,
    /// Bytes of each owner.
    bytes: FxHashMap<OwnerId, u64>,
}

impl Spans {
    /// The span that holds `address`.
    pub fn at(&self, address: u64) -> Option<(Range<u64>, OwnerId)> {
        let (&start, span) = self.spans.range(..=address).next_back()?;
        (address < span.end).then_some((start..span.end, span.owner))
    }

    /// The file offset of the byte at `address`.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        let (_, span) = self.spans.range(..=address).next_back()?;
        let to_file = span.to_file.filter(|_| address < span.end)?;
        Some(address.wrapping_add(to_file))
    }

    /// The spans that overlap `range`, cut to it, by ascending address.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, OwnerId)> {
        let first = self.at(range.start).map_or(range.start, |(span, _)| span.start);
        self.spans
            .range(first..range.end.max(first))
            .map(move |(&start, span)| (start.max(range.start)..span.end.min(range.end), span.owner))
    }

    /// Whether anything belongs to `owner`.
    pub fn has(&self, owner: OwnerId) -> bool {
        self.bytes.get(&owner).is_some_and(|&bytes| bytes > 0)
    }

    /// Assigns `range` to an owner, with its file offset, or to nobody; reports previous owners.
    pub fn set(
        &mut self,
        range: Range<u64>,
        owner: Option<(OwnerId, Option<u64>)>,
        mut lost: impl FnMut(OwnerId),
    ) {
        self.split_at(range.start);
        self.split_at(range.end);
        let keys: Vec<u64> = self.spans.range(range.clone()).map(|(&start, _)| start).collect();
        for start in keys {
            if let Some(span) = self.spans.remove(&start) {
                *self.bytes.entry(span.owner).or_default() -= span.end - start;
                lost(span.owner);
            }
        }
        if let Some((owner, file_offset)) = owner {
            *self.bytes.entry(owner).or_default() += range.end - range.start;
            let to_file = file_offset.map(|offset| offset.wrapping_sub(range.start));
            self.spans.insert(range.start, Span { end: range.end, owner, to_file });
        }
    }

    fn split_at(&mut self, address: u64) {
        let Some((&start, &span)) = self.spans.range(..address).next_back() else { return };
        if address < span.end {
            self.spans.insert(start, Span { end: address, ..span });
            self.spans.insert(address, span);
        }
    }
}
