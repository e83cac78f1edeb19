//! Extents: consecutive pages in consecutive frames.

use std::collections::BTreeMap;
use std::ops::Range;

/// The number of pages and the first frame of each extent, by its first page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extents(BTreeMap<u64, (u64, u64)>);

impl Extents {
    /// The frame of a page.
    pub fn frame(&self, page: u64) -> Option<u64> {
        let (pages, frame) = self.extent(page)?;
        Some(frame + (page - pages.start))
    }

    /// The extent around a page: its pages and its first frame.
    pub fn extent(&self, page: u64) -> Option<(Range<u64>, u64)> {
        let (&first, &(pages, frame)) = self.0.range(..=page).next_back()?;
        (page - first < pages).then_some((first..first + pages, frame))
    }

    /// All extents, by ascending page.
    pub fn all(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.0.iter().map(|(&first, &(pages, frame))| (first..first + pages, frame))
    }

    /// The extents that overlap a range.
    pub fn of(&self, pages: Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let from = self.extent(pages.start).map_or(pages.start, |(extent, _)| extent.start);
        self.0.range(from..pages.end).map(|(&first, &(pages, frame))| (first..first + pages, frame))
    }

    /// The number of extents.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives frames to pages that have none.
    pub fn add(&mut self, first: u64, pages: u64, frame: u64) {
        let (mut first, mut pages, mut frame) = (first, pages, frame);
        if let Some((&before, &(its, at))) = self.0.range(..first).next_back()
            && before + its == first
            && at + its == frame
        {
            self.0.remove(&before);
            (first, pages, frame) = (before, its + pages, at);
        }
        if let Some(&(its, at)) = self.0.get(&(first + pages))
            && frame + pages == at
        {
            self.0.remove(&(first + pages));
            pages += its;
        }
        self.0.insert(first, (pages, frame));
    }

    /// Removes pages; returns their runs of frames.
    pub fn remove(&mut self, pages: &Range<u64>) -> Vec<Range<u64>> {
        if pages.is_empty() {
            // It would part the extent around it.
            return Vec::new();
        }
        let touched: Vec<(Range<u64>, u64)> = self.of(pages.clone()).collect();
        let mut frames = Vec::new();
        for (extent, frame) in touched {
            self.0.remove(&extent.start);
            let (start, end) = (extent.start.max(pages.start), extent.end.min(pages.end));
            frames.push(frame + (start - extent.start)..frame + (end - extent.start));
            if extent.start < start {
                self.0.insert(extent.start, (start - extent.start, frame));
            }
            if end < extent.end {
                self.0.insert(end, (extent.end - end, frame + (end - extent.start)));
            }
        }
        frames
    }
}
