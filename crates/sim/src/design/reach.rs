//! Misses of the last TLB level for a family of sizes at once.
//!
//! All members see the same stream, the misses of the level above. So the method of the first level works here too: all
//! members share one recency stamp per page, and one bit per member says whether it holds the page. A page that all
//! hold costs one lookup for the whole family.

use crate::bits::bits;
use crate::store::entry::{EntryId, PackedEntry};
use pagewalk_setassoc::{Geometry, Replacement, SetIndex};
use pagewalk_translate::TlbSpec;

/// One size of the family.
#[derive(Clone, Debug)]
struct Member {
    geometry: Geometry,
    slots: Vec<PackedEntry>,
    misses: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    stamp: u64,
    /// Members that hold it.
    held: u64,
}

/// LRU arrays of several sizes over one stream.
#[derive(Clone, Debug)]
pub(crate) struct ReachFamily {
    members: Vec<Member>,
    /// Pages by the kind and id of their entry.
    pages: [Vec<Page>; 4],
    clock: u64,
}

impl ReachFamily {
    /// Most members, one bit each.
    pub const MEMBERS_MAX: usize = 64;

    /// A family of at most [`ReachFamily::MEMBERS_MAX`] geometries.
    pub fn new(geometries: impl IntoIterator<Item = Geometry>) -> ReachFamily {
        let mut family = ReachFamily { members: Vec::new(), pages: Default::default(), clock: 0 };
        geometries.into_iter().for_each(|geometry| family.add(geometry));
        family
    }

    /// Whether a member can stand for an array: LRU, indexed by low bits, and filled by its own misses only.
    pub fn stands_for(tlb: &TlbSpec) -> bool {
        tlb.replacement == Replacement::Lru && ReachFamily::compares_with(tlb)
    }

    /// Whether a family can estimate other sizes of an array: [`ReachFamily::stands_for`] under any replacement.
    pub fn compares_with(tlb: &TlbSpec) -> bool {
        tlb.index == SetIndex::Modulo && tlb.pages_per_entry == 1 && tlb.filled_by_misses()
    }

    /// Adds a member to an unused family.
    pub fn add(&mut self, geometry: Geometry) {
        assert!(
            self.members.len() < Self::MEMBERS_MAX && self.clock == 0,
            "one bit per member, from the start"
        );
        self.members.push(Member {
            geometry,
            slots: vec![PackedEntry::EMPTY; geometry.entries()],
            misses: 0,
        });
    }

    /// A reference to `held`, page `number` of its size, reaches the last level. Returns the members that miss, one bit
    /// each.
    pub fn touch(&mut self, held: EntryId, number: u64) -> u64 {
        let all = u64::MAX.checked_shr(64 - self.members.len() as u32).unwrap_or(0);
        let (kind, id) = PackedEntry::new(held).parts();
        if self.pages[kind].len() <= id {
            self.pages[kind].resize(id + 1, Page::default());
        }
        self.clock += 1;
        let missing = all & !self.pages[kind][id].held;
        for member in bits(missing) {
            self.fill(member, PackedEntry::new(held), number);
        }
        self.pages[kind][id] = Page { held: all, stamp: self.clock };
        missing
    }

    fn fill(&mut self, member: usize, held: PackedEntry, number: u64) {
        let Member { geometry, slots, misses } = &mut self.members[member];
        *misses += 1;
        let first = geometry.set_of(number) * geometry.ways();
        let ways = &mut slots[first..first + geometry.ways()];
        let pages = &mut self.pages;
        let age = |slot: &&mut PackedEntry| {
            let (kind, id) = slot.parts();
            if **slot == PackedEntry::EMPTY { 0 } else { pages[kind][id].stamp }
        };
        let slot = ways.iter_mut().min_by_key(age).expect("at least one way");
        let victim = std::mem::replace(slot, held);
        if victim != PackedEntry::EMPTY {
            let (kind, id) = victim.parts();
            pages[kind][id].held &= !(1 << member);
        }
    }

    /// Drops `held` from every member.
    pub fn invalidate(&mut self, held: EntryId, number: u64) {
        let packed = PackedEntry::new(held);
        let (kind, id) = packed.parts();
        let Some(page) = self.pages[kind].get_mut(id) else { return };
        for member in bits(std::mem::take(&mut page.held)) {
            let Member { geometry, slots, .. } = &mut self.members[member];
            let first = geometry.set_of(number) * geometry.ways();
            let ways = &mut slots[first..first + geometry.ways()];
            ways.iter_mut().filter(|slot| **slot == packed).for_each(|slot| *slot = PackedEntry::EMPTY);
        }
    }

    /// Drops entries that satisfy `gone` from every member.
    pub fn flush(&mut self, gone: impl Fn(EntryId) -> bool) {
        for (member, Member { slots, .. }) in self.members.iter_mut().enumerate() {
            for slot in slots.iter_mut().filter(|slot| **slot != PackedEntry::EMPTY && gone(slot.get())) {
                let (kind, id) = slot.parts();
                self.pages[kind][id].held &= !(1 << member);
                *slot = PackedEntry::EMPTY;
            }
        }
    }

    /// Entries and misses of each member, in order.
    pub fn misses(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.members.iter().map(|member| (member.geometry.entries(), member.misses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_setassoc::LruArray;

    #[test]
    fn every_member_counts_as_an_array_of_its_own() {
        let shapes = [(2, Some(1)), (8, Some(4)), (16, None), (64, Some(4)), (128, Some(8))];
        let geometries: Vec<Geometry> =
            shapes.iter().map(|&(entries, ways)| Geometry::new(entries, ways).unwrap()).collect();
        let mut family = ReachFamily::new(geometries.iter().copied());
        let mut arrays: Vec<(LruArray, u64)> =
            geometries.iter().map(|&geometry| (LruArray::new(geometry), 0)).collect();
        let mut state = 1u64;
        for step in 0..50_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (state >> 33) % if step % 3 == 0 { 300 } else { 40 };
            if state >> 20 & 63 == 0 {
                family.invalidate(EntryId::Page(number as u32), number);
                for (array, _) in &mut arrays {
                    array.remove(number, number);
                }
                continue;
            }
            family.touch(EntryId::Page(number as u32), number);
            for (array, misses) in &mut arrays {
                if !array.touch(number, number) {
                    *misses += 1;
                    array.fill(number, number);
                }
            }
        }
        let counted: Vec<u64> = family.misses().map(|(_, misses)| misses).collect();
        assert_eq!(counted, arrays.iter().map(|&(_, misses)| misses).collect::<Vec<_>>());
    }
}
