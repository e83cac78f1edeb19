//! Arguments of `trace`.

use super::RegionOfInterest;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand, ValueHint};
use pagewalk::capture::export::EXPORTERS;
use pagewalk::capture::import::IMPORTERS;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Trace {
    #[command(subcommand)]
    pub command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Show what a trace holds
    Info {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        /// The trace
        #[arg(value_hint = ValueHint::FilePath)]
        trace: PathBuf,
    },
    /// Check every rule of streams
    Check {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        /// The trace
        #[arg(value_hint = ValueHint::FilePath)]
        trace: PathBuf,
    },
    /// Print references as text, one per line, with events in between
    Dump {
        #[command(flatten)]
        region: RegionOfInterest,
        /// The trace
        #[arg(value_hint = ValueHint::FilePath)]
        trace: PathBuf,
    },
    /// Convert another tool's files to a trace
    Import {
        /// Their format. Default: recognised from their beginnings
        #[arg(long, visible_alias = "from", value_name = "FORMAT", value_parser = formats())]
        format: Option<String>,
        /// The trace to write
        #[arg(short, long, value_name = "T.pwt", value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// The file to read, or the files or folder of one experiment; `-` for standard input
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
        inputs: Vec<PathBuf>,
    },
    /// Convert a trace to another tool's format
    Export {
        /// The format
        #[arg(long, visible_alias = "to", value_name = "FORMAT", value_parser = written_formats())]
        format: String,
        /// The file to write, packed if its name ends in .gz, .zst or .xz. Default, as `-`: standard output
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// The trace
        #[arg(value_hint = ValueHint::FilePath)]
        trace: PathBuf,
    },
}

/// Formats that are written.
fn written_formats() -> PossibleValuesParser {
    EXPORTERS.iter().map(|exporter| PossibleValue::new(exporter.name).help(exporter.about)).into()
}

/// Formats that are read.
fn formats() -> PossibleValuesParser {
    IMPORTERS.iter().map(|importer| PossibleValue::new(importer.name).help(importer.about)).into()
}
