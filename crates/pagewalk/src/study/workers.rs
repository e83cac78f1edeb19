//! The workers of a study's folder: processes of one build that share one study.
//!
//! Each worker holds a shared lock on a file that says what the folder is for. A worker that finds nobody at work holds
//! the lock alone for a moment, and writes that file.

use crate::error::{Error, Fault};
use pagewalk_sweep::Build;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

/// How often to ask for a lock that another worker holds alone, and how long to wait in between.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// The same if that worker has our study: it removes what killed workers left.
const ATTEMPTS_OF_OURS: u32 = 1200;

/// What the workers of a folder have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The build of pagewalk.
    pub build: Build,
    /// The study's name.
    pub name: String,
    /// Hash of the study's file, of the machines, kernels and structures that it names, and of its traces' names.
    pub study: String,
}

/// A worker's place among those of its folder, until it is dropped.
pub struct Membership(File);

impl Drop for Membership {
    /// Closing the file is not enough: a process that was forked meanwhile may have it open too.
    fn drop(&mut self) {
        // If this fails, the lock ends with the process.
        let _ = self.0.unlock();
    }
}

/// Joins the workers of `folder`. If there are none, `clear` removes what killed ones left.
pub fn join(folder: &Path, own: &Identity, clear: impl Fn()) -> Result<Membership, Error> {
    let path = folder.join(".lock");
    let failed = |e: io::Error| Error::new(Fault::Failed, format!("cannot lock {}: {e}", path.display()));
    let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = options.map_err(failed)?;
    for attempt in 0..ATTEMPTS_OF_OURS {
        if is_locked(file.try_lock()).map_err(failed)? {
            write(&mut file, own).map_err(failed)?;
            clear();
            // `flock` gives up the one lock before it takes the other. A worker that comes in between writes the file
            // anew; then this one compares with that.
            file.lock_shared().map_err(failed)?;
            return agree(folder, file, own);
        }
        if is_locked(file.try_lock_shared()).map_err(failed)? {
            return agree(folder, file, own);
        }
        if attempt >= ATTEMPTS && read(&mut file).ok().as_ref() != Some(own) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Err(busy(format!("another study is at work in {}", folder.display())))
}

/// Whether the lock was got.
fn is_locked(outcome: Result<(), TryLockError>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn write(file: &mut File, own: &Identity) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&serde_json::to_vec(own)?)
}

/// What the folder is for.
fn read(file: &mut File) -> Result<Identity, serde_json::Error> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(serde_json::Error::io)?;
    serde_json::from_str(&text)
}

/// Checks that the workers of a folder have the same build and the same study.
fn agree(folder: &Path, mut file: File, own: &Identity) -> Result<Membership, Error> {
    let place = folder.display();
    match read(&mut file) {
        Ok(theirs) if theirs == *own => Ok(Membership(file)),
        Ok(theirs) if theirs.build != own.build => {
            let why = format!("{} is at work in {place}, and this is {}", theirs.build, own.build);
            Err(Error::new(Fault::Failed, why)
                .or("run one build on all hosts, or choose another place with -o"))
        }
        Ok(theirs) if theirs.name == own.name => {
            Err(busy(format!("another version of study `{}` is at work in {place}", theirs.name)))
        }
        Ok(theirs) => Err(busy(format!("study `{}` is at work in {place}", theirs.name))),
        Err(_) => Err(busy(format!("another study is at work in {place}"))),
    }
}

fn busy(why: String) -> Error {
    Error::new(Fault::Failed, why).or("wait for it, or choose another place with -o")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(tool: &str, name: &str, study: &str) -> Identity {
        let [version, tool, name, study] = ["0.2.0", tool, name, study].map(str::to_owned);
        Identity { build: Build { version, tool }, name, study }
    }

    #[test]
    fn workers_of_one_build_and_study_share_a_folder_and_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let join = |own: &Identity, clears: bool| {
            let cleared = std::cell::Cell::new(false);
            let outcome = join(folder.path(), own, || cleared.set(true)).map_err(|error| error.to_string());
            assert_eq!(cleared.get(), clears);
            outcome
        };
        let own = identity("0123456789", "s", "1");
        let first = join(&own, true).unwrap();
        let second = join(&own, false).unwrap();
        let refusal = |other: &Identity| join(other, false).map(drop).unwrap_err();
        let build = refusal(&identity("9876543210", "s", "1"));
        assert!(build.contains("pagewalk 0.2.0 (build 01234567) is at work"), "{build}");
        assert!(build.contains("this is pagewalk 0.2.0 (build 98765432)"), "{build}");
        let changed = refusal(&identity("0123456789", "s", "2"));
        assert!(changed.contains("another version of study `s` is at work"), "{changed}");
        let other = refusal(&identity("0123456789", "t", "3"));
        assert!(other.contains("study `s` is at work"), "{other}");
        drop(first);
        drop(join(&own, false).unwrap());
        drop(second);
        drop(join(&identity("9876543210", "t", "3"), true).unwrap());
    }
}
