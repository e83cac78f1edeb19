//! Plots of a study: a metric against a varied key, or partitions over time, with a line for each value of another key.
//! [`super::parts`] draws machines side by side.

use super::layouts::settled;
use super::parts;
use super::picture::{LINE_COLORS, Picture, short};
use super::schema::{MachineCell, Plot, SweepResult, Value};
use crate::numbers::{count, exact};
use std::collections::BTreeMap;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 46.0;
/// Room for the lines' names.
const RIGHT: f64 = 170.0;
const LINE: f64 = 15.0;

/// One picture of a plot.
pub(super) struct Panel {
    /// The trace, and the values that distinguish it from the plot's other panels.
    pub title: String,
    /// The picture.
    pub picture: Picture,
}

/// A line: its name, and its points by the value of the varied key.
type Line = (String, Vec<(i64, f64)>);

/// The pictures of a plot: one for each combination of the keys other than the axis and the lines.
pub(super) fn panels(plot: &Plot, result: &SweepResult) -> Vec<Panel> {
    let settled = settled(result);
    let cells: Vec<&MachineCell> = settled
        .iter()
        .map(|settled| settled.cell.as_ref())
        .filter(|cell| is_meant(plot, cell, result))
        .collect();
    let apart = apart(plot, &cells, result);
    let mut panels: Vec<(String, Vec<&MachineCell>)> = Vec::new();
    for cell in cells {
        let title = panel_of(cell, &apart, result);
        match panels.iter_mut().find(|(known, _)| *known == title) {
            Some((_, cells)) => cells.push(cell),
            None => panels.push((title, vec![cell])),
        }
    }
    let drawn = |(title, cells): (String, Vec<&MachineCell>)| {
        let picture = match plot.is_by_machine() {
            true => parts::bars(plot, &title, &cells),
            false => {
                let (drawn, killed): (Vec<_>, Vec<_>) =
                    cells.into_iter().partition(|cell| plot.is_over_time() || !cell.was_killed());
                picture(plot, [&title, &subtitle(plot, killed.len())], &lines(plot, &drawn, result))?
            }
        };
        Some(Panel { picture, title })
    };
    panels.into_iter().filter_map(drawn).collect()
}

/// The varied keys that have one value per panel.
fn apart<'a>(plot: &Plot, cells: &[&'a MachineCell], result: &SweepResult) -> Vec<&'a str> {
    let Some(first) = cells.first() else { return Vec::new() };
    let names = ["trace", "machine", "structure", "os", "layout"].into_iter();
    let all = names.chain(first.parameters.keys().map(String::as_str));
    let named = |key: &str| key == plot.x || plot.lines.as_deref() == Some(key) || plot.at.contains_key(key);
    let line = |cell: &MachineCell| plot.lines.as_deref().and_then(|key| name_of(cell, key, result));
    let varies = |key: &&str| {
        let mut by_line: BTreeMap<Option<String>, Option<String>> = BTreeMap::new();
        cells.iter().any(|cell| {
            let value = name_of(cell, key, result);
            *by_line.entry(line(cell)).or_insert_with(|| value.clone()) != value
        })
    };
    all.filter(|key| !named(key)).filter(varies).collect()
}

fn is_meant(plot: &Plot, cell: &MachineCell, result: &SweepResult) -> bool {
    plot.at.iter().all(|(key, value)| name_of(cell, key, result).as_ref() == Some(&value.to_string()))
        && if plot.is_over_time() {
            !cell.partition.is_empty()
        } else if plot.is_by_machine() {
            plot.y.iter().any(|metric| cell.metrics.contains_key(metric))
        } else {
            // A machine in full has no number of the host's slots.
            matches!(cell.parameters.get(&plot.x), Some(Value::Integer(_)))
        }
}

