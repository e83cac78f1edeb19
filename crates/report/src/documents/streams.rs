//! What `record` and `trace check` tell.

use schemars::JsonSchema;
use serde::Serialize;

/// Schema of what `record` writes.
pub const RECORD_SCHEMA: &str = "pagewalk.record/1";
/// Schema of what `trace check` writes.
pub const TRACE_CHECK_SCHEMA: &str = "pagewalk.trace-check/1";

/// Files that were recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordResult {
    /// [`RECORD_SCHEMA`].
    pub schema: &'static str,
    /// One for each image of a process.
    pub files: Vec<Recorded>,
}

/// A file that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recorded {
    /// Its path.
    pub file: String,
    /// The program in it.
    pub program: String,
    /// Data references; null where the file could not be written.
    pub references_data: Option<u64>,
    /// Executions of blocks; null likewise.
    pub block_executions: Option<u64>,
    /// Bytes of the file; null likewise.
    pub bytes: Option<u64>,
    /// What was lost of the stream, in words.
    pub losses: Vec<String>,
    /// Why it could not be written; null if it was.
    pub error: Option<String>,
}

/// Whether a trace keeps the rules of streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TraceCheckResult {
    /// [`TRACE_CHECK_SCHEMA`].
    pub schema: &'static str,
    /// The file.
    pub trace: String,
    /// Rules that it breaks; warnings are none.
    pub rules_broken: usize,
    /// What breaks rules, and warnings, in words.
    pub findings: Vec<String>,
    /// Whether it could be read to its end.
    pub whole: bool,
    /// What is missing, in words.
    pub losses: Vec<String>,
}
