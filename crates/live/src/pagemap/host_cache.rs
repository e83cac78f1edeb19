//! The private second-level cache of this host, as the kernel describes it in `/sys/devices/system/cpu/cpu0/cache`.

use pagewalk_units::processors::listed;
use std::fs;
use std::path::Path;

/// A cache of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCache {
    /// Its bytes.
    pub bytes: u64,
    /// Its ways.
    pub ways: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
}

/// Why this host's cache is unknown or has no colors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostCacheError {
    /// The kernel does not describe it.
    #[error("the kernel does not describe a second-level cache for data in {0}")]
    Unknown(String),
    /// Not private.
    #[error(
        "processors {0} of several cores share the second-level cache: only a private one surely finds its lines by \
         the frame alone, and has one program's pages at a time"
    )]
    Shared(String),
}

impl HostCache {
    /// The second-level cache of the first processor.
    ///
    /// # Errors
    /// If the kernel does not describe it, or several cores share it.
    pub fn second_level() -> Result<HostCache, HostCacheError> {
        HostCache::read(Path::new("/sys/devices/system/cpu/cpu0"))
    }

    fn read(cpu: &Path) -> Result<HostCache, HostCacheError> {
        let unknown = || HostCacheError::Unknown(cpu.join("cache").display().to_string());
        let text = |name: &str| fs::read_to_string(cpu.join(name)).ok().map(|text| text.trim().to_owned());
        let of = |index: usize, name: &str| text(&format!("cache/index{index}/{name}"));
        let is_second = |index: &usize| {
            of(*index, "level").as_deref() == Some("2")
                && of(*index, "type").is_some_and(|kind| kind == "Unified" || kind == "Data")
        };
        let index = (0..16).find(is_second).ok_or_else(unknown)?;
        let number = |name: &str| of(index, name)?.parse().ok().filter(|&number: &u64| number > 0);
        let kib =
            || of(index, "size")?.strip_suffix('K')?.parse().ok().and_then(|kib: u64| kib.checked_mul(1024));
        let shared = of(index, "shared_cpu_list").unwrap_or_default();
        // The other threads of the core.
        let core = text("topology/thread_siblings_list").unwrap_or_default();
        let is_private = |core| listed(&shared).is_none_or(|shared| shared.is_subset(&core));
        if !listed(&core).is_none_or(is_private) {
            return Err(HostCacheError::Shared(shared));
        }
        Ok(HostCache {
            bytes: kib().ok_or_else(unknown)?,
            ways: number("ways_of_associativity").ok_or_else(unknown)?,
            line_bytes: number("coherency_line_size").ok_or_else(unknown)?,
        })
    }

    /// The colors of pages of this size: those that fit into a way.
    pub fn colors(&self, page_bytes: u64) -> u64 {
        (self.bytes / self.ways).div_ceil(page_bytes).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(shared: &str, core: &str) -> Result<HostCache, HostCacheError> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        write("topology/thread_siblings_list", core);
        for (index, level, kind) in
            [(0, "1", "Data"), (1, "1", "Instruction"), (2, "2", "Unified"), (3, "3", "Unified")]
        {
            let facts =
                [("level", level), ("type", kind), ("size", "2048K"), ("ways_of_associativity", "16")];
            for (name, text) in
                facts.into_iter().chain([("coherency_line_size", "64"), ("shared_cpu_list", shared)])
            {
                write(&format!("cache/index{index}/{name}"), text);
            }
        }
        HostCache::read(folder.path())
    }

    #[test]
    fn a_private_cache_has_a_color_for_each_page_of_a_way() {
        let cache = host("0,32", "0,32").unwrap();
        assert_eq!(cache, HostCache { bytes: 2 << 20, ways: 16, line_bytes: 64 });
        assert_eq!((cache.colors(4096), cache.colors(1 << 21)), (32, 1));
    }

    #[test]
    fn a_cache_that_cores_share_or_nobody_describes_has_none() {
        let error = host("0-3", "0-1").unwrap_err();
        assert!(matches!(&error, HostCacheError::Shared(list) if list == "0-3"), "{error}");
        assert!(matches!(HostCache::read(Path::new("/nowhere")), Err(HostCacheError::Unknown(_))));
    }
}
