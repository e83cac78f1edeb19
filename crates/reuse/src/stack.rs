//! The top of the LRU stack of all pages, with holes.
//!
//! Place d holds a page that is present in every fully associative array of more than d entries and in no other. A
//! reference puts its page on top; the pages above its old place sink by one, into the place that it left, and the
//! pages below do not move.
//!
//! A *hole* is the place of a page that was invalidated: an empty entry in every array that contains the place. The
//! first hole above a referenced page is filled by what sinks, because every array that missed fills its empty
//! entry. Arrays that hit still have the empty entry, so the place that the page leaves becomes the hole. A new stack
//! has only holes, as a new array has only empty entries.

/// Number of places.
pub(crate) const PLACES: usize = 64;
/// The value of a place without a page. Pages are numbered from 1.
pub(crate) const HOLE: u32 = 0;
/// Number of places that are searched one by one, moving pages down on the way; most references end there.
const SHALLOW: usize = 8;

/// Places 0 (most recently used) to 63.
#[repr(align(64))]
pub(crate) struct Stack([u32; PLACES]);

/// The result of a reference.
pub(crate) struct StackPosition {
    /// The place of the page; [`PLACES`] if it was not in the stack.
    pub depth: usize,
    /// The page that was pushed out below the last place, or [`HOLE`].
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

    /// The rest of [`Stack::refer`], below the shallow places; `sinking` was pushed out of those.
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

    /// A hole at `depth` was filled: if the page was deeper, its place becomes a hole.
    #[cold]
    fn leave_hole(&mut self, page: u32, depth: usize) -> StackPosition {
        let below = &mut self.0[depth + 1..];
        let depth = place_where(below, |held| held == page).map_or(PLACES, |at| {
            below[at] = HOLE;
            depth + 1 + at
        });
        StackPosition { depth, sunk: HOLE }
    }

    /// Invalidates a page; returns whether it was in the stack.
    pub fn remove(&mut self, page: u32) -> bool {
        place_where(&self.0, |held| held == page).map(|at| self.0[at] = HOLE).is_some()
    }
}

/// The first place that `wanted` accepts. Tests eight at a time without a branch, so that it compiles to vector code.
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
