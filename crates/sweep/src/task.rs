//! Units of work: one kind of simulation of one stream.

use crate::cache_family::CacheFamilyCounts;
use crate::counts::{CurveCounts, FAMILY_ARRAYS, FamilyCounts};
use crate::groups::{NumberedDesign, groups};
use crate::machine_task::{LayoutChoice, MachineTask};
use crate::metrics::{add_structure, metrics, partition};
use crate::plans::PlanOutput;
use crate::splits::split_names;
use crate::study::{KernelKind, KernelVariant, MachineVariant, Study, SystemChoice, TraceSpec, serves_name};
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::{OsKernel, OsSpec, ThpMode};
use pagewalk_report::schema::{Metrics, PartitionMove};
use pagewalk_report::sweep::schema::Method;
use pagewalk_reuse::{CacheFamily, Family, ReferenceKinds, SampledDistances, Sampling, StackDistances};
use pagewalk_sim::{DesignCounts, HostKernel, PassError, Sharing, Simulation, StructureCounts};
use pagewalk_trace::{Analysis, Batch, Event, Origin};
use pagewalk_translate::Asid;
use pagewalk_units::{RefIndex, SpaceId};
use serde::{Deserialize, Serialize};

/// A task over a stream.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// Simulate a machine.
    Machine(MachineTask<'a>),
    /// Simulate the family.
    Family(ReferenceKinds),
    /// Simulate the family of caches with lines of so many bytes.
    CacheFamily(ReferenceKinds, u32),
    /// Take a miss-ratio curve.
    Curve(ReferenceKinds),
    /// Take a sampled one.
    Sampled(ReferenceKinds, Sampling),
}

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    /// A machine's counters, and its moving partition's positions.
    Machine(Metrics, Vec<PartitionMove>),
    /// Every array's misses.
    Family(FamilyCounts),
    /// Every cache's misses.
    CacheFamily(CacheFamilyCounts),
    /// A curve.
    Curve(CurveCounts),
    /// A plan that machines run under.
    Plan(PlanOutput),
}

impl TaskOutcome {
    /// The outcome of a machine, in a structure if it has counts.
    pub fn of_machine(counts: &DesignCounts, structure: Option<&StructureCounts>) -> TaskOutcome {
        let mut metrics = metrics(counts);
        if let Some(structure) = structure {
            add_structure(&mut metrics, structure);
        }
        TaskOutcome::Machine(metrics, partition(counts))
    }

