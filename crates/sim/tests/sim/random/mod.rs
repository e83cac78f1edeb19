//! Random machines and programs from one seed.

use pagewalk_setassoc::{RelevantHits, Replacement};
use pagewalk_trace::{
    Block, BlockEnd, Dictionary, Event, FileIdentity, Instruction, Mapping, MappingKind, Protection, Site,
    ThpDisable,
};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Access, BlockId, Draws, Kind, Size, ThreadId, VirtAddr};
use std::collections::BTreeMap;

/// Draws by remainder, not by product as [`Draws::below`]: so seeds keep their machines and programs.
#[derive(Clone)]
pub struct Random(Draws);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Draws::new(seed))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.draw() % n
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

pub struct Program {
    /// The thread that runs it.
    pub thread: ThreadId,
    pub blocks: Dictionary,
    pub ops: Vec<Op>,
}

/// An operation of a program. Advice is about huge pages, given as the number for `madvise`.
#[derive(Clone, Debug)]
pub enum Op {
    Run {
        block: BlockId,
        addresses: Vec<u64>,
    },
    Map {
        start: u64,
        pages: u64,
        anonymous: bool,
    },
    Unmap {
        start: u64,
        pages: u64,
    },
    MapFile {
        start: u64,
        pages: u64,
        file: u64,
        offset: u64,
        rights: u8,
    },
    Discard {
        start: u64,
        pages: u64,
    },
    Advise {
        start: u64,
        pages: u64,
        advice: i32,
    },
    Protect {
        start: u64,
        pages: u64,
        rights: u8,
    },
    /// Memory of hugetlb, whose pages have so many pieces of 4 KiB.
    MapHuge {
        start: u64,
        pages: u64,
        page: u64,
    },
    /// What the process forbids of transparent huge pages: nothing, all, those that were not advised.
    Forbid(u8),
}

/// All rights: 2 to write, 1 to execute.
pub const ALL: u8 = 3;
/// Not even the right to read.
pub const NONE: u8 = 4;

impl Op {
    /// The event for this operation.
    pub fn event(&self) -> Event {
        let protection = |rights: u8| Protection {
            read: rights & NONE == 0,
            write: rights & 2 != 0,
            execute: rights & 1 != 0,
        };
        let at = |start: u64| VirtAddr(start << 12);
        match *self {
            Op::Run { .. } => unreachable!("not an event"),
            Op::Map { start, pages, anonymous } => Event::Map(Mapping {
                protection: protection(ALL),
                kind: if anonymous { MappingKind::Anonymous } else { MappingKind::SharedAnonymous },
                ..Mapping::anonymous(at(start), pages << 12)
            }),
            Op::MapFile { start, pages, file, offset, rights } => Event::Map(Mapping {
                start: at(start),
                bytes: pages << 12,
                protection: protection(rights),
                // Anonymous memory over part of a private mapping would be its [bss], and an area of its own.
                kind: MappingKind::SharedFile,
                file: Some(FileIdentity {
                    path: format!("/file{file}"),
                    offset: offset << 12,
                    build_id: None,
                }),
                page_bytes: 4096,
            }),
            Op::MapHuge { start, pages, page } => Event::Map(Mapping {
                protection: protection(ALL),
                page_bytes: page << 12,
                ..Mapping::anonymous(at(start), pages << 12)
            }),
            Op::Forbid(mode) => {
                Event::ThpDisable { mode: ThpDisable::from_code(mode.into()).expect("one of the three") }
            }
            Op::Unmap { start, pages } => Event::Unmap { start: at(start), bytes: pages << 12 },
            Op::Discard { start, pages } => Event::Advise { start: at(start), bytes: pages << 12, advice: 4 },
            Op::Advise { start, pages, advice } => {
                Event::Advise { start: at(start), bytes: pages << 12, advice }
            }
            Op::Protect { start, pages, rights } => {
                Event::Protect { start: at(start), bytes: pages << 12, protection: protection(rights) }
            }
        }
    }
}

/// First page of the region in which everything happens, 2 MiB aligned: five blocks.
const REGION: u64 = 0x7_f000;
const REGION_PAGES: u64 = 5 * 512;

/// The pieces of memory of a program whose mappings stay.
const PIECES: [(u64, u64); 3] =
    [(REGION, REGION_PAGES), (REGION + 2 * REGION_PAGES, 700), (REGION + 5 * REGION_PAGES, 40)];

