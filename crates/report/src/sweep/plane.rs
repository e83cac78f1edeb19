//! Cycles of translation against memory, a point for each kernel (like figures 3-1 and 3-5 of Romer 1998). Nearer to
//! the lower left corner is better.

use super::comparison::{mcpi, memory_added, signed};
use super::picture::Picture;
use super::schema::MachineCell;

const LEFT: f64 = 60.0;
const TOP: f64 = 30.0;
const WIDTH: f64 = 230.0;
const HEIGHT: f64 = 190.0;
/// Room for names.
const RIGHT: f64 = 158.0;
const LINE: f64 = 14.0;

/// The kernels of one machine on one trace. `None` if fewer than two have a known memory.
pub(super) fn plane(title: &str, cells: &[&MachineCell]) -> Option<Picture> {
    let base = cells.first()?;
    let mut points: Vec<(&str, f64, f64)> = cells
        .iter()
        .filter_map(|cell| Some((cell.os.as_deref()?, memory_added(cell, base)?, mcpi(cell))))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let some = points.iter().map(|point| point.2).filter(|&mcpi| mcpi > 0.0);
    let (low, high) =
        some.fold((f64::MAX, 0.0), |(low, high): (f64, f64), mcpi| (low.min(mcpi), high.max(mcpi)));
    let low = low.max(high / 1e5).log10().floor();
    let high = high.log10().ceil().max(low + 1.0);
    let most = points.iter().map(|point| point.1).fold(0.01, f64::max);
    // A square root separates small overheads and still shows 0.
    let x = |added: f64| LEFT + (added.max(0.0) / most).sqrt() * WIDTH;
    let y = |mcpi: f64| {
        let at = if mcpi > 0.0 { mcpi.log10().max(low) } else { low };
        TOP + (high - at) / (high - low) * HEIGHT
    };
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT.max(LINE * points.len() as f64) + 40.0);
    picture.text("strong", [0.0, 13.0], "start", title);
    grid(&mut picture, [low, high], most, &x, &y);
    points.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(b.0)));
    let mut label = TOP - LINE;
    for (rank, &(name, added, mcpi)) in points.iter().enumerate() {
        // Names have the order of their points, do not overlap, and end within the picture's height.
        let room = TOP + HEIGHT - (points.len() - 1 - rank) as f64 * LINE;
        label = (label + LINE).max(y(mcpi).min(room));
        let at = [x(added), y(mcpi)];
        picture.line("lead", at, [LEFT + WIDTH + 12.0, label]);
        let about = format!("{name}: {} more memory", signed(added));
        picture.cell("dot", [at[0] - 3.5, at[1] - 3.5, 7.0, 7.0], &about);
        picture.text("", [LEFT + WIDTH + 16.0, label + 4.0], "start", name);
    }
    Some(picture)
}

fn grid(
    picture: &mut Picture,
    [low, high]: [f64; 2],
    most: f64,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    for power in low as i32..=high as i32 {
        let at = y(10_f64.powi(power));
        picture.line("grid", [LEFT, at], [LEFT + WIDTH, at]);
        let decimals = usize::try_from(-power).unwrap_or(0);
        picture.text("", [LEFT - 6.0, at + 4.0], "end", &format!("{:.decimals$}", 10_f64.powi(power)));
    }
    let steps = [0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
    for step in steps.into_iter().filter(|&step| step == 0.0 || (step <= most && step >= most / 50.0)) {
        picture.line("grid", [x(step), TOP], [x(step), TOP + HEIGHT]);
        picture.text("", [x(step), TOP + HEIGHT + 16.0], "middle", &format!("{} %", step * 100.0));
    }
    picture.line("axis", [LEFT, TOP + HEIGHT], [LEFT + WIDTH, TOP + HEIGHT]);
    picture.line("axis", [LEFT, TOP], [LEFT, TOP + HEIGHT]);
    picture.text("", [LEFT + WIDTH, TOP + HEIGHT + 32.0], "end", "memory beyond the first kernel's");
}
