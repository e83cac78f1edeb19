//! Dynamic energy from counts. Pure functions of integer counts and a price table, so that energy can be recomputed
//! from a saved result.
//!
//! The energy of a structure is its searches and writes, each at the table's price for the structure's size at that
//! time: with ways switched off it counts as a smaller structure. Walks of the page table and of the range table read
//! lines of the level-1 data cache, and always hit. Source: Karakostas 2016, table 5.3. For range-table walks the
//! source says only that they cost energy; here each line read costs one read of the cache.

use pagewalk_units::names;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The kind of structure that a price is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// A page TLB.
    PageTlb,
    /// A range TLB.
    RangeTlb,
    /// A page-walk cache.
    WalkCache,
    /// The level-1 data cache, which page walks read.
    Cache,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Structure::PageTlb => "page_tlb",
            Structure::RangeTlb => "range_tlb",
            Structure::WalkCache => "walk_cache",
            Structure::Cache => "cache",
        })
    }
}

/// Prices of one structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StructureEnergy {
    /// Energy of one search, in picojoules.
    pub read: f64,
    /// Energy of writing one entry, in picojoules.
    pub write: f64,
    /// Leakage in milliwatts. Not used by any result.
    pub leakage: f64,
}

/// An energy table: prices by structure.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyTable {
    /// Its name in machine files.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Prices by kind, entries and ways.
    structures: BTreeMap<(Structure, u32, u32), StructureEnergy>,
    cache: StructureEnergy,
    /// Energy of one read of the second-level cache, in picojoules, if known.
    second_cache: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    name: String,
    title: String,
    second_cache_read: Option<f64>,
    structure: Vec<FileStructure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStructure {
    kind: Structure,
    entries: u32,
    ways: u32,
    read: f64,
    write: f64,
    leakage: f64,
}

/// Why the energy cannot be computed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum EnergyError {
    /// The table cannot be read.
    #[error("energy table {file}: {why}")]
    Table {
        /// The file.
        file: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// There is no table of this name.
    #[error("no energy table is named `{name}`: {choice}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The tables that exist.
        choice: String,
    },
    /// The table has no price for a structure.
    #[error(
        "energy table `{table}` has no {kind} of {entries} entries and {ways} ways, which `{structure}` is; of this \
         kind it has {known}: add one, or leave out `energy` in the machine file"
    )]
    Missing {
        /// The table.
        table: String,
        /// The kind of structure.
        kind: Structure,
        /// Its entries.
        entries: u32,
        /// Its ways.
        ways: u32,
        /// Its name in the machine.
        structure: String,
        /// The sizes that the table has for this kind.
        known: String,
    },
}

/// Counts of operations of one structure, with a given number of its ways switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Structure,
    /// Entries in the ways that were on.
    pub entries: u32,
    /// Ways that were on; equal to the number of entries if fully associative.
    pub ways: u32,
    /// Searches.
    pub reads: u64,
    /// Entries written.
    pub writes: u64,
}

/// Dynamic energy of a run, in picojoules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Energy {
    /// For each structure, in the order of first use: energy of searches and energy of writes.
    pub structures: Vec<(String, f64, f64)>,
    /// Energy of reading page tables.
    pub walks: f64,
    /// Energy of reading range tables.
    pub range_walks: f64,
    /// Additional energy of page-table reads if all of them missed the level-1 data cache and hit the second level; not
    /// part of the total. `None` if the table has no price for it.
    pub walks_beyond: Option<f64>,
}

impl Energy {
    /// Total energy.
    pub fn total(&self) -> f64 {
        self.structures.iter().map(|(_, read, write)| read + write).sum::<f64>()
            + self.walks
            + self.range_walks
    }
}

/// All energy tables. To add a table, add a line.
const TABLES: &[(&str, &str)] = &[("karakostas_32nm", include_str!("../energy/karakostas_32nm.toml"))];

