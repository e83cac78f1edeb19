//! Jobs, and how workers share them.
//!
//! A job is some tasks over one stream, run in one pass. Every worker of a folder splits the study into the same jobs.
//! A worker claims a job by locking a file of the job's name. A lock ends with its process, however that ends, and then
//! another worker can claim the job. The kept units alone say what is done.

use crate::error::SweepError;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most tasks of a job. Decoding the stream is then a small part of a pass, and there are jobs for many workers.
pub const JOB_TASKS: usize = 64;

/// How long a worker waits before it asks again for a claim that another has.
pub const WAIT: Duration = Duration::from_millis(100);

/// Tasks over one stream that share a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The stream's index.
    pub stream: usize,
    /// Indices of the tasks, ascending.
    pub tasks: Vec<usize>,
}

impl Job {
    /// Splits these tasks over a stream into jobs.
    pub fn split(stream: usize, tasks: impl Iterator<Item = usize>) -> Vec<Job> {
        let tasks: Vec<usize> = tasks.collect();
        tasks.chunks(JOB_TASKS).map(|tasks| Job { stream, tasks: tasks.to_vec() }).collect()
    }

    /// Its name, the same for all workers.
    pub fn name(&self) -> String {
        format!("stream-{}-task-{}", self.stream, self.tasks.first().copied().unwrap_or_default())
    }
}

/// Who works on what, as a lock's file says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// The host's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it began to work in the folder, in seconds of Unix time.
    pub since: u64,
    /// What it works on.
    pub job: String,
}

/// The locks of a folder's workers, and this worker.
pub struct Claims {
    folder: PathBuf,
    own: Worker,
}

/// A lock held until it is dropped.
pub struct Claim(File);

impl Drop for Claim {
    /// Closing the file is not enough: a process that was forked meanwhile may have it open too.
    fn drop(&mut self) {
        // If this fails, the lock ends with the process.
        let _ = self.0.unlock();
    }
}

impl Claims {
    /// The claims in `folder`, which is created with the first one.
    pub fn new(folder: PathBuf) -> Claims {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let own = Worker { host: host.trim().to_owned(), pid: std::process::id(), since, job: String::new() };
        Claims { folder, own }
    }

    /// Claims the work of this name, unless another holds it. `title` says what it is.
    pub fn claim(&self, name: &str, title: &str) -> Result<Option<Claim>, SweepError> {
        let (path, file) = self.open(name)?;
        match file.try_lock() {
            Ok(()) => self.sign(file, title).map_err(|error| SweepError::Folder { path, error }).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(SweepError::Folder { path, error }),
        }
    }

    /// Claims the work of this name, and waits while another holds it, until `is_stopped`.
    pub fn wait(&self, name: &str, title: &str, is_stopped: impl Fn() -> bool) -> Result<Claim, SweepError> {
        loop {
            if let Some(claim) = self.claim(name, title)? {
                return Ok(claim);
            }
            if is_stopped() {
                return Err(SweepError::Stopped);
            }
            std::thread::sleep(WAIT);
        }
    }

    /// The workers that hold a claim in `folder` now, in the order of the claims' names.
    pub fn workers(folder: &Path) -> Vec<Worker> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().filter_map(|path| holder(path)).collect()
    }

    fn open(&self, name: &str) -> Result<(PathBuf, File), SweepError> {
        let path = self.folder.join(name);
        let open = || {
            std::fs::create_dir_all(&self.folder)?;
            File::options().read(true).write(true).create(true).truncate(false).open(&path)
        };
        match open() {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(SweepError::Folder { path, error }),
        }
    }

    fn sign(&self, mut file: File, title: &str) -> std::io::Result<Claim> {
        let worker = Worker { job: title.to_owned(), ..self.own.clone() };
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(&worker).expect("a worker is plain"))?;
        Ok(Claim(file))
    }
}

/// Who holds the lock of this file; `None` if nobody does.
fn holder(path: &Path) -> Option<Worker> {
    let mut file = File::open(path).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_one_holder_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::new(folder.path().join("claims"));
        let held = claims.claim("stream-0-task-0", "some machines").unwrap().unwrap();
        assert!(claims.claim("stream-0-task-0", "some machines").unwrap().is_none());
        let other = claims.claim("stream-0-task-64", "others").unwrap();
        assert!(other.is_some());
        let titles = || Claims::workers(&folder.path().join("claims")).into_iter().map(|worker| worker.job);
        assert_eq!(titles().collect::<Vec<_>>(), ["some machines", "others"]);
        drop(held);
        assert_eq!(titles().collect::<Vec<_>>(), ["others"]);
        assert!(claims.claim("stream-0-task-0", "some machines").unwrap().is_some());
    }

    #[test]
    fn jobs_have_every_task_once() {
        let jobs = Job::split(3, 10..200);
        assert!(jobs.iter().all(|job| job.stream == 3 && job.tasks.len() <= JOB_TASKS));
        let tasks: Vec<usize> = jobs.iter().flat_map(|job| job.tasks.clone()).collect();
        assert_eq!(tasks, (10..200).collect::<Vec<_>>());
        assert_eq!(jobs[1].name(), "stream-3-task-74");
    }
}
