//! The planners by name: having one plan for machines of which a stream was seen.

use super::callgraph;
use super::reuses::{StreamReuses, last_level};
use super::single_move::{self, TargetSet};
use super::views::StreamView;
use super::{Movables, arena, pack, random, search};
use crate::calls::CallGraph;
use crate::evictions::History;
use crate::plan::Place;
use pagewalk_translate::MachineSpec;
use std::ops::Range;

/// Who plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// All objects, by the reuses of pages.
    Search,
    /// One object, by who evicts whom in the worst set.
    Single,
    /// All objects, by which page of code calls which.
    Callgraph,
    /// Hot objects side by side.
    Pack,
    /// At random.
    Random,
}

impl Planner {
    /// All, with their names.
    pub const NAMES: [(&'static str, Planner); 5] = [
        ("search", Planner::Search),
        ("single", Planner::Single),
        ("callgraph", Planner::Callgraph),
        ("pack", Planner::Pack),
        ("random", Planner::Random),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Planner::NAMES.iter().find(|(_, planner)| *planner == self).map_or("", |(name, _)| name)
    }

    /// Whether it plans for several machines at once, or looks at none.
    pub fn takes_machines(self) -> bool {
        self == Planner::Search || self.looks_at_no_machine()
    }

    /// Whether its plan is the same for all machines with as many sets.
    pub fn looks_at_no_machine(self) -> bool {
        matches!(self, Planner::Pack | Planner::Random)
    }
}

/// A planner with what can be chosen of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannerOptions {
    /// Who plans.
    pub planner: Planner,
    /// `search`: random layouts to start from, beside the recorded one.
    pub starts: u64,
    /// Of what is drawn at random.
    pub seed: u64,
    /// `single`: where the hot page goes.
    pub target: TargetSet,
    /// `callgraph`: what the source leaves open.
    pub callgraph: callgraph::Options,
}

impl PlannerOptions {
    /// A planner as it is where nobody chooses.
    pub fn new(planner: Planner) -> PlannerOptions {
        PlannerOptions {
            planner,
            starts: search::DEFAULT_STARTS,
            seed: 1,
            target: TargetSet::Fewest,
            callgraph: callgraph::Options::default(),
        }
    }
}

/// Why nothing can be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlannerError {
    /// Nothing of the stream's program can move.
    #[error("the program has no shared object that can move")]
    NothingMoves,
    /// The arena is too small.
    #[error(transparent)]
    NoRoom(#[from] arena::NoRoom),
}

/// What a planner chose.
#[derive(Clone, Debug)]
pub struct ProposedLayouts {
    /// Layouts in the order in which they should be tried; one at least.
    pub candidates: Vec<Candidate>,
    /// Shifts are modulo it.
    pub period: u64,
}

/// A layout.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where each object is to lie.
    pub places: Vec<Place>,
    /// What was done, in a sentence.
    pub did: String,
    /// Whether the next one is to be tried if this one walks more often than the recorded one on some machine.
    pub must_pay: bool,
}

/// A shift for each object, and what was done.
type Shifts = (Vec<u64>, String);

impl StreamView {
    /// Has a planner plan for machines that are neighbours in what was seen. It is one of those that the stream was
    /// seen for.
    ///
    /// # Errors
    /// If nothing can move, or not all finds room.
    pub fn choose(
        &mut self,
        machines: Range<usize>,
        options: &PlannerOptions,
    ) -> Result<ProposedLayouts, PlannerError> {
        let objects = self.found.movables.all().len();
        if objects == 0 {
            return Err(PlannerError::NothingMoves);
        }
        let arrays = self.arrays_of(machines.clone());
        let period = search::period(&self.found.arrays[arrays]);
        let planned = match options.planner {
            Planner::Search => self.with_machines(machines, |found| by_reuses(found, options)),
            Planner::Single => vec![by_evictions(self.histories(machines), &self.found, options.target)],
            Planner::Callgraph => {
                let calls = self.calls.as_ref().expect("the stream was seen for this planner");
                vec![by_calls(calls, &self.found, period, options.callgraph)]
            }
            Planner::Random => {
                let candidate = at_random(&self.found.movables, period, options.seed)?;
                return Ok(ProposedLayouts { candidates: vec![candidate], period });
            }
            Planner::Pack => {
                let places = pack::places(self.found.movables.all(), &self.found.references);
                let did = format!("The {objects} objects lie side by side, the hottest first.");
                return Ok(ProposedLayouts {
                    candidates: vec![Candidate { places, did, must_pay: false }],
                    period,
                });
            }
        };
        let last = planned.len() - 1;
        let candidate = |(number, (shifts, did)): (usize, Shifts)| {
            let places = arena::places(self.found.movables.all(), &shifts, period)?;
            Ok(Candidate { places, did, must_pay: number < last })
        };
        let candidates = planned.into_iter().enumerate().map(candidate);
        Ok(ProposedLayouts { candidates: candidates.collect::<Result<_, PlannerError>>()?, period })
    }
}

