//! Checks the number of fields of structs.

use super::text::{is_crate_source, test_modules};
use super::tokens::{Token, tokens_of};
use super::{Finding, Tree};

/// Maximum number of fields of a struct.
const FIELDS_MAX: usize = 12;
/// Crates on the hot path, whose structs need a reason for more fields.
const HOT_CRATES: [&str; 6] = ["setassoc", "translate", "sim", "mm", "cache", "reuse"];
/// How the comment with the reason begins. It is right above the struct or among its documentation and attributes.
const REASON: &str = "// Many fields: ";

/// Checks that no struct of the hot-path crates, outside tests, has more than [`FIELDS_MAX`] fields, unless a comment
/// gives the reason.
pub fn struct_fields(tree: &Tree, findings: &mut Vec<Finding>) {
    let tests: Vec<String> =
        tree.files(is_crate_source).flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_hot = |path: &str| {
        let name = path.split('/').nth(1).unwrap_or_default();
        is_crate_source(path)
            && HOT_CRATES.contains(&name)
            && !tests.iter().any(|test| path.starts_with(test))
    };
    for (path, text) in tree.files(is_hot) {
        for Struct { line, name, fields, reason } in structs_of(text) {
            let message = match (fields > FIELDS_MAX, reason) {
                (true, None) => format!(
                    "`{name}` has {fields} fields; at most {FIELDS_MAX}: group what belongs together, or say why not \
                     in a comment `{REASON}…` above it"
                ),
                (true, Some("")) => format!("`{REASON}` above `{name}` gives no reason"),
                (false, Some(_)) => format!("`{name}` has only {fields} fields: take `{REASON}…` away"),
                _ => continue,
            };
            findings.push(Finding { path: path.to_owned(), line, rule: "struct-fields", message });
        }
    }
}

/// A struct with named fields.
struct Struct<'a> {
    line: usize,
    name: &'a str,
    fields: usize,
    reason: Option<&'a str>,
}

/// The structs of a file.
fn structs_of(text: &str) -> Vec<Struct<'_>> {
    let tokens = tokens_of(text);
    let lines: Vec<&str> = text.lines().collect();
    let heads = tokens.iter().enumerate().filter(|(_, token)| token.text == "struct");
    let of = |(at, head): (usize, &Token<'_>)| {
        let after = &tokens[at + 1..];
        let fields =
            fields_of(&after[after.iter().position(|token| ["{", ";", "("].contains(&token.text))?..]);
        let name = after.first()?.text;
        Some(Struct { line: head.line, name, fields, reason: reason_above(&lines[..head.line - 1]) })
    };
    heads.filter_map(of).collect()
}

/// The number of fields between the braces at the beginning of these tokens: colons at the outermost depth.
fn fields_of(tokens: &[Token<'_>]) -> usize {
    let (mut depth, mut fields) = (0, 0);
    for token in tokens {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            ":" if depth == 1 => fields += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    fields
}

/// The reason in the comments and attributes at the end of these lines.
fn reason_above<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let above = lines.iter().rev().map(|line| line.trim());
    let mut head = above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
    head.find_map(|line| line.strip_prefix(REASON.trim_end())).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    const HOT: &str = "crates/sim/src/pass.rs";

    fn with(fields: usize, head: &str) -> String {
        let field =
            |i: usize| format!("    /// Doc: what it is.\n    #[x]\n    pub(crate) f{i}: [u64; 3],\n");
        let fields: String = (0..fields).map(field).collect();
        format!(
            "{head}#[derive(Debug)]\npub struct Many<'a, T: Copy> {{\n{fields}}}\n\nfn f() {{\n    x: 1,\n}}\n"
        )
    }

    #[test]
    fn a_struct_ends_at_the_limit() {
        let (fits, many) = (with(FIELDS_MAX, ""), with(FIELDS_MAX + 1, "/// Doc.\n"));
        assert!(places(struct_fields, &[(HOT, &fits), ("crates/cli/src/arguments.rs", &many)]).is_empty());
        assert_eq!(places(struct_fields, &[(HOT, &many)]), ["crates/sim/src/pass.rs:3"]);
        assert!(places(struct_fields, &[(HOT, &format!("#[cfg(test)]\n{many}"))]).is_empty());
    }

    #[test]
    fn a_reason_excuses_the_struct_below_it_alone() {
        let reason = format!("/// Doc.\n{REASON}they are one row of a table.\n");
        assert!(places(struct_fields, &[(HOT, &with(FIELDS_MAX + 1, &reason))]).is_empty());
        let of_another = format!("{reason}struct Unit;\n");
        let unneeded_and_none = ["crates/sim/src/pass.rs:3", "crates/sim/src/pass.rs:5"];
        assert_eq!(places(struct_fields, &[(HOT, &with(FIELDS_MAX + 1, &of_another))]), unneeded_and_none);
        let none = format!("{REASON}\n");
        assert_eq!(places(struct_fields, &[(HOT, &with(FIELDS_MAX + 1, &none))]).len(), 1);
    }

    #[test]
    fn a_reason_without_need_goes() {
        let reason = format!("{REASON}there were some.\n");
        assert_eq!(places(struct_fields, &[(HOT, &with(FIELDS_MAX, &reason))]), ["crates/sim/src/pass.rs:3"]);
    }
}
