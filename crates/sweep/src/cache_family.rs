//! Families of caches in studies: which to report, and what their simulation counts.

use crate::selection::{self, Names, Numbers};
use crate::study::{SERVES, serves_name};
use pagewalk_report::sweep::schema::CacheFamilyCell;
use pagewalk_reuse::{CacheFamily, MissKinds, ReferenceKinds};
use pagewalk_sim::{GrainError, check_grain_of_caches};
use pagewalk_trace::Grain;
use serde::{Deserialize, Serialize};

/// A `[cache_family]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileCacheFamily {
    serves: Option<Names>,
    line_bytes: Option<Numbers>,
    sets: Option<Numbers>,
    ways: Option<Numbers>,
}

/// Which caches of the family to report. All with these line sizes are simulated anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFamilySpec {
    /// What the caches see: a family for each.
    pub serves: Vec<ReferenceKinds>,
    /// Bytes of a line, ascending.
    pub line_bytes: Vec<u32>,
    /// Set counts, ascending.
    pub sets: Vec<u32>,
    /// Numbers of ways, ascending.
    pub ways: Vec<u32>,
}

impl FileCacheFamily {
    pub fn check(self) -> Result<CacheFamilySpec, String> {
        let serves = self.serves.unwrap_or_else(|| Names::One("data".to_owned()));
        let powers: Vec<u32> = (0..=CacheFamily::SETS_MAX.ilog2()).map(|bits| 1 << bits).collect();
        let ways: Vec<u32> = (1..=CacheFamily::WAYS_MAX).collect();
        let lines = &CacheFamily::LINE_BYTES;
        let numbers = |key: &str, given, known: &[u32], what: &str| {
            selection::numbers(&format!("cache_family: {key}"), given, known, what)
        };
        Ok(CacheFamilySpec {
            serves: selection::several("cache_family: serves", serves.all(), &SERVES)?,
            line_bytes: numbers("line_bytes", self.line_bytes, lines, "32, 64 or 128")?,
            sets: numbers("sets", self.sets, &powers, "a power of two from 1 to 4096")?,
            ways: numbers("ways", self.ways, &ways, "from 1 to 32")?,
        })
    }
}

/// Checks that a stream of this grain has what the study's family of caches needs; fetches always have whole addresses.
pub(crate) fn check_grain(grain: Grain, family: Option<&CacheFamilySpec>) -> Result<(), GrainError> {
    let sees_data = |spec: &CacheFamilySpec| spec.serves.iter().any(|&kind| kind != ReferenceKinds::Fetches);
    match family {
        Some(spec) if sees_data(spec) => {
            check_grain_of_caches(grain, "the study has caches ([cache_family])")
        }
        _ => Ok(()),
    }
}

/// The misses of all caches of one line size, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheFamilyCounts {
    references: u64,
    compulsory: u64,
    /// Capacity and conflict misses by set count and ways; all ways for every set count.
    others: Vec<(u64, i64)>,
}

/// Caches of one line size.
const CACHES: usize = (CacheFamily::SETS_MAX.ilog2() as usize + 1) * CacheFamily::WAYS_MAX as usize;

impl CacheFamilyCounts {
    pub fn of(family: &CacheFamily, line_bytes: u32) -> CacheFamilyCounts {
        let shapes = (0..=CacheFamily::SETS_MAX.ilog2())
            .flat_map(|bits| (1..=CacheFamily::WAYS_MAX).map(move |ways| (1 << bits, ways)));
        let kinds = |(sets, ways)| family.misses(line_bytes, sets, ways).expect("of the family");
        let all: Vec<MissKinds> = shapes.map(kinds).collect();
        CacheFamilyCounts {
            references: family.references(),
            compulsory: all.first().map_or(0, |kinds| kinds.compulsory),
            others: all.iter().map(|kinds| (kinds.capacity, kinds.conflict)).collect(),
        }
    }

    /// Whether there is one for each cache, and none misses a negative number of times.
    pub fn is_whole(&self) -> bool {
        let is_possible = |&(capacity, conflict): &(u64, i64)| {
            let known =
                self.compulsory.checked_add(capacity).and_then(|full| full.checked_add_signed(conflict));
            known.is_some()
        };
        self.others.len() == CACHES && self.others.iter().all(is_possible)
    }

    /// The caches that a study reports.
    pub fn cell(
        &self,
        trace: usize,
        serves: ReferenceKinds,
        line_bytes: u32,
        spec: &CacheFamilySpec,
    ) -> CacheFamilyCell {
        let of =
            |sets: u32, ways: u32| self.others[(sets.ilog2() * CacheFamily::WAYS_MAX + ways - 1) as usize];
        let rows = |sets: &u32| spec.ways.iter().map(|&ways| of(*sets, ways)).collect::<Vec<_>>();
        let rows: Vec<Vec<(u64, i64)>> = spec.sets.iter().map(rows).collect();
        CacheFamilyCell {
            trace,
            serves: serves_name(serves).to_owned(),
            line_bytes,
            references: self.references,
            sets: spec.sets.clone(),
            ways: spec.ways.clone(),
            compulsory: self.compulsory,
            capacity: rows.iter().map(|row| row.iter().map(|kinds| kinds.0).collect()).collect(),
            conflict: rows.iter().map(|row| row.iter().map(|kinds| kinds.1).collect()).collect(),
        }
    }
}
