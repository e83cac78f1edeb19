//! The command line of `layout`.

use super::numbers::{any, part};
use super::{AFTER_THE_PROGRAM, Data, INSTEAD_OF_TEXT, RegionOfInterest, Style};
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
    /// Show which pages evict which in the sets of a TLB, who owns them, and which misses the sets cause
    Analyze(LayoutAnalyze),
    /// Plan where the shared objects of a recorded program should lie
    Plan(LayoutPlan),
    /// Run an unmodified program with its libraries at planned addresses
    Run(LayoutRun),
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(AFTER_THE_PROGRAM)))]
pub struct LayoutRun {
    /// The plan: docs/reference/plan-files.md explains the file
    #[arg(value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Print on standard error where each library lies, when the loader is done and at the end. System calls are slow
    /// until the loader is done
    #[arg(long)]
    pub verify: bool,
    /// Detach from the program when its loader is done, so that a debugger can attach. Programs that it starts then
    /// have their usual layout, and libraries opened later are not checked
    #[arg(long)]
    pub release: bool,
    /// If the plan does not fit, run the program without it; in any case end with its exit code
    #[arg(long)]
    pub or_default: bool,
    /// Give everything that the plan does not place the same addresses in each run
    #[arg(long)]
    pub no_randomize: bool,
    /// Print what would be placed where, whether the files match the plan, and whether this host allows it; run
    /// nothing. Checks CMD if given, else the plan's program
    #[arg(long, conflicts_with_all = ["verify", "or_default"])]
    pub dry_run: bool,
    #[command(flatten)]
    pub data: Data,
    /// The program and its arguments, after `--`
    #[arg(last = true, required_unless_present = "dry_run", value_name = "CMD",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Planning methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Planner {
    /// All objects, by reuses of code and data pages: fewest misses over all machines
    Search,
    /// One object, by evictions in the worst set (Konireddygari 2008, method 1)
    Single,
    /// All objects, by calls between code pages (Konireddygari 2008, method 2)
    Callgraph,
    /// Hot objects side by side, in as few 2 MiB regions as they need
    Pack,
    /// At random, by --seed
    Random,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct LayoutPlan {
    /// Machine to plan for: a name from `pagewalk machines list` or a .toml file; several for a layout that suits all
    /// (`search` only)
    #[arg(short, long, value_name = "MACHINE", default_value = "konireddygari_u512")]
    pub machine: Vec<String>,
    /// Planning method
    #[arg(long, value_enum, default_value_t = Planner::Search)]
    pub planner: Planner,
    /// `search`: random layouts to start from, besides the recorded one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = any::<u64>())]
    pub starts: u64,
    /// `single`: choose the set for which all pages of the object land in sets with few misses, not the set with fewest
    /// misses
    #[arg(long)]
    pub weighed: bool,
    /// `callgraph`: share of the calls to a page that may come from pages of its set
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = part)]
    pub calls: f64,
    /// `callgraph`: weigh sets by calls, not by instructions
    #[arg(long)]
    pub load_calls: bool,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = any::<u64>())]
    pub seed: u64,
    /// Random layouts to compare with, by an estimate
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = any::<u64>())]
    pub random: u64,
    /// Write the plan here
    #[arg(short, long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub region: RegionOfInterest,
    #[command(flatten)]
    pub style: Style,
    /// The trace
    #[arg(value_name = "T.pwt", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(INSTEAD_OF_TEXT)))]
pub struct LayoutAnalyze {
    /// Machine whose last-level TLB for 4K pages is watched, by itself and with LRU replacement: a name from `pagewalk
    /// machines list` or a .toml file
    #[arg(short, long, value_name = "MACHINE", default_value = "konireddygari_u512")]
    pub machine: String,
    /// Watch the machine's array of this name instead
    #[arg(long, value_name = "ARRAY")]
    pub tlb: Option<String>,
    /// Show this set first, and draw it with --dot. Default: the set with most misses
    #[arg(long, value_name = "N", value_parser = any::<usize>())]
    pub set: Option<usize>,
    /// Leave out pages that evicted fewer than N times, or pairs with less than P% of the evictions of both their pages
    #[arg(long, value_name = "N|P%", default_value = "1%")]
    pub least: DrawThreshold,
    /// Place the trace's shared objects where this plan says
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    /// Write the set's graph here, for Graphviz
    #[arg(long, value_name = "FILE.dot", value_hint = ValueHint::FilePath)]
    pub dot: Option<PathBuf>,
    /// Write the calls between pages and functions here, for callgrind_annotate and KCachegrind
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub callgrind: Option<PathBuf>,
    /// Write the result here: a page with every set if the name ends in .html, the data if it ends in .json; may be
    /// given several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    #[command(flatten)]
    pub region: RegionOfInterest,
    #[command(flatten)]
    pub style: Style,
    /// The trace
    #[arg(value_name = "T.pwt", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
}
