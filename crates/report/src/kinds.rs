//! The list of kinds of results. Each kind's JSON Schema comes from its type.

use crate::conflicts::schema::{CONFLICTS_SCHEMA, ConflictsResult};
use crate::contiguity::schema::{CONTIGUITY_SCHEMA, ContiguityResult};
use crate::documents::doctor::{DOCTOR_SCHEMA, DoctorResult};
use crate::documents::layout_run::{LAYOUT_RUN_SCHEMA, LayoutRunResult};
use crate::documents::library::{
    MACHINE_SCHEMA, MACHINES_CHECK_SCHEMA, MACHINES_SCHEMA, MachineDocument, MachinesCheckResult,
    MachinesResult,
};
use crate::documents::plans::{
    APPLY_SCHEMA, ApplyResult, UNDO_SCHEMA, UndoResult, VERIFY_SCHEMA, VerifyResult,
};
use crate::documents::process::{ADVICE_PROCESS_SCHEMA, AdviceProcessResult, PROMOTE_SCHEMA, PromoteResult};
use crate::documents::samples::{SAMPLES_SCHEMA, SamplesResult};
use crate::documents::streams::{RECORD_SCHEMA, RecordResult, TRACE_CHECK_SCHEMA, TraceCheckResult};
use crate::documents::study::{SWEEP_STATUS_SCHEMA, SweepStatusResult};
use crate::documents::trap::{TRAP_SCHEMA, TrapResult};
use crate::huge_pages::schema::{ADVICE_SCHEMA, AdviceResult};
use crate::layout_plan::schema::{LAYOUT_PLAN_SCHEMA, LayoutPlanResult};
use crate::probe::schema::{PROBE_SCHEMA, ProbeResult};
use crate::schema::{RESULT_SCHEMA, RunResult};
use crate::sweep::schema::{SWEEP_SCHEMA, SweepResult};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// A kind of result.
pub struct ResultKind {
    /// The value of the key `schema`: `pagewalk.result/2`.
    pub schema: &'static str,
    /// The command that writes such results, and their meaning.
    pub about: &'static str,
    make: fn() -> Value,
}

const fn kind<T: JsonSchema>(schema: &'static str, about: &'static str) -> ResultKind {
    ResultKind { schema, about, make: made::<T> }
}

/// All kinds, in the order of their names.
pub static KINDS: &[ResultKind] = &[
    kind::<AdviceResult>(ADVICE_SCHEMA, "advise: what huge pages would save a program"),
    kind::<AdviceProcessResult>(ADVICE_PROCESS_SCHEMA, "advise --pid: the same of a running process"),
    kind::<ApplyResult>(APPLY_SCHEMA, "apply: the outcome of applying a plan"),
    kind::<ConflictsResult>(CONFLICTS_SCHEMA, "layout analyze: conflicts in a TLB's sets"),
    kind::<ContiguityResult>(
        CONTIGUITY_SCHEMA,
        "contiguity: TLB entries that designs would need for a process's memory",
    ),
    kind::<DoctorResult>(DOCTOR_SCHEMA, "doctor: what this host can do"),
    kind::<LayoutPlanResult>(LAYOUT_PLAN_SCHEMA, "layout plan: where libraries should lie"),
    kind::<LayoutRunResult>(
        LAYOUT_RUN_SCHEMA,
        "layout run: a run of a program with its libraries at planned addresses",
    ),
    kind::<MachineDocument>(MACHINE_SCHEMA, "machines show: one machine"),
    kind::<MachinesResult>(MACHINES_SCHEMA, "machines list: the library"),
    kind::<MachinesCheckResult>(MACHINES_CHECK_SCHEMA, "machines check: whether machine files are valid"),
    kind::<ProbeResult>(PROBE_SCHEMA, "probe: what translation costs on this host"),
    kind::<PromoteResult>(PROMOTE_SCHEMA, "promote: the outcome of promoting a running process"),
    kind::<RecordResult>(RECORD_SCHEMA, "record: the recorded files"),
    kind::<RunResult>(RESULT_SCHEMA, "profile, simulate: counts by machine, and what causes walks"),
    kind::<SamplesResult>(SAMPLES_SCHEMA, "samples: samples of perf by mapping, function and outcome"),
    kind::<SweepResult>(SWEEP_SCHEMA, "sweep: results of a study"),
    kind::<SweepStatusResult>(SWEEP_STATUS_SCHEMA, "sweep --status: how far a study is, and who works on it"),
    kind::<TraceCheckResult>(TRACE_CHECK_SCHEMA, "trace check: whether a trace obeys the rules of streams"),
    kind::<TrapResult>(TRAP_SCHEMA, "trap: a TLB's misses counted by page faults"),
    kind::<UndoResult>(UNDO_SCHEMA, "undo: ranges returned to small pages"),
    kind::<VerifyResult>(VERIFY_SCHEMA, "verify: what a plan saves, measured"),
];

impl ResultKind {
    /// The schema's name without `pagewalk.` and the version: `result`.
    pub fn name(&self) -> &'static str {
        let name = self.schema.strip_prefix("pagewalk.").unwrap_or(self.schema);
        name.split_once('/').map_or(name, |(name, _)| name)
    }

    /// The kind of this name: `result`, `pagewalk.result` or `pagewalk.result/2`.
    pub fn named(name: &str) -> Option<&'static ResultKind> {
        KINDS.iter().find(|kind| {
            let short = name.strip_prefix("pagewalk.").unwrap_or(name);
            kind.schema == name || kind.name() == short
        })
    }

    /// Its JSON Schema (draft 2020-12), for what this version writes.
    pub fn json_schema(&self) -> Value {
        let mut schema = (self.make)();
        if let Some(root) = schema.as_object_mut() {
            root.insert("title".to_owned(), self.schema.into());
            name_schema(root, self.schema);
            let defined = root.get_mut("$defs").and_then(Value::as_object_mut);
            for of in defined.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
                name_schema(of, self.schema);
            }
        }
        schema
    }
}

/// Makes `name` the only value of an object's key `schema`, if it has one.
fn name_schema(object: &mut Map<String, Value>, name: &str) {
    let key = object.get_mut("properties").and_then(|properties| properties.get_mut("schema"));
    if let Some(key) = key.and_then(Value::as_object_mut) {
        key.insert("const".to_owned(), json!(name));
    }
}

fn made<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_of_their_own_and_schemas_that_name_them() {
        assert!(KINDS.is_sorted_by_key(|kind| kind.name()));
        for kind in KINDS {
            assert_eq!(ResultKind::named(kind.schema).unwrap().schema, kind.schema);
            assert_eq!(ResultKind::named(kind.name()).unwrap().schema, kind.schema);
            let schema = kind.json_schema();
            assert!(jsonschema::validator_for(&schema).is_ok(), "{schema:#}");
            assert!(schema.to_string().contains(&format!("\"const\":\"{}\"", kind.schema)), "{schema:#}");
        }
        assert!(ResultKind::named("nonesuch").is_none());
    }
}
