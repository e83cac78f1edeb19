//! Checks that commands and options named in pages exist.

use super::commands::{Commands, is_name, is_option};
use super::is_page;
use crate::markdown::{Kind, lines, pieces};
use crate::tidy::{Finding, Tree};

/// Checks that spans and lines of code that call `pagewalk` use commands and options of its help. A span that calls a
/// command without `pagewalk` is checked if it contains an option.
pub fn commands_and_flags(tree: &Tree, commands: &Commands, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files(is_page) {
        let mut found = |line: usize, wrong: Vec<String>| {
            findings.extend(wrong.into_iter().map(|message| Finding {
                path: path.to_owned(),
                line,
                rule: "unknown-command",
                message,
            }));
        };
        for span in pieces(text).iter().filter(|piece| piece.is_code) {
            found(span.line, wrong_in_span(commands, &span.text));
        }
        // A command continues after a line that ends with a backslash.
        let mut open = String::new();
        for line in lines(text).filter(|line| line.kind == Kind::Code) {
            open.push_str(line.text.trim());
            if let Some(begun) = open.strip_suffix('\\').map(str::to_owned) {
                open = begun;
                continue;
            }
            let wrong = calls(&std::mem::take(&mut open)).flat_map(|call| wrong(commands, call)).collect();
            found(line.number, wrong);
        }
    }
}

/// The calls of `pagewalk` in a shell line, each without that word.
fn calls(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split(['|', ';', '&']).map(|part| part.trim().trim_start_matches("$ "));
    parts.filter_map(|part| {
        let part = part.strip_prefix("./").unwrap_or(part);
        // After two spaces, or a `#`, comes a comment.
        let part = part.split("  ").next()?.split(" #").next()?;
        part.strip_prefix("pagewalk").filter(|rest| rest.starts_with(' '))
    })
}

fn wrong_in_span(commands: &Commands, span: &str) -> Vec<String> {
    let first = span.split(' ').next().unwrap_or_default();
    let is_command = commands.named(first).is_some() || commands.has_below(first);
    if is_command && span.contains(" --") {
        return wrong(commands, span);
    }
    calls(span).flat_map(|call| wrong(commands, call)).collect()
}

/// The commands and options in a call, such as `simulate --os linux T.pwt`, that do not exist.
fn wrong(commands: &Commands, call: &str) -> Vec<String> {
    let words: Vec<&str> = call.split_whitespace().take_while(|word| *word != "--").collect();
    let mut name = String::new();
    let mut before = "";
    let mut wrong = Vec::new();
    for &word in &words {
        let is_value = before.starts_with('-');
        before = word;
        if word.starts_with('-') || is_value && !name.is_empty() {
            continue;
        }
        let longer = format!("{name} {word}");
        let longer = longer.trim_start();
        let known = commands.named(longer).is_some() || commands.has_below(longer);
        match known {
            true => name = longer.to_owned(),
            // A placeholder for any command, or a command's argument.
            false if !is_name(word) || word == "help" => break,
            false if name.is_empty() || commands.has_below(&name) => {
                wrong.push(format!("`pagewalk {longer}` does not exist"));
                return wrong;
            }
            false => break,
        }
    }
    if name.is_empty() && words.iter().any(|word| !word.starts_with('-')) {
        return wrong;
    }
    let options = commands.options(&name);
    for word in words {
        let word = word.trim_start_matches('[').trim_end_matches([',', ']', '…', '.', ')']);
        let option = word.split(['=', '[']).next().unwrap_or_default();
        if is_option(option) && !options.contains(option) {
            let name = if name.is_empty() { "" } else { &format!(" {name}") };
            wrong.push(format!("`pagewalk{name}` has no option `{option}`"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::commands::tests::commands;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut tree = Tree::default();
        tree.add("docs/guide.md", text);
        let mut findings = Vec::new();
        commands_and_flags(&tree, &commands(), &mut findings);
        findings.into_iter().map(|finding| format!("{}: {}", finding.line, finding.message)).collect()
    }

    #[test]
    fn what_exists_is_no_finding() {
        for fine in [
            "`pagewalk profile -o r.html --thp=never -- ls --color`",
            "`./pagewalk trace info --json T.pwt` `pagewalk trace COMMAND --help` `pagewalk COMMAND`",
            "`pagewalk -q layout run` `pagewalk --quiet` `profile --to r.html` `pagewalk help profile`",
            "`pagewalk.result/2` `pagewalk-bench --x` `cargo run --release` `profile`, `trace`",
            "```sh\npagewalk profile \\\n    --out r.html -- ./a --b\n$ pagewalk trace info T | grep --x\n```\n",
            "```text\npagewalk: report written --to\npagewalk profile    runs --it\npagewalk profile # --it\n```\n",
            "pagewalk nonesuch --in prose\n",
            "`pagewalk profile [--thp MODE]… -o FILE`",
        ] {
            assert_eq!(found(fine), [""; 0], "{fine}");
        }
    }

    #[test]
    fn what_does_not_exist_is_found_at_its_line() {
        let fails = [
            ("`pagewalk profil -o x`", "1: `pagewalk profil` does not exist"),
            ("\n| `./pagewalk trace inf T` |", "2: `pagewalk trace inf` does not exist"),
            ("`pagewalk profile --os linux -- ls`", "1: `pagewalk profile` has no option `--os`"),
            ("a `pagewalk profile\n--os linux`", "1: `pagewalk profile` has no option `--os`"),
            ("`trace info --jsn`", "1: `pagewalk trace info` has no option `--jsn`"),
            ("`pagewalk --loud`", "1: `pagewalk` has no option `--loud`"),
            ("```\nls && ./pagewalk profile -x -- ls\n```", "2: `pagewalk profile` has no option `-x`"),
            ("```\npagewalk profile \\\n  --os x\n```", "3: `pagewalk profile` has no option `--os`"),
            ("    pagewalk layout walk", "1: `pagewalk layout walk` does not exist"),
        ];
        for (text, finding) in fails {
            assert_eq!(found(text), [finding], "{text}");
        }
    }
}
