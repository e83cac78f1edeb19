//! Names of stripped Go programs, from tables as Go's linker lays them out: each form, each way of linking (a
//! report: josefbacik/systing, pull request 140).

use crate::built::{Built, run};
use pagewalk_symbols::{FileOffset, Symbol, Symbolizer};

/// Code of two functions after non-Go code, as in programs with C; and a table. Format-specific parts are in capitals:
/// the base of addresses, and the owner of each address.
const PROGRAM: &str = r#"
        .text
        .globl main
main:   xor %eax, %eax
        ret
        .p2align 5
text:
first:  nop
        nop
        ret
        .p2align 4
second: nop
        nop
        nop
        ret
end:
        .section .go.buildinfo, "a"
        .byte 0
        .section SECTION
        .p2align 5
table:
        .long MAGIC
        .byte 0, 0, 1, 8
        .quad 2
HEADER
names:  .asciz "main.first"
of_second: .asciz "example.com/chase.(*Shelf[go.shape.int]).second"
units:  .long of_main - files
files:  .asciz "/src/other.go"
of_main: .asciz "/src/main.go"
values: .byte 0
        # The only file for 64 bytes.
in_main: .byte 2, 64, 0
        # Line 10 for two bytes, then line 7 for 62.
lines:  .byte 22, 2, 5, 62, 0
        .p2align 3
list:
LIST
about_first:
        ADDRESS first BASE
        .long names - NAMES, 0, 0, 0, in_main - VALUES, lines - VALUES, 0, 0
about_second:
        ADDRESS second BASE
        .long of_second - NAMES, 0, 0, 0, in_main - VALUES, lines - VALUES, 0, 0
MORE
        .section .note.GNU-stack,"",@progbits
"#;

const PARTS: &str = ".quad names - table, units - table, files - table, values - table, list - table";
const OFFSETS: &str =
    "        .long first - text, about_first - list, second - text, about_second - list, end - text";
const ADDRESSES: &str = "        .quad first, about_first - ABOUT, second, about_second - ABOUT, end";

/// The runtime's data about its program, up to the base of addresses.
const MODULE: &str = r#"
        .section .go.module, "aw"
        .quad 0, 1
        .quad table
        .zero 19 * 8
        .quad first, end, text, end
"#;

/// A program with a table of this format; `changes` fill in the capitals.
fn program(options: &[&str], changes: &[(&str, &str)]) -> (Built, [FileOffset; 2]) {
    let mut source = PROGRAM.to_owned();
    for (from, to) in changes {
        source = source.replace(from, to);
    }
    let built = Built::new("gcc", "int main(void) { return 0; }", &[]);
    let path = built.folder.path().join("program.s");
    std::fs::write(&path, source).unwrap();
    run("gcc", &[&["-o", built.path()], options, &[path.to_str().unwrap()]].concat());
    let functions = [built.offset_of("first"), built.offset_of("second")];
    run("strip", &[built.path()]);
    (built, functions)
}

fn check(built: &Built, [first, second]: [FileOffset; 2], what: &str) {
    let named = |name: &str, line| Symbol {
        function: Some(name.to_owned()),
        file: Some("/src/main.go".to_owned()),
        line: Some(line),
        ..Symbol::default()
    };
    let at = |function: FileOffset, beyond| built.lookup(FileOffset(function.0 + beyond));
    let name = "example.com/chase.(*Shelf[go.shape.int]).second";
    assert_eq!(at(first, 0), named("main.first", 10), "{what}");
    assert_eq!(at(first, 2), named("main.first", 7), "{what}");
    assert_eq!(at(second, 1), named(name, 10), "{what}");
    assert_eq!(at(second, 3), named(name, 7), "{what}");
    assert_eq!(at(second, 4).function, None, "{what}: the table ends there");
    assert_eq!(built.lookup(FileOffset(first.0 - 32)).function, None, "{what}: that is before all functions");
}

