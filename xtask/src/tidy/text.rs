//! Rules about the text of source files.

use super::{Finding, Tree, numbered};

/// Maximum number of lines of a source file.
const LINES_MAX: usize = 500;
/// Maximum width of a line of Rust; the same as `max_width` in `rustfmt.toml`, which does not apply to comments and
/// strings.
const COLUMNS_MAX: usize = 120;
/// Files that may be longer than [`LINES_MAX`], each with the reason.
const LONG_FILES: [(&str, &str); 0] = [];
/// Maximum number of lines of a function, with its signature.
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that may be longer, by file and name, each with the reason.
const LONG_FUNCTIONS: [(&str, &str, &str); 1] =
    [("crates/trace/src/pwt/encoder.rs", "walk_with", "a hot loop, whose state stays in registers")];
/// Prefixes of paths that exist only on one machine. Concatenated, so that the rule does not report this file.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("../sha", "red")];
/// Crates whose code may print and may panic: the binary, and crates that only tests use.
const NOT_LIBRARIES: [&str; 3] = ["cli", "oracle", "skip"];

/// Checks that no file under `crates/*/src` has more than [`LINES_MAX`] lines.
pub fn file_length(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(is_crate_source) {
        let lines = text.lines().count();
        let excused = LONG_FILES.iter().any(|(file, _)| *file == path);
        let message = match (lines > LINES_MAX, excused) {
            (true, false) => format!("{lines} lines; at most {LINES_MAX}: split it by idea"),
            (false, true) => format!("only {lines} lines: take it off the list of long files"),
            _ => continue,
        };
        findings.push(Finding { path: path.to_owned(), line: lines, rule: "file-length", message });
    }
}

/// Checks that no function under `crates/*/src`, outside tests, has more than [`FUNCTION_LINES_MAX`] lines.
pub fn function_length(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(is_crate_source) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        // Line of the signature, its indentation, and the function's name.
        let mut open: Option<(usize, &str, &str)> = None;
        for (line, content) in numbered(code) {
            let indentation = &content[..content.len() - content.trim_start().len()];
            if let Some(name) = function_name(content.trim_start()) {
                open = Some((line, indentation, name));
            }
            let Some((first, _, name)) = open.filter(|(_, of, _)| content == format!("{of}}}")) else {
                continue;
            };
            open = None;
            let lines = line - first + 1;
            let is_excused =
                LONG_FUNCTIONS.iter().any(|(file, function, _)| (*file, *function) == (path, name));
            if lines > FUNCTION_LINES_MAX && !is_excused {
                let message =
                    format!("`{name}` has {lines} lines; at most {FUNCTION_LINES_MAX}: split it by idea");
                findings.push(Finding {
                    path: path.to_owned(),
                    line: first,
                    rule: "function-length",
                    message,
                });
            }
        }
    }
}

/// The name of the function whose signature begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let head = line.split("fn ").next()?;
    let is_head = head.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "unsafe", "async", "extern", "\"C\"", "in", "super)"].contains(&word)
    });
    let rest = line.strip_prefix(head).filter(|_| is_head)?.strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// Checks that lines of Rust fit into [`COLUMNS_MAX`] columns.
pub fn line_width(tree: &Tree, findings: &mut Vec<Finding>) {
    in_lines(tree, is_rust, |path, line, content| {
        let columns = content.chars().count();
        if columns > COLUMNS_MAX {
            let message = format!("{columns} columns; at most {COLUMNS_MAX}");
            findings.push(Finding { path: path.to_owned(), line, rule: "line-width", message });
        }
    });
}

/// Checks that libraries do not print: only the binary writes to standard output and error.
pub fn library_output(tree: &Tree, findings: &mut Vec<Finding>) {
    const MACROS: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
    in_library_code(tree, |path, line, code| {
        if let Some(found) = MACROS.iter().find(|name| has_word(code, name)) {
            let message = format!("`{found}` in a library: return the text or a typed error");
            findings.push(Finding { path: path.to_owned(), line, rule: "library-output", message });
        }
    });
}

/// Checks that libraries do not use `unwrap`: they return typed errors, or use `expect` with the reason why it cannot
/// fail.
pub fn library_unwrap(tree: &Tree, findings: &mut Vec<Finding>) {
    const CALLS: [&str; 3] = [".unwrap()", "todo!(", "unimplemented!("];
    in_library_code(tree, |path, line, code| {
        if let Some(found) = CALLS.iter().find(|call| code.contains(*call)) {
            let message =
                format!("`{found}` in a library: return a typed error, or `expect` with the reason");
            findings.push(Finding { path: path.to_owned(), line, rule: "library-unwrap", message });
        }
    });
}

