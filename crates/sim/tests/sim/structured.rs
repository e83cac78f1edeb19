//! Programs in an operating system: references of the kernel and of servers come at the right places, and do not change
//! the programs' counters.

use crate::stream::{LOAD, Numbers, batch, block};
use pagewalk_mm::structure::{StructureSpec, Visitor};
use pagewalk_mm::{OsKernel, OsSpec, Small, ThpMode};
use pagewalk_sim::{
    Arrangement, DesignCounts, DesignSpec, HostKernel, Simulation, StructureCounts, Structures, held_orders,
};
use pagewalk_trace::{Analysis, Dictionary, Event, Ref, Span};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{RefIndex, VirtAddr};
use std::sync::Arc;

const READ: u32 = 0;
/// `getuid`: of no class of its own.
const OTHER: u32 = 102;

#[derive(Clone, Copy)]
enum Act {
    /// Executes a block of so many instructions that loads from a page.
    Load {
        page: u64,
        instructions: usize,
    },
    Call(u32),
}

use Act::{Call, Load};

/// One load of one instruction each.
fn load(page: u64) -> Act {
    Load { page, instructions: 1 }
}

/// A program's batch.
#[derive(Default)]
struct Held {
    blocks: Dictionary,
    refs: Vec<Ref>,
    spans: Vec<Span>,
    /// Loads and instructions before it.
    before: (u64, u64),
    instructions: u64,
}

impl Held {
    fn load(&mut self, page: u64, instructions: usize) {
        let block = self.blocks.intern(block((0..instructions).map(|n| 0x1000 + 4 * n as u64), &[LOAD]));
        self.spans.push(Span { block, first: self.refs.len() as u32 });
        self.refs.push(Ref::new(VirtAddr(page << 12), LOAD));
        self.instructions += instructions as u64;
    }

    fn hand_to(&mut self, analysis: &mut dyn Analysis) {
        if self.spans.is_empty() {
            return;
        }
        analysis.on_batch(&batch(self.before, &self.refs, &self.spans, &self.blocks));
        self.before.0 += self.refs.len() as u64;
        self.before.1 += std::mem::take(&mut self.instructions);
        self.refs.clear();
        self.spans.clear();
    }
}

/// Feeds a program in batches of at most `cut` executions.
fn feed(acts: &[Act], cut: usize, analysis: &mut dyn Analysis) {
    let mut held = Held::default();
    for act in acts {
        match *act {
            Load { page, instructions } => held.load(page, instructions),
            Call(number) => {
                held.hand_to(analysis);
                let at = RefIndex(held.before.0);
                analysis.on_event(at, &Event::Syscall { number, result: 0 });
            }
        }
        if held.spans.len() == cut {
            held.hand_to(analysis);
        }
    }
    held.hand_to(analysis);
}

/// One array for data of so many entries, another for code, and so many identifiers.
fn machine(entries: u32, asids: u32) -> MachineSpec {
    let text = format!(
        "schema = 1\nname = \"small\"\nasids = {asids}\n\
         [[tlb]]\nname = \"d\"\nlevel = 1\nserves = [\"load\", \"store\"]\npage_sizes = [\"4K\"]\nentries = {entries}\n\
         [[tlb]]\nname = \"i\"\nlevel = 1\nserves = [\"fetch\"]\npage_sizes = [\"4K\"]\nentries = {entries}\n\
         [walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\n"
    );
    MachineSpec::from_toml("small.toml", &text).unwrap()
}

/// The kernel touches one page at each call of no class and at each tick, and a server two at each read.
const SMALL: &str = r#"
schema = 1
name = "small"
[kernel]
touches = { other = 1, tick = 1 }
data = { pages = 1 }
stores = 0.0
[[server]]
name = "server"
share = { file = 1.0 }
text = { touches = 1, pages = 1 }
data = { touches = 1, pages = 1 }
stack = { touches = 0, pages = 1 }
"#;

fn structure(text: &str) -> StructureSpec {
    StructureSpec::from_toml("small.toml", text).unwrap()
}

