//! Finished units of work, kept as files.
//!
//! A unit's file is named by a hash of everything that its outcome depends on, and repeats that inside: the simulating
//! program, the stream's bytes, and what was simulated. It is written under another name and then renamed, so a file
//! with a unit's name is complete unless the host crashed. Unreadable or mismatching files count as missing.

use crate::error::SweepError;
use crate::task::TaskOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::Builder;

/// Changes when the meaning of kept outcomes changes.
const SCHEMA: &str = "pagewalk.sweep.unit/1";

/// Everything that an outcome depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    schema: String,
    /// Hash of the simulating program's file.
    tool: String,
    /// Hash of the stream's file.
    trace: String,
    /// The task.
    task: String,
}

impl Key {
    /// The key of `task` over `trace` by `tool`.
    pub fn new(tool: &str, trace: &str, task: String) -> Key {
        Key { schema: SCHEMA.to_owned(), tool: tool.to_owned(), trace: trace.to_owned(), task }
    }

    /// The name of its unit's file.
    pub fn file_name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.schema, &self.tool, &self.trace, &self.task] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        format!("{}.json", &hasher.finalize().to_hex()[..32])
    }
}

#[derive(Serialize, Deserialize)]
struct StoredUnit {
    key: Key,
    outcome: TaskOutcome,
}

/// Units by the names of their files.
pub type Units = BTreeMap<String, Vec<u8>>;

/// Where units are kept.
pub enum Store {
    /// A folder, which is created with the first unit.
    Folder(PathBuf),
    /// Memory, for a process that sends its units elsewhere.
    Memory(Mutex<Units>),
}

impl Store {
    /// A store in memory with these units.
    pub fn in_memory(units: Units) -> Store {
        Store::Memory(Mutex::new(units))
    }

    /// Whether there is a unit of this name.
    pub fn has(&self, key: &Key) -> bool {
        match self {
            Store::Folder(folder) => folder.join(key.file_name()).exists(),
            Store::Memory(units) => lock(units).contains_key(&key.file_name()),
        }
    }

    /// The outcome kept under `key`, of any kind.
    pub fn get(&self, key: &Key) -> Option<TaskOutcome> {
        let kept: StoredUnit = serde_json::from_slice(&self.text(&key.file_name())?).ok()?;
        (kept.key == *key).then_some(kept.outcome)
    }

    /// The unit's file of this name.
    pub fn text(&self, name: &str) -> Option<Vec<u8>> {
        match self {
            Store::Folder(folder) => std::fs::read(folder.join(name)).ok(),
            Store::Memory(units) => lock(units).get(name).cloned(),
        }
    }

    /// Keeps an outcome.
    pub fn put(&self, key: Key, outcome: &TaskOutcome) -> Result<(), SweepError> {
        let name = key.file_name();
        let kept = StoredUnit { key, outcome: outcome.clone() };
        self.write(name, serde_json::to_vec(&kept).expect("units have string keys only"))
    }

    /// Keeps a unit that another process made. Returns whether it is one of this name.
    pub fn accept(&self, name: &str, text: Vec<u8>) -> Result<bool, SweepError> {
        let unit: Option<StoredUnit> = serde_json::from_slice(&text).ok();
        if unit.is_none_or(|unit| unit.key.file_name() != name) {
            return Ok(false);
        }
        self.write(name.to_owned(), text).map(|()| true)
    }

    fn write(&self, name: String, text: Vec<u8>) -> Result<(), SweepError> {
        match self {
            // Not forced to the disk, which takes longer than many a unit does: one that a crash of the host damages
            // is made again.
            Store::Folder(folder) => write(&folder.join(name), &text, |_| Ok(())),
            Store::Memory(units) => {
                lock(units).insert(name, text);
                Ok(())
            }
        }
    }

    /// All units in memory.
    pub fn into_units(self) -> Units {
        match self {
            Store::Folder(_) => Units::new(),
            Store::Memory(units) => units.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn lock(units: &Mutex<Units>) -> MutexGuard<'_, Units> {
    units.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Name prefix of incomplete files and folders. Unique, so that leftovers of killed runs can be identified.
pub const UNFINISHED: &str = ".pagewalk-unfinished-";

/// Writes a file so that its name never refers to a part of it, even after a crash of the host.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), SweepError> {
    write(path, bytes, File::sync_data)
}

/// The same; `before` runs before the file gets its name.
fn write(path: &Path, bytes: &[u8], before: fn(&File) -> io::Result<()>) -> Result<(), SweepError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || {
        std::fs::create_dir_all(folder)?;
        // Subject to the umask: the file is for whoever the folder is for.
        let mut builder = Builder::new();
        let mut file =
            builder.prefix(UNFINISHED).permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
        file.write_all(bytes)?;
        before(file.as_file())?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| SweepError::Folder { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_report::schema::{Metrics, Number, PartitionMove};

    fn outcome() -> TaskOutcome {
        let moved = PartitionMove { instructions: 5, lower: 9 };
        TaskOutcome::Machine(Metrics::from([("walks".to_owned(), Number::Count(7))]), vec![moved])
    }

    #[test]
    fn only_the_very_same_unit_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let units = folder.path().join("units");
        let path = |key: &Key| units.join(key.file_name());
        let store = Store::Folder(units.clone());
        let key = Key::new("tool", "trace", "task".to_owned());
        assert_eq!(store.get(&key), None);
        store.put(key.clone(), &outcome()).unwrap();
        assert_eq!(store.get(&key), Some(outcome()));
        for other in [("tool2", "trace", "task"), ("tool", "trace2", "task"), ("tool", "tracet", "ask")] {
            assert_eq!(store.get(&Key::new(other.0, other.1, other.2.to_owned())), None, "{other:?}");
        }
        // A file under another unit's name, and a truncated one.
        let other = Key::new("tool", "trace", "other".to_owned());
        std::fs::copy(path(&key), path(&other)).unwrap();
        assert_eq!(store.get(&other), None);
        let whole = std::fs::read(path(&key)).unwrap();
        std::fs::write(path(&key), &whole[..whole.len() - 1]).unwrap();
        assert_eq!(store.get(&key), None);
    }

    #[test]
    fn units_of_another_process_are_kept_under_their_own_names_alone() {
        let key = Key::new("tool", "trace", "task".to_owned());
        let theirs = Store::in_memory(Units::new());
        theirs.put(key.clone(), &outcome()).unwrap();
        let units = theirs.into_units();
        let (name, text) = units.first_key_value().unwrap();
        let ours = Store::in_memory(Units::new());
        assert!(!ours.accept("other.json", text.clone()).unwrap());
        assert!(!ours.accept(name, text[1..].to_vec()).unwrap());
        assert!(ours.accept(name, text.clone()).unwrap());
        assert_eq!(ours.get(&key), Some(outcome()));
    }
}
