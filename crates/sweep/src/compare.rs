//! Compares findings of sources with ours: quotients of two figures on each trace.

use crate::layouts::RECORDED;
use crate::selection::{choice_of_study, of_metrics};
use crate::study::{
    BestValue, Cell, ComparisonSpec, DrawFigure, MachineVariant, Precondition, Study, SystemChoice,
    TraceQuorum, serves_name,
};
use crate::task;
use pagewalk_report::sweep::schema::{
    Comparison, MachineCell, Parameters, SkippedCase, SweepResult, TraceQuotient, Value,
};
use pagewalk_units::names::choice;
use std::collections::{BTreeMap, BTreeSet};

impl ComparisonSpec {
    /// Checks that the study has what is compared.
    pub(crate) fn check(&self, study: &Study) -> Result<(), String> {
        let inside = |why: String| format!("compare \"{}\": {why}", self.title);
        let base = self.base.iter().map(|base| ("base", base));
        let less = self.less.iter().map(|less| ("less", less));
        let provided = self.provided.iter();
        let provided =
            provided.flat_map(|of| [("provided: upper", &of.upper), ("provided: lower", &of.lower)]);
        let parts = [("upper", &self.upper), ("lower", &self.lower)].into_iter().chain(less);
        let parts: Vec<(&str, &Cell)> = parts.chain(base).chain(provided).collect();
        let is_open = |(_, cell): &(&str, &Cell)| matches!(cell, Cell::Machine { machine: None, .. });
        if !self.machines.is_empty() && !parts.iter().any(is_open) {
            return Err(inside("machines: no part leaves its machine open: leave them out".to_owned()));
        }
        for (part, cell) in parts {
            for machine in self.cases() {
                cell.check(study, machine).map_err(|why| inside(format!("{part}: {why}")))?;
            }
        }
        let known: Vec<&str> = study.traces.iter().map(|trace| trace.name()).collect();
        match self.traces.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(inside(format!("traces: \"{name}\": {}", choice(name, &known)))),
            None => Ok(()),
        }
    }

    /// The machines to compare on; `None` if the cells name theirs.
    fn cases(&self) -> Vec<Option<&str>> {
        match self.machines.is_empty() {
            true => vec![None],
            false => self.machines.iter().map(|machine| Some(machine.as_str())).collect(),
        }
    }
}

impl Cell {
    /// Checks a cell, which may leave its machine to the comparison.
    fn check(&self, study: &Study, of: Option<&str>) -> Result<(), String> {
        match self {
            Cell::Family { serves, page_size, sets, ways } => {
                let family = study.family.as_ref().ok_or("the study has no [family]")?;
                if !family.serves.contains(serves) {
                    return Err(format!("[family] does not serve {}", serves_name(*serves)));
                }
                let has = family.page_sizes.contains(page_size)
                    && family.sets.contains(sets)
                    && family.ways.contains(ways);
                let array = format!("{sets} sets of {ways} ways for {page_size} pages");
                if has { Ok(()) } else { Err(format!("[family] leaves {array} out")) }
            }
            Cell::Number(_) => Ok(()),
            Cell::Machine { machine, os, structure, parameters, metrics, best, .. } => {
                let machine =
                    machine.as_deref().or(of).ok_or("name a machine, or machines of the comparison")?;
                let all = machines_of(study, machine, os.as_deref(), structure.as_deref(), parameters)?;
                let (variant, under) = all[0];
                match best {
                    None if all.len() > 1 => {
                        return Err(format!(
                            "{} variants of `{machine}` fit: choose {}",
                            all.len(),
                            differing(&all)
                        ));
                    }
                    None => {}
                    Some(BestValue { key, .. }) if parameters.contains_key(key) => {
                        return Err(format!("best = \"{key}\": parameters choose one value of it"));
                    }
                    Some(BestValue { key, .. }) => differ_by(key, &all)?,
                }
                self.check_layouts(study)?;
                metrics.iter().try_for_each(|metric| has_counter(study, variant, under, metric))
            }
        }
    }

    /// Checks the layouts of a machine's cell.
    fn check_layouts(&self, study: &Study) -> Result<(), String> {
        let Cell::Machine { layout, draws, reduction_from, .. } = self else { return Ok(()) };
        let named = [("layout", layout), ("reduction_from", reduction_from)];
        for (key, name) in named.iter().filter_map(|(key, name)| Some((key, name.as_ref()?))) {
            if !study.layouts.iter().any(|layout| layout.name == *name) {
                let names: Vec<&str> = study.layouts.iter().map(|layout| layout.name.as_str()).collect();
                return Err(format!("{key} = \"{name}\": {}", choice_of_study(name, &names, "[[layout]]")));
            }
        }
        let named =
            |name: &String| [layout, reduction_from].into_iter().flatten().any(|layout| layout == name);
        let drawn = study.layouts.iter().find(|spec| spec.count > 1 && named(&spec.name));
        match (drawn, draws) {
            (Some(spec), None) => Err(format!(
                "layout = \"{}\": {} are drawn: give draws = \"median\", \"least\" or \"most\"",
                spec.name, spec.count
            )),
            (None, Some(_)) => Err("draws: the layout is one, and not drawn".to_owned()),
            _ => Ok(()),
        }
    }

