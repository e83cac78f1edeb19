//! Miss-ratio curves: misses against entries, both logarithmic; sampled ones dashed, with twice their standard error.

use super::picture::Picture;
use super::schema::CurveCell;
use crate::numbers::{bytes, exact};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 76.0;
const TOP: f64 = 30.0;

/// The axes of a picture.
struct Frame {
    /// log2 of the most entries.
    octaves: f64,
    /// log10 of the ends of the axis of misses.
    lowest: i32,
    highest: i32,
}

impl Frame {
    fn x(&self, entries: u64) -> f64 {
        LEFT + (entries.max(1) as f64).log2() / self.octaves * WIDTH
    }

    /// The height of a share; 0 has no logarithm and lies on the axis.
    fn y(&self, share: f64) -> f64 {
        let at = if share > 0.0 { share.log10() } else { f64::from(self.lowest) };
        let part = (f64::from(self.highest) - at) / f64::from(self.highest - self.lowest);
        TOP + part.clamp(0.0, 1.0) * HEIGHT
    }
}

/// The curves of one trace.
pub(super) fn curves(cells: &[&CurveCell]) -> Picture {
    let share = |cell: &CurveCell, misses: f64| misses / cell.references.max(1) as f64;
    let shares = cells.iter().flat_map(|cell| cell.misses.iter().map(|&misses| share(cell, misses)));
    let lowest = shares.filter(|&share| share > 0.0).fold(0.1, f64::min).log10().floor() as i32;
    let most = cells.iter().filter_map(|cell| cell.entries.last()).max().copied().unwrap_or(2);
    let frame = Frame { octaves: (most.max(2) as f64).log2().ceil(), lowest, highest: 0 };
    let mut picture = Picture::new(LEFT + WIDTH + 20.0, TOP + HEIGHT + 58.0);
    grid(&mut picture, &frame);
    for cell in cells {
        let class = if cell.standard_errors.is_empty() { "curve" } else { "curve sampled" };
        let points = cell.entries.iter().zip(&cell.misses);
        let points: Vec<[f64; 2]> =
            points.map(|(&entries, &misses)| [frame.x(entries), frame.y(share(cell, misses))]).collect();
        picture.polyline(&format!("{class} {}", cell.serves), &points);
        let errors = cell.entries.iter().zip(&cell.misses).zip(&cell.standard_errors);
        for ((&entries, &misses), &error) in errors {
            let end =
                |sign: f64| [frame.x(entries), frame.y(share(cell, (misses + sign * 2.0 * error).max(0.0)))];
            picture.line(&format!("error {}", cell.serves), end(-1.0), end(1.0));
        }
    }
    legend(&mut picture, cells);
    picture
}

fn grid(picture: &mut Picture, frame: &Frame) {
    let bottom = TOP + HEIGHT;
    for power in frame.lowest..=frame.highest {
        let y = frame.y(10_f64.powi(power));
        picture.line("grid", [LEFT, y], [LEFT + WIDTH, y]);
        let decimals = usize::try_from(-power - 2).unwrap_or(0);
        let text = format!("{:.decimals$} %", 10_f64.powi(power + 2));
        picture.text("", [LEFT - 8.0, y + 4.0], "end", &text);
    }
    for octave in (0..=frame.octaves.min(62.0) as u32).step_by(2) {
        let entries = 1_u64 << octave;
        let x = frame.x(entries);
        picture.line("grid", [x, TOP], [x, bottom]);
        picture.text("", [x, bottom + 17.0], "middle", &exact(entries));
        picture.text("", [x, bottom + 33.0], "middle", &bytes(entries.saturating_mul(4096)));
    }
    picture.line("axis", [LEFT, bottom], [LEFT + WIDTH, bottom]);
    picture.text("", [0.0, 12.0], "start", "misses of all references");
    picture.text(
        "",
        [LEFT + WIDTH, bottom + 51.0],
        "end",
        "entries of 4K pages, fully associative; their reach",
    );
}

fn legend(picture: &mut Picture, cells: &[&CurveCell]) {
    let mut x = LEFT + WIDTH;
    let mut named: Vec<(&str, bool)> =
        cells.iter().map(|cell| (cell.serves.as_str(), cell.standard_errors.is_empty())).collect();
    named.dedup();
    for (serves, is_exact) in named.into_iter().rev() {
        let text =
            if is_exact { serves.to_owned() } else { format!("{serves}, sampled ± 2 standard errors") };
        picture.text("", [x, 12.0], "end", &text);
        x -= text.chars().count() as f64 * 6.6 + 8.0;
        let class = if is_exact { "curve" } else { "curve sampled" };
        picture.line(&format!("{class} {serves}"), [x - 22.0, 8.0], [x, 8.0]);
        x -= 38.0;
    }
}
