//! Putting the code into a process that has just become a program.
//!
//! In steps between which the process stops, each of which is a single act: whoever looks in between, and whenever we
//! are killed, finds a process that runs its program to the right end.
//!
//! 1. Code that asks for memory and then begins the program goes where nobody reads (`bootstrap`).
//! 2. The registers are set so that the process runs it. From here on it needs nobody to go on.
//! 3. The memory is there: the code and the table are written to it. Nothing leads there yet.
//! 4. A jump replaces the loader's call of `mmap`.

use super::loader::{Loader, LoaderCache, opened};
use super::stub::{self, StubEntry};
use super::{Obstacle, landing};
use crate::tracing::maps::Mapping;
use crate::tracing::sys::{self, Pid, Registers, map, number};
use pagewalk_layout::files::Object;
use pagewalk_layout::plan::{LIMIT, SLIDE_BYTES};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A process on its way.
pub struct StubInstaller {
    loader: Loader,
    entries: Vec<StubEntry>,
    memory: File,
    at: InstallPhase,
    /// Where the code lies, when it does.
    region: u64,
    /// How far the plan was moved up.
    pub slid_bytes: u64,
}

enum InstallPhase {
    /// Towards the end of the exec.
    Exec,
    /// Towards the beginning of the call for memory.
    Asking,
    /// Towards its end.
    Asked,
}

/// What comes of a step.
pub enum StubStep {
    /// Another.
    Another,
    /// All is in place.
    Last,
}

impl StubInstaller {
    /// Begins at the stop of an exec; the process has to go on to the next end of a system call.
    pub fn begin(pid: Pid, objects: &[Object], known: &mut LoaderCache) -> Result<StubInstaller, Obstacle> {
        let (memory, mappings) = opened(pid)?;
        let loader = Loader::look(pid, &memory, &mappings, known)?;
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

    /// Goes on at the beginning or the end of a system call.
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

    /// Lets the process ask for memory, near its loader and out of the way of what the kernel will place.
    fn ask(&self, pid: Pid) -> io::Result<()> {
        const BELOW: u64 = 1 << 30;
        let begin = sys::registers(pid)?;
        self.memory.write_all_at(&stub::bootstrap(begin.rip), self.loader.room)?;
        let asking = Registers {
            rip: self.loader.room,
            rax: number::MMAP,
            // No system call is to be restarted.
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

    /// Whether an instruction is the loader's, or stands in for one of it.
    pub fn is_loaders(&self, instruction: u64) -> bool {
        (self.loader.base..self.loader.end).contains(&instruction)
            || (self.region..self.region + self.region_bytes()).contains(&instruction)
    }
}

/// How far the plan has to move up so that nothing is in its way.
fn slide(objects: &[Object], mappings: &[Mapping]) -> Result<u64, Obstacle> {
    let end = objects.iter().map(|object| object.base + object.bytes).max().unwrap_or(0);
    let in_the_way = |by: u64| {
        objects.iter().find_map(|object| landing::overlapping(mappings, object.base + by, object.bytes))
    };
    let Some(first) = in_the_way(0) else { return Ok(0) };
    (1..)
        .map(|times| times * SLIDE_BYTES)
        .take_while(|by| end + by <= LIMIT)
        .find(|&by| in_the_way(by).is_none())
        .ok_or_else(|| Obstacle::Taken(landing::described(first)))
}
