//! The `memory` table of a kernel: its physical memory and its rules.

use super::OsError;
use super::keys::Keys;
use crate::frames::{Buddy, MemorySpec};
use crate::{FullMemoryAction, MemoryRules};
use toml::Value;

const COMPACT: &str = "a promotion that finds no free block compacts memory";
const SWAP_CYCLES: &str = "cycles to write a base page to swap, or to read it back";
const WHEN_FULL: &str =
    "where no frame is free: swap writes another page out, oom kills the process, as there is no swap";

/// The memory in its initial state, if the kernel has one.
pub(super) fn memory(keys: &mut Keys) -> Result<Option<(Buddy, MemoryRules)>, OsError> {
    let whole = "the physical memory; without it, frames never run out";
    let Some(mut of) = keys.table("memory", whole, false)? else { return Ok(None) };
    let compact = of.flag("compact", COMPACT, true)?;
    let prices_swap = of.has("swap_cycles");
    let swap_cycles = of.count("swap_cycles", SWAP_CYCLES, MemoryRules::SWAP_CYCLES, 0..=u64::MAX)?;
    let when_full = of.name(
        "when_full",
        WHEN_FULL,
        FullMemoryAction::default(),
        FullMemoryAction::from_name,
        "swap, oom",
    )?;
    for key in MemorySpec::KEYS {
        of.document(key.name, key.meaning, key.usual, key.choices);
    }
    if prices_swap && when_full == FullMemoryAction::Oom {
        let why = "os.memory: swap_cycles with when_full = \"oom\", which never swaps: leave one of them out";
        return Err(OsError::Memory(why.to_owned()));
    }
    let mut table = of.rest();
    // On the command line, a number of bytes is an integer.
    if let Some(Value::Integer(bytes)) = table.get("size") {
        let bytes = bytes.to_string();
        table.insert("size".to_owned(), Value::String(bytes));
    }
    let frame = keys.paging.base();
    let wrong = |error: toml::de::Error| OsError::Memory(format!("os.memory: {}", error.message()));
    let spec: MemorySpec = Value::Table(table).try_into().map_err(wrong)?;
    let unread = |_: &str| Err("the file was not read");
    let buddy = spec.build(frame, unread).map_err(|error| OsError::Memory(format!("os.{error}")))?;
    if buddy.free_frames() == 0 {
        let why = "os.memory: nothing is free at the start: choose a larger size or more free memory";
        return Err(OsError::Memory(why.to_owned()));
    }
    let rules =
        MemoryRules { compact, migration_cycles: spec.migration_cycles(frame), swap_cycles, when_full };
    Ok(Some((buddy, rules)))
}
