//! The state of memory: frames, huge pages, runs and ranges.

use super::{Anchors, BLOCK, Backing, Collapse, DataSide, PageTlb, Rule};
use std::collections::BTreeSet;
use std::ops::Range;

impl Backing {
    fn back_block(&mut self, block: u64) -> bool {
        let pages = block * BLOCK..(block + 1) * BLOCK;
        let there: Vec<Option<u64>> = pages.clone().map(|page| self.frames.get(&page).copied()).collect();
        if there.iter().all(Option::is_none) {
            let Some(first) = self.memory.allocate(9) else { return false };
            self.memory.split((first, 9), 0);
            self.frames.extend(pages.zip(first..));
            return true;
        }
        let Some(first) = there[0].filter(|frame| frame % BLOCK == 0) else { return false };
        there.iter().zip(first..).all(|(&frame, expected)| frame == Some(expected))
    }
}

impl DataSide {
    /// The number of contiguous pages from the page's anchor.
    pub(super) fn reach(&self, tlb: &PageTlb, page: u64) -> u64 {
        let Some(Anchors { distance, .. }) = tlb.anchors else { return 0 };
        let first = page / distance * distance;
        let lies = |other: u64| self.lies_with(first, other);
        (first..first + distance).take_while(|&other| lies(other)).count() as u64
    }

    /// The pages that share an entry with this page, itself included, in an array with entries for groups.
    pub(super) fn sharing(&self, tlb: &PageTlb, page: u64) -> BTreeSet<u64> {
        let Some((rule, pages)) = tlb.group else { return BTreeSet::new() };
        let shares = |other: &u64| match rule {
            Rule::Clustered => match (self.frame(page), self.frame(*other)) {
                (Some(frame), Some(its)) => self.same_rights(page, *other) && frame / pages == its / pages,
                _ => false,
            },
            Rule::Contiguous => {
                (page.min(*other)..=page.max(*other)).all(|between| self.lies_with(page, between))
            }
        };
        let first = page / pages * pages;
        (first..first + pages).filter(|other| *other == page || shares(other)).collect()
    }

    /// Whether the frames of two pages have the same distance as the pages, with the same rights.
    pub(super) fn lies_with(&self, page: u64, other: u64) -> bool {
        match (self.frame(page), self.frame(other)) {
            (Some(frame), Some(its)) => self.same_rights(page, other) && its + page == frame + other,
            _ => false,
        }
    }

    /// The rights of a page, if it is mapped.
    pub(super) fn rights(&self, page: u64) -> Option<u8> {
        Some(self.areas.iter().find(|area| area.pages.contains(&page))?.rights)
    }

    /// Whether two pages are mapped with the same rights.
    fn same_rights(&self, page: u64, other: u64) -> bool {
        self.rights(page).is_some() && self.rights(page) == self.rights(other)
    }

