//! The advice on huge pages, on the terminal.

use super::paint::{Line, Style, plain};
use super::table::{Table, WhenNarrow, names, numbers};
use super::{Page, TextOptions};
use crate::huge_pages::schema::{AdviceResult, AdvisedRange, Estimates, ForecastSeconds, ForecastShare};
use crate::numbers::{TimeUnit, count, percent};
use crate::printable::printable;

/// Ranges shown without `--verbose`.
const RANGES_SHOWN: usize = 12;

/// The result as text for a terminal.
pub fn render_huge_pages_text(result: &AdviceResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.line(Line::new(Style::Strong, printable(&format!("{}: huge pages", result.program))));
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Strong, &printable(&result.verdict));
    let walks = format!(
        "{} walks in {} instructions on {}, {} with huge pages wherever they can be (modelled)",
        count(result.walks),
        count(result.instructions),
        result.machine,
        count(result.huge_walks)
    );
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Plain, &printable(&walks));
    page.blank();
    times(&mut page, result);
    page.blank();
    ranges(&mut page, result);
    estimates(&mut page, result);
    for setting in &result.host_forbids {
        let crate::huge_pages::schema::HostSetting { file, value, effect, allow } = setting;
        let text = format!("{file} is `{value}`: {effect}; to allow it: {allow}");
        page.paragraph(Line::new(Style::Warning, "  –  "), Style::Plain, &printable(&text));
    }
    for note in &result.notes {
        page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &printable(note));
    }
    page.end()
}

/// How the forecast combines the trial and the model.
fn estimates(page: &mut Page, result: &AdviceResult) {
    let Some(Estimates { model, trial, joined }) = result.estimates else { return };
    let saved = |share: ForecastShare| {
        let of = |share: f64| (1.0 - share) * 100.0;
        if share.high < f64::MAX {
            format!("{:.1} % ({:.1} to {:.1} %)", of(share.share), of(share.high), of(share.low))
        } else {
            "nothing that is sure".to_owned()
        }
    };
    let text = format!(
        "With huge pages for all ranges, the trial's runs save {}. The model alone expects {}. Weighted by their \
         precision, the two give {}; the forecast is the plan's part of that.",
        saved(trial),
        saved(model),
        saved(joined)
    );
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &text);
}

/// The unit of all times: that of a run today.
fn unit(result: &AdviceResult) -> TimeUnit {
    TimeUnit::up_to(result.runs.first().map_or(f64::INFINITY, |runs| runs.median.seconds))
}

fn interval(time: &ForecastSeconds, unit: TimeUnit) -> String {
    match (time.low, time.high) {
        (Some(low), Some(high)) => format!("{} to {}", unit.number(low), unit.time(high)),
        _ => "unknown".to_owned(),
    }
}

fn times(page: &mut Page, result: &AdviceResult) {
    let unit = unit(result);
    let columns = vec![
        names("processor time"),
        numbers(unit.name, WhenNarrow::Keep),
        numbers("90 % interval", WhenNarrow::Keep),
        numbers("change", WhenNarrow::Keep),
        numbers("most resident", WhenNarrow::Drop(1)),
        names("class"),
    ];
    let mut table = Table::new(columns);
    let now = result.runs.first().map_or(0.0, |runs| runs.median.seconds);
    let change = |seconds: f64| {
        let share = seconds / now.max(f64::MIN_POSITIVE) - 1.0;
        format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs()))
    };
    for (number, runs) in result.runs.iter().enumerate() {
        table.row(vec![
            plain(match runs.seconds.len() {
                1 => format!("{}, 1 run", printable(&runs.what)),
                count => format!("{}, {count} runs", printable(&runs.what)),
            }),
            plain(unit.number(runs.median.seconds)),
            plain(interval(&runs.median, unit)),
            // From paired runs, like the forecast; two medians say less.
            plain(match runs.share {
                Some(share) => change(share.share * now),
                None if number == 0 => "–".to_owned(),
                None => change(runs.median.seconds),
            }),
            plain(runs.resident_mib.map_or_else(|| "–".to_owned(), |mib| format!("{mib:.0} MiB"))),
            plain("measured"),
        ]);
    }
    if !result.ranges.is_empty() {
        table.row(vec![
            Line::new(Style::Strong, "the plan"),
            plain(unit.number(result.forecast.seconds)),
            plain(interval(&result.forecast, unit)),
            plain(change(result.forecast.seconds)),
            plain(format!("+{:.0} MiB at most", result.memory_mib)),
            plain("modelled"),
        ]);
    }
    if let Some(always) = &result.always {
        table.row(vec![
            plain("`always` for all memory"),
            plain(unit.number(always.forecast.seconds)),
            plain(interval(&always.forecast, unit)),
            plain(change(always.forecast.seconds)),
            plain(format!("+{:.0} MiB at most", always.memory_mib)),
            plain("modelled"),
        ]);
    }
    page.table(table);
}

/// Who asked for a range, and what it is.
fn named(range: &AdvisedRange) -> String {
    let maker = range.made_by.as_ref().map_or_else(String::new, |maker| format!("{maker}: "));
    maker + &range.name
}

fn ranges(page: &mut Page, result: &AdviceResult) {
    if result.ranges.is_empty() {
        return;
    }
    let columns = vec![
        names("range"),
        numbers("MiB", WhenNarrow::Keep),
        numbers("saved by walks", WhenNarrow::Keep),
        numbers("by faults", WhenNarrow::Keep),
        numbers("memory", WhenNarrow::Keep),
    ];
    let mut table = Table::new(columns);
    let unit = unit(result);
    let mut order: Vec<_> = result.ranges.iter().collect();
    let saved = |range: &AdvisedRange| range.walk_seconds + range.fault_seconds;
    order.sort_by(|a, b| saved(b).total_cmp(&saved(a)).then(a.name.cmp(&b.name)));
    let shown = if page.verbose { order.len() } else { RANGES_SHOWN.min(order.len()) };
    for range in &order[..shown] {
        table.row(vec![
            plain(printable(&named(range))),
            plain(format!("{}", range.bytes >> 20)),
            plain(unit.time(range.walk_seconds)),
            plain(unit.time(range.fault_seconds)),
            plain(format!("+{:.1} MiB", range.memory_mib)),
        ]);
    }
    page.table(table);
    if shown < order.len() {
        page.paragraph(
            Line::new(Style::Quiet, "  "),
            Style::Quiet,
            &format!("{} more: --verbose", order.len() - shown),
        );
    }
}