    /// Whether it suits `task`, and has all that results need.
    pub fn fits(&self, task: &Task<'_>) -> bool {
        match (task, self) {
            (Task::Machine(_), TaskOutcome::Machine(..)) => true,
            (Task::Family(_), TaskOutcome::Family(counts)) => counts.is_whole(),
            (Task::CacheFamily(..), TaskOutcome::CacheFamily(counts)) => counts.is_whole(),
            (Task::Curve(_), TaskOutcome::Curve(counts)) => {
                counts.method == Method::Exact && counts.is_whole(0)
            }
            (Task::Sampled(_, sampling), TaskOutcome::Curve(counts)) => {
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

impl<'a> Task<'a> {
    /// All tasks of a study over each stream, in the order of its results.
    pub fn all(study: &'a Study) -> Vec<Task<'a>> {
        let mut tasks: Vec<Task<'a>> = MachineTask::all(study).map(Task::Machine).collect();
        if let Some(family) = &study.family {
            tasks.extend(family.serves.iter().map(|&serves| Task::Family(serves)));
        }
        if let Some(family) = &study.cache_family {
            let of = |&serves| family.line_bytes.iter().map(move |&bytes| Task::CacheFamily(serves, bytes));
            tasks.extend(family.serves.iter().flat_map(of));
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

    /// Whether it applies to a trace of this name.
    pub fn is_for(&self, trace: &str) -> bool {
        match self {
            Task::Machine(MachineTask { layout: Some(layout), .. }) => layout.spec.is_for(trace),
            _ => true,
        }
    }

    /// Everything that the outcome depends on besides stream and program, as text; `plans` are those of its layout by
    /// process, none for the recorded one.
    pub fn identity(&self, thp: &str, plans: &[&str]) -> String {
        match self {
            Task::Machine(task) => task.identity(thp, plans),
            Task::Family(serves) => format!("family, {}", serves_name(*serves)),
            Task::CacheFamily(serves, bytes) => {
                format!("family of caches, lines of {bytes}, {}", serves_name(*serves))
            }
            Task::Curve(serves) => format!("curve, {}", serves_name(*serves)),
            Task::Sampled(serves, sampling) => format!("curve, {}, {sampling:?}", serves_name(*serves)),
        }
    }

    /// For a task that replays its stream to choose superpages: the machine, and how it chooses.
    pub fn offline(&self) -> Option<(MachineTask<'a>, OfflineSettings)> {
        let Task::Machine(task) = self else { return None };
        let kernel = task.policy().filter(|kernel| kernel.replays())?;
        match kernel.build(&task.machine.machine) {
            Ok(Some(OsKernel::Offline(settings))) => Some((*task, settings)),
            _ => None,
        }
    }

    /// Its title as text.
    pub fn title(&self) -> String {
        match self {
            Task::Machine(task) => task.title(),
            Task::Family(serves) => format!("family of {} arrays, {}", FAMILY_ARRAYS, serves_name(*serves)),
            Task::CacheFamily(serves, bytes) => {
                format!("family of caches with lines of {bytes} bytes, {}", serves_name(*serves))
            }
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

impl Study {
    /// Everything that the outcomes of its tasks depend on, besides streams and layouts, as text.
    pub fn identity(&self) -> String {
        Task::all(self).iter().map(|task| task.identity("", &[]) + "\n").collect()
    }
}

/// Running simulators: of one task, or of several machines that share a pass. The numbers are those of the tasks.
pub enum RunningTask {
    Machines(Vec<usize>, Box<Simulation>),
    Family(usize, Box<Family>),
    CacheFamily(usize, Box<CacheFamily>, u32),
    Curve(usize, Box<StackDistances>),
    Sampled(usize, Box<SampledDistances>, Sampling),
}

impl RunningTask {
    /// Starts simulators for these tasks, over processes with these origins, one or taking turns. Machines share
    /// passes, in enough passes to use `threads` threads.
    pub fn start(
        tasks: &[(usize, Task<'_>)],
        origins: &[Origin],
        thp: ThpMode,
        sharing: Option<&Sharing>,
        threads: usize,
    ) -> Result<Vec<RunningTask>, PassError> {
        let mut running = Vec::new();
        let mut machines = Vec::new();
        for &(number, task) in tasks {
            match task {
                Task::Machine(task) => machines.push(NumberedDesign { number, task }),
                Task::Family(serves) => {
                    running.push(RunningTask::Family(number, Box::new(Family::new(serves))))
                }
                Task::CacheFamily(serves, bytes) => {
                    let family = Box::new(CacheFamily::with_lines(serves, &[bytes]));
                    running.push(RunningTask::CacheFamily(number, family, bytes));
                }
                Task::Curve(serves) => {
                    running.push(RunningTask::Curve(number, Box::new(StackDistances::new(serves))));
                }
                Task::Sampled(serves, sampling) => {
                    let sampled = Box::new(SampledDistances::new(serves, sampling));
                    running.push(RunningTask::Sampled(number, sampled, sampling));
                }
            }
        }
        let kernel = HostKernel::new(thp);
        for group in groups(machines, threads) {
            running.push(RunningTask::machines(&group, &kernel, sharing)?);
        }
        for running in &mut running {
            if let RunningTask::Machines(_, experiment) = running {
                begin(experiment, origins);
            }
        }
        Ok(running)
    }

    /// A simulation of these machines.
    fn machines(
        group: &[NumberedDesign<'_>],
        kernel: &HostKernel,
        sharing: Option<&Sharing>,
    ) -> Result<RunningTask, PassError> {
        let designs = group.iter().map(|one| one.design(kernel));
        let arrangement = group.first().map(|one| one.task.arrangement(sharing)).unwrap_or_default();
        let simulation = Simulation::new(designs.collect(), &arrangement)?;
        let numbers = group.iter().map(|one| one.number).collect();
        Ok(RunningTask::Machines(numbers, Box::new(simulation)))
    }

    fn analysis(&mut self) -> &mut dyn Analysis {
        match self {
            RunningTask::Machines(_, pass) => pass.as_mut(),
            RunningTask::Family(_, family) => family.as_mut(),
            RunningTask::CacheFamily(_, family, _) => family.as_mut(),
            RunningTask::Curve(_, distances) => distances.as_mut(),
            RunningTask::Sampled(_, sampled, _) => sampled.as_mut(),
        }
    }

    /// The outcomes, with their task numbers.
    pub fn finish(self) -> Vec<(usize, TaskOutcome)> {
        match self {
            RunningTask::Machines(numbers, mut pass) => {
                let system = pass.counts();
                let outcomes =
                    pass.finish().into_iter().map(|counts| TaskOutcome::of_machine(&counts, system.as_ref()));
                numbers.into_iter().zip(outcomes).collect()
            }
            RunningTask::Family(number, family) => {
                vec![(number, TaskOutcome::Family(FamilyCounts::of(&family)))]
            }
            RunningTask::CacheFamily(number, family, bytes) => {
                vec![(number, TaskOutcome::CacheFamily(CacheFamilyCounts::of(&family, bytes)))]
            }
            RunningTask::Curve(number, distances) => {
                vec![(number, TaskOutcome::Curve(CurveCounts::exact(&distances)))]
            }
            RunningTask::Sampled(number, sampled, sampling) => {
                vec![(number, TaskOutcome::Curve(CurveCounts::sampled(&sampled, sampling)))]
            }
        }
    }
}

/// Marks forked processes as children, before anything else.
pub fn begin(experiment: &mut Simulation, origins: &[Origin]) {
    let forked = (0..).zip(origins).filter(|(_, origin)| **origin == Origin::Fork);
    forked.filter_map(|(number, _)| Asid::new(number)).for_each(|asid| experiment.begin_as_child(asid));
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
pub fn counters(machine: &MachineVariant, under: SystemChoice<'_>) -> Result<Vec<String>, PassError> {
    let of = |under| Task::Machine(MachineTask { machine, under, layout: None });
    let mut task = of(under);
    let fixed = fixed();
    if task.offline().is_some() {
        // All kernels have the same counters.
        task = of((Some(&fixed), under.1));
    }
    let mut running = RunningTask::start(&[(0, task)], &[Origin::Start], ThpMode::Never, None, 1)?;
    match running.pop().and_then(|running| running.finish().pop()) {
        Some((_, TaskOutcome::Machine(metrics, _))) => Ok(metrics.into_keys().collect()),
        _ => unreachable!("a pass over one machine ends with its counters"),
    }
}

/// The same in a study, whose layouts may add some.
pub fn counters_in(
    study: &Study,
    machine: &MachineVariant,
    under: SystemChoice<'_>,
) -> Result<Vec<String>, PassError> {
    let mut names = counters(machine, under)?;
    let layouts = study.layouts.iter().enumerate();
    let layout = layouts.map(|(layout, spec)| LayoutChoice { spec, layout, draw: 0 }).next();
    // Without a mode of the study's, each trace has its own.
    let thp = study.thp.unwrap_or(ThpMode::Never);
    let alone = study.traces.iter().find(|trace| trace.sharing().is_none());
    let sharing = study.traces.first().filter(|_| alone.is_none()).and_then(TraceSpec::sharing);
    if (MachineTask { machine, under, layout }).has_splits(thp, sharing) {
        names.extend(split_names(machine));
        names.sort_unstable();
    }
    Ok(names)
}

/// The most parallel parts of a round: this many threads are busy with one stream.
pub fn work(tasks: &[Task<'_>], threads: usize) -> usize {
    let (mut machines, mut others) = (Vec::new(), 0);
    for (number, task) in tasks.iter().enumerate().filter(|(_, task)| task.offline().is_none()) {
        match *task {
            Task::Machine(task) if task.layout.is_none() => machines.push(NumberedDesign { number, task }),
            _ => others += 1,
        }
    }
    (others + groups(machines, threads).len()).max(1)
}

impl Analysis for RunningTask {
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
