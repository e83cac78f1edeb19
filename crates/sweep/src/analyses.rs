//! What runs over a stream in one job: a pass for each set of plans over the moved stream, and one for what last-level
//! sets cost under all of them.

use crate::displacement::MovedAnalysis;
use crate::plans::bind;
use crate::splits::{add_splits, arrays};
use crate::stream::Stream;
use crate::task::{RunningTask, Task, TaskOutcome};
use pagewalk_layout::rebase::{Mover, PlanBinding};
use pagewalk_layout::splits::{Lane, LaneCounts, Splits};
use pagewalk_plan::Plan;
use pagewalk_trace::pwt::Events;
use pagewalk_trace::{Analysis, Origin};
use std::collections::BTreeSet;

/// A task with its number, and its layout's plans by process; none as recorded.
pub struct PlannedTask<'a> {
    pub number: usize,
    pub task: Task<'a>,
    pub plans: Vec<&'a str>,
}

/// The processes of a stream: where each began, and, where layouts are simulated, its header and events.
pub struct Processes {
    pub origins: Vec<Origin>,
    pub events: Vec<Events>,
}

/// All tasks of a job over one stream.
pub struct Analyses {
    passes: Vec<MovedAnalysis<RunningTask>>,
    splits: Option<Splits>,
    /// By lane of the splits: its task, and its array's name.
    lanes: Vec<(usize, String)>,
}

impl Analyses {
    /// Starts these tasks over a stream, in enough passes to use `threads` threads.
    pub fn start(
        tasks: &[PlannedTask<'_>],
        stream: &Stream,
        processes: &Processes,
        threads: usize,
    ) -> Result<Analyses, String> {
        let (thp, sharing) = (stream.thp, stream.sharing.as_ref());
        let Processes { origins, events } = processes;
        let mut all = Analyses { passes: Vec::new(), splits: None, lanes: Vec::new() };
        let (mut layouts, mut lanes) = (Vec::new(), Vec::new());
        for plans in tasks.iter().map(|task| &task.plans[..]).collect::<BTreeSet<_>>() {
            let bounds = bound(plans, events)?;
            let own = tasks.iter().filter(|task| task.plans == plans);
            let numbered: Vec<(usize, Task<'_>)> = own.map(|task| (task.number, task.task)).collect();
            // Each plan has its own pass anyway.
            let threads = if plans.is_empty() { threads } else { 1 };
            let running = RunningTask::start(&numbered, origins, thp, sharing, threads);
            for running in running.map_err(|error| error.to_string())? {
                all.passes.push(MovedAnalysis::new(movers(&bounds, events), running));
            }
            let layout = (!bounds.is_empty()).then_some(layouts.len());
            for (number, task) in numbered {
                let Task::Machine(task) = task else { continue };
                for array in arrays(task.machine).filter(|_| task.has_splits(thp, sharing)) {
                    all.lanes.push((number, array.name.clone()));
                    lanes.push(Lane { array, layout });
                }
            }
            layouts.extend(bounds.into_iter().next());
        }
        all.splits = (!lanes.is_empty()).then(|| Splits::new(&events[0].header, layouts, &lanes));
        Ok(all)
    }

    /// The analyses, each of which must be given the whole stream.
    pub fn parts(&mut self) -> Vec<&mut dyn Analysis> {
        let passes = self.passes.iter_mut().map(|pass| pass as &mut dyn Analysis);
        self.splits.iter_mut().map(|splits| splits as &mut dyn Analysis).chain(passes).collect()
    }

    /// The outcomes, with their task numbers.
    pub fn finish(self) -> Vec<(usize, TaskOutcome)> {
        let mut outcomes: Vec<(usize, TaskOutcome)> =
            self.passes.into_iter().flat_map(|pass| pass.into_inner().finish()).collect();
        let counts = self.splits.map_or(Vec::new(), Splits::finish);
        let splits: Vec<((usize, String), LaneCounts)> = self.lanes.into_iter().zip(counts).collect();
        for (number, outcome) in &mut outcomes {
            let own = splits.iter().filter(|((task, _), _)| task == number);
            if let TaskOutcome::Machine(metrics, _) = outcome {
                add_splits(metrics, own.map(|((_, name), split)| (name.as_str(), split)));
            }
        }
        outcomes
    }
}

/// The movers of a stream under these plans by process; none without plans.
pub fn planned_movers(plans: &[&str], events: &[Events]) -> Result<Vec<Mover>, String> {
    bound(plans, events).map(|bounds| movers(&bounds, events))
}

fn movers(bounds: &[PlanBinding], events: &[Events]) -> Vec<Mover> {
    bounds.iter().zip(events).map(|(bound, events)| Mover::new(bound, &events.header)).collect()
}

fn bound(plans: &[&str], events: &[Events]) -> Result<Vec<PlanBinding>, String> {
    let bound = |(plan, events): (&&str, &Events)| {
        let plan = Plan::parse(plan, "a plan of this study").map_err(|error| error.to_string())?;
        bind(plan.layout.as_ref().ok_or("a plan of this study places nothing")?, events)
    };
    assert!(plans.is_empty() || plans.len() == events.len(), "a plan for each process");
    plans.iter().zip(events).map(bound).collect()
}
