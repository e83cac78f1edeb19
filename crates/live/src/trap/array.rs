//! Selects the simulated array of a machine, and checks that faults can simulate it.

use super::shared::Start;
use pagewalk_setassoc::{Geometry, GeometryError, Replacement, SetArray, SetIndex};
use pagewalk_translate::{MachineSpec, TlbSpec};
use pagewalk_units::Kind;
use std::fmt;

/// Bytes of the host's base page, the unit of faults.
const BASE_PAGE_BYTES: u64 = 4096;
/// The largest set that can be searched way by way at every miss without dominating the miss's cost.
const WAYS_MAX: usize = 4096;
/// Fewest ways of a set: a move from page to page needs both at once, and they may share a set.
const WAYS_MIN: usize = 2;
/// Fewest ways of an only set. Operands that straddle pages, and code in writable memory, need six pages at once.
const ONLY_SET_WAYS_MIN: usize = 8;

/// The first array that loads and stores of base pages look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapArray {
    /// Its name in the machine's file.
    pub name: String,
    /// Sets and ways, without entries that misses never fill.
    pub geometry: Geometry,
    /// FIFO or random.
    pub replacement: Replacement,
    /// How the page number chooses the set.
    pub index: SetIndex,
}

/// Changes to the machine's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Entries; without `ways`, the array stays fully associative or keeps its number of ways.
    pub entries: Option<u32>,
    /// Entries of a set.
    pub ways: Option<u32>,
    /// The replacement policy.
    pub replacement: Option<Replacement>,
}

/// Why faults cannot simulate a machine's first level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// Its pages are not the host's.
    #[error("machine {machine} has base pages of {page}; this host's pages of 4K are what faults")]
    Page {
        /// The machine.
        machine: String,
        /// Its base page.
        page: String,
    },
    /// No array, or several.
    #[error(
        "machine {machine} has no single first-level array that serves both loads and stores of 4K pages: a fault \
         fills one array, and the hits that would fill the other do not fault"
    )]
    NoArray {
        /// The machine.
        machine: String,
    },
    /// The replacement depends on hits.
    #[error(
        "array {array} of machine {machine} replaces by {replacement}, which looks at hits; hits run at full speed \
         and are not seen: only fifo and random can be simulated"
    )]
    SeesHits {
        /// The machine.
        machine: String,
        /// The array.
        array: String,
        /// Its policy.
        replacement: &'static str,
    },
    /// Pages have no fixed set.
    #[error(
        "array {array} of machine {machine} is {index}: the agent keeps sets, so only modulo, xor-fold and xor-N can \
         be simulated"
    )]
    NoSets {
        /// The machine.
        machine: String,
        /// The array.
        array: String,
        /// Its set index.
        index: String,
    },
    /// Filled not only by misses.
    #[error("array {array} of machine {machine} prefetches: what it is given ahead of misses does not fault")]
    Prefetches {
        /// The machine.
        machine: String,
        /// The array.
        array: String,
    },
    /// The changes make no valid array.
    #[error("array {array} of machine {machine}, changed: {error}")]
    Geometry {
        /// The machine.
        machine: String,
        /// The array.
        array: String,
        /// Why not.
        error: GeometryError,
    },
    /// Too many ways.
    #[error("array {array} of machine {machine} has {ways} ways; at most {WAYS_MAX} can be simulated")]
    Ways {
        /// The machine.
        machine: String,
        /// The array.
        array: String,
        /// Ways of its sets.
        ways: usize,
    },
    /// Too few ways.
    #[error(
        "array {array} of machine {machine} has {geometry}: an instruction that needs more pages at once than a set \
         holds would fault for ever; at least {WAYS_MIN} ways can be simulated, and {ONLY_SET_WAYS_MIN} entries if \
         there is one set"
    )]
    Narrow {
        /// The machine.
        machine: String,
        /// The array.
        array: String,
        /// Its shape.
        geometry: Geometry,
    },
}

impl TrapArray {
    /// The array of `machine`, with these changes.
    ///
    /// # Errors
    /// If faults cannot simulate it, and why.
    pub fn of(machine: &MachineSpec, changes: Changes) -> Result<TrapArray, ArrayError> {
        let base = machine.paging.base();
        let name = || machine.name.clone();
        if base.bytes() != BASE_PAGE_BYTES {
            return Err(ArrayError::Page { machine: name(), page: base.to_string() });
        }
        let serves = |tlb: &TlbSpec| [Kind::Load, Kind::Store].map(|kind| tlb.takes(kind, base));
        let mut serving = machine.level(1).filter(|(_, tlb)| serves(tlb) != [false; 2]);
        let (Some((_, tlb)), None) = (serving.next(), serving.next()) else {
            return Err(ArrayError::NoArray { machine: name() });
        };
        if serves(tlb) != [true; 2] {
            return Err(ArrayError::NoArray { machine: name() });
        }
        let array = tlb.name.clone();
        let replacement = changes.replacement.unwrap_or(tlb.replacement);
        if !matches!(replacement, Replacement::Fifo | Replacement::Random { .. }) {
            let replacement = replacement.name();
            return Err(ArrayError::SeesHits { machine: name(), array, replacement });
        }
        if !tlb.filled_by_misses() {
            return Err(ArrayError::Prefetches { machine: name(), array });
        }
        // Program pages use the slots above the partition, if there is one.
        let above = machine.software().map(|software| software.slots - software.lower);
        let above = Changes { entries: changes.entries.or(above), ..changes };
        let geometry = changed(tlb.geometry, above).map_err(|error| ArrayError::Geometry {
            machine: name(),
            array: array.clone(),
            error,
        })?;
        let ways = geometry.ways();
        if ways > WAYS_MAX {
            return Err(ArrayError::Ways { machine: name(), array, ways });
        }
        if ways < if geometry.sets() == 1 { ONLY_SET_WAYS_MIN } else { WAYS_MIN } {
            return Err(ArrayError::Narrow { machine: name(), array, geometry });
        }
        let Some(index) = tlb.index.sets() else {
            return Err(ArrayError::NoSets { machine: name(), array, index: tlb.index.to_string() });
        };
        Ok(TrapArray { name: array, geometry, replacement, index })
    }

