//! Symbols without a size name only their own routine (iovisor/bcc, pull request 1664; ocaml/ocaml, pull request 8708).

use crate::built::{Built, hex, run};
use pagewalk_symbols::FileOffset;

const HIDDEN: &str = include_str!("programs/hidden.c");
const LABEL: &str = include_str!("programs/label.s");
const LABEL_END: &str = include_str!("programs/label_end.s");
const ROUTINES: &str = include_str!("programs/routines.s");

/// Options for code without an unwind table.
const WITHOUT_TABLE: [&str; 2] = ["-fno-asynchronous-unwind-tables", "-fno-exceptions"];

/// `first`, then the C program, then `last`; stripped of all names except those in `kept`. Also returns the addresses
/// of all names.
fn linked(parts: [&str; 3], options: &[&str], kept: &[&str]) -> (Built, Vec<(String, u64)>) {
    let built = Built::new("gcc", "int main(void) { return 0; }", &[]);
    let path = |name: &str| built.folder.path().join(name).to_str().unwrap().to_owned();
    let names = [path("first.s"), path("middle.c"), path("last.s")];
    for (name, text) in names.iter().zip(parts) {
        std::fs::write(name, text).unwrap();
    }
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    run("gcc", &[&["-O1", "-o", built.path()], options, &inputs].concat());
    let symbols = run("nm", &[built.path()]);
    let address = |line: &str| {
        let mut fields = line.split(' ');
        let address = fields.next().filter(|address| !address.is_empty())?;
        Some((fields.nth(1)?.to_owned(), hex(address)))
    };
    let addresses = symbols.lines().filter_map(address).collect();
    let options: Vec<String> = kept.iter().map(|name| format!("--keep-symbol={name}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    run("strip", &[&options, &[built.path()][..]].concat());
    (built, addresses)
}

fn name_at(built: &Built, addresses: &[(String, u64)], name: &str, beyond: u64) -> Option<String> {
    let (_, address) = addresses.iter().find(|(known, _)| known == name).expect(name);
    let FileOffset(offset) = built.offset_at(*address);
    built.lookup(FileOffset(offset + beyond)).function
}

/// With an unwind table: `chase` has its own entry.
#[test]
fn a_label_does_not_swallow_the_function_behind_it() {
    let (built, addresses) = linked([LABEL, HIDDEN, LABEL_END], &[], &["old_label", "last_label"]);
    for name in ["old_label", "last_label"] {
        assert_eq!(name_at(&built, &addresses, name, 0).as_deref(), Some(name));
        assert_eq!(name_at(&built, &addresses, name, 1), None, "it is one byte long");
    }
    for name in ["chase", "main"] {
        assert_eq!(name_at(&built, &addresses, name, 0), None, "{name}");
        assert_eq!(name_at(&built, &addresses, name, 8), None, "{name}");
    }
    assert!(!built.lookup(FileOffset(0)).stripped, "it has a table of symbols");
}

/// musl has no unwind table, and its assembly routines (`memcpy.s`, `setjmp.s`) have types but no sizes: in a stripped
/// `libc.so` each would absorb the functions up to the next exported one.
#[test]
fn nor_where_there_is_no_table_for_unwinding() {
    let typed = LABEL.replace(".globl old_label", ".globl old_label\n .type old_label, @function");
    for first in [LABEL, &typed] {
        let (built, addresses) =
            linked([first, HIDDEN, LABEL_END], &WITHOUT_TABLE, &["old_label", "last_label"]);
        assert_eq!(name_at(&built, &addresses, "old_label", 0).as_deref(), Some("old_label"));
        for name in ["chase", "main"] {
            assert_eq!(name_at(&built, &addresses, name, 0), None, "{name}");
            assert_eq!(name_at(&built, &addresses, name, 8), None, "{name}");
        }
    }
}

/// Assembly code keeps its names: its loops, branches and local labels belong to the routine. NASM's local labels are
/// in the symbol table, as in unstripped builds of x264, dav1d and FFmpeg.
#[test]
fn routines_in_assembly_have_their_names() {
    let kept = ["sum", "sum.loop", "swap", "both_ways", "leaf"];
    for options in [&[][..], &WITHOUT_TABLE] {
        let (built, addresses) = linked([ROUTINES, HIDDEN, LABEL_END], options, &kept);
        let size = |name: &str| {
            let end = addresses.iter().find(|(known, _)| *known == format!("end_of_{name}")).expect(name).1;
            end - addresses.iter().find(|(known, _)| known == name).expect(name).1
        };
        for name in ["sum", "swap", "both_ways", "leaf"] {
            for beyond in 0..size(name) {
                assert_eq!(name_at(&built, &addresses, name, beyond).as_deref(), Some(name), "+{beyond}");
            }
            assert_eq!(name_at(&built, &addresses, name, size(name)), None, "padding behind {name}");
        }
        assert_eq!(name_at(&built, &addresses, "chase", 0), None);
    }
}
