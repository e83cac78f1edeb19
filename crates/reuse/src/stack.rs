//! The top of the stack of all pages, with holes.
//!
//! Place d holds a page that is present in every fully associative array of more than d entries and in no other. A
//! reference puts its page on top; what was above its old place sinks by one, into the place that it left, and nothing
//! below moves.
//!
//! A *hole* is the place of a page that was taken away: an empty entry in every array that has it. The first hole
//! above a referenced page swallows what sinks, because every array that missed had it to fill. Arrays
//! that hit have it still, so the place that the page leaves becomes the hole. A new stack is all holes, as an array
//! that never held anything is all empty entries.

/// The places.
pub(crate) const PLACES: usize = 64;
/// What stands in a place that holds no page. Pages are numbered from 1.
pub(crate) const HOLE: u32 = 0;
/// Places that are looked at one by one, sinking as it goes; most references end there.
const SHALLOW: usize = 8;

/// Places 0 (used last) to 63.
#[repr(align(64))]
pub(crate) struct Stack([u32; PLACES]);

/// What a reference found.
pub(crate) struct StackPosition {
    /// The place of the page, [`PLACES`] if it was not there.
    pub depth: usize,
    /// The page that sank below the last place, or [`HOLE`].
    pub sunk: u32,
}

impl Stack {
    pub fn new() -> Stack {
        Stack([HOLE; PLACES])
    }

    /// Puts a page on top.
    #[inline(always)]
    pub fn refer(&mut self, page: u32) -> StackPosition {
        let mut sinking = page;
        for depth in 0..SHALLOW {
            std::mem::swap(&mut self.0[depth], &mut sinking);
            if sinking == page {
                return StackPosition { depth, sunk: HOLE };
            }
            if sinking == HOLE {
                return self.leave_hole(page, depth);
            }
        }
        self.refer_deep(page, sinking)
    }

    /// The rest of [`Stack::refer`] below the shallow places, out of which `sinking` came.
    #[inline(never)]
    fn refer_deep(&mut self, page: u32, sinking: u32) -> StackPosition {
        let rest = &mut self.0[SHALLOW..];
        let place = place_where(rest, |held| held == page || held == HOLE);
        let end = place.unwrap_or(rest.len() - 1);
        let last = rest[end];
        rest.copy_within(..end, 1);
        rest[0] = sinking;
        match place {
            Some(_) if last == HOLE => self.leave_hole(page, SHALLOW + end),
            Some(_) => StackPosition { depth: SHALLOW + end, sunk: HOLE },
            None => StackPosition { depth: PLACES, sunk: last },
        }
    }

    /// A hole at `depth` was filled: if the page lay deeper, its place is one now.
    #[cold]
    fn leave_hole(&mut self, page: u32, depth: usize) -> StackPosition {
        let below = &mut self.0[depth + 1..];
        let depth = place_where(below, |held| held == page).map_or(PLACES, |at| {
            below[at] = HOLE;
            depth + 1 + at
        });
        StackPosition { depth, sunk: HOLE }
    }

    /// Takes a page away; says whether it was there.
    pub fn remove(&mut self, page: u32) -> bool {
        place_where(&self.0, |held| held == page).map(|at| self.0[at] = HOLE).is_some()
    }
}

/// The first place that `wanted` accepts. Eight at a time without a branch among them: a vector does that.
#[inline(always)]
fn place_where(places: &[u32], wanted: impl Fn(u32) -> bool) -> Option<usize> {
    let (parts, rest) = places.as_chunks::<8>();
    for (at, part) in parts.iter().enumerate() {
        if part.iter().fold(false, |any, &held| any | wanted(held)) {
            return Some(8 * at + part.iter().position(|&held| wanted(held))?);
        }
    }
    Some(8 * parts.len() + rest.iter().position(|&held| wanted(held))?)
}