    /// The figure on a trace; `None` if the machine has no such counter.
    fn value(&self, result: &SweepResult, trace: usize, of: Option<&str>) -> Option<f64> {
        match self {
            Cell::Family { serves, page_size, sets, ways } => {
                let family =
                    result.families.iter().find(|f| f.trace == trace && f.serves == serves_name(*serves))?;
                let size = family.sizes.iter().find(|size| size.page_bytes == page_size.bytes())?;
                size.misses_of(*sets, *ways).map(|misses| misses as f64)
            }
            Cell::Number(number) => Some(*number),
            Cell::Machine { layout, reduction_from, .. } => {
                let value = self.under(result, (trace, of), layout.as_deref())?;
                match reduction_from {
                    None => Some(value),
                    Some(other) => Some(self.under(result, (trace, of), Some(other))? - value),
                }
            }
        }
    }

    /// The selected cells under a layout; the recorded one by default.
    fn cells<'a>(
        &'a self,
        result: &'a SweepResult,
        (trace, of): (usize, Option<&'a str>),
        layout: Option<&'a str>,
    ) -> impl Iterator<Item = &'a MachineCell> {
        let asked = match self {
            Cell::Machine { machine, os, structure, parameters, .. } => {
                Some((machine.as_deref().or(of), os, structure, parameters))
            }
            Cell::Family { .. } | Cell::Number(_) => None,
        };
        result.machines.iter().filter(move |cell| {
            let Some((machine, os, structure, parameters)) = asked else { return false };
            cell.trace == trace
                && Some(cell.machine.as_str()) == machine
                && (os.is_none() || cell.os == *os)
                && (structure.is_none() || cell.structure == *structure)
                && cell.layout.as_deref().is_none_or(|name| name == layout.unwrap_or(RECORDED))
                && fits(parameters, &cell.parameters)
        })
    }

    /// Whether a selected program ran out of memory: then it cannot be compared.
    fn was_killed(&self, result: &SweepResult, trace: usize, of: Option<&str>) -> bool {
        let Cell::Machine { layout, reduction_from, best, .. } = self else { return false };
        let layouts = [Some(layout.as_deref()), reduction_from.as_deref().map(Some)];
        layouts.into_iter().flatten().any(|layout| {
            let mut killed = self.cells(result, (trace, of), layout).map(MachineCell::was_killed).peekable();
            // Among several values the best of those that finished counts.
            if best.is_some() {
                killed.peek().is_some() && killed.all(|one| one)
            } else {
                killed.any(|one| one)
            }
        })
    }

    /// A machine's figure under a layout; the recorded one by default.
    fn under(&self, result: &SweepResult, place: (usize, Option<&str>), layout: Option<&str>) -> Option<f64> {
        let Cell::Machine { metrics, times, best, draws, .. } = self else { return None };
        let cells = self.cells(result, place, layout);
        let figure = |cell: &MachineCell| {
            let each = metrics.iter().map(|metric| Some(cell.metrics.get(metric)?.as_f64()));
            Some(each.sum::<Option<f64>>()? * times).filter(|_| !cell.was_killed())
        };
        // By value of the key to optimise: the figures of all draws.
        let mut by_value: Vec<(Option<&Value>, Figures<'_>)> = Vec::new();
        for (cell, figure) in cells.filter_map(|cell| Some((cell, figure(cell)?))) {
            let value = best.as_ref().and_then(|best| cell.parameters.get(&best.key));
            match by_value.iter_mut().find(|(known, _)| *known == value) {
                Some((_, figures)) => figures.push((cell, figure)),
                None => by_value.push((value, vec![(cell, figure)])),
            }
        }
        let drawn = by_value.into_iter().map(|(_, mut figures)| {
            figures.sort_by(|a, b| a.1.total_cmp(&b.1));
            let last = figures.len() - 1;
            figures[match draws {
                Some(DrawFigure::Median) => last / 2,
                Some(DrawFigure::Most) => last,
                Some(DrawFigure::Least) | None => 0,
            }]
        });
        let (cell, figure) = drawn.min_by(|a, b| a.1.total_cmp(&b.1))?;
        match best {
            Some(BestValue { key, place: true }) => match cell.parameters.get(key)? {
                Value::Integer(value) => Some(*value as f64),
                Value::Text(_) => None,
            },
            _ => Some(figure),
        }
    }

    /// Whether the figure is the reduction from another layout.
    fn is_reduction(&self) -> bool {
        matches!(self, Cell::Machine { reduction_from: Some(_), .. })
    }
}

