//! The result of `trap` as data.

use super::Outcome;
use pagewalk_live::tracing::End;
use pagewalk_live::trap::{Began, ImageReport, Kind};
use pagewalk_report::{Class, classes};
use serde_json::{Value, json};

/// What figures are.
const FIGURES: [(Class, &[&str]); 2] = [
    (
        Class::Measured,
        &[
            "first_touches",
            "forgotten",
            "refills",
            "run_seconds",
            "native_seconds",
            "slowdown",
            "microseconds_per_miss",
            "agent_microseconds_per_fault",
            "taken_over_bytes",
            "touched_pages",
            "seen_page_share",
            "memory",
            "mappings",
            "checked_decisions",
        ],
    ),
    (Class::Modelled, &["misses", "evictions", "misses_per_second"]),
];

/// The whole result.
pub fn document(outcome: &Outcome) -> Value {
    let geometry = outcome.array.geometry;
    let command: Vec<_> = outcome.command.iter().map(|word| word.to_string_lossy()).collect();
    let end = match outcome.run.end {
        End::Exit(status) => json!({ "exit": status }),
        End::Signal(signal) => json!({ "signal": signal }),
    };
    json!({
        "schema": "pagewalk.trap/1",
        "command": command,
        "machine": outcome.machine,
        "array": {
            "name": outcome.array.name,
            "entries": geometry.entries(),
            "ways": geometry.ways(),
            "replacement": outcome.array.replacement.name(),
            "seed": outcome.seed(),
            "index": outcome.array.index.to_string(),
            "page_bytes": 4096,
        },
        "references": "data references to private writable memory, of the program and of its system calls",
        "end": end,
        "misses": outcome.misses(),
        "run_seconds": outcome.run_seconds,
        "native_seconds": outcome.native_seconds,
        "slowdown": outcome.slowdown(),
        "microseconds_per_miss": outcome.microseconds_per_miss(),
        "classes": classes(&FIGURES),
        "images": outcome.run.images.iter().map(image).collect::<Vec<_>>(),
    })
}

fn image(image: &ImageReport) -> Value {
    let memory = Kind::ALL.map(|kind| {
        let of_kind = image.mappings.iter().filter(|mapping| mapping.kind == kind);
        json!({
            "kind": word(kind),
            "mappings": of_kind.clone().count(),
            "bytes": of_kind.map(|mapping| mapping.bytes).sum::<u64>(),
            "pages": image.pages(kind),
        })
    });
    let mappings: Vec<Value> = image
        .mappings
        .iter()
        .map(|mapping| {
            json!({
                "kind": word(mapping.kind),
                "start": format!("{:#x}", mapping.start),
                "bytes": mapping.bytes,
                "resident_pages": mapping.resident_pages,
                "name": mapping.name,
            })
        })
        .collect();
    json!({
        "number": image.number,
        "process": image.process,
        "program": image.program,
        "began": match image.began { Began::Exec => "exec", Began::Fork => "fork" },
        "not_followed": image.not_followed,
        "run_seconds": image.run_seconds,
        "misses": image.misses,
        "evictions": image.evictions,
        "first_touches": image.first_touches,
        "forgotten": image.forgotten,
        "refills": image.refills,
        "misses_per_second": image.misses_per_second(),
        "agent_microseconds_per_fault": image.agent_microseconds(),
        "taken_over_bytes": image.taken_over_bytes,
        "touched_pages": image.touched_pages,
        "seen_page_share": image.seen_page_share(),
        "memory": memory,
        "mappings": mappings,
        "left_alone": image.left_alone,
        "checked_decisions": image.checked.as_ref().map(|checked| checked.decisions),
        "first_difference": image.checked.as_ref().and_then(|checked| checked.first_difference.clone()),
    })
}

fn word(kind: Kind) -> String {
    kind.name().replace([' ', '-'], "_")
}
