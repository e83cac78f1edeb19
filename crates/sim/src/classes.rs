//! Classes of references that first-level arrays may distinguish.

use pagewalk_units::Kind;

/// Their number.
pub(crate) const CLASSES: usize = 3;
/// Instruction fetches.
pub(crate) const FETCH: usize = 0;
/// Loads, and also stores if no array distinguishes them.
pub(crate) const LOAD: usize = 1;
/// Stores and modifies, if some array distinguishes them from loads.
pub(crate) const STORE: usize = 2;

/// The kind of each class. Modifies are stores.
pub(crate) const KINDS: [Kind; CLASSES] = [Kind::Fetch, Kind::Load, Kind::Store];

/// The class of `kind`; loads and stores share one unless `split`.
#[inline(always)]
pub(crate) fn class_of(kind: Kind, split: bool) -> usize {
    const { assert!(Kind::Fetch as usize == FETCH && Kind::Load as usize == LOAD) };
    (kind as usize).min(if split { STORE } else { LOAD })
}