/// Cells with the compared figure of each.
type Figures<'a> = Vec<(&'a MachineCell, f64)>;

/// Whether the variants differ only by this key, and by numbers.
fn differ_by(key: &str, all: &[(&MachineVariant, SystemChoice<'_>)]) -> Result<(), String> {
    let without = |parameters: &Parameters| {
        let mut others = parameters.clone();
        (others.remove(key), others)
    };
    let first = without(&all[0].0.parameters).1;
    for (variant, _) in all {
        let (value, others) = without(&variant.parameters);
        if !matches!(value, Some(Value::Integer(_))) {
            return Err(format!("best = \"{key}\": [vary] gives it no whole numbers"));
        }
        if others != first {
            return Err(format!("best = \"{key}\": other keys vary too: give them as parameters"));
        }
    }
    let mut values: Vec<_> = all.iter().map(|(variant, _)| &variant.parameters[key]).collect();
    values.dedup();
    let once = values.len() == all.len();
    once.then_some(()).ok_or_else(|| format!("best = \"{key}\": several kernels fit: give os or structure"))
}

/// By what several variants differ, with the values: `os (host, linux), cores (1, 2)`.
fn differing(all: &[(&MachineVariant, SystemChoice<'_>)]) -> String {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (variant, (kernel, structure)) in all {
        let os = kernel.map(|kernel| ("os", kernel.name.clone()));
        let structure = structure.map(|structure| ("structure", structure.name.clone()));
        let parameters = variant.parameters.iter().map(|(key, value)| (key.as_str(), value.to_string()));
        for (key, value) in parameters.chain(os).chain(structure) {
            values.entry(key).or_default().insert(value);
        }
    }
    let several = values.into_iter().filter(|(_, values)| values.len() > 1);
    let told = several.map(|(key, values)| format!("{key} ({})", Vec::from_iter(values).join(", ")));
    told.collect::<Vec<_>>().join(", ")
}

/// Why none of a machine's variants has these parameters.
fn no_such_parameters<'a>(
    asked: &Parameters,
    variants: impl Iterator<Item = &'a MachineVariant> + Clone,
) -> String {
    for (key, value) in asked {
        let has = |variant: &'a MachineVariant| variant.parameters.get(key).map(ToString::to_string);
        let values: BTreeSet<String> = variants.clone().filter_map(has).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if values.is_empty() {
            let keys = variants.clone().flat_map(|variant| variant.parameters.keys());
            let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
            return format!(
                "parameters: \"{key}\": {}",
                choice_of_study(key, &Vec::from_iter(keys), "[vary]")
            );
        }
        if !values.contains(&value.to_string().as_str()) {
            return format!("parameters: {key} = {value}: {}", choice(&value.to_string(), &values));
        }
    }
    "parameters: no variant has all of these values".to_owned()
}

/// The selected machines with kernels and operating systems; at least one.
fn machines_of<'a>(
    study: &'a Study,
    machine: &str,
    os: Option<&str>,
    structure: Option<&str>,
    parameters: &Parameters,
) -> Result<Vec<(&'a MachineVariant, SystemChoice<'a>)>, String> {
    if study.machines.iter().all(|variant| variant.machine.name != machine) {
        let mut names: Vec<&str> =
            study.machines.iter().map(|variant| variant.machine.name.as_str()).collect();
        names.dedup();
        return Err(format!("machine = \"{machine}\": {}", choice(machine, &names)));
    }
    let mut fitting: Vec<_> = study
        .cells()
        .filter(|(variant, _)| variant.machine.name == machine && fits(parameters, &variant.parameters))
        .collect();
    if fitting.is_empty() {
        let variants = study.machines.iter().filter(|variant| variant.machine.name == machine);
        return Err(no_such_parameters(parameters, variants));
    }
    if let Some(os) = os {
        let mut names: Vec<&str> =
            fitting.iter().filter_map(|(_, (kernel, _))| Some(kernel.as_ref()?.name.as_str())).collect();
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        if !names.contains(&os) {
            return Err(format!("os = \"{os}\": {}", choice_of_study(os, &names, "[[os]]")));
        }
        fitting.retain(|(_, (kernel, _))| kernel.is_some_and(|kernel| kernel.name == os));
    }
    if let Some(structure) = structure {
        fitting.retain(|(_, (_, variant))| variant.is_some_and(|variant| variant.name == structure));
        if fitting.is_empty() {
            let names: Vec<&str> = study.structures.iter().map(|variant| variant.name.as_str()).collect();
            let choice = choice_of_study(structure, &names, "structures");
            return Err(format!("structure = \"{structure}\": {choice}"));
        }
    }
    Ok(fitting)
}

/// Whether the machine has this counter, according to an empty stream.
fn has_counter(
    study: &Study,
    variant: &MachineVariant,
    under: SystemChoice<'_>,
    metric: &str,
) -> Result<(), String> {
    let names = task::counters_in(study, variant, under).map_err(|e| e.to_string())?;
    if names.iter().any(|name| name == metric) {
        return Ok(());
    }
    Err(format!("metric = \"{metric}\": {}", of_metrics(metric, &names)))
}

/// Whether the chosen values include all requested ones.
fn fits(asked: &Parameters, chosen: &Parameters) -> bool {
    asked.iter().all(|(key, value)| chosen.get(key) == Some(value))
}

/// Whether a quotient lies within bounds.
fn within(quotient: f64, least: Option<f64>, most: Option<f64>) -> bool {
    least.is_none_or(|least| quotient >= least) && most.is_none_or(|most| quotient <= most)
}

impl Precondition {
    fn holds(&self, result: &SweepResult, trace: usize, machine: Option<&str>) -> bool {
        let part = |cell: &Cell| cell.value(result, trace, machine);
        let (Some(upper), Some(lower)) = (part(&self.upper), part(&self.lower)) else { return false };
        lower != 0.0 && within(upper / lower, self.least, self.most)
    }
}

/// The quotients of `compare` in `result`.
pub fn evaluate(compare: &ComparisonSpec, result: &SweepResult) -> Comparison {
    let wanted = |name: &String| compare.traces.is_empty() || compare.traces.contains(name);
    let traces = result.traces.iter().enumerate().filter(|(_, trace)| wanted(&trace.name));
    let agrees = |upper: f64, lower: f64| match compare.lower.is_reduction() && lower <= 0.0 {
        // Any reduction exceeds every multiple of none.
        true => compare.most.is_none() && upper > 0.0,
        false => lower != 0.0 && within(upper / lower, compare.least, compare.most),
    };
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for (trace, _) in traces {
        for machine in compare.cases() {
            let of = |cell: &Option<Cell>, usual| {
                cell.as_ref().map_or(Some(usual), |cell| cell.value(result, trace, machine))
            };
            let (base, less) = (of(&compare.base, 1.0), of(&compare.less, 0.0));
            let parts = [&compare.upper, &compare.lower].map(|cell| cell.value(result, trace, machine));
            let name = machine.map(str::to_owned);
            let cells = compare.base.iter().chain(&compare.less).chain([&compare.upper, &compare.lower]);
            let mut leave_out = |why: &str| {
                left_out.push(SkippedCase { trace, machine: name.clone(), why: why.to_owned() });
            };
            if cells.into_iter().any(|cell| cell.was_killed(result, trace, machine)) {
                leave_out("killed");
                continue;
            }
            let (Some(base), Some(less), [Some(upper), Some(lower)]) = (base, less, parts) else {
                leave_out("it lacks a figure");
                continue;
            };
            let (upper, lower) = ((upper - less) / base, lower / base);
            if compare.provided.as_ref().is_some_and(|provided| !provided.holds(result, trace, machine)) {
                leave_out("`provided` does not hold");
            } else if upper.is_finite() && lower.is_finite() {
                let agrees = agrees(upper, lower);
                found.push(TraceQuotient { trace, machine: name, upper, lower, agrees });
            } else {
                leave_out("its `base` is 0");
            }
        }
    }
    let agreeing = found.iter().filter(|found| found.agrees).count();
    Comparison {
        title: compare.title.clone(),
        source: compare.source.clone(),
        said: compare.said.clone(),
        least: compare.least,
        most: compare.most,
        on: compare.on.name().to_owned(),
        strict: compare.strict,
        agrees: match compare.on {
            TraceQuorum::All => agreeing == found.len() && agreeing > 0,
            TraceQuorum::Most => agreeing * 2 > found.len(),
            TraceQuorum::Some => agreeing > 0,
            TraceQuorum::Average => {
                Comparison::means(&found).is_some_and(|(upper, lower)| agrees(upper, lower))
            }
        },
        found,
        left_out,
    }
}

#[cfg(test)]
mod tests;
