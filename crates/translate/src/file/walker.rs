//! The `[walker]` of a machine file.

use super::{FileReplacement, replacement, set_index};
use crate::{HashedSpec, MachineError, RadixFormat, RadixSpec, WalkCacheSpec, WalkLevel, WalkerSpec};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_units::Paging;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The keys of all kinds, so that the parser can name the line of a wrong one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileWalker {
    kind: FileWalkerKind,
    format: Option<String>,
    levels: Option<u8>,
    caches: Option<BTreeMap<String, FileCache>>,
    buckets: Option<u32>,
    entries_per_bucket: Option<u32>,
    index: Option<String>,
    refill_cycles: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileWalkerKind {
    Radix,
    Hashed,
    Software,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCache {
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
}

impl FileWalker {
    /// The walker, the machine's page sizes, and the cycles of a refill by software.
    pub(super) fn check(
        self,
        file: &str,
        paging: Option<Paging>,
    ) -> Result<(WalkerSpec, Paging, Option<u64>), MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        self.check_keys().map_err(rule)?;
        let pages = paging.unwrap_or(Paging::FOUR_KIB);
        match self.kind {
            FileWalkerKind::Radix => {
                let format = radix_format(self.format.as_deref()).map_err(rule)?;
                let own = format.paging();
                if paging.is_some_and(|paging| paging != own) {
                    return Err(rule(format!(
                        "paging: a radix walker of format `{format}` has pages of {own}: leave [paging] out, or \
                         choose another `walker.format`"
                    )));
                }
                let levels = radix_levels(format, self.levels).map_err(rule)?;
                let caches = radix_caches(file, format, levels, self.caches.unwrap_or_default())?;
                Ok((WalkerSpec::Radix(RadixSpec { format, levels, caches }), own, None))
            }
            FileWalkerKind::Hashed => {
                let (Some(buckets), Some(entries_per_bucket)) = (self.buckets, self.entries_per_bucket)
                else {
                    return Err(rule(
                        "walker: kind = \"hashed\" needs `buckets` and `entries_per_bucket`".to_owned(),
                    ));
                };
                if entries_per_bucket == 0 {
                    return Err(rule("walker: entries_per_bucket = 0: at least 1 is needed".to_owned()));
                }
                let buckets = Geometry::new(buckets, Some(1)).map_err(|why| {
                    rule(format!("walker: buckets = {buckets}, as an array of one way: {why}"))
                })?;
                let index = set_index(self.index.as_deref(), SetIndex::XorFold)
                    .map_err(|why| rule(format!("walker: {why}")))?;
                Ok((WalkerSpec::Hashed(HashedSpec { buckets, entries_per_bucket, index }), pages, None))
            }
            FileWalkerKind::Software => {
                let Some(cycles) = self.refill_cycles else {
                    return Err(rule(
                        "walker: kind = \"software\" needs `refill_cycles`, the price of a refill".to_owned(),
                    ));
                };
                Ok((WalkerSpec::Software, pages, Some(cycles)))
            }
        }
    }

    /// Names a key that belongs to another kind.
    fn check_keys(&self) -> Result<(), String> {
        let (kind, own): (&str, &[&str]) = match self.kind {
            FileWalkerKind::Radix => ("radix", &["format", "levels", "caches"]),
            FileWalkerKind::Hashed => ("hashed", &["buckets", "entries_per_bucket", "index"]),
            FileWalkerKind::Software => ("software", &["refill_cycles"]),
        };
        let given = [
            ("format", self.format.is_some()),
            ("levels", self.levels.is_some()),
            ("caches", self.caches.is_some()),
            ("buckets", self.buckets.is_some()),
            ("entries_per_bucket", self.entries_per_bucket.is_some()),
            ("index", self.index.is_some()),
            ("refill_cycles", self.refill_cycles.is_some()),
        ];
        match given.into_iter().find(|(key, given)| *given && !own.contains(key)) {
            Some((key, _)) => {
                Err(format!("walker: kind = \"{kind}\" has no `{key}`: its keys are `{}`", own.join("`, `")))
            }
            None => Ok(()),
        }
    }
}

fn radix_format(name: Option<&str>) -> Result<RadixFormat, String> {
    let Some(name) = name else { return Ok(RadixFormat::default()) };
    RadixFormat::from_name(name).ok_or_else(|| {
        let names = RadixFormat::ALL.map(RadixFormat::name).join(", ");
        format!("walker: format = \"{name}\": choose from {names}")
    })
}

fn radix_levels(format: RadixFormat, levels: Option<u8>) -> Result<u8, String> {
    let choices = format.levels();
    match (levels, choices) {
        (Some(levels), _) if choices.contains(&levels) => Ok(levels),
        (None, &[only]) => Ok(only),
        _ => {
            let said = levels.map_or("levels is missing".to_owned(), |levels| format!("levels = {levels}"));
            let choices: Vec<String> = choices.iter().map(u8::to_string).collect();
            Err(format!("walker: {said}: with format `{format}` choose {}", choices.join(" or ")))
        }
    }
}

fn radix_caches(
    file: &str,
    format: RadixFormat,
    levels: u8,
    caches: BTreeMap<String, FileCache>,
) -> Result<BTreeMap<WalkLevel, WalkCacheSpec>, MachineError> {
    let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
    let named = |(name, cache): (String, FileCache)| {
        let mut upper = format.upper_levels(levels);
        let Some(level) = upper.find(|&level| format.level_name(level) == name) else {
            let names: Vec<&str> =
                format.upper_levels(levels).map(|level| format.level_name(level)).collect();
            return Err(rule(format!(
                "walker cache `{name}`: a table of format `{format}` with {levels} levels has `{}`",
                names.join("`, `")
            )));
        };
        let geometry = Geometry::new(cache.entries, cache.ways)
            .map_err(|why| MachineError::CacheGeometry { file: file.to_owned(), cache: name.clone(), why })?;
        let replacement = replacement(cache.replacement, cache.seed, geometry)
            .map_err(|why| rule(format!("walker cache `{name}`: {why}")))?;
        Ok((level, WalkCacheSpec { geometry, replacement }))
    };
    caches.into_iter().map(named).collect()
}
