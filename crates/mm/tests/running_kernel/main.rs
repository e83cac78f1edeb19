//! The Linux model against the kernel that runs here: a small program maps, touches, advises and unmaps; after every
//! operation, each of its mappings must have as many bytes in huge pages as the model says.
//!
//! Skipped, with the reason, where the kernel has no huge pages for the program, or is of another kind than the one
//! that is modelled: Linux 6.14 or later (which frees page tables that discarding leaves empty) on x86-64. khugepaged
//! and a lack of free blocks change what the kernel does at times that no model knows: a run during which either was at
//! work is done again.

#[path = "../mm/common/mod.rs"]
#[expect(dead_code, reason = "other tests have more kernels")]
mod common;

use common::{PAGE, Process};
use pagewalk_mm::ThpMode;
use pagewalk_mm::promotion::{Khugepaged, Linux, LinuxSettings, MADV_COLLAPSE, SizeMode};
use pagewalk_oracle::cases;
use pagewalk_skip::{Need, skip};
use pagewalk_trace::MappingKind;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SYSFS: &str = "/sys/kernel/mm/transparent_hugepage";
const DONTNEED: i32 = 4;
const HUGEPAGE: i32 = 14;
const NOHUGEPAGE: i32 = 15;

/// Base pages of a huge page.
const BLOCK: u64 = 512;

/// Instructions after which the model's khugepaged has gone through a program's memory.
const FULL_SCAN: u64 = 1000;

/// First pages and numbers of pages, counted from the arena's first page.
#[derive(Clone, Copy, Debug)]
enum Op {
    Map(u64, u64),
    Unmap(u64, u64),
    Protect(u64, u64, bool),
    Advise(u64, u64, i32),
    Touch(u64),
    /// khugepaged goes through all memory so many times.
    Scans(u64),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Map(first, pages) => write!(f, "map {first} {pages}"),
            Op::Unmap(first, pages) => write!(f, "unmap {first} {pages}"),
            Op::Protect(first, pages, write) => write!(f, "protect {first} {pages} {}", u8::from(*write)),
            Op::Advise(first, pages, advice) => write!(f, "advise {first} {pages} {advice}"),
            Op::Touch(page) => write!(f, "touch {page}"),
            Op::Scans(count) => write!(f, "scans {count}"),
        }
    }
}

/// One program: operations on an arena of its own, of so many blocks.
struct Program {
    name: String,
    blocks: u64,
    ops: Vec<Op>,
}

/// An example for each rule of the documentation.
fn examples() -> Vec<Program> {
    use Op::{Advise, Map, Protect, Touch, Unmap};
    let program = |name: &str, ops: &[Op]| Program { name: name.to_owned(), blocks: 4, ops: ops.to_vec() };
    let advised = |first, pages| [Map(first, pages), Advise(first, pages, HUGEPAGE)];
    let all = advised(0, 4 * BLOCK);
    let with = |rest: &[Op]| [&all, rest].concat();
    vec![
        program("no advice", &[Map(0, 4 * BLOCK), Touch(0), Touch(BLOCK + 5)]),
        program("whole blocks", &with(&[Touch(0), Touch(1), Touch(BLOCK + 5), Touch(4 * BLOCK - 1)])),
        program(
            "blocks that reach out",
            &[
                advised(100, 2 * BLOCK)[0],
                advised(100, 2 * BLOCK)[1],
                Touch(100),
                Touch(BLOCK),
                Touch(2 * BLOCK + 3),
            ],
        ),
        program("advised against", &with(&[Advise(BLOCK, BLOCK, NOHUGEPAGE), Touch(0), Touch(BLOCK)])),
        program(
            "populated before advice",
            &[Map(0, 4 * BLOCK), Touch(7), Advise(0, 4 * BLOCK, HUGEPAGE), Touch(8), Touch(BLOCK)],
        ),
        program("unmapped in part", &with(&[Touch(0), Touch(BLOCK), Unmap(BLOCK + 8, 8)])),
        program(
            "unmapped and mapped again",
            &[&with(&[Touch(0), Unmap(0, 2 * BLOCK)])[..], &advised(0, 2 * BLOCK), &[Touch(3)]].concat(),
        ),
        program("protected in part", &with(&[Touch(0), Protect(8, 8, false), Touch(BLOCK)])),
        program(
            "protected and back",
            &with(&[Touch(0), Protect(0, 8, false), Protect(0, 8, true), Touch(9)]),
        ),
        program("discarded whole", &with(&[Touch(0), Advise(0, BLOCK, DONTNEED), Touch(1)])),
        program("discarded in part", &with(&[Touch(0), Advise(0, 8, DONTNEED), Touch(1)])),
        program("advice divides a page", &with(&[Touch(0), Advise(0, 8, NOHUGEPAGE)])),
        program("advice once more", &with(&[Touch(0), Advise(0, 8, HUGEPAGE)])),
        program(
            "areas that grow together",
            &[&advised(0, 300)[..], &advised(300, BLOCK - 300), &[Touch(400)]].concat(),
        ),
        program("collapse", &[Map(0, 4 * BLOCK), Touch(7), Touch(BLOCK), Advise(0, BLOCK, MADV_COLLAPSE)]),
        program(
            "collapse of parts",
            &[Map(0, 4 * BLOCK), Touch(BLOCK + 1), Touch(2 * BLOCK), Advise(300, 2 * BLOCK, MADV_COLLAPSE)],
        ),
        program(
            "collapse after discarding",
            &with(&[Touch(0), Advise(8, 8, DONTNEED), Advise(0, BLOCK, MADV_COLLAPSE), Touch(9)]),
        ),
    ]
}

