//! `[memory]` in a TOML file:
//!
//! ```toml
//! [memory]
//! size = "8G"
//! initial = "empty"
//! # initial = { fragmentation = [1.0, 0.9, 0.8], free = 0.6 }
//! # initial = { buddyinfo = "host.txt" }
//! max_order = 10
//! unmovable = 0.1
//! unmovable_order = 9
//! migration_cycles = 12000
//! seed = 0
//! ```

use super::{Initial, MemoryError, MemorySpec};
use pagewalk_units::quantities::bytes;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;

/// `[memory]` in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMemory {
    size: String,
    initial: Option<FileInitial>,
    max_order: Option<u32>,
    unmovable: Option<f64>,
    unmovable_order: Option<u32>,
    migration_cycles: Option<u64>,
    seed: Option<u64>,
}

/// A key of `[memory]`, for the manual.
#[derive(Clone, Copy, Debug)]
pub struct MemoryKey {
    /// Its name, with the table that holds it: `initial.free`.
    pub name: &'static str,
    /// What it means, in one line.
    pub meaning: &'static str,
    /// Its default.
    pub usual: &'static str,
    /// Its allowed values.
    pub choices: &'static str,
}

const fn key(
    name: &'static str,
    usual: &'static str,
    choices: &'static str,
    meaning: &'static str,
) -> MemoryKey {
    MemoryKey { name, meaning, usual, choices }
}

impl MemorySpec {
    /// The keys of `[memory]`.
    pub const KEYS: &[MemoryKey] = &[
        key("size", "must be given", "bytes, or a number with K, M, G or T", "how large the memory is"),
        key(
            "initial",
            "empty",
            "empty, or a table",
            "what is free at the start: everything, or as its keys say",
        ),
        key(
            "initial.fragmentation",
            "none",
            "a list from 1.0 that never rises",
            "by order, the share of free memory in blocks of at least that order",
        ),
        key("initial.free", "none", "a number from 0 to 1", "the share of memory that is free"),
        key(
            "initial.buddyinfo",
            "none",
            "a file, or its text",
            "free blocks as a host's `/proc/buddyinfo` has them",
        ),
        key(
            "max_order",
            "20; with buddyinfo the host's",
            "a whole number, 0 to 20",
            "order of the largest block",
        ),
        key(
            "unmovable",
            "0.1",
            "a number from 0 to 1",
            "the share of the frames used at the start that cannot be moved",
        ),
        key(
            "unmovable_order",
            "9",
            "a whole number, 0 to 20",
            "order of the blocks that unmovable frames fill; 0 scatters them",
        ),
        key(
            "migration_cycles",
            "3000 for each KiB of a frame",
            "a whole number, 0 or more",
            "cycles to move one frame",
        ),
        key("seed", "0", "a whole number, 0 or more", "where free and unmovable blocks lie"),
    ];
}

impl TryFrom<FileMemory> for MemorySpec {
    type Error = MemoryError;

    fn try_from(file: FileMemory) -> Result<MemorySpec, MemoryError> {
        let usual = MemorySpec::empty(bytes(&file.size).ok_or(MemoryError::Size(file.size))?);
        let initial = file.initial.map_or(Ok(Initial::Empty), FileInitial::check)?;
        let spec = MemorySpec {
            initial,
            max_order: file.max_order,
            unmovable: file.unmovable.unwrap_or(usual.unmovable),
            unmovable_order: file.unmovable_order.unwrap_or(usual.unmovable_order),
            migration_cycles: file.migration_cycles,
            seed: file.seed.unwrap_or(usual.seed),
            ..usual
        };
        spec.check()?;
        Ok(spec)
    }
}

/// `initial` in the file: a word or a table.
enum FileInitial {
    Word(String),
    Table(FileState),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileState {
    fragmentation: Option<Vec<f64>>,
    free: Option<f64>,
    buddyinfo: Option<String>,
}

impl FileInitial {
    fn check(self) -> Result<Initial, MemoryError> {
        match self {
            FileInitial::Word(word) if word == "empty" => Ok(Initial::Empty),
            FileInitial::Word(word) => Err(MemoryError::Initial(format!("\"{word}\""))),
            FileInitial::Table(table) => match table {
                FileState { fragmentation: Some(fragmentation), free: Some(free), buddyinfo: None } => {
                    Ok(Initial::Fragmented { fragmentation, free })
                }
                FileState { fragmentation: None, free: None, buddyinfo: Some(text) } => {
                    Ok(Initial::BuddyInfo(text))
                }
                FileState { fragmentation, free, buddyinfo } => {
                    let keys = [
                        ("fragmentation", fragmentation.is_some()),
                        ("free", free.is_some()),
                        ("buddyinfo", buddyinfo.is_some()),
                    ];
                    let given: Vec<&str> =
                        keys.into_iter().filter_map(|(key, given)| given.then_some(key)).collect();
                    Err(MemoryError::Initial(format!("{{ {} }}", given.join(", "))))
                }
            },
        }
    }
}

// By hand, because an untagged enum's error would only say that nothing matches.
impl<'de> Deserialize<'de> for FileInitial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileInitial, D::Error> {
        struct WordOrTable;

