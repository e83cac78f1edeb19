//! Simulates one process on one core under the host's kernel: who causes walks, and what would help.

use super::data_side;
use super::spec::Experiment;
use crate::findings::{Detail, Namer};
use crate::stream::{Ending, follow_ahead, processors};
use pagewalk_report::schema::ProcessResult;
use pagewalk_sim as sim;
use pagewalk_sim::Profile;
use pagewalk_trace::{Source, StreamHeader};
use pagewalk_translate::MachineSpec;

/// Follows `source` to its end, through some of the experiment's machines (all, if they are data sides) and what is
/// `beside`.
pub fn once<S: Source + Send>(
    experiment: &Experiment,
    machines: &[MachineSpec],
    source: S,
    (namer, detail): (&Namer, Detail),
    beside: Option<&mut sim::Simulation>,
) -> (ProcessResult, Ending) {
    let (whole, sides) = data_side::split(machines);
    if whole.is_empty() {
        return data_side::once(experiment, source, (namer, detail), beside);
    }
    let header: StreamHeader = source.header().clone();
    let thp = crate::machines::thp(experiment.thp, &header.thp);
    let mut profiler = Profile::new(&whole, thp, experiment.what_if).expect("the experiment was checked");
    let processors = processors();
    if processors > 1 {
        profiler = profiler.on_threads(processors);
    }
    let sides: Vec<sim::Simulation> =
        if sides.is_empty() { Vec::new() } else { vec![data_side::designs(&sides, thp)] };
    let mut analyses = ((profiler, (sides, beside)), namer.ahead());
    let ending = follow_ahead(source, &experiment.window, &mut analyses);
    let (profiler, (sides, _)) = &mut analyses.0;
    let mut process = namer.process(&header, &whole, &mut profiler.finish(), detail);
    process.machines.extend(sides.iter_mut().flat_map(data_side::results));
    process.ended = ending.describe();
    process.losses.extend(ending.told_losses());
    (process, ending)
}
