//! Small random traces, and studies of them.

use pagewalk_mm::ThpMode;
use pagewalk_mm::structure::StructureSpec;
use pagewalk_report::schema::Metrics;
use pagewalk_report::sweep::schema::MachineCell;
use pagewalk_sim::{Arrangement, HostKernel, Library, Simulation, StructureCounts, Structures};
use pagewalk_sweep::{Claims, Progress, Store, Stream, Study, Sweep, SweepOptions, add_structure, metrics};
use pagewalk_trace::pwt::Writer;
use pagewalk_trace::{
    Analysis, Batch, Block, BlockEnd, Dictionary, Event, FileIdentity, Instruction, Mapping, MappingKind,
    Origin, Protection, Ref, Site, Span, StreamHeader,
};
use pagewalk_units::{Access, BlockId, Draws, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use std::path::{Path, PathBuf};

const DATA: u64 = 0x7f00_0000_0000;
const DATA_PAGES: u64 = 3000;

/// A generated stream: the references of each block execution, and events in between.
pub struct Program {
    pub blocks: Dictionary,
    pub steps: Vec<Step>,
}

pub enum Step {
    Run { block: BlockId, refs: Vec<Ref> },
    Event(Event),
}

pub fn program(seed: u64, steps: u64) -> Program {
    let random = &mut Draws::new(seed);
    let mut blocks = Dictionary::default();
    let kinds: Vec<BlockId> = (0..40).map(|_| blocks.intern(block(random))).collect();
    let rights = Protection { read: true, write: true, execute: true };
    let mut program = Program { blocks, steps: Vec::new() };
    program.steps.push(Step::Event(Event::Map(Mapping {
        protection: rights,
        ..Mapping::anonymous(VirtAddr(DATA), DATA_PAGES << 12)
    })));
    for _ in 0..steps {
        if random.below(200) == 0 {
            let start = VirtAddr(DATA + (random.below(DATA_PAGES - 20) << 12));
            program.steps.push(Step::Event(Event::Advise {
                start,
                bytes: (1 + random.below(20)) << 12,
                advice: 4,
            }));
            continue;
        }
        let block = kinds[random.below(40) as usize];
        let accesses: Vec<Access> = program.blocks.get(block).sites.iter().map(|site| site.access).collect();
        let refs = accesses.into_iter().map(|access| Ref::new(address(random), access)).collect();
        program.steps.push(Step::Run { block, refs });
    }
    program
}

/// A program with a shared object of this name that layouts can move.
pub fn with_library(seed: u64, name: &str) -> Program {
    let mut program = program(seed, 2000);
    let map = Event::Map(Mapping {
        start: VirtAddr(0x40_0000),
        bytes: 1 << 20,
        protection: Protection { read: true, write: false, execute: true },
        kind: MappingKind::File,
        file: Some(FileIdentity { path: format!("/lib/{name}.so"), offset: 0, build_id: None }),
        page_bytes: 4096,
    });
    // What is mapped before the program runs is the program itself.
    program.steps.insert(20, Step::Event(map));
    program
}

fn block(random: &mut Draws) -> Block {
    let start = 0x40_0000 + (random.below(60) << 12) + random.below(4000);
    let instructions =
        (0..1 + random.below(5)).map(|i| Instruction { address: VirtAddr(start + 4 * i), length: 4 });
    let instructions: Box<[Instruction]> = instructions.collect();
    let site = |kind| Site { instruction: 0, access: Access { kind, size: Size::of_bytes(8).unwrap() } };
    let sites =
        (0..random.below(4)).map(|_| site([Kind::Load, Kind::Store, Kind::Modify][random.below(3) as usize]));
    Block { instructions, sites: sites.collect(), code: Box::new([]), end: BlockEnd::Jump }
}

fn address(random: &mut Draws) -> VirtAddr {
    let spread = [4, 60, 700, DATA_PAGES][random.below(4) as usize];
    VirtAddr(DATA + (random.below(spread) << 12) + random.below(4096 - 8))
}

impl Program {
    /// Feeds the stream to an analysis, with a batch for each run between events; two threads have them.
    pub fn play(&self, to: &mut dyn Analysis) {
        let (mut refs, mut spans): (Vec<Ref>, Vec<Span>) = (Vec::new(), Vec::new());
        let (mut first, mut first_instruction) = (0_u64, 0_u64);
        let mut flush = |refs: &mut Vec<Ref>, spans: &mut Vec<Span>, to: &mut dyn Analysis| {
            let batch = Batch {
                space: SpaceId(0),
                thread: ThreadId(1 + (first_instruction % 2) as u32),
                first: RefIndex(first),
                first_instruction,
                refs,
                spans,
                wide: false,
                blocks: &self.blocks,
            };
            if !spans.is_empty() {
                to.on_batch(&batch);
            }
            first_instruction += batch.instructions();
            first += refs.len() as u64;
            refs.clear();
            spans.clear();
            first
        };
        for step in &self.steps {
            match step {
                Step::Run { block, refs: of_block } => {
                    spans.push(Span { block: *block, first: refs.len() as u32 });
                    refs.extend(of_block);
                    if spans.len() >= 1000 {
                        flush(&mut refs, &mut spans, to);
                    }
                }
                Step::Event(event) => {
                    let at = flush(&mut refs, &mut spans, to);
                    to.on_event(RefIndex(at), event);
                }
            }
        }
        flush(&mut refs, &mut spans, to);
    }

    /// Writes the stream to a trace file.
    pub fn write(&self, path: &Path) {
        self.write_as(path, (1, 0), Origin::Start);
    }

    /// The same for a process with this number and parent.
    pub fn write_as(&self, path: &Path, (pid, parent): (u32, u32), origin: Origin) {
        let header = StreamHeader {
            pid,
            parent,
            program: "/bin/program".to_owned(),
            arguments: vec!["program".to_owned()],
            engine: "none".to_owned(),
            thp: "always".to_owned(),
            ..StreamHeader::unknown(origin)
        };
        let mut writer = Writer::new(std::fs::File::create(path).unwrap(), &header).unwrap();
        self.play(&mut writer);
        writer.finish().unwrap();
    }
}

/// Ignores progress.
pub struct Silent;

impl Progress for Silent {
    fn bytes(&self, _: u64) {}
}

/// The structure of a cell's operating system, if it has one.
pub fn structure(cell: &MachineCell) -> Option<StructureSpec> {
    let structure = cell.structure.as_deref().filter(|name| *name != "none");
    structure.map(|name| Structures::get(name).unwrap())
}

/// A cell's machine alone, in its operating system.
pub fn alone(cell: &MachineCell) -> Simulation {
    let machine = Library::get(&cell.machine).unwrap();
    let arrangement = Arrangement { structure: structure(cell), ..Arrangement::default() };
    Simulation::new(vec![HostKernel::new(ThpMode::Never).design(&machine)], &arrangement).unwrap()
}

/// What a simulation of one machine has counted, with its operating system's counts.
pub fn counted(alone: &mut Simulation) -> Metrics {
    let found = alone.counts();
    with_structure(metrics(&alone.finish()[0]), found.as_ref())
}

/// Adds an operating system's counts, if there is one.
pub fn with_structure(mut counted: Metrics, found: Option<&StructureCounts>) -> Metrics {
    found.iter().for_each(|found| add_structure(&mut counted, found));
    counted
}

/// A study of traces in `folder`.
pub fn study(folder: &Path, text: &str) -> Study {
    Study::from_toml("study.toml", &format!("schema = 1\nname = \"s\"\n{text}"), folder).unwrap()
}

/// The study's sweep, with units in `folder`.
pub fn sweep<'a>(study: &'a Study, folder: &Path, threads: usize, tool: &str) -> Sweep<'a> {
    let path = |spec: &pagewalk_sweep::TraceSpec| match spec {
        pagewalk_sweep::TraceSpec::File { path, .. } => vec![path.clone()],
        pagewalk_sweep::TraceSpec::Together { paths, .. } => paths.clone(),
        pagewalk_sweep::TraceSpec::Workload(_) => unreachable!("tests have files"),
    };
    let traces: Vec<Vec<PathBuf>> = study.traces.iter().map(path).collect();
    let [units, plans, claims] = ["units", "plans", "claims"].map(|name| folder.join(name));
    let claims = Claims::new(claims);
    let store = Store::Folder(units);
    let options = SweepOptions { version: "0", tool: tool.to_owned(), threads, store, plans, claims };
    Sweep::new(study, Stream::all(study, &traces, &Silent).unwrap(), options)
}
