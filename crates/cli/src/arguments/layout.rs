//! The command line of `layout`.

use super::numbers::part;
use super::{AFTER_THE_PROGRAM, Data, INSTEAD_OF_TEXT, Region, Style};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use pagewalk::layout::graph::DrawThreshold;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Layout {
    #[command(subcommand)]
    pub command: LayoutCommand,
}

#[derive(Debug, Subcommand)]
pub enum LayoutCommand {
    /// Say who fights for the sets of a TLB: which pages evict which, whose they are, and what of it is the sets' fault
    Analyze(LayoutAnalyze),
    /// Plan where the shared objects of a recorded program should lie
    Plan(LayoutPlan),
    /// Run an unmodified program with each library where a plan wants it
    Run(LayoutRun),
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(AFTER_THE_PROGRAM)))]
pub struct LayoutRun {
    /// The plan: docs/reference/plan-files.md explains the file
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Say on standard error where each library lies, when the loader is done and at the end. System calls are slow
    /// until the loader is done
    #[arg(long)]
    pub verify: bool,
    /// Let go of the program when its loader is done, so that a debugger can attach. Programs that it starts then have
    /// their usual layout, and where libraries lie that it opens later is not looked at
    #[arg(long)]
    pub release: bool,
    /// Start the program without the plan if the plan does not fit, and end with its exit code in any case
    #[arg(long)]
    pub or_default: bool,
    /// Give all that the plan does not place the same addresses each time
    #[arg(long)]
    pub no_randomize: bool,
    /// Say what would be placed where, whether the files are those of the plan, and whether this host lets it; run
    /// nothing. CMD is looked at if it is given, else the plan's program
    #[arg(long, conflicts_with_all = ["verify", "or_default"])]
    pub dry_run: bool,
    #[command(flatten)]
    pub data: Data,
    /// The program and its arguments, after `--`
    #[arg(last = true, required_unless_present = "dry_run", value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Who plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Planner {
    /// All objects, by the reuses of pages of code and data: the fewest misses on all machines
    Search,
    /// One object, by who evicts whom in the worst set (Konireddygari 2008, method 1)
    Single,
    /// All objects, by which page of code calls which (Konireddygari 2008, method 2)
    Callgraph,
    /// Hot objects side by side, in as few 2 MiB regions as they need
    Pack,
    /// At random, by --seed
    Random,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct LayoutPlan {
    /// Machine to plan for: a name from `pagewalk machines list` or a .toml file; several for a layout that is good on
    /// all (`search` alone)
    #[arg(short, long, value_name = "MACHINE", default_value = "konireddygari_u512")]
    pub machine: Vec<String>,
    /// Who plans
    #[arg(long, value_enum, default_value_t = Planner::Search)]
    pub planner: Planner,
    /// Random layouts that `search` starts from, beside the recorded one
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub starts: u64,
    /// `single`: take the set for which all pages of the object come to sets with few misses, not the one with the
    /// fewest
    #[arg(long)]
    pub weighed: bool,
    /// `callgraph`: share of the calls to a page that may come from pages of its set
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = part)]
    pub calls: f64,
    /// `callgraph`: let calls load sets, not instructions
    #[arg(long)]
    pub load_calls: bool,
    /// Of what is drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Random layouts to compare with, by an estimate
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub random: u64,
    /// Write the plan here
    #[arg(short, long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub region: Region,
    #[command(flatten)]
    pub style: Style,
    /// The trace
    #[arg(value_name = "T.pwt", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct LayoutAnalyze {
    /// Machine whose last-level TLB for 4K pages is watched, alone and with LRU replacement: a name from `pagewalk
    /// machines list` or a .toml file
    #[arg(short, long, value_name = "MACHINE", default_value = "konireddygari_u512")]
    pub machine: String,
    /// Watch the machine's array of this name instead
    #[arg(long, value_name = "ARRAY")]
    pub tlb: Option<String>,
    /// Tell this set first, and draw it with --dot. Default: the one with most misses
    #[arg(long, value_name = "N")]
    pub set: Option<usize>,
    /// Leave out what is less: pages that evicted fewer than N times, or pairs that are less than P% of the evictions
    /// of both their pages
    #[arg(long, value_name = "N|P%", default_value = "1%")]
    pub least: DrawThreshold,
    /// As if the trace's shared objects lay where this plan says
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    /// Write the graph of the set for Graphviz here
    #[arg(long, value_name = "FILE.dot", value_hint = ValueHint::FilePath)]
    pub dot: Option<PathBuf>,
    /// Write the calls between pages and functions for callgrind_annotate and KCachegrind here
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub callgrind: Option<PathBuf>,
    /// Write the result here: to a name that ends in .html a page with every set, in .json the data; may be given
    /// several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    #[command(flatten)]
    pub region: Region,
    #[command(flatten)]
    pub style: Style,
    /// The trace
    #[arg(value_name = "T.pwt", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
}
