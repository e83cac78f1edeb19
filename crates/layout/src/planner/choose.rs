//! Planners by name, and running one for machines that a stream was collected for.

use super::callgraph;
use super::reuses::{StreamReuses, last_level};
use super::single_move::{self, TargetSet};
use super::views::StreamView;
use super::{Movables, arena, pack, random, search};
use crate::calls::CallGraph;
use crate::evictions::ArrayHistory;
use pagewalk_plan::Place;
use pagewalk_translate::MachineSpec;
use std::ops::Range;

/// The planners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// All objects, by reuses of pages.
    Search,
    /// One object, by evictions in the worst set.
    Single,
    /// All objects, by calls between code pages.
    Callgraph,
    /// Hot objects side by side.
    Pack,
    /// At random.
    Random,
}

impl Planner {
    /// All, by name.
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

    /// Whether it plans for several machines at once, or for none.
    pub fn takes_machines(self) -> bool {
        self == Planner::Search || self.looks_at_no_machine()
    }

    /// Whether its plan depends on a machine's number of sets only.
    pub fn looks_at_no_machine(self) -> bool {
        matches!(self, Planner::Pack | Planner::Random)
    }
}

/// A planner with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannerOptions {
    /// The planner.
    pub planner: Planner,
    /// `search`: random layouts to start from, besides the recorded one.
    pub starts: u64,
    /// Seed of random draws.
    pub seed: u64,
    /// `single`: where the hot page goes.
    pub target: TargetSet,
    /// `callgraph`: choices that the source leaves open.
    pub callgraph: callgraph::CallgraphOptions,
}

impl PlannerOptions {
    /// A planner with default options.
    pub fn new(planner: Planner) -> PlannerOptions {
        PlannerOptions {
            planner,
            starts: search::DEFAULT_STARTS,
            seed: 1,
            target: TargetSet::Fewest,
            callgraph: callgraph::CallgraphOptions::default(),
        }
    }
}

/// Why planning failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlannerError {
    /// Nothing can move.
    #[error("the program has no shared object that can move")]
    NothingMoves,
    /// The arena is too small.
    #[error(transparent)]
    NoRoom(#[from] arena::NoRoom),
}

/// A planner's proposals.
#[derive(Clone, Debug)]
pub struct ProposedLayouts {
    /// Layouts in the order to try; at least one.
    pub candidates: Vec<Candidate>,
    /// The modulus of shifts.
    pub period: u64,
}

/// A layout.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where each object is to lie.
    pub places: Vec<Place>,
    /// What the planner did, in a sentence.
    pub did: String,
    /// Whether to try the next layout if this one walks more than the recorded one on some machine.
    pub must_pay: bool,
}

/// A shift for each object, and what the planner did.
type Shifts = (Vec<u64>, String);

impl StreamView {
    /// Runs a planner for adjacent machines of those that the stream was collected for.
    ///
    /// # Errors
    /// If nothing can move, or there is no room.
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

/// Places all objects at random; needs to know only what can move.
///
/// # Errors
/// If nothing can move, or there is no room.
pub fn at_random(movables: &Movables, period: u64, seed: u64) -> Result<Candidate, PlannerError> {
    let objects = movables.all();
    if objects.is_empty() {
        return Err(PlannerError::NothingMoves);
    }
    let places = arena::places(objects, &random::shifts(objects.len(), period, seed), period)?;
    let did = format!("All {} objects lie at random, by seed {seed}.", objects.len());
    Ok(Candidate { places, did, must_pay: false })
}

/// The largest number of sets in the machines' last levels: the modulus of shifts for a common plan.
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
    let nothing = "No layout that was found is better: all objects keep their sets.".to_owned();
    search::best(found, options.starts, options.seed)
        .into_iter()
        .map(told)
        .chain([(recorded, nothing)])
        .collect()
}

/// Makes one plan: of several arrays (code and data apart), the one with most misses decides.
fn by_evictions(histories: &[ArrayHistory], found: &StreamReuses, target: TargetSet) -> Shifts {
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

fn by_calls(
    graph: &CallGraph,
    found: &StreamReuses,
    period: u64,
    options: callgraph::CallgraphOptions,
) -> Shifts {
    let shifts = callgraph::shifts(graph, &found.movables, period, options);
    let moved = shifts.iter().filter(|&&shift| shift > 0).count();
    let did = format!("{moved} of {} objects come to other sets, hottest page of code first.", shifts.len());
    (shifts, did)
}