fn run(
    machine: &MachineSpec,
    structure: Option<&StructureSpec>,
    acts: &[Act],
    cut: usize,
) -> (DesignCounts, Option<StructureCounts>) {
    let design = DesignSpec::new(machine, Arc::new(Small));
    let arrangement = Arrangement { structure: structure.cloned(), ..Arrangement::default() };
    let mut system = Simulation::new(vec![design], &arrangement).unwrap();
    feed(acts, cut, &mut system);
    (system.finish().remove(0), system.counts())
}

#[test]
fn visits_come_at_the_calls() {
    let (machine, small) = (machine(1, 0), structure(SMALL));
    let walks = |acts: &[Act]| {
        let (counts, _) = run(&machine, Some(&small), acts, 100);
        counts.walks_data
    };
    // The call comes between the pages: one miss for each of the three.
    assert_eq!(walks(&[load(1), load(1), Call(OTHER), load(2), load(2)]), 3);
    // A load later it would find page 2 there, and cost it a miss.
    assert_eq!(walks(&[load(1), load(1), load(2), Call(OTHER), load(2)]), 4);
    assert_eq!(walks(&[Call(OTHER), load(1), load(2), load(2), Call(OTHER)]), 4);
    // Calls without references cost nothing.
    assert_eq!(walks(&[load(1), Call(9), load(1)]), 1);
}

#[test]
fn the_clock_ticks_at_its_instructions() {
    let machine = machine(1, 0);
    let ticking = SMALL.replace("stores = 0.0", "stores = 0.0\ntick_instructions = 4");
    let small = structure(&ticking);
    let three = |page| Load { page, instructions: 3 };
    // The fourth instruction is of the second block, the eighth of the third: ticks after each, of four since the last.
    let acts = [three(1), three(2), three(3), three(3), three(3)];
    for cut in 1..=acts.len() {
        let (counts, did) = run(&machine, Some(&small), &acts, cut);
        assert_eq!(did.unwrap().ticks, 2);
        // Pages 1, 2, the kernel's, 3, the kernel's, 3.
        assert_eq!(counts.walks_data, 6, "in batches of {cut}");
    }
}

#[test]
fn servers_have_spaces_of_their_own() {
    let small = structure(SMALL);
    let acts = [load(1), Call(READ), load(1), Call(READ), load(1)];
    let walks = |asids| {
        let (counts, did) = run(&machine(8, asids), Some(&small), &acts, 9);
        let did = did.unwrap();
        assert_eq!((did.calls, did.server_visits, did.server_references), (2, 2, 4));
        (counts.walks_fetch, counts.walks_data)
    };
    // With identifiers each has its page of code and its page of data once.
    assert_eq!(walks(8), (2, 2));
    // Without, each switch there and back flushes them.
    assert_eq!(walks(0), (5, 5));
}

#[test]
fn the_kernels_pages_are_not_flushed() {
    let both = SMALL.replace("other = 1", "other = 1, file = 1");
    let acts = [load(1), Call(READ), load(1), Call(READ), load(1)];
    let (counts, did) = run(&machine(8, 0), Some(&structure(&both)), &acts, 9);
    assert_eq!(did.unwrap().kernel_references, 2);
    // The program's page three times and the server's twice, but the kernel's only once.
    assert_eq!(counts.walks_data, 3 + 2 + 1);
}

/// A program with calls at random places.
fn program(random: &mut Numbers) -> Vec<Act> {
    let act = |random: &mut Numbers| match random.below(12) {
        0 => Call(random.below(300) as u32),
        1 => Call(READ),
        2 => Call(OTHER),
        _ => Load { page: random.below(12), instructions: 1 + random.below(20) as usize },
    };
    (0..400).map(|_| act(random)).collect()
}

#[test]
fn batches_make_no_difference() {
    for name in Structures::names() {
        let mut structure = Structures::get(name).unwrap();
        structure.kernel.tick_instructions = 50;
        let mut random = Numbers(7);
        for (entries, asids) in [(4, 0), (16, 2), (16, 64)] {
            let (machine, acts) = (machine(entries, asids), program(&mut random));
            let whole = run(&machine, Some(&structure), &acts, usize::MAX);
            for cut in [1, 3, 64] {
                assert_eq!(run(&machine, Some(&structure), &acts, cut), whole, "{name}, batches of {cut}");
            }
        }
    }
}

