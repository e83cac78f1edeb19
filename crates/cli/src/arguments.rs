//! The command line.

mod advise;
mod contiguity;
mod groups;
mod layout;
mod line;
mod numbers;
mod plans;
mod probe;
mod promote;
mod report;
mod samples;
mod trace;

pub use advise::Advise;
pub use contiguity::Contiguity;
pub use layout::{Layout, LayoutAnalyze, LayoutCommand, LayoutPlan, LayoutRun, Planner};
pub use line::{Request, command_line, read};
pub use plans::{Apply, Undo, Verify};
pub use probe::Probe;
pub use promote::{Promote, SamplerChoice};
pub use report::Report;
pub use samples::Samples;
pub use trace::{Trace, TraceCommand};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use pagewalk::capture::WindowSpec;
use pagewalk::engine::Noise;
use pagewalk::mm::{AreaRules, ThpMode};
use pagewalk::study::Place;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Widest help, in columns.
const WIDEST: usize = 100;

const AFTER_HELP: &str = "Exit codes: 0 done, 1 failed, 2 usage, 3 bad input file, 4 this host cannot, \
5 a plan did not take effect. `profile`, `record`, `simulate -- CMD`, `trap`, `contiguity -- CMD`, `layout run` and \
`apply` end with the program's own exit code when they did their work.";

/// See where a program's address translation costs time, and what would change it.
#[derive(Debug, Parser)]
#[command(name = "pagewalk", version, after_help = AFTER_HELP, max_term_width = WIDEST)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program, simulate its address translation while it runs, and show what costs time and what would help
    Profile(Profile),
    /// Run a program and keep its reference stream in a .pwt file
    Record(Record),
    /// Simulate machines over recorded streams, or over a running program
    Simulate(Simulate),
    /// Run a study: many machines, families of TLBs and miss-ratio curves over many streams
    Sweep(Sweep),
    /// Run a program at its own speed and count a TLB's misses by page faults
    Trap(Trap),
    /// Say how many entries TLBs of several designs need for a live process's memory
    Contiguity(Contiguity),
    /// Show what samples of perf say of translation, by mapping and function, and next to a trace
    Samples(Samples),
    /// Show which pages compete for a TLB's sets, and run programs with their libraries at planned addresses
    Layout(Layout),
    /// Measure this host's TLBs, walks, caches and kernel costs by timing, and write a machine file
    Probe(Probe),
    /// Forecast, range by range, what a program gains from huge pages, and write a plan
    Advise(Advise),
    /// Apply a plan to a new or a running process: ranges on huge pages, libraries at their places
    Apply(Apply),
    /// Measure what a plan saves, next to its forecast, and say for each range whether it took effect, or why not
    Verify(Verify),
    /// Return the planned ranges of a running process to small pages
    Undo(Undo),
    /// Put a running process's memory on huge pages where TLB misses already cost a share of the promotion
    Promote(Promote),
    /// Inspect, check and convert traces
    Trace(Trace),
    /// List, show and check machines
    Machines(Machines),
    /// Make an HTML report from a saved result
    Report(Report),
    /// List the kinds of results, their JSON Schemas, and the reference of metrics and policies
    Schema(Schema),
    /// Show what this host supports, and how to enable the rest
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page
    Man(Man),
}

/// What to print, and how much.
#[derive(Clone, Copy, Debug, Args)]
pub struct Style {
    /// Print JSON instead of text, on standard output (after the program's own output; -o FILE.json keeps them apart)
    #[arg(long)]
    pub json: bool,
    /// Print nothing but the results
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print longer tables
    #[arg(short, long)]
    pub verbose: bool,
}

impl From<Style> for Noise {
    fn from(style: Style) -> Noise {
        match (style.quiet, style.verbose) {
            (true, _) => Noise::Quiet,
            (_, true) => Noise::Verbose,
            _ => Noise::Usual,
        }
    }
}

