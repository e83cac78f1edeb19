//! Which walks an ideal direct segment would have served: a list of areas, each as it was between two changes of it.

use std::ops::Range;

#[derive(Clone, Debug)]
struct Area {
    pages: Range<u64>,
    born: u64,
    died: Option<u64>,
    walks: u64,
}

/// All areas that there were. None of them grew.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    areas: Vec<Area>,
}

impl Segments {
    /// Pages are mapped, at so many instructions.
    pub fn map(&mut self, pages: Range<u64>, now: u64) {
        self.unmap(&pages, now);
        self.areas.push(Area { pages, born: now, died: None, walks: 0 });
    }

    /// Pages are unmapped. What is left of an area is as old as it was.
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

    /// So many walks were made for a page.
    pub fn walked(&mut self, page: u64, walks: u64) {
        let has = |area: &&mut Area| area.died.is_none() && area.pages.contains(&page);
        if let Some(area) = self.areas.iter_mut().find(has) {
            area.walks += walks;
        }
    }

    /// The walks of areas that lived for more than this share of a run of so many instructions.
    pub fn served(&self, alive: f64, instructions: u64) -> u64 {
        let lived = |area: &Area| (area.died.unwrap_or(instructions) - area.born) as f64;
        let served = self.areas.iter().filter(|area| lived(area) > alive * instructions as f64);
        served.map(|area| area.walks).sum()
    }
}
