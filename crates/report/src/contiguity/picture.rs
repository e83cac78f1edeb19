//! Pictures of a process's memory: the lengths of its runs, and the share that each design maps by number of entries.
//! The horizontal axis is logarithmic.

use super::schema::{ContiguityResult, Design, name};
use crate::numbers::{bytes, exact};
use crate::sweep::picture::Picture;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 30.0;
/// Room for the lines' names.
const RIGHT: f64 = 264.0;
const LINE: f64 = 17.0;
/// The mark: entries of a current second-level TLB.
const TLB_ENTRIES: u64 = 1536;

/// The frame of a picture: a logarithmic axis from 1, and shares from 0 to 1.
struct Frame {
    octaves: f64,
}

impl Frame {
    fn to(most: u64) -> Frame {
        Frame { octaves: (most.max(2) as f64).log2().ceil() }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + value.max(1.0).log2() / self.octaves * WIDTH
    }

    fn y(&self, share: f64) -> f64 {
        TOP + (1.0 - share.clamp(0.0, 1.0)) * HEIGHT
    }

    /// Draws grid lines and numbers, and a second row of numbers below the axis if `second` gives one.
    fn draw(&self, picture: &mut Picture, second: Option<fn(u64) -> String>) {
        let bottom = TOP + HEIGHT;
        for quarter in 0..=4 {
            let y = self.y(f64::from(quarter) / 4.0);
            picture.line("grid", [LEFT, y], [LEFT + WIDTH, y]);
            picture.text("", [LEFT - 8.0, y + 4.0], "end", &format!("{} %", quarter * 25));
        }
        // Skip numbers that have no room.
        let step = (self.octaves / 10.0).ceil().max(1.0) as usize;
        for octave in (0..=self.octaves.min(62.0) as u32).step_by(step) {
            let value = 1u64 << octave;
            let x = self.x(value as f64);
            picture.line("grid", [x, TOP], [x, bottom]);
            picture.text("", [x, bottom + 17.0], "middle", &short(value));
            if let Some(second) = second {
                picture.text("", [x, bottom + 33.0], "middle", &second(value));
            }
        }
        picture.line("axis", [LEFT, bottom], [LEFT + WIDTH, bottom]);
    }
}

/// A power of two, abbreviated: `512`, `64 Ki`.
fn short(value: u64) -> String {
    if value < 1 << 14 { exact(value) } else { bytes(value).replace('B', "") }
}

/// One line of a legend, and its curve.
fn curve(picture: &mut Picture, index: usize, dashed: bool, title: &str, points: &[[f64; 2]]) {
    let kind = if dashed { "curve sampled" } else { "curve" };
    let class = format!("{kind} s{index}");
    picture.polyline(&class, points);
    let y = TOP + 8.0 + index as f64 * LINE;
    picture.line(&class, [LEFT + WIDTH + 14.0, y - 4.0], [LEFT + WIDTH + 34.0, y - 4.0]);
    picture.text("", [LEFT + WIDTH + 40.0, y], "start", title);
}

/// What [`run_lengths`] shows, in words.
pub(super) fn run_lengths_label(result: &ContiguityResult) -> String {
    let names =
        if result.frame_numbers { "of pages and of pages with consecutive frames" } else { "of pages" };
    format!("Share of the memory of {} in runs {names}, by their length", result.process.program)
}

/// The share of memory in runs of at most a given number of pages.
pub(super) fn run_lengths(result: &ContiguityResult) -> Picture {
    let longest = result.largest_virtual_run_pages.max(result.largest_range_pages.unwrap_or(0));
    let frame = Frame::to(longest.max(result.huge_page_pages));
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT + 56.0);
    picture.text("", [0.0, 12.0], "start", "share of memory in runs of at most so many pages");
    frame.draw(&mut picture, Some(|pages| bytes(pages.saturating_mul(4096))));
    picture.text("", [LEFT + WIDTH, TOP + HEIGHT + 50.0], "end", "pages in a run, and their size");
    let huge = frame.x(result.huge_page_pages as f64);
    picture.line("size", [huge, TOP], [huge, TOP + HEIGHT]);
    picture.text("size", [huge - 4.0, TOP + HEIGHT - 6.0], "end", "a huge page");
    let lines = [(name::VIRTUAL_RUNS, "runs of pages"), (name::RANGES, "runs of pages and frames")];
    let known = lines.into_iter().filter_map(|(name, title)| Some((result.design(name)?, title)));
    for (index, (design, title)) in known.enumerate() {
        curve(&mut picture, index, false, title, &steps(result, design, &frame));
    }
    if !result.frame_numbers {
        picture.text("", [LEFT + WIDTH + 14.0, TOP + 8.0 + LINE], "start", "(frame numbers not readable)");
    }
    picture
}

/// The steps of the curve: one up at each length of runs.
fn steps(result: &ContiguityResult, design: &Design, frame: &Frame) -> Vec<[f64; 2]> {
    let all = result.all_mapped_pages().max(1) as f64;
    let mut points = vec![[frame.x(1.0), frame.y(0.0)]];
    let mut mapped = 0.0;
    for (pages, count) in design.sizes.iter() {
        let x = frame.x(pages as f64);
        points.push([x, frame.y(mapped / all)]);
        mapped += pages as f64 * count as f64;
        points.push([x, frame.y(mapped / all)]);
    }
    points.push([LEFT + WIDTH, frame.y(mapped / all)]);
    points
}

/// What [`reach`] shows, in words.
pub(super) fn reach_label(result: &ContiguityResult) -> String {
    format!("Share of the memory of {} that so many entries of each design map", result.process.program)
}

/// The share of memory that each design's largest entries map, by their number; bounds are dashed.
pub(super) fn reach(result: &ContiguityResult) -> Picture {
    let frame = Frame::to(result.all_mapped_pages().max(2 * TLB_ENTRIES));
    let mut picture = Picture::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT + 40.0);
    picture.text("", [0.0, 12.0], "start", "share of memory mapped");
    frame.draw(&mut picture, None);
    picture.text("", [LEFT + WIDTH, TOP + HEIGHT + 34.0], "end", "entries, the largest first");
    let tlb = frame.x(TLB_ENTRIES as f64);
    picture.line("size", [tlb, TOP], [tlb, TOP + HEIGHT]);
    picture.text("size", [tlb - 4.0, TOP + HEIGHT - 6.0], "end", "1,536 entries");
    let known = result.designs.iter().filter(|design| design.missing.is_none());
    for (index, design) in known.enumerate() {
        let share = |entries: f64| {
            design.sizes.mapped_by(entries.round() as u64) as f64 / result.all_mapped_pages().max(1) as f64
        };
        // Eight points per octave, rounded to whole numbers of entries.
        let points: Vec<[f64; 2]> = (0..=(frame.octaves * 8.0) as u32)
            .map(|eighth| 2f64.powf(f64::from(eighth) / 8.0).round())
            .map(|entries| [frame.x(entries), frame.y(share(entries))])
            .collect();
        curve(&mut picture, index, design.class == "bound", &design.title, &points);
    }
    picture
}
