//! Units of work: one kind of simulation of one stream.

use crate::data_side::data_side_metrics;
use crate::groups::{Numbered, groups, side_groups};
use crate::metrics::{add_structure, metrics, partition};
use crate::study::{KernelKind, KernelVariant, MachineVariant, Study, Under, serves_name};
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::{OsKernel, OsSpec, Thp, ThpMode};
use pagewalk_report::schema::{Metrics, PartitionMove};
use pagewalk_report::sweep::schema::Method;
use pagewalk_reuse::{Family, SampledDistances, Sampling, Serves, StackDistances};
use pagewalk_sim::{DataSides, HostKernel, NoObserver, Pass, PassError, Structured};
use pagewalk_trace::{Analysis, Batch, Event, Origin};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{RefIndex, SpaceId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What to do over a stream.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// Simulate a machine, under a kernel or that of the recording host, in an operating system or alone.
    Machine(&'a MachineVariant, Under<'a>),
    /// Simulate the family.
    Family(Serves),
    /// Take a miss-ratio curve.
    Curve(Serves),
    /// Take a sampled one.
    Sampled(Serves, Sampling),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A machine's counters, and where its partition went if it moves.
    Machine(Metrics, Vec<PartitionMove>),
    /// Every array's misses.
    Family(FamilyCounts),
    /// A curve.
    Curve(CurveCounts),
}

impl Outcome {
    /// Whether it is one of `task`, and has all that results take from it.
    pub fn fits(&self, task: &Task<'_>) -> bool {
        match (task, self) {
            (Task::Machine(..), Outcome::Machine(..)) => true,
            (Task::Family(_), Outcome::Family(counts)) => counts.is_whole(),
            (Task::Curve(_), Outcome::Curve(counts)) => counts.method == Method::Exact && counts.is_whole(0),
            (Task::Sampled(_, sampling), Outcome::Curve(counts)) => {
                let as_asked = match counts.method {
                    Method::Exact => false,
                    Method::FixedRate { .. } => matches!(sampling, Sampling::Rate(_)),
                    Method::FixedSize { .. } => matches!(sampling, Sampling::Pages(_)),
                };
                as_asked && counts.is_whole(counts.entries.len())
            }
            _ => false,
        }
    }
}

/// The misses of the whole family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyCounts {
    /// References.
    pub references: u64,
    /// Misses by page size, set count and ways, each in the order of [`Family`]; 64 ways for every set count.
    pub misses: Vec<u64>,
}

impl FamilyCounts {
    fn of(family: &Family) -> FamilyCounts {
        let shapes = Family::PAGE_SIZES.into_iter().flat_map(|size| {
            (0..=Family::SETS_MAX.ilog2())
                .flat_map(move |bits| (1..=Family::WAYS_MAX).map(move |ways| (size, 1 << bits, ways)))
        });
        let misses = shapes.map(|(size, sets, ways)| family.misses(size, sets, ways).expect("of the family"));
        FamilyCounts { references: family.references(), misses: misses.collect() }
    }

    /// Misses of one array: page size by its place in [`Family::PAGE_SIZES`].
    pub fn misses_of(&self, size: usize, sets: u32, ways: u32) -> u64 {
        let row = size * (Family::SETS_MAX.ilog2() as usize + 1) + sets.ilog2() as usize;
        self.misses[row * Family::WAYS_MAX as usize + ways as usize - 1]
    }

    /// Whether there are as many as the family has arrays.
    fn is_whole(&self) -> bool {
        self.misses.len() == FAMILY_ARRAYS
    }
}

/// Points of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveCounts {
    /// References.
    pub references: u64,
    /// How it was taken.
    pub method: Method,
    /// Entries.
    pub entries: Vec<u64>,
    /// Misses.
    pub misses: Vec<f64>,
    /// Their standard errors; empty where exact.
    pub standard_errors: Vec<f64>,
}

/// Points of a curve between one power of two and the next.
const POINTS: u64 = 8;

/// Sizes at which curves are told: eight from each power of two to the next.
fn points() -> impl Iterator<Item = u64> {
    let first = 1..POINTS;
    first.chain((0..u64::BITS - 4).flat_map(|bits| (POINTS..2 * POINTS).map(move |eighths| eighths << bits)))
}

impl CurveCounts {
    /// Whether every point has its misses, and so many of them a standard error.
    fn is_whole(&self, with_errors: usize) -> bool {
        self.misses.len() == self.entries.len() && self.standard_errors.len() == with_errors
    }

