//! Installs the code in a process whose loader is done.
//!
//! Each step between two stops is a single change: an observer in between, or the process if we are killed, always
//! finds a program that runs correctly. On a detour from one of its system calls (`tracing/detour.rs`), the process
//! allocates memory for the table and the code, which are written before anything jumps there; then jumps replace its
//! calls, one after the other; existing memory is marked.

use super::Obstacle;
use super::code::{self, ThunkCode};
use super::sites::{CallSite, SITE_BYTES, SiteCache};
use super::table::PlanTable;
use crate::tracing::detour::{Detour, Stop, failure};
use crate::tracing::image::{CODE_64, Vector, headers_at};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{self, Pid, map, number};
use pagewalk_layout::elf::span;
use pagewalk_plan::{Plan, What};
use pagewalk_units::PAGE_BYTES;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Sites served by one region lie within this: a jump reaches 2 GiB.
const CLUSTER_BYTES: u64 = 512 << 20;
const MADV_HUGEPAGE: u64 = 14;
const PR_SET_THP_DISABLE: u64 = 41;
const PR_THP_DISABLE_EXCEPT_ADVISED: u64 = 2;

/// What to install.
pub struct InstallSpec<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The plan as a table.
    pub table: &'a PlanTable,
    /// Whether to keep unplanned memory on small pages where the kernel would not.
    pub keep_small: bool,
}

/// An installation in progress.
pub struct PlanInstaller {
    memory: File,
    vector: Vector,
    /// The ranges of the loader and of the stub that calls `mmap` for it; empty without one.
    loader: [Range<u64>; 2],
    at: InstallPhase,
}

enum InstallPhase {
    /// Until the end of the exec.
    Exec,
    /// Until the end of the loader.
    Program,
    /// Until the end of an injected call.
    Call(Box<DetourWork>),
}

/// The work on the detour.
struct DetourWork {
    detour: Detour,
    mappings: Vec<Mapping>,
    clusters: Vec<Cluster>,
    /// The table's address; 0 before.
    table: u64,
    /// Calls to make after the jumps are in place, last first.
    rest: Vec<(u64, [u64; 6])>,
    jumps: bool,
}

/// Neighbouring sites.
struct Cluster {
    sites: Vec<CallSite>,
    /// The address of their code; 0 before.
    region: u64,
}

/// The result of a step.
pub enum InstallStep {
    /// More steps follow.
    Another,
    /// Everything is installed; the table's address.
    Installed(u64),
}

impl PlanInstaller {
    /// Begins at the exec stop, or at the end of a system call before the loader's first; the process must continue to
    /// the next end or beginning of one. Code in `stub` calls `mmap` for the loader.
    pub fn begin(pid: Pid, stub: Range<u64>) -> Result<PlanInstaller, Obstacle> {
        if sys::registers(pid)?.cs != CODE_64 {
            return Err(Obstacle::Not64Bit);
        }
        if maps::filters(pid)? > 0 {
            return Err(Obstacle::Filtered);
        }
        let (memory, vector) = (maps::memory(pid)?, Vector::read(pid)?);
        let headers = headers_at(&memory, vector.loader).unwrap_or_default();
        let bytes = span(&headers).map_or(0, |(_, bytes)| bytes);
        let loader = vector.loader..vector.loader + if vector.loader == 0 { 0 } else { bytes };
        let installing = PlanInstaller { memory, vector, loader: [loader, stub], at: InstallPhase::Exec };
        installing.check_loader(pid).map(|()| installing)
    }

    /// Continues at the beginning or the end of a system call.
    pub fn step(
        &mut self,
        pid: Pid,
        wanted: &InstallSpec<'_>,
        known: &mut SiteCache,
    ) -> Result<InstallStep, Obstacle> {
        match &mut self.at {
            InstallPhase::Exec if self.vector.loader == 0 => self.depart(pid, wanted, known, true)?,
            InstallPhase::Exec => self.at = InstallPhase::Program,
            InstallPhase::Program if is_loaders(&self.loader, sys::registers(pid)?.rip) => {}
            // The program's or its libraries' first own call: everything has been mapped.
            InstallPhase::Program => self.depart(pid, wanted, known, false)?,
            InstallPhase::Call(work) => {
                let Some(result) = work.detour.result(pid)? else { return Ok(InstallStep::Another) };
                if !work.jumps
                    && let Some(error) = failure(result)
                {
                    return Err(error.into());
                }
                if !work.advance(pid, result, wanted, &self.memory)? {
                    return Ok(InstallStep::Installed(work.table));
                }
            }
        }
        Ok(InstallStep::Another)
    }

