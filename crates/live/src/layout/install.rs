//! Installs the stub in a process right after exec.
//!
//! Each step between two stops is a single change: an observer in between, or the process if we are killed, always
//! finds a program that runs correctly.
//!
//! 1. Code that allocates memory and then starts the program is written to unused bytes (`bootstrap`).
//! 2. The registers are set to run it. From here on the process can continue by itself.
//! 3. Stub and table are written to the allocated memory. Nothing jumps there yet.
//! 4. A jump replaces the loader's call of `mmap`.

use super::loader::{Loader, LoaderCache, opened};
use super::stub::{self, StubEntry};
use super::{Obstacle, landing};
use crate::tracing::maps::Mapping;
use crate::tracing::sys::{self, Pid, Registers, map, number};
use pagewalk_layout::files::Object;
use pagewalk_plan::{ARENA_LIMIT, SLIDE_BYTES};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// An installation in progress.
pub struct StubInstaller {
    loader: Loader,
    entries: Vec<StubEntry>,
    memory: File,
    at: InstallPhase,
    /// The stub's address, once allocated.
    region: u64,
    /// How far the plan was moved up.
    pub slid_bytes: u64,
}

enum InstallPhase {
    /// Until the end of the exec.
    Exec,
    /// Until the beginning of the call for memory.
    Asking,
    /// Until its end.
    Asked,
}

/// The result of a step.
pub enum StubStep {
    /// More steps follow.
    Another,
    /// Everything is installed.
    Last,
}

impl StubInstaller {
    /// Begins at the exec stop; the process must continue to the next end of a system call.
    pub fn begin(pid: Pid, objects: &[Object], known: &mut LoaderCache) -> Result<StubInstaller, Obstacle> {
        let (memory, mappings) = opened(pid)?;
        let loader = Loader::examine(pid, &memory, &mappings, known)?;
        let slid_bytes = slide(objects, &mappings)?;
        let entry = |object: &Object| StubEntry {
            device: object.device,
            inode: object.inode,
            base: object.base + slid_bytes,
            bytes: object.bytes,
        };
        let entries = objects.iter().map(entry).collect();
        Ok(StubInstaller { loader, entries, memory, at: InstallPhase::Exec, region: 0, slid_bytes })
    }

    /// Continues at the beginning or the end of a system call.
    pub fn step(&mut self, pid: Pid) -> Result<StubStep, Obstacle> {
        match self.at {
            InstallPhase::Exec => {
                self.ask(pid)?;
                self.at = InstallPhase::Asking;
            }
            InstallPhase::Asking => self.at = InstallPhase::Asked,
            InstallPhase::Asked => {
                self.fill(pid)?;
                return Ok(StubStep::Last);
            }
        }
        Ok(StubStep::Another)
    }

    /// Makes the process allocate memory near its loader, away from where the kernel places mappings.
    fn ask(&self, pid: Pid) -> io::Result<()> {
        const BELOW: u64 = 1 << 30;
        let begin = sys::registers(pid)?;
        self.memory.write_all_at(&stub::bootstrap(begin.rip), self.loader.room)?;
        let asking = Registers {
            rip: self.loader.room,
            rax: number::MMAP,
            // Prevents restarting a system call.
            orig_rax: u64::MAX,
            rdi: self.loader.base.saturating_sub(BELOW),
            rsi: self.region_bytes(),
            rdx: map::READ | map::EXEC,
            r10: map::PRIVATE | map::ANONYMOUS,
            r8: u64::MAX,
            r9: 0,
            ..begin
        };
        sys::set_registers(pid, &asking)
    }

    fn fill(&mut self, pid: Pid) -> Result<(), Obstacle> {
        const ERRORS: std::ops::Range<i64> = -4095..0;
        let region = sys::registers(pid)?.rax;
        if ERRORS.contains(&(region as i64)) {
            return Err(io::Error::from_raw_os_error(-(region as i64) as i32).into());
        }
        let built = stub::build(region, &self.loader.sites, &self.entries, self.loader.asks);
        let (bytes, jumps) =
            built.ok_or_else(|| io::Error::other("the memory for code lies too far away"))?;
        self.memory.write_all_at(&bytes, region)?;
        self.region = region;
        for (&site, jump) in self.loader.sites.iter().zip(&jumps) {
            self.memory.write_all_at(jump, site)?;
        }
        Ok(())
    }

    fn region_bytes(&self) -> u64 {
        stub::region_bytes(self.loader.sites.len(), self.entries.len())
    }

    /// Whether an instruction belongs to the loader or the stub.
    pub fn is_loaders(&self, instruction: u64) -> bool {
        (self.loader.base..self.loader.end).contains(&instruction) || self.stub().contains(&instruction)
    }

    /// Where the code lies that calls `mmap` for the loader.
    pub fn stub(&self) -> Range<u64> {
        self.region..self.region + self.region_bytes()
    }
}

/// How far the plan must move up to find free addresses.
fn slide(objects: &[Object], mappings: &[Mapping]) -> Result<u64, Obstacle> {
    let end = objects.iter().map(|object| object.base + object.bytes).max().unwrap_or(0);
    let in_the_way = |by: u64| {
        objects.iter().find_map(|object| landing::overlapping(mappings, object.base + by, object.bytes))
    };
    let Some(first) = in_the_way(0) else { return Ok(0) };
    (1..)
        .map(|times| times * SLIDE_BYTES)
        .take_while(|by| end + by <= ARENA_LIMIT)
        .find(|&by| in_the_way(by).is_none())
        .ok_or_else(|| Obstacle::Taken(landing::described(first)))
}
