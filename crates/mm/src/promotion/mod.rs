//! Policies that build superpages during the run. One file each.

mod approx_online;
mod asap;
mod candidates;
mod capacity;
mod eager;
mod fixed;
mod freebsd;
mod hawkeye;
mod ingens;
mod khugepaged;
mod linux;
mod mthp;
mod offline;
mod online;
mod policy;
mod replay;
mod setting;
mod throttle;
mod tlb_counts;

pub use approx_online::{ApproxOnline, BreakEven, Deferral};
pub use asap::{Asap, AsapShare};
pub use candidates::{Candidates, CandidatesSettings};
pub use eager::{Eager, EagerSettings};
pub use fixed::Fixed;
pub use freebsd::FreeBsd;
pub use hawkeye::{HawkEye, HawkEyeSettings};
pub use ingens::{Ingens, IngensSettings};
pub use khugepaged::Khugepaged;
pub use linux::{Collapse, Linux, LinuxError, LinuxSettings, MADV_COLLAPSE, SizeMode};
pub use mthp::Mthp;
pub use offline::{ChoicesPerReplay, Growth, OfflineSettings};
pub use online::Online;
pub(crate) use policy::ActivePolicy;
pub use policy::{
    Actions, CacheMiss, Footprint, LastUse, MapBacking, Miss, PageMove, Policy, PolicyEvent, Request,
    ReservationRules, Rules, TlbDrops, View,
};
pub use replay::{Charge, Charges, ChosenSuperpages};
pub use setting::SettingError;
pub use throttle::{Throttle, ThrottleLimits};

use crate::{HugeAdvice, Vma};

/// The default of instructions per millisecond: chosen.
pub(crate) const INSTRUCTIONS_PER_MILLISECOND: u64 = 1_000_000;

/// The instructions that fit in `nanoseconds`.
pub(crate) fn instructions(nanoseconds: u64, per_millisecond: u64) -> u64 {
    let instructions = u128::from(nanoseconds) * u128::from(per_millisecond) / 1_000_000;
    u64::try_from(instructions).unwrap_or(u64::MAX)
}

/// Whether Linux may give an area huge pages: private anonymous memory that no advice excludes.
pub(crate) fn may_be_huge(area: &Vma) -> bool {
    area.is_private_anonymous() && area.advice != HugeAdvice::NoHugePage
}

/// Orders 1 to `top`, one bit each.
pub(crate) fn up_to(top: u8) -> u32 {
    (2 << top) - 2
}
