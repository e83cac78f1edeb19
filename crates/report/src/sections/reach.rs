//! Walks against reach, on logarithmic axes, one curve per page size.

use super::{Axis, Chart, Content, Curve, Mark, Part, Plot, Point, Section, Terminal, Tick};
use crate::figures::{description, page_bytes, whole};
use crate::numbers::{bytes, exact, page_name, percent, ratio, round};
use crate::printable::printable;
use crate::schema::{MachineDescription, ProcessResult, ReachPoint, RunResult};

pub(super) const SECTION: Section = Section {
    id: "reach",
    link: "Reach",
    title: "Walks against TLB reach",
    lead: "How many walks remain when the last-level TLB has more or fewer entries, with base pages everywhere or huge \
           pages everywhere. Reach is the memory that all entries map together.",
    terminal: Terminal::Never,
    make,
};

/// The ends of the axes.
struct Frame {
    /// Decades of walks.
    lowest: f64,
    highest: f64,
    /// Whether some point has 0 walks, which has no logarithm: it gets a line of its own below the lowest decade.
    has_zero: bool,
    /// Binary logarithms of bytes.
    least: f64,
    most: f64,
}

impl Frame {
    fn new(points: &[ReachPoint]) -> Frame {
        let walks = || points.iter().map(|point| point.walks as f64).filter(|&walks| walks > 0.0);
        let highest = walks().fold(10.0, f64::max).log10().ceil();
        let lowest = walks().fold(10f64.powf(highest), f64::min).log10().floor().min(highest - 1.0);
        let reaches = || points.iter().map(|point| (point.reach_bytes.max(1) as f64).log2());
        let (least, most) = (reaches().fold(f64::MAX, f64::min), reaches().fold(0.0, f64::max));
        Frame { lowest, highest, has_zero: points.iter().any(|point| point.walks == 0), least, most }
    }

    fn x(&self, reach: u64) -> f64 {
        ((reach.max(1) as f64).log2() - self.least) / (self.most - self.least).max(1.0)
    }

    fn y(&self, walks: u64) -> f64 {
        let decades = self.highest - self.lowest + if self.has_zero { 1.0 } else { 0.0 };
        if walks == 0 { 1.0 } else { (self.highest - (walks as f64).log10()) / decades }
    }

    fn walks(&self) -> Vec<Tick> {
        let powers = (self.lowest as u32..=self.highest as u32).map(|power| 10u64.saturating_pow(power));
        let zero = self.has_zero.then_some(0);
        powers.chain(zero).map(|walks| Tick { at: self.y(walks), text: round(walks) }).collect()
    }

    fn reaches(&self) -> Vec<Tick> {
        let powers = (self.least.ceil() as u32..=self.most as u32).filter(|power| power.is_multiple_of(2));
        let reach = |power| 1u64.checked_shl(power).unwrap_or(u64::MAX);
        powers.map(|power| Tick { at: self.x(reach(power)), text: bytes(reach(power)) }).collect()
    }
}

/// The machine's page sizes for the two curves.
fn sizes(machine: Option<&MachineDescription>) -> (&str, &str) {
    machine.map_or(("4K", "2M"), |machine| (&machine.base_page, &machine.huge_page))
}

fn make(result: &RunResult, process: &ProcessResult) -> Option<Content> {
    let points = &process.reach;
    if points.iter().all(|point| point.walks == 0) {
        return None;
    }
    let machine = process.machines.first()?;
    let described = description(result, &machine.name);
    let touched = whole(machine, "pages_touched").unwrap_or(0).saturating_mul(page_bytes(described));
    let (small, huge) = sizes(described);
    let plot = plot(points, small, huge, touched);
    Some(Content {
        finding: finding(points, small, huge),
        parts: vec![Part::Charts(vec![Chart::Plot(plot)])],
        ..Content::default()
    })
}

fn finding(points: &[ReachPoint], small: &str, huge: &str) -> Option<String> {
    let own = points.iter().filter(|point| point.is_machine);
    let own = own.clone().find(|point| point.page_size == small).or(own.clone().next());
    let own = own.filter(|own| own.walks > 0)?;
    let larger = points.iter().filter(|at| at.page_size == own.page_size && at.entries > own.entries);
    let halved = larger.filter(|at| at.walks.saturating_mul(2) <= own.walks).min_by_key(|at| at.entries);
    let more = halved.map_or("Not even the largest TLB drawn halves the page walks".to_owned(), |halved| {
        let times = halved.entries as f64 / own.entries as f64;
        format!("It takes {} times the entries to halve the page walks", trimmed(&ratio(times)))
    });
    let with_huge = points.iter().find(|at| at.page_size == huge && at.entries == own.entries);
    let Some(with_huge) = with_huge.filter(|at| own.page_size != huge && at.walks < own.walks) else {
        return Some(more);
    };
    let pages = page_name(huge);
    Some(match with_huge.walks as f64 / own.walks as f64 {
        left if left < 0.001 => format!("{more}; with {pages} pages almost none remain"),
        left => format!("{more}; {pages} pages leave {} of them", percent(left)),
    })
}

/// Drops zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn plot(points: &[ReachPoint], small: &str, huge: &str, touched: u64) -> Plot {
    let frame = Frame::new(points);
    let curve = |look, size: &str| {
        let mut own: Vec<&ReachPoint> = points.iter().filter(|at| at.page_size == size).collect();
        own.sort_by_key(|at| at.entries);
        let name = printable(&format!("{} pages", page_name(size)));
        Curve {
            look,
            is_joined: true,
            has_dots: true,
            // The curve of small pages has its name at its start, that of huge pages at its end, where the other is far
            // away.
            is_named_at_end: look == "huge",
            points: own.into_iter().map(|at| point(&frame, at, &name)).collect(),
            name,
            ..Curve::default()
        }
    };
    // A TLB that reaches more than the program touches needs each walk once.
    let is_within =
        touched > 0 && ((touched as f64).log2() > frame.least && (touched as f64).log2() < frame.most);
    let mark = is_within.then(|| Mark {
        x: Some(frame.x(touched)),
        y: None,
        text: format!("the program touches {}", bytes(touched)),
    });
    Plot {
        label: "Page walks against the reach of the last-level TLB, on logarithmic axes".to_owned(),
        height: 300,
        x: Axis { title: "reach of the last-level TLB".to_owned(), ticks: frame.reaches() },
        y: Axis { title: "page walks".to_owned(), ticks: frame.walks() },
        curves: vec![curve("small", small), curve("huge", huge)],
        marks: mark.into_iter().collect(),
        ..Plot::default()
    }
}

fn point(frame: &Frame, at: &ReachPoint, pages: &str) -> Point {
    let entries = exact(at.entries);
    let machine = at.is_machine.then(|| "this machine".to_owned());
    let tells = [
        format!("{} walks", exact(at.walks)),
        pages.to_owned(),
        format!("{entries} entries reach {}", bytes(at.reach_bytes)),
    ];
    Point {
        x: frame.x(at.reach_bytes),
        y: frame.y(at.walks),
        name: if at.is_machine { format!("this machine: {entries} entries") } else { String::new() },
        look: if at.is_machine { "own" } else { "" },
        tells: tells.into_iter().chain(machine).collect(),
    }
}
