//! The `[walker]` of a machine file.

use super::software::FileSoftware;
use super::{FileReplacement, replacement, set_index};
use crate::{
    HashedSpec, MachineError, NestedSpec, NestedTlbSpec, RadixFormat, RadixSpec, WalkCacheSpec, WalkLevel,
    WalkerSpec,
};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_units::{PageSize, Paging};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The keys of all kinds, so that the parser can report the line of a wrong one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileWalker {
    kind: FileWalkerKind,
    format: Option<String>,
    levels: Option<u8>,
    caches: Option<BTreeMap<String, FileCache>>,
    host: Option<FileHost>,
    nested_tlb: Option<FileNestedTlb>,
    entry_cache: Option<FileCache>,
    buckets: Option<u32>,
    entries_per_bucket: Option<u32>,
    index: Option<String>,
    refill_cycles: Option<u64>,
    mapped: Option<FileSoftware>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileWalkerKind {
    Radix,
    Nested,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHost {
    format: Option<String>,
    levels: Option<u8>,
    page_size: String,
    #[serde(default)]
    caches: BTreeMap<String, FileCache>,
}

/// [`FileCache`] with one more key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNestedTlb {
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
    #[serde(default)]
    serves_pages: bool,
}

impl FileCache {
    /// The cache; `name` is its name in messages.
    fn check(self, file: &str, name: &str) -> Result<WalkCacheSpec, MachineError> {
        let geometry = Geometry::new(self.entries, self.ways).map_err(|why| MachineError::CacheGeometry {
            file: file.to_owned(),
            cache: name.to_owned(),
            why,
        })?;
        let replacement = replacement(self.replacement, self.seed, geometry);
        let replacement = replacement.map_err(|why| MachineError::Rule {
            file: file.to_owned(),
            why: format!("walker cache `{name}`: {why}"),
        })?;
        Ok(WalkCacheSpec { geometry, replacement })
    }
}

impl FileNestedTlb {
    fn check(self, file: &str) -> Result<NestedTlbSpec, MachineError> {
        let FileNestedTlb { entries, ways, replacement, seed, serves_pages } = self;
        let cache = FileCache { entries, ways, replacement, seed }.check(file, NestedSpec::NESTED_TLB)?;
        Ok(NestedTlbSpec { cache, serves_pages })
    }
}

impl FileHost {
    /// The host's table and its page size, for a guest with these pages.
    fn check(self, file: &str, guest: Paging) -> Result<(RadixSpec, PageSize), MachineError> {
        let rule =
            |why: String| MachineError::Rule { file: file.to_owned(), why: format!("walker.host: {why}") };
        let format = radix_format(self.format.as_deref()).map_err(rule)?;
        let levels = radix_levels(format, self.levels).map_err(rule)?;
        let page: PageSize = self.page_size.parse().map_err(|why| rule(format!("page_size: {why}")))?;
        let sizes = format.page_sizes(levels);
        // A TLB entry maps the smaller of the guest's and the host's page.
        let fits = |&size: &PageSize| size == guest.base() || size >= guest.huge();
        if !sizes.contains(&page) || !fits(&page) {
            let choices: Vec<String> = sizes.into_iter().filter(fits).map(|size| size.to_string()).collect();
            return Err(rule(format!(
                "page_size = \"{page}\": with pages of {guest} in the guest choose from {}",
                choices.join(", ")
            )));
        }
        let caches = radix_caches(file, format, levels, self.caches)?;
        Ok((RadixSpec { format, levels, caches }, page))
    }
}

impl FileWalker {
    /// Takes the mapped page tables, if any: checking them needs the TLB.
    pub(super) fn take_mapped(&mut self) -> Result<Option<FileSoftware>, String> {
        self.check_keys()?;
        if self.mapped.is_some() && self.refill_cycles.is_some() {
            return Err("walker: `refill_cycles` is one price for all refills, [walker.mapped] has one for each class: \
                        give one of them"
                .to_owned());
        }
        Ok(self.mapped.take())
    }

    /// The walker, the machine's page sizes, and the cycles of a software refill. With `mapped` tables each class of
    /// refills has its own price, and none is needed here.
    pub(super) fn check(
        self,
        file: &str,
        paging: Option<Paging>,
        mapped: bool,
    ) -> Result<(WalkerSpec, Paging, Option<u64>), MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        let pages = paging.unwrap_or(Paging::FOUR_KIB);
        match self.kind {
            FileWalkerKind::Radix => {
                let (radix, own) = self.radix(file, paging)?;
                Ok((WalkerSpec::Radix(radix), own, None))
            }
            FileWalkerKind::Nested => self.nested(file, paging),
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
            FileWalkerKind::Software if mapped => Ok((WalkerSpec::Software, pages, Some(0))),
            FileWalkerKind::Software => {
                let Some(cycles) = self.refill_cycles else {
                    return Err(rule(
                        "walker: kind = \"software\" needs `refill_cycles`, the price of a refill, or [walker.mapped]"
                            .to_owned(),
                    ));
                };
                Ok((WalkerSpec::Software, pages, Some(cycles)))
            }
        }
    }

    /// The radix table from the walker's own keys, and its page sizes.
    fn radix(self, file: &str, paging: Option<Paging>) -> Result<(RadixSpec, Paging), MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        let format = radix_format(self.format.as_deref()).map_err(rule)?;
        let own = format.paging();
        if paging.is_some_and(|paging| paging != own) {
            return Err(rule(format!(
                "paging: a radix walker of format `{format}` has pages of {own}: leave [paging] out, or choose \
                 another `walker.format`"
            )));
        }
        let levels = radix_levels(format, self.levels).map_err(rule)?;
        let caches = radix_caches(file, format, levels, self.caches.unwrap_or_default())?;
        Ok((RadixSpec { format, levels, caches }, own))
    }

    fn nested(
        mut self,
        file: &str,
        paging: Option<Paging>,
    ) -> Result<(WalkerSpec, Paging, Option<u64>), MachineError> {
        let (host, nested_tlb, entry_cache) =
            (self.host.take(), self.nested_tlb.take(), self.entry_cache.take());
        let (guest, own) = self.radix(file, paging)?;
        let host = host.ok_or_else(|| MachineError::Rule {
            file: file.to_owned(),
            why: "walker: kind = \"nested\" needs [walker.host] with `levels` and `page_size`".to_owned(),
        })?;
        let (host, host_page) = host.check(file, own)?;
        let nested = NestedSpec {
            guest,
            host,
            host_page,
            nested_tlb: nested_tlb.map(|tlb| tlb.check(file)).transpose()?,
            entry_cache: entry_cache.map(|cache| cache.check(file, NestedSpec::ENTRY_CACHE)).transpose()?,
        };
        Ok((WalkerSpec::Nested(nested), own, None))
    }

    /// Refuses keys that belong to another kind.
    fn check_keys(&self) -> Result<(), String> {
        let (kind, own): (&str, &[&str]) = match self.kind {
            FileWalkerKind::Radix => ("radix", &["format", "levels", "caches"]),
            FileWalkerKind::Nested => {
                ("nested", &["format", "levels", "caches", "host", "nested_tlb", "entry_cache"])
            }
            FileWalkerKind::Hashed => ("hashed", &["buckets", "entries_per_bucket", "index"]),
            FileWalkerKind::Software => ("software", &["refill_cycles", "mapped"]),
        };
        let given = [
            ("format", self.format.is_some()),
            ("levels", self.levels.is_some()),
            ("caches", self.caches.is_some()),
            ("host", self.host.is_some()),
            ("nested_tlb", self.nested_tlb.is_some()),
            ("entry_cache", self.entry_cache.is_some()),
            ("buckets", self.buckets.is_some()),
            ("entries_per_bucket", self.entries_per_bucket.is_some()),
            ("index", self.index.is_some()),
            ("refill_cycles", self.refill_cycles.is_some()),
            ("mapped", self.mapped.is_some()),
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
        Ok((level, cache.check(file, &name)?))
    };
    caches.into_iter().map(named).collect()
}
