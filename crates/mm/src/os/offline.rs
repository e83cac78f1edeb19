//! The keys of OFFLINE.

use super::OsError;
use super::keys::Keys;
use crate::ORDERS;
use crate::promotion::{ChoicesPerReplay, OfflineSettings, up_to};

/// The policy's name.
pub(super) const NAME: &str = "offline";
pub(super) const TITLE: &str = "knows the future: replays the stream until no superpage pays (Romer 1998)";

pub(super) fn settings(keys: &mut Keys) -> Result<OfflineSettings, OsError> {
    let usual = OfflineSettings::default();
    let orders = up_to(keys.max_page(ORDERS as u8 - 1)?) & keys.held;
    let miss = "cycles of a TLB miss, from which blocks get their worth";
    let take = "blocks are chosen that prevent at least this share of the best one's misses for each cycle";
    let replays = "the most replays after which more blocks are chosen";
    let build = "cycles to build a superpage, for each KiB of it";
    let mut settings = OfflineSettings {
        orders: Some(orders),
        miss_cycles: keys.count("miss_cycles", miss, usual.miss_cycles, 1..=u64::MAX)?,
        take: match usual.take {
            ChoicesPerReplay::Share(share) => {
                ChoicesPerReplay::Share(keys.number("take", take, share, 0.0..=1.0)?)
            }
            ChoicesPerReplay::One => ChoicesPerReplay::One,
        },
        replays: keys
            .count("replays", replays, usual.replays as u64, 1..=u64::MAX)?
            .try_into()
            .unwrap_or(usize::MAX),
        ..usual
    };
    let usual = settings.costs.copy_per_kib;
    settings.costs.copy_per_kib = keys.count("build_cycles_per_kib", build, usual, 1..=u64::MAX)?;
    Ok(settings)
}
