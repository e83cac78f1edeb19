//! The command line of `layout`.

use clap::{Args, Subcommand, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Layout {
    #[command(subcommand)]
    pub command: LayoutCommand,
}

#[derive(Debug, Subcommand)]
pub enum LayoutCommand {
    /// Run an unmodified program with each library where a plan wants it
    Run(LayoutRun),
}

#[derive(Debug, Args)]
pub struct LayoutRun {
    /// The plan: docs/layout.md explains the file
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Say on standard error where each library lies, when the loader is done and at the end. System calls are slow
    /// until the loader is done
    #[arg(long)]
    pub verify: bool,
    /// Start the program without the plan if the plan does not fit, and end with its exit code in any case
    #[arg(long)]
    pub or_default: bool,
    /// Give all that the plan does not place the same addresses each time
    #[arg(long)]
    pub no_randomize: bool,
    /// Print JSON on standard output, after what the program printed there
    #[arg(long)]
    pub json: bool,
    /// Write the same JSON here
    #[arg(short, long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Say nothing but what was asked for and errors
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