        impl<'de> Visitor<'de> for WordOrTable {
            type Value = FileInitial;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"empty\", a table with `fragmentation` and `free`, or a table with `buddyinfo`")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<FileInitial, E> {
                Ok(FileInitial::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<FileInitial, A::Error> {
                FileState::deserialize(MapAccessDeserializer::new(table)).map(FileInitial::Table)
            }
        }

        deserializer.deserialize_any(WordOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<MemorySpec, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_said_is_usual() {
        let spec = read("size = \"8G\"").unwrap();
        assert_eq!(spec, MemorySpec::empty(8 << 30));
        assert_eq!(spec.migration_cycles("4K".parse().unwrap()), 12_000);
        assert_eq!(spec.migration_cycles("64K".parse().unwrap()), 192_000);
        assert_eq!(read("size = \"8G\"\ninitial = \"empty\""), Ok(spec));
    }

    #[test]
    fn every_key() {
        let spec = read(
            "size = \"3M\"\ninitial = { fragmentation = [1, 0.5], free = 0.25 }\nmax_order = 10\n\
             unmovable = 0.5\nunmovable_order = 0\nmigration_cycles = 7\nseed = 9",
        );
        let initial = Initial::Fragmented { fragmentation: vec![1.0, 0.5], free: 0.25 };
        let expected = MemorySpec {
            bytes: 3 << 20,
            initial,
            max_order: Some(10),
            unmovable: 0.5,
            unmovable_order: 0,
            migration_cycles: Some(7),
            seed: 9,
        };
        assert_eq!(spec, Ok(expected));
        let host = read("size = \"1T\"\ninitial = { buddyinfo = \"host.txt\" }").unwrap();
        assert_eq!(host.initial, Initial::BuddyInfo("host.txt".to_owned()));
    }

    #[test]
    fn what_is_wrong_where_and_the_choices() {
        let mistakes = [
            ("size = \"8X\"", "size = \"8X\": expected bytes, or a number with K, M, G or T"),
            ("size = \"+8G\"", "size = \"+8G\": expected"),
            ("size = \"99999999T\"", "size = \"99999999T\": expected"),
            ("sise = \"8G\"", "unknown field `sise`, expected one of `size`, `initial`"),
            ("initial = \"full\"", "initial = \"full\": choose \"empty\", { fragmentation"),
            ("initial = { free = 0.5 }", "initial = { free }: choose"),
            ("initial = { free = 0.5, buddyinfo = \"x\" }", "initial = { free, buddyinfo }: choose"),
            ("initial = {}", "initial = {  }: choose"),
            ("initial = { fragmented = 1 }", "unknown field `fragmented`"),
            ("initial = 3", "\"empty\", a table with `fragmentation` and `free`, or"),
            ("unmovable = 1.5", "unmovable = 1.5: choose a share from 0.0 to 1.0"),
            ("unmovable = nan", "unmovable = NaN: choose a share"),
            ("max_order = 21", "max_order = 21: choose 0 to 20"),
            ("unmovable_order = 21", "unmovable_order = 21: choose 0 to 20"),
            ("initial = { fragmentation = [1.0], free = -0.1 }", "free = -0.1: choose a share"),
            ("initial = { fragmentation = [], free = 0.1 }", "fragmentation has 0 shares: choose 1 to 21"),
            ("initial = { fragmentation = [0.9], free = 0.1 }", "fragmentation[0] = 0.9: the share"),
            (
                "initial = { fragmentation = [1.0, 0.2, 0.3], free = 0.1 }",
                "fragmentation[2] = 0.3: the share",
            ),
            (
                "max_order = 1\ninitial = { fragmentation = [1.0, 0.2, 0.1], free = 0.1 }",
                "fragmentation has 3 shares: choose 1 to 2, for orders 0 to 1",
            ),
        ];
        for (text, message) in mistakes {
            let size = if text.starts_with('s') { "" } else { "size = \"8G\"\n" };
            let error = read(&format!("{size}{text}")).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
