//! Comparisons in a study file.

use crate::selection;
use crate::study::{BestValue, Cell, ComparisonSpec, DrawFigure, Precondition, SERVES, TraceQuorum};
use serde::Deserialize;
use toml::Table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileCompare {
    title: String,
    source: String,
    said: String,
    upper: FileCell,
    less: Option<FileCell>,
    lower: FileCell,
    base: Option<FileCell>,
    least: Option<f64>,
    most: Option<f64>,
    on: String,
    #[serde(default)]
    traces: Vec<String>,
    #[serde(default)]
    machines: Vec<String>,
    provided: Option<FileProvided>,
    #[serde(default)]
    strict: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProvided {
    upper: FileCell,
    lower: FileCell,
    least: Option<f64>,
    most: Option<f64>,
}

/// One or several counters.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileMetric {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCell {
    family: Option<String>,
    page_size: Option<String>,
    sets: Option<u32>,
    ways: Option<u32>,
    machine: Option<String>,
    os: Option<String>,
    structure: Option<String>,
    layout: Option<String>,
    draws: Option<String>,
    reduction_from: Option<String>,
    number: Option<f64>,
    #[serde(default)]
    parameters: Table,
    metric: Option<FileMetric>,
    times: Option<f64>,
    best: Option<String>,
    #[serde(default)]
    place: bool,
}

impl FileCompare {
    pub fn check(self) -> Result<ComparisonSpec, String> {
        let title = self.title;
        let inside = |why: String| format!("compare \"{title}\": {why}");
        let on = selection::one("on", &self.on, &TraceQuorum::NAMES).map_err(inside)?;
        if self.least.is_none() && self.most.is_none() {
            return Err(inside("give least, most or both: the quotients that agree".to_owned()));
        }
        if let Some(end) = [self.least, self.most].into_iter().flatten().find(|end| !end.is_finite()) {
            return Err(inside(format!("{end} is no quotient: leave out the end that there is not")));
        }
        let upper = self.upper.check().map_err(|why| inside(format!("upper: {why}")))?;
        let lower = self.lower.check().map_err(|why| inside(format!("lower: {why}")))?;
        let maybe = |key: &str, cell: Option<FileCell>| {
            cell.map(FileCell::check).transpose().map_err(|why| inside(format!("{key}: {why}")))
        };
        let (less, base) = (maybe("less", self.less)?, maybe("base", self.base)?);
        let provided = self.provided.map(FileProvided::check).transpose();
        let provided = provided.map_err(|why| inside(format!("provided: {why}")))?;
        Ok(ComparisonSpec {
            base,
            source: self.source,
            said: self.said,
            upper,
            less,
            lower,
            least: self.least,
            most: self.most,
            on,
            traces: self.traces,
            machines: self.machines,
            provided,
            strict: self.strict,
            title,
        })
    }
}

impl FileProvided {
    fn check(self) -> Result<Precondition, String> {
        let FileProvided { upper, lower, least, most } = self;
        if least.is_none() && most.is_none() {
            return Err("give least, most or both".to_owned());
        }
        let upper = upper.check().map_err(|why| format!("upper: {why}"))?;
        let lower = lower.check().map_err(|why| format!("lower: {why}"))?;
        Ok(Precondition { upper, lower, least, most })
    }
}

impl FileCell {
    fn check(self) -> Result<Cell, String> {
        let need = |value: Option<u32>, key: &str| {
            value.ok_or_else(|| format!("an array of the family needs {key}"))
        };
        let is_of_machine = self.metric.is_some()
            || self.times.is_some()
            || self.os.is_some()
            || self.structure.is_some()
            || self.layout.is_some()
            || self.draws.is_some()
            || self.reduction_from.is_some()
            || self.best.is_some()
            || self.place
            || !self.parameters.is_empty();
        let is_of_family = self.page_size.is_some() || self.sets.is_some() || self.ways.is_some();
        match (self.family, self.machine, self.number) {
            (None, None, Some(number)) => {
                let alone = !is_of_machine && !is_of_family && number.is_finite();
                alone.then_some(Cell::Number(number)).ok_or_else(|| "a number has no other keys".to_owned())
            }
            (Some(family), None, None) => {
                let page_size = self.page_size.as_deref().unwrap_or("4K");
                if is_of_machine {
                    return Err("metric, os, structure and parameters are for machines; a family has misses"
                        .to_owned());
                }
                Ok(Cell::Family {
                    serves: selection::one("family", &family, &SERVES)?,
                    page_size: page_size.parse().map_err(|e| format!("page_size: {e}"))?,
                    sets: need(self.sets, "sets")?,
                    ways: need(self.ways, "ways")?,
                })
            }
            (None, machine, None) if machine.is_some() || is_of_machine => {
                if is_of_family {
                    return Err("page_size, sets and ways are for arrays of the family".to_owned());
                }
                let metrics = match self.metric {
                    None => vec!["walks".to_owned()],
                    Some(FileMetric::One(metric)) => vec![metric],
                    Some(FileMetric::Several(metrics)) => metrics,
                };
                let times = self.times.unwrap_or(1.0);
                if metrics.is_empty() || !(times > 0.0 && times.is_finite()) {
                    return Err(format!("times = {times}, {} counters: both are above 0", metrics.len()));
                }
                let parameters = crate::vary::parameters(&self.parameters.into_iter().collect::<Vec<_>>());
                if self.place && self.best.is_none() {
                    return Err("place: of which key? Name it as best".to_owned());
                }
                let draws = self.draws.as_deref();
                let draws =
                    draws.map(|name| selection::one("draws", name, &DrawFigure::NAMES)).transpose()?;
                let best = self.best.map(|key| BestValue { key, place: self.place });
                Ok(Cell::Machine {
                    machine,
                    os: self.os,
                    structure: self.structure,
                    layout: self.layout,
                    draws,
                    reduction_from: self.reduction_from,
                    parameters,
                    metrics,
                    times,
                    best,
                })
            }
            _ => Err("name a family (data, fetches or everything), a machine or a number".to_owned()),
        }
    }
}
