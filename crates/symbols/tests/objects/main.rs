//! Look-ups in programs compiled here, checked against binutils.

mod built;
mod go;
mod labels;

use built::{Built, hex, run};
use pagewalk_symbols::{FileOffset, Symbol, Symbolizer, build_id};
use std::path::Path;

const C_PROGRAM: &str = "#include <stdio.h>
static int __attribute__((noinline)) twice(int x)
{
    return x * 2;
}
int main(int argc, char **argv)
{
    puts(argv[0]);
    return twice(argc);
}
";
/// Line of the opening brace of `twice`, to which its first byte of code belongs.
const TWICE_LINE: u32 = 3;

const CPP_PROGRAM: &str = "namespace store {
template <class T> struct Shelf { T __attribute__((noinline)) get(int i) { return T(i); } };
}
int main(int argc, char **) { return int(store::Shelf<long>().get(argc)); }
";

fn name(symbol: &Symbol) -> Option<&str> {
    symbol.function.as_deref()
}

#[test]
fn with_debug_information_function_file_and_line_are_known() {
    for position in ["-pie", "-no-pie"] {
        let built = Built::new("gcc", C_PROGRAM, &["-g", position]);
        let symbol = built.lookup(built.offset_of("twice"));
        assert_eq!(name(&symbol), Some("twice"), "{position}");
        assert!(symbol.file.unwrap().ends_with("program.c"));
        assert_eq!(symbol.line, Some(TWICE_LINE), "{position}");
    }
}

#[test]
fn without_debug_information_the_function_is_known() {
    for position in ["-pie", "-no-pie"] {
        let built = Built::new("gcc", C_PROGRAM, &[position]);
        let symbol = built.lookup(built.offset_of("twice"));
        let named = Symbol { function: Some("twice".to_owned()), ..Symbol::default() };
        assert_eq!(symbol, named, "{position}");
    }
}

#[test]
fn a_function_ends_where_its_symbol_says() {
    let built = Built::new("gcc", C_PROGRAM, &[]);
    let start = built.offset_of("twice");
    let sizes = run("nm", &["--print-size", built.path()]);
    let line = sizes.lines().find(|line| line.ends_with(" twice")).unwrap();
    let bytes = hex(line.split(' ').nth(1).unwrap());
    assert_eq!(name(&built.lookup(FileOffset(start.0 + bytes - 1))), Some("twice"));
    assert_ne!(name(&built.lookup(FileOffset(start.0 + bytes))), Some("twice"));
}

#[test]
fn a_stripped_program_has_no_names_but_those_of_its_linkage_stubs() {
    for layout in ["-fcf-protection=none", "-fcf-protection=full", "-Wl,-z,now"] {
        let built = Built::new("gcc", C_PROGRAM, &[layout]);
        let (twice, puts) = (built.offset_of("twice"), built.offset_at(built.stub("puts@plt")));
        run("strip", &[built.path()]);
        let unnamed = Symbol { stripped: true, start: Some(twice), ..Symbol::default() };
        assert_eq!(built.lookup(twice), unnamed, "{layout}");
        assert_eq!(
            built.lookup(FileOffset(twice.0 + 3)),
            unnamed,
            "its start is known by the table for unwinding"
        );
        assert_eq!(name(&built.lookup(puts)), Some("puts@plt"), "{layout}");
    }
}

#[test]
fn cpp_names_are_demangled() {
    let built = Built::new("g++", CPP_PROGRAM, &[]);
    let symbol = built.lookup(built.offset_of("_ZN5store5ShelfIlE3getEi"));
    assert_eq!(name(&symbol), Some("store::Shelf<long>::get(int)"));
}

#[test]
fn without_symbols_debug_information_names_the_function_that_was_not_inlined() {
    let inlined = C_PROGRAM.replace("noinline", "always_inline");
    let built = Built::new("gcc", &inlined, &["-g"]);
    let main = built.offset_of("main");
    run("objcopy", &["--strip-symbol=main", built.path()]);
    let symbol = built.lookup(main);
    assert_eq!(name(&symbol), Some("main"));
    assert!(symbol.line.is_some());
}