/// Help of `--json` for commands that run a program.
const AFTER_THE_PROGRAM: &str = "Print JSON on standard output, after what the program printed there";
/// Help of `--json` where no program prints.
const INSTEAD_OF_TEXT: &str = "Print JSON instead of text, on standard output";

/// Output options of commands that act on programs.
#[derive(Clone, Debug, Args)]
pub struct Data {
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Write the same JSON here
    #[arg(short, long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print only the results and errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// The region of interest.
#[derive(Clone, Debug, Default, Args)]
pub struct RegionOfInterest {
    /// Begin at the program's first marker with this number (PAGEWALK_MARK of pagewalk.h sets one)
    #[arg(long, value_name = "ID", value_parser = numbers::any::<u64>())]
    pub from_marker: Option<u64>,
    /// End at the next marker with this number
    #[arg(long, value_name = "ID", value_parser = numbers::any::<u64>())]
    pub to_marker: Option<u64>,
    /// Skip the first N instructions (of the region, if markers choose one)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = numbers::any::<u64>())]
    pub skip: u64,
    /// End after N instructions, such as 2000000, 2e6 or 2M
    #[arg(long, value_name = "N", value_parser = numbers::count::<u64>(1..=u64::MAX))]
    pub max_instructions: Option<u64>,
}

impl From<RegionOfInterest> for WindowSpec {
    fn from(region: RegionOfInterest) -> WindowSpec {
        let RegionOfInterest { from_marker, to_marker, skip, max_instructions } = region;
        WindowSpec { from_marker, to_marker, skip, max_instructions }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Thp {
    Always,
    Madvise,
    Never,
}

impl From<Thp> for ThpMode {
    fn from(given: Thp) -> ThpMode {
        match given {
            Thp::Always => ThpMode::Always,
            Thp::Madvise => ThpMode::Madvise,
            Thp::Never => ThpMode::Never,
        }
    }
}

/// Which machines and which kernel.
#[derive(Clone, Debug, Args)]
pub struct Model {
    /// Machine to simulate: a name from `pagewalk machines list`, a .toml file, or `host`: the machine of `pagewalk
    /// probe --save`, else the library's machine of this CPU; `NAME+caches` simulates its caches of memory too; may be
    /// given several times. Default: the host's CPU if the library has it, else golden_cove
    #[arg(short, long = "machine", value_name = "MACHINE")]
    pub machines: Vec<String>,
    /// Transparent huge page mode of the baseline. Default: the recording host's
    #[arg(long, value_enum)]
    pub thp: Option<Thp>,
}

#[derive(Debug, Args)]
pub struct Profile {
    #[command(flatten)]
    pub model: Model,
    /// Write the result here: the report if the name ends in .html, the data if it ends in .json; may be given several
    /// times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    #[command(flatten)]
    pub region: RegionOfInterest,
    #[command(flatten)]
    pub style: Style,
    /// Place each shared object where this plan says, as `layout run` does, under the engine. Everything else keeps its
    /// address
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    /// Most threads of a process at one time. Default: the kernel's limit, up to 32,768
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    pub max_threads: Option<u32>,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// What a recording keeps of data addresses.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum GrainChoice {
    /// Every bit
    #[default]
    Byte,
    /// Only the 4 KiB page
    Page,
}

#[derive(Debug, Args)]
pub struct Record {
    /// The trace file. If the program starts others, their traces get this name with a number, in order of start
    #[arg(short, long, value_name = "T.pwt", default_value = "pagewalk.pwt", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// What to keep of data addresses. Pages are all that TLBs see, and make smaller files; machines with caches need
    /// bytes
    #[arg(long, value_enum, default_value_t)]
    pub grain: GrainChoice,
    #[command(flatten)]
    pub region: RegionOfInterest,
    /// Place each shared object where this plan says, as `layout run` does, under the engine. Everything else keeps its
    /// address
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    #[arg(long, help = AFTER_THE_PROGRAM)]
    pub json: bool,
    /// Print only errors, and the output of --json
    #[arg(short, long)]
    pub quiet: bool,
    /// Also print the engine's own messages
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Most threads of a process at one time. Default: the kernel's limit, up to 32,768
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    pub max_threads: Option<u32>,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// The forms of `simulate`.
const SIMULATE_USAGE: &str = "pagewalk simulate [OPTIONS] <T.pwt>...
       pagewalk simulate [OPTIONS] -- <CMD>...";

#[derive(Debug, Args)]
#[command(override_usage = SIMULATE_USAGE)]
pub struct Simulate {
    #[command(flatten)]
    pub model: Model,
    /// Also simulate the alternatives of `profile`
    #[arg(long)]
    pub what_if: bool,
    /// A kernel that builds superpages as the stream runs, compared with the host's; may be given several times.
    /// Policies: fixed, asap, asap-4-64, approx-online, online, linux, freebsd, ingens, eager, hawkeye, candidates; and
    /// offline, which knows the future and rereads the trace for each replay
    #[arg(long = "os", value_name = "POLICY[:KEY=VALUE,…]")]
    pub kernels: Vec<String>,
    /// Run the threads of each trace on N cores, in order of appearance; with --quantum or --switch-at, the threads of
    /// all traces
    #[arg(long, value_name = "N", value_parser = numbers::count::<u8>(1..=16))]
    pub cores: Option<u8>,
    /// Run all traces together, in turns of N instructions, such as 2000000, 2e6 or 2M
    #[arg(long, value_name = "N", value_parser = numbers::count::<u64>(1..=u64::MAX))]
    pub quantum: Option<u64>,
    /// Run all traces together, in turns that end when a process makes one of these system calls, given by name or
    /// number: read,poll. A parent that waits for a child gets no turn until the child ends. With --quantum, turns also
    /// end after N instructions
    #[arg(long, value_name = "CALL,…", value_delimiter = ',')]
    pub switch_at: Vec<String>,
    /// Also simulate the TLB from the misses of a host TLB with N slots, as Tapeworm did, and report by how much
    /// counting every nested miss overstates
    #[arg(long, value_name = "N", value_parser = numbers::count::<u32>(1..=65536))]
    pub by_traps: Option<u32>,
    /// With --quantum or --switch-at: read-only pages of files are global, so processes that map them alike share one
    /// TLB entry
    #[arg(long)]
    pub global_files: bool,
    /// Place each trace's shared objects where this plan says. Only the sets that their pages fall into change. A
    /// program runs with them there
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    /// Simulate the programs in an operating system of this structure, whose kernel and servers touch pages of their
    /// own at each system call: a name from the library (ultrix, osf1, mach3, mach3_afs_in, mach3_afs_out) or a .toml
    /// file
    #[arg(long, value_name = "STRUCTURE")]
    pub structure: Option<String>,
    /// Write the result here: the report if the name ends in .html, the data if it ends in .json; may be given several
    /// times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    /// How to infer areas where a trace has no mappings, as other tools' traces: `auto` (if it maps nothing before its
    /// first reference), `inferred` (also outside its mappings) or `none`. Touched memory becomes an area, in aligned
    /// pieces of gap=BYTES (2M). Without areas, kernels build no superpages
    #[arg(
        long,
        value_name = "MODE[,gap=BYTES]",
        default_value = "auto",
        value_parser = AreaRules::from_text,
        conflicts_with = "command"
    )]
    pub areas: AreaRules,
    #[command(flatten)]
    pub region: RegionOfInterest,
    #[command(flatten)]
    pub style: Style,
    /// Most threads of a process at one time. Default: the kernel's limit, up to 32,768
    #[arg(long, value_name = "N", value_parser = numbers::threads, conflicts_with = "traces")]
    pub max_threads: Option<u32>,
    /// Traces to read
    #[arg(value_name = "T.pwt", value_hint = ValueHint::FilePath, required_unless_present = "command")]
    pub traces: Vec<PathBuf>,
    /// Or a program to run, after `--`
    #[arg(last = true, value_name = "CMD", conflicts_with = "traces")]
    pub command: Vec<OsString>,
}

/// Help of `--json` for a study, where no program prints and a file holds the same.
const SWEEP_JSON: &str = "Print JSON instead of tables, on standard output: the text of results.json, \
which is written all the same";

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(SWEEP_JSON)))]
pub struct Sweep {
    /// Folder for results.parquet, results.json, index.html and pictures/; also for recordings (traces/) and finished
    /// work (units/), which a later run reuses. Default: NAME.sweep, after the study's name
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Worker threads. Default: one for each processor
    #[arg(long, value_name = "N", value_parser = numbers::workers)]
    pub threads: Option<NonZeroUsize>,
    /// Study these recordings instead of the study's programs. Parts that name a single program are left out, with a
    /// message
    #[arg(long, value_name = "T.pwt", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// Where the jobs run: `local`, or `dask://HOST:PORT`, the workers of a Dask scheduler, which need the Python
    /// package; `--threads` is then for each job, by default 1
    #[arg(long, value_name = "PLACE", default_value = "local")]
    pub on: Place,
    /// Print what would run, then exit: run nothing, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print how far the study is, and which processes work on it. Its folder may stand for the study
    #[arg(long, conflicts_with_all = ["threads", "on", "dry_run"])]
    pub status: bool,
    #[command(flatten)]
    pub style: Style,
    /// The study. If several processes, also of several hosts, run it with the same folder, they share the work
    #[arg(value_name = "STUDY.toml", value_hint = ValueHint::AnyPath)]
    pub study: PathBuf,
}