/// Checks that no test prints why it ends early: it calls `skip`, so that `./test` lists it.
pub fn told_skip(tree: &Tree, findings: &mut Vec<Finding>) {
    in_lines(tree, is_rust, |path, line, content| {
        if content.contains(concat!("return ", "eprintln!(")) {
            let message = "a test that ends early calls `pagewalk_skip::skip`".to_owned();
            findings.push(Finding { path: path.to_owned(), line, rule: "told-skip", message });
        }
    });
}

/// Checks that no file contains paths of the machine on which it was written.
pub fn machine_path(tree: &Tree, findings: &mut Vec<Finding>) {
    in_lines(
        tree,
        |_| true,
        |path, line, content| {
            if let Some(found) = MACHINE_PATHS.iter().find(|wanted| starts_a_path(content, wanted)) {
                let message = format!("`{found}` is a path of one machine; use a relative path");
                findings.push(Finding { path: path.to_owned(), line, rule: "machine-path", message });
            }
        },
    );
}

/// Checks that no marks of unfinished work are committed; open work belongs in an issue.
pub fn unfinished(tree: &Tree, findings: &mut Vec<Finding>) {
    const MARKS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
    in_lines(
        tree,
        |_| true,
        |path, line, content| {
            if let Some(found) = MARKS.iter().find(|mark| has_word(content, mark)) {
                let message = format!("`{found}`: do it, or open an issue");
                findings.push(Finding { path: path.to_owned(), line, rule: "unfinished", message });
            }
        },
    );
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

pub fn is_crate_source(path: &str) -> bool {
    let mut parts = path.split('/');
    path.ends_with(".rs") && parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

/// Calls `visit` for each line of these files.
fn in_lines(tree: &Tree, files: impl Fn(&str) -> bool, mut visit: impl FnMut(&str, usize, &str)) {
    for (path, text) in tree.files(files) {
        for (line, content) in numbered(text) {
            visit(path, line, content);
        }
    }
}

/// Calls `visit` for each line of library code, without comments and tests.
fn in_library_code(tree: &Tree, mut visit: impl FnMut(&str, usize, &str)) {
    let test_modules: Vec<String> =
        tree.files(is_crate_source).flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_library = |path: &str| {
        let exempt = NOT_LIBRARIES.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
        let test = test_modules.iter().any(|module| path.starts_with(module));
        is_crate_source(path) && !exempt && !test
    };
    for (path, text) in tree.files(is_library) {
        // A test module ends with the closing brace that is indented like its attribute.
        let mut test_ends_with: Option<String> = None;
        let mut after_attribute = false;
        for (line, content) in numbered(text) {
            let code = content.trim_start();
            if let Some(end) = &test_ends_with {
                if content == end {
                    test_ends_with = None;
                }
            } else if code.starts_with("#[cfg(test)]") {
                // If the item is on the same line, it ends there.
                after_attribute = code.trim_end() == "#[cfg(test)]";
            } else if after_attribute && !code.starts_with("#[") {
                after_attribute = false;
                if code.ends_with('{') {
                    test_ends_with = Some(format!("{}}}", &content[..content.len() - code.len()]));
                }
            } else if !code.starts_with("//") {
                visit(path, line, code);
            }
        }
    }
}

/// Path prefixes of the test-only modules that `path` declares with `#[cfg(test)] mod name;`.
pub fn test_modules(path: &str, text: &str) -> Vec<String> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let folder = if ["lib", "main", "mod"].contains(&name) { folder } else { stem };
    let lines = text.lines().map(str::trim);
    lines
        .clone()
        .zip(lines.skip(1))
        .filter(|(attribute, _)| *attribute == "#[cfg(test)]")
        .filter_map(|(_, item)| without_visibility(item).strip_prefix("mod ")?.strip_suffix(';'))
        .flat_map(|module| [format!("{folder}/{module}.rs"), format!("{folder}/{module}/")])
        .collect()
}

/// An item without `pub` or `pub(…)` before it.
fn without_visibility(item: &str) -> &str {
    match item.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(item, |(_, item)| item),
        Some(rest) => rest.trim_start(),
        None => item,
    }
}

