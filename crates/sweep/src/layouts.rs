//! The layouts of a study: where shared objects lie.

use crate::names::name_is_plain;
use crate::selection;
use crate::study::{LayoutSpec, MachineVariant, Study};
use pagewalk_layout::planner::callgraph::{self, Load};
use pagewalk_layout::planner::single_move::TargetSet;
use pagewalk_layout::planner::{Planner, PlannerOptions, reuses};
use pagewalk_units::PageSize;
use pagewalk_units::names::choice;
use serde::Deserialize;

/// The layout without moves, present in every study of layouts.
pub const RECORDED: &str = "recorded";
/// Most random layouts under one name.
const COUNT_MAX: u64 = 1000;
/// Fewest kept numbers of reuses.
const ROOM_MIN: usize = 1 << 16;

/// A `[[layout]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileLayout {
    name: String,
    planner: String,
    count: Option<u64>,
    #[serde(rename = "for")]
    whom: Option<String>,
    from: Option<String>,
    #[serde(default)]
    traces: Vec<String>,
    starts: Option<u64>,
    room: Option<usize>,
    seed: Option<u64>,
    weighed: Option<bool>,
    calls: Option<f64>,
    load_calls: Option<bool>,
}

impl FileLayout {
    fn check(self) -> Result<LayoutSpec, String> {
        let mut known: Vec<(&str, Option<Planner>)> = vec![(RECORDED, None)];
        known.extend(Planner::NAMES.map(|(name, planner)| (name, Some(planner))));
        let planner = selection::one("planner", &self.planner, &known)?;
        self.check_options(planner)?;
        let Some(planner) = planner else { return Ok(LayoutSpec::recorded(self.name, self.traces)) };
        let for_all = match self.whom.as_deref() {
            None => planner.looks_at_no_machine(),
            Some(whom) => selection::one("for", whom, &[("each", false), ("all", true)])?,
        };
        if for_all && !planner.takes_machines() {
            return Err(format!("for = \"all\": `{}` plans for one machine: leave it out", planner.name()));
        }
        if !for_all && planner.looks_at_no_machine() {
            return Err(format!("for = \"each\": `{}` looks at no machine: leave it out", planner.name()));
        }
        let count = self.count.unwrap_or(1);
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(format!("count = {count}: give from 1 to {COUNT_MAX}"));
        }
        let room =
            self.room.unwrap_or(if planner == Planner::Search { reuses::DEFAULT_ROOM } else { ROOM_MIN });
        if !(ROOM_MIN..=reuses::DEFAULT_ROOM).contains(&room) {
            return Err(format!("room = {room}: give from {ROOM_MIN} to {}", reuses::DEFAULT_ROOM));
        }
        let calls = self.calls.unwrap_or(callgraph::CallgraphOptions::default().calls);
        if !(0.0..=1.0).contains(&calls) {
            return Err(format!("calls = {calls}: give a share from 0 to 1"));
        }
        let defaults = PlannerOptions::new(planner);
        let load = if self.load_calls == Some(true) { Load::Calls } else { Load::Instructions };
        let options = PlannerOptions {
            starts: self.starts.unwrap_or(defaults.starts),
            seed: self.seed.unwrap_or(defaults.seed),
            target: if self.weighed == Some(true) { TargetSet::Weighed } else { TargetSet::Fewest },
            callgraph: callgraph::CallgraphOptions { calls, load, ..defaults.callgraph },
            ..defaults
        };
        let (name, from, traces) = (self.name, self.from, self.traces);
        Ok(LayoutSpec { name, planner: Some(options), room, count, for_all, from, traces })
    }

    /// Refuses a key that the planner lacks.
    fn check_options(&self, planner: Option<Planner>) -> Result<(), String> {
        let is = |those: &[Planner]| planner.is_some_and(|planner| those.contains(&planner));
        let keys = [
            ("starts", self.starts.is_some(), is(&[Planner::Search])),
            ("room", self.room.is_some(), is(&[Planner::Search])),
            ("seed", self.seed.is_some(), is(&[Planner::Search, Planner::Random])),
            ("count", self.count.is_some(), is(&[Planner::Random])),
            ("weighed", self.weighed.is_some(), is(&[Planner::Single])),
            ("calls", self.calls.is_some(), is(&[Planner::Callgraph])),
            ("load_calls", self.load_calls.is_some(), is(&[Planner::Callgraph])),
            ("for", self.whom.is_some(), planner.is_some()),
            ("from", self.from.is_some(), planner.is_some()),
        ];
        match keys.iter().find(|(_, given, has)| *given && !has) {
            Some((key, ..)) => Err(format!("{key}: `{}` has no such key", self.planner)),
            None => Ok(()),
        }
    }
}