    /// musl's loader is also its C library (`libc.so` or `ld-musl-ARCH.so.1`): no call would ever come from elsewhere,
    /// and its calls have another form.
    fn check_loader(&self, pid: Pid) -> Result<(), Obstacle> {
        let mappings = maps::mappings(pid)?;
        let loader = mappings.iter().find(|mapping| self.loader[0].contains(&mapping.start));
        let name = loader.and_then(|mapping| mapping.name.rsplit('/').next()).unwrap_or_default();
        let is_library = ["ld-musl", "libc."].iter().any(|start| name.starts_with(start));
        if is_library { Err(Obstacle::NoSites) } else { Ok(()) }
    }

    /// Finds the sites, and makes the process allocate the table.
    fn depart(
        &mut self,
        pid: Pid,
        wanted: &InstallSpec<'_>,
        known: &mut SiteCache,
        at_exec: bool,
    ) -> Result<(), Obstacle> {
        let mut mappings = maps::mappings(pid)?;
        let sites = known.sites(&self.memory, &mappings);
        if !sites.iter().any(CallSite::maps) {
            return Err(Obstacle::NoSites);
        }
        let headers = headers_at(&self.memory, self.vector.loader).unwrap_or_default();
        let room = self.vector.room(&self.memory, &headers).ok_or(Obstacle::NoRoom)?;
        let stop = if at_exec { Stop::End } else { Stop::Beginning(anew(pid, &sites)?) };
        let mut detour = Detour::prepare(pid, &self.memory, room, stop)?;
        let bytes = wanted.table.bytes().next_multiple_of(PAGE_BYTES);
        let rest = rest(pid, wanted, &mappings);
        let clusters = clusters(sites);
        // Not where the kernel would place it: later mappings of the program must not move.
        let place = place(&mappings, &clusters[0], bytes).ok_or(Obstacle::NoPlace)?;
        detour.call(pid, number::MMAP, asking(place, bytes, map::READ | map::WRITE))?;
        mappings.push(Mapping { start: place, end: place + bytes, ..Mapping::default() });
        let work = DetourWork { detour, mappings, clusters, table: 0, rest, jumps: false };
        self.at = InstallPhase::Call(Box::new(work));
        Ok(())
    }
}

fn is_loaders(loader: &[Range<u64>], instruction: u64) -> bool {
    loader.iter().any(|code| code.contains(&instruction))
}

/// Where to restart the system call that is about to begin: at its first instruction if a jump will replace that.
fn anew(pid: Pid, sites: &[CallSite]) -> io::Result<u64> {
    let behind = sys::registers(pid)?.rip;
    let from_site = sites.iter().find(|site| site.address + SITE_BYTES == behind);
    Ok(from_site.map_or(behind - 2, |site| site.address))
}

/// Arguments to map private memory at exactly this address.
fn asking(address: u64, bytes: u64, protection: u64) -> [u64; 6] {
    [address, bytes, protection, map::PRIVATE | map::ANONYMOUS | map::FIXED_NOREPLACE, u64::MAX, 0]
}

impl DetourWork {
    /// Continues after a call with this result; returns whether there is another.
    fn advance(
        &mut self,
        pid: Pid,
        result: u64,
        wanted: &InstallSpec<'_>,
        memory: &File,
    ) -> Result<bool, Obstacle> {
        if self.table == 0 {
            self.table = result;
            memory.write_all_at(&wanted.table.initial(maps::heap_start(pid)?), result)?;
        } else if let Some(cluster) = self.clusters.iter_mut().find(|cluster| cluster.region == 0) {
            cluster.region = result;
        }
        if let Some(next) = self.clusters.iter().find(|cluster| cluster.region == 0) {
            let bytes = code::region_bytes(next.sites.len());
            let place = place(&self.mappings, next, bytes).ok_or(Obstacle::NoPlace)?;
            self.detour.call(pid, number::MMAP, asking(place, bytes, map::READ | map::EXEC))?;
            return Ok(true);
        }
        if !self.jumps {
            self.write_code(memory)?;
            self.jumps = true;
        }
        let Some((number, arguments)) = self.rest.pop() else { return Ok(false) };
        self.detour.call(pid, number, arguments)?;
        Ok(true)
    }

    fn write_code(&self, memory: &File) -> Result<(), Obstacle> {
        let build = |cluster: &Cluster| code::build(cluster.region, self.table, &cluster.sites);
        let codes: Vec<ThunkCode> =
            self.clusters.iter().map(build).collect::<Option<_>>().ok_or(Obstacle::NoPlace)?;
        for (cluster, code) in self.clusters.iter().zip(&codes) {
            memory.write_all_at(&code.bytes, cluster.region)?;
        }
        for (cluster, code) in self.clusters.iter().zip(&codes) {
            for (site, jump) in cluster.sites.iter().zip(&code.jumps) {
                memory.write_all_at(jump, site.address)?;
            }
        }
        Ok(())
    }
}

