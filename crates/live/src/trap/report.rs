//! The report of a run.

use super::check::ReplayReport;
use super::shared::{AGENT_END, TEXT_BASE};
use super::space::PAGE;
use crate::tracing::maps::Mapping;
use crate::tracing::sys::{Pid, map};
use serde::{Deserialize, Serialize};

/// How an image began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageOrigin {
    /// By exec.
    Exec,
    /// As a copy by fork.
    Fork,
}

/// One process image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImageReport {
    /// In order of start, from 0.
    pub number: u32,
    /// Its process.
    pub process: Pid,
    /// Path of its program.
    pub program: String,
    /// How it began.
    pub began: ImageOrigin,
    /// Seconds from its start to its end.
    pub run_seconds: f64,
    /// Why it ran by itself, if it did: then nothing below was counted.
    pub not_followed: Option<String>,
    /// References that missed the simulated array.
    pub misses: u64,
    /// Misses that evicted another page.
    pub evictions: u64,
    /// Faults on pages in the array, as when several threads wait for one page: not misses.
    pub refills: u64,
    /// Misses that touched their page for the first time.
    pub first_touches: u64,
    /// Pages that left the array because their memory was freed.
    pub forgotten: u64,
    /// Processor time of the agent, for faults and commands.
    pub agent_seconds: f64,
    /// Taken-over bytes of address space at the end.
    pub taken_over_bytes: u64,
    /// Their touched pages at the end.
    pub touched_pages: u64,
    /// Mappings at the end.
    pub mappings: Vec<MappingReport>,
    /// What was left alone from the start, and why.
    pub left_alone: Vec<String>,
    /// With a check: the replay's report.
    pub checked: Option<ReplayReport>,
}

impl ImageReport {
    /// Misses per second of run time.
    pub fn misses_per_second(&self) -> f64 {
        if self.run_seconds > 0.0 { self.misses as f64 / self.run_seconds } else { 0.0 }
    }

    /// Resident pages of a kind of memory at the end; for taken-over memory, touched pages.
    pub fn pages(&self, kind: MappingUse) -> u64 {
        if kind == MappingUse::TakenOver {
            return self.touched_pages;
        }
        self.mappings
            .iter()
            .filter(|mapping| mapping.kind == kind)
            .map(|mapping| mapping.resident_pages)
            .sum()
    }

    /// Taken-over pages as a share of all resident or touched pages; none if the image was not followed. The share of
    /// references to them cannot be known.
    pub fn seen_page_share(&self) -> Option<f64> {
        let all: u64 = MappingUse::ALL.into_iter().map(|kind| self.pages(kind)).sum();
        (all > 0).then(|| self.touched_pages as f64 / all as f64)
    }

    /// Microseconds of agent time per fault; none without faults. The program's own cost of a fault and the task switch
    /// come on top.
    pub fn agent_microseconds(&self) -> Option<f64> {
        let faults = self.misses + self.refills;
        (faults > 0).then(|| self.agent_seconds * 1e6 / faults as f64)
    }
}

/// Kinds of mappings, by how far their references are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MappingUse {
    /// Taken over: every first reference is seen.
    TakenOver,
    /// Code: fetches, and data among the code.
    Code,
    /// Files mapped for reading.
    ReadOnly,
    /// Shared with others or with a file.
    Shared,
    /// Private and writable, but left alone.
    Private,
    /// Inaccessible.
    Inaccessible,
}

impl MappingUse {
    /// All kinds.
    pub const ALL: [MappingUse; 6] = [
        MappingUse::TakenOver,
        MappingUse::Code,
        MappingUse::ReadOnly,
        MappingUse::Shared,
        MappingUse::Private,
        MappingUse::Inaccessible,
    ];

    /// Its name as text; JSON uses underscores.
    pub fn name(self) -> &'static str {
        match self {
            MappingUse::TakenOver => "taken over",
            MappingUse::Code => "code",
            MappingUse::ReadOnly => "read-only",
            MappingUse::Shared => "shared",
            MappingUse::Private => "private",
            MappingUse::Inaccessible => "inaccessible",
        }
    }
}

/// One mapping at the end of an image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappingReport {
    /// Its kind.
    pub kind: MappingUse,
    /// Its first address.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// Pages in the page table at the end; for taken-over memory, those in the simulated array.
    pub resident_pages: u64,
    /// Its file, or the kernel's name for it.
    pub name: String,
}

impl MappingReport {
    /// None for the agent's own memory.
    pub(super) fn of(mapping: &Mapping, memory_inode: u64) -> Option<MappingReport> {
        let ours = mapping.start >= TEXT_BASE && mapping.end <= AGENT_END;
        let kind = if mapping.inode == memory_inode && mapping.name.starts_with("/memfd:pagewalk") {
            MappingUse::TakenOver
        } else if mapping.protection == 0 {
            MappingUse::Inaccessible
        } else if mapping.protection & map::EXEC != 0 {
            MappingUse::Code
        } else if mapping.shared {
            MappingUse::Shared
        } else if mapping.is_writable() {
            MappingUse::Private
        } else {
            MappingUse::ReadOnly
        };
        (!ours).then(|| MappingReport {
            kind,
            start: mapping.start,
            bytes: mapping.bytes(),
            resident_pages: mapping.resident_bytes / PAGE,
            name: mapping.name.clone(),
        })
    }
}
