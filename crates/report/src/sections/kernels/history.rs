//! Memory over time, one small chart per kernel on common axes: backed bytes, and those of them never touched.

use super::super::{Axis, Chart, Curve, Mark, Part, Plot, Point, Tick};
use crate::figures::KernelFigures;
use crate::numbers::{bytes, count};
use crate::printable::printable;
use crate::schema::MemoryPoint;

/// The ends of the common axes.
struct Frame {
    instructions: f64,
    bytes: f64,
}

/// The charts, if memory has enough samples for a line.
pub(super) fn parts(machine: &str, rows: &[KernelFigures<'_>]) -> Option<Vec<Part>> {
    let rows: Vec<_> = rows.iter().filter(|row| row.of.memory.len() > 1).collect();
    let samples = || rows.iter().flat_map(|row| &row.of.memory);
    let most = samples().map(|sample| sample.backed_bytes).max()?.max(1);
    let end = samples().map(|sample| sample.instructions).max()?.max(1);
    let frame = Frame { instructions: end as f64, bytes: most as f64 };
    let charts = rows.iter().map(|row| Chart::Plot(plot(&frame, row)));
    let legend = vec![("in-use", "backed and touched"), ("untouched", "backed and never touched")];
    Some(vec![
        Part::Heading(format!("Memory over time, on {machine}"), ""),
        Part::Legend(legend),
        Part::Charts(charts.collect()),
        Part::Note(format!("All on one scale: the line at the top is {}.", bytes(most))),
    ])
}

fn plot(frame: &Frame, row: &KernelFigures<'_>) -> Plot {
    // Nothing is backed before the first instruction.
    let start = MemoryPoint { instructions: 0, backed_bytes: 0, touched_bytes: 0 };
    let history = || [&start].into_iter().chain(&row.of.memory);
    let wasted = |sample: &MemoryPoint| sample.backed_bytes.saturating_sub(sample.touched_bytes);
    let highest = history().map(|sample| sample.backed_bytes).max().unwrap_or(0);
    let most_wasted = history().map(wasted).max().unwrap_or(0);
    let policy = printable(&row.of.policy);
    let points = |of: fn(&MemoryPoint) -> u64, is_telling: bool| {
        let point = |sample: &MemoryPoint| {
            let tells = [
                format!("after {} instructions", count(sample.instructions)),
                format!("{} backed", bytes(sample.backed_bytes)),
                format!("{} never touched", bytes(wasted(sample))),
            ];
            Point {
                x: sample.instructions as f64 / frame.instructions,
                y: 1.0 - of(sample) as f64 / frame.bytes,
                tells: if is_telling { tells.into() } else { Vec::new() },
                ..Point::default()
            }
        };
        history().map(point).collect()
    };
    let curve =
        |look, is_filled, points| Curve { look, is_joined: true, is_filled, points, ..Curve::default() };
    let end = row.of.memory.last().map_or(0.0, |sample| sample.instructions as f64 / frame.instructions);
    let mark = row.killed().map(|_| Mark { x: Some(end), y: None, text: "killed".to_owned() });
    Plot {
        label: format!(
            "{policy}: at most {} backed and {} never touched",
            bytes(highest),
            bytes(most_wasted)
        ),
        sub: format!("at most {}, {} untouched", bytes(highest), bytes(most_wasted)),
        title: policy,
        height: 84,
        is_small: true,
        x: Axis {
            title: format!("{} instructions", count(frame.instructions as u64)),
            ticks: vec![Tick { at: 0.0, text: "0".to_owned() }],
        },
        curves: vec![
            curve("untouched", true, points(|sample| sample.backed_bytes, true)),
            curve("in-use", true, points(|sample| sample.touched_bytes.min(sample.backed_bytes), false)),
            curve("backed", false, points(|sample| sample.backed_bytes, false)),
        ],
        marks: mark.into_iter().collect(),
        ..Plot::default()
    }
}
