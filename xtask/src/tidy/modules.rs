//! Checks dependencies between the modules of a crate: no large cycles.

use super::text::{is_crate_source, test_modules};
use super::tokens::{Token, tokens_of};
use super::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of modules in a dependency cycle.
const CIRCLE_MAX: usize = 3;
/// Larger cycles that are allowed, by crate and modules, each with the reason.
const CIRCLES: [(&str, &[&str], &str); 0] = [];
/// Maximum number of re-exports from a name to its definition: more are a cycle of names.
const ALIASES_MAX: usize = 16;

/// Checks that modules of a crate, outside tests, form no dependency cycle of more than [`CIRCLE_MAX`] modules. A
/// module depends on the modules in its `use` paths and in the paths of its code. The module file of a folder may name
/// the modules in it. A re-exported name counts as a dependency on the defining module. Methods of a type in separate
/// files are not detected.
pub fn module_circle(tree: &Tree, findings: &mut Vec<Finding>) {
    circles_but_for(&CIRCLES, tree, findings);
}

fn circles_but_for(excused: &[(&str, &[&str], &str)], tree: &Tree, findings: &mut Vec<Finding>) {
    let mut report = |path: &str, message| {
        findings.push(Finding { path: path.to_owned(), line: 1, rule: "module-circle", message });
    };
    for (name, modules) in crates_of(tree) {
        let graph = Graph::of(&modules);
        let mut excuses: Vec<&[&str]> =
            excused.iter().filter(|(of, ..)| *of == name).map(|(_, all, _)| *all).collect();
        for circle in graph.circles().into_iter().filter(|circle| circle.len() > CIRCLE_MAX) {
            match excuses.iter().position(|all| circle.iter().all(|module| all.contains(module))) {
                Some(excuse) => {
                    excuses.remove(excuse);
                }
                None => report(modules[circle[0]].path, graph.message(&circle)),
            }
        }
        for all in excuses {
            let message = format!("no circle of {all:?} is left: take it off the list of circles");
            report(&format!("crates/{name}/Cargo.toml"), message);
        }
    }
}

/// A module and what it mentions.
struct Module<'a> {
    path: &'a str,
    /// The paths that it contains, as written, with their lines.
    mentions: Vec<(usize, Vec<&'a str>)>,
    /// The imported path for each name.
    aliases: BTreeMap<&'a str, Vec<&'a str>>,
}

/// For each crate, the modules of its library or binary by path from the root module, `crate`.
fn crates_of(tree: &Tree) -> BTreeMap<&str, BTreeMap<&str, Module<'_>>> {
    let tests: Vec<String> =
        tree.files(is_crate_source).flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_code = move |path: &str| is_crate_source(path) && !tests.iter().any(|test| path.starts_with(test));
    let mut crates: BTreeMap<&str, BTreeMap<&str, Module<'_>>> = BTreeMap::new();
    for (path, text) in tree.files(is_code) {
        let Some((name, file)) = path["crates/".len()..].split_once("/src/") else { continue };
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        let stem = stem.strip_suffix("/mod").unwrap_or(stem);
        let module = if ["lib", "main"].contains(&stem) { ROOT } else { stem };
        crates.entry(name).or_default().entry(module).or_insert_with(|| Module::new(path, text));
    }
    crates
}

/// The name of the root module.
const ROOT: &str = "crate";

impl<'a> Module<'a> {
    fn new(path: &'a str, text: &'a str) -> Module<'a> {
        let mut module = Module { path, mentions: Vec::new(), aliases: BTreeMap::new() };
        let tokens = tokens_of(text);
        let mut at = 0;
        while at < tokens.len() {
            let Token { line, text } = tokens[at];
            let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
            if text == "use" {
                let mut leaves = Vec::new();
                at = use_tree(&tokens, at + 1, &mut Vec::new(), &mut leaves);
                for (name, path) in leaves {
                    module.mentions.push((line, path.clone()));
                    module.aliases.insert(name, path);
                }
            } else if is_word(text) && before != "::" && before != "." {
                let mut path = vec![text];
                while let [Token { text: "::", .. }, next, ..] = &tokens[at + 1..]
                    && is_word(next.text)
                {
                    path.push(next.text);
                    at += 2;
                }
                if path.len() > 1 {
                    module.mentions.push((line, path));
                }
            }
            at += 1;
        }
        module
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a `use` tree from the token `at`, below `prefix`: names and their paths. Returns the position of its end: a
/// comma, a closing brace or a semicolon.
fn use_tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    prefix: &mut Vec<&'a str>,
    leaves: &mut Vec<(&'a str, Vec<&'a str>)>,
) -> usize {
    let depth = prefix.len();
    let mut name = "";
    while let Some(token) = tokens.get(at) {
        match token.text {
            "," | "}" | ";" => break,
            "::" => {}
            "{" => {
                name = "";
                while !matches!(tokens.get(at).map(|token| token.text), None | Some("}")) {
                    at = use_tree(tokens, at + 1, prefix, leaves);
                }
            }
            "as" => {
                at += 1;
                name = tokens.get(at).map_or("", |token| token.text);
            }
            "self" if !prefix.is_empty() => name = prefix[prefix.len() - 1],
            text => {
                prefix.push(text);
                name = text;
            }
        }
        at += 1;
    }
    if !name.is_empty() {
        leaves.push((name, prefix.iter().copied().filter(|&part| part != "*").collect()));
    }
    prefix.truncate(depth);
    at
}

