//! The ids of what was looked up lately, by low bits of a number: most lookups find theirs here, and not by a hash.

/// No id.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Room for so many ids, a power of two.
#[derive(Clone, Debug)]
pub(crate) struct RecentIds<const LEN: usize>(Box<[Remembered; LEN]>);

/// An id, with the bits of its number above those of its place, cut to 32: a lookup that finds another number reads no
/// more.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    tag: u32,
    id: u32,
}

const VACANT: Remembered = Remembered { tag: 0, id: NOBODY };

impl<const LEN: usize> Default for RecentIds<LEN> {
    fn default() -> RecentIds<LEN> {
        RecentIds(Box::new([VACANT; LEN]))
    }
}

impl<const LEN: usize> RecentIds<LEN> {
    /// The id that may have this number, or [`NOBODY`].
    #[inline(always)]
    pub fn candidate(&self, number: u64) -> u32 {
        let Remembered { tag, id } = self.0[number as usize % LEN];
        if tag == tag_of::<LEN>(number) { id } else { NOBODY }
    }

    /// Makes `id` the candidate.
    #[inline(always)]
    pub fn set(&mut self, number: u64, id: u32) {
        self.0[number as usize % LEN] = Remembered { tag: tag_of::<LEN>(number), id };
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.fill(VACANT);
    }
}

#[inline(always)]
fn tag_of<const LEN: usize>(number: u64) -> u32 {
    (number / LEN as u64) as u32
}
