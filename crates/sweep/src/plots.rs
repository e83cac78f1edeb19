//! Checks the pictures that a study asks for.

use crate::selection::{choice_of_study, of_metrics};
use crate::study::{MachineVariant, Study, SystemChoice};
use crate::task;
use pagewalk_report::sweep::schema::{Plot, Value};
use pagewalk_sim::PassError;
use pagewalk_translate::SoftwareSpec;
use pagewalk_units::names::{choice, closest, meant};
use std::collections::HashSet;

/// What distinguishes machines besides varied keys.
const NAMES: [&str; 5] = ["trace", "machine", "os", "structure", "layout"];

/// Checks that the study has what is drawn.
pub fn check(plot: &Plot, study: &Study) -> Result<(), String> {
    let inside = |why: String| format!("plot \"{}\": {why}", plot.title);
    let Some((variant, _)) = study.cells().next() else {
        return Err(inside("the study has no machines".to_owned()));
    };
    let varied: Vec<&str> = variant.parameters.keys().map(String::as_str).collect();
    // Machines in full have no host's TLB.
    let has_x = |variant: &&MachineVariant| plot.x != MachineVariant::BY_TRAPS || variant.traps.is_some();
    let variants = study.cells().map(|(variant, _)| variant).filter(has_x);
    let mut values = variants.filter_map(|variant| variant.parameters.get(&plot.x)).peekable();
    let is_drawn = values.peek().is_some() && values.all(|value| matches!(value, Value::Integer(_)));
    if !plot.is_over_time() && !plot.is_by_machine() && !is_drawn {
        let x = &plot.x;
        let known = varied.iter().copied().chain([Plot::MACHINE, Plot::TIME]);
        let meant = meant(&closest(x, known)).map_or(String::new(), |meant| format!("{meant} "));
        return Err(inside(format!(
            "x = \"{x}\": {meant}choose a key of [vary] with whole numbers, {:?} or {:?}; varied are {}",
            Plot::MACHINE,
            Plot::TIME,
            listed(&varied)
        )));
    }
    if plot.lines.as_ref() == Some(&plot.x) || plot.at.contains_key(&plot.x) {
        return Err(inside(format!("x = \"{}\": lines and at name other keys", plot.x)));
    }
    for key in plot.lines.iter().chain(plot.at.keys()) {
        if !varied.contains(&key.as_str()) && !NAMES.contains(&key.as_str()) {
            let choice = choice(key, &[&varied[..], &NAMES].concat());
            return Err(inside(format!("\"{key}\": {choice}")));
        }
    }
    check_values(plot, study).map_err(inside)?;
    if plot.is_over_time() {
        return check_over_time(plot, study).map_err(inside);
    }
    let counters = match plot.is_by_machine() {
        true => counters_of_all(plot, study),
        false => counters_of_drawn(plot, study).map_err(|e| e.to_string()),
    };
    let counters = counters.map_err(inside)?;
    match plot.y.iter().find(|metric| !counters.contains(metric)) {
        Some(metric) => Err(inside(format!("y: \"{metric}\": {}", of_metrics(metric, &counters)))),
        None if plot.y.is_empty() => Err(inside("y = []: name a counter, such as \"walks\"".to_owned())),
        None => Ok(()),
    }
}

/// Whether a cell has the values that the plot selects, apart from traces and layouts.
fn is_drawn_at(plot: &Plot, cell: &(&MachineVariant, SystemChoice<'_>)) -> bool {
    let is_apart = |key: &str| ["trace", "layout"].contains(&key);
    plot.at.iter().all(|(key, value)| is_apart(key) || value_of(key, *cell) == Some(value.to_string()))
}

/// A cell's value of a distinguishing key other than those.
fn value_of(key: &str, (variant, (kernel, around)): (&MachineVariant, SystemChoice<'_>)) -> Option<String> {
    match key {
        "machine" => Some(variant.machine.name.clone()),
        "os" => kernel.map(|kernel| kernel.name.clone()),
        "structure" => around.map(|around| around.name.clone()),
        key => variant.parameters.get(key).map(ToString::to_string),
    }
}

/// Checks that the selected values exist.
fn check_values(plot: &Plot, study: &Study) -> Result<(), String> {
    for (key, value) in &plot.at {
        let values = values_of(key, study);
        if !values.contains(&value.to_string()) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let from = if key == "structure" { "structures".to_owned() } else { format!("[[{key}]]") };
            let choice = choice_of_study(&value.to_string(), &values, &from);
            return Err(format!("at: {key} = \"{value}\": {choice}"));
        }
    }
    Ok(())
}

/// All values of a distinguishing key, each once.
fn values_of(key: &str, study: &Study) -> Vec<String> {
    let mut values: Vec<String> = match key {
        "trace" => study.traces.iter().map(|trace| trace.name().to_owned()).collect(),
        "layout" => study.layouts.iter().map(|layout| layout.name.clone()).collect(),
        key => study.cells().filter_map(|cell| value_of(key, cell)).collect(),
    };
    let mut known = HashSet::new();
    values.retain(|value| known.insert(value.clone()));
    values
}

/// Counters of machines that are drawn, in full and by traps; if none are, of the study's first.
fn counters_of_drawn(plot: &Plot, study: &Study) -> Result<Vec<String>, PassError> {
    let first = |by_traps: bool| {
        let is_such = |cell: &(&MachineVariant, _)| cell.0.traps.is_some() == by_traps;
        study.cells().filter(is_such).find(|cell| is_drawn_at(plot, cell))
    };
    let by_traps = first(true);
    let full = first(false).or_else(|| study.cells().next().filter(|_| by_traps.is_none()));
    let mut all = Vec::new();
    for (variant, under) in full.into_iter().chain(by_traps) {
        all.extend(task::counters_in(study, variant, under)?);
    }
    Ok(all)
}

/// Counters that some machine has. Bars have no lines and no logarithms: their parts add up.
fn counters_of_all(plot: &Plot, study: &Study) -> Result<Vec<String>, String> {
    let machine = Plot::MACHINE;
    if plot.lines.is_some() || plot.logarithmic {
        return Err(format!("x = {machine:?} draws bars: leave out lines and logarithmic"));
    }
    let mut all = Vec::new();
    for (variant, under) in study.cells() {
        all.extend(task::counters_in(study, variant, under).map_err(|e| e.to_string())?);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Over time, only moving partitions are known.
fn check_over_time(plot: &Plot, study: &Study) -> Result<(), String> {
    let (time, partition) = (Plot::TIME, Plot::PARTITION);
    if plot.y != [partition] || plot.logarithmic {
        return Err(format!("x = {time:?} shows y = [{partition:?}], and is not logarithmic"));
    }
    let moves = |software: &SoftwareSpec| software.tuning.is_some();
    if !study.cells().any(|(variant, _)| variant.machine.software().is_some_and(moves)) {
        return Err(format!("x = {time:?}: no machine has a partition that moves ([walker.mapped.tuning])"));
    }
    Ok(())
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
