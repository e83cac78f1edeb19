//! Results may come from untrusted files: with any numbers, they are drawn or refused.

use crate::fixtures;
use pagewalk_report::schema::RunResult;
use pagewalk_report::{ReportedRun, TextOptions, from_json, render_runs_html, render_text};
use pagewalk_units::Draws;
use serde_json::{Value, json};

/// Random results per run, unless `PAGEWALK_CASES` makes it a long one.
const RESULTS: u64 = 300;
const CHANGES: u64 = 4;

#[test]
fn any_numbers_are_drawn() {
    let results = fixtures::all().map(|(_, result)| result).into_iter().chain([fixtures::together()]);
    let results: Vec<Value> = results.map(|result| serde_json::to_value(result).unwrap()).collect();
    let absurd = [0, 1, 2, 63, 64, u64::from(u32::MAX), 1 << 53, u64::MAX - 1, u64::MAX].map(|n| json!(n));
    let absurd = [&absurd[..], &[json!(0.0), json!(-1.0), json!(1e-300), json!(1e308)]].concat();
    let cases = std::env::var("PAGEWALK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(RESULTS);
    let mut drawn = 0;
    for seed in 0..cases {
        let mut draws = Draws::new(seed);
        let mut result = results[draws.below(results.len() as u64) as usize].clone();
        for _ in 0..CHANGES {
            let mut numbers = Vec::new();
            collect(&mut result, &mut numbers);
            let at = draws.below(numbers.len() as u64) as usize;
            *numbers.swap_remove(at) = absurd[draws.below(absurd.len() as u64) as usize].clone();
        }
        // Values that do not fit are refused.
        let Ok(result) = from_json(&result.to_string()) else { continue };
        drawn += 1;
        draw(&result, seed);
    }
    assert!(drawn > cases / 4, "{drawn} of {cases} fit the schema");
}

fn draw(result: &RunResult, seed: u64) {
    let drawing = std::panic::catch_unwind(|| {
        for verbose in [false, true] {
            render_text(result, &TextOptions { width: 100, color: false, verbose });
        }
        render_runs_html(ReportedRun { file: "a.json", result }, &[]).len()
    });
    let bytes = drawing.unwrap_or_else(|_| panic!("seed {seed}"));
    assert!(bytes < 20 << 20, "seed {seed}: {bytes} bytes");
}

/// All numbers in a value.
fn collect<'a>(value: &'a mut Value, numbers: &mut Vec<&'a mut Value>) {
    match value {
        Value::Number(_) => numbers.push(value),
        Value::Array(items) => items.iter_mut().for_each(|item| collect(item, numbers)),
        Value::Object(fields) => fields.values_mut().for_each(|field| collect(field, numbers)),
        _ => {}
    }
}
