//! One `[[tlb]]` of a machine file.

use super::data_side::FileCoalesce;
use super::{FileReplacement, organisation, replacement};
use crate::{Fills, KindSet, MachineError, ReplacementSource, TlbSpec, WalkCacheSpec};
use pagewalk_setassoc::Geometry;
use pagewalk_units::{Kind, PageSize};
use serde::Deserialize;

// Many fields: one for each key of `[[tlb]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTlb {
    name: String,
    level: u8,
    serves: Vec<FileKind>,
    page_sizes: Vec<String>,
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    reserved: u32,
    pages_per_entry: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
    replacement_source: Option<String>,
    index: Option<String>,
    #[serde(default)]
    fills: Fills,
    #[serde(default)]
    shared: bool,
    prefetch: Option<FilePrefetch>,
    coalesce: Option<FileCoalesce>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePrefetch {
    #[expect(dead_code, reason = "there is one kind; parsing it rejects any other name")]
    kind: FilePrefetchKind,
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FilePrefetchKind {
    NextPage,
}

impl FilePrefetch {
    fn check(self) -> Result<WalkCacheSpec, String> {
        let geometry = Geometry::new(self.entries, self.ways).map_err(|why| why.to_string())?;
        let replacement = replacement(self.replacement, self.seed, geometry)?;
        Ok(WalkCacheSpec { geometry, replacement })
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileKind {
    Fetch,
    Load,
    Store,
}

impl FileTlb {
    pub(super) fn check(self, file: &str) -> Result<TlbSpec, MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        let name = self.name.clone();
        if !(1..=3).contains(&self.level) {
            return Err(rule(format!("tlb `{name}`: level = {}: choose 1, 2 or 3", self.level)));
        }
        let serves = self.serves.iter().fold(KindSet::default(), |set, kind| {
            set.with(match kind {
                FileKind::Fetch => Kind::Fetch,
                FileKind::Load => Kind::Load,
                FileKind::Store => Kind::Store,
            })
        });
        if self.level == 1 && self.fills == Fills::Victims {
            return Err(rule(format!(
                "tlb `{name}`: fills = \"victims\" needs a level above: choose level 2 or 3, or fills = \"walks\""
            )));
        }
        if self.level == 1 && self.shared {
            return Err(rule(format!(
                "tlb `{name}`: shared = true: a core's first level is its own; share arrays of level 2 or 3"
            )));
        }
        if self.serves.is_empty() {
            return Err(rule(format!("tlb `{name}`: serves = []: choose from fetch, load, store")));
        }
        let page_sizes = self.page_sizes().map_err(|why| rule(format!("tlb `{name}`: {why}")))?;
        let geometry = self.geometry(file, &name)?;
        let replacement = replacement(self.replacement, self.seed, geometry);
        let replacement = replacement.map_err(|why| rule(format!("tlb `{name}`: {why}")))?;
        let source = self.replacement_source.as_deref().map(ReplacementSource::read).transpose();
        let replacement_source = source.map_err(|why| rule(format!("tlb `{name}`: {why}")))?;
        let index =
            organisation(self.index.as_deref()).map_err(|why| rule(format!("tlb `{name}`: {why}")))?;
        let prefetch = self.prefetch.map(FilePrefetch::check).transpose();
        let prefetch = prefetch.map_err(|why| rule(format!("tlb `{name}`: prefetch: {why}")))?;
        Ok(TlbSpec {
            name,
            level: self.level,
            serves,
            page_sizes,
            geometry,
            reserved: self.reserved,
            pages_per_entry: self.pages_per_entry.unwrap_or(1),
            replacement,
            replacement_source,
            index,
            fills: self.fills,
            shared: self.shared,
            prefetch,
            coalesce: self.coalesce.map(FileCoalesce::rule),
        })
    }

    fn page_sizes(&self) -> Result<Vec<PageSize>, String> {
        let mut sizes = Vec::new();
        for text in &self.page_sizes {
            let size: PageSize = text.parse().map_err(|e| format!("page_sizes: {e}"))?;
            if sizes.contains(&size) {
                return Err(format!("page_sizes: {size} is named twice"));
            }
            sizes.push(size);
        }
        match sizes.is_empty() {
            true => Err("page_sizes = []: name at least the base page, such as 4K".to_owned()),
            false => Ok(sizes),
        }
    }

    /// The geometry without reserved entries.
    fn geometry(&self, file: &str, name: &str) -> Result<Geometry, MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        let impossible = |why| MachineError::TlbGeometry { file: file.to_owned(), tlb: name.to_owned(), why };
        let whole = Geometry::new(self.entries, self.ways).map_err(impossible)?;
        Ok(match self.reserved {
            0 => whole,
            reserved if whole.sets() > 1 => {
                let sets = whole.sets();
                return Err(rule(format!(
                    "tlb `{name}`: reserved = {reserved} with {sets} sets: only a fully associative array (no \
                     `ways`) can reserve entries"
                )));
            }
            reserved if reserved >= self.entries => {
                let entries = self.entries;
                return Err(rule(format!(
                    "tlb `{name}`: reserved = {reserved} of {entries} entries: leave at least one to fill"
                )));
            }
            reserved => Geometry::new(self.entries - reserved, None).map_err(impossible)?,
        })
    }
}