/// A sequence of numbers that a seed fixes (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Operations that are possible, on an arena of six blocks.
fn random_program(seed: u64) -> Program {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let blocks = 6;
    let mut mapped = vec![None; (blocks * BLOCK) as usize];
    let mut ops = Vec::new();
    while ops.len() < 40 {
        // Ends at blocks, near them, or anywhere.
        let mut end = || match random.below(3) {
            0 => random.below(blocks + 1) * BLOCK,
            1 => (random.below(blocks) * BLOCK) + random.below(4),
            _ => random.below(blocks * BLOCK),
        };
        let (a, b) = (end(), end());
        let (first, pages) = (a.min(b), a.abs_diff(b));
        let range = first as usize..(first + pages) as usize;
        if pages == 0 {
            continue;
        }
        let kind = random.below(16);
        let op = match kind {
            0..3 if mapped[range.clone()].iter().all(Option::is_none) => Op::Map(first, pages),
            3 => Op::Unmap(first, pages),
            4..10 => Op::Touch(first + random.below(pages)),
            // Other calls are for memory without holes.
            _ if mapped[range.clone()].iter().any(Option::is_none) => continue,
            10 => Op::Protect(first, pages, random.below(2) == 0),
            11 => Op::Advise(first, pages, DONTNEED),
            12 => Op::Advise(first, pages, NOHUGEPAGE),
            // A block at a time: what a call that fails at one block does to others is up to the version.
            13 => Op::Advise(first / BLOCK * BLOCK, BLOCK, MADV_COLLAPSE),
            _ => Op::Advise(first, pages, HUGEPAGE),
        };
        match op {
            Op::Map(..) => mapped[range].fill(Some(true)),
            Op::Unmap(..) => mapped[range].fill(None),
            Op::Protect(_, _, write) => mapped[range].fill(Some(write)),
            Op::Touch(page) if mapped[page as usize] != Some(true) => continue,
            _ => {}
        }
        ops.push(op);
    }
    Program { name: format!("random program {seed}"), blocks, ops }
}

/// A mapping: its first page, its pages and its bytes in huge pages.
type Line = [u64; 3];