/// A program: with `changes`, one that maps, unmaps, discards, advises and protects as it runs, these libraries among
/// others; otherwise one with three pieces of memory that are not neighbours and stay as they are.
pub fn program(random: &mut Random, changes: bool, libraries: &[Library]) -> Program {
    let mut blocks = Dictionary::default();
    let ids: Vec<BlockId> = (0..1 + random.below(25)).map(|_| blocks.intern(block(random))).collect();
    if !changes {
        let ops = steady_ops(random, &blocks, &ids);
        return Program { thread: ThreadId(1), blocks, ops };
    }
    let mut ops = vec![Op::Map { start: REGION, pages: REGION_PAGES, anonymous: random.below(4) > 0 }];
    let spread = random.of(&[1, 8, 40, 600, REGION_PAGES]);
    for _ in 0..random.below(1500) {
        ops.push(match random.below(60) {
            0 => change(random),
            _ => {
                let block = random.of(&ids);
                let sites = blocks.get(block).sites.len();
                let addresses = (0..sites).map(|_| address(random, spread)).collect();
                Op::Run { block, addresses }
            }
        });
    }
    if !libraries.is_empty() {
        map_files(random, &mut ops, libraries);
    }
    Program { thread: ThreadId(1), blocks, ops }
}

fn change(random: &mut Random) -> Op {
    let start = REGION + random.below(REGION_PAGES);
    let longest = REGION + REGION_PAGES - start;
    let limit = random.of(&[1, 4, 512, 1500]);
    let pages = (1 + random.below(limit)).min(longest);
    match random.below(6) {
        0 => Op::Unmap { start, pages },
        1 => Op::Discard { start, pages },
        2 => Op::Protect { start, pages, rights: ALL },
        3 => Op::Map { start, pages, anonymous: random.below(3) > 0 },
        // For huge pages and against them.
        4 => Op::Advise { start, pages, advice: random.of(&[14, 15]) },
        // The whole region anew, so that huge pages stay possible.
        _ => Op::Map { start: REGION, pages: REGION_PAGES, anonymous: true },
    }
}

/// A piece of a file at a place where programs may agree to have it.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    start: u64,
    pages: u64,
    file: u64,
    offset: u64,
}

/// Some libraries, at places where programs have code and data.
pub fn libraries(random: &mut Random) -> Vec<Library> {
    let library = |random: &mut Random| Library {
        start: REGION + random.of(&[0, 0, 490, 500, 512, 1024]) + random.below(8),
        pages: random.of(&[1, 20, 40, 600]),
        file: random.below(2),
        offset: random.below(3) * 16,
    };
    (0..1 + random.below(4)).map(|_| library(random)).collect()
}

/// Adds operations that map files, mostly as these libraries are, and change that again.
fn map_files(random: &mut Random, ops: &mut Vec<Op>, libraries: &[Library]) {
    for library in libraries.iter().filter(|_| random.below(4) > 0).copied().collect::<Vec<_>>() {
        let op = map_file(random, library);
        ops.insert(1, op);
    }
    for _ in 0..random.below(12) {
        let library = random.of(libraries);
        let op = match random.below(3) {
            0 => map_file(random, library),
            1 => Op::Discard { start: library.start, pages: 1 + random.below(library.pages) },
            _ => {
                let from = random.below(library.pages);
                let pages = 1 + random.below(library.pages - from);
                Op::Protect { start: library.start + from, pages, rights: random.of(&[0, 1, 1, 2, ALL]) }
            }
        };
        let at = 1 + random.below(ops.len() as u64) as usize;
        ops.insert(at, op);
    }
}

/// Adds memory of hugetlb, and changes of what the process forbids. Calls that would change a page of hugetlb in
/// part take
/// all of it, as the kernel refuses others; advice on huge pages is refused there.
pub fn add_hugetlb(random: &mut Random, program: &mut Program) {
    for _ in 0..1 + random.below(6) {
        let at = 1 + random.below(program.ops.len() as u64) as usize;
        let page = random.of(&[512, 512, 512, 16, 4]);
        let first = random.below(REGION_PAGES / page);
        let most = (REGION_PAGES / page - first).min(random.of(&[1, 2, 5]));
        let (start, pages) = (REGION + first * page, (1 + random.below(most)) * page);
        program.ops.insert(at, Op::MapHuge { start, pages, page });
    }
    for _ in 0..random.below(4) {
        let at = random.below(program.ops.len() as u64 + 1) as usize;
        program.ops.insert(at, Op::Forbid(random.below(3) as u8));
    }
    // Page by page of 4 KiB: how many its page has.
    let mut hugetlb: BTreeMap<u64, u64> = BTreeMap::new();
    program.ops.retain_mut(|op| follow_hugetlb(op, &mut hugetlb));
}

