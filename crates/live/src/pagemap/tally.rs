//! What designs of TLBs make of a memory, from its runs of pages in order of address. Knows no process.

use super::Sizes;

/// Base pages of a huge page.
pub const HUGE_PAGES: u64 = 512;
/// Pages whose consecutive frames one coalesced entry maps, at most: an aligned group.
const COALESCED: u64 = 4;
/// Pages of an aligned group, and frames of one, that one clustered entry maps, at most.
const CLUSTERED: u64 = 8;
/// Pages of a block that the contiguous hint makes one entry of.
const HINTED: u64 = 16;

/// Pages that follow each other, and whose frames do, all with the same rights and of one page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Its first page: its address over 4,096.
    pub first: u64,
    /// The first page's frame, where frame numbers can be read.
    pub frame: Option<u64>,
    /// Pages.
    pub pages: u64,
    /// What may be done with them.
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

/// Joins runs that came in pieces.
#[derive(Debug)]
struct RunJoiner {
    current: Option<PageRun>,
    follows: fn(&PageRun, &PageRun) -> bool,
    /// Runs that began.
    begun: u64,
}

impl RunJoiner {
    fn new(follows: fn(&PageRun, &PageRun) -> bool) -> RunJoiner {
        RunJoiner { current: None, follows, begun: 0 }
    }

    /// Takes the next piece; gives the run before it, if that has ended.
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

/// Entries that each map pages of one aligned group that have something in common.
#[derive(Debug, Default)]
struct GroupCounter<K> {
    group: u64,
    /// What pages of the present group have, and how many have it.
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

/// Entries of each design. Those that need frame numbers are `None` where there were none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Designs {
    /// Base pages alone.
    pub base_pages: Sizes,
    /// Pages as they are mapped, huge and base.
    pub as_mapped: Sizes,
    /// Huge pages wherever there is any page, of one right each: a bound.
    pub huge_everywhere: Sizes,
    /// Runs of pages with the same rights, whatever their frames: ranges if frames lay as pages do, a bound.
    pub virtual_runs: Sizes,
    /// Huge pages as mapped; other pages in runs within aligned groups of 4 whose frames are consecutive.
    pub coalesced: Option<Sizes>,
    /// Huge pages as mapped; other pages of an aligned group of 8 with frames in one aligned group of 8.
    pub clustered: Option<Sizes>,
    /// Huge pages as mapped; other pages in blocks of 16 that are aligned and consecutive in pages and in frames.
    pub hinted: Option<Sizes>,
    /// Runs of pages with the same rights and consecutive frames, of whatever page sizes.
    pub ranges: Option<Sizes>,
}

/// Makes [`Designs`] of runs.
#[derive(Debug)]
pub struct Tally {
    /// Pages.
    pub pages: u64,
    /// Those that huge pages map.
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
    /// Nothing yet. `frames`: whether runs will have frames.
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

    /// Runs that began until now: of pages, and of pages with consecutive frames (0 without frames).
    pub fn begun(&self) -> (u64, u64) {
        (self.virtual_runs.begun, self.ranges.begun)
    }

    /// Takes the next run, which lies behind all before it.
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

    /// The designs, when all runs are in.
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

    /// A run of one page size has ended: the designs that keep to page sizes.
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
            // Frames from here on; a group of pages lies in two groups of frames at most.
            let from = frame + (group * CLUSTERED).saturating_sub(run.first);
            for (cluster, pages) in parts(from, pages, CLUSTERED) {
                self.clustered.add(group, (cluster, run.rights), pages);
            }
        }
    }
}

/// Whole blocks that are aligned both ways are one entry each; all else is base pages.
fn hint(sizes: &mut Sizes, run: &PageRun, frame: u64) {
    let head = (run.first.wrapping_neg() % HINTED).min(run.pages);
    let aligned = run.first % HINTED == frame % HINTED;
    let blocks = if aligned { (run.pages - head) / HINTED } else { 0 };
    sizes.add(HINTED, blocks);
    sizes.add(1, run.pages - blocks * HINTED);
}

/// The aligned groups that a run of numbers meets, each with how many of the run it holds.
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
