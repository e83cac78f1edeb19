//! A study: what to simulate over which streams.

use pagewalk_layout::planner::{Planner, PlannerOptions};
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{OsError, OsKernel, OsSpec, ThpMode};
use pagewalk_report::sweep::schema::{Parameters, Plot, Published};
use pagewalk_reuse::Serves;
use pagewalk_sim::held_orders;
use pagewalk_trace::{Grain, Turns};
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;
use std::path::PathBuf;

/// What a study file says, checked.
#[derive(Clone, Debug)]
pub struct Study {
    /// The file's name, for messages.
    pub file: String,
    /// Short name, of which file names are made.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// The streams, in order.
    pub traces: Vec<TraceSpec>,
    /// The machines, each choice of the varied keys on its own.
    pub machines: Vec<MachineVariant>,
    /// The kernels under which each machine runs, in order; where there are none, its own, or that of the recording
    /// host.
    pub kernels: Vec<KernelVariant>,
    /// The operating systems around the programs, in order, each with every machine; none where there are none.
    pub structures: Vec<StructureVariant>,
    /// The layouts under which each machine runs, the recorded one among them; none where the study names none.
    pub layouts: Vec<LayoutSpec>,
    /// Transparent huge page mode of the machines; that of each recording host where none is given.
    pub thp: Option<ThpMode>,
    /// The family of arrays.
    pub family: Option<FamilySpec>,
    /// The miss-ratio curves.
    pub curve: Option<CurveSpec>,
    /// What to compare with what sources found.
    pub compare: Vec<ComparisonSpec>,
    /// Tables that sources printed.
    pub published: Vec<Published>,
    /// Pictures of machines to draw.
    pub plots: Vec<Plot>,
}

/// Where a stream comes from.
#[derive(Clone, Debug)]
pub enum TraceSpec {
    /// A trace file.
    File {
        /// Its name in the study: the file's, without `.pwt`.
        name: String,
        /// Where it is.
        path: PathBuf,
    },
    /// Several trace files that take turns on one processor.
    Together {
        /// Their name in the study.
        name: String,
        /// Where they are, in order.
        paths: Vec<PathBuf>,
        /// Where turns end.
        turns: Turns,
    },
    /// A program to record.
    Workload(Workload),
}

impl TraceSpec {
    /// Its name in the study.
    pub fn name(&self) -> &str {
        match self {
            TraceSpec::File { name, .. } | TraceSpec::Together { name, .. } => name,
            TraceSpec::Workload(workload) => &workload.name,
        }
    }

    /// The program to record, if it is one.
    pub fn workload(&self) -> Option<&Workload> {
        match self {
            TraceSpec::File { .. } | TraceSpec::Together { .. } => None,
            TraceSpec::Workload(workload) => Some(workload),
        }
    }

    /// Where turns end, if it is several processes that take turns.
    pub fn turns(&self) -> Option<&Turns> {
        match self {
            TraceSpec::File { .. } => None,
            TraceSpec::Together { turns, .. } => Some(turns),
            TraceSpec::Workload(workload) => workload.turns.as_ref(),
        }
    }
}

/// A program to record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Workload {
    /// Its name in the study.
    pub name: String,
    /// Debian packages that it needs, told where it cannot run.
    #[serde(skip)]
    pub needs: Vec<String>,
    /// Files that its folder has before it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<GivenFile>,
    /// What runs before it in the same folder, such as a compiler, and is not recorded; nothing if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What it reads on standard input.
    pub input: String,
    /// File name of the program whose process image is meant, where the command starts several; otherwise
    /// the image that executed most.
    pub image: Option<String>,
    /// Record no more than about so many instructions of each image.
    pub max_instructions: Option<u64>,
    /// What is kept of the addresses of data.
    #[serde(skip_serializing_if = "Grain::is_byte")]
    pub grain: Grain,
    /// Where turns end, if all process images are meant and take turns on one processor.
    #[serde(serialize_with = "is_together", skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
}

/// What is recorded does not depend on where turns end.
fn is_together<S: serde::Serializer>(turns: &Option<Turns>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(turns.is_some())
}

/// A file that a workload's folder has before it runs. Results depend on its name and content, not on where it was.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GivenFile {
    /// Its name there.
    pub name: String,
    /// Where it comes from.
    #[serde(skip)]
    pub path: PathBuf,
    /// BLAKE3 hash of its content, in hex.
    pub content: String,
}

/// A machine with a choice of the varied keys.
#[derive(Clone, Debug)]
pub struct MachineVariant {
    /// The machine.
    pub machine: MachineSpec,
    /// The values chosen.
    pub parameters: Parameters,
    /// Its file's text with those values, in one form whatever the original's layout: what it is known by.
    pub text: String,
    /// The kernel that its file describes, under which it runs where the study names none.
    pub own: Option<KernelVariant>,
}

