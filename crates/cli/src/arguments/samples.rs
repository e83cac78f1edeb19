//! Arguments of `samples`.

use super::{INSTEAD_OF_TEXT, Style};
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct Samples {
    /// A file that `perf record -d` or `perf mem record` wrote, or the text of `perf script`; `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Compare with this trace of the same program: shares of mappings, and ranks of mappings and pages
    #[arg(long, value_name = "T.pwt", value_hint = ValueHint::FilePath)]
    pub with: Option<PathBuf>,
    /// Write the result here, as JSON
    #[arg(short, long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub style: Style,
}
