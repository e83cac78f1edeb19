//! The manual of policies as a page of the reference.

use super::manual::PolicyKey;
use super::{OsSpec, offline};
use std::fmt::Write;

const HEAD: &str = "\
# Policies of kernels

Every policy that `--os` and `[os]` tables can name, with every key. On the command line keys follow
a colon: `--os linux:thp=never,khugepaged.mthp=strict`. In a file they stand in the table `[os]`,
with `policy`; `name` there says what results call it.

Defaults are those of a machine with base pages of 4K and huge pages of 2M. A default of `false` for
a table means that it has no effect unless it, or a key of it, is given.
";

/// `docs/reference/policies.md`, as Markdown: each policy with its own keys, then the common keys.
pub fn policies_page() -> String {
    let policies: Vec<(&str, &str, Vec<PolicyKey>)> = OsSpec::policies()
        .map(|(name, title)| (name, title, OsSpec::keys(name).expect("the list has the policy")))
        .collect();
    let running: Vec<(&str, &[PolicyKey])> = policies
        .iter()
        .filter(|(name, ..)| *name != offline::NAME)
        .map(|(name, _, keys)| (*name, keys.as_slice()))
        .collect();
    let is_shared = |key: &PolicyKey| running.iter().all(|(_, keys)| of_name(keys, key).is_some());
    let mut page = HEAD.to_owned();
    for (name, title, keys) in &policies {
        let own: Vec<PolicyKey> =
            keys.iter().filter(|key| *name == offline::NAME || !is_shared(key)).cloned().collect();
        let _ = write!(page, "\n## {name}\n\n{}.\n", capitalised(title));
        table(&mut page, &own);
    }
    page.push_str("\n## Keys of every policy\n\nEvery policy but `offline` has them.\n");
    let shared = running[0].1.iter().filter(|key| is_shared(key));
    let shared: Vec<PolicyKey> =
        shared.map(|key| PolicyKey { usual: usual(key, &running), ..key.clone() }).collect();
    table(&mut page, &shared);
    page
}

fn table(page: &mut String, keys: &[PolicyKey]) {
    if keys.is_empty() {
        page.push_str("\nIt has no keys of its own.\n");
        return;
    }
    page.push_str("\n| key | default | choices | meaning |\n|---|---|---|---|\n");
    for PolicyKey { name, usual, choices, meaning } in keys {
        let _ = writeln!(page, "| `{name}` | {usual} | {choices} | {meaning} |");
    }
}

/// The same key among `keys`, if present.
fn of_name<'a>(keys: &'a [PolicyKey], key: &PolicyKey) -> Option<&'a PolicyKey> {
    keys.iter().find(|other| other.name == key.name && other.meaning == key.meaning)
}

/// The default of a common key: the most frequent one, then each other with its policies.
fn usual(key: &PolicyKey, policies: &[(&str, &[PolicyKey])]) -> String {
    let mut values: Vec<(&str, Vec<String>)> = Vec::new();
    for (policy, keys) in policies {
        let Some(key) = of_name(keys, key) else { continue };
        match values.iter_mut().find(|(value, _)| *value == key.usual) {
            Some((_, names)) => names.push(format!("`{policy}`")),
            None => values.push((&key.usual, vec![format!("`{policy}`")])),
        }
    }
    values.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let told = values.iter().enumerate().map(|(at, (value, names))| match at {
        0 => (*value).to_owned(),
        _ => format!("{}: {value}", names.join(", ")),
    });
    told.collect::<Vec<_>>().join("; ")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_chapter_and_shared_keys_stand_once() {
        let page = policies_page();
        for (name, _) in OsSpec::policies() {
            assert!(page.contains(&format!("\n## {name}\n")), "{name}");
        }
        for (part, count) in [("| `memory.size` |", 1), ("| `throttle.trip` |", 1), ("| `max_page` |", 5)] {
            assert_eq!(page.matches(part).count(), count, "{part}");
        }
        let romer = "`fixed`, `asap`, `asap-4-64`, `approx-online`, `online`: 0";
        assert!(page.contains(&format!("| `costs.fault` | 2000; {romer} |")), "{page}");
    }
}