/// A kernel under which machines run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelVariant {
    /// Its name in the study.
    pub name: String,
    /// Names of the machines that run under it; all of them where there are none.
    pub machines: Vec<String>,
    /// How it is built.
    pub kind: KernelKind,
    /// Its table's text without the name, in one form whatever the original's layout: what it is known by.
    pub text: String,
}

/// How a kernel is built.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelKind {
    /// The kernel of the recording host.
    Host,
    /// One with a policy.
    Policy(OsSpec),
}

/// An operating system around the programs.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureVariant {
    /// Its name in the study.
    pub name: String,
    /// Its description; `None`: the programs are alone.
    pub spec: Option<StructureSpec>,
    /// Its file's text in one form whatever the original's layout: what it is known by.
    pub text: String,
}

/// A layout of a study, or as many as are drawn at random.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutSpec {
    /// Its name in results.
    pub name: String,
    /// Who plans; `None`: all objects lie where they were recorded.
    pub planner: Option<PlannerOptions>,
    /// Numbers that `search` keeps of each array's reuses.
    pub room: usize,
    /// How many are drawn, each with the next seed; 1 where nothing is drawn.
    pub count: u64,
    /// Whether one plan is made for all machines; otherwise each has its own.
    pub for_all: bool,
    /// The trace that it is planned on; otherwise each trace has its own.
    pub from: Option<String>,
    /// The traces that are simulated under it; all where there are none.
    pub traces: Vec<String>,
}

impl LayoutSpec {
    /// The layout that was recorded.
    pub(crate) fn recorded(name: String, traces: Vec<String>) -> LayoutSpec {
        LayoutSpec { name, planner: None, room: 0, count: 1, for_all: true, from: None, traces }
    }

    /// Whether several are drawn.
    pub fn is_drawn(&self) -> bool {
        self.planner.is_some_and(|options| options.planner == Planner::Random)
    }

    /// The seed of a draw, where something is drawn.
    pub fn seed(&self, draw: u64) -> Option<u64> {
        let options = self.planner.filter(|_| self.is_drawn())?;
        Some(options.seed.wrapping_add(draw))
    }

    /// Whether a trace is simulated under it.
    pub fn is_for(&self, trace: &str) -> bool {
        self.traces.is_empty() || self.traces.iter().any(|name| name == trace)
    }
}

/// What a machine is simulated under: which of its kernels, and in which operating system.
pub type SystemChoice<'a> = (Option<&'a KernelVariant>, Option<&'a StructureVariant>);

impl KernelVariant {
    /// Built for a machine; `None` for the kernel of the recording host.
    pub fn build(&self, machine: &MachineSpec) -> Result<Option<OsKernel>, OsError> {
        match &self.kind {
            KernelKind::Host => Ok(None),
            KernelKind::Policy(spec) => spec.build(machine.paging, held_orders(machine)).map(Some),
        }
    }

    /// Whether it replays the stream to choose its superpages.
    pub fn replays(&self) -> bool {
        matches!(&self.kind, KernelKind::Policy(spec) if spec.replays())
    }

    /// Whether `machine` runs under it.
    pub fn is_for(&self, machine: &MachineSpec) -> bool {
        self.machines.is_empty() || self.machines.contains(&machine.name)
    }
}

impl Study {
    /// The name of a kernel that replays the stream, if there is one.
    pub fn replaying(&self) -> Option<&str> {
        let own = self.machines.iter().filter_map(|variant| variant.own.as_ref());
        self.kernels.iter().chain(own).find(|kernel| kernel.replays()).map(|kernel| kernel.name.as_str())
    }

    /// The machines, each under every kernel that is for it: in their order, in that of the kernels. Where the study
    /// names no kernel, under its own; `None` where it has none either.
    pub fn machines_by_kernel(&self) -> impl Iterator<Item = (&MachineVariant, Option<&KernelVariant>)> {
        self.machines.iter().flat_map(|variant| {
            let kernels = self.kernels.iter().filter(|kernel| kernel.is_for(&variant.machine));
            let own = self.kernels.is_empty().then_some(variant.own.as_ref());
            kernels.map(Some).chain(own).map(move |kernel| (variant, kernel))
        })
    }

    /// The same, each in every operating system in their order. A machine whose handlers belong to one of them runs in
    /// no other.
    pub fn cells(&self) -> impl Iterator<Item = (&MachineVariant, SystemChoice<'_>)> {
        self.machines_by_kernel().flat_map(|(variant, kernel)| {
            let alone = self.structures.is_empty().then_some(None);
            let handlers = variant.machine.software().map(|software| software.system.structure.as_str());
            let own = handlers.filter(|own| self.structures.iter().any(|structure| structure.name == *own));
            let is_its = move |structure: &&StructureVariant| {
                own.is_none_or(|own| [own, "none"].contains(&structure.name.as_str()))
            };
            let structures = self.structures.iter().filter(is_its).map(Some).chain(alone);
            structures.map(move |structure| (variant, (kernel, structure)))
        })
    }
}

