//! The `memory` table of a kernel: its physical memory and its rules.

use super::OsError;
use super::keys::Keys;
use crate::frames::{Buddy, MemorySpec};
use crate::{FullMemoryAction, MemoryRules};
use pagewalk_units::names::choice;
use toml::{Table, Value};

const COMPACT: &str = "a promotion that finds no free block compacts memory";
const SWAP_CYCLES: &str = "cycles to write a base page to swap, or to read it back";
const WHEN_FULL: &str =
    "where no frame is free: swap writes another page out, oom kills the process, as there is no swap";

/// The memory in its initial state, if the kernel has one.
pub(super) fn memory(keys: &mut Keys) -> Result<Option<(Buddy, MemoryRules)>, OsError> {
    let whole = "the physical memory; without it, frames never run out";
    let Some(mut of) = keys.table_of("memory", whole, size_meant)? else {
        return Ok(None);
    };
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
    check_names(&of, &table)?;
    let spec: MemorySpec = table.clone().try_into().map_err(|error| wrong(&table, &error))?;
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

/// The key `size`, with a size given in place of the table.
fn size_meant(given: &str) -> Option<String> {
    given.starts_with(|first: char| first.is_ascii_digit()).then(|| format!("size={given}"))
}

/// Checks that the keys of the table, and of `initial` in it, are the memory's.
fn check_names(of: &Keys, table: &Table) -> Result<(), OsError> {
    let names = || MemorySpec::KEYS.iter().map(|key| key.name);
    let initial = || names().filter_map(|name| name.strip_prefix("initial."));
    if let Some(key) = table.keys().find(|key| !names().any(|name| name == key.as_str())) {
        return Err(of.unknown(key, names().filter(|name| !name.contains('.'))));
    }
    let state = table.get("initial").and_then(Value::as_table);
    match state.and_then(|state| state.keys().find(|key| !initial().any(|name| name == key.as_str()))) {
        Some(key) => {
            let choice = choice(key, &initial().collect::<Vec<_>>());
            Err(OsError::Key { key: format!("os.memory.initial.{key}"), choice })
        }
        None => Ok(()),
    }
}

/// The error of a value that the parser refused: with the key and its choices, if the parser names the key.
fn wrong(table: &Table, error: &toml::de::Error) -> OsError {
    let told = error.to_string();
    let name = told.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let key = name.and_then(|name| MemorySpec::KEYS.iter().find(|key| key.name == name));
    match key.and_then(|key| Some((key, table.get(key.name)?))) {
        Some((key, given)) => OsError::Value {
            key: format!("os.memory.{}", key.name),
            given: given.to_string(),
            expected: key.choices.to_owned(),
        },
        None => {
            let message = error.message();
            OsError::Memory(format!("os.memory: {}", message.strip_prefix("memory: ").unwrap_or(message)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::OsSpec;
    use pagewalk_units::Paging;

    #[test]
    fn what_is_wrong_in_a_table_is_named_with_all_choices() {
        let memory = "size, initial, max_order, unmovable, unmovable_order, migration_cycles, seed";
        let memory = format!("choose from compact, swap_cycles, when_full, {memory}");
        for (text, told) in [
            ("memory.sise=1G", format!("unknown key `os.memory.sise`: did you mean `size`? {memory}")),
            (
                "memory.size=1G,memory.initial.fre=1",
                "unknown key `os.memory.initial.fre`: did you mean `free`? choose from fragmentation, free, \
                 buddyinfo"
                    .to_owned(),
            ),
            (
                "memory.size=1G,memory.seed=x",
                "os.memory.seed is \"x\": expected a whole number, 0 or more".to_owned(),
            ),
            (
                "memory=1G",
                "os.memory is \"1G\": expected true, false or a table (did you mean `memory.size=1G`?)"
                    .to_owned(),
            ),
            (
                "placement=page-coloring",
                "os.placement is \"page-coloring\": expected true, false or a table (did you mean \
                 `placement.policy=page-coloring`?)"
                    .to_owned(),
            ),
            ("recoloring=7", "os.recoloring is 7: expected true, false or a table".to_owned()),
            (
                "sizes.64K=alway",
                "os.sizes.64K is \"alway\": expected one of always, madvise, inherit, never (did you mean \
                 `always`?)"
                    .to_owned(),
            ),
            (
                "sizes.8K=always",
                "unknown key `os.sizes.8K`: expected a page size, a power of two from 16K to 2M".to_owned(),
            ),
        ] {
            let os = OsSpec::from_text(&format!("linux:{text}")).unwrap();
            let refused = os.kernel(Paging::FOUR_KIB, u32::MAX).map(|_| ()).unwrap_err();
            assert_eq!(refused.to_string(), told, "{text}");
        }
    }
}
