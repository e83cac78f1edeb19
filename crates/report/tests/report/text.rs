//! Terminal output: goldens, width, determinism, and names that must not control the terminal.
//!
//! `UPDATE_GOLDEN=1 cargo test -p pagewalk-report` rewrites the goldens; read the difference before you keep
//! it.

use crate::fixtures;
use crate::golden::check_golden;
use pagewalk_report::schema::{CacheDescription, Number, ProcessResult, RunResult};
use pagewalk_report::{TextOptions, render_html, render_text};

fn text(result: &RunResult, width: usize, verbose: bool) -> String {
    render_text(result, &TextOptions { width, color: false, verbose })
}

#[test]
fn goldens() {
    check_golden("cpython.txt", &text(&fixtures::cpython(), 100, false));
    check_golden("cpython-verbose.txt", &text(&fixtures::cpython(), 120, true));
    check_golden("cpython-narrow.txt", &text(&fixtures::cpython(), 72, false));
    check_golden("random-access.txt", &text(&fixtures::random_access(), 100, false));
    check_golden("caches.txt", &text(&fixtures::caches(), 110, false));
    check_golden("no-walks.txt", &text(&fixtures::no_walks(), 100, false));
    check_golden("software.txt", &text(&fixtures::software(), 120, false));
    check_golden("sides.txt", &text(&fixtures::sides(), 120, false));
    check_golden("kernels.txt", &text(&fixtures::kernels(), 120, false));
    check_golden("threads.txt", &text(&fixtures::threads(), 100, false));
    check_golden("together.txt", &text(&fixtures::together(), 120, false));
    check_golden("many-processes.txt", &text(&fixtures::many_processes(), 100, false));
}

#[test]
fn the_default_view_of_one_process_fits_a_screen() {
    for result in [fixtures::cpython(), fixtures::random_access(), fixtures::no_walks()] {
        let lines = text(&result, 100, false).lines().count();
        assert!(lines <= 48, "{lines} lines");
    }
}

#[test]
fn no_line_is_wider_than_the_terminal_or_ends_in_a_space() {
    for (_, result) in &fixtures::all() {
        for (width, verbose) in [(72, false), (80, false), (80, true), (100, false), (200, true)] {
            for line in text(result, width, verbose).lines() {
                assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
                assert_eq!(line, line.trim_end());
            }
        }
    }
}

#[test]
fn the_same_result_is_the_same_text() {
    let once = text(&fixtures::many_processes(), 100, true);
    assert_eq!(once, text(&fixtures::many_processes(), 100, true));
}

#[test]
fn colours_change_no_character() {
    let result = fixtures::cpython();
    let colored = render_text(&result, &TextOptions { width: 100, color: true, verbose: false });
    assert!(colored.contains("\x1b["));
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some(start) = rest.find("\x1b[") {
        stripped.push_str(&rest[..start]);
        rest = &rest[start + rest[start..].find('m').unwrap() + 1..];
    }
    stripped.push_str(rest);
    assert_eq!(stripped, text(&result, 100, false));
}

#[test]
fn names_cannot_drive_the_terminal() {
    let printed = text(&fixtures::hostile(), 200, true);
    assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!printed.contains('\u{202e}'));
    assert!(printed.contains("\\u{1b}[2J"));
}

#[test]
fn a_program_without_walks_has_nothing_to_gain() {
    let printed = text(&fixtures::no_walks(), 100, false);
    assert!(printed.contains("true makes no page walk in 118 k instructions on intel-skylake."), "{printed}");
    assert!(printed.contains("Nothing to gain here"), "{printed}");
}

