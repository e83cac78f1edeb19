//! Arguments of `contiguity`.

use super::Style;
use super::numbers::process;
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Help of `--verbose` for `contiguity`.
const CONTIGUITY_VERBOSE: &str = "Print every mapping";

/// The forms of `contiguity`.
const CONTIGUITY_USAGE: &str = "pagewalk contiguity [OPTIONS] --pid <PID>
       pagewalk contiguity [OPTIONS] -- <CMD>...";

#[derive(Debug, Args)]
#[command(override_usage = CONTIGUITY_USAGE)]
#[command(mut_arg("verbose", |verbose| verbose.help(CONTIGUITY_VERBOSE)))]
pub struct Contiguity {
    /// The process to read
    #[arg(short, long, value_name = "PID", required_unless_present = "command",
          value_parser = process)]
    pub pid: Option<i32>,
    /// Write the result here: a page with pictures if the name ends in .html, the picture of run lengths in .svg, the
    /// data in .json; may be given several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    /// Also show how its frames spread over the colors of this host's private second-level cache
    #[arg(long)]
    pub colors: bool,
    /// Take the private [[cache]] of level 2 of this machine instead: a name from `pagewalk machines list` or a .toml
    /// file
    #[arg(short, long, value_name = "MACHINE", requires = "colors")]
    pub machine: Option<String>,
    /// Also write which frame each page has, for kernels with `placement.policy=listed`; frame numbers need root
    #[arg(long, value_name = "FILE", conflicts_with = "command", value_hint = ValueHint::FilePath)]
    pub frames: Option<PathBuf>,
    #[command(flatten)]
    pub style: Style,
    /// Or a program to run, after `--`: it is read as it grows and at its exit; the reading with most memory counts
    #[arg(last = true, value_name = "CMD", conflicts_with = "pid",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
