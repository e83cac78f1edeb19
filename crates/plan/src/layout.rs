//! Where shared objects are to lie.
//!
//! Offsets count from an arena, addresses that are free both natively and under Valgrind. Whoever applies the layout
//! may slide the arena by multiples of [`SLIDE_BYTES`] if something is in the way: every page keeps its set in any TLB.

use crate::values;
use crate::{ARENA_LIMIT, ARENA_MIN, PlanError};

/// Where shared objects are to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What made it: `callgraph`, `hand`, … Reports show it.
    pub planner: String,
    /// Names of the machines it was made for; may be empty.
    pub machines: Vec<String>,
    /// The address that offsets count from.
    pub arena: u64,
    /// One place for each object, in any order; text has them sorted by file.
    pub places: Vec<Place>,
}

/// Where one shared object is to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The object's absolute path; any name of the file.
    pub file: String,
    /// Its GNU build-id in hexadecimal; if present, no other build is placed.
    pub build_id: Option<String>,
    /// Bytes from the arena to its first mapped byte.
    pub offset: u64,
    /// Bytes from its first mapped byte to the end of its last page.
    pub size: u64,
}

impl Place {
    /// The first byte after it, from the arena on.
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

impl Layout {
    /// The address where an object of this layout is to lie.
    pub fn base(&self, place: &Place) -> u64 {
        self.arena.saturating_add(place.offset)
    }

    /// Single values first, then files twice, then places that overlap.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        values::aligned("arena", self.arena, "the layout")?;
        if self.arena < ARENA_MIN {
            return Err(PlanError::ArenaTooLow(self.arena));
        }
        self.places.iter().try_for_each(|place| self.check_place(place))?;
        self.check_twice()?;
        self.check_overlaps()
    }

    fn check_place(&self, place: &Place) -> Result<(), PlanError> {
        let Place { file, build_id, offset, size } = place;
        values::absolute(file, "a place")?;
        values::build_id(build_id.as_deref(), file)?;
        values::aligned("offset", *offset, file)?;
        values::aligned("size", *size, file)?;
        if *size == 0 {
            return Err(PlanError::Empty { file: file.clone() });
        }
        let end = place.end().and_then(|end| end.checked_add(self.arena));
        if end.is_none_or(|end| end > ARENA_LIMIT) {
            let (offset, size, arena) = (*offset, *size, self.arena);
            return Err(PlanError::AboveLimit { file: file.clone(), offset, size, arena });
        }
        Ok(())
    }

    fn check_twice(&self) -> Result<(), PlanError> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        places.sort_by(|a, b| a.file.cmp(&b.file));
        match places.array_windows().find(|[a, b]| a.file == b.file) {
            Some([a, b]) => Err(PlanError::Twice { file: a.file.clone(), first: a.offset, second: b.offset }),
            None => Ok(()),
        }
    }

    fn check_overlaps(&self) -> Result<(), PlanError> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        places.sort_by_key(|place| place.offset);
        // Sizes are not 0, so of those that overlap two neighbours do.
        for [first, second] in places.array_windows() {
            let end = first.end().unwrap_or(u64::MAX);
            if end > second.offset {
                return Err(PlanError::PlacesOverlap {
                    first: first.file.clone(),
                    end,
                    second: second.file.clone(),
                    start: second.offset,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