/// Widens an operation to whole pages of hugetlb. False for one that the kernel refuses.
fn follow_hugetlb(op: &mut Op, hugetlb: &mut BTreeMap<u64, u64>) -> bool {
    if let Op::Advise { start, pages, .. } = *op {
        return hugetlb.range(start..start + pages).next().is_none();
    }
    let (start, pages) = match op {
        Op::Map { start, pages, .. }
        | Op::MapHuge { start, pages, .. }
        | Op::MapFile { start, pages, .. }
        | Op::Unmap { start, pages }
        | Op::Discard { start, pages }
        | Op::Protect { start, pages, .. } => (start, pages),
        Op::Run { .. } | Op::Advise { .. } | Op::Forbid(_) => return true,
    };
    let whole = |at: u64, hugetlb: &BTreeMap<u64, u64>| {
        hugetlb.get(&at).map(|&page| at / page * page..at / page * page + page)
    };
    let (mut first, mut end) = (*start, *start + *pages);
    first = whole(first, hugetlb).map_or(first, |page| page.start);
    end = whole(end - 1, hugetlb).map_or(end, |page| page.end);
    (*start, *pages) = (first, end - first);
    if !matches!(op, Op::Discard { .. } | Op::Protect { .. }) {
        hugetlb.retain(|at, _| !(first..end).contains(at));
    }
    if let Op::MapHuge { page, .. } = *op {
        hugetlb.extend((first..end).map(|at| (at, page)));
    }
    true
}

fn map_file(random: &mut Random, Library { start, pages, file, offset }: Library) -> Op {
    let offset = offset + random.of(&[0, 0, 0, 0, 1]);
    Op::MapFile { start, pages, file, offset, rights: random.of(&[1, 1, 1, 1, 0, ALL]) }
}

fn address(random: &mut Random, spread: u64) -> u64 {
    let page = match random.below(3) {
        0 => REGION + random.below(spread),
        1 => REGION + 500 + random.below(24),
        _ => REGION + random.below(spread) * 37 % (REGION_PAGES - 8),
    };
    // Near the end of a page often, so that references cross.
    let offset = if random.below(4) == 0 { 4095 - random.below(70) } else { random.below(4096) };
    page << 12 | offset
}

fn block(random: &mut Random) -> Block {
    let mut at = (REGION + random.of(&[2, 500, 520, 1030]) + random.below(12)) << 12;
    at += if random.below(3) == 0 { 4095 - random.below(20) } else { random.below(4000) };
    let mut instructions = Vec::new();
    let mut sites = Vec::new();
    for i in 0..random.below(8) {
        if random.below(10) == 0 {
            at += 4096 * random.below(3); // The engine follows unconditional jumps.
        }
        let length = 1 + random.below(15) as u8;
        instructions.push(Instruction { address: VirtAddr(at), length });
        at += u64::from(length);
        for _ in 0..random.of(&[0, 0, 1, 1, 2, 3]) {
            let kind = random.of(&[Kind::Load, Kind::Load, Kind::Store, Kind::Modify]);
            let bytes = random.of(&[1, 4, 8, 8, 10, 32, 64, 512, 8192]);
            let bytes = if bytes > 64 && random.below(8) > 0 { 8 } else { bytes };
            let size = Size::of_bytes(bytes).expect("one of the sizes");
            sites.push(Site { instruction: i as u16, access: Access { kind, size } });
        }
    }
    Block {
        instructions: instructions.into(),
        sites: sites.into(),
        code: Box::default(),
        end: BlockEnd::Jump,
    }
}

/// A base page and a huge page, as machine files have them.
pub type Pages = (&'static str, &'static str);

