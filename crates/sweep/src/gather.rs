//! Gathers the outcomes of a study into its result.

use crate::compare;
use crate::counts::{CurveCounts, FamilyCounts};
use crate::machine_task::MachineTask;
use crate::plans::{PlanOutput, PlanRequest, label};
use crate::run::Sweep;
use crate::study::{FamilySpec, Study, serves_name};
use crate::task::{Task, TaskOutcome};
use pagewalk_report::schema::{Metrics, PartitionMove};
use pagewalk_report::sweep::schema::{
    CurveCell, FamilyCell, FamilySize, LayoutPlanRow, MachineCell, SWEEP_SCHEMA, SweepResult,
};
use pagewalk_reuse::Family;

impl Sweep<'_> {
    /// The result, once all tasks have an outcome.
    pub(crate) fn result(self) -> SweepResult {
        let mut result = SweepResult {
            schema: SWEEP_SCHEMA.to_owned(),
            version: self.options.version.to_owned(),
            name: self.study.name.clone(),
            title: self.study.title.clone(),
            plans: self.plan_rows(),
            machines: Vec::new(),
            families: Vec::new(),
            cache_families: Vec::new(),
            curves: Vec::new(),
            comparisons: Vec::new(),
            published: self.study.published.clone(),
            plots: self.study.plots.clone(),
            traces: self.streams.into_iter().map(|stream| stream.about).collect(),
        };
        for (trace, outcomes) in self.outcomes.into_iter().enumerate() {
            for (task, outcome) in self.tasks.iter().zip(outcomes) {
                if task.is_for(&result.traces[trace].name) {
                    add_cell(&mut result, self.study, trace, task, outcome.expect("all tasks ended"));
                }
            }
        }
        let compared = self.study.compare.iter().map(|spec| compare::evaluate(spec, &result));
        result.comparisons = compared.collect();
        result
    }

    fn plan_rows(&self) -> Vec<LayoutPlanRow> {
        let row = |(wanted, made): &(PlanRequest, Option<PlanOutput>)| LayoutPlanRow {
            trace: wanted.trace,
            process: wanted.number(&self.streams),
            layout: self.study.layouts[wanted.layout].name.clone(),
            layout_seed: self.study.layouts[wanted.layout].seed(wanted.draw),
            machine: wanted.machine.map(|machine| label(self.study.machines_once()[machine])),
            file: wanted.file(self.study, &self.streams),
            did: made.clone().expect("all plans were made").did,
        };
        self.plans.iter().map(row).collect()
    }
}

/// Adds what a task of the study found on a trace.
fn add_cell(result: &mut SweepResult, study: &Study, trace: usize, task: &Task<'_>, outcome: TaskOutcome) {
    match (task, outcome) {
        (Task::Machine(task), TaskOutcome::Machine(metrics, partition)) => {
            result.machines.push(machine_cell(trace, task, metrics, partition));
        }
        (Task::Family(serves), TaskOutcome::Family(counts)) => {
            let spec = study.family.as_ref().expect("the study has this task");
            result.families.push(family_cell(trace, serves_name(*serves), spec, &counts));
        }
        (Task::CacheFamily(serves, bytes), TaskOutcome::CacheFamily(counts)) => {
            let spec = study.cache_family.as_ref().expect("the study has this task");
            result.cache_families.push(counts.cell(trace, *serves, *bytes, spec));
        }
        (Task::Curve(serves) | Task::Sampled(serves, _), TaskOutcome::Curve(counts)) => {
            result.curves.push(curve_cell(trace, serves_name(*serves), counts));
        }
        (task, _) => unreachable!("`{}` was given an outcome that fits", task.title()),
    }
}

fn machine_cell(
    trace: usize,
    task: &MachineTask<'_>,
    metrics: Metrics,
    partition: Vec<PartitionMove>,
) -> MachineCell {
    let MachineTask { machine, under: (kernel, structure), layout } = task;
    MachineCell {
        trace,
        machine: machine.machine.name.clone(),
        os: kernel.map(|kernel| kernel.name.clone()),
        structure: structure.map(|structure| structure.name.clone()),
        layout: layout.map(|choice| choice.spec.name.clone()),
        layout_seed: layout.and_then(|choice| choice.spec.seed(choice.draw)),
        parameters: machine.parameters.clone(),
        metrics,
        partition,
    }
}

fn family_cell(trace: usize, serves: &str, spec: &FamilySpec, counts: &FamilyCounts) -> FamilyCell {
    let sizes = Family::PAGE_SIZES.iter().enumerate().filter(|(_, size)| spec.page_sizes.contains(size));
    let size = |(place, size): (usize, &pagewalk_units::PageSize)| {
        let row = |&sets: &u32| spec.ways.iter().map(|&ways| counts.misses_of(place, sets, ways)).collect();
        FamilySize {
            page_size: size.to_string(),
            page_bytes: size.bytes(),
            sets: spec.sets.clone(),
            ways: spec.ways.clone(),
            misses: spec.sets.iter().map(row).collect(),
        }
    };
    FamilyCell {
        trace,
        serves: serves.to_owned(),
        references: counts.references,
        sizes: sizes.map(size).collect(),
    }
}

fn curve_cell(trace: usize, serves: &str, counts: CurveCounts) -> CurveCell {
    let CurveCounts { references, method, entries, misses, standard_errors } = counts;
    CurveCell { trace, serves: serves.to_owned(), references, method, entries, misses, standard_errors }
}
