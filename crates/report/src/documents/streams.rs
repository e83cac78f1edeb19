//! The results of `record` and `trace check`.

use schemars::JsonSchema;
use serde::Serialize;

/// Schema of `record`.
pub const RECORD_SCHEMA: &str = "pagewalk.record/1";
/// Schema of `trace check`.
pub const TRACE_CHECK_SCHEMA: &str = "pagewalk.trace-check/1";

/// Recorded files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordResult {
    /// [`RECORD_SCHEMA`].
    pub schema: &'static str,
    /// One for each image of a process.
    pub files: Vec<RecordedFile>,
}

/// A recorded file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordedFile {
    /// Its path.
    pub file: String,
    /// Its program.
    pub program: String,
    /// Data references; null if the file could not be written.
    pub references_data: Option<u64>,
    /// Executions of blocks; null if the file could not be written.
    pub block_executions: Option<u64>,
    /// Bytes of the file; null if it could not be written.
    pub bytes: Option<u64>,
    /// Parts of the stream that were lost.
    pub losses: Vec<String>,
    /// Why the file could not be written; null if it was.
    pub error: Option<String>,
}

/// Whether a trace obeys the rules of streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TraceCheckResult {
    /// [`TRACE_CHECK_SCHEMA`].
    pub schema: &'static str,
    /// The file.
    pub trace: String,
    /// Rules that it breaks, not counting warnings.
    pub rules_broken: usize,
    /// Broken rules and warnings, in words.
    pub findings: Vec<String>,
    /// Whether it was read to its end.
    pub whole: bool,
    /// What it lacks, in words.
    pub losses: Vec<String>,
}
