//! Where objects of a plan lie in a process, by its mappings.

use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{Pid, map};
use pagewalk_layout::files::Object;
use pagewalk_units::PAGE_BYTES;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// An object of the plan in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Where it was to lie, in this process.
    pub planned: u64,
    /// Where it lies, if it is loaded.
    pub actual: Option<u64>,
    /// What became of it.
    pub state: State,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The process has not loaded it.
    NotLoaded,
    /// It lies at its place.
    Landed,
    /// It lies elsewhere, for this reason.
    Elsewhere(String),
}

impl State {
    /// One word for tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            State::NotLoaded => "not loaded",
            State::Landed => "landed",
            State::Elsewhere(_) => "elsewhere",
        }
    }
}

/// Where the objects lie in a process that has mappings; none if those cannot be read.
pub fn landings(pid: Pid, objects: &[Object], slid_bytes: u64) -> Option<Vec<Landing>> {
    let mappings = maps::mappings(pid).ok().filter(|mappings| !mappings.is_empty())?;
    let bases = bases(pid, &mappings);
    let landing = |object: &Object| {
        let planned = object.base + slid_bytes;
        let bases = bases.get(&(object.device, object.inode)).map_or(&[][..], Vec::as_slice);
        let state = if bases.is_empty() {
            State::NotLoaded
        } else if bases.contains(&planned) {
            State::Landed
        } else {
            State::Elsewhere(reason(&mappings, object, planned))
        };
        let actual = bases.iter().find(|&&base| base == planned).or(bases.first()).copied();
        Landing { planned, actual, state }
    };
    Some(objects.iter().map(landing).collect())
}

/// The first addresses of all objects with code in a process, by device and number of their files.
fn bases(pid: Pid, mappings: &[Mapping]) -> HashMap<(u64, u64), Vec<u64>> {
    let mut bases: HashMap<(u64, u64), Vec<u64>> = HashMap::new();
    let mut first: Option<&Mapping> = None;
    let mut seen = None;
    for mapping in mappings.iter().filter(|mapping| mapping.inode != 0) {
        if mapping.offset == 0 {
            first = Some(mapping);
        }
        // A file without code is mapped as data, wherever the process likes.
        let Some(begin) = first.filter(|first| first.name == mapping.name) else { continue };
        if mapping.protection & map::EXEC == 0 || seen == Some(begin.start) {
            continue;
        }
        seen = Some(begin.start);
        // By its name in the process's own file tree: some file systems give other numbers in `maps` than in `stat`.
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

/// The first mapping that has a byte of a range.
pub fn overlapping(mappings: &[Mapping], start: u64, bytes: u64) -> Option<&Mapping> {
    mappings.iter().find(|mapping| mapping.start < start + bytes && mapping.end > start)
}

/// A mapping for people.
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

    fn state(object: &Object, slid_bytes: u64) -> Landing {
        landings(std::process::id() as Pid, std::slice::from_ref(object), slid_bytes).unwrap().remove(0)
    }

    #[test]
    fn an_object_is_found_where_it_lies() {
        let (object, start) = this_program();
        assert_eq!(state(&object, 0), Landing { planned: start, actual: Some(start), state: State::Landed });
        let below = Object { base: start - 4096, ..object.clone() };
        assert_eq!(state(&below, 4096).state, State::Landed, "moved up");
    }

    #[test]
    fn an_object_elsewhere_has_a_reason() {
        let (object, start) = this_program();
        let stack = maps::mappings(std::process::id() as Pid).unwrap();
        let stack = stack.iter().find(|mapping| mapping.name == "[stack]").unwrap().start;
        let taken = state(&Object { base: stack, ..object.clone() }, 0);
        assert_eq!(taken.actual, Some(start));
        assert!(
            matches!(&taken.state, State::Elsewhere(why) if why.contains("taken by [stack]")),
            "{taken:?}"
        );
        let aligned = state(&Object { base: 1 << 35, alignment: 1 << 21, ..object.clone() }, 0);
        assert!(matches!(&aligned.state, State::Elsewhere(why) if why.contains("2048 KiB")), "{aligned:?}");
        let free = state(&Object { base: 1 << 35, ..object }, 0);
        assert!(matches!(&free.state, State::Elsewhere(why) if why.contains("free now")), "{free:?}");
    }

    #[test]
    fn an_object_that_is_not_loaded_lies_nowhere() {
        let (object, _) = this_program();
        let other = Object { inode: 0, path: PathBuf::new(), ..object };
        assert_eq!((state(&other, 0).actual, state(&other, 0).state), (None, State::NotLoaded));
    }
}
