//! Counts the TLB entries of each design, from runs of pages in address order.

use super::Sizes;

/// Base pages per huge page.
pub const HUGE_PAGES: u64 = 512;
/// Most pages of a coalesced entry: an aligned group with consecutive frames.
const COALESCED: u64 = 4;
/// Most pages of a clustered entry: an aligned group of pages and of frames.
const CLUSTERED: u64 = 8;
/// Pages of a block that the contiguous hint joins.
const HINTED: u64 = 16;

/// Consecutive pages with consecutive frames, equal rights and one page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The first page's number: its address over 4,096.
    pub first: u64,
    /// The first page's frame, if readable.
    pub frame: Option<u64>,
    /// Pages.
    pub pages: u64,
    /// Their rights.
    pub rights: u8,
    /// Whether huge pages map them.
    pub huge: bool,
}

impl PageRun {
    fn follows(&self, other: &PageRun) -> bool {
        self.first == other.first + other.pages && self.rights == other.rights
    }

    fn follows_in_frames(&self, other: &PageRun) -> bool {
        self.follows(other) && self.frame.zip(other.frame).is_none_or(|(own, at)| own == at + other.pages)
    }

    fn follows_alike(&self, other: &PageRun) -> bool {
        self.follows_in_frames(other) && self.huge == other.huge
    }
}

/// Joins consecutive pieces of a run.
#[derive(Debug)]
struct RunJoiner {
    current: Option<PageRun>,
    follows: fn(&PageRun, &PageRun) -> bool,
    /// Runs started.
    begun: u64,
}

impl RunJoiner {
    fn new(follows: fn(&PageRun, &PageRun) -> bool) -> RunJoiner {
        RunJoiner { current: None, follows, begun: 0 }
    }

    /// Adds a piece; returns the previous run if the piece starts a new one.
    #[inline]
    fn push(&mut self, next: PageRun) -> Option<PageRun> {
        if let Some(current) = &mut self.current
            && (self.follows)(&next, current)
        {
            current.pages += next.pages;
            return None;
        }
        self.begun += 1;
        self.current.replace(next)
    }
}

/// Entries that each map the pages of an aligned group with a common key.
#[derive(Debug, Default)]
struct GroupCounter<K> {
    group: u64,
    /// Keys in the present group, and the pages that have each.
    entries: Vec<(K, u64)>,
    sizes: Sizes,
}

impl<K: PartialEq> GroupCounter<K> {
    #[inline]
    fn add(&mut self, group: u64, common: K, pages: u64) {
        if group != self.group {
            self.close();
            self.group = group;
        }
        match self.entries.iter_mut().find(|(known, _)| *known == common) {
            Some((_, count)) => *count += pages,
            None => self.entries.push((common, pages)),
        }
    }

    fn close(&mut self) {
        self.entries.drain(..).for_each(|(_, pages)| self.sizes.add(pages, 1));
    }

    fn into_sizes(mut self) -> Sizes {
        self.close();
        self.sizes
    }
}

/// Entries of each design. Designs that need frame numbers are `None` without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Designs {
    /// Base pages only.
    pub base_pages: Sizes,
    /// Huge and base pages as mapped.
    pub as_mapped: Sizes,
    /// A huge page for every region and rights with any page: a bound.
    pub huge_everywhere: Sizes,
    /// Runs of pages with equal rights, whatever their frames: a bound on ranges.
    pub virtual_runs: Sizes,
    /// Huge pages as mapped; other pages in runs with consecutive frames within aligned groups of 4.
    pub coalesced: Option<Sizes>,
    /// Huge pages as mapped; other pages by aligned groups of 8 pages whose frames share an aligned group of 8.
    pub clustered: Option<Sizes>,
    /// Huge pages as mapped; other pages in blocks of 16, aligned and consecutive in pages and frames.
    pub hinted: Option<Sizes>,
    /// Runs of pages with equal rights and consecutive frames, of any page size.
    pub ranges: Option<Sizes>,
}

/// Counts [`Designs`] from runs.
#[derive(Debug)]
pub struct Tally {
    /// Pages.
    pub pages: u64,
    /// Pages mapped by huge pages.
    pub huge_pages: u64,
    frames: bool,
    alike: RunJoiner,
    ranges: RunJoiner,
    virtual_runs: RunJoiner,
    everywhere: GroupCounter<u8>,
    clustered: GroupCounter<(u64, u8)>,
    designs: Designs,
}

