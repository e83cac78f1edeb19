//! The `[walker]` of a machine file.

use super::{FileReplacement, replacement};
use crate::{MachineError, WalkCacheSpec, WalkLevel, WalkerSpec};
use pagewalk_setassoc::Geometry;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileWalker {
    #[expect(dead_code, reason = "radix is the only walker yet; parsing it rejects any other name")]
    kind: FileWalkerKind,
    levels: u8,
    #[serde(default)]
    caches: BTreeMap<WalkLevel, FileCache>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileWalkerKind {
    Radix,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCache {
    entries: u32,
    ways: Option<u32>,
    #[serde(default)]
    replacement: FileReplacement,
    seed: Option<u64>,
}

impl FileWalker {
    pub(super) fn check(self, file: &str) -> Result<WalkerSpec, MachineError> {
        let rule = |why: String| MachineError::Rule { file: file.to_owned(), why };
        if !(4..=5).contains(&self.levels) {
            return Err(rule(format!("walker: levels = {}: choose 4 or 5", self.levels)));
        }
        let mut caches = BTreeMap::new();
        for (level, cache) in self.caches {
            if level == WalkLevel::Pml5 && self.levels == 4 {
                return Err(rule("walker cache `pml5` needs levels = 5".to_owned()));
            }
            let geometry = Geometry::new(cache.entries, cache.ways).map_err(|why| {
                MachineError::CacheGeometry { file: file.to_owned(), cache: level.key().to_owned(), why }
            })?;
            let replacement = replacement(cache.replacement, cache.seed, geometry);
            let replacement =
                replacement.map_err(|why| rule(format!("walker cache `{}`: {why}", level.key())))?;
            caches.insert(level, WalkCacheSpec { geometry, replacement });
        }
        Ok(WalkerSpec { levels: self.levels, caches })
    }
}
