//! The walks that an ideal direct segment would avoid: a list of the states of each area between two changes.

use std::ops::Range;

#[derive(Clone, Debug)]
struct Area {
    pages: Range<u64>,
    born: u64,
    died: Option<u64>,
    walks: u64,
}

/// All areas that ever existed; areas do not grow.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    areas: Vec<Area>,
}

impl Segments {
    /// Maps pages, at instruction `now`.
    pub fn map(&mut self, pages: Range<u64>, now: u64) {
        self.unmap(&pages, now);
        self.areas.push(Area { pages, born: now, died: None, walks: 0 });
    }

    /// Unmaps pages. The rest of an area keeps its age.
    pub fn unmap(&mut self, gone: &Range<u64>, now: u64) {
        let mut rests = Vec::new();
        for area in self.areas.iter_mut().filter(|area| area.died.is_none()) {
            if area.pages.start < gone.end && gone.start < area.pages.end {
                area.died = Some(now);
                for pages in [area.pages.start..gone.start, gone.end..area.pages.end] {
                    rests.push(Area { pages, born: area.born, died: None, walks: 0 });
                }
            }
        }
        self.areas.extend(rests.into_iter().filter(|rest| !rest.pages.is_empty()));
    }

    /// Counts walks for a page.
    pub fn walked(&mut self, page: u64, walks: u64) {
        let has = |area: &&mut Area| area.died.is_none() && area.pages.contains(&page);
        if let Some(area) = self.areas.iter_mut().find(has) {
            area.walks += walks;
        }
    }

    /// The number of walks in areas that lived for more than the share `alive` of a run of `instructions`.
    pub fn served(&self, alive: f64, instructions: u64) -> u64 {
        let lived = |area: &Area| (area.died.unwrap_or(instructions) - area.born) as f64;
        let served = self.areas.iter().filter(|area| lived(area) > alive * instructions as f64);
        served.map(|area| area.walks).sum()
    }
}
