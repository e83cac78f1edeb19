//! What a plan saves, measured, on the terminal.

use super::paint::{Line, Style, plain};
use super::table::{Table, WhenNarrow, names, numbers};
use super::{Page, TextOptions};
use crate::documents::plans::{Interval, RunTimes, VerifyResult};
use crate::numbers::TimeUnit;
use crate::printable::printable;

/// The result as text for a terminal.
pub fn render_verification_text(result: &VerifyResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.paragraph(Line::new(Style::Plain, ""), Style::Strong, &printable(&result.verdict));
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Plain, &pairs(result));
    page.blank();
    times(&mut page, result);
    if let Some(text) = forecast(result) {
        page.paragraph(Line::new(Style::Quiet, "  "), Style::Plain, &text);
    }
    page.end()
}

/// How the pairs were run.
fn pairs(result: &VerifyResult) -> String {
    let warmed = result
        .warmed_mib
        .map_or(String::new(), |mib| format!("; before each run, {mib:.0} MiB were used and freed (--warm)"));
    format!(
        "{} pairs of runs, stopped by {}{warmed}; intervals of seconds: {}",
        result.with.len(),
        result.stopped_by,
        result.interval
    )
}

fn times(page: &mut Page, result: &VerifyResult) {
    let columns = vec![
        names(""),
        numbers("without", WhenNarrow::Keep),
        numbers("with", WhenNarrow::Keep),
        numbers("saved", WhenNarrow::Keep),
        numbers("90 % interval", WhenNarrow::Keep),
        names("class"),
    ];
    let mut table = Table::new(columns);
    let unit = TimeUnit::up_to(mean(&result.without, |run| run.seconds));
    let mut measured = |name: &str, saved: Interval, time: fn(&RunTimes) -> f64| {
        let [value, ends] = interval(saved, unit);
        table.row(vec![
            plain(name),
            plain(unit.time(mean(&result.without, time))),
            plain(unit.time(mean(&result.with, time))),
            value,
            ends,
            plain("measured"),
        ]);
    };
    measured("processor time", result.processor_seconds_saved, |run| run.processor_seconds);
    measured("wall time", result.seconds_saved, |run| run.seconds);
    if let Some(saved) = result.forecast_processor_seconds_saved {
        let [value, ends] = interval(saved, unit);
        table.row(vec![plain("forecast"), plain("–"), plain("–"), value, ends, plain("modelled")]);
    }
    page.table(table);
}

fn mean(runs: &[RunTimes], time: fn(&RunTimes) -> f64) -> f64 {
    runs.iter().map(time).sum::<f64>() / runs.len().max(1) as f64
}

/// The time saved, and the ends of its interval.
fn interval(saved: Interval, unit: TimeUnit) -> [Line; 2] {
    let number = |seconds: f64| format!("{:+.3}", unit.of(seconds)).replace('-', "−");
    let symbol = unit.symbol;
    let value = saved.mean.map_or_else(|| "unknown".to_owned(), |mean| format!("{} {symbol}", number(mean)));
    let ends = match (saved.low, saved.high) {
        (Some(low), Some(high)) => format!("{} to {} {symbol}", number(low), number(high)),
        _ => "unknown".to_owned(),
    };
    [plain(value), plain(ends)]
}

/// How far the forecast was off, by the ratio of the times: what the host changed between `advise` and now cancels out.
fn forecast(result: &VerifyResult) -> Option<String> {
    let (forecast, share) = (result.forecast_processor_share?, result.processor_share);
    let measured = share.share?;
    let within = match (share.low, share.high) {
        (Some(low), Some(high)) if (low..=high).contains(&forecast) => {
            format!(", within the measured interval of {low:.3} to {high:.3}")
        }
        (Some(low), Some(high)) => format!(", outside the measured interval of {low:.3} to {high:.3}"),
        _ => String::new(),
    };
    let off = format!("{:+.1}", (forecast / measured - 1.0) * 100.0).replace('-', "−");
    Some(format!(
        "Time with the plan ÷ without: forecast {forecast:.3}, measured {measured:.3}; the forecast is {off} % \
         off{within}."
    ))
}