/// Whether a module is `other`, or inside it.
fn is_within(module: &str, other: &str) -> bool {
    other == ROOT || module.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The dependency graph: from, to, the number of mentions, and the first of them.
struct Graph<'a> {
    edges: BTreeMap<&'a str, BTreeMap<&'a str, (usize, usize)>>,
}

impl<'a> Graph<'a> {
    fn of(modules: &BTreeMap<&'a str, Module<'a>>) -> Graph<'a> {
        let mut edges: BTreeMap<&str, BTreeMap<&str, (usize, usize)>> = BTreeMap::new();
        for (&from, module) in modules {
            let known = edges.entry(from).or_default();
            for (line, path) in &module.mentions {
                if let Some(to) = resolve(modules, from, path, ALIASES_MAX)
                    .filter(|&to| !is_within(to, from) && modules.contains_key(to))
                {
                    known.entry(to).or_insert((0, *line)).0 += 1;
                }
            }
        }
        Graph { edges }
    }

    /// All modules that a module depends on, directly or indirectly.
    fn reach(&self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for &to in self.edges[module].keys() {
                if reached.insert(to) {
                    next.push(to);
                }
            }
        }
        reached
    }

    /// The dependency cycles.
    fn circles(&self) -> Vec<Vec<&'a str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|&module| (module, self.reach(module))).collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for (&module, reached) in &reach {
            let circle: Vec<&str> = reached.iter().copied().filter(|to| reach[to].contains(module)).collect();
            if circle.first() == Some(&module) {
                circles.push(circle);
            }
        }
        circles
    }

    /// The message about a cycle: for each module, its dependency with the fewest mentions.
    fn message(&self, circle: &[&str]) -> String {
        let weakest = |from: &str| {
            let inside = self.edges[from].iter().filter(|(to, _)| circle.contains(to));
            let (to, (times, line)) =
                inside.min_by_key(|(_, (times, _))| *times).expect("a circle has no end");
            let times = if *times == 1 { String::new() } else { format!(", {times} times") };
            format!("`{from}` knows `{to}` (line {line}{times})")
        };
        let edges: Vec<String> = circle.iter().map(|&module| weakest(module)).collect();
        format!(
            "{} modules know each other; at most {CIRCLE_MAX}: move what is shared below them, or pass it as an \
             argument. Cut one of these: {}",
            circle.len(),
            edges.join("; ")
        )
    }
}

