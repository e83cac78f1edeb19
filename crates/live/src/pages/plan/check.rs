//! Whether a plan contradicts itself.

use super::{Forecast, Gain, LIMIT, PAGE_BYTES, Part, Plan, PlanError, RANGES_MAX, Range, What};
use pagewalk_layout::plan::is_build_id;

pub fn check(plan: &Plan) -> Result<(), PlanError> {
    if plan.ranges.len() > RANGES_MAX {
        return Err(PlanError::TooMany(plan.ranges.len()));
    }
    if let Some(build_id) = &plan.program.build_id
        && !is_build_id(build_id)
    {
        return Err(PlanError::BuildId(build_id.clone()));
    }
    plan.forecast.iter().try_for_each(forecast)?;
    plan.ranges.iter().zip(1..).try_for_each(|(found, number)| range(found, number))?;
    overlaps(&plan.ranges)
}

fn forecast(forecast: &Forecast) -> Result<(), PlanError> {
    let Forecast { seconds_now, seconds, low, high, memory_mib } = *forecast;
    let figures = [
        ("seconds_now", seconds_now),
        ("seconds", seconds),
        ("low", low),
        ("high", high),
        ("memory_mib", memory_mib),
    ];
    let fault = |key, value, fault| PlanError::Figure { key, value, of: "the forecast".to_owned(), fault };
    for (key, value) in figures {
        if !(value.is_finite() && value >= 0.0) {
            return Err(fault(key, value, "not a number from 0 up"));
        }
    }
    if seconds_now == 0.0 {
        return Err(fault("seconds_now", seconds_now, "no time, of which nothing can be saved"));
    }
    if low > seconds {
        return Err(fault("low", low, "more than seconds"));
    }
    if high < seconds {
        return Err(fault("high", high, "less than seconds"));
    }
    Ok(())
}

fn range(range: &Range, number: usize) -> Result<(), PlanError> {
    gain(&range.gain, number)?;
    let Part { from, to } = range.what.part();
    let end = match &range.what {
        What::Heap(_) | What::File { .. } => LIMIT,
        What::Anonymous { bytes, .. } => *bytes,
    };
    let aligned = |key, value: u64| {
        if value.is_multiple_of(PAGE_BYTES) {
            Ok(())
        } else {
            Err(PlanError::Unaligned { key, value, range: number })
        }
    };
    match &range.what {
        What::File { file, offset, bytes } => {
            if !file.starts_with('/') {
                return Err(PlanError::Relative { file: file.clone(), range: number });
            }
            aligned("offset", *offset)?;
            aligned("bytes", *bytes)?;
        }
        What::Anonymous { bytes, nth, .. } => {
            aligned("bytes", *bytes)?;
            if *nth == 0 {
                return Err(PlanError::Zeroth { range: number });
            }
        }
        What::Heap(_) => {}
    }
    aligned("from", from)?;
    aligned("to", to)?;
    if from >= to || to > end || end > LIMIT {
        return Err(PlanError::Part { from, to, end: end.min(LIMIT), range: number });
    }
    Ok(())
}

fn gain(gain: &Gain, number: usize) -> Result<(), PlanError> {
    let Gain { seconds_saved, low, high, memory_mib } = *gain;
    let figures =
        [("seconds_saved", seconds_saved), ("low", low), ("high", high), ("memory_mib", memory_mib)];
    let fault = |key, value, fault| PlanError::Figure { key, value, of: format!("range {number}"), fault };
    for (key, value) in figures {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(fault(key, value, "not a number"));
        }
    }
    match (low, high) {
        (Some(low), Some(high)) if low > high => Err(fault("low", low, "more than high")),
        _ => Ok(()),
    }
}

/// The parts of one heap, one mapping or one file must not share bytes.
fn overlaps(ranges: &[Range]) -> Result<(), PlanError> {
    let key = |what: &What| match what {
        What::Heap(_) => (0, 0, 0, String::new()),
        What::Anonymous { bytes, nth, .. } => (1, *bytes, *nth, String::new()),
        What::File { file, .. } => (2, 0, 0, file.clone()),
    };
    let numbered = ranges.iter().zip(1..);
    let mut sorted: Vec<_> =
        numbered.map(|(range, number)| (key(&range.what), range.what.part(), number)).collect();
    sorted.sort_by(|a, b| (&a.0, a.1.from).cmp(&(&b.0, b.1.from)));
    // No part is empty, so of those that overlap two neighbours do.
    for [(key, part, first), (next_key, next, second)] in sorted.array_windows() {
        if key == next_key && part.to > next.from {
            let what = ranges[second - 1].what.to_string();
            return Err(PlanError::Overlap { first: *first, second: *second, what });
        }
    }
    Ok(())
}
