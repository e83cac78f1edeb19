//! Pictures of a probe: cost over footprint, both axes logarithmic, with the 10th to 90th percentile of each point.

use super::schema::{Curve, ProbeResult};
use super::{entries, quantity};
use crate::numbers::{bytes, exact};
use crate::sweep::picture::Picture;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 34.0;
/// Room for the lines' names.
const RIGHT: f64 = 170.0;
const LINE: f64 = 17.0;

/// A line of a picture: its curve, its name in the legend, and its colour.
pub(super) struct NamedCurve<'a> {
    pub curve: &'a Curve,
    pub title: String,
    pub color: usize,
    pub dashed: bool,
}

/// Logarithmic axes.
struct Frame {
    /// log2 of the ends of the horizontal axis.
    across: [f64; 2],
    /// log2 of the ends of the vertical axis.
    up: [f64; 2],
}

impl Frame {
    fn of(lines: &[NamedCurve]) -> Frame {
        let points = || lines.iter().flat_map(|line| &line.curve.points);
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            let (low, high) =
                values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
            if low > high { [0.0, 1.0] } else { [low.log2(), high.log2()] }
        };
        let across = ends(&mut points().map(|point| point.at.max(1) as f64));
        let [low, high] = ends(&mut points().map(|point| point.value.max(0.01)));
        Frame {
            across: [across[0], across[1].max(across[0] + 1.0)],
            up: [low.floor(), high.ceil().max(low.floor() + 1.0)],
        }
    }

    fn x(&self, at: u64) -> f64 {
        let [low, high] = self.across;
        LEFT + (((at.max(1) as f64).log2() - low) / (high - low)).clamp(0.0, 1.0) * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.up;
        TOP + (1.0 - ((value.max(0.001).log2() - low) / (high - low)).clamp(0.0, 1.0)) * HEIGHT
    }

    fn draw(&self, picture: &mut Picture, unit: &str, at_unit: &str) {
        let bottom = TOP + HEIGHT;
        for octave in self.up[0] as i32..=self.up[1] as i32 {
            let value = 2f64.powi(octave);
            let y = self.y(value);
            picture.line("grid", [LEFT, y], [LEFT + WIDTH, y]);
            picture.text("", [LEFT - 8.0, y + 4.0], "end", &quantity(value, unit).replace(".00", ""));
        }
        // Skip numbers that have no room.
        let octaves = self.across[1] - self.across[0];
        let step = (octaves / 9.0).ceil().max(1.0) as usize;
        for octave in (self.across[0].ceil() as u32..=self.across[1] as u32).step_by(step) {
            let at = 1u64 << octave;
            let x = self.x(at);
            picture.line("grid", [x, TOP], [x, bottom]);
            let name = if at_unit == "bytes" { bytes(at) } else { exact(at) };
            picture.text("", [x, bottom + 17.0], "middle", &name);
        }
        picture.line("axis", [LEFT, bottom], [LEFT + WIDTH, bottom]);
        picture.text("", [LEFT + WIDTH, bottom + 34.0], "end", at_unit);
    }
}

/// Curves in one frame. `marks` are places on the horizontal axis with their names.
pub(super) fn curves(title: &str, lines: &[NamedCurve], marks: &[(u64, String)]) -> Option<Picture> {
    let first = lines.first()?.curve;
    let frame = Frame::of(lines);
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT + 42.0);
    picture.text("", [0.0, 12.0], "start", title);
    frame.draw(&mut picture, &first.unit, &first.at_unit);
    for (index, (at, text)) in marks.iter().enumerate() {
        let (x, y) = (frame.x(*at), TOP + 12.0 + index as f64 * LINE);
        picture.line("size", [x, TOP], [x, TOP + HEIGHT]);
        picture.text("size", [x - 4.0, y], "end", text);
    }
    for (index, line) in lines.iter().enumerate() {
        let dash = if line.dashed { " sampled" } else { "" };
        let class = format!("curve{dash} s{}", line.color);
        for point in &line.curve.points {
            let x = frame.x(point.at);
            picture.line(
                &format!("error s{}", line.color),
                [x, frame.y(point.low)],
                [x, frame.y(point.high)],
            );
        }
        let points: Vec<[f64; 2]> =
            line.curve.points.iter().map(|point| [frame.x(point.at), frame.y(point.value)]).collect();
        picture.polyline(&class, &points);
        let y = TOP + 8.0 + index as f64 * LINE;
        picture.line(&class, [LEFT + WIDTH + 14.0, y - 4.0], [LEFT + WIDTH + 34.0, y - 4.0]);
        picture.text("", [LEFT + WIDTH + 40.0, y], "start", &line.title);
    }
    Some(picture)
}

/// The curve of the TLBs for a page size, with the levels found.
pub(super) fn tlb(result: &ProbeResult, page: &str) -> Option<Picture> {
    let curve = result.curve(&format!("tlb.{}", page.to_lowercase()))?;
    let title = format!("{} pages", crate::page_name(page));
    let line =
        NamedCurve { curve, title: title.clone(), color: usize::from(page != "4K") * 2, dashed: false };
    let marks: Vec<(u64, String)> = result
        .tlbs
        .iter()
        .filter(|tlb| tlb.page == page)
        .map(|tlb| {
            (tlb.entries.unwrap_or(tlb.assumed.entries), format!("level {}: {}", tlb.level, entries(tlb)))
        })
        .collect();
    curves(&format!("ns of an access, to so many {title} in turn"), &[line], &marks)
}

/// The cost of walks by footprint, in both page sizes.
pub(super) fn walks(result: &ProbeResult) -> Option<Picture> {
    let mut lines = Vec::new();
    for (color, chains) in [1, 2, 4, 8].into_iter().enumerate() {
        for page in ["4K", "2M"] {
            let name = format!("walks.{}.chains_{chains}", page.to_lowercase());
            let title = format!("{}, {chains} at once", crate::page_name(page));
            lines.extend(result.curve(&name).map(|curve| NamedCurve {
                curve,
                title,
                color,
                dashed: page == "2M",
            }));
        }
    }
    curves("ns of an access, to one line of each 4 KB", &lines, &[])
}

/// Latency by footprint.
pub(super) fn caches(result: &ProbeResult) -> Option<Picture> {
    let curve = result.curve("caches")?;
    curves(
        "ns of a load, in 2 MB pages",
        &[NamedCurve { curve, title: "lines in random order".to_owned(), color: 4, dashed: false }],
        &[],
    )
}
