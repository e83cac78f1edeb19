//! Machines under layouts: one pass per plan over its moved stream, and one pass for what last-level sets cost under
//! all of them.

use crate::displacement::MovedAnalysis;
use crate::error::SweepError;
use crate::plans::bind;
use crate::splits::{add_splits, arrays};
use crate::study::MachineVariant;
use crate::task::{RunningTask, Task, TaskOutcome};
use pagewalk_layout::rebase::{Mover, PlanBinding};
use pagewalk_layout::splits::{Lane, LaneCounts, Splits};
use pagewalk_mm::ThpMode;
use pagewalk_plan::Plan;
use pagewalk_trace::Analysis;
use pagewalk_trace::pwt::Events;

/// A machine under a layout: its task number, and the layout's plan unless it is the recorded one.
pub struct LayoutTask<'a> {
    pub number: usize,
    pub machine: &'a MachineVariant,
    pub plan: Option<&'a str>,
}

/// All machines under their layouts over one stream.
pub struct LayoutRuns {
    passes: Vec<MovedAnalysis<RunningTask>>,
    splits: Splits,
    /// By lane of the splits: its task, and its array's name.
    lanes: Vec<(usize, String)>,
}

impl LayoutRuns {
    /// For these tasks over the stream with these events.
    pub fn start(
        tasks: &[LayoutTask<'_>],
        events: &Events,
        wrong: impl Fn(String) -> SweepError,
    ) -> Result<LayoutRuns, SweepError> {
        let mut plans: Vec<Option<&str>> = tasks.iter().map(|task| task.plan).collect();
        plans.sort_unstable();
        plans.dedup();
        let (mut passes, mut bounds) = (Vec::new(), Vec::new());
        let (mut lanes, mut of_lanes) = (Vec::new(), Vec::new());
        for plan in plans {
            let bound = plan.map(|plan| bound(plan, events)).transpose().map_err(&wrong)?;
            let mover = || bound.as_ref().map(|bound| Mover::new(bound, &events.header));
            let own: Vec<&LayoutTask<'_>> = tasks.iter().filter(|task| task.plan == plan).collect();
            let as_tasks: Vec<(usize, Task<'_>)> =
                own.iter().map(|task| (task.number, Task::Machine(task.machine, (None, None)))).collect();
            // One thread: each plan has its own pass anyway.
            let running = RunningTask::start(&as_tasks, &[events.header.origin], ThpMode::Never, false, 1);
            for running in running.map_err(|error| wrong(error.to_string()))? {
                passes.push(MovedAnalysis::new(mover(), running));
            }
            let layout = bound.as_ref().map(|_| bounds.len());
            bounds.extend(bound);
            for task in own {
                for array in arrays(task.machine) {
                    of_lanes.push((task.number, array.name.clone()));
                    lanes.push(Lane { array, layout });
                }
            }
        }
        let splits = Splits::new(&events.header, bounds, &lanes);
        Ok(LayoutRuns { passes, splits, lanes: of_lanes })
    }

    /// The analyses, each of which must be given the whole stream.
    pub fn parts(&mut self) -> Vec<&mut dyn Analysis> {
        let passes = self.passes.iter_mut().map(|pass| pass as &mut dyn Analysis);
        std::iter::once(&mut self.splits as &mut dyn Analysis).chain(passes).collect()
    }

    /// The outcomes, with their task numbers.
    pub fn finish(self) -> Vec<(usize, TaskOutcome)> {
        let mut outcomes: Vec<(usize, TaskOutcome)> =
            self.passes.into_iter().flat_map(|pass| pass.into_inner().finish()).collect();
        let splits: Vec<(usize, String, LaneCounts)> = self
            .lanes
            .into_iter()
            .zip(self.splits.finish())
            .map(|((task, name), split)| (task, name, split))
            .collect();
        for (number, outcome) in &mut outcomes {
            let own = splits.iter().filter(|(task, ..)| task == number);
            if let TaskOutcome::Machine(metrics, _) = outcome {
                add_splits(metrics, own.map(|(_, name, split)| (name.as_str(), split)));
            }
        }
        outcomes
    }
}

fn bound(plan: &str, events: &Events) -> Result<PlanBinding, String> {
    let plan = Plan::parse(plan, "a plan of this study").map_err(|error| error.to_string())?;
    bind(plan.layout.as_ref().ok_or("a plan of this study places nothing")?, events)
}