    /// The agent's parameters of it.
    pub(super) fn start(&self, log_entries: u64) -> Start {
        let (replacement, seed) = match self.replacement {
            Replacement::Random { seed } => (1, seed),
            _ => (0, 0),
        };
        let (index, index_bits) = match self.index {
            SetIndex::Modulo => (0, 0),
            SetIndex::XorFold => (1, 0),
            SetIndex::Xor(bits) => (2, bits.get().into()),
        };
        Start {
            sets: self.geometry.sets() as u64,
            ways: self.geometry.ways() as u64,
            replacement,
            seed,
            index,
            index_bits,
            log_entries,
            ..Start::default()
        }
    }

    /// The same array in Rust: the agent's slow twin.
    pub(super) fn twin(&self) -> SetArray {
        let array = SetArray::new(self.geometry, self.replacement).expect("fifo and random take any shape");
        array.indexed_by(self.index)
    }
}

fn changed(geometry: Geometry, changes: Changes) -> Result<Geometry, GeometryError> {
    let entries = changes.entries.unwrap_or(geometry.entries() as u32);
    // One set stays one set.
    let ways = changes.ways.or((geometry.sets() > 1).then_some(geometry.ways() as u32));
    Geometry::new(entries, ways)
}

/// For example `tlb: 56 entries, fully associative, random`.
impl fmt::Display for TrapArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.name, self.geometry, self.replacement.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = r#"
schema = 1
name = "example"

[[tlb]]
name = "l1d"
level = 1
serves = ["load", "store"]
page_sizes = ["4K"]
entries = 64
ways = 4
replacement = "fifo"

[[tlb]]
name = "l1i"
level = 1
serves = ["fetch"]
page_sizes = ["4K"]
entries = 32

[walker]
kind = "software"
refill_cycles = 20

[cost]
cycles_per_instruction = 1.0
"#;

    fn of(text: &str, changes: Changes) -> Result<TrapArray, String> {
        let machine = MachineSpec::from_toml("example.toml", text).unwrap();
        TrapArray::of(&machine, changes).map_err(|error| error.to_string())
    }

    #[test]
    fn the_array_of_loads_and_stores_is_taken() {
        let array = of(MACHINE, Changes::default()).unwrap();
        assert_eq!(array.to_string(), "l1d: 64 entries, 4 ways, fifo");
        let larger = of(MACHINE, Changes { entries: Some(128), ..Changes::default() }).unwrap();
        assert_eq!((larger.geometry.entries(), larger.geometry.ways()), (128, 4));
        let odd = of(MACHINE, Changes { entries: Some(24), ..Changes::default() }).unwrap_err();
        assert!(odd.contains("6 sets"), "{odd}");
    }

    #[test]
    fn who_cannot_be_simulated_is_told_why() {
        let lru = MACHINE.replace("\"fifo\"", "\"lru\"");
        let error = of(&lru, Changes::default()).unwrap_err();
        assert!(
            error.contains("l1d of machine example replaces by lru") && error.contains("fifo and random"),
            "{error}"
        );
        let fifo = Changes { replacement: Some(Replacement::Fifo), ..Changes::default() };
        assert!(of(&lru, fifo).is_ok());
        // Stores to the array of fetches.
        let split =
            MACHINE.replace("\"load\", \"store\"", "\"load\"").replace("\"fetch\"", "\"fetch\", \"store\"");
        let error = of(&split, Changes::default()).unwrap_err();
        assert!(error.contains("both loads and stores"), "{error}");
        let ahead =
            MACHINE.replace("ways = 4", "ways = 4\nprefetch = { kind = \"next-page\", entries = 16 }");
        let error = of(&ahead, Changes::default()).unwrap_err();
        assert!(error.contains("prefetches"), "{error}");
        let huge = Changes { entries: Some(8192), ways: Some(8192), ..Changes::default() };
        assert!(of(MACHINE, huge).unwrap_err().contains("at most 4096"));
        // A move from page to page would wait for both forever.
        let shaped = |entries, ways| {
            of(MACHINE, Changes { entries: Some(entries), ways: Some(ways), ..Changes::default() })
        };
        for (entries, ways) in [(64, 1), (1, 1), (4, 4)] {
            let error = shaped(entries, ways).unwrap_err();
            assert!(error.contains("would fault for ever; at least 2 ways"), "{error}");
        }
        assert!(shaped(64, 2).is_ok() && shaped(8, 8).is_ok());
    }
}