    fn exact(distances: &StackDistances) -> CurveCounts {
        let histogram = distances.histogram();
        let mut misses = distances.references();
        let mut summed = 0;
        let (mut entries, mut curve) = (Vec::new(), Vec::new());
        for point in points() {
            let end = histogram.len().min(usize::try_from(point).unwrap_or(usize::MAX));
            misses -= histogram[summed..end].iter().sum::<u64>();
            summed = end;
            entries.push(point);
            curve.push(misses as f64);
            if end == histogram.len() {
                break;
            }
        }
        let references = distances.references();
        CurveCounts { references, method: Method::Exact, entries, misses: curve, standard_errors: Vec::new() }
    }

    /// From the fewest entries that the sample tells of to where more no longer help.
    fn sampled(sampled: &SampledDistances, sampling: Sampling) -> CurveCounts {
        let rate = sampled.rate();
        let method = match sampling {
            Sampling::Rate(rate) => Method::FixedRate { rate },
            Sampling::Pages(pages) => Method::FixedSize { pages: pages as u64, rate },
        };
        let least = sampled.misses_with(u64::MAX).value;
        let mut counts = CurveCounts {
            references: sampled.references(),
            method,
            entries: Vec::new(),
            misses: Vec::new(),
            standard_errors: Vec::new(),
        };
        // Without a page in it, the sample tells of no array at all.
        let first = if least > 0.0 { sampled.resolution() } else { u64::MAX };
        for point in points().skip_while(|&point| point < first) {
            let estimate = sampled.misses_with(point);
            counts.entries.push(point);
            counts.misses.push(estimate.value);
            counts.standard_errors.push(estimate.standard_error);
            if estimate.value == least {
                break;
            }
        }
        counts
    }
}

