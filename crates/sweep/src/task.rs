//! Units of work: one kind of simulation of one stream.

use crate::cache_family::CacheFamilyCounts;
use crate::counts::{CurveCounts, FAMILY_ARRAYS, FamilyCounts};
use crate::groups::{NumberedDesign, groups};
use crate::layouts::RECORDED;
use crate::metrics::{add_structure, metrics, partition};
use crate::plans::{PlanOutput, label};
use crate::splits::split_names;
use crate::study::{KernelKind, KernelVariant, LayoutSpec, MachineVariant, Study, SystemChoice, serves_name};
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{OsKernel, OsSpec, ThpMode};
use pagewalk_report::schema::{Metrics, PartitionMove};
use pagewalk_report::sweep::schema::Method;
use pagewalk_reuse::{CacheFamily, Family, ReferenceKinds, SampledDistances, Sampling, StackDistances};
use pagewalk_sim::{Arrangement, DesignCounts, HostKernel, PassError, Simulation, StructureCounts};
use pagewalk_trace::{Analysis, Batch, Event, Origin};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{RefIndex, SpaceId};
use serde::{Deserialize, Serialize};

/// A task over a stream.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// Simulate a machine in an operating system or alone, under a kernel or the recording host's.
    Machine(&'a MachineVariant, SystemChoice<'a>),
    /// Simulate a machine under a layout.
    Laid(&'a MachineVariant, LayoutChoice<'a>),
    /// Simulate the family.
    Family(ReferenceKinds),
    /// Simulate the family of caches with lines of so many bytes.
    CacheFamily(ReferenceKinds, u32),
    /// Take a miss-ratio curve.
    Curve(ReferenceKinds),
    /// Take a sampled one.
    Sampled(ReferenceKinds, Sampling),
}