#[test]
fn debug_information_is_found_by_build_id_and_only_of_the_same_build() {
    let built = Built::new("gcc", C_PROGRAM, &["-g", "-Wl,--build-id"]);
    let twice = built.offset_of("twice");
    let id = build_id(built.path()).unwrap();
    let debug_path = built.folder.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&debug_path).unwrap();
    let debug_path = debug_path.join(format!("{}.debug", &id[2..]));
    run("objcopy", &["--only-keep-debug", built.path(), debug_path.to_str().unwrap()]);
    run("strip", &[built.path()]);
    let symbol = built.lookup(twice);
    assert_eq!((name(&symbol), symbol.line), (Some("twice"), Some(TWICE_LINE)));

    let other = Built::new("gcc", &C_PROGRAM.replace("x * 2", "x * 3"), &["-g", "-Wl,--build-id"]);
    std::fs::copy(&other.path, &debug_path).unwrap();
    assert_eq!(built.lookup(twice), Symbol { stripped: true, start: Some(twice), ..Symbol::default() });
}

#[test]
fn debug_information_is_found_by_link_and_only_with_the_right_checksum() {
    let built = Built::new("gcc", C_PROGRAM, &["-g", "-Wl,--build-id=none"]);
    let twice = built.offset_of("twice");
    assert_eq!(build_id(built.path()), None);
    let debug_path = built.folder.path().join("program.debug");
    let debug_text = debug_path.to_str().unwrap();
    run("objcopy", &["--only-keep-debug", built.path(), debug_text]);
    run("strip", &[built.path()]);
    run("objcopy", &[&format!("--add-gnu-debuglink={debug_text}"), built.path()]);
    let symbol = built.lookup(twice);
    assert_eq!((name(&symbol), symbol.line), (Some("twice"), Some(TWICE_LINE)));

    let mut bytes = std::fs::read(&debug_path).unwrap();
    bytes.push(0);
    std::fs::write(&debug_path, bytes).unwrap();
    assert_eq!(built.lookup(twice), Symbol { stripped: true, start: Some(twice), ..Symbol::default() });
}

#[test]
fn the_build_id_is_the_one_that_readelf_prints() {
    let built = Built::new("gcc", C_PROGRAM, &["-Wl,--build-id"]);
    let notes = run("readelf", &["--notes", built.path()]);
    let printed = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    assert_eq!(build_id(built.path()).as_deref(), printed);
}

#[test]
fn what_cannot_be_read_is_a_problem_noted_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "not a program").unwrap();
    let mut symbolizer = Symbolizer::new();
    for path in [&*text, folder.path(), Path::new("/nowhere/program"), Path::new("[vdso]")] {
        let path = path.to_str().unwrap();
        for offset in [0, 0x1000] {
            assert_eq!(symbolizer.lookup(path, FileOffset(offset)), Symbol::default());
        }
        assert_eq!(build_id(path), None);
    }
    let problems: Vec<String> = symbolizer.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4);
    assert!(problems[0].starts_with(&format!("no symbols from {}: ", text.display())), "{}", problems[0]);
    assert!(problems[1].ends_with("not a regular file"), "{}", problems[1]);
}

#[test]
fn corrupt_files_never_panic() {
    let built = Built::new("gcc", C_PROGRAM, &["-g"]);
    let offsets = [built.offset_of("twice"), built.offset_of("main"), FileOffset(0), FileOffset(u64::MAX)];
    let good = std::fs::read(&built.path).unwrap();
    let headers_and_tables = |at: u64| if at.is_multiple_of(2) { at % 1024 } else { at };
    // A linear congruential generator: the same files each time.
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below as u64
    };
    let mut named = 0;
    for round in 0..600 {
        let mut bytes = good.clone();
        if round % 4 == 0 {
            bytes.truncate(random(good.len()) as usize);
        } else {
            for _ in 0..1 + random(8) {
                let at = headers_and_tables(random(good.len())) as usize;
                bytes[at] = random(256) as u8;
            }
        }
        std::fs::write(&built.path, &bytes).unwrap();
        let mut symbolizer = Symbolizer::with_debug_folder("/nowhere");
        for offset in offsets {
            named += usize::from(symbolizer.lookup(built.path(), offset).function.is_some());
        }
        build_id(built.path());
    }
    assert!(named > 100, "most of the damage leaves names: {named}");
}

