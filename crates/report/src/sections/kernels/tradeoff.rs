//! The cost of translation against backed memory, one point per kernel (Romer 1998, figure 3-5). Costs may lie decades
//! apart, so their axis is logarithmic; a cost of 0 has a line of its own below it.

use super::super::{Axis, Chart, Curve, Mark, Part, Plot, Point, Tick};
use crate::figures::KernelFigures;
use crate::numbers::{bytes, cycles, multiples, nice_step};
use crate::printable::printable;

const HEIGHT: u32 = 340;
/// The gap between the line of cost 0 and the lowest cost drawn, as a fraction of the height.
const ZERO_ROOM: f64 = 30.0 / HEIGHT as f64;
/// The margin beyond the lowest and the highest cost, in decades.
const MARGIN: f64 = 0.12;

/// A kernel whose cost and memory are known to the end of the program.
struct Kernel<'a> {
    policy: &'a str,
    cost: f64,
    backed: u64,
    untouched: u64,
}

/// What the axes show.
struct Frame {
    /// Decades of cost.
    cheap: f64,
    costly: f64,
    /// Bytes.
    least: f64,
    most: f64,
}

impl Frame {
    fn new(costs: &[f64], kernels: &[Kernel<'_>]) -> Frame {
        let decades = costs.iter().map(|cost| cost.log10());
        let (cheap, costly) =
            decades.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
        let memory = kernels.iter().map(|kernel| kernel.backed as f64);
        let (low, high) =
            memory.fold((f64::MAX, 0.0), |(low, high): (f64, f64), at| (low.min(at), high.max(at)));
        let room = ((high - low) * 0.06).max(high * 0.01).max(1.0);
        Frame {
            cheap: cheap - MARGIN,
            costly: costly + MARGIN,
            least: (low - room).max(0.0),
            most: high + room,
        }
    }

    fn x(&self, bytes: f64) -> f64 {
        (bytes - self.least) / (self.most - self.least)
    }

    fn y(&self, cost: f64) -> f64 {
        (1.0 - ZERO_ROOM) * (self.costly - cost.log10()) / (self.costly - self.cheap)
    }

    fn costs(&self) -> Vec<Tick> {
        let steps: &[f64] = if self.costly - self.cheap > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        // An f64 has no powers of ten beyond these.
        let powers = (self.cheap.floor() as i32).max(-350)..=(self.costly.floor() as i32).min(350);
        let values = powers.flat_map(|power| steps.iter().map(move |step| (step * 10f64.powi(power), power)));
        let drawn = values.filter(|(cost, _)| (self.cheap..=self.costly).contains(&cost.log10()));
        let tick = |(cost, power): (f64, i32)| Tick {
            at: self.y(cost),
            text: format!("{cost:.*}", (-power).max(0) as usize),
        };
        drawn.map(tick).chain([Tick { at: 1.0, text: "0".to_owned() }]).collect()
    }

    /// Ticks of memory, at binary round numbers.
    fn memory(&self) -> Vec<Tick> {
        let unit = 1024f64.powf((self.most.max(1.0).log2() / 10.0).floor());
        let name = bytes(unit as u64);
        let name = name.split(' ').nth(1).unwrap_or("B");
        let (step, digits) = nice_step((self.most - self.least) / unit, 6.0);
        let values = multiples(step, self.least / unit..=self.most / unit);
        values.map(|at| Tick { at: self.x(at * unit), text: format!("{at:.digits$} {name}") }).collect()
    }
}

/// The chart, if the memory of any kernel is known.
pub(super) fn parts(machine: &str, rows: &[KernelFigures<'_>]) -> Option<Vec<Part>> {
    let kernels: Vec<Kernel<'_>> = rows.iter().filter_map(kernel).collect();
    if kernels.is_empty() {
        return None;
    }
    let costs: Vec<f64> = rows.iter().filter_map(|row| row.together).filter(|&cost| cost > 0.0).collect();
    let frame = Frame::new(&costs, &kernels);
    // The host's kernel has no count of memory, so it is a line.
    let is_line = |row: &&KernelFigures<'_>| row.is_host() && kernel(row).is_none();
    let host = rows.iter().find(is_line).and_then(|host| host.together).filter(|&cost| cost > 0.0);
    let host =
        host.map(|cost| Mark { x: None, y: Some(frame.y(cost)), text: "the host's kernel".to_owned() });
    let plot = Plot {
        label: format!(
            "Cycles of address translation per instruction against memory backed, by kernel, on {}",
            printable(machine)
        ),
        height: HEIGHT,
        x: Axis { title: "most memory backed at one time".to_owned(), ticks: frame.memory() },
        y: Axis {
            title: "cycles per instruction (logarithmic; 0, a perfect TLB, apart)".to_owned(),
            ticks: frame.costs(),
        },
        curves: vec![Curve {
            look: "kernel",
            has_dots: true,
            points: kernels.iter().map(|kernel| point(&frame, kernel, &kernels)).collect(),
            ..Curve::default()
        }],
        marks: host.into_iter().collect(),
        ..Plot::default()
    };
    Some(vec![
        Part::Heading(format!("What translation costs against memory backed, on {machine}"), ""),
        Part::Charts(vec![Chart::Plot(plot)]),
        Part::Note("Filled points: no other kernel is cheaper without backing more memory.".to_owned()),
    ])
}

fn kernel<'a>(row: &KernelFigures<'a>) -> Option<Kernel<'a>> {
    let cost = row.together.filter(|&cost| cost > 0.0 && row.killed().is_none())?;
    let backed = row.of("kernel.backed_bytes_peak")?;
    let untouched = row.of("kernel.untouched_bytes_peak").unwrap_or(0);
    Some(Kernel { policy: &row.of.policy, cost, backed, untouched })
}

fn point(frame: &Frame, kernel: &Kernel<'_>, all: &[Kernel<'_>]) -> Point {
    let Kernel { policy, cost, backed, untouched } = *kernel;
    let policy = printable(policy);
    let is_beaten = |other: &Kernel<'_>| {
        other.cost <= cost && other.backed <= backed && (other.cost < cost || other.backed < backed)
    };
    Point {
        x: frame.x(backed as f64),
        y: frame.y(cost),
        look: if all.iter().any(is_beaten) { "" } else { "best" },
        tells: vec![
            policy.clone(),
            format!("{} cycles per instruction", cycles(cost)),
            format!("{} backed at one time", bytes(backed)),
            format!("{} for nothing", bytes(untouched)),
        ],
        name: policy,
    }
}
