//! A study: what to simulate over which streams.

use crate::cache_family::CacheFamilySpec;
use pagewalk_layout::planner::{Planner, PlannerOptions};
use pagewalk_mm::structure::StructureSpec;
use pagewalk_mm::{AreaRules, OsError, OsKernel, OsSpec, ThpMode};
use pagewalk_report::sweep::schema::{Parameters, Plot, PublishedTable};
use pagewalk_reuse::ReferenceKinds;
use pagewalk_sim::{Sharing, TrapSpec, held_orders};
use pagewalk_trace::Grain;
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;
use std::path::PathBuf;

/// A checked study.
#[derive(Clone, Debug)]
pub struct Study {
    /// The file's name in messages.
    pub file: String,
    /// Short name, used in file names.
    pub name: String,
    /// Title for display.
    pub title: String,
    /// The streams, in order.
    pub traces: Vec<TraceSpec>,
    /// The machines, with each choice of the varied keys.
    pub machines: Vec<MachineVariant>,
    /// The kernels under which each machine runs, in order; if empty, its own, or the recording host's.
    pub kernels: Vec<KernelVariant>,
    /// The operating systems around the programs, in order, each with every machine; may be empty.
    pub structures: Vec<StructureVariant>,
    /// The layouts under which each machine runs, including the recorded one; may be empty.
    pub layouts: Vec<LayoutSpec>,
    /// Transparent huge page mode of the machines; none: each recording host's.
    pub thp: Option<ThpMode>,
    /// How areas of traces without mappings are inferred.
    pub areas: AreaRules,
    /// The family of arrays.
    pub family: Option<FamilySpec>,
    /// The family of caches.
    pub cache_family: Option<CacheFamilySpec>,
    /// The miss-ratio curves.
    pub curve: Option<CurveSpec>,
    /// Comparisons with findings of sources.
    pub compare: Vec<ComparisonSpec>,
    /// Tables that sources printed.
    pub published: Vec<PublishedTable>,
    /// Pictures of machines to draw.
    pub plots: Vec<Plot>,
}

/// Where a stream comes from.
#[derive(Clone, Debug)]
pub enum TraceSpec {
    /// A trace file.
    File {
        /// Its name in the study: the file name without `.pwt`.
        name: String,
        /// Its path.
        path: PathBuf,
    },
    /// Several trace files that take turns on one processor.
    Together {
        /// Their name in the study.
        name: String,
        /// Their paths, in order.
        paths: Vec<PathBuf>,
        /// How they share the processor.
        sharing: Sharing,
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

    /// The program to record, if any.
    pub fn workload(&self) -> Option<&Workload> {
        match self {
            TraceSpec::File { .. } | TraceSpec::Together { .. } => None,
            TraceSpec::Workload(workload) => Some(workload),
        }
    }

    /// How its processes share a processor, if they take turns.
    pub fn sharing(&self) -> Option<&Sharing> {
        match self {
            TraceSpec::File { .. } => None,
            TraceSpec::Together { sharing, .. } => Some(sharing),
            TraceSpec::Workload(workload) => workload.sharing.as_ref(),
        }
    }
}

/// A program to record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Workload {
    /// Its name in the study.
    pub name: String,
    /// Debian packages that it needs, named if it cannot run.
    #[serde(skip)]
    pub needs: Vec<String>,
    /// Files placed in its folder before it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<GivenFile>,
    /// A command to run before it in the same folder, such as a compiler; not recorded; may be empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its standard input.
    pub input: String,
    /// File name of the recorded image's program, if the command starts several; otherwise the image that executed
    /// most.
    pub image: Option<String>,
    /// Record at most about this many instructions of each image.
    pub max_instructions: Option<u64>,
    /// What to keep of data addresses.
    #[serde(skip_serializing_if = "Grain::is_byte")]
    pub grain: Grain,
    /// How all process images share a processor, if all are recorded.
    #[serde(rename = "turns", serialize_with = "is_together", skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
}

/// The recording does not depend on where turns end.
fn is_together<S: serde::Serializer>(sharing: &Option<Sharing>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(sharing.is_some())
}

