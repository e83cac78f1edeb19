//! Machines of a study side by side: a bar for each, whose parts are counters (like figure 5.2 of Karakostas 2016).

use super::picture::{LINE_COLORS, Picture, short};
use super::schema::{MachineCell, Plot};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 280.0;
const TOP: f64 = 26.0;
const ROW: f64 = 20.0;
/// Room for the figure after a bar.
const RIGHT: f64 = 64.0;
/// A line of the legend.
const LINE: f64 = 15.0;

/// A bar for each machine that has any of the plot's counters; missing counters have no part.
pub(super) fn bars(plot: &Plot, title: &str, cells: &[&MachineCell]) -> Picture {
    let figure = |cell: &MachineCell, metric: &String| cell.metrics.get(metric).map_or(0.0, |n| n.as_f64());
    let whole = |cell: &MachineCell| plot.y.iter().map(|metric| figure(cell, metric)).sum::<f64>();
    let most = cells.iter().map(|cell| whole(cell)).fold(0.0, f64::max);
    let scale = if most > 0.0 { WIDTH / most } else { 0.0 };
    let bottom = TOP + ROW * cells.len() as f64;
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, bottom + 14.0 + LINE * plot.y.len() as f64);
    picture.text("strong", [0.0, 14.0], "start", title);
    for (row, cell) in cells.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        picture.text("", [LEFT - 8.0, y + 13.5], "end", &cell.machine);
        let mut x = LEFT;
        for (index, metric) in plot.y.iter().enumerate() {
            let width = figure(cell, metric) * scale;
            if width > 0.0 {
                let about = format!("{metric}: {}", short(figure(cell, metric)));
                picture.cell(&format!("f{}", index % LINE_COLORS), [x, y + 2.0, width, ROW - 5.0], &about);
                x += width;
            }
        }
        picture.text("", [x + 5.0, y + 13.5], "start", &short(whole(cell)));
    }
    picture.line("axis", [LEFT, TOP], [LEFT, bottom]);
    for (index, metric) in plot.y.iter().enumerate() {
        let y = bottom + 8.0 + LINE * index as f64;
        picture.cell(&format!("f{}", index % LINE_COLORS), [LEFT, y, 10.0, 10.0], metric);
        picture.text("", [LEFT + 16.0, y + 9.5], "start", metric);
    }
    picture
}