/// The value of a key as text; for `trace`, `machine`, `os`, `structure` and `layout`, the name.
fn name_of(cell: &MachineCell, key: &str, result: &SweepResult) -> Option<String> {
    match key {
        "trace" => Some(result.traces[cell.trace].name.clone()),
        "machine" => Some(cell.machine.clone()),
        "os" => cell.os.clone(),
        "structure" => cell.structure.clone(),
        "layout" => cell.layout.clone(),
        key => cell.parameters.get(key).map(Value::to_string),
    }
}

/// The value of a key as [`name_of`], after the last word of a varied key: `entries 256`.
fn told(cell: &MachineCell, key: &str, result: &SweepResult) -> Option<String> {
    let value = name_of(cell, key, result)?;
    match key.rsplit('.').next() {
        Some(last) if cell.parameters.contains_key(key) => Some(format!("{last} {value}")),
        _ => Some(value),
    }
}

fn panel_of(cell: &MachineCell, apart: &[&str], result: &SweepResult) -> String {
    let named = apart.iter().filter_map(|key| told(cell, key, result));
    named.collect::<Vec<_>>().join(", ")
}

fn lines(plot: &Plot, cells: &[&MachineCell], result: &SweepResult) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for cell in cells {
        let named = plot.lines.as_deref().and_then(|key| told(cell, key, result));
        for metric in &plot.y {
            let points = points(plot, cell, metric);
            if points.is_empty() {
                continue;
            }
            let name = match (&named, plot.y.len()) {
                (Some(name), 1) => name.clone(),
                (Some(name), _) => format!("{name}, {metric}"),
                (None, _) => metric.clone(),
            };
            let at = *seen.entry(name.clone()).or_insert_with(|| {
                lines.push((name, Vec::new()));
                lines.len() - 1
            });
            lines[at].1.extend(points);
        }
    }
    // Stable, so that at a move of a partition the old place precedes the new one.
    lines.iter_mut().for_each(|(_, points)| points.sort_by_key(|&(x, _)| x));
    lines
}

/// A machine's points of a line.
fn points(plot: &Plot, cell: &MachineCell, metric: &str) -> Vec<(i64, f64)> {
    if plot.is_over_time() {
        return steps(cell);
    }
    match (cell.parameters.get(&plot.x), cell.metrics.get(metric)) {
        (Some(&Value::Integer(x)), Some(value)) => vec![(x, value.as_f64())],
        _ => Vec::new(),
    }
}

/// The partition before and after each move, to the end of the program.
fn steps(cell: &MachineCell) -> Vec<(i64, f64)> {
    let Some(last) = cell.partition.last() else { return Vec::new() };
    let mut steps = Vec::with_capacity(2 * cell.partition.len());
    let mut lower = None;
    for moved in &cell.partition {
        let at = i64::try_from(moved.instructions).unwrap_or(i64::MAX);
        steps.extend(lower.map(|before| (at, before)));
        steps.push((at, f64::from(moved.lower)));
        lower = Some(f64::from(moved.lower));
    }
    let end = cell.metrics.get("instructions").map_or(0.0, |n| n.as_f64()) as i64;
    if end > steps[steps.len() - 1].0 {
        steps.push((end, f64::from(last.lower)));
    }
    steps
}

/// What is drawn, and how many cells are left out: figures of killed programs end early.
fn subtitle(plot: &Plot, killed: usize) -> String {
    let drawn = plot.y.join(", ");
    match killed {
        0 => drawn,
        1 => format!("{drawn} (left out: one killed program)"),
        many => format!("{drawn} (left out: {many} killed programs)"),
    }
}

