//! The command line.

mod advise;
mod groups;
mod layout;
mod line;
mod numbers;
mod plans;
mod probe;
mod promote;
mod trace;

pub use advise::Advise;
pub use layout::{Layout, LayoutAnalyze, LayoutCommand, LayoutPlan, LayoutRun, Planner};
pub use line::{Request, command_line, read};
pub use plans::{Apply, Undo, Verify};
pub use probe::Probe;
pub use promote::{Promote, SamplerChoice};
pub use trace::{Format, Trace, TraceCommand};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use pagewalk::capture::WindowSpec;
use pagewalk::engine::Noise;
use pagewalk::mm::ThpMode;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Most columns of help.
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
    /// Run a program, simulate its address translation while it runs, and say who pays and what would help
    Profile(Profile),
    /// Run a program and keep its reference stream in a .pwt file
    Record(Record),
    /// Drive recorded streams, or a program, through machines
    Simulate(Simulate),
    /// Run a study: many machines, families of TLBs and miss-ratio curves over many streams
    Sweep(Sweep),
    /// Run a program at its own speed and count a TLB's misses by page faults
    Trap(Trap),
    /// Say how many entries TLBs of several designs would need for a live process's memory
    Contiguity(Contiguity),
    /// Say who fights for the sets of a TLB, and run programs with their libraries where a plan wants them
    Layout(Layout),
    /// Measure this host's TLBs, walks, caches and kernel costs by timing, and write a machine file
    Probe(Probe),
    /// Forecast what huge pages would buy a program, range by range, and plan it
    Advise(Advise),
    /// Run an unmodified program with the ranges of a plan on huge pages, or act on one that runs
    Apply(Apply),
    /// Measure what a plan brings, beside its forecast, and say of each range whether it took and why not
    Verify(Verify),
    /// Bring the planned ranges of a running process back to small pages
    Undo(Undo),
    /// Bring a running process's memory onto huge pages where its TLB misses have paid for that
    Promote(Promote),
    /// Look at, check and convert traces
    Trace(Trace),
    /// The library of machines
    Machines(Machines),
    /// Make the HTML report from a saved result
    Report(Report),
    /// The kinds of results, the JSON Schema of each, and the pages of metrics and of policies
    Schema(Schema),
    /// What this host can do, and what would enable the rest
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page
    Man(Man),
}