/// Runs all programs in one process: the mappings of each after each operation.
fn run_here(binary: &Path, programs: &[Program]) -> Vec<Vec<Vec<Line>>> {
    let mut script = String::new();
    for (n, program) in programs.iter().enumerate() {
        script += &format!("arena {} {}\n", arena(n), program.blocks * BLOCK);
        for op in &program.ops {
            script += &format!("{op}\nprint\n");
        }
        script += &format!("unmap 0 {}\n", program.blocks * BLOCK);
    }
    let mut child = Command::new(binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program that was just built starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it runs");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "the program failed: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("it prints numbers");
    let mut lines = text.lines();
    let mut next_print = || {
        let line = |line: &str| {
            let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
            numbers.try_into().expect("three numbers")
        };
        lines.by_ref().take_while(|&line| line != "end").map(line).collect::<Vec<Line>>()
    };
    programs.iter().map(|program| program.ops.iter().map(|_| next_print()).collect()).collect()
}

/// An arena's first byte.
fn arena(n: usize) -> u64 {
    (64 + n as u64) << 30
}

/// The model's bytes in huge pages in each of the kernel's mappings, after each operation. Ends where the kernel keeps
/// two areas apart that have both been written to, and the model does not. Returns how far it came.
fn check(program: &Program, settings: &LinuxSettings, here: &[Vec<Line>]) -> Result<usize, String> {
    let policy = Linux::new(settings.clone()).expect("the kernel's settings are possible");
    let mut p = Process::new(Box::new(policy));
    let base = arena(0) / PAGE;
    for (n, (op, mappings)) in program.ops.iter().zip(here).enumerate() {
        let fail = |what: String| {
            let done: Vec<String> = program.ops[..=n].iter().map(Op::to_string).collect();
            Err(format!("{}: {what}, after:\n{}", program.name, done.join("\n")))
        };
        match *op {
            Op::Map(first, pages) => p.map(base + first, pages, MappingKind::Anonymous),
            Op::Unmap(first, pages) => p.unmap(base + first, pages),
            Op::Protect(first, pages, write) => p.protect(base + first, pages, write),
            Op::Advise(first, pages, advice) => p.advise(base + first, pages, advice),
            Op::Touch(page) => p.touch(base + page),
            Op::Scans(count) => p.wait(count * FULL_SCAN),
        }
        let areas: Vec<[u64; 2]> =
            p.space.areas().map(|a| [a.start / PAGE - base, (a.end - a.start) / PAGE]).collect();
        if areas.len() < mappings.len() {
            return Ok(n);
        }
        if areas != mappings.iter().map(|&[first, pages, _]| [first, pages]).collect::<Vec<_>>() {
            return fail(format!("mappings {areas:?}, {mappings:?} here"));
        }
        for &[first, pages, bytes] in mappings {
            let units = p.units(base + first, pages);
            let huge = units.iter().filter(|unit| unit.order == 9);
            let modelled: u64 = huge.map(|unit| unit.len() * PAGE).sum();
            if modelled != bytes {
                return fail(format!("{modelled} bytes in huge pages of {pages} from {first}, {bytes} here"));
            }
        }
    }
    Ok(program.ops.len())
}

/// The kernel's settings; why it has no huge pages, where it does not.
fn settings_here() -> Result<LinuxSettings, String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if !cfg!(target_arch = "x86_64") || version < (6, 14) {
        return Err(format!("the model is of Linux 6.14 or later on x86-64, this is {}", release.trim()));
    }
    let read = |name: &str| {
        let path = format!("{SYSFS}/{name}");
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    };
    let chosen = |text: &str| {
        let word = text.split(['[', ']']).nth(1);
        word.map(str::to_owned).ok_or_else(|| format!("no choice in {text:?}"))
    };
    if read("hpage_pmd_size")?.trim() != "2097152" {
        return Err("its huge pages are not of 2 MiB".to_owned());
    }
    let mode = chosen(&read("enabled")?)?;
    let enabled = ThpMode::from_name(&mode).ok_or_else(|| format!("unknown mode {mode:?}"))?;
    let number = |name: &str| {
        let text = read(&format!("khugepaged/{name}"))?;
        text.trim().parse::<u64>().map_err(|error| format!("khugepaged/{name}: {text:?}: {error}"))
    };
    let khugepaged = Khugepaged {
        pages_to_scan: number("pages_to_scan")?.max(1),
        max_ptes_none: number("max_ptes_none")?,
        scan_sleep_millisecs: 1,
        instructions_per_millisecond: 1,
        ..Khugepaged::new(9)
    };
    let mut settings = LinuxSettings { khugepaged: Some(khugepaged), ..LinuxSettings::new(9, enabled) };
    for order in 2..=9 {
        // Kernels before 6.8 have one size.
        if let Ok(text) = read(&format!("hugepages-{}kB/enabled", 4 << order)) {
            let mode = chosen(&text)?;
            settings.sizes[order] =
                SizeMode::from_name(&mode).ok_or_else(|| format!("unknown mode {mode:?}"))?;
        }
    }
    if enabled == ThpMode::Never {
        return Err("transparent huge pages are off".to_owned());
    }
    Ok(settings)
}

