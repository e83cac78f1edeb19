//! The record of forecasts and measurements, one line of JSON each.

use crate::error::{Error, Fault};
use crate::folders;
use pagewalk_report::{Class, classes};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The classes of a record's figures.
const FIGURES: [(Class, &[&str]); 2] = [
    (
        Class::Measured,
        &[
            "pairs",
            "processor_seconds_without",
            "processor_seconds_with",
            "processor_seconds_saved",
            "seconds_saved",
            "processor_share",
            "warmed_mib",
        ],
    ),
    (
        Class::Modelled,
        &[
            "forecast_processor_seconds",
            "forecast_processor_low",
            "forecast_processor_high",
            "forecast_processor_share",
        ],
    ),
];

const NO_RECORD: &str = "--no-record keeps none";

/// `$XDG_STATE_HOME/pagewalk/forecasts.jsonl`, or below `~/.local/state`; none without a home.
fn path() -> Option<PathBuf> {
    folders::state().map(|folder| folder.join("forecasts.jsonl"))
}

/// The record's path, checked to be writable.
///
/// # Errors
/// If it is not.
pub fn place() -> Result<PathBuf, Error> {
    let none = || Error::new(Fault::Failed, "no place for the record: HOME is not set").or(NO_RECORD);
    let path = path().ok_or_else(none)?;
    append_text(&path, "")?;
    Ok(path)
}

/// Appends a line.
///
/// # Errors
/// If it cannot be written.
pub fn append(path: &Path, record: &Value) -> Result<(), Error> {
    append_text(path, &format!("{record}\n"))
}

fn append_text(path: &Path, text: &str) -> Result<(), Error> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())
    };
    write().map_err(|error| {
        Error::new(Fault::Failed, format!("writing {}: {error}", path.display())).or(NO_RECORD)
    })
}

/// The record and the errors of its forecasts, as text or as JSON.
///
/// # Errors
/// If the record cannot be read.
pub fn show(json: bool) -> Result<String, Error> {
    let text = match path().map(fs::read_to_string) {
        None => String::new(),
        Some(Err(error)) if error.kind() == ErrorKind::NotFound => String::new(),
        Some(read) => {
            read.map_err(|error| Error::new(Fault::Failed, format!("reading the record: {error}")))?
        }
    };
    // Skips lines cut short by a full disk or written by a later version.
    let records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if json {
        let document = serde_json::json!({
            "schema": "pagewalk.verify-history/1", "classes": classes(&FIGURES), "records": records,
        });
        return Ok(format!("{document:#}\n"));
    }
    Ok(table(&records))
}

fn table(records: &[Value]) -> String {
    if records.is_empty() {
        return "no forecast was verified yet\n".to_owned();
    }
    let mut out = format!(
        "{:19}  {:>9}  {:>9}  {:>9}  {:>8}  {:>8}  {:4}  program\n",
        "when (UTC)", "without s", "with s", "forecast", "error", "of share", "warm"
    );
    let (mut errors, mut of_shares) = (Vec::new(), Vec::new());
    for record in records {
        let number = |key: &str| record[key].as_f64();
        let seconds =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let off = |forecast: Option<f64>, measured: Option<f64>, all: &mut Vec<f64>| {
            let error =
                measured.zip(forecast).map(|(measured, forecast)| (forecast / measured - 1.0) * 100.0);
            all.extend(error.map(f64::abs));
            error.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1} %"))
        };
        let (with, forecast) = (number("processor_seconds_with"), number("forecast_processor_seconds"));
        let share = record["processor_share"]["share"].as_f64();
        let _ = writeln!(
            out,
            "{:19}  {:>9}  {:>9}  {:>9}  {:>8}  {:>8}  {:4}  {}",
            record["when"].as_str().unwrap_or("-"),
            seconds(number("processor_seconds_without")),
            seconds(with),
            seconds(forecast),
            off(forecast, with, &mut errors),
            off(number("forecast_processor_share"), share, &mut of_shares),
            if number("warmed_mib").is_some() { "yes" } else { "" },
            record["program"].as_str().unwrap_or("-"),
        );
    }
    out += &summed("processor time; error of its forecast", errors);
    out += &summed("error of the forecast share of the time without the plan", of_shares);
    out
}

/// The median and the worst error, if there are any.
fn summed(what: &str, mut errors: Vec<f64>) -> String {
    errors.sort_by(f64::total_cmp);
    let middle = |at: usize| errors.get(at / 2).copied();
    let (below, above) = (middle(errors.len().saturating_sub(1)), middle(errors.len()));
    match (below.zip(above).map(|(a, b)| f64::midpoint(a, b)), errors.last()) {
        (Some(median), Some(worst)) => format!("{what}: median {median:.1} %, worst {worst:.1} %\n"),
        _ => String::new(),
    }
}

/// A time as `2026-11-22T14:02:11`, from seconds since 1970 (Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
pub(super) fn utc(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told() {
        assert_eq!(utc(0), "1970-01-01T00:00:00");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00");
        assert_eq!(utc(1_795_356_131), "2026-11-22T14:02:11");
    }

    #[test]
    fn errors_are_summed_up() {
        let line = |with: f64| {
            serde_json::json!({ "when": "t", "program": "p", "processor_seconds_without": 10.0,
                "processor_seconds_with": with, "forecast_processor_seconds": 8.0 })
        };
        let text = table(&[line(8.0), line(10.0), line(8.4)]);
        assert!(text.contains("median 4.8 %, worst 20.0 %"), "{text}");
        let text = table(&[line(8.0), line(10.0)]);
        assert!(text.contains("median 10.0 %, worst 20.0 %"), "{text}");
        assert!(!text.contains("of the forecast share"), "earlier versions kept none: {text}");
        assert!(table(&[]).contains("no forecast"));
    }

    #[test]
    fn shares_have_errors_of_their_own() {
        let mut line = serde_json::json!({ "when": "t", "program": "p", "processor_seconds_with": 10.0,
            "forecast_processor_seconds": 8.0, "processor_share": { "share": 0.8 }, "forecast_processor_share": 0.82 });
        let text = table(std::slice::from_ref(&line));
        assert!(text.contains("-20.0 %") && text.contains("+2.5 %") && !text.contains("yes"), "{text}");
        assert!(text.contains("share of the time without the plan: median 2.5 %, worst 2.5 %"), "{text}");
        line["warmed_mib"] = 64.0.into();
        assert!(table(&[line]).contains("yes"));
    }
}