    /// The lengths of all runs.
    pub(super) fn runs(&self) -> Vec<u64> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in self.areas.iter().flat_map(|area| area.pages.clone()) {
            if self.frame(page).is_none() {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == page && self.lies_with(page - 1, page) => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs.iter().map(|run| run.end - run.start).collect()
    }

    /// Scans for blocks to collapse into huge pages, if a scan is due.
    pub(super) fn scan(&mut self) {
        let Some(mut collapse) = self.collapse.take() else { return };
        if self.instructions - collapse.from >= collapse.interval {
            let small: Vec<(u64, u32)> =
                self.blocks.iter().filter(|(_, huge)| !**huge).map(|(&key, _)| key).collect();
            let begin = small.partition_point(|&key| collapse.last.is_some_and(|last| key <= last));
            let in_turn = small[begin..].iter().chain(&small[..begin]).take(collapse.least.0);
            for &(block, mapping) in in_turn {
                collapse.last = Some((block, mapping));
                collapse.done += u64::from(self.collapse_block((block, mapping), &collapse));
            }
            collapse.from = self.instructions;
        }
        self.collapse = Some(collapse);
    }

    pub(super) fn collapse_block(&mut self, (block, mapping): (u64, u32), collapse: &Collapse) -> bool {
        let pages = block * BLOCK..(block + 1) * BLOCK;
        let walked = pages.clone().filter(|page| collapse.walked.contains(page)).count();
        let whole = self.areas.iter().any(|area| {
            area.anonymous
                && area.mapping == mapping
                && area.pages.start <= pages.start
                && pages.end <= area.pages.end
        });
        if !(self.huge && whole && walked >= collapse.least.1 && self.blocks.contains_key(&(block, mapping)))
        {
            return false;
        }
        if let Some(backing) = &mut self.backing
            && !backing.back_block(block)
        {
            let Some(first) = backing.memory.allocate(9) else { return false };
            for page in pages.clone() {
                if let Some(frame) = backing.frames.remove(&page) {
                    backing.memory.free((frame, 0));
                }
            }
            backing.memory.split((first, 9), 0);
            backing.frames.extend(pages.clone().zip(first..));
        }
        self.drop_translations(&pages);
        self.blocks.retain(|&(of, _), _| of != block);
        self.blocks.insert((block, mapping), true);
        true
    }

    pub(super) fn frame(&self, page: u64) -> Option<u64> {
        self.rights(page).filter(|&rights| rights != 0)?;
        match &self.backing {
            Some(backing) => backing.frames.get(&page).copied(),
            None => Some(page),
        }
    }

    pub(super) fn is_huge(&mut self, page: u64) -> bool {
        if self.rights(page) == Some(0) {
            return false;
        }
        let block = page / BLOCK;
        let area = self.areas.iter().find(|area| area.pages.contains(&page));
        let mapping = area.map_or(0, |area| area.mapping);
        let populated = self.blocks.iter().any(|(&(of, _), &huge)| of == block && !huge);
        let whole = area
            .is_some_and(|area| area.pages.start <= block * BLOCK && (block + 1) * BLOCK <= area.pages.end);
        let hugetlb = self.hugetlb && area.is_some_and(|area| area.hugetlb);
        let thp = self.huge && area.is_some_and(|area| area.anonymous);
        if let Some(&huge) = self.blocks.get(&(block, mapping)) {
            return huge;
        }
        let huge = whole
            && !populated
            && (hugetlb || thp)
            && self.backing.as_mut().is_none_or(|backing| backing.back_block(block));
        self.blocks.insert((block, mapping), huge);
        huge
    }

    /// Makes pages accessible.
    pub fn open(&mut self, pages: Range<u64>) {
        let Some(backing) = &self.backing else { return };
        let mut bare: Vec<u64> = pages.filter(|page| !backing.frames.contains_key(page)).collect();
        while let Some(&first) = bare.first() {
            let count = bare.iter().zip(first..).take_while(|&(&page, next)| page == next).count();
            bare.drain(..count);
            self.back_eagerly(first, count as u64);
        }
    }

    fn back_eagerly(&mut self, first: u64, count: u64) {
        let Some(backing) = &mut self.backing else { return };
        if backing.eager && count >= self.threshold && backing.memory.unusable_index(9) <= 0.5 {
            let mut page = first;
            for (first, order) in backing.memory.allocate_eager(count).unwrap_or_default() {
                backing.memory.split((first, order), 0);
                for frame in first..first + (1 << order) {
                    backing.frames.insert(page, frame);
                    page += 1;
                }
            }
        }
    }

    /// Applies advice to pages: huge pages that no longer lie in one area are split.
    pub fn part(&mut self, pages: Range<u64>) {
        for block in [pages.start / BLOCK, (pages.end - 1) / BLOCK] {
            let all = block * BLOCK..(block + 1) * BLOCK;
            if self.areas.iter().any(|area| area.pages.start <= all.start && all.end <= area.pages.end) {
                continue;
            }
            let mut huge = self.blocks.iter_mut().filter(|((of, _), huge)| *of == block && **huge).peekable();
            if huge.peek().is_some() {
                huge.for_each(|(_, huge)| *huge = false);
                self.drop_translations(&all);
            }
        }
    }

    /// Number of pages that have frames.
    pub fn backed(&self) -> u64 {
        match &self.backing {
            Some(backing) => backing.frames.len() as u64,
            None => {
                let usable = self.areas.iter().filter(|area| area.rights != 0);
                usable.map(|area| area.pages.end - area.pages.start).sum()
            }
        }
    }

    /// The lengths of all ranges.
    pub fn ranges(&self) -> Vec<u64> {
        let (mut lengths, mut next) = (Vec::new(), 0);
        for page in self.areas.iter().flat_map(|area| area.pages.clone()) {
            if page >= next
                && let Some(range) = self.range(page)
            {
                next = range.end;
                lengths.push(range.end - range.start);
            }
        }
        lengths
    }

    pub(super) fn range(&self, page: u64) -> Option<Range<u64>> {
        let area = self.areas.iter().find(|area| area.pages.contains(&page) && area.rights != 0)?;
        let mut range = area.pages.clone();
        while let Some(next) =
            self.areas.iter().find(|next| next.pages.start == range.end && next.rights == area.rights)
        {
            range.end = next.pages.end;
        }
        while let Some(before) =
            self.areas.iter().find(|next| next.pages.end == range.start && next.rights == area.rights)
        {
            range.start = before.pages.start;
        }
        if let Some(backing) = &self.backing {
            let frame = backing.frames.get(&page)?;
            let together =
                |other: &u64| backing.frames.get(other).is_some_and(|its| its + page == frame + other);
            let (all, mut start, mut end) = (range, page, page + 1);
            while start > all.start && together(&(start - 1)) {
                start -= 1;
            }
            while end < all.end && together(&end) {
                end += 1;
            }
            range = start..end;
        }
        (range.end - range.start >= self.threshold).then_some(range)
    }
}