/// The number of collapses by khugepaged, and of failed block allocations: if they change, a run is invalid.
fn disturbances() -> Vec<String> {
    let collapsed = fs::read_to_string(format!("{SYSFS}/khugepaged/pages_collapsed")).unwrap_or_default();
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let fallbacks =
        vmstat.lines().filter(|line| line.contains("thp_fault_fallback") || line.contains("underused"));
    std::iter::once(collapsed).chain(fallbacks.map(str::to_owned)).collect()
}

fn build(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/running_kernel/operations.c");
    let binary = folder.join("operations");
    let status = Command::new("cc").args(["-O1", "-o"]).arg(&binary).arg(source).status();
    match status {
        Ok(status) if status.success() => Ok(binary),
        Ok(status) => panic!("cc failed: {status}"),
        Err(error) => Err(format!("no C compiler: {error}")),
    }
}

/// What both tests need, if the host has it.
fn ready(folder: &Path) -> Option<(LinuxSettings, PathBuf)> {
    let settings = settings_here().inspect_err(|reason| skip(Need::Kernel, reason)).ok()?;
    let binary = build(folder).inspect_err(|reason| skip(Need::Programs, reason)).ok()?;
    Some((settings, binary))
}

#[test]
fn huge_pages_are_as_the_running_kernel_makes_them() {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let Some((settings, binary)) = ready(folder.path()) else { return };
    let cases = cases(50).into();
    let mut programs = examples();
    programs.extend((1..=cases).map(random_program));
    for _ in 0..5 {
        let before = disturbances();
        let here = run_here(&binary, &programs);
        if disturbances() == before {
            let checked = programs.iter().zip(&here).map(|(program, here)| check(program, &settings, here));
            let (equal, mut wrong): (Vec<_>, Vec<_>) = checked.partition(Result::is_ok);
            wrong.sort_by_key(|wrong| wrong.as_ref().err().map(String::len));
            let count = format!("{} of {} programs", wrong.len(), programs.len());
            assert!(wrong.is_empty(), "{count}; the shortest:\n{}", wrong[0].as_ref().unwrap_err());
            let compared: usize = equal.into_iter().flatten().sum();
            let all: usize = programs.iter().map(|program| program.ops.len()).sum();
            assert!(compared * 10 > all * 9, "only {compared} of {all} operations compared");
            return;
        }
    }
    skip(Need::HugePages, "khugepaged was at work, or no free huge page was found, each time");
}

/// khugepaged runs at unpredictable times; after it has scanned all memory, it has done everything it would.
#[test]
#[ignore = "waits for khugepaged, a minute or more"]
fn khugepaged_collapses_what_the_running_kernels_does() {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let Some((settings, binary)) = ready(folder.path()) else { return };
    use Op::{Advise, Map, Scans, Touch, Unmap};
    let touched_first = |rest: &[Op]| {
        let start = [Map(0, 8 * BLOCK), Touch(1), Touch(2 * BLOCK + 7), Touch(3 * BLOCK), Touch(5 * BLOCK)];
        [&start, rest].concat()
    };
    let programs = [
        // What was advised, a block that is advised in part, one that is mapped in part, one that was discarded.
        touched_first(&[
            Advise(0, 3 * BLOCK + 100, HUGEPAGE),
            Advise(5 * BLOCK, BLOCK, HUGEPAGE),
            Touch(5 * BLOCK + 1),
            Advise(5 * BLOCK, 8, DONTNEED),
            Advise(7 * BLOCK, BLOCK, HUGEPAGE),
            Scans(2),
        ]),
        touched_first(&[
            Unmap(2 * BLOCK + 100, 1),
            Advise(0, 2 * BLOCK, HUGEPAGE),
            Advise(2 * BLOCK + 101, 2 * BLOCK, HUGEPAGE),
            Scans(2),
            Touch(BLOCK + 1),
        ]),
        touched_first(&[Scans(2)]),
    ]
    .map(|ops| Program { name: "khugepaged".to_owned(), blocks: 8, ops });
    for (program, here) in programs.iter().zip(run_here(&binary, &programs)) {
        check(program, &settings, &here).unwrap();
    }
}
