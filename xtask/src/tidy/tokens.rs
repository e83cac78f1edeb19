//! A simple tokenizer for Rust source, as far as the rules need it: without comments, strings and tests.

/// A word, `::`, or one punctuation character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub line: usize,
    pub text: &'a str,
}

/// The tokens of a file, without items under `#[cfg(test)]`.
pub fn tokens_of(text: &str) -> Vec<Token<'_>> {
    without_tests(&all_tokens(text))
}

fn all_tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, is_code) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (rest.find("*/").map_or(rest.len(), |end| end + 2), false),
            '"' => (string_length(rest), false),
            'b' | 'r' | 'c' if raw_string_length(rest).is_some() => {
                (raw_string_length(rest).unwrap_or(1), false)
            }
            '\'' => (quote_length(rest), false),
            ':' if rest.starts_with("::") => (2, true),
            _ if is_part(first) => (rest.find(|c| !is_part(c)).unwrap_or(rest.len()), true),
            _ => (first.len_utf8(), !first.is_whitespace()),
        };
        if is_code {
            tokens.push(Token { line, text: &rest[..length] });
        }
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length in bytes of the string literal at the beginning of a text.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Length of the raw string literal at the beginning of a text.
fn raw_string_length(text: &str) -> Option<usize> {
    let signs = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let hashes = signs.len() - signs.trim_start_matches('#').len();
    let inside = signs[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inside.len();
    Some(inside.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Length of the character literal at the beginning of a text, or of the quote of a lifetime.
fn quote_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((after, _))) => text[after + 1..].find('\'').map_or(1, |end| after + end + 2),
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let texts = tokens[at..].iter().map(|token| token.text);
        if texts.take(FOR_TESTS.len()).eq(FOR_TESTS) {
            at = end_of_item(tokens, at + FOR_TESTS.len());
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// The end of the item that begins at `at`, with its attributes: after its semicolon or braces.
fn end_of_item(tokens: &[Token<'_>], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && [";", "}"].contains(&token.text) {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_lifetimes_are_told_apart() {
        let code = "fn f<'a>(x: &'a u8) { ['\"', '\\'', '\\u{7f}', b'x', '('] }";
        let texts: Vec<&str> = tokens_of(code).iter().map(|token| token.text).collect();
        let expected = "fn f < a > ( x : & a u8 ) { [ , , , b , ] }";
        assert_eq!(texts, expected.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn tokens_know_their_lines() {
        let lines: Vec<(usize, &str)> =
            tokens_of("a\n\"x\ny\" // b\n::c").iter().map(|token| (token.line, token.text)).collect();
        assert_eq!(lines, [(1, "a"), (4, "::"), (4, "c")]);
    }
}