#[test]
fn useful_prefetches_stand_beside_the_array_of_a_machine_that_prefetches() {
    let mut result = fixtures::random_access();
    assert!(!text(&result, 120, true).contains("useful prefetches"));
    assert!(!pagewalk_report::render_html(&result).contains("useful prefetches"));
    let metrics = &mut result.processes[0].machines[0].metrics;
    for (what, value) in [("prefetches", 5000), ("prefetches_useful", 1234)] {
        metrics.insert(format!("tlb.l2.{what}"), Number::Count(value));
    }
    let printed = text(&result, 120, true);
    let line = |start: &str| printed.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
    assert!(line("TLB ").ends_with("useful prefetches"), "{printed}");
    assert!(line("l2 ").ends_with("1.23 k of 5.00 k"), "{printed}");
    let page = pagewalk_report::render_html(&result);
    assert!(page.contains("1.23 k of 5.00 k") && page.contains("useful prefetches"));
}

#[test]
fn a_region_that_nothing_fell_into_says_so() {
    let mut result = fixtures::no_walks();
    let metrics = &mut result.processes[0].machines[0].metrics;
    metrics.values_mut().for_each(|value| *value = Number::Count(0));
    result.processes[0].advice = pagewalk_report::advise(&result.processes[0], 4096);
    let printed = text(&result, 100, false);
    assert!(printed.contains("No reference of true was counted."), "{printed}");
    assert!(printed.contains("No advice: no reference was counted."), "{printed}");
}

#[test]
fn a_result_saved_as_data_only_is_told_of_the_report() {
    let mut result = fixtures::no_walks();
    for (option, told) in [("r.json", true), ("r.html", false)] {
        let line = ["pagewalk", "profile", "-o", option, "--", "true", "x.html"];
        result.tool.command_line = line.map(str::to_owned).to_vec();
        assert_eq!(text(&result, 100, false).contains("-o report.html for the pictures"), told, "{option}");
    }
}

#[test]
fn a_run_without_processes_says_so() {
    let mut result = fixtures::no_walks();
    result.processes.clear();
    result.machines.clear();
    assert_eq!(text(&result, 100, false), "No process was recorded.\n");
}

/// Programs that take turns are named without their command lines, and reported one by one.
#[test]
fn programs_that_take_turns_are_told_of_one_by_one() {
    let printed = text(&fixtures::together(), 100, false);
    assert!(printed.starts_with("gups + sort  interleaved"), "{printed}");
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let headers: Vec<String> =
        printed.lines().filter(|line| line.contains("█ data")).filter_map(first).collect();
    assert_eq!(headers, ["Process", "Core"]);
}

#[test]
fn children_of_one_program_fold_into_one_line() {
    let printed = text(&fixtures::many_processes(), 100, false);
    let line = |start: &str| printed.lines().rfind(|line| line.trim_start().starts_with(start)).unwrap();
    assert!(line("cc1 ").contains("40×"), "{printed}");
    assert!(line("ld ").contains("signal 9"), "{printed}");
    assert!(printed.contains("lost  pid 401: the last 3 chunks"), "{printed}");
}

/// Minor programs share one line; a program that failed has its own.
#[test]
fn programs_that_matter_little_fold_into_one_line() {
    let mut result = fixtures::many_processes();
    // One compiler remains, as the last process; all other processes are light, each with a different program.
    let is_heaviest = |process: &ProcessResult| process.command_line.join(" ").contains("unit39");
    let heaviest = result.processes.remove(result.processes.iter().position(is_heaviest).unwrap());
    let light = result.processes[0].machines.clone();
    for (index, process) in result.processes.iter_mut().enumerate() {
        process.program = format!("/usr/bin/small{index}");
        process.machines.clone_from(&light);
    }
    result.processes.push(heaviest);
    let printed = text(&result, 100, false);
    let lead: Vec<&str> = printed.lines().take(2).collect();
    assert!(
        lead[0].contains(" processes spend ") && lead[1].starts_with("cc1 -quiet unit39.c -O2"),
        "{printed}"
    );
    let (_, table) = printed.split_once("  All processes").unwrap();
    let lines: Vec<&str> = table.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert!(lines[0].contains("together") && lines[1].contains("cc1"), "{printed}");
    assert!(lines.iter().any(|line| line.contains("signal 9")), "{printed}");
    let others = lines.last().unwrap();
    assert!(others.contains(" other programs (-v lists them)") && others.contains('×'), "{printed}");
    assert!(lines.len() <= 11, "{printed}");
    let longer = text(&result, 100, true);
    for process in &result.processes {
        assert!(longer.contains(&format!("({})", process.pid)), "{longer}");
    }
}