/// Those of x86-64 often, else those of other formats or small huge pages, which programs fill.
pub fn pages(random: &mut Random) -> Pages {
    match random.below(3) {
        0 => ("4K", "2M"),
        1 => random.of(&[("16K", "32M"), ("64K", "512M"), ("8K", "8M")]),
        _ => random.of(&[("4K", "16K"), ("8K", "32K"), ("16K", "256K"), ("64K", "128K"), ("16K", "2M")]),
    }
}

pub fn machine(random: &mut Random, index: usize, (base, huge): Pages) -> MachineSpec {
    let mut text = format!("schema = 1\nname = \"m{index}\"\n");
    let (base_size, huge_size) = (format!("\"{base}\""), format!("\"{huge}\""));
    let both = format!("{base_size}, {huge_size}");
    let data = |random: &mut Random, text: &mut String, name: &str, serves: &str| {
        let shape = random.below(3);
        let sizes = [&base_size, &both, &base_size][shape as usize];
        text.push_str(&tlb(random, name, 1, serves, sizes, base));
        if shape == 2 {
            text.push_str(&tlb(random, &format!("{name}_huge"), 1, serves, &huge_size, base));
        }
    };
    match random.below(5) {
        0 => data(random, &mut text, "l1", r#""fetch", "load", "store""#),
        1 => {
            data(random, &mut text, "l1i", r#""fetch""#);
            data(random, &mut text, "load", r#""load""#);
            data(random, &mut text, "store", r#""store""#);
        }
        2 => data(random, &mut text, "l1d", r#""load", "store""#),
        _ => {
            data(random, &mut text, "l1i", r#""fetch""#);
            data(random, &mut text, "l1d", r#""load", "store""#);
        }
    }
    let all = r#""fetch", "load", "store""#;
    // Without lower levels the first has to serve everything.
    let shapes = if text.contains("\"fetch\"") { 9 } else { 8 };
    match random.below(shapes) / 2 {
        0 => {
            text.push_str(&tlb(random, "l2", 2, all, &base_size, base));
            text.push_str(&tlb(random, "l2_huge", 2, all, &huge_size, base));
        }
        1 => {
            for (name, level) in [("l2", 2), ("l3", 3)] {
                let sizes = random.of(&[&base_size, &both]);
                text.push_str(&tlb(random, name, level, all, sizes, base));
            }
        }
        2 => text.push_str(&tlb(random, "l2", 2, all, &base_size, base)),
        3 => text.push_str(&tlb(random, "l2", 2, all, &both, base)),
        _ => {}
    }
    if text.contains("\"victims\"") {
        // These two cannot be combined.
        text = text.replace("pages_per_entry = 2", "").replace("pages_per_entry = 4", "");
    }
    let mut text = with_prefetching(random, &text);
    text += &walker(random, (base, huge));
    MachineSpec::from_toml("random.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A walker that maps these pages, mostly a radix one where some format has them.
fn walker(random: &mut Random, (base, huge): Pages) -> String {
    let formats: &[(&str, u64)] = match (base, huge) {
        ("4K", "2M") => &[
            ("x86-64", 4),
            ("x86-64", 5),
            ("aarch64-4k", 3),
            ("aarch64-4k", 4),
            ("riscv-sv39", 3),
            ("riscv-sv48", 4),
            ("riscv-sv57", 5),
        ],
        ("16K", "32M") => &[("aarch64-16k", 3), ("aarch64-16k", 4)],
        ("64K", "512M") => &[("aarch64-64k", 2), ("aarch64-64k", 3)],
        _ => &[],
    };
    let cost = "[cost]\nl2_hit = 7\nwalk_reference = 20\ncycles_per_instruction = 0.5\n";
    if formats.is_empty() || random.below(4) == 0 {
        let paging = format!("[paging]\nbase = \"{base}\"\nhuge = \"{huge}\"\n");
        if random.below(4) == 0 {
            return format!(
                "{paging}[walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\nl2_hit = 7\n"
            );
        }
        let (buckets, entries) = (random.of(&[1, 4, 32, 256]), random.of(&[1, 2, 4, 8]));
        let index = random.of(&["modulo", "xor-fold", "xor-2"]);
        return format!(
            "{paging}[walker]\nkind = \"hashed\"\nbuckets = {buckets}\nentries_per_bucket = {entries}\n\
             index = \"{index}\"\n{cost}"
        );
    }
    let (format, levels) = random.of(formats);
    let nested = format == "x86-64" && random.below(2) == 0;
    let kind = if nested { "nested" } else { "radix" };
    let mut text = format!("[walker]\nkind = \"{kind}\"\nformat = \"{format}\"\nlevels = {levels}\n");
    if nested {
        text += &nested_caches(random);
    }
    let names = match &format[..3] {
        "x86" => ["pde", "pdpte", "pml4", "pml5"],
        "aar" => ["l2", "l1", "l0", ""],
        _ => ["l1", "l2", "l3", "l4"],
    };
    text += &walk_caches(random, "walker.caches", &names[..levels as usize - 1]);
    if nested {
        let levels = 4 + random.below(2);
        let page = random.of(&["4K", "4K", "2M", "1G"]);
        text += &format!("[walker.host]\nlevels = {levels}\npage_size = \"{page}\"\n");
        text += &walk_caches(random, "walker.host.caches", &names[..levels as usize - 1]);
    }
    text + &if random.below(3) == 0 { memory(random) } else { cost.to_owned() }
}

/// Caches of memory, and what comes with them.
fn memory(random: &mut Random) -> String {
    let mut text = String::new();
    let mut is_virtual = true;
    let lines = random.of(&[[64; 3], [16, 64, 64], [32, 64, 128]]);
    let walk = random.of(&["", ", \"walk\""]);
    let all = "\"fetch\", \"load\", \"store\", \"walk\"";
    let caches = [
        ("l1i", 1, "\"fetch\"".to_owned()),
        ("l1d", 1, format!("\"load\", \"store\"{walk}")),
        ("l2", 2, all.to_owned()),
        ("l3", 3, all.to_owned()),
    ];
    for (name, level, serves) in caches {
        if name == "l2" || random.below(3) > 0 {
            let (sets, ways) = (random.of(&[1, 4, 16, 64]), random.of(&[1, 2, 3, 4]));
            let slices = if name == "l3" { random.of(&[1, 2, 3]) } else { 1 };
            let line = lines[level as usize - 1];
            let rules = replacement(random, ways, 2).join("\n");
            let rules = if random.below(3) == 0 { String::new() } else { rules };
            text += &format!(
                "[[cache]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\nsize = \"{}\"\nways = {ways}\n\
                 line = {line}\nlatency = {}\n{}\n",
                sets * ways * line * slices,
                4 * level * level,
                rules
            );
            let writes_through = random.below(3) == 0;
            if writes_through {
                text += "stores = \"through\"\n";
                if name != "l1i" && random.below(2) == 0 {
                    text +=
                        &format!("write_buffer = {}\ndrain = {}\n", 1 + random.below(4), 1 + random.below(9));
                }
            }
            if slices > 1 {
                text += &format!("slices = {slices}\nslice_hash = \"unknown\"\n");
            }
            let kind = if ways == 1 { "column" } else { "pseudo" };
            let fits = ways == 1 && sets > 1 || ways == 2;
            if fits && slices == 1 && !rules.contains("replacement") && random.below(2) == 0 {
                text += &format!("organisation = \"{kind}\"\nslow_latency = {}\n", 4 * level * level + 3);
            }
            // Some cache above, and all of them hold only what this one may hold.
            let may_include = level > 1 && !writes_through && text.matches("[[cache]]").count() > 1;
            if may_include && !text.contains("\"virtual\"") && random.below(3) == 0 {
                text += "inclusive = true\n";
                is_virtual = false;
            }
            is_virtual &= random.below(3) == 0;
            text += if is_virtual { "address = \"virtual\"\n" } else { "" };
        }
    }
    text + "[cost]\nl2_hit = 7\nmemory = 200\n"
}

/// Some of the caches that only nested walkers have.
fn nested_caches(random: &mut Random) -> String {
    let mut text = String::new();
    for (name, more) in [("nested_tlb", ", serves_pages = true"), ("nested_tlb", ""), ("entry_cache", "")] {
        if random.below(3) == 0 && !text.contains(name) {
            text += &format!("{name} = {{ {}{more} }}\n", cache(random));
        }
    }
    text
}

/// A table with some of the page-walk caches of these names.
fn walk_caches(random: &mut Random, table: &str, names: &[&str]) -> String {
    let mut text = format!("[{table}]\n");
    for name in names {
        if random.below(3) > 0 {
            text += &format!("{name} = {{ {} }}\n", cache(random));
        }
    }
    text
}

/// The keys of a small cache.
fn cache(random: &mut Random) -> String {
    let (sets, ways) = (random.of(&[1, 2]), random.of(&[1, 2, 3, 4]));
    format!("entries = {}, ways = {ways}, {}", sets * ways, replacement(random, ways, 2).join(", "))
}

fn tlb(random: &mut Random, name: &str, level: u8, serves: &str, sizes: &str, base: &str) -> String {
    let sets = random.of(&[1, 1, 2, 4, 16]);
    // Least-recently-used sets of more than eight ways are kept in another form, and so are trees of more than 64.
    let large = sets == 1 && random.below(8) == 0;
    let ways = if large { random.of(&[48, 64, 96, 128]) } else { random.of(&[1, 2, 3, 4, 6, 8, 12, 16u32]) };
    let reserved = if sets == 1 { random.of(&[0, 0, 2]) } else { 0 };
    let ways_key = if reserved == 0 { format!("ways = {ways}\n") } else { String::new() };
    let index = random.of(&["modulo", "modulo", "xor-fold", "xor-2"]);
    // An array of huge pages alone may have none above it that gives it victims.
    let fills = if level > 1 && sizes.contains(base) { random.of(&["walks", "victims"]) } else { "walks" };
    let pages = if level > 1 { random.of(&[1, 1, 2, 4]) } else { 1 };
    let mut keys = replacement(random, ways, level);
    // Each size of a skewed array has as many ways.
    let fits = ways.is_multiple_of(sizes.matches(',').count() as u32 + 1);
    let index = if fits && random.below(5) == 0 { "skewed" } else { index };
    if index == "skewed" {
        keys.clear();
    }
    format!(
        "[[tlb]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\npage_sizes = [{sizes}]\n\
         entries = {}\n{ways_key}reserved = {reserved}\nindex = \"{index}\"\nfills = \"{fills}\"\n\
         pages_per_entry = {pages}\n{}\n",
        sets * ways + reserved,
        keys.join("\n")
    )
}

/// The same arrays, some of those of the last level with prefetchers.
pub fn with_prefetching(random: &mut Random, arrays: &str) -> String {
    let last =
        (1..=3).rfind(|level| arrays.contains(&format!("level = {level}"))).expect("there is an array");
    let array = |array: &str| {
        if !array.contains(&format!("level = {last}")) || random.below(3) > 0 {
            return array.to_owned();
        }
        format!("{array}prefetch = {{ kind = \"next-page\", {} }}\n", cache(random))
    };
    arrays.split("[[tlb]]").map(array).collect::<Vec<_>>().join("[[tlb]]")
}

/// Keys for the replacement policy of sets with this number of ways: often LRU.
pub fn replacement(random: &mut Random, ways: u32, level: u8) -> Vec<String> {
    let seed = random.below(5);
    let name = loop {
        let name = random.of(&Replacement::NAMES);
        let replacement = Replacement::from_name(name, seed).expect("one of the names");
        // A first level does not see repeated hits.
        let told = level > 1 || replacement.relevant_hits() != RelevantHits::Each;
        if told && replacement.serves(ways as usize).is_ok() {
            break if random.below(3) == 0 { "lru" } else { name };
        }
    };
    let mut keys = vec![format!("replacement = \"{name}\"")];
    if Replacement::from_name(name, seed).is_some_and(Replacement::draws) {
        keys.push(format!("seed = {seed}"));
    }
    keys
}

fn steady_ops(random: &mut Random, blocks: &Dictionary, ids: &[BlockId]) -> Vec<Op> {
    let maps = PIECES.iter().map(|&(start, pages)| Op::Map { start, pages, anonymous: true });
    let mut ops: Vec<Op> = maps.collect();
    let spread = random.of(&[1, 8, 40, 600]);
    for _ in 0..random.below(1500) {
        let block = random.of(ids);
        let mut address = || {
            let (start, pages) = random.of(&PIECES);
            // Far enough from the end for the longest reference.
            (start + random.below(spread.min(pages - 8))) << 12 | random.below(4096)
        };
        let addresses = blocks.get(block).sites.iter().map(|_| address()).collect();
        ops.push(Op::Run { block, addresses });
    }
    ops
}