/// Groups of sites, each within reach of one region.
fn clusters(mut sites: Vec<CallSite>) -> Vec<Cluster> {
    sites.sort_by_key(|site| site.address);
    let mut clusters: Vec<Cluster> = Vec::new();
    for site in sites {
        match clusters.last_mut() {
            Some(cluster) if site.address - cluster.sites[0].address < CLUSTER_BYTES => {
                cluster.sites.push(site)
            }
            _ => clusters.push(Cluster { sites: vec![site], region: 0 }),
        }
    }
    clusters
}

/// A free place near a cluster, away from where the kernel places mappings next to libraries, and from the heap, which
/// grows upwards.
fn place(mappings: &[Mapping], cluster: &Cluster, bytes: u64) -> Option<u64> {
    const BELOW: u64 = 1 << 30;
    const STEP: u64 = 16 << 20;
    const LOWEST: u64 = 0x1_0000;
    let low = cluster.sites.first()?.address / PAGE_BYTES * PAGE_BYTES;
    let below = (1..=BELOW / STEP).rev().filter_map(|steps| low.checked_sub(steps * STEP));
    // For a program at a low address, memory below it.
    let first = mappings.iter().map(|mapping| mapping.start).min().and_then(|first| first.checked_sub(bytes));
    let above = (1..=BELOW / STEP).rev().map(|steps| low + CLUSTER_BYTES + steps * STEP);
    let is_free = |&at: &u64| {
        at >= LOWEST && !mappings.iter().any(|mapping| mapping.start < at + bytes && mapping.end > at)
    };
    below.chain(first).chain(above).find(is_free)
}

/// The remaining calls: the process's mode, and marks on existing memory.
fn rest(pid: Pid, wanted: &InstallSpec<'_>, mappings: &[Mapping]) -> Vec<(u64, [u64; 6])> {
    let mut calls = Vec::new();
    for (start, bytes) in wanted.plan.ranges.iter().flat_map(|range| present(pid, &range.what, mappings)) {
        calls.push((number::MADVISE, [start, bytes, MADV_HUGEPAGE, 0, 0, 0]));
    }
    if wanted.keep_small {
        let arguments = [PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED, 0, 0, 0];
        calls.push((number::PRCTL, arguments));
    }
    calls
}

/// The parts of a range in these mappings: starts and lengths. Mappings do not identify anonymous memory.
pub fn present(pid: Pid, what: &What, mappings: &[Mapping]) -> Vec<(u64, u64)> {
    let part = what.part();
    let cut = |origin: u64, start: u64, end: u64| {
        let from = origin.wrapping_add(part.from).max(start);
        let to = origin.wrapping_add(part.to).min(end);
        (from < to).then(|| (from, to - from))
    };
    match what {
        What::Anonymous { .. } => Vec::new(),
        What::Heap(_) => {
            // A heap marked in part has several mappings.
            let heap: Vec<_> = mappings.iter().filter(|mapping| mapping.name == "[heap]").collect();
            let origin = heap.first().map_or(0, |first| first.start);
            heap.iter().filter_map(|mapping| cut(origin, mapping.start, mapping.end)).collect()
        }
        What::File { file, .. } => of_file(pid, file, mappings)
            .into_iter()
            .filter_map(|(origin, start, end)| cut(origin, start, end))
            .collect(),
    }
}

/// For each of a file's mappings: where the file's first byte would lie, and the bounds; with adjacent anonymous
/// memory, which is the rest of the file's data.
fn of_file(pid: Pid, file: &str, mappings: &[Mapping]) -> Vec<(u64, u64, u64)> {
    let number = |path: &str| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let wanted = number(file);
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    let mut last = "";
    let mut is_last = false;
    for mapping in mappings {
        if mapping.inode != 0 {
            if mapping.name != last {
                // By path in the process's file tree: some file systems report other numbers in `maps`.
                is_last = wanted.is_some() && number(&format!("/proc/{pid}/root{}", mapping.name)) == wanted;
                last = &mapping.name;
            }
            if is_last {
                found.push((mapping.start.wrapping_sub(mapping.offset), mapping.start, mapping.end));
            }
        } else if mapping.name.is_empty()
            && let Some(&(origin, _, end)) = found.last()
            && end == mapping.start
        {
            found.push((origin, mapping.start, mapping.end));
        }
    }
    found
}
