//! Suggestions in messages about unknown names: the most similar known names come first.

/// Maximum number of suggestions.
const PROPOSED: usize = 3;
/// Least similarity of a suggestion, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.62;
/// Similarity of a long name with one wrong letter.
const ONE_WRONG_LETTER: f64 = 0.95;
/// Least number of letters of a long name.
const LONG_NAME_MIN: usize = 5;
/// Similarity of two names that share a word.
const SHARED_WORD: f64 = 0.9;
/// Least number of letters of a shared word.
const WORD_LETTERS: usize = 3;

/// Up to three of the `known` names that are similar to `asked`, the most similar first.
pub fn closest<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    closest_of(asked, known.into_iter().map(|name| (name, "")))
}

/// Like [`closest`], for names with descriptions: words of a description count too, but less than words of names.
pub fn closest_of<'a>(asked: &str, known: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<&'a str> {
    let about = |text: &str| likeness_of_words(asked, text) * SHARED_WORD;
    let mut likely: Vec<(f64, &str)> =
        known.into_iter().map(|(name, text)| (likeness(asked, name).max(about(text)), name)).collect();
    likely.retain(|&(like, _)| like >= SIMILARITY_MIN);
    likely.sort_by(|a, b| b.0.total_cmp(&a.0));
    likely.dedup_by_key(|&mut (_, name)| name);
    likely.truncate(PROPOSED);
    likely.into_iter().map(|(_, name)| name).collect()
}

/// The suggestions for `asked` when there are few known names: the closest ones, then all.
pub fn choice(asked: &str, known: &[&str]) -> String {
    choice_of(asked, &known.iter().map(|&name| (name, "")).collect::<Vec<_>>())
}

/// Like [`choice`], for names with descriptions.
pub fn choice_of(asked: &str, known: &[(&str, &str)]) -> String {
    let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
    let all = format!("choose from {}", names.join(", "));
    meant(&closest_of(asked, known.iter().copied())).map_or(all.clone(), |meant| format!("{meant} {all}"))
}

/// Like [`choice`] when there are many names: the closest ones, then the command (in backticks) that lists all.
pub fn choice_of_many<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>, list: &str) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let all = format!("{list} lists all {}", known.len());
    meant(&closest(asked, known)).map_or(all.clone(), |meant| format!("{meant} {all}"))
}

/// "did you mean …?" with these names; `None` if there are none.
pub fn meant(names: &[&str]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = quoted.split_last()?;
    let comma = if others.is_empty() { String::new() } else { format!("{} or ", others.join(", ")) };
    Some(format!("did you mean {comma}{last}?"))
}

/// A parser's message with suggestions added after the unknown name, taken from the names that the parser expected:
/// "unknown field `sise` (did you mean `size`?), expected one of `size`, `initial`".
pub fn with_closest(message: &str) -> String {
    let proposed = || {
        let start = ["unknown field `", "unknown variant `"]
            .iter()
            .find_map(|mark| message.find(mark).map(|at| at + mark.len()))?;
        let (asked, rest) = message[start..].split_once('`')?;
        let list = rest.strip_prefix(", expected ")?.lines().next()?;
        let known: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        Some((start + asked.len() + 1, meant(&closest(asked, known))?))
    };
    match proposed() {
        Some((at, meant)) => format!("{} ({meant}){}", &message[..at], &message[at..]),
        None => message.to_owned(),
    }
}

/// The similarity of two names, up to 1: by letters, of which one may always be wrong, or by a word that both
/// contain.
fn likeness(asked: &str, name: &str) -> f64 {
    let (asked_letters, letters) = (letters(asked), letters(name));
    let is_slip = asked_letters.len() > 1 && strsim::damerau_levenshtein(&asked_letters, &letters) <= 1;
    let by_letters = strsim::normalized_damerau_levenshtein(&asked_letters, &letters);
    let by_slip = match asked_letters.len().max(letters.len()) {
        _ if !is_slip => 0.0,
        LONG_NAME_MIN.. => ONE_WRONG_LETTER,
        _ => SIMILARITY_MIN,
    };
    by_letters.max(likeness_of_words(asked, name)).max(by_slip)
}

/// The name in lower case without separators, which people write in different ways.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|word| word.len() >= WORD_LETTERS).map(str::to_lowercase).collect()
}

/// The similarity of the two most similar words. Names that share a number but no word are not similar.
fn likeness_of_words(asked: &str, text: &str) -> f64 {
    let (asked, text) = (words(asked), words(text));
    let pairs = asked.iter().flat_map(|one| text.iter().map(move |other| (one, other)));
    let like = |(one, other): (&String, &String)| strsim::normalized_damerau_levenshtein(one, other);
    pairs.map(like).fold(0.0, f64::max) * SHARED_WORD
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: [&str; 8] =
        ["alpha_21064", "golden_cove", "k8", "mips_r2000", "mips_r4000", "p550", "zen2", "zen4_coalescing"];

    #[test]
    fn the_closest_come_first() {
        assert_eq!(closest("alpha-21064", MACHINES), ["alpha_21064"]);
        assert_eq!(closest("r2000", MACHINES), ["mips_r2000", "mips_r4000"]);
        assert_eq!(closest("Zen4", MACHINES)[0], "zen4_coalescing");
        assert_eq!(closest("k9", MACHINES), ["k8"]);
        assert_eq!(closest("goldencove", MACHINES), ["golden_cove"]);
        assert_eq!(closest("walk", ["walk_cycles", "walk_references", "walks"])[0], "walks");
        assert_eq!(closest("nonesuch", MACHINES), [""; 0]);
        assert_eq!(closest("", MACHINES), [""; 0]);
        let policies = [("fixed", "pages of one size"), ("linux", "THP at faults, khugepaged")];
        assert_eq!(closest_of("thp_always", policies), ["linux"]);
    }

    #[test]
    fn choices_are_told_with_the_closest_first() {
        assert_eq!(choice("c", &["a", "b"]), "choose from a, b");
        assert_eq!(choice("ways", &["entries", "way"]), "did you mean `way`? choose from entries, way");
        let many = |asked| choice_of_many(asked, MACHINES, "`pagewalk machines list`");
        let expected = "did you mean `mips_r2000` or `mips_r4000`? `pagewalk machines list` lists all 8";
        assert_eq!(many("r2000"), expected);
        assert_eq!(many("nonesuch"), "`pagewalk machines list` lists all 8");
    }

    #[test]
    fn a_parsers_message_names_the_closest() {
        let message = "TOML parse error at line 1, column 1\n  |\n1 | sise = 1\n  | ^^^^\n\
                       unknown field `sise`, expected one of `initial`, `size`";
        let told = with_closest(message);
        let expected = "unknown field `sise` (did you mean `size`?), expected one of `initial`, `size`";
        assert!(told.starts_with("TOML parse error") && told.ends_with(expected), "{told}");
        let told = with_closest("unknown variant `lruu`, expected `lru` or `fifo`");
        assert_eq!(told, "unknown variant `lruu` (did you mean `lru`?), expected `lru` or `fifo`");
        for plain in [
            "missing field `a`",
            "unknown field `x`, expected `abc`",
            "unknown field `x`, there are no fields",
        ] {
            assert_eq!(with_closest(plain), plain);
        }
    }
}
