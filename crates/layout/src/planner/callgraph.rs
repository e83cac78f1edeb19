//! Method 2: every object, by its hottest code page, goes to the least loaded set that its callers do not use.
//!
//! Code pages are visited by executed instructions, most first. A page whose object has no place yet decides for the
//! object: sets are tried by load, least first; the first one is taken whose pages make at most a given share of all
//! calls to this page ([`CallgraphOptions::calls`]). If every set exceeds the share, the one with fewest calls is
//! taken. Then all pages of the object load their sets.
//!
//! The source leaves open: the share (one per cent, its suggestion, is the default); what to do if no set qualifies;
//! whether load counts references or calls ([`CallgraphOptions::load`]); pages of the program, which cannot move: they
//! load their sets from the beginning ([`CallgraphOptions::fixed`]). Callers whose object has no place yet do not
//! count.
//!
//! Source: S. Konireddygari, MS thesis, NC State University 2008, section 3.3 and figure 3.4.

use super::Movables;
use crate::calls::CallGraph;
use rustc_hash::FxHashMap;

/// What a page adds to the load of its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// Executed instructions.
    #[default]
    Instructions,
    /// Calls that it receives.
    Calls,
}

/// Choices that the source leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallgraphOptions {
    /// Share of the calls to a page that may come from its set.
    pub calls: f64,
    /// What loads sets.
    pub load: Load,
    /// Whether immovable code loads its sets.
    pub fixed: bool,
}

impl Default for CallgraphOptions {
    fn default() -> CallgraphOptions {
        CallgraphOptions { calls: 0.01, load: Load::Instructions, fixed: true }
    }
}

/// The state of sets during placement.
struct Sets {
    load: Vec<u64>,
    /// By page of the graph: its set, once known.
    of: Vec<Option<usize>>,
}

impl Sets {
    fn add(&mut self, page: usize, set: usize, load: u64) {
        self.of[page] = Some(set);
        self.load[set] += load;
    }
}

/// A shift for each object, modulo `sets`; objects without executed code keep their sets.
pub fn shifts(graph: &CallGraph, movables: &Movables, sets: u64, options: CallgraphOptions) -> Vec<u64> {
    let received = received(graph);
    let load = |page: usize| match options.load {
        Load::Instructions => graph.pages[page].instructions,
        Load::Calls => received[page].iter().map(|(_, calls)| calls).sum(),
    };
    let object = |page: usize| movables.of(graph.pages[page].owner, graph.pages[page].page);
    let set = |page: usize, shift: u64| ((graph.pages[page].page.0 + shift) % sets) as usize;
    let mut state = Sets { load: vec![0; sets as usize], of: vec![None; graph.pages.len()] };
    let mut of_object: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for page in 0..graph.pages.len() {
        match object(page) {
            Some(object) => of_object.entry(object).or_default().push(page),
            None if options.fixed => state.add(page, set(page, 0), load(page)),
            None => {}
        }
    }
    let mut order: Vec<usize> = (0..graph.pages.len()).collect();
    order.sort_by_key(|&page| (std::cmp::Reverse(graph.pages[page].instructions), page));
    let mut shifts = vec![0; movables.all().len()];
    for page in order {
        let Some(pages) = object(page).and_then(|object| of_object.remove(&object)) else { continue };
        let chosen = choose(&received[page], &state, options.calls);
        let shift = (chosen as u64 + sets - set(page, 0) as u64) % sets;
        shifts[object(page).expect("it has one")] = shift;
        for page in pages {
            state.add(page, set(page, shift), load(page));
        }
    }
    shifts
}

/// By page: the other pages that call it, and how often.
fn received(graph: &CallGraph) -> Vec<Vec<(usize, u64)>> {
    let mut received = vec![Vec::new(); graph.pages.len()];
    for call in graph.calls.iter().filter(|call| call.caller != call.callee) {
        received[call.callee].push((call.caller, call.calls));
    }
    received
}

/// The set for a page with these callers.
fn choose(callers: &[(usize, u64)], state: &Sets, share: f64) -> usize {
    let all: u64 = callers.iter().map(|(_, calls)| calls).sum();
    let mut from = vec![0_u64; state.load.len()];
    for &(caller, calls) in callers {
        if let Some(set) = state.of[caller] {
            from[set] += calls;
        }
    }
    let borne = (all as f64 * share) as u64;
    let sets = 0..state.load.len();
    let qualifies = sets.clone().filter(|&set| from[set] <= borne).min_by_key(|&set| (state.load[set], set));
    qualifies.or_else(|| sets.min_by_key(|&set| (from[set], state.load[set], set))).expect("there is a set")
}
