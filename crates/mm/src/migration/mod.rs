//! Recoloring: policies that move pages to frames of other colors during the run. One file each.
//!
//! They are policies of a kernel like those of [`promotion`](crate::promotion), which run [beside](Beside) them: each
//! decides alone (Romer 1998, section 6.6.1).

mod active;
mod beside;
mod cap;
mod cml;
mod cml_buffer;
mod conflicts;
mod footprint;
mod heavy_hitters;
mod periodic;
mod sites;
mod snapshot;
mod target;

pub use active::{Active, ActiveSettings};
pub use beside::Beside;
pub use cap::{Capped, CopyCap};
pub use cml::{Cml, CmlSettings, MissBuffer};
pub use cml_buffer::{CmlBuffer, CmlTuple};
pub use footprint::Touching;
pub use heavy_hitters::SpaceSaving;
pub use periodic::{Periodic, PeriodicChoice, PeriodicSettings};
pub use sites::{Sites, SitesSettings};
pub use snapshot::{Snapshot, SnapshotClock, SnapshotSettings};
pub use target::{TargetRule, Targets};
