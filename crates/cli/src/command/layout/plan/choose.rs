//! The planners, each with what it has to see of the stream.

use crate::arguments::{LayoutPlan, Planner};
use crate::error::{CliError, Code};
use pagewalk_layout::calls::{CallGraph, Calls};
use pagewalk_layout::evictions::{ArraySpec, DEFAULT_ROWS, Evictions, History};
use pagewalk_layout::plan::Place;
use pagewalk_layout::planner::reuses::{Found, Reuses, last_level};
use pagewalk_layout::planner::{arena, callgraph, pack, random, search, single};
use pagewalk_trace::StreamHeader;
use pagewalk_translate::MachineSpec;

impl Planner {
    /// Whether it plans for several machines at once, or looks at none.
    pub fn takes_machines(self) -> bool {
        matches!(self, Planner::Search | Planner::Pack | Planner::Random)
    }

    fn name(self) -> &'static str {
        match self {
            Planner::Search => "search",
            Planner::Single => "single",
            Planner::Callgraph => "callgraph",
            Planner::Pack => "pack",
            Planner::Random => "random",
        }
    }
}

/// What planners see of a stream: reuses for all, and evictions or calls for those that want them.
pub type Seen = (Reuses, (Option<Evictions>, Option<Calls>));

/// What a planner chose.
pub struct Chosen {
    pub planner: &'static str,
    /// Layouts in the order in which they should be tried; one at least.
    pub layouts: Vec<Layout>,
    /// Shifts are modulo it.
    pub period: u64,
    pub found: Found,
}

/// A layout.
#[derive(Clone)]
pub struct Layout {
    pub places: Vec<Place>,
    /// What was done, in a sentence.
    pub did: String,
    /// Whether the next one is tried if this one walks more often than the recorded one on some machine.
    pub must_pay: bool,
}

/// What the planner has to see of a stream with this header.
pub fn to_see(header: &StreamHeader, machines: &[MachineSpec], planner: Planner) -> Seen {
    let arrays: Vec<ArraySpec> = machines.iter().flat_map(last_level).map(ArraySpec::of).collect();
    let evictions = (planner == Planner::Single).then(|| Evictions::new(header, &arrays, DEFAULT_ROWS));
    let calls = (planner == Planner::Callgraph).then(|| Calls::new(header));
    (Reuses::new(header, machines), (evictions, calls))
}

impl Chosen {
    /// Has the planner plan.
    pub fn new((reuses, (evictions, calls)): Seen, arguments: &LayoutPlan) -> Result<Chosen, CliError> {
        let found = reuses.finish();
        let objects = found.movables.all();
        if objects.is_empty() {
            let why =
                format!("{}: the program has no shared object that can move", arguments.trace.display());
            return Err(CliError::new(Code::BadInput, why).or("record a program that is linked dynamically"));
        }
        let period = search::period(&found.arrays);
        let planned = match (arguments.planner, evictions, calls) {
            (Planner::Single, Some(evictions), _) => {
                vec![by_evictions(&evictions.finish().0, &found, arguments)]
            }
            (Planner::Callgraph, _, Some(calls)) => {
                vec![by_calls(&calls.finish(), &found, period, arguments)]
            }
            (Planner::Random, ..) => {
                let did = format!("All {} objects lie at random, by seed {}.", objects.len(), arguments.seed);
                vec![(random::shifts(objects.len(), period, arguments.seed), did)]
            }
            (Planner::Pack, ..) => {
                let places = pack::places(objects, &found.references);
                let did = format!("The {} objects lie side by side, the hottest first.", objects.len());
                let layouts = vec![Layout { places, did, must_pay: false }];
                return Ok(Chosen { planner: arguments.planner.name(), layouts, period, found });
            }
            _ => by_reuses(&found, arguments),
        };
        let last = planned.len() - 1;
        let layout = |(number, (shifts, did)): (usize, (Vec<u64>, String))| {
            let places = arena::places(objects, &shifts, period).map_err(|error| {
                CliError::new(Code::Failed, error).or("plan for a program with less memory")
            })?;
            Ok(Layout { places, did, must_pay: number < last })
        };
        let layouts = planned.into_iter().enumerate().map(layout).collect::<Result<_, CliError>>()?;
        Ok(Chosen { planner: arguments.planner.name(), layouts, period, found })
    }
}

fn by_reuses(found: &Found, arguments: &LayoutPlan) -> Vec<(Vec<u64>, String)> {
    let scale = found.arrays.iter().map(|array| array.scale()).max().unwrap_or(1);
    let sample = if scale > 1 { format!(" (by one reuse of {scale})") } else { String::new() };
    let told = |best: search::Best| {
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
    search::best(found, arguments.starts, arguments.seed)
        .into_iter()
        .map(told)
        .chain([(recorded, nothing)])
        .collect()
}

/// Of several arrays (code and data apart), the one with most misses decides, as one plan is made.
fn by_evictions(histories: &[History], found: &Found, arguments: &LayoutPlan) -> (Vec<u64>, String) {
    let mut shifts = vec![0; found.movables.all().len()];
    let target = if arguments.weighed { single::Target::Weighed } else { single::Target::Fewest };
    let worst = histories.iter().max_by_key(|history| history.misses.total());
    let chosen = worst.and_then(|history| Some((history, single::choose(history, &found.movables, target)?)));
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

fn by_calls(graph: &CallGraph, found: &Found, period: u64, arguments: &LayoutPlan) -> (Vec<u64>, String) {
    let load = if arguments.load_calls { callgraph::Load::Calls } else { callgraph::Load::Instructions };
    let options = callgraph::Options { calls: arguments.calls, load, fixed: true };
    let shifts = callgraph::shifts(graph, &found.movables, period, options);
    let moved = shifts.iter().filter(|&&shift| shift > 0).count();
    let did = format!("{moved} of {} objects come to other sets, hottest page of code first.", shifts.len());
    (shifts, did)
}