/// A file for a workload's folder. Results depend on its name and content, not on its source path.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GivenFile {
    /// Its name in the folder.
    pub name: String,
    /// Its source path.
    #[serde(skip)]
    pub path: PathBuf,
    /// BLAKE3 hash of its content, in hex.
    pub content: String,
}

/// A machine with one choice of the varied keys.
#[derive(Clone, Debug)]
pub struct MachineVariant {
    /// The machine.
    pub machine: MachineSpec,
    /// Its number in the study, the same on any cores and by traps.
    pub number: usize,
    /// How traps simulate it; none: in full.
    pub traps: Option<TrapSpec>,
    /// The cores for a process's threads; none: the study does not say.
    pub cores: Option<u8>,
    /// The values chosen, with the cores and how traps simulate it.
    pub parameters: Parameters,
    /// The normalised text of its file with those values, which identifies it.
    pub text: String,
    /// The kernel in its file, used if the study names none; none by traps.
    pub own: Option<KernelVariant>,
}

/// A kernel under which machines run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelVariant {
    /// Its name in the study.
    pub name: String,
    /// Names of the machines that run under it; empty: all.
    pub machines: Vec<String>,
    /// How it is built.
    pub kind: KernelKind,
    /// The normalised text of its table without the name, which identifies it.
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
    /// Its description; `None`: programs alone.
    pub spec: Option<StructureSpec>,
    /// The normalised text of its file, which identifies it.
    pub text: String,
}

/// A layout of a study, or several random ones.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutSpec {
    /// Its name in results.
    pub name: String,
    /// The planner; `None`: the recorded layout.
    pub planner: Option<PlannerOptions>,
    /// Numbers of each array's reuses that `search` keeps.
    pub room: usize,
    /// How many are drawn, with consecutive seeds; 1 without draws.
    pub count: u64,
    /// Whether one plan serves all machines; otherwise each has its own.
    pub for_all: bool,
    /// The trace to plan on; none: each trace has its own plan.
    pub from: Option<String>,
    /// The traces simulated under it; empty: all.
    pub traces: Vec<String>,
}

impl LayoutSpec {
    /// The recorded layout.
    pub(crate) fn recorded(name: String, traces: Vec<String>) -> LayoutSpec {
        LayoutSpec { name, planner: None, room: 0, count: 1, for_all: true, from: None, traces }
    }

    /// Whether several are drawn.
    pub fn is_drawn(&self) -> bool {
        self.planner.is_some_and(|options| options.planner == Planner::Random)
    }

    /// The seed of a draw, if something is drawn.
    pub fn seed(&self, draw: u64) -> Option<u64> {
        let options = self.planner.filter(|_| self.is_drawn())?;
        Some(options.seed.wrapping_add(draw))
    }

    /// Whether a trace is simulated under it.
    pub fn is_for(&self, trace: &str) -> bool {
        self.traces.is_empty() || self.traces.iter().any(|name| name == trace)
    }
}

/// A machine's kernel and operating system.
pub type SystemChoice<'a> = (Option<&'a KernelVariant>, Option<&'a StructureVariant>);

impl KernelVariant {
    /// Builds it for a machine; `None` for the recording host's kernel.
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

impl MachineVariant {
    /// The parameter for the cores.
    pub const CORES: &str = "cores";
}

impl Study {
    /// The trace whose plans a layout takes for all.
    pub(crate) fn source_of(&self, layout: &LayoutSpec) -> Option<usize> {
        let from = layout.from.as_ref()?;
        self.traces.iter().position(|trace| trace.name() == from)
    }

    /// The machines, each once, whatever the cores, and not by traps.
    pub(crate) fn machines_once(&self) -> Vec<&MachineVariant> {
        let mut once: Vec<&MachineVariant> = self.machines.iter().collect();
        once.dedup_by_key(|variant| variant.number);
        once
    }

    /// The machines, each under every kernel for it, in order. If the study names no kernel, under its own; `None`
    /// without one. By traps it has none: they see base pages alone.
    pub fn machines_by_kernel(&self) -> impl Iterator<Item = (&MachineVariant, Option<&KernelVariant>)> {
        self.machines.iter().flat_map(|variant| {
            let is_full = variant.traps.is_none();
            let kernels =
                self.kernels.iter().filter(move |kernel| is_full && kernel.is_for(&variant.machine));
            let own = (!is_full || self.kernels.is_empty()).then_some(variant.own.as_ref());
            kernels.map(Some).chain(own).map(move |kernel| (variant, kernel))
        })
    }