/// The layout under which a machine runs.
#[derive(Clone, Copy, Debug)]
pub struct LayoutChoice<'a> {
    pub spec: &'a LayoutSpec,
    /// Its index in the study.
    pub layout: usize,
    /// The draw, if several are drawn.
    pub draw: u64,
    /// The machine's index in the study.
    pub machine: usize,
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
            (Task::Machine(..) | Task::Laid(..), TaskOutcome::Machine(..)) => true,
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
        let mut tasks: Vec<Task<'a>> = match study.layouts.is_empty() {
            true => study.cells().map(|(variant, under)| Task::Machine(variant, under)).collect(),
            false => Task::laid(study),
        };
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

    /// Every machine under every layout and draw.
    fn laid(study: &'a Study) -> Vec<Task<'a>> {
        let of_machine = |(machine, variant): (usize, &'a MachineVariant)| {
            let layouts = study.layouts.iter().enumerate();
            layouts.flat_map(move |(layout, spec)| {
                (0..spec.count)
                    .map(move |draw| Task::Laid(variant, LayoutChoice { spec, layout, draw, machine }))
            })
        };
        study.machines.iter().enumerate().flat_map(of_machine).collect()
    }

    /// Whether it applies to a trace of this name.
    pub fn is_for(&self, trace: &str) -> bool {
        match self {
            Task::Laid(_, laying) => laying.spec.is_for(trace),
            _ => true,
        }
    }

    /// Everything that the outcome depends on besides stream and program, as text; `plan` is its layout's plan, unless
    /// it is the recorded one.
    pub fn identity(&self, thp: &str, plan: Option<&str>) -> String {
        match self {
            Task::Laid(variant, _) => {
                format!("layout\n{}\nmachine, thp {thp}\n{}", plan.unwrap_or(RECORDED), variant.text)
            }
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
            Task::CacheFamily(serves, bytes) => {
                format!("family of caches, lines of {bytes}, {}", serves_name(*serves))
            }
            Task::Curve(serves) => format!("curve, {}", serves_name(*serves)),
            Task::Sampled(serves, sampling) => format!("curve, {}, {sampling:?}", serves_name(*serves)),
        }
    }

    /// For a task that replays its stream to choose superpages: its machine, how it chooses, and in which structure.
    pub fn offline(&self) -> Option<(&'a MachineSpec, OfflineSettings, Option<&'a StructureSpec>)> {
        let Task::Machine(variant, (Some(kernel), structure)) = self else { return None };
        if !kernel.replays() {
            return None;
        }
        match kernel.build(&variant.machine) {
            Ok(Some(OsKernel::Offline(settings))) => {
                Some((&variant.machine, settings, structure.and_then(|structure| structure.spec.as_ref())))
            }
            _ => None,
        }
    }

    /// Its title as text.
    pub fn title(&self) -> String {
        match self {
            Task::Machine(variant, (kernel, structure)) => {
                let parameters = variant.parameters.iter().map(|(key, value)| format!(", {key} = {value}"));
                let kernel = kernel.map_or(String::new(), |kernel| format!(", os {}", kernel.name));
                let system = structure.map_or(String::new(), |system| format!(", structure {}", system.name));
                format!("machine {}{}{kernel}{system}", variant.machine.name, parameters.collect::<String>())
            }
            Task::Laid(variant, LayoutChoice { spec, draw, .. }) => {
                let seed = spec.seed(*draw).map_or(String::new(), |seed| format!(" by seed {seed}"));
                format!("machine {}, layout {}{seed}", label(variant), spec.name)
            }
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
        Task::all(self).iter().map(|task| task.identity("", None) + "\n").collect()
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
        turns: bool,
        threads: usize,
    ) -> Result<Vec<RunningTask>, PassError> {
        let mut running = Vec::new();
        let mut machines = Vec::new();
        for &(number, task) in tasks {
            match task {
                Task::Machine(machine, (kernel, structure)) => {
                    machines.push(NumberedDesign { number, machine, kernel, structure });
                }
                Task::Laid(..) => unreachable!("machines under layouts are started as `Laid`"),
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
            running.push(RunningTask::machines(&group, &kernel, turns)?);
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
        turns: bool,
    ) -> Result<RunningTask, PassError> {
        let designs = group.iter().map(|one| one.design(kernel));
        let structure = group.first().and_then(|one| one.structure?.spec.clone());
        let arrangement = Arrangement { structure, turns, ..Arrangement::default() };
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
pub fn counters(variant: &MachineVariant, under: SystemChoice<'_>) -> Result<Vec<String>, PassError> {
    let mut task = Task::Machine(variant, under);
    let fixed = fixed();
    if task.offline().is_some() {
        // All kernels have the same counters.
        task = Task::Machine(variant, (Some(&fixed), under.1));
    }
    let mut running = RunningTask::start(&[(0, task)], &[Origin::Start], ThpMode::Never, false, 1)?;
    match running.pop().and_then(|running| running.finish().pop()) {
        Some((_, TaskOutcome::Machine(metrics, _))) => Ok(metrics.into_keys().collect()),
        _ => unreachable!("a pass over one machine ends with its counters"),
    }
}

/// The same in a study, whose layouts may add some.
pub fn counters_in(
    study: &Study,
    variant: &MachineVariant,
    under: SystemChoice<'_>,
) -> Result<Vec<String>, PassError> {
    let mut names = counters(variant, under)?;
    if !study.layouts.is_empty() {
        names.extend(split_names(variant));
        names.sort_unstable();
    }
    Ok(names)
}

/// The most parallel parts of a round: this many threads are busy with one stream.
pub fn work(tasks: &[Task<'_>], threads: usize) -> usize {
    let (mut machines, mut others) = (Vec::new(), 0);
    for (number, task) in tasks.iter().enumerate().filter(|(_, task)| task.offline().is_none()) {
        match *task {
            Task::Machine(machine, (kernel, structure)) => {
                machines.push(NumberedDesign { number, machine, kernel, structure });
            }
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