/// `None` without any point.
fn picture(plot: &Plot, [title, subtitle]: [&str; 2], lines: &[Line]) -> Option<Picture> {
    if lines.is_empty() {
        return None;
    }
    let points = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let (least, most) = points().fold((i64::MAX, i64::MIN), |(a, b), (x, _)| (a.min(x), b.max(x)));
    let highest = points().fold(0.0, |high: f64, (_, y)| high.max(y));
    let place = |x: i64| if plot.logarithmic { (x.max(1) as f64).log2() } else { x as f64 };
    let span = (place(most) - place(least)).max(1e-9);
    let x = |value: i64| LEFT + (place(value) - place(least)) / span * WIDTH;
    let step = nice(highest / 4.0);
    let top = (highest / step).ceil().max(1.0) * step;
    let y = |value: f64| TOP + (1.0 - value / top) * HEIGHT;
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT + 46.0);
    picture.text("strong", [0.0, 13.0], "start", title);
    picture.text("", [0.0, 31.0], "start", subtitle);
    for tick in 0..=(top / step).round() as u32 {
        let value = f64::from(tick) * step;
        picture.line("grid", [LEFT, y(value)], [LEFT + WIDTH, y(value)]);
        picture.text("", [LEFT - 6.0, y(value) + 4.0], "end", &short(value));
    }
    let mut last = f64::MIN;
    for (value, label) in marks(plot, lines) {
        if x(value) - last >= 30.0 {
            last = x(value);
            picture.line("grid", [last, TOP], [last, TOP + HEIGHT]);
            picture.text("", [last, TOP + HEIGHT + 17.0], "middle", &label);
        }
    }
    picture.line("axis", [LEFT, TOP + HEIGHT], [LEFT + WIDTH, TOP + HEIGHT]);
    picture.text("", [LEFT + WIDTH, TOP + HEIGHT + 36.0], "end", &plot.x);
    for (index, (name, points)) in lines.iter().enumerate() {
        let class = format!("curve s{}", index % LINE_COLORS);
        let at: Vec<[f64; 2]> = points.iter().map(|&(value, figure)| [x(value), y(figure)]).collect();
        picture.polyline(&class, &at);
        // Mark the minimum: the best choice.
        let least = points.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some(&(value, figure)) = least.filter(|_| !plot.is_over_time()) {
            let told = if figure.fract() == 0.0 { exact(figure as u64) } else { short(figure) };
            let about = format!("{name}: least {told} at {value}");
            let class = format!("f{}", index % LINE_COLORS);
            picture.cell(&class, [x(value) - 3.5, y(figure) - 3.5, 7.0, 7.0], &about);
        }
        let label = TOP + 8.0 + index as f64 * LINE;
        picture.line(&class, [LEFT + WIDTH + 12.0, label - 4.0], [LEFT + WIDTH + 30.0, label - 4.0]);
        picture.text("", [LEFT + WIDTH + 36.0, label], "start", name);
    }
    Some(picture)
}

/// The ticks of the axis: the key's values, or round numbers of instructions.
fn marks(plot: &Plot, lines: &[Line]) -> Vec<(i64, String)> {
    let mut values: Vec<i64> = lines.iter().flat_map(|(_, points)| points).map(|&(x, _)| x).collect();
    values.sort_unstable();
    values.dedup();
    if plot.is_over_time() {
        let end = values.last().copied().unwrap_or(0);
        let step = (nice(end as f64 / 5.0) as i64).max(1);
        return (0..=end / step).map(|n| (n * step, count((n * step) as u64))).collect();
    }
    values.into_iter().map(|value| (value, value.to_string())).collect()
}

/// The least of 1, 2 or 5 times a power of ten that is at least `step`.
fn nice(step: f64) -> f64 {
    if step <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|&n| n >= step * 0.999).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_figures_keep_their_digits() {
        let shown = [(0.0, "0"), (0.0008, "0.0008"), (0.00123456, "0.00123"), (0.42, "0.42"), (9.5, "9.5")];
        for (value, expected) in shown {
            assert_eq!(short(value), expected);
        }
        assert_eq!(short(12_345.6), "12.3 k");
    }

    #[test]
    fn steps_are_ones_twos_and_fives() {
        for (step, expected) in [(0.7, 1.0), (1.2, 2.0), (23.0, 50.0), (180.0, 200.0), (0.0, 1.0), (7e6, 1e7)]
        {
            assert!((nice(step) - expected).abs() < 1e-9 * expected, "{step}: {}", nice(step));
        }
    }
}