/// What to print, and how much.
#[derive(Clone, Copy, Debug, Args)]
pub struct Style {
    /// Print JSON instead of text, on standard output (after what the program printed there; -o FILE.json keeps
    /// them apart)
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

/// `--json` of a command that runs a program.
const AFTER_THE_PROGRAM: &str = "Print JSON on standard output, after what the program printed there";
/// The same where no program prints there.
const INSTEAD_OF_TEXT: &str = "Print JSON instead of text, on standard output";

/// The result of a command that acts on programs, as data, and how much is said beside it.
#[derive(Clone, Debug, Args)]
pub struct Data {
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Write the same JSON here
    #[arg(short, long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Say nothing but what was asked for and errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Which part of the stream counts.
#[derive(Clone, Debug, Default, Args)]
pub struct Region {
    /// Begin at the program's first marker with this number (PAGEWALK_MARK of pagewalk.h sets one)
    #[arg(long, value_name = "ID")]
    pub from_marker: Option<u64>,
    /// End at the next marker with this number
    #[arg(long, value_name = "ID")]
    pub to_marker: Option<u64>,
    /// Leave out the first N instructions (of the region, if markers choose one)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// End after N instructions
    #[arg(long, value_name = "N")]
    pub max_instructions: Option<u64>,
}

impl From<Region> for WindowSpec {
    fn from(region: Region) -> WindowSpec {
        let Region { from_marker, to_marker, skip, max_instructions } = region;
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
    /// Machine to simulate: a name from `pagewalk machines list`, a .toml file, or `host`, what `pagewalk probe --save`
    /// found, else the library's machine of this CPU; may be given several times.
    /// Default: the host's CPU if the library has it, else golden_cove
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
    /// Write the result here: to a name that ends in .html the report, in .json the data; may be given
    /// several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    #[command(flatten)]
    pub region: Region,
    #[command(flatten)]
    pub style: Style,
    /// Run it with each shared object where this plan says: as `layout run`, under the engine. All else lies where it
    /// would have
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    /// Most threads that a process has at a time. Default: the kernel's limit, up to 32,768
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    pub max_threads: Option<u32>,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// What a recording keeps of the addresses of data.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum GrainChoice {
    /// All
    #[default]
    Byte,
    /// The 4 KiB page
    Page,
}

#[derive(Debug, Args)]
pub struct Record {
    /// The trace file. A program that starts others gets files numbered in order of start beside it
    #[arg(short, long, value_name = "T.pwt", default_value = "pagewalk.pwt", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// What is kept of the addresses of data. Pages are all that TLBs see, and make smaller files; machines with caches
    /// need bytes
    #[arg(long, value_enum, default_value_t)]
    pub grain: GrainChoice,
    #[command(flatten)]
    pub region: Region,
    /// Run it with each shared object where this plan says: as `layout run`, under the engine. All else lies where it
    /// would have
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    #[arg(long, help = AFTER_THE_PROGRAM)]
    pub json: bool,
    /// Print nothing but errors, and what --json asks for
    #[arg(short, long)]
    pub quiet: bool,
    /// Print what the engine itself said, too
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Most threads that a process has at a time. Default: the kernel's limit, up to 32,768
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    pub max_threads: Option<u32>,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Simulate {
    #[command(flatten)]
    pub model: Model,
    /// Simulate the alternatives of `profile` too
    #[arg(long)]
    pub what_if: bool,
    /// A kernel that builds superpages as the stream runs, beside the host's; may be given several times.
    /// Policies: fixed, asap, asap-4-64, approx-online, online, linux, freebsd, ingens, eager, hawkeye,
    /// candidates; offline, which knows the future and reads the trace again for each replay
    #[arg(long = "os", value_name = "POLICY[:KEY=VALUE,…]")]
    pub kernels: Vec<String>,
    /// Run the threads of each trace on N cores, in order of their appearance; those of all traces with --quantum or
    /// --switch-at
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub cores: Option<u8>,
    /// Run all traces together, in turns of N instructions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub quantum: Option<u64>,
    /// Run all traces together, in turns that end where a process makes one of these system calls, such as
    /// read,poll or a number; a parent that waits for a child gets no turn before that has ended. With --quantum,
    /// after N instructions too
    #[arg(long, value_name = "CALL,…", value_delimiter = ',')]
    pub switch_at: Vec<String>,
    /// Beside full simulation, simulate the TLB by the misses of a host's of N slots alone, as Tapeworm did, and say
    /// what counting every nested miss would overstate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub by_traps: Option<u32>,
    /// With --quantum or --switch-at: pages of files that are mapped without the right to write are global, one TLB
    /// entry for all processes that map them alike
    #[arg(long)]
    pub global_files: bool,
    /// As if each trace's shared objects lay where this plan says: what changes are the sets that their pages fall
    /// into. A program is run with them there
    #[arg(long, value_name = "PLAN.toml", value_hint = ValueHint::FilePath)]
    pub layout: Option<PathBuf>,
    /// Put the programs into an operating system of this structure, whose kernel and servers touch pages of their own
    /// at each system call: a name from the library (ultrix, osf1, mach3, mach3_afs_in, mach3_afs_out) or a .toml file
    #[arg(long, value_name = "STRUCTURE")]
    pub structure: Option<String>,
    /// Write the result here: to a name that ends in .html the report, in .json the data; may be given
    /// several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    #[command(flatten)]
    pub region: Region,
    #[command(flatten)]
    pub style: Style,
    /// Most threads that a process has at a time. Default: the kernel's limit, up to 32,768
    #[arg(long, value_name = "N", value_parser = numbers::threads, conflicts_with = "traces")]
    pub max_threads: Option<u32>,
    /// Traces to read
    #[arg(value_name = "T.pwt", value_hint = ValueHint::FilePath, required_unless_present = "command")]
    pub traces: Vec<PathBuf>,
    /// Or a program to run, after `--`
    #[arg(last = true, value_name = "CMD", conflicts_with = "traces")]
    pub command: Vec<OsString>,
}

/// `--json` of a study: no program prints beside it, and the same stands in a file.
const SWEEP_JSON: &str = "Print JSON instead of tables, on standard output: the text of results.json, \
which is written all the same";

#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help(SWEEP_JSON)))]
pub struct Sweep {
    /// Folder to write to: results.parquet, results.json, index.html and pictures/; also recordings (traces/) and
    /// what is done (units/), which a later run does not do again. Default: NAME.sweep, after the study's name
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Threads to work on. Default: as many as there are processors
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Study these recordings instead of the programs that the study names. What it has of one program alone is left
    /// out, which is told
    #[arg(long, value_name = "T.pwt", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub traces: Vec<PathBuf>,
    /// Say on standard output what would run, as text, and run and write nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub style: Style,
    /// The study
    #[arg(value_name = "STUDY.toml", value_hint = ValueHint::FilePath)]
    pub study: PathBuf,
}

/// Replacement that needs no hits.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum BlindReplacement {
    Fifo,
    Random,
}

/// `--verbose` of a run under faults.
const TRAP_VERBOSE: &str = "Print every process image, and its mappings";

#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| verbose.help(TRAP_VERBOSE)))]
pub struct Trap {
    /// Machine whose first-level TLB for data is simulated: a name from `pagewalk machines list` or a .toml file. Its
    /// replacement must be fifo or random
    #[arg(short, long, value_name = "MACHINE", default_value = "mips_r2000")]
    pub machine: String,
    /// Entries, instead of the machine's
    #[arg(long, value_name = "N")]
    pub entries: Option<u32>,
    /// Entries of a set, instead of the machine's
    #[arg(long, value_name = "N")]
    pub ways: Option<u32>,
    /// Replacement, instead of the machine's
    #[arg(long, value_enum)]
    pub replacement: Option<BlindReplacement>,
    /// Where the draws of `--replacement random` begin, 0 if not given. A machine that draws by itself begins at its
    /// file's seed
    #[arg(long, value_name = "N", requires = "replacement")]
    pub seed: Option<u64>,
    /// Run the program once without us before, to tell the slowdown; its output of that run goes nowhere
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

/// `--verbose` of a memory.
const CONTIGUITY_VERBOSE: &str = "Print every mapping";

#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| verbose.help(CONTIGUITY_VERBOSE)))]
pub struct Contiguity {
    /// The process to read
    #[arg(short, long, value_name = "PID", required_unless_present = "command",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// Write the result here: to a name that ends in .html a page with pictures, in .svg the picture of run lengths, in
    /// .json the data; may be given several times
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    #[command(flatten)]
    pub style: Style,
    /// Or a program to run, after `--`: it is read as it grows and at its exit, and what counts is when it had most
    #[arg(last = true, value_name = "CMD", conflicts_with = "pid",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Machines {
    #[command(subcommand)]
    pub command: MachinesCommand,
}

#[derive(Debug, Subcommand)]
pub enum MachinesCommand {
    /// Names, and the one that stands for this host
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// A machine with its reach per page size
    Show {
        /// Print the machine file itself
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
pub struct Report {
    /// Write the HTML report here
    #[arg(short, long, value_name = "REPORT.html", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// A result saved with `-o RESULT.json` or --json, or results.json of a study. Several of `profile` and `simulate`
    /// stand side by side
    #[arg(value_name = "RESULT.json", required = true, value_hint = ValueHint::FilePath)]
    pub results: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Schema {
    /// A kind, such as `result` or `pagewalk.result/2`, or `metrics` or `policies`, the page of each. Default: list all
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
    /// The command, such as `trace import`; none for the page of pagewalk itself
    pub command: Vec<String>,
}
