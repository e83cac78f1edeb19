//! The result of a run on the terminal: the costliest process image in full, all others condensed.

mod cache_families;
mod conflicts;
mod contiguity;
mod family;
mod huge_pages;
mod layout_plan;
mod paint;
mod probe;
mod process;
mod sections;
mod sweep;
mod table;
mod verification;

pub use conflicts::render_conflicts_text;
pub use contiguity::render_contiguity_text;
pub(crate) use contiguity::{contiguity_again, contiguity_moment, contiguity_segment};
pub use huge_pages::render_huge_pages_text;
pub use layout_plan::render_layout_plan_text;
pub use probe::render_probe_text;
pub use sweep::render_sweep_text;
pub(crate) use sweep::{sweep_bounds, sweep_left_out, sweep_mean, sweep_on, sweep_quotient, sweep_verdict};
pub use verification::render_verification_text;

use crate::figures::{base_name, costliest, named, walk_cycle_share};
use crate::numbers::percent;
use crate::printable::printable;
use crate::schema::{ProcessResult, RunResult};
use paint::{Line, Style, wrap};

/// Least width of lines, even on narrower terminals: below it, tables have nothing left to leave out.
pub const NARROWEST: usize = 64;
/// Processes cut short that are shown with their reason.
const CUTS_SHOWN: usize = 3;
/// Losses shown before a count of the rest.
const LOSSES_SHOWN: usize = 4;

/// How the text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to use terminal colours.
    pub color: bool,
    /// Whether to print longer tables, every TLB array, and every process on its own line.
    pub verbose: bool,
}

/// The result as text for a terminal.
pub fn render_text(result: &RunResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    let Some(index) = costliest(result) else {
        page.line(Line::new(Style::Strong, "No process was recorded."));
        return page.out;
    };
    cut_short(&mut page, &result.processes);
    together(&mut page, result);
    process::write(&mut page, result, &result.processes[index]);
    if result.processes.len() > 1 {
        family::write(&mut page, result);
    }
    losses(&mut page, &result.processes);
    next_step(&mut page, result);
    page.end()
}

/// The text so far, and its options.
struct Page {
    out: String,
    width: usize,
    color: bool,
    verbose: bool,
    /// Titles of figures that found no room, by table.
    left_out: Vec<String>,
}

impl Page {
    fn new(options: TextOptions) -> Page {
        let TextOptions { width, color, verbose } = options;
        Page { out: String::new(), width: width.max(NARROWEST), color, verbose, left_out: Vec::new() }
    }

    fn line(&mut self, line: Line) {
        line.fit(self.width).write(&mut self.out, self.color);
        self.out.push('\n');
    }

    fn blank(&mut self) {
        self.out.push('\n');
    }

    /// Adds a wrapped paragraph with a hanging indent of the lead's width.
    fn paragraph(&mut self, lead: Line, style: Style, text: &str) {
        let indent = lead.width();
        for (index, text) in wrap(text, self.width - indent).into_iter().enumerate() {
            let start = if index == 0 { lead.clone() } else { Line::new(Style::Plain, " ".repeat(indent)) };
            self.line(start.and(style, text));
        }
    }

    fn table(&mut self, table: table::Table) {
        let left_out = table.write(&mut self.out, self.width, self.color);
        if let Some(left_out) = left_out.filter(|titles| !self.left_out.contains(titles)) {
            self.left_out.push(left_out);
        }
    }

    /// Names the figures that found no room in tables.
    fn no_room(&mut self) {
        if !self.left_out.is_empty() {
            let titles = std::mem::take(&mut self.left_out).join(", ");
            let text = format!("{titles}; a wider terminal and --json have them");
            self.paragraph(Line::new(Style::Quiet, "  no room for: "), Style::Quiet, &text);
        }
    }

    /// The finished text.
    fn end(mut self) -> String {
        if !self.left_out.is_empty() {
            self.blank();
            self.no_room();
        }
        self.out
    }
}

/// Says first which processes have figures of their beginning only.
fn cut_short(page: &mut Page, processes: &[ProcessResult]) {
    let cut = processes.iter().filter_map(|process| Some((process, process.cut_short.as_ref()?)));
    for (process, why) in cut.take(CUTS_SHOWN) {
        let whose = match processes.len() {
            1 => String::new(),
            _ => format!(" of {}", printable(&named(base_name(&process.program), process))),
        };
        let text = format!("these figures{whose} lack {}", printable(why));
        page.paragraph(Line::new(Style::Warning, "Cut short: "), Style::Strong, &text);
    }
}

/// Says that what follows is of one process of several.
fn together(page: &mut Page, result: &RunResult) {
    let processes = result.processes.len();
    let share = result.machines.first().and_then(walk_cycle_share).map(percent);
    if let (2.., Some(share)) = (processes, share) {
        let text = format!(
            "{processes} processes spend {share} of their modelled cycles on page walks. The costliest:"
        );
        page.paragraph(Line::default(), Style::Plain, &text);
    }
}

fn losses(page: &mut Page, processes: &[ProcessResult]) {
    let all: Vec<String> = processes
        .iter()
        .flat_map(|process| {
            let losses = process.losses.iter().filter(|loss| process.cut_short.as_ref() != Some(loss));
            losses.map(move |loss| match processes.len() {
                1 => printable(loss),
                _ => format!("pid {}: {}", process.pid, printable(loss)),
            })
        })
        .collect();
    if all.is_empty() {
        return;
    }
    page.blank();
    let shown = if page.verbose { all.len() } else { all.len().min(LOSSES_SHOWN) };
    for loss in &all[..shown] {
        page.paragraph(Line::new(Style::Warning, "  lost  "), Style::Plain, loss);
    }
    if shown < all.len() {
        page.line(
            Line::new(Style::Warning, "  lost  ")
                .and(Style::Plain, format!("… and {} more", all.len() - shown)),
        );
    }
}

/// Suggests the next step, unless this run did it already.
fn next_step(page: &mut Page, result: &RunResult) {
    let own_options = || result.tool.command_line.iter().take_while(|argument| *argument != "--");
    let simulates = own_options().any(|argument| argument == "simulate");
    let has_tried = result.processes.iter().any(|process| !process.what_if.is_empty());
    let writes_report = own_options().any(|argument| argument.ends_with(".html"));
    let steps = [
        (simulates && !has_tried).then_some("--what-if for what would help"),
        (!writes_report).then_some("-o report.html for the pictures"),
        (!page.verbose).then_some("-v for longer tables"),
    ];
    let steps: Vec<&str> = steps.into_iter().flatten().collect();
    if steps.is_empty() {
        return;
    }
    page.blank();
    page.no_room();
    let text = format!("add {}", steps.join(", "));
    page.paragraph(Line::new(Style::Quiet, "  next: "), Style::Quiet, &text);
}