impl<'a> Task<'a> {
    /// Everything that a study does over each stream, in the order of its results.
    pub fn all(study: &'a Study) -> Vec<Task<'a>> {
        let mut tasks: Vec<Task<'a>> =
            study.cells().map(|(variant, under)| Task::Machine(variant, under)).collect();
        if let Some(family) = &study.family {
            tasks.extend(family.serves.iter().map(|&serves| Task::Family(serves)));
        }
        if let Some(curve) = &study.curve {
            for &serves in &curve.serves {
                tasks.extend(curve.exact.then_some(Task::Curve(serves)));
                tasks.extend(curve.rate.map(|rate| Task::Sampled(serves, Sampling::Rate(rate))));
                tasks.extend(curve.pages.map(|pages| Task::Sampled(serves, Sampling::Pages(pages))));
            }
        }
        tasks
    }

    /// All that the outcome depends on besides the stream and the program, as text.
    pub fn identity(&self, thp: &str) -> String {
        match self {
            Task::Machine(variant, (kernel, structure)) => {
                let system = structure.filter(|structure| structure.spec.is_some());
                let system = system.map(|structure| format!("structure\n{}\n", structure.text));
                let system = system.unwrap_or_default();
                match kernel.filter(|kernel| kernel.kind != KernelKind::Host) {
                    Some(kernel) => format!("{system}machine, kernel\n{}\n{}", kernel.text, variant.text),
                    None => format!("{system}machine, thp {thp}\n{}", variant.text),
                }
            }
            Task::Family(serves) => format!("family, {}", serves_name(*serves)),
            Task::Curve(serves) => format!("curve, {}", serves_name(*serves)),
            Task::Sampled(serves, sampling) => format!("curve, {}, {sampling:?}", serves_name(*serves)),
        }
    }

    /// What chooses its superpages in replays of the stream, if it is of that kind: its machine, and how it chooses.
    pub fn offline(&self) -> Option<(&'a MachineSpec, OfflineSettings)> {
        let Task::Machine(variant, (Some(kernel), _)) = self else { return None };
        if !matches!(&kernel.kind, KernelKind::Policy(spec) if spec.replays()) {
            return None;
        }
        match kernel.build(&variant.machine) {
            Ok(Some(OsKernel::Offline(settings))) => Some((&variant.machine, settings)),
            _ => None,
        }
    }

    /// For people.
    pub fn title(&self) -> String {
        match self {
            Task::Machine(variant, (kernel, structure)) => {
                let parameters = variant.parameters.iter().map(|(key, value)| format!(", {key} = {value}"));
                let kernel = kernel.map_or(String::new(), |kernel| format!(", os {}", kernel.name));
                let system = structure.map_or(String::new(), |system| format!(", structure {}", system.name));
                format!("machine {}{}{kernel}{system}", variant.machine.name, parameters.collect::<String>())
            }
            Task::Family(serves) => format!("family of {} arrays, {}", FAMILY_ARRAYS, serves_name(*serves)),
            Task::Curve(serves) => format!("miss-ratio curve, {}", serves_name(*serves)),
            Task::Sampled(serves, Sampling::Rate(rate)) => {
                format!("miss-ratio curve, {}, sampled at rate {rate}", serves_name(*serves))
            }
            Task::Sampled(serves, Sampling::Pages(pages)) => {
                format!("miss-ratio curve, {}, sampled with {pages} pages", serves_name(*serves))
            }
        }
    }
}

/// Arrays of the family.
const FAMILY_ARRAYS: usize =
    Family::PAGE_SIZES.len() * (Family::SETS_MAX.ilog2() as usize + 1) * Family::WAYS_MAX as usize;

/// Simulators at work: of one task, or of several machines that share a pass. The numbers say which tasks.
pub enum Running {
    Machines(Vec<usize>, Box<Structured>),
    DataSides(Vec<usize>, Vec<MachineSpec>, Box<DataSides>),
    Family(usize, Box<Family>),
    Curve(usize, Box<StackDistances>),
    Sampled(usize, Box<SampledDistances>, Sampling),
}

impl Running {
    /// Simulators for these tasks, of a process that began so. Machines share passes, in enough of them to keep
    /// `threads` threads busy.
    pub fn start(
        tasks: &[(usize, Task<'_>)],
        origin: Origin,
        thp: ThpMode,
        threads: usize,
    ) -> Result<Vec<Running>, PassError> {
        let mut running = Vec::new();
        let mut machines = Vec::new();
        for &(number, task) in tasks {
            match task {
                Task::Machine(machine, (kernel, structure)) => {
                    machines.push(Numbered { number, machine, kernel, structure });
                }
                Task::Family(serves) => running.push(Running::Family(number, Box::new(Family::new(serves)))),
                Task::Curve(serves) => {
                    running.push(Running::Curve(number, Box::new(StackDistances::new(serves))));
                }
                Task::Sampled(serves, sampling) => {
                    let sampled = Box::new(SampledDistances::new(serves, sampling));
                    running.push(Running::Sampled(number, sampled, sampling));
                }
            }
        }
        let (sides, machines): (Vec<Numbered<'_>>, _) =
            machines.into_iter().partition(Numbered::is_data_side);
        running.extend(Running::data_sides(&sides, thp, threads));
        let kernel = HostKernel::new(thp);
        for group in groups(machines, threads) {
            Running::add_passes(&mut running, &group, &kernel)?;
        }
        if origin == Origin::Fork {
            for running in &mut running {
                if let Running::Machines(_, pass) = running {
                    pass.begin_as_child();
                }
            }
        }
        Ok(running)
    }

    /// A pass over these machines; several where they are too many for one.
    fn add_passes(
        running: &mut Vec<Running>,
        group: &[Numbered<'_>],
        kernel: &HostKernel,
    ) -> Result<(), PassError> {
        let designs = group.iter().map(|one| one.design(kernel));
        match Pass::new(designs.collect(), NoObserver) {
            Ok(pass) => {
                let system = group.first().and_then(|one| one.structure?.spec.clone());
                let pass = Structured::new(pass, system);
                let numbers = group.iter().map(|one| one.number).collect();
                running.push(Running::Machines(numbers, Box::new(pass)));
                Ok(())
            }
            Err(PassError::DesignCount(_)) if group.len() > 1 => {
                let (some, others) = group.split_at(group.len() / 2);
                Running::add_passes(running, some, kernel)?;
                Running::add_passes(running, others, kernel)
            }
            Err(error) => Err(error),
        }
    }

    /// Passes over these data sides: for each kind of pages as many as keep `threads` threads busy.
    fn data_sides(sides: &[Numbered<'_>], thp: ThpMode, threads: usize) -> Vec<Running> {
        let pass = |chunk: &[Numbered<'_>]| {
            let machines: Vec<MachineSpec> = chunk.iter().map(|one| one.machine.machine.clone()).collect();
            let pass = DataSides::new(&machines, Arc::new(Thp { mode: thp }));
            let pass = pass.expect("each was simulated when the study was read, and they are of one kind");
            let numbers = chunk.iter().map(|one| one.number).collect();
            Running::DataSides(numbers, machines, Box::new(pass))
        };
        side_groups(sides, threads).map(pass).collect()
    }

    fn analysis(&mut self) -> &mut dyn Analysis {
        match self {
            Running::Machines(_, pass) => pass.as_mut(),
            Running::DataSides(_, _, pass) => pass.as_mut(),
            Running::Family(_, family) => family.as_mut(),
            Running::Curve(_, distances) => distances.as_mut(),
            Running::Sampled(_, sampled, _) => sampled.as_mut(),
        }
    }

    /// The outcomes, with the numbers of their tasks.
    pub fn finish(self) -> Vec<(usize, Outcome)> {
        match self {
            Running::Machines(numbers, mut pass) => {
                let system = pass.counts();
                let outcome = |counts| {
                    let mut metrics = metrics(&counts);
                    if let Some(counts) = &system {
                        add_structure(&mut metrics, counts);
                    }
                    Outcome::Machine(metrics, partition(&counts))
                };
                let outcomes = pass.finish().into_iter().map(outcome);
                numbers.into_iter().zip(outcomes).collect()
            }
            Running::DataSides(numbers, machines, mut pass) => {
                let outcome = |(machine, totals)| {
                    let metrics = data_side_metrics(machine, &totals);
                    let metrics = metrics.expect("energy was checked when the study was read");
                    Outcome::Machine(metrics, Vec::new())
                };
                let outcomes: Vec<Outcome> = machines.iter().zip(pass.finish()).map(outcome).collect();
                numbers.into_iter().zip(outcomes).collect()
            }
            Running::Family(number, family) => vec![(number, Outcome::Family(FamilyCounts::of(&family)))],
            Running::Curve(number, distances) => {
                vec![(number, Outcome::Curve(CurveCounts::exact(&distances)))]
            }
            Running::Sampled(number, sampled, sampling) => {
                vec![(number, Outcome::Curve(CurveCounts::sampled(&sampled, sampling)))]
            }
        }
    }
}

/// A kernel without superpages.
fn fixed() -> KernelVariant {
    let spec = OsSpec::from_text("fixed").expect("the policy is known");
    KernelVariant {
        name: String::new(),
        machines: Vec::new(),
        kind: KernelKind::Policy(spec),
        text: String::new(),
    }
}

/// Names of a machine's counters.
pub fn counters(variant: &MachineVariant, under: Under<'_>) -> Result<Vec<String>, PassError> {
    let mut task = Task::Machine(variant, under);
    let fixed = fixed();
    if task.offline().is_some() {
        // Kernels of all kinds have the same counters.
        task = Task::Machine(variant, (Some(&fixed), None));
    }
    let mut running = Running::start(&[(0, task)], Origin::Start, ThpMode::Never, 1)?;
    match running.pop().and_then(|running| running.finish().pop()) {
        Some((_, Outcome::Machine(metrics, _))) => Ok(metrics.into_keys().collect()),
        _ => unreachable!("a pass over one machine ends with its counters"),
    }
}

/// How many parts of a round there are at the most: so many threads are busy with one stream.
pub fn work(tasks: &[Task<'_>], threads: usize) -> usize {
    let (mut machines, mut others) = (Vec::new(), 0);
    for (number, task) in tasks.iter().enumerate().filter(|(_, task)| task.offline().is_none()) {
        match *task {
            Task::Machine(machine, (kernel, structure)) => {
                machines.push(Numbered { number, machine, kernel, structure });
            }
            _ => others += 1,
        }
    }
    let (sides, machines): (Vec<Numbered<'_>>, _) = machines.into_iter().partition(Numbered::is_data_side);
    (others + side_groups(&sides, threads).count() + groups(machines, threads).len()).max(1)
}

impl Analysis for Running {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.analysis().on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.analysis().on_event(at, event);
    }

    fn on_turn(&mut self, space: SpaceId) {
        self.analysis().on_turn(space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_units::Vpn;

    #[test]
    fn curves_have_eight_points_an_octave() {
        let first: Vec<u64> = points().take(20).collect();
        assert_eq!(first, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24]);
        assert!(points().is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_sample_without_pages_tells_nothing() {
        let sampling = Sampling::Rate(1e-12);
        let mut sampled = SampledDistances::new(Serves::Data, sampling);
        (0..100).for_each(|vpn| sampled.reference(Vpn(vpn)));
        let curve = CurveCounts::sampled(&sampled, sampling);
        assert_eq!((curve.references, curve.method), (100, Method::FixedRate { rate: 1e-12 }));
        assert!(curve.entries.is_empty() && curve.misses.is_empty() && curve.standard_errors.is_empty());
    }

    #[test]
    fn a_curve_ends_where_more_entries_no_longer_help() {
        let mut distances = StackDistances::new(Serves::Data);
        (0..3).for_each(|_| (0..100).for_each(|vpn| distances.reference(Vpn(vpn))));
        let curve = CurveCounts::exact(&distances);
        assert_eq!(curve.entries.last(), Some(&104));
        let at = |entries| curve.misses[curve.entries.iter().position(|&e| e == entries).unwrap()];
        assert_eq!((at(1), at(96), at(104)), (300.0, 300.0, 100.0));
        for (&entries, &misses) in curve.entries.iter().zip(&curve.misses) {
            assert_eq!(misses, distances.misses_with(entries as usize) as f64);
        }
        assert_eq!(CurveCounts::exact(&StackDistances::new(Serves::Data)).entries, [1]);
    }
}
