//! The result of `trap` for a terminal.

use super::TrapOutcome;
use pagewalk_live::trap::{ImageOrigin, ImageReport, MappingUse};
use pagewalk_report::TimeUnit;
use std::fmt::Write;

/// Images listed without `--verbose`: those with most misses.
const IMAGES_SHOWN: usize = 8;

/// The whole result.
pub fn render(outcome: &TrapOutcome, verbose: bool) -> String {
    let seed = outcome.seed().map_or_else(String::new, |seed| format!(" (seed {seed})"));
    let mut out = format!(
        "{}, {}{seed}; data pages of 4 KB, faults of system calls included\n\n",
        outcome.machine, outcome.array
    );
    let mut images: Vec<&ImageReport> = outcome.run.images.iter().collect();
    if !verbose {
        images.sort_by_key(|image| std::cmp::Reverse(image.misses));
        images.truncate(IMAGES_SHOWN);
        images.sort_by_key(|image| image.number);
    }
    table(&mut out, &images);
    let hidden = outcome.run.images.len() - images.len();
    if hidden > 0 {
        let misses: u64 = images.iter().map(|image| image.misses).sum();
        let rest = outcome.misses() - misses;
        line(&mut out, format_args!("  and {hidden} more with {rest} misses together (-v lists all)"));
    }
    out.push('\n');
    times(&mut out, outcome);
    line(
        &mut out,
        format_args!("\n  What was seen, in pages (which share of references that is cannot be known):"),
    );
    for image in images {
        unseen(&mut out, image, verbose);
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string");
}

fn table(out: &mut String, images: &[&ImageReport]) {
    line(
        out,
        format_args!(
            "  {:<5} {:<28} {:>12} {:>12} {:>12} {:>11} {:>9}",
            "image", "program", "misses", "evictions", "misses/s", "run time", "agent"
        ),
    );
    for image in images {
        let began = if image.began == ImageOrigin::Fork { " (fork)" } else { "" };
        let program = shortened(&image.program, 28 - began.len()) + began;
        if let Some(why) = &image.not_followed {
            line(out, format_args!("  {:<5} {program:<28} not followed: {why}", image.number));
            if image.misses == 0 {
                continue;
            }
        }
        let agent = image.agent_microseconds().map_or(String::new(), |time| format!("{time:.1} us"));
        line(
            out,
            format_args!(
                "  {:<5} {program:<28} {:>12} {:>12} {:>12.0} {:>9.3} s {agent:>9}",
                image.number,
                image.misses,
                image.evictions,
                image.misses_per_second(),
                image.run_seconds,
            ),
        );
    }
}

/// The end of a path, which tells most.
fn shortened(path: &str, width: usize) -> String {
    let excess = path.chars().count().saturating_sub(width);
    if excess == 0 {
        path.to_owned()
    } else {
        format!("…{}", path.chars().skip(excess + 1).collect::<String>())
    }
}

fn times(out: &mut String, outcome: &TrapOutcome) {
    let run = outcome.run_seconds;
    let time = |seconds: f64| TimeUnit::up_to(seconds).time(seconds);
    match (outcome.native_seconds, outcome.slowdown()) {
        (Some(native), Some(slowdown)) => {
            line(
                out,
                format_args!(
                    "  run time {}, native {}: {slowdown:.2} times (measured)",
                    time(run),
                    time(native)
                ),
            );
            if let Some(cost) = outcome.microseconds_per_miss() {
                line(out, format_args!("  {cost:.1} us a miss: the difference over the misses (measured)"));
            }
        }
        _ => line(out, format_args!("  run time {} (measured; --native tells the slowdown)", time(run))),
    }
    line(
        out,
        format_args!("  misses and evictions are modelled: exact for the array and the references seen"),
    );
}

/// Resident pages whose references cannot be seen.
fn unseen(out: &mut String, image: &ImageReport, verbose: bool) {
    let Some(share) = image.seen_page_share() else { return };
    let not_seen: Vec<String> =
        [MappingUse::Code, MappingUse::ReadOnly, MappingUse::Shared, MappingUse::Private]
            .into_iter()
            .filter(|&kind| image.pages(kind) > 0)
            .map(|kind| format!("{} {}", image.pages(kind), kind.name()))
            .collect();
    line(
        out,
        format_args!(
            "  image {}: {} pages taken over hold data, {:.0} % of all pages; not seen: {}",
            image.number,
            image.touched_pages,
            100.0 * share,
            if not_seen.is_empty() { "none".to_owned() } else { not_seen.join(", ") }
        ),
    );
    for left in &image.left_alone {
        line(out, format_args!("    left alone: {left}"));
    }
    if verbose {
        for mapping in &image.mappings {
            line(
                out,
                format_args!(
                    "    {:<12} {:>14x} {:>10} KB {:>8} pages  {}",
                    mapping.kind.name(),
                    mapping.start,
                    mapping.bytes / 1024,
                    mapping.resident_pages,
                    mapping.name
                ),
            );
        }
    }
}
