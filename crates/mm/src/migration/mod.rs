//! Recoloring: policies that move pages to frames of other colors during the run. One file each.
//!
//! They are policies of a kernel like those of [`promotion`](crate::promotion), which run [beside](Beside) them: each
//! decides alone (Romer 1998, section 6.6.1).

mod active;
mod beside;
mod cap;
mod cml;
mod cml_buffer;
mod periodic;
mod snapshot;
mod target;

pub use active::{Active, ActiveSettings};
pub use beside::Beside;
pub use cap::{Capped, CopyCap};
pub use cml::{Cml, CmlSettings};
pub use cml_buffer::{CmlBuffer, CmlTuple};
pub use periodic::{Periodic, PeriodicChoice, PeriodicSettings};
pub use snapshot::{Snapshot, SnapshotClock, SnapshotSettings};
pub use target::{TargetRule, Targets};

use std::collections::BTreeMap;

/// Pages that compete: those of each color that has several, by color.
pub(crate) fn competing<T>(pages: impl IntoIterator<Item = (u64, T)>) -> BTreeMap<u64, Vec<T>> {
    let mut by_color: BTreeMap<u64, Vec<T>> = BTreeMap::new();
    for (color, page) in pages {
        by_color.entry(color).or_default().push(page);
    }
    by_color.retain(|_, pages| pages.len() > 1);
    by_color
}