/// Which arrays of the family to report. All are simulated together, whichever are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilySpec {
    /// What the arrays see: a family for each.
    pub serves: Vec<Serves>,
    /// Set counts, ascending.
    pub sets: Vec<u32>,
    /// Numbers of ways, ascending.
    pub ways: Vec<u32>,
    /// Page sizes, ascending.
    pub page_sizes: Vec<PageSize>,
}

/// Which curves to take.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveSpec {
    /// What the arrays see: a curve for each.
    pub serves: Vec<Serves>,
    /// Whether to count every reference.
    pub exact: bool,
    /// Part of the pages to sample, for a sampled curve at a fixed rate.
    pub rate: Option<f64>,
    /// Pages to sample, for a sampled curve of fixed size.
    pub pages: Option<usize>,
}

/// What a source found, and the two figures whose quotient shows it here.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonSpec {
    /// What is compared.
    pub title: String,
    /// Who found it.
    pub source: String,
    /// What the source found.
    pub said: String,
    /// The upper part of the quotient.
    pub upper: Cell,
    /// The lower part.
    pub lower: Cell,
    /// What both are divided by, so that all traces weigh the same in an average.
    pub base: Option<Cell>,
    /// The least quotient that agrees.
    pub least: Option<f64>,
    /// The largest that does.
    pub most: Option<f64>,
    /// On how many traces it must.
    pub on: TraceQuorum,
    /// Names of the traces; all where there are none.
    pub traces: Vec<String>,
    /// The machines on each of which it is asked, for cells that name none.
    pub machines: Vec<String>,
    /// What else must be so where it is asked at all.
    pub provided: Option<Precondition>,
    /// Whether the study fails where it does not agree.
    pub strict: bool,
}

/// A quotient that decides whether something is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Precondition {
    /// The upper part.
    pub upper: Cell,
    /// The lower part.
    pub lower: Cell,
    /// The least quotient for which it is.
    pub least: Option<f64>,
    /// The largest for which it is.
    pub most: Option<f64>,
}

/// Which figure of several layouts drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawFigure {
    /// The lower of the two in the middle, where their number is even.
    Median,
    /// The least.
    Least,
    /// The most.
    Most,
}

impl DrawFigure {
    /// The choices.
    pub const NAMES: [(&'static str, DrawFigure); 3] =
        [("median", DrawFigure::Median), ("least", DrawFigure::Least), ("most", DrawFigure::Most)];
}

/// On how many traces a quotient must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceQuorum {
    /// On every one.
    All,
    /// On more than half.
    Most,
    /// On one at least.
    Some,
    /// The mean of all upper parts to that of all lower parts.
    Average,
}

impl TraceQuorum {
    /// The choices.
    pub const NAMES: [(&'static str, TraceQuorum); 4] = [
        ("all", TraceQuorum::All),
        ("most", TraceQuorum::Most),
        ("some", TraceQuorum::Some),
        ("average", TraceQuorum::Average),
    ];

    /// `all`, `most`, `some` or `average`.
    pub fn name(self) -> &'static str {
        TraceQuorum::NAMES.iter().find(|(_, on)| *on == self).map_or("", |(name, _)| name)
    }
}

/// The least figure over all values of a varied key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestValue {
    /// The key.
    pub key: String,
    /// Whether the key's value is meant for which the figure is least (the first of several), not the figure.
    pub place: bool,
}

/// A figure of the result, on any trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The misses of an array of the family.
    Family {
        /// What it sees.
        serves: Serves,
        /// Its page size.
        page_size: PageSize,
        /// Its sets.
        sets: u32,
        /// Its ways.
        ways: u32,
    },
    /// A counter of a machine.
    Machine {
        /// The machine's name; left out where the comparison names several.
        machine: Option<String>,
        /// The kernel's name; may be left out where the machine has one.
        os: Option<String>,
        /// The operating system's name; may be left out where the study has one at most.
        structure: Option<String>,
        /// The layout's name; the recorded one if left out.
        layout: Option<String>,
        /// Which figure of its draws, where several are drawn.
        draws: Option<DrawFigure>,
        /// A layout: the figure is by how much that one's is higher.
        reduction_from: Option<String>,
        /// The varied keys with their values; may leave out those that do not matter because they have one.
        parameters: Parameters,
        /// The counters, which are added up.
        metrics: Vec<String>,
        /// What their sum is multiplied by.
        times: f64,
        /// A varied key of which all values are meant, and what of them.
        best: Option<BestValue>,
    },
    /// A figure that is the same on every trace.
    Number(f64),
}

/// Names of what arrays see.
pub(crate) const SERVES: [(&str, Serves); 3] =
    [("data", Serves::Data), ("fetches", Serves::Fetches), ("everything", Serves::Everything)];

/// `data`, `fetches` or `everything`.
pub(crate) fn serves_name(serves: Serves) -> &'static str {
    SERVES.iter().find(|(_, known)| *known == serves).map_or("", |(name, _)| name)
}
