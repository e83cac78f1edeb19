//! Where a plan's objects lie in a process, from its mappings.

use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{Pid, map};
use pagewalk_layout::files::Object;
use pagewalk_units::PAGE_BYTES;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A loaded object of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Its index in the plan.
    pub object: usize,
    /// Its planned address in this process.
    pub planned: u64,
    /// Its actual address.
    pub actual: u64,
    /// Whether it landed.
    pub state: State,
}

/// Whether an object landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// At its place.
    Landed,
    /// Elsewhere, and why.
    Elsewhere(String),
}

impl State {
    /// One word for tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            State::Landed => "landed",
            State::Elsewhere(_) => "elsewhere",
        }
    }
}

/// The loaded objects of a process; none if its mappings cannot be read or are gone.
pub fn landings(pid: Pid, objects: &[Object], slid_bytes: u64) -> Option<Vec<Landing>> {
    let mappings = maps::mappings(pid).ok().filter(|mappings| !mappings.is_empty())?;
    let bases = bases(pid, &mappings);
    let landing = |(position, object): (usize, &Object)| {
        let bases = bases.get(&(object.device, object.inode))?;
        let planned = object.base + slid_bytes;
        let (actual, state) = if bases.contains(&planned) {
            (planned, State::Landed)
        } else {
            (*bases.first()?, State::Elsewhere(reason(&mappings, object, planned)))
        };
        Some(Landing { object: position, planned, actual, state })
    };
    Some(objects.iter().enumerate().filter_map(landing).collect())
}

/// The first addresses of all objects with code in a process, by their files' device and inode.
fn bases(pid: Pid, mappings: &[Mapping]) -> HashMap<(u64, u64), Vec<u64>> {
    let mut bases: HashMap<(u64, u64), Vec<u64>> = HashMap::new();
    let mut first: Option<&Mapping> = None;
    let mut seen = None;
    for mapping in mappings.iter().filter(|mapping| mapping.inode != 0) {
        if mapping.offset == 0 {
            first = Some(mapping);
        }
        // A file without code is mapped as data, anywhere.
        let Some(begin) = first.filter(|first| first.name == mapping.name) else { continue };
        if mapping.protection & map::EXEC == 0 || seen == Some(begin.start) {
            continue;
        }
        seen = Some(begin.start);
        // By path in the process's file tree: some file systems report other numbers in `maps` than in `stat`.
        let path = format!("/proc/{pid}/root{}", mapping.name);
        if let Ok(file) = fs::metadata(path) {
            bases.entry((file.dev(), file.ino())).or_default().push(begin.start);
        }
    }
    bases
}

fn reason(mappings: &[Mapping], object: &Object, planned: u64) -> String {
    if let Some(other) = overlapping(mappings, planned, object.bytes) {
        return format!("the place is taken by {}", described(other));
    }
    if object.alignment > PAGE_BYTES {
        return format!(
            "its segments are aligned to {} KiB, which loaders reserve room for",
            object.alignment >> 10
        );
    }
    "the place is free now: it was taken then, or the loader did not ask".to_owned()
}

/// The first mapping that overlaps a range.
pub fn overlapping(mappings: &[Mapping], start: u64, bytes: u64) -> Option<&Mapping> {
    mappings.iter().find(|mapping| mapping.start < start + bytes && mapping.end > start)
}

/// A mapping as text.
pub fn described(mapping: &Mapping) -> String {
    let name = if mapping.name.is_empty() { "memory of its own" } else { &mapping.name };
    format!("{name} at {:#x}-{:#x}", mapping.start, mapping.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The file that holds this test's own code.
    fn this_program() -> (Object, u64) {
        let path = std::env::current_exe().and_then(fs::canonicalize).unwrap();
        let file = fs::metadata(&path).unwrap();
        let mappings = maps::mappings(std::process::id() as Pid).unwrap();
        let name = path.to_str().unwrap();
        let start = mappings.iter().find(|mapping| mapping.name == name).unwrap().start;
        let (device, inode) = (file.dev(), file.ino());
        let file = name.to_owned();
        (Object { file, path, device, inode, base: start, bytes: 4096, alignment: 4096 }, start)
    }

    fn landing(object: &Object, slid_bytes: u64) -> Option<Landing> {
        landings(std::process::id() as Pid, std::slice::from_ref(object), slid_bytes).unwrap().pop()
    }

    #[test]
    fn an_object_is_found_where_it_lies() {
        let (object, start) = this_program();
        let landed = Landing { object: 0, planned: start, actual: start, state: State::Landed };
        assert_eq!(landing(&object, 0), Some(landed.clone()));
        let below = Object { base: start - 4096, ..object };
        assert_eq!(landing(&below, 4096), Some(landed), "moved up");
    }

    #[test]
    fn an_object_elsewhere_has_a_reason() {
        let (object, start) = this_program();
        let mappings = maps::mappings(std::process::id() as Pid).unwrap();
        let stack = mappings.iter().find(|mapping| mapping.name == "[stack]").unwrap().start;
        let reason = |base, alignment| {
            let found = landing(&Object { base, alignment, ..object.clone() }, 0).unwrap();
            assert_eq!((found.planned, found.actual), (base, start));
            let State::Elsewhere(reason) = found.state else { panic!("{found:?}") };
            reason
        };
        assert!(reason(stack, 4096).contains("taken by [stack]"));
        assert!(reason(1 << 35, 1 << 21).contains("2048 KiB"));
        assert!(reason(1 << 35, 4096).contains("free now"));
    }

    #[test]
    fn an_object_that_is_not_loaded_lies_nowhere() {
        let (object, _) = this_program();
        assert_eq!(landing(&Object { inode: 0, path: PathBuf::new(), ..object }, 0), None);
    }
}