impl Tally {
    /// An empty tally. `frames`: whether runs have frames.
    pub fn new(frames: bool) -> Tally {
        let some = || frames.then(Sizes::new);
        let (coalesced, clustered, hinted, ranges) = (some(), some(), some(), some());
        Tally {
            pages: 0,
            huge_pages: 0,
            frames,
            alike: RunJoiner::new(PageRun::follows_alike),
            ranges: RunJoiner::new(PageRun::follows_in_frames),
            virtual_runs: RunJoiner::new(PageRun::follows),
            everywhere: GroupCounter::default(),
            clustered: GroupCounter::default(),
            designs: Designs { coalesced, clustered, hinted, ranges, ..Designs::default() },
        }
    }

    /// Runs started so far: of pages, and of pages with consecutive frames (0 without frames).
    pub fn run_counts(&self) -> (u64, u64) {
        (self.virtual_runs.begun, self.ranges.begun)
    }

    /// Adds the next run, which lies after all others.
    #[inline]
    pub fn add(&mut self, run: PageRun) {
        self.pages += run.pages;
        if run.huge {
            self.huge_pages += run.pages;
        }
        if let Some(ended) = self.virtual_runs.push(run) {
            self.designs.virtual_runs.add(ended.pages, 1);
        }
        if self.frames
            && let Some(ended) = self.ranges.push(run)
        {
            self.end_range(ended);
        }
        if let Some(ended) = self.alike.push(run) {
            self.end_alike(ended);
        }
    }

    /// The designs after all runs.
    pub fn finish(mut self) -> Designs {
        let ended = self.virtual_runs.current.take();
        ended.into_iter().for_each(|run| self.designs.virtual_runs.add(run.pages, 1));
        self.ranges.current.take().into_iter().for_each(|run| self.end_range(run));
        self.alike.current.take().into_iter().for_each(|run| self.end_alike(run));
        let Tally { everywhere, clustered, mut designs, .. } = self;
        designs.huge_everywhere = everywhere.into_sizes();
        if let Some(sizes) = &mut designs.clustered {
            clustered.into_sizes().iter().for_each(|(pages, count)| sizes.add(pages, count));
        }
        designs
    }

    fn end_range(&mut self, run: PageRun) {
        self.designs.ranges.iter_mut().for_each(|sizes| sizes.add(run.pages, 1));
    }

    /// Ends a run of one page size, for designs restricted to one page size per entry.
    fn end_alike(&mut self, run: PageRun) {
        self.designs.base_pages.add(1, run.pages);
        for (group, pages) in parts(run.first, run.pages, HUGE_PAGES) {
            self.everywhere.add(group, run.rights, pages);
        }
        let Designs { as_mapped, coalesced, clustered, hinted, .. } = &mut self.designs;
        if run.huge {
            let keep_huge = [Some(as_mapped), coalesced.as_mut(), clustered.as_mut(), hinted.as_mut()];
            let all = keep_huge.into_iter().flatten();
            return all.for_each(|sizes| sizes.add_groups(run.first, run.pages, HUGE_PAGES));
        }
        as_mapped.add(1, run.pages);
        let Some(frame) = run.frame else { return };
        coalesced.iter_mut().for_each(|sizes| sizes.add_groups(run.first, run.pages, COALESCED));
        hinted.iter_mut().for_each(|sizes| hint(sizes, &run, frame));
        for (group, pages) in parts(run.first, run.pages, CLUSTERED) {
            // Frames from here on; a group of pages spans at most two groups of frames.
            let from = frame + (group * CLUSTERED).saturating_sub(run.first);
            for (cluster, pages) in parts(from, pages, CLUSTERED) {
                self.clustered.add(group, (cluster, run.rights), pages);
            }
        }
    }
}

/// Whole blocks aligned in pages and frames are one entry each; the rest are base pages.
fn hint(sizes: &mut Sizes, run: &PageRun, frame: u64) {
    let head = (run.first.wrapping_neg() % HINTED).min(run.pages);
    let aligned = run.first % HINTED == frame % HINTED;
    let blocks = if aligned { (run.pages - head) / HINTED } else { 0 };
    sizes.add(HINTED, blocks);
    sizes.add(1, run.pages - blocks * HINTED);
}

/// The aligned groups that a run of numbers meets, with the size of each overlap.
fn parts(first: u64, count: u64, group: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = first + count;
    let groups = if count == 0 { 0..0 } else { first / group..(end - 1) / group + 1 };
    groups.map(move |number| {
        let (from, to) = (number * group, (number + 1) * group);
        (number, to.min(end) - from.max(first))
    })
}

#[cfg(test)]
mod tests;
