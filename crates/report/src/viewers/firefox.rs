//! The processed profile of the Firefox Profiler (profiler.firefox.com), which Perfetto opens too.
//!
//! | in the result | in the profile |
//! |---|---|
//! | a process | a process; an instruction takes a nanosecond |
//! | functions | its first thread: a sample each, at the process's start, as a result does not say when |
//! | the heat map | markers `walks`, which are a track for each mapping |
//! | groups (threads, cores, …) | a thread each, with its cost as one sample |
//! | mappings | markers with size, page size and walks |
//! | alternatives that were followed in part of the run, moves of a TLB's partition | markers `phase` |
//! | memory that simulated kernels back, huge pages with it | a counter for each machine and kernel |
//!
//! Samples weigh walk cycles, or walks if the machine has no costs.

use super::Viewer;
use super::leaves::{Cost, has_cycles, leaves, process_name};
use super::markers::{MappingMarker, PhaseMarker, WalksMarker};
use crate::schema::{MachineResult, ProcessResult, RunResult};
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerTiming, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp,
};
use std::collections::BTreeMap;

/// A sample's largest weight.
const WEIGHT_MAX: u64 = i32::MAX as u64;
/// Most samples for one cost; larger costs are counted in units of 1,000, 1,000,000 …
const SAMPLES_MAX: u64 = 1000;
/// Latest time of a marker, in instructions: viewers count in milliseconds.
const TIME_MAX: u64 = 1 << 53;

/// The format.
pub(super) const FORMAT: Viewer = Viewer {
    name: "firefox",
    about: "the Firefox Profiler's profile (profiler.firefox.com), for Perfetto too: name it FILE.json",
    render,
};

fn render(result: &RunResult) -> String {
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let weight = Weight::of(&result.processes);
    // The viewer shows the product's name above everything.
    let product = format!("pagewalk: {}", weight.name());
    let mut profile = Profile::new(&product, start, SamplingInterval::from_millis(1));
    profile.set_os_name("Linux");
    // All frames are names.
    profile.set_symbolicated(true);
    result.processes.iter().for_each(|process| add_process(&mut profile, process, &weight));
    serde_json::to_string(&profile).expect("profiles have string keys and writes to memory succeed")
}

/// What samples weigh.
struct Weight {
    has_cycles: bool,
    /// The number that a sample's weight counts.
    unit: u64,
}

impl Weight {
    fn of(processes: &[ProcessResult]) -> Weight {
        let has_cycles = has_cycles(processes);
        let mut weight = Weight { has_cycles, unit: 1 };
        let costs = processes.iter().flat_map(leaves).map(|leaf| weight.cost(&leaf.cost));
        let groups = processes.iter().flat_map(groups).map(|(_, cost)| weight.cost(&cost));
        let largest = costs.chain(groups).max().unwrap_or(0);
        while largest / weight.unit > WEIGHT_MAX * SAMPLES_MAX {
            weight.unit *= 1000;
        }
        weight
    }

    fn cost(&self, cost: &Cost) -> u64 {
        if self.has_cycles { cost.walk_cycles } else { cost.walks() }
    }

    fn name(&self) -> String {
        let what = if self.has_cycles { "walk cycles" } else { "walks" };
        if self.unit == 1 { what.to_owned() } else { format!("{what} in units of {}", self.unit) }
    }
}

fn add_process(profile: &mut Profile, process: &ProcessResult, weight: &Weight) {
    let handle = profile.add_process(&process_name(process), process.pid, time(0));
    let end = process.machines.first().map_or(0, instructions);
    profile.set_process_end_time(handle, time(end));
    let thread = profile.add_thread(handle, process.pid, time(0), true);
    profile.set_thread_end_time(thread, time(end));
    profile.set_thread_show_markers_in_timeline(thread, true);
    let root = process_name(process);
    for leaf in leaves(process) {
        let frames = [root.clone(), leaf.object_name().to_owned(), leaf.label()];
        add_cost(profile, thread, &frames, weight.cost(&leaf.cost) / weight.unit);
    }
    add_mappings(profile, thread, process, end);
    add_heat(profile, thread, process);
    add_phases(profile, thread, process, end);
    for (name, cost) in groups(process) {
        let thread = profile.add_thread(handle, process.pid, time(0), false);
        profile.set_thread_name(thread, &name);
        profile.set_thread_end_time(thread, time(end));
        add_cost(profile, thread, &[root.clone(), name], weight.cost(&cost) / weight.unit);
    }
    add_memory(profile, handle, process);
}