/// All objects at random: all that this planner has to know of a stream is what can move.
///
/// # Errors
/// If nothing can move, or not all finds room.
pub fn at_random(movables: &Movables, period: u64, seed: u64) -> Result<Candidate, PlannerError> {
    let objects = movables.all();
    if objects.is_empty() {
        return Err(PlannerError::NothingMoves);
    }
    let places = arena::places(objects, &random::shifts(objects.len(), period, seed), period)?;
    let did = format!("All {} objects lie at random, by seed {seed}.", objects.len());
    Ok(Candidate { places, did, must_pay: false })
}

/// The largest number of sets of the machines' last levels: what shifts are modulo if one plan is for all of them.
pub fn period_of(machines: &[MachineSpec]) -> u64 {
    machines.iter().flat_map(last_level).map(|tlb| tlb.geometry.sets() as u64).max().unwrap_or(1)
}

fn by_reuses(found: &StreamReuses, options: &PlannerOptions) -> Vec<Shifts> {
    let scale = found.arrays.iter().map(|array| array.scale()).max().unwrap_or(1);
    let sample = if scale > 1 { format!(" (by one reuse of {scale})") } else { String::new() };
    let told = |best: search::BestLayout| {
        let moved = best.shifts.iter().filter(|&&shift| shift > 0).count();
        let did = format!(
            "{moved} of {} objects come to other sets; {:.1} % of the misses recorded are expected{sample}.",
            best.shifts.len(),
            best.relative * 100.0
        );
        (best.shifts, did)
    };
    let recorded = vec![0; found.movables.all().len()];
    let nothing =
        "No layout that was found is better on every machine: all objects keep their sets.".to_owned();
    search::best(found, options.starts, options.seed)
        .into_iter()
        .map(told)
        .chain([(recorded, nothing)])
        .collect()
}

/// Of several arrays (code and data apart), the one with most misses decides, as one plan is made.
fn by_evictions(histories: &[History], found: &StreamReuses, target: TargetSet) -> Shifts {
    let mut shifts = vec![0; found.movables.all().len()];
    let worst = histories.iter().max_by_key(|history| history.misses.total());
    let chosen =
        worst.and_then(|history| Some((history, single_move::choose(history, &found.movables, target)?)));
    let Some((history, moved)) = chosen else {
        return (
            shifts,
            "No page of an object that can move fights in the worst set: nothing moves.".to_owned(),
        );
    };
    shifts[moved.object] = moved.shift;
    let object = &found.movables.all()[moved.object];
    let did = format!(
        "{} moves: its page {:#x}, with a part in {:.2} % of all misses of `{}`, goes from set {} to set {}.",
        object.file,
        history.pages[moved.page].page.0,
        moved.involvement * 100.0,
        history.array.name,
        moved.sets[0],
        moved.sets[1]
    );
    (shifts, did)
}

fn by_calls(graph: &CallGraph, found: &StreamReuses, period: u64, options: callgraph::Options) -> Shifts {
    let shifts = callgraph::shifts(graph, &found.movables, period, options);
    let moved = shifts.iter().filter(|&&shift| shift > 0).count();
    let did = format!("{moved} of {} objects come to other sets, hottest page of code first.", shifts.len());
    (shifts, did)
}