/// The layouts of a study, including the recorded one; empty if the study names none.
pub(crate) fn variants(files: Vec<FileLayout>) -> Result<Vec<LayoutSpec>, String> {
    let mut layouts: Vec<LayoutSpec> = Vec::new();
    for file in files {
        let name = file.name.clone();
        name_is_plain(&name).map_err(|why| format!("layout: {why}"))?;
        let layout = file.check().map_err(|why| format!("layout `{name}`: {why}"))?;
        if (name == RECORDED) != layout.planner.is_none() {
            return Err(format!(
                "layout `{name}`: the name `{RECORDED}` is that of the planner, and of no other"
            ));
        }
        if layouts.iter().any(|other| other.name == name) {
            return Err(format!("two layouts are named `{name}`: names must differ"));
        }
        layouts.push(layout);
    }
    if layouts.is_empty() {
        return Ok(layouts);
    }
    if layouts.iter().all(|layout| layout.planner.is_some()) {
        layouts.insert(0, LayoutSpec::recorded(RECORDED.to_owned(), Vec::new()));
    }
    // The others are compared with it, so it is for all their traces.
    let others = || layouts.iter().filter(|layout| layout.planner.is_some());
    let for_all = others().any(|layout| layout.traces.is_empty());
    let traces: Vec<String> = others().flat_map(|layout| layout.traces.iter().cloned()).collect();
    for recorded in layouts.iter_mut().filter(|layout| layout.planner.is_none() && !layout.traces.is_empty())
    {
        match for_all {
            true => recorded.traces.clear(),
            false => recorded.traces.extend(traces.iter().cloned()),
        }
    }
    Ok(layouts)
}

/// Checks that the study's machines can be planned for, and that it has the traces that layouts name.
pub(crate) fn check(study: &Study) -> Result<(), String> {
    if study.layouts.is_empty() {
        return Ok(());
    }
    if study.machines.is_empty() {
        return Err("layout: there is no machine under it: name some with machines = [\"k8\"]".to_owned());
    }
    for layout in &study.layouts {
        let Some(options) = layout.planner else { continue };
        let inside = |why: String| format!("layout `{}`: {why}", layout.name);
        let looks = !options.planner.looks_at_no_machine();
        study.machines.iter().try_for_each(|variant| check_machine(variant, looks)).map_err(inside)?;
    }
    let names: Vec<&str> = study.traces.iter().map(|trace| trace.name()).collect();
    for layout in &study.layouts {
        let from = layout.from.iter().map(|name| ("from", name));
        let mut named = from.chain(layout.traces.iter().map(|name| ("traces", name)));
        if let Some((key, name)) = named.find(|(_, name)| !names.contains(&name.as_str())) {
            return Err(format!("layout `{}`: {key}: \"{name}\": {}", layout.name, choice(name, &names)));
        }
    }
    Ok(())
}

/// Checks that plans can be made for a machine; `looks`: by what it has.
fn check_machine(variant: &MachineVariant, looks: bool) -> Result<(), String> {
    let machine = &variant.machine;
    let wrong = |why: &str| format!("machine `{}`: {why}", machine.name);
    if machine.paging.base() != PageSize::FOUR_KIB {
        return Err(wrong("places are of 4K pages: leave it out"));
    }
    if looks { reuses::is_supported(machine).map_err(|why| wrong(&why)) } else { Ok(()) }
}