/// Replacement policies that do not look at hits.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum BlindReplacement {
    Fifo,
    Random,
}

/// Help of `--verbose` for runs under faults.
const TRAP_VERBOSE: &str = "Print every process image, and its mappings";

#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| verbose.help(TRAP_VERBOSE)))]
pub struct Trap {
    /// Machine whose first-level TLB for data is simulated: a name from `pagewalk machines list` or a .toml file. Its
    /// replacement must be fifo or random
    #[arg(short, long, value_name = "MACHINE", default_value = "mips_r2000")]
    pub machine: String,
    /// Entries, instead of the machine's
    #[arg(long, value_name = "N", value_parser = numbers::any::<u32>())]
    pub entries: Option<u32>,
    /// Entries of a set, instead of the machine's
    #[arg(long, value_name = "N", value_parser = numbers::any::<u32>())]
    pub ways: Option<u32>,
    /// Replacement, instead of the machine's
    #[arg(long, value_enum)]
    pub replacement: Option<BlindReplacement>,
    /// Seed of `--replacement random`. Default: 0, or the seed of a machine file that already replaces at random
    #[arg(long, value_name = "N", requires = "replacement", value_parser = numbers::any::<u64>())]
    pub seed: Option<u64>,
    /// First run the program once by itself, to report the slowdown; the output of that run is dropped
    #[arg(long)]
    pub native: bool,
    /// Replay every decision through the simulator's own array and compare
    #[arg(long)]
    pub check: bool,
    /// Write the result as JSON here
    #[arg(short, long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub style: Style,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Machines {
    #[command(subcommand)]
    pub command: MachinesCommand,
}

#[derive(Debug, Subcommand)]
pub enum MachinesCommand {
    /// List the names, and the one that stands for this host
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show a machine with its reach per page size
    Show {
        /// Print the machine file
        #[arg(long)]
        toml: bool,
        /// Print the table as JSON
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// A name from the library or a .toml file
        machine: String,
    },
    /// Validate machine files; without arguments, the whole library
    Check {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        /// Names or .toml files
        machines: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct Schema {
    /// A kind, such as `result` or `pagewalk.result/2`; or `metrics` or `policies`, each a page. Default: list all
    pub kind: Option<String>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The command, such as `trace import`. Default: pagewalk itself
    pub command: Vec<String>,
}