/// Whether `text` contains `word` without a letter, digit or underscore next to it.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Whether `text` contains a path that begins with `path`.
fn starts_a_path(text: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "._-}*)>".contains(c);
    text.match_indices(path).any(|(at, _)| !text[..at].chars().next_back().is_some_and(is_part))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    const LIB: &str = "crates/sim/src/lib.rs";

    #[test]
    fn a_file_ends_at_the_limit() {
        let (fits, long) = ("x\n".repeat(LINES_MAX), "x\n".repeat(LINES_MAX + 1));
        assert!(places(file_length, &[(LIB, &fits), ("crates/sim/tests/all.rs", &long)]).is_empty());
        assert_eq!(places(file_length, &[(LIB, &long)]), ["crates/sim/src/lib.rs:501"]);
        assert_eq!(
            places(file_length, &[("crates/sim/src/deep/er.rs", &long)]),
            ["crates/sim/src/deep/er.rs:501"]
        );
    }

    #[test]
    fn a_function_ends_at_the_limit() {
        let function =
            |lines: usize| format!("    pub(crate) fn one<T>() {{\n{}    }}\n", "x\n".repeat(lines - 2));
        let (fits, long) = (function(FUNCTION_LINES_MAX), function(FUNCTION_LINES_MAX + 1));
        assert!(places(function_length, &[(LIB, &fits)]).is_empty());
        assert!(places(function_length, &[(LIB, &format!("#[cfg(test)]\n{long}"))]).is_empty());
        assert_eq!(places(function_length, &[(LIB, &format!("{fits}{long}"))]), ["crates/sim/src/lib.rs:71"]);
    }

    #[test]
    fn a_line_ends_at_the_limit() {
        let (fits, wide) = ("µ".repeat(COLUMNS_MAX), "x".repeat(COLUMNS_MAX + 1));
        assert!(places(line_width, &[(LIB, &fits), ("README.md", &wide)]).is_empty());
        assert_eq!(places(line_width, &[(LIB, &format!("\n{wide}\n"))]), ["crates/sim/src/lib.rs:2"]);
    }

    #[test]
    fn libraries_do_not_print() {
        for call in ["println!(\"x\");", "    eprintln!();", "dbg!(1)", "print!(\"\")", "std::eprint!(\"\")"]
        {
            assert_eq!(places(library_output, &[(LIB, call)]), ["crates/sim/src/lib.rs:1"], "{call}");
        }
        let fine = "// println!\nmy_println!();\nwriteln!(out)?;\n";
        assert!(places(library_output, &[(LIB, fine), ("crates/cli/src/main.rs", "println!();")]).is_empty());
    }

    #[test]
    fn a_skipped_test_is_told() {
        let silent = concat!("    return ", "eprintln!(\"none here\");\n");
        assert_eq!(places(told_skip, &[("crates/sim/tests/all.rs", silent)]), ["crates/sim/tests/all.rs:1"]);
        assert!(places(told_skip, &[(LIB, "return skip(Need::Root, \"none here\");\n")]).is_empty());
    }

    #[test]
    fn libraries_do_not_unwrap_outside_tests() {
        let code = "/// x.unwrap() in a doc example\nfn f() {}\n\n#[cfg(test)]\n\
                    #[allow(dead_code)]\nmod tests {\n    fn g() {\n        x.unwrap();\n    }\n}\n\n\
                    fn h() { y.unwrap(); }\n";
        assert_eq!(places(library_unwrap, &[(LIB, code)]), ["crates/sim/src/lib.rs:12"]);
        let on_one_line = "#[cfg(test)] use a::b;\nfn h() { todo!() }\n";
        assert_eq!(places(library_unwrap, &[(LIB, on_one_line)]), ["crates/sim/src/lib.rs:2"]);
        let one_test_item = "#[cfg(test)]\nuse a::b;\nfn h() { todo!() }\n";
        assert_eq!(places(library_unwrap, &[(LIB, one_test_item)]), ["crates/sim/src/lib.rs:3"]);
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_tests() {
        let unwrap = "x.unwrap()";
        let files = [
            (LIB, "#[cfg(test)]\nmod twin;\nmod wire;\n"),
            ("crates/sim/src/twin.rs", unwrap),
            ("crates/sim/src/wire.rs", "#[cfg(test)]\nmod slow;\n"),
            ("crates/sim/src/wire/slow.rs", unwrap),
            ("crates/sim/src/wire/slow/deep.rs", unwrap),
            ("crates/sim/src/slow.rs", unwrap),
            ("crates/sim/src/twins.rs", unwrap),
        ];
        assert_eq!(places(library_unwrap, &files), ["crates/sim/src/slow.rs:1", "crates/sim/src/twins.rs:1"]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for path in MACHINE_PATHS {
            let text = format!("\nsee `{path}notes`");
            assert_eq!(places(machine_path, &[("docs/guide.md", &text)]), ["docs/guide.md:2"], "{path}");
            let inside = format!("$root{path}x */y{path}");
            assert!(
                path.starts_with("..") || places(machine_path, &[("a.sh", &inside)]).is_empty(),
                "{path}"
            );
        }
    }

    #[test]
    fn unfinished_work_is_found_in_any_file() {
        for mark in [concat!("// TO", "DO: later"), concat!("# FIX", "ME")] {
            assert_eq!(places(unfinished, &[("tests/x.sh", mark)]), ["tests/x.sh:1"], "{mark}");
        }
        assert!(places(unfinished, &[("a.md", concat!("TO", "DOS prompt"))]).is_empty());
    }
}