/// Adds samples of this cost.
fn add_cost(profile: &mut Profile, thread: ThreadHandle, frames: &[String], cost: u64) {
    let named = frames.iter().filter(|name| !name.is_empty());
    let frames: Vec<FrameInfo> = named
        .map(|name| FrameInfo {
            frame: Frame::Label(profile.intern_string(name)),
            category_pair: CategoryHandle::OTHER.into(),
            flags: FrameFlags::empty(),
        })
        .collect();
    let stack = profile.intern_stack_frames(thread, frames.into_iter());
    let mut rest = cost;
    while rest > 0 {
        let weight = rest.min(WEIGHT_MAX);
        profile.add_sample(thread, time(0), stack, CpuDelta::ZERO, weight as i32);
        rest -= weight;
    }
}

fn add_mappings(profile: &mut Profile, thread: ThreadHandle, process: &ProcessResult, end: u64) {
    for row in &process.attribution.mappings {
        let marker = MappingMarker {
            name: profile.intern_string(&row.label()),
            kind: profile.intern_string(&row.kind),
            numbers: [row.bytes, row.page_bytes, row.pages_touched, row.walks(), row.walk_cycles],
        };
        profile.add_marker(thread, MarkerTiming::Interval(time(0), time(end)), marker);
    }
}

/// Walks of each mapping over time.
fn add_heat(profile: &mut Profile, thread: ThreadHandle, process: &ProcessResult) {
    let mut mappings: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for row in &process.heat.rows {
        let sums = mappings.entry(&row.mapping).or_default();
        sums.resize(sums.len().max(row.walks.len()), 0);
        sums.iter_mut().zip(&row.walks).for_each(|(sum, walks)| *sum = sum.saturating_add(*walks));
    }
    let width = process.heat.instructions_per_column;
    for (mapping, walks) in mappings {
        let name = profile.intern_string(mapping);
        for (column, walks) in (0u64..).zip(walks) {
            let (start, end) = (width.saturating_mul(column), width.saturating_mul(column + 1));
            let timing = MarkerTiming::Interval(time(start), time(end));
            profile.add_marker(thread, timing, WalksMarker { name, walks });
        }
    }
}

fn add_phases(profile: &mut Profile, thread: ThreadHandle, process: &ProcessResult, end: u64) {
    let in_part =
        process.what_if.iter().filter(|one| one.from_instruction > 0 || one.to_instruction.is_some());
    for one in in_part {
        let (start, end) = (one.from_instruction, one.to_instruction.unwrap_or(end));
        let text = format!("{}: {} walks instead of {}", one.title, one.walks, one.baseline_walks);
        let marker = PhaseMarker { name: profile.intern_string(&one.id), text: profile.intern_string(&text) };
        profile.add_marker(thread, MarkerTiming::Interval(time(start), time(start.max(end))), marker);
    }
    for machine in &process.machines {
        for moved in &machine.partition {
            let text = format!("{}: {} slots below the partition", machine.name, moved.lower);
            let marker =
                PhaseMarker { name: profile.intern_string("partition"), text: profile.intern_string(&text) };
            profile.add_marker(thread, MarkerTiming::Instant(time(moved.instructions)), marker);
        }
    }
}

/// The process's groups with their costs.
fn groups(process: &ProcessResult) -> impl Iterator<Item = (String, Cost)> {
    process.attribution.groups.iter().map(|group| {
        let machine = MachineResult::new("", group.metrics.clone());
        (format!("{} {}", group.kind, group.name), Cost::of_machine(&machine))
    })
}

/// The memory that kernels back over time.
fn add_memory(profile: &mut Profile, handle: ProcessHandle, process: &ProcessResult) {
    for kernel in process.kernels.iter().filter(|kernel| !kernel.memory.is_empty()) {
        let name = format!("{} under {}", kernel.machine, kernel.policy);
        let counter =
            profile.add_counter(handle, &name, "Memory", "Bytes that the kernel backs, with huge pages");
        let mut before = 0;
        for point in &kernel.memory {
            let change = point.backed_bytes as f64 - before as f64;
            profile.add_counter_sample(counter, time(point.instructions), change, 0);
            before = point.backed_bytes;
        }
    }
}

fn instructions(machine: &MachineResult) -> u64 {
    machine.metrics.get("instructions").map_or(0, |count| count.as_f64() as u64)
}

/// A time of the run, in instructions.
fn time(instructions: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(instructions.min(TIME_MAX))
}
