//! Measured costs of a host's translation and kernel: the result and its renderers.
//!
//! [`schema`] is the result; [`render_text`] prints it on a terminal, [`to_json`] writes it as JSON,
//! [`render_html`] as a page with pictures.

mod html;
mod picture;
pub mod schema;

pub use crate::json::to_json;
pub use crate::text::render_probe_text as render_text;
pub use html::render_html;
pub use schema::ProbeResult;

use schema::{PROBE_SCHEMA, TlbLevel};

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// When the text is not JSON, names another schema, or lacks fields of this one.
pub fn from_json(text: &str) -> Result<ProbeResult, crate::ReadError> {
    crate::json::read(text, PROBE_SCHEMA)
}

/// The entries of a level in words: `96`, or `1,722 to 2,435` if the number is uncertain.
pub(crate) fn entries(tlb: &TlbLevel) -> String {
    use crate::numbers::exact;
    let [low, high] = tlb.between.map(exact);
    tlb.entries.map_or(format!("{low} to {high}"), exact)
}

/// Its ways in words.
pub(crate) fn ways(tlb: &TlbLevel) -> String {
    match (tlb.ways, tlb.entries) {
        (None, _) => "–".to_owned(),
        (ways, entries) if ways == entries => "all".to_owned(),
        (Some(ways), _) => ways.to_string(),
    }
}

/// Its replacement policy, in a word.
pub(crate) fn replacement(tlb: &TlbLevel) -> String {
    match &tlb.replacement {
        None => "–".to_owned(),
        Some(found) => found.policy.clone().unwrap_or("undecided".to_owned()),
    }
}

/// How certain that is, or why it is undecided.
pub(crate) fn replacement_basis(tlb: &TlbLevel) -> Option<String> {
    let found = tlb.replacement.as_ref()?;
    if let Some(why) = &found.undecided {
        return Some(format!("replacement undecided: {why}"));
    }
    let percent = |off: f64| format!("{:.0} %", 100.0 * off);
    let next = match (&found.next, found.next_off) {
        (Some(next), Some(off)) => format!("; the next, {next}, by {}", percent(off)),
        _ => String::new(),
    };
    let (policy, ways) = (found.policy.as_ref()?, found.ways?);
    Some(format!("{policy} of {ways} ways is off by {} of the step{next}", percent(found.off?)))
}

/// A time or a rate in words: three digits and its unit.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    let (value, unit) = match unit {
        "ns" if value >= 1e6 => (value / 1e6, "ms"),
        "ns" if value >= 1e4 => (value / 1e3, "µs"),
        unit => (value, unit),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// The host, in one line.
pub(crate) fn where_measured(result: &ProbeResult) -> String {
    let around = &result.surroundings;
    let load = around.load.map_or(String::new(), |load| format!(", load {load:.1} before"));
    let guest = match (around.hypervisor, around.reports_free_pages) {
        (_, true) => " of a virtual machine that gives its free memory back",
        (true, false) => " of a virtual machine",
        (false, false) => "",
    };
    format!(
        "{}, processor {}{guest}, Linux {}, THP {}{load}",
        result.host.cpu, around.cpu, result.host.kernel, result.host.thp
    )
}

#[cfg(test)]
mod tests;
