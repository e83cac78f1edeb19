//! Choices in study files: names, ranges and lists.

use pagewalk_units::names::{choice, choice_of_many, closest};
use serde::Deserialize;

/// Numbers: `"1..64"`, inclusive, or a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "give a range such as \"1..64\", or a list such as [1, 4]")]
pub enum Numbers {
    /// A range as text.
    Range(String),
    /// A list.
    List(Vec<u32>),
}

/// Names: one, or a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "give a name such as \"data\", or a list of names")]
pub enum Names {
    /// One name.
    One(String),
    /// A list.
    List(Vec<String>),
}

impl Names {
    /// All names.
    pub fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::List(names) => names,
        }
    }
}

/// The members of `known` that `numbers` selects, ascending; all by default. `what` describes the known ones.
pub fn numbers(key: &str, numbers: Option<Numbers>, known: &[u32], what: &str) -> Result<Vec<u32>, String> {
    let member = |number: u32| {
        if known.contains(&number) { Ok(number) } else { Err(format!("{key}: {number}: choose {what}")) }
    };
    let chosen = match numbers {
        None => known.to_vec(),
        Some(Numbers::List(list)) => {
            let mut chosen = list.into_iter().map(member).collect::<Result<Vec<_>, _>>()?;
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        }
        Some(Numbers::Range(text)) => {
            let ends = text.split_once("..").unwrap_or((&text, &text));
            let end = |end: &str| {
                let number = end.trim().parse();
                number.map_err(|_| format!("{key}: \"{text}\": give a range such as \"1..64\", or a list"))
            };
            let (first, last) = (member(end(ends.0)?)?, member(end(ends.1)?)?);
            known.iter().copied().filter(|number| (first..=last).contains(number)).collect()
        }
    };
    if chosen.is_empty() { Err(format!("{key}: none is chosen: choose {what}")) } else { Ok(chosen) }
}

/// The value with this name.
pub fn one<T: Copy>(key: &str, name: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(known, _)| *known == name);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        format!("{key}: \"{name}\": {}", choice(name, &names))
    })
}

/// The choices instead of an unknown name of the study's own; `from` is the key that would define such names.
pub fn choice_of_study(asked: &str, known: &[&str], from: &str) -> String {
    if known.is_empty() { format!("choose from none: see {from}") } else { choice(asked, known) }
}

/// The choices instead of an unknown metric.
pub fn of_metrics(asked: &str, known: &[String]) -> String {
    let is_of_sets = |name: &str| name.starts_with("last_level.");
    if is_of_sets(asked) && !known.iter().any(|name| is_of_sets(name)) {
        return "metrics of sets are for a [[layout]] of one process, with thp = \"never\", the host's kernel, no \
                structure and one core"
            .to_owned();
    }
    let names = || known.iter().map(String::as_str);
    let choice = choice_of_many(asked, names(), "`pagewalk simulate --json`");
    if closest(asked, names()).is_empty() { format!("there is none here; {choice}") } else { choice }
}

/// The values with these names, in the order of `known`; at least one.
pub fn several<T: Copy + PartialEq>(
    key: &str,
    names: &[String],
    known: &[(&str, T)],
) -> Result<Vec<T>, String> {
    let chosen = names.iter().map(|name| one(key, name, known)).collect::<Result<Vec<T>, _>>()?;
    if chosen.is_empty() {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        return Err(format!("{key}: none is chosen: choose from {}", names.join(", ")));
    }
    Ok(known.iter().map(|&(_, value)| value).filter(|value| chosen.contains(value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Result<Vec<u32>, String> {
        numbers("ways", Some(Numbers::Range(text.to_owned())), &[1, 2, 4, 8], "1, 2, 4 or 8")
    }

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!(range("2..8").unwrap(), [2, 4, 8]);
        assert_eq!(range("4").unwrap(), [4]);
        assert_eq!(numbers("ways", None, &[1, 2], "").unwrap(), [1, 2]);
        assert_eq!(numbers("ways", Some(Numbers::List(vec![8, 1, 8])), &[1, 2, 4, 8], "").unwrap(), [1, 8]);
        for (bad, part) in
            [("1..9", "9: choose"), ("x", "\"1..64\""), ("8..2", "none is chosen"), ("3", "3: choose")]
        {
            let why = range(bad).unwrap_err();
            assert!(why.starts_with("ways: ") && why.contains(part), "{why}");
        }
    }

    #[test]
    fn names_keep_the_known_order() {
        let known = [("a", 1), ("b", 2)];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(several("x", &names(&["b", "a", "b"]), &known).unwrap(), [1, 2]);
        assert_eq!(several("x", &names(&["c"]), &known).unwrap_err(), "x: \"c\": choose from a, b");
        assert!(several("x", &[], &known).unwrap_err().contains("a, b"));
    }
}
