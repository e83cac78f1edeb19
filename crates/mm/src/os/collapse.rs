//! The `collapse` key: calls of `MADV_COLLAPSE` in addition to the program's.

use super::OsError;
use super::keys::Keys;
use crate::promotion::Collapse;
use pagewalk_units::VirtAddr;

/// A table `{ at, start, bytes }`, or a list of them.
pub(super) fn collapse(keys: &mut Keys) -> Result<Vec<Collapse>, OsError> {
    let mut calls = Vec::new();
    for mut of in keys.tables("collapse", "calls of `MADV_COLLAPSE` beside those of the program")? {
        calls.push(Collapse {
            start: VirtAddr(of.whole("start", "the first byte of the call's range")?),
            bytes: of.whole("bytes", "the length of the call's range in bytes")?,
            at: of.count("at", "instructions executed before the call", 0, 0..=u64::MAX)?,
        });
        of.finish()?;
    }
    Ok(calls)
}
