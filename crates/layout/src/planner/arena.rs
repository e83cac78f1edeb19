//! Assigns places in the arena to objects that need certain sets.

use super::Movable;
use pagewalk_plan::{ARENA_LIMIT, DEFAULT_ARENA, Place};
use pagewalk_units::PAGE_BYTES;

/// The arena has no room for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: no room for its {pages} pages below {ARENA_LIMIT:#x}")]
pub struct NoRoom {
    /// The object.
    pub file: String,
    /// Its pages.
    pub pages: u64,
}

/// A place for each object, one after the other: each at the next page that is `shifts` pages from its old one, modulo
/// `period` pages.
pub fn places(objects: &[Movable], shifts: &[u64], period: u64) -> Result<Vec<Place>, NoRoom> {
    let first = DEFAULT_ARENA / PAGE_BYTES;
    let mut next = first;
    let place = |(object, shift): (&Movable, &u64)| {
        let wanted = object.first_page.wrapping_add(*shift) % period;
        let page = next + (wanted + period - next % period) % period;
        // Leaves a page free between objects, so that an overrun is detected.
        next = page + object.pages + 1;
        if (page + object.pages) > ARENA_LIMIT / PAGE_BYTES {
            return Err(NoRoom { file: object.file.clone(), pages: object.pages });
        }
        Ok(Place {
            file: object.file.clone(),
            build_id: object.build_id.clone(),
            offset: (page - first) * PAGE_BYTES,
            size: object.pages * PAGE_BYTES,
        })
    };
    objects.iter().zip(shifts).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(first_page: u64, pages: u64) -> Movable {
        Movable { file: format!("/lib/{first_page:x}.so"), build_id: None, first_page, pages }
    }

    #[test]
    fn objects_lie_apart_at_the_sets_that_they_want() {
        let objects = [object(0x4861, 33), object(0x7777, 500), object(0x12, 1)];
        let shifts = [0, 5, 127];
        let places = places(&objects, &shifts, 128).unwrap();
        for ((place, object), shift) in places.iter().zip(&objects).zip(shifts) {
            assert_eq!((DEFAULT_ARENA + place.offset) / PAGE_BYTES % 128, (object.first_page + shift) % 128);
            assert_eq!(place.size, object.pages * PAGE_BYTES);
        }
        for pair in places.windows(2) {
            assert!(pair[0].offset + pair[0].size < pair[1].offset);
        }
        let large = [object(1, 1 << 22), object(2, 1 << 23)];
        let error = super::places(&large, &[0, 0], 128).unwrap_err();
        assert!(error.to_string().contains("no room"), "{error}");
    }
}
