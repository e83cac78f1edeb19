//! Classes of references that first-level arrays may tell apart.

use pagewalk_units::Kind;

/// How many there are.
pub(crate) const CLASSES: usize = 3;
/// Instruction fetches.
pub(crate) const FETCH: usize = 0;
/// Loads; and stores too, while no array tells them apart.
pub(crate) const LOAD: usize = 1;
/// Stores and modifies, where some array tells them apart.
pub(crate) const STORE: usize = 2;

/// By class: what its references are. Modifies are stores.
pub(crate) const KINDS: [Kind; CLASSES] = [Kind::Fetch, Kind::Load, Kind::Store];

/// The class of `kind`; loads and stores share one unless `split`.
pub(crate) fn class_of(kind: Kind, split: bool) -> usize {
    match kind {
        Kind::Fetch => FETCH,
        Kind::Load => LOAD,
        Kind::Store | Kind::Modify if split => STORE,
        Kind::Store | Kind::Modify => LOAD,
    }
}