/// Go 1.18 to 1.25 have the start of the code in the table, Go 1.26 only in the runtime's data.
#[test]
fn functions_counted_from_the_start_of_the_code() {
    let read_only = ".gopclntab, \"a\"";
    let relocated = ".data.rel.ro.gopclntab, \"aw\"";
    let in_table = format!(".quad 2, text\n{PARTS}");
    let in_data = format!(".quad 2, 0\n{PARTS}");
    let forms = [
        ("Go 1.18", "0xfffffff0", "-no-pie", read_only, &in_table, ""),
        ("Go 1.20", "0xfffffff1", "-no-pie", read_only, &in_table, ""),
        ("Go 1.20, PIE", "0xfffffff1", "-pie", relocated, &in_table, ""),
        ("Go 1.26", "0xfffffff1", "-no-pie", read_only, &in_data, MODULE),
        ("Go 1.26, PIE", "0xfffffff1", "-pie", read_only, &in_data, MODULE),
    ];
    for (what, magic, position, section, header, more) in forms {
        let changes = [
            ("SECTION", section),
            ("MAGIC", magic),
            ("HEADER", header),
            ("LIST", OFFSETS),
            ("ADDRESS", ".long"),
            ("BASE", "- text"),
            ("NAMES", "names"),
            ("VALUES", "values"),
            ("MORE", more),
        ];
        let (built, functions) = program(&[position], &changes);
        check(&built, functions, what);
    }
}

#[test]
fn functions_by_their_addresses() {
    let parts = format!(".quad 2\n{PARTS}");
    let of_go116 = ADDRESSES.replace("ABOUT", "list");
    let of_go12 = ADDRESSES.replace("ABOUT", "table") + "\n .long of_files - table";
    let files = "        .p2align 2\nof_files: .long 2, of_main - table\n";
    let forms = [
        ("Go 1.16", "0xfffffffa", &*parts, &of_go116, "names", "values", ""),
        // Its files are numbered from 1, without compilation units.
        ("Go 1.2", "0xfffffffb", "LIST_FIRST", &of_go12, "table", "table", files),
    ];
    for (what, magic, header, list, names, values, more) in forms {
        for (position, section) in
            [("-no-pie", ".gopclntab, \"a\""), ("-pie", ".data.rel.ro.gopclntab, \"aw\"")]
        {
            let first = header == "LIST_FIRST";
            let changes = [
                ("SECTION", section),
                ("MAGIC", magic),
                ("HEADER", if first { list } else { header }),
                ("\nLIST", if first { "" } else { "\nLIST" }),
                ("LIST", list),
                (".byte 2, 64", if first { ".byte 4, 64" } else { ".byte 2, 64" }),
                ("ADDRESS", ".quad"),
                ("BASE", ""),
                ("NAMES", names),
                ("VALUES", values),
                ("MORE", more),
            ];
            let (built, functions) = program(&[position], &changes);
            check(&built, functions, &format!("{what} {position}"));
        }
    }
}

/// Whatever the table contains, a look-up ends and names at most what exists.
#[test]
fn corrupt_tables_never_panic() {
    let header = format!(".quad 2, text\n{PARTS}");
    let changes = [
        ("SECTION", ".gopclntab, \"a\""),
        ("MAGIC", "0xfffffff1"),
        ("HEADER", &header),
        ("LIST", OFFSETS),
        ("ADDRESS", ".long"),
        ("BASE", "- text"),
        ("NAMES", "names"),
        ("VALUES", "values"),
        ("MORE", ""),
    ];
    let (built, [first, second]) = program(&["-no-pie"], &changes);
    let good = std::fs::read(&built.path).unwrap();
    let magic = [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let table = good.windows(magic.len()).position(|bytes| bytes == magic).unwrap();
    // A linear congruential generator: the same files each time.
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut named = 0;
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random(4) {
            let at = table + random(320) as usize;
            let length = 1 + random(8) as usize;
            let value = [0, 0xff, 0x7f, random(256) as u8][random(4) as usize];
            bytes[at..at + length].fill(value);
        }
        std::fs::write(&built.path, &bytes).unwrap();
        let mut symbolizer = Symbolizer::with_debug_folder("/nowhere");
        for at in [first.0, first.0 + 2, second.0 + 1, second.0 + 4, 0] {
            named += usize::from(symbolizer.lookup(built.path(), FileOffset(at)).function.is_some());
        }
    }
    assert!(named > 1000, "most of the damage leaves names: {named}");
}