    /// The same, in every operating system in order. A machine whose handlers belong to one system runs in no other.
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

/// Which arrays of the family to report. All are simulated anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilySpec {
    /// What the arrays see: a family for each.
    pub serves: Vec<ReferenceKinds>,
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
    pub serves: Vec<ReferenceKinds>,
    /// Whether to count every reference.
    pub exact: bool,
    /// Sampling rate of pages, for a curve with a fixed rate.
    pub rate: Option<f64>,
    /// Pages to sample, for a curve of fixed size.
    pub pages: Option<usize>,
}

/// A source's finding, and the two figures whose quotient shows it here.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonSpec {
    /// What is compared.
    pub title: String,
    /// The source.
    pub source: String,
    /// Its finding.
    pub said: String,
    /// The upper part of the quotient.
    pub upper: Cell,
    /// What is taken from it.
    pub less: Option<Cell>,
    /// The lower part.
    pub lower: Cell,
    /// A common divisor, so that all traces weigh the same in an average.
    pub base: Option<Cell>,
    /// The least agreeing quotient.
    pub least: Option<f64>,
    /// The largest agreeing quotient.
    pub most: Option<f64>,
    /// On how many traces it must agree.
    pub on: TraceQuorum,
    /// Names of the traces; empty: all.
    pub traces: Vec<String>,
    /// The machines to compare on, for cells that name none.
    pub machines: Vec<String>,
    /// A condition for comparing at all.
    pub provided: Option<Precondition>,
    /// Whether the study fails if it does not agree.
    pub strict: bool,
}

/// A quotient that decides whether to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Precondition {
    /// The upper part.
    pub upper: Cell,
    /// The lower part.
    pub lower: Cell,
    /// The least quotient for comparing.
    pub least: Option<f64>,
    /// The largest quotient for comparing.
    pub most: Option<f64>,
}

/// Selects among random layouts' figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawFigure {
    /// The median; of an even number, the lower of the middle two.
    Median,
    /// The least figure.
    Least,
    /// The largest figure.
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
    /// The mean of all upper parts over that of all lower parts.
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
    /// Whether to take the key's value with the least figure (the first of several) instead of the figure.
    pub place: bool,
}

/// A figure of the result, on any trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The misses of an array of the family.
    Family {
        /// What it sees.
        serves: ReferenceKinds,
        /// Its page size.
        page_size: PageSize,
        /// Its sets.
        sets: u32,
        /// Its ways.
        ways: u32,
    },
    /// A counter of a machine.
    Machine {
        /// The machine's name; none if the comparison names several.
        machine: Option<String>,
        /// The kernel's name; optional if the machine has only one.
        os: Option<String>,
        /// The operating system's name; optional if the study has at most one.
        structure: Option<String>,
        /// The layout's name; none: the recorded one.
        layout: Option<String>,
        /// Selects among its draws, if several are drawn.
        draws: Option<DrawFigure>,
        /// A layout: the figure is the reduction from that layout's figure.
        reduction_from: Option<String>,
        /// Values of varied keys; keys with a single value may be left out.
        parameters: Parameters,
        /// The counters to add up.
        metrics: Vec<String>,
        /// A factor for their sum.
        times: f64,
        /// A varied key over all whose values to optimise.
        best: Option<BestValue>,
    },
    /// A figure that is the same on every trace.
    Number(f64),
}

/// Names of what arrays see.
pub(crate) const SERVES: [(&str, ReferenceKinds); 3] = [
    ("data", ReferenceKinds::Data),
    ("fetches", ReferenceKinds::Fetches),
    ("everything", ReferenceKinds::Everything),
];

/// `data`, `fetches` or `everything`.
pub(crate) fn serves_name(serves: ReferenceKinds) -> &'static str {
    SERVES.iter().find(|(_, known)| *known == serves).map_or("", |(name, _)| name)
}