/// A rebuilt file has no names for what was mapped.
#[test]
fn another_build_has_no_names() {
    let built = Built::new("gcc", C_PROGRAM, &["-g", "-Wl,--build-id=0x0123"]);
    let offset = built.offset_of("twice");
    let mut symbolizer = Symbolizer::new();
    let mut name = |build: Option<&str>| symbolizer.lookup_in_build(built.path(), build, offset).function;
    assert_eq!(name(Some("0123")).as_deref(), Some("twice"));
    assert_eq!(name(None).as_deref(), Some("twice"), "it is not known which was meant");
    assert_eq!(name(Some("4567")), None);
    assert_eq!(name(Some("4567")), None);
    assert_eq!(symbolizer.rebuilt(), [built.path()]);
    let without = Built::new("gcc", C_PROGRAM, &["-g", "-Wl,--build-id=none"]);
    let offset = without.offset_of("twice");
    let mut symbolizer = Symbolizer::new();
    assert_eq!(symbolizer.lookup_in_build(without.path(), Some("0123"), offset), Symbol::default());
    assert_eq!(symbolizer.rebuilt(), [without.path()]);
}

/// The loader of debug information would block on a pipe.
#[test]
fn a_pipe_beside_a_program_is_not_opened() {
    let built = Built::new("gcc", C_PROGRAM, &["-g"]);
    run("mkfifo", &[&format!("{}.dwp", built.path())]);
    let symbol = built.lookup(built.offset_of("twice"));
    assert_eq!((symbol.function.as_deref(), symbol.line), (Some("twice"), None));
}

/// It would block on a split unit's file too, which holds the functions; lines are in the program itself.
#[test]
fn a_pipe_in_the_place_of_a_split_unit_is_not_opened() {
    let built = Built::new("gcc", C_PROGRAM, &["-g", "-gsplit-dwarf"]);
    let main = built.offset_of("main");
    run("objcopy", &["--strip-symbol=main", built.path()]);
    let whole = built.lookup(main);
    assert_eq!(name(&whole), Some("main"));
    let part = built.folder.path().join("program.dwo");
    std::fs::remove_file(&part).unwrap();
    run("mkfifo", &[part.to_str().unwrap()]);
    let symbol = built.lookup(main);
    assert_ne!(name(&symbol), Some("main"));
    assert!(symbol.line.is_some() && symbol.line == whole.line, "{symbol:?}");
}

/// Code executed elsewhere belongs to the file if the bytes are equal.
#[test]
fn a_copy_of_code_has_its_names() {
    let built = Built::new("gcc", C_PROGRAM, &["-g", "-Wl,--build-id=0x0123"]);
    let twice = built.offset_of("twice");
    let file = std::fs::read(&built.path).unwrap();
    let mut symbolizer = Symbolizer::new();
    let mut name = |build: &str, at: u64, bytes: &[u8]| {
        let found = symbolizer.lookup_copy(built.path(), Some(build), twice, (FileOffset(at), bytes));
        found.map(|symbol| symbol.function)
    };
    let code = &file[twice.0 as usize..][..8];
    assert_eq!(name("0123", twice.0, code), Some(Some("twice".to_owned())));
    assert_eq!(name("4567", twice.0, code), Some(None), "it was another build");
    assert_eq!(name("0123", twice.0, &[0x90; 8]), None);
    assert_eq!(name("0123", twice.0, &[]), None, "it is not known what was executed");
    assert_eq!(name("0123", u64::MAX, code), None);
}