/// The module to which a path in module `from` leads; `None` if it is in another crate or `from` itself.
fn resolve<'a>(
    modules: &BTreeMap<&'a str, Module<'a>>,
    from: &'a str,
    path: &[&'a str],
    aliases: usize,
) -> Option<&'a str> {
    let aliases = aliases.checked_sub(1)?;
    let child = |of: &str, name: &str| {
        let path = if of == ROOT { name.to_owned() } else { format!("{of}/{name}") };
        modules.get_key_value(path.as_str()).map(|(&module, _)| module)
    };
    let (mut module, mut rest) = match path.split_first()? {
        (&"crate", rest) => (ROOT, rest),
        (&("self" | "super"), _) => {
            let ups = path.iter().take_while(|part| ["self", "super"].contains(part)).count();
            let supers = path[..ups].iter().filter(|&&part| part == "super").count();
            let above =
                (0..supers).fold(from, |of, _| of.rsplit_once('/').map_or(ROOT, |(parent, _)| parent));
            (modules.get_key_value(above).map_or(ROOT, |(&module, _)| module), &path[ups..])
        }
        (name, rest) => match child(from, name) {
            Some(module) => (module, rest),
            None => {
                let stands_for = modules[from].aliases.get(name).filter(|&other| other[..] != path[..1])?;
                return resolve(modules, from, &[stands_for, rest].concat(), aliases);
            }
        },
    };
    while let Some((name, after)) = rest.split_first() {
        match child(module, name) {
            Some(inner) => (module, rest) = (inner, after),
            None => {
                let Some(stands_for) = modules.get(module)?.aliases.get(name) else { break };
                return resolve(modules, module, &[stands_for, after].concat(), aliases).or(Some(module));
            }
        }
    }
    Some(module)
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    /// The messages about the cycles in a crate with these files.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for (file, text) in files {
            tree.add(format!("crates/x/src/{file}"), *text);
        }
        let crates = crates_of(&tree);
        let graph = Graph::of(&crates["x"]);
        graph.circles().iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn a_circle_of_four_is_too_large() {
        let mut files = vec![
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("crates/x/src/a.rs", "use crate::b::B;\n"),
            ("crates/x/src/b.rs", "use super::c::{self, C};\n"),
            ("crates/x/src/c.rs", "pub(crate) fn c() { crate::a::a() }\n"),
        ];
        assert!(places(module_circle, &files).is_empty());
        files[3].1 = "fn c() { crate::d::d() }\n";
        files.push(("crates/x/src/d.rs", "fn d() -> crate::a::A {}\n"));
        assert_eq!(places(module_circle, &files), ["crates/x/src/a.rs:1"]);
    }

    #[test]
    fn an_excuse_holds_for_its_circle_as_long_as_that_stands() {
        let rule = |tree: &Tree, findings: &mut Vec<Finding>| {
            circles_but_for(&[("x", &["a", "b", "c", "d"], "they are one")], tree, findings);
        };
        let edges = ["ab", "bc", "cd", "da"].map(|edge| edge.split_at(1));
        let files = edges
            .map(|(of, other)| (format!("crates/x/src/{of}.rs"), format!("use crate::{other}::f{other};")));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(places(module_circle, &files), ["crates/x/src/a.rs:1"]);
        assert!(places(rule, &files).is_empty());
        assert_eq!(places(rule, &files[1..]), ["crates/x/Cargo.toml:1"]);
        let wider = [
            &files[..3],
            &[("crates/x/src/d.rs", "use crate::e::g;"), ("crates/x/src/e.rs", "use crate::a::h;")],
        ];
        assert_eq!(places(rule, &wider.concat()), ["crates/x/Cargo.toml:1", "crates/x/src/a.rs:1"]);
    }

    #[test]
    fn the_message_names_an_edge_of_each_module() {
        let mut tree = Tree::default();
        tree.add("crates/x/src/a.rs", "\nuse crate::b::{B, C};\nuse crate::e::E;\n");
        tree.add("crates/x/src/b.rs", "fn b() { crate::a::a() }\n");
        tree.add("crates/x/src/e.rs", "");
        let crates = crates_of(&tree);
        let message = Graph::of(&crates["x"]).message(&["a", "b"]);
        assert!(message.starts_with("2 modules know each other"), "{message}");
        assert!(message.ends_with("`a` knows `b` (line 2, 2 times); `b` knows `a` (line 1)"), "{message}");
    }

    #[test]
    fn a_folder_may_name_its_parts() {
        let child = ("a/child.rs", "use super::A;\n");
        assert!(circles(&[("a/mod.rs", "use child::Child;\nfn a() { child::f() }\n"), child]).is_empty());
        let by_others =
            [("a.rs", "use crate::b::B;\n"), ("b.rs", "use crate::a::child::{Child as C};\n"), child];
        assert_eq!(circles(&by_others), ["a a/child b"]);
    }

    #[test]
    fn who_uses_a_name_that_is_passed_on_knows_where_it_comes_from() {
        let files = [
            ("lib.rs", "pub use a::A;\npub use b::{self, B};\n"),
            ("a.rs", "use crate::B;\npub struct A;\n"),
            ("b.rs", "pub struct B;\n"),
        ];
        assert!(circles(&files).is_empty());
        assert_eq!(circles(&[files[0], files[1], ("b.rs", "use super::A;\n")]), ["a b"]);
    }

    #[test]
    fn tests_comments_and_strings_know_nobody() {
        let code = "// use crate::b::B;\n//! crate::b::B\nconst X: &str = \"crate::b::B\";\n\
                    /* crate::b::B */ const Y: &str = r#\"\"crate::b\"#;\nconst Z: char = '\"';\n\
                    #[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    use crate::b::B;\n}\n";
        let b = "use crate::a::A;\n";
        assert!(circles(&[("a.rs", code), ("b.rs", b)]).is_empty());
        assert_eq!(circles(&[("a.rs", &format!("{code}use crate::b::C;\n")), ("b.rs", b)]), ["a b"]);
        assert!(
            circles(&[("a.rs", "#[cfg(test)]\nmod t;\nuse crate::b::B;\n"), ("b.rs", ""), ("a/t.rs", b)])
                .is_empty()
        );
    }
}