/// Engines on threads have the structure for themselves, and count as each does alone.
#[test]
fn threads_make_no_difference() {
    let mut random = Numbers(11);
    let mut structure = Structures::get("mach3").unwrap();
    structure.kernel.tick_instructions = 50;
    let (plain, acts) = (machine(16, 2), program(&mut random));
    let kernel = OsSpec::from_text("fixed").unwrap().build(plain.paging, held_orders(&plain)).unwrap();
    let OsKernel::Running(kernel) = kernel else { unreachable!("it knows no future") };
    let host = DesignSpec::new(&plain, Arc::new(Small));
    let designs = [host, DesignSpec::with_kernel("fixed".to_owned(), &plain, *kernel)];
    let arrangement = Arrangement { structure: Some(structure), ..Arrangement::default() };
    let counts = |designs: &[DesignSpec], stretch: usize| {
        let mut system = Simulation::new(designs.to_vec(), &arrangement).unwrap().on_threads(2, stretch);
        feed(&acts, 10, &mut system);
        (system.finish(), system.counts().unwrap(), system.visitor_counts())
    };
    let alone = designs.each_ref().map(|design| counts(std::slice::from_ref(design), 1).0.remove(0));
    let first = counts(&designs[..1], 1);
    assert!(first.1.ticks > 0 && first.1.server_visits > 0, "{:?}", first.1);
    for stretch in [1, 30, 1 << 20] {
        let (together, did, visitors) = counts(&designs, stretch);
        assert_eq!((&together[..], did, visitors), (&alone[..], first.1, first.2.clone()), "{stretch}");
    }
}

#[test]
fn programs_count_as_without() {
    let mut random = Numbers(3);
    let acts = program(&mut random);
    let machine = machine(16, 64);
    let (alone, none) = run(&machine, None, &acts, 50);
    assert_eq!(none, None);
    for name in Structures::names() {
        let structure = Structures::get(name).unwrap();
        let (counts, did) = run(&machine, Some(&structure), &acts, 50);
        let of = |counts: &DesignCounts| {
            (counts.instructions, counts.fetch_references, counts.data_references, counts.pages_touched)
        };
        assert_eq!(of(&counts), of(&alone), "{name}");
        let calls = acts.iter().filter(|act| matches!(act, Call(_))).count();
        assert_eq!(did.unwrap().calls, calls as u64);
        assert!(counts.walks() >= alone.walks(), "{name}");
    }
}

#[test]
fn walks_are_charged_to_who_makes_them() {
    let structure = Structures::get("mach3").unwrap();
    let acts = program(&mut Numbers(5));
    let host = HostKernel::new(ThpMode::Never);
    let arrangement = Arrangement { structure: Some(structure), ..Arrangement::default() };
    let mut system = Simulation::new(vec![host.design(&machine(16, 64))], &arrangement).unwrap();
    feed(&acts, 10, &mut system);
    let (programs, visitors) = (system.program_counts(), system.visitor_counts());
    let did = system.counts().unwrap();
    let counts = system.finish().remove(0);
    assert_eq!(programs.iter().map(|(asid, _)| *asid).collect::<Vec<_>>(), [Asid::default()]);
    assert_eq!(
        visitors.iter().map(|(who, _)| *who).collect::<Vec<_>>(),
        [Visitor::Kernel, Visitor::Server(0)]
    );
    let all = programs.iter().map(|(_, one)| one).chain(visitors.iter().map(|(_, one)| one));
    assert_eq!(all.map(|one| one.walks_fetch + one.walks_data).sum::<u64>(), counts.walks());
    assert_eq!(programs[0].1.data_references, counts.data_references);
    assert_eq!(visitors[0].1.data_references, did.kernel_references);
    let server = visitors[1].1;
    assert_eq!(server.instructions + server.data_references, did.server_references);
}
