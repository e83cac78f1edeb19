//! Places hot objects side by side.
//!
//! Objects follow each other from the beginning of a 2 MiB region on, by instructions and data references per page,
//! most first. So used memory lies in the fewest 2 MiB regions, within reach of page-walk caches and of a few huge
//! pages if a kernel uses them for files. TLB sets are ignored.

use super::Movable;
use pagewalk_plan::Place;
use pagewalk_units::PAGE_BYTES;

/// A place for each object, from its `references`.
pub fn places(objects: &[Movable], references: &[u64]) -> Vec<Place> {
    let mut order: Vec<usize> = (0..objects.len()).collect();
    // Products instead of quotients: references_a / pages_a > references_b / pages_b.
    let heat = |a: usize, b: usize| u128::from(references[a]) * u128::from(objects[b].pages);
    order.sort_by(|&a, &b| heat(b, a).cmp(&heat(a, b)).then(a.cmp(&b)));
    let mut next = 0;
    let place = |at: usize| {
        let offset = next * PAGE_BYTES;
        next += objects[at].pages;
        let Movable { file, build_id, pages, .. } = objects[at].clone();
        Place { file, build_id, offset, size: pages * PAGE_BYTES }
    };
    order.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_lie_first_without_gaps() {
        let object = |name: &str, pages| Movable { file: name.into(), build_id: None, first_page: 7, pages };
        let objects = [object("cold", 4), object("large", 100), object("hot", 3)];
        let places = places(&objects, &[1, 1000, 600]);
        let found: Vec<(&str, u64)> =
            places.iter().map(|place| (place.file.as_str(), place.offset / PAGE_BYTES)).collect();
        assert_eq!(found, [("hot", 0), ("large", 3), ("cold", 103)]);
    }
}
