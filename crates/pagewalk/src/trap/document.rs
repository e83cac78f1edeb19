//! The result of `trap` as data.

use super::TrapOutcome;
use crate::native::end;
use pagewalk_live::trap::{ImageOrigin, ImageReport, MappingReport, MappingUse};
use pagewalk_report::documents::trap::{
    TRAP_SCHEMA, TrapArray, TrapImage, TrapMapping, TrapMemory, TrapResult,
};
use pagewalk_report::{Class, classes};

/// The classes of figures.
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
pub fn build(outcome: &TrapOutcome) -> TrapResult {
    let geometry = outcome.array.geometry;
    TrapResult {
        schema: TRAP_SCHEMA,
        command: outcome.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        machine: outcome.machine.clone(),
        array: TrapArray {
            name: outcome.array.name.to_string(),
            entries: geometry.entries(),
            ways: geometry.ways(),
            replacement: outcome.array.replacement.name(),
            seed: outcome.seed(),
            index: outcome.array.index.to_string(),
            page_bytes: 4096,
        },
        references: "data references to private writable memory, of the program and of its system calls",
        end: end(outcome.run.end),
        misses: outcome.misses(),
        run_seconds: outcome.run_seconds,
        native_seconds: outcome.native_seconds,
        slowdown: outcome.slowdown(),
        microseconds_per_miss: outcome.microseconds_per_miss(),
        classes: classes(&FIGURES),
        images: outcome.run.images.iter().map(image).collect(),
    }
}

fn image(image: &ImageReport) -> TrapImage {
    TrapImage {
        number: image.number,
        process: image.process,
        program: image.program.clone(),
        began: match image.began {
            ImageOrigin::Exec => "exec",
            ImageOrigin::Fork => "fork",
        },
        not_followed: image.not_followed.clone(),
        run_seconds: image.run_seconds,
        misses: image.misses,
        evictions: image.evictions,
        first_touches: image.first_touches,
        forgotten: image.forgotten,
        refills: image.refills,
        misses_per_second: image.misses_per_second(),
        agent_microseconds_per_fault: image.agent_microseconds(),
        taken_over_bytes: image.taken_over_bytes,
        touched_pages: image.touched_pages,
        seen_page_share: image.seen_page_share(),
        memory: MappingUse::ALL.into_iter().map(|kind| memory(image, kind)).collect(),
        mappings: image.mappings.iter().map(mapping).collect(),
        left_alone: image.left_alone.clone(),
        checked_decisions: image.checked.as_ref().map(|checked| checked.decisions),
        first_difference: image.checked.as_ref().and_then(|checked| checked.first_difference.clone()),
    }
}

fn memory(image: &ImageReport, kind: MappingUse) -> TrapMemory {
    let of_kind = image.mappings.iter().filter(|mapping| mapping.kind == kind);
    TrapMemory {
        kind: word(kind),
        mappings: of_kind.clone().count(),
        bytes: of_kind.map(|mapping| mapping.bytes).sum(),
        pages: image.pages(kind),
    }
}

fn mapping(mapping: &MappingReport) -> TrapMapping {
    TrapMapping {
        kind: word(mapping.kind),
        start: format!("{:#x}", mapping.start),
        bytes: mapping.bytes,
        resident_pages: mapping.resident_pages,
        name: mapping.name.clone(),
    }
}

fn word(kind: MappingUse) -> String {
    kind.name().replace([' ', '-'], "_")
}