impl EnergyTable {
    /// The table with this name.
    pub fn named(name: &str) -> Result<EnergyTable, EnergyError> {
        match TABLES.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => EnergyTable::from_toml(name, text),
            None => {
                let known: Vec<&str> = TABLES.iter().map(|&(name, _)| name).collect();
                Err(EnergyError::Unknown { name: name.to_owned(), choice: names::choice(name, &known) })
            }
        }
    }

    /// Reads a table; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<EnergyTable, EnergyError> {
        let wrong = |why: String| EnergyError::Table { file: file.to_owned(), why };
        let parsed: File =
            toml::from_str(text).map_err(|error| wrong(names::with_closest(error.to_string().trim_end())))?;
        if parsed.schema != 1 {
            return Err(wrong(format!("schema = {}: this version reads schema = 1", parsed.schema)));
        }
        let mut structures = BTreeMap::new();
        for FileStructure { kind, entries, ways, read, write, leakage } in parsed.structure {
            if [read, write, leakage].iter().any(|price| !(0.0..=1e9).contains(price)) {
                return Err(wrong(format!(
                    "{kind} of {entries} entries and {ways} ways: prices are from 0 to 1e9"
                )));
            }
            let price = StructureEnergy { read, write, leakage };
            if structures.insert((kind, entries, ways), price).is_some() {
                return Err(wrong(format!("{kind} of {entries} entries and {ways} ways is there twice")));
            }
        }
        let mut caches = structures.iter().filter(|((kind, ..), _)| *kind == Structure::Cache);
        let (Some((_, &cache)), None) = (caches.next(), caches.next()) else {
            return Err(wrong(
                "one [[structure]] has kind = \"cache\": the level-1 data cache, which walks read".to_owned(),
            ));
        };
        let second_cache = parsed.second_cache_read;
        if second_cache.is_some_and(|price| !(0.0..=1e9).contains(&price)) {
            return Err(wrong("second_cache_read: prices are from 0 to 1e9".to_owned()));
        }
        Ok(EnergyTable { name: parsed.name, title: parsed.title, structures, cache, second_cache })
    }

    /// The prices of a structure of the given kind and size.
    pub fn of(
        &self,
        name: &str,
        kind: Structure,
        entries: u32,
        ways: u32,
    ) -> Result<StructureEnergy, EnergyError> {
        self.structures.get(&(kind, entries, ways)).copied().ok_or_else(|| {
            let known = self.structures.keys().filter(|(of, ..)| *of == kind);
            let known: Vec<String> =
                known.map(|(_, entries, ways)| format!("{entries} entries of {ways} ways")).collect();
            EnergyError::Missing {
                table: self.name.clone(),
                kind,
                entries,
                ways,
                structure: name.to_owned(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            }
        })
    }

    /// The energy of a run, from the operations of its structures, the page-table entries that walks read, and the
    /// lines of range tables that were read.
    pub fn energy(
        &self,
        uses: &[Use],
        walk_references: u64,
        range_lines: u64,
    ) -> Result<Energy, EnergyError> {
        let mut energy = Energy {
            walks: walk_references as f64 * self.cache.read,
            range_walks: range_lines as f64 * self.cache.read,
            walks_beyond: self.second_cache.map(|read| walk_references as f64 * read),
            ..Energy::default()
        };
        for used in uses {
            let price = self.of(&used.name, used.kind, used.entries, used.ways)?;
            let (read, write) = (used.reads as f64 * price.read, used.writes as f64 * price.write);
            match energy.structures.iter_mut().find(|(name, ..)| *name == used.name) {
                Some((_, reads, writes)) => (*reads, *writes) = (*reads + read, *writes + write),
                None => energy.structures.push((used.name.clone(), read, write)),
            }
        }
        Ok(energy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> EnergyTable {
        EnergyTable::named("karakostas_32nm").unwrap()
    }

    /// Karakostas 2016, table 5.5: shares of lookups, in per cent, of TLB_Lite's two arrays and of RMM_Lite's, with 4,
    /// 2 and 1 ways on.
    const WAYS: [(&str, [[f64; 3]; 3]); 8] = [
        ("astar", [[39.6, 57.2, 3.2], [96.7, 3.3, 0.0], [0.0, 0.1, 99.9]]),
        ("cactusADM", [[22.8, 24.0, 53.2], [14.6, 11.9, 73.5], [0.1, 0.1, 99.9]]),
        ("GemsFDTD", [[42.9, 44.9, 12.2], [54.4, 41.7, 4.0], [2.3, 0.4, 97.4]]),
        ("mcf", [[25.8, 26.7, 47.5], [97.8, 1.7, 0.5], [0.0, 0.0, 100.0]]),
        ("omnetpp", [[100.0, 0.0, 0.0], [100.0, 0.0, 0.0], [99.3, 0.7, 0.0]]),
        ("zeusmp", [[45.5, 43.5, 11.1], [86.6, 13.3, 0.1], [0.0, 0.0, 100.0]]),
        ("mummer", [[32.8, 67.2, 0.0], [98.4, 0.5, 1.0], [7.8, 79.4, 12.9]]),
        ("canneal", [[100.0, 0.0, 0.0], [100.0, 0.0, 0.0], [97.5, 2.5, 0.0]]),
    ];

    /// The energy of a lookup of level 1 that follows from table 5.5 and table 5.2, against THP's, in per cent.
    #[test]
    fn table_5_5_times_table_5_2() {
        let of = |entries: u32, ways: u32| table().of("l1", Structure::PageTlb, entries, ways).unwrap().read;
        let pages = [of(64, 4), of(32, 2), of(16, 1)];
        let huge = [of(32, 4), of(16, 2), of(8, 1)];
        let range = table().of("r", Structure::RangeTlb, 4, 4).unwrap().read;
        let thp = pages[0] + huge[0];
        assert_eq!(thp, 10.666);
        let mean = |shares: [f64; 3], prices: [f64; 3]| {
            shares.iter().zip(prices).map(|(share, price)| share / 100.0 * price).sum::<f64>()
        };
        let lite = |[four_k, two_m, _]: [[f64; 3]; 3]| mean(four_k, pages) + mean(two_m, huge);
        let rmm_lite = |[.., four_k]: [[f64; 3]; 3]| mean(four_k, pages) + range;
        let against = |energy: f64| ((energy / thp - 1.0) * 1000.0).round() / 10.0;
        let found = WAYS.map(|(_, ways)| [against(lite(ways)), against(rmm_lite(ways))]);
        let derived = [
            [-23.9, -76.5],
            [-67.6, -76.5],
            [-37.0, -75.4],
            [-33.7, -76.5],
            [0.0, -28.3],
            [-25.7, -76.5],
            [-25.7, -63.9],
            [0.0, -29.0],
        ];
        assert_eq!(found, derived);
        let means = [0, 1].map(|at| derived.iter().map(|row| row[at]).sum::<f64>() / 8.0);
        assert!((means[0] + 26.7).abs() < 0.06 && (means[1] + 62.8).abs() < 0.06, "{means:?}");
    }

    #[test]
    fn operations_are_priced_by_the_ways_that_were_on() {
        let used = |ways: u32, reads, writes| Use {
            name: "l1".into(),
            kind: Structure::PageTlb,
            entries: 16 * ways,
            ways,
            reads,
            writes,
        };
        let energy = table().energy(&[used(4, 10, 1), used(1, 100, 0)], 2, 4).unwrap();
        assert_eq!(energy.structures, [("l1".to_owned(), 10.0 * 5.865 + 100.0 * 0.697, 6.858)]);
        assert_eq!((energy.walks, energy.range_walks), (2.0 * 174.171, 4.0 * 174.171));
        let sum = energy.structures[0].1 + energy.structures[0].2 + energy.walks + energy.range_walks;
        assert_eq!(energy.total(), sum);
    }

    #[test]
    fn what_a_table_lacks_is_named_with_what_it_has() {
        let missing = table().of("l2", Structure::PageTlb, 1536, 12).unwrap_err().to_string();
        for part in
            ["karakostas_32nm", "page_tlb of 1536 entries and 12 ways", "`l2`", "512 entries of 4 ways"]
        {
            assert!(missing.contains(part), "{missing}");
        }
        assert!(EnergyTable::named("x").unwrap_err().to_string().contains("karakostas_32nm"));
        let wrong =
            EnergyTable::from_toml("t.toml", "schema = 1\nname = \"t\"\ntitle = \"t\"\nstructure = []\n");
        assert!(wrong.unwrap_err().to_string().contains("kind = \"cache\""));
    }
}