/// Titles of alternatives are whole, whatever the width.
#[test]
fn what_if_titles_are_not_cut() {
    let result = fixtures::cpython();
    let printed = text(&result, 100, false);
    assert!(printed.contains("  huge pages wherever Linux gives them (THP always)  "), "{printed}");
    for width in [72, 80, 100, 140] {
        let printed = text(&result, width, false);
        let (_, table) = printed.split_once("  What if ").unwrap();
        let titles = table.lines().take_while(|line| !line.contains("a perfect TLB"));
        assert!(titles.into_iter().all(|line| !line.contains('…')), "{printed}");
    }
}

/// A truncated recording gives no advice, and the first line says that it is truncated.
#[test]
fn a_process_that_was_cut_short_is_said_first_and_without_advice() {
    let mut result = fixtures::cpython();
    let loss = "the rest of the program, which runs untraced from here: instruction 62 f1 needs AVX-512";
    result.processes[0].losses.push(loss.into());
    result.processes[0].note_cut();
    let shown = text(&result, 100, false);
    assert!(
        shown.starts_with("Cut short: these figures lack the rest of the program, which runs"),
        "{shown}"
    );
    assert!(!shown.contains('→') && shown.matches("untraced from here").count() == 1, "{shown}");
    let mut many = fixtures::many_processes();
    many.processes[1].losses.push(loss.into());
    many.processes[1].note_cut();
    let shown = text(&many, 100, false);
    let pid = many.processes[1].pid;
    assert!(
        shown.starts_with("Cut short: these figures of ") && shown.contains(&format!("(pid {pid}) lack")),
        "{shown}"
    );
}

#[test]
fn caches_have_a_table_and_the_wait_a_sentence() {
    let mut result = fixtures::random_access();
    let cache = |name: &str, level, bytes, ways| CacheDescription {
        name: name.to_owned(),
        level,
        serves: ["load", "store"].map(str::to_owned).to_vec(),
        bytes,
        line_bytes: 64,
        ways,
        colors: 1,
        latency: 4,
        writes_through: false,
        holds_victims: false,
        shared: false,
    };
    result.descriptions[0].caches = vec![cache("l1d", 1, 32 << 10, 8), cache("l2", 2, 1 << 20, 1)];
    let machine = &mut result.processes[0].machines[0];
    let instructions = machine.metrics["instructions"].as_f64() as u64;
    for (name, count) in [
        ("memory.stall_cycles", 2 * instructions),
        ("cache.l1d.load_lookups", instructions),
        ("cache.l1d.load_misses", instructions / 4),
        ("cache.l2.load_lookups", instructions / 4),
        ("cache.l2.load_misses", instructions / 8),
    ] {
        machine.metrics.insert(name.to_owned(), Number::Count(count));
    }
    let text = render_text(&result, &TextOptions { width: 120, color: false, verbose: false });
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or(&text);
    for (name, parts) in
        [("l1d cache  32 KiB, 8 ways", ["25.0 %", "250"]), ("l2 cache   1 MiB, 1 way", ["50.0 %", "125"])]
    {
        assert!(parts.iter().all(|part| line(name).contains(part)), "{text}");
    }
    assert!(text.contains("l1d TLB") && text.contains("level-2 TLB hit cycles"), "{text}");
    let page = render_html(&result);
    assert!(page.contains("each instruction waits 2.00 cycles for caches and memory"));
}
