//! Makes names safe to print: they come from the traced program, which may choose them to deceive.

/// A name that is safe to show: control characters would drive the terminal, and characters
/// that turn or hide text would forge lines.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns_or_hides(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// A text cut to `characters` in its middle: the ends of a path say the most.
pub fn shortened(text: &str, characters: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= characters {
        return text.to_owned();
    }
    let kept = characters.saturating_sub(1);
    let head = kept / 3;
    let mut short: String = chars[..head].iter().collect();
    short.push('…');
    short.extend(&chars[chars.len() - (kept - head)..]);
    short
}

/// Zero-width characters, line separators and marks that change the writing direction.
fn turns_or_hides(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_or_turns_text_is_spelt_out() {
        assert_eq!(printable("a\x1b[31mb\n\u{202e}c"), "a\\u{1b}[31mb\\n\\u{202e}c");
        assert_eq!(printable("/usr/lib/Größe"), "/usr/lib/Größe");
    }

    #[test]
    fn long_paths_lose_their_middle() {
        assert_eq!(shortened("/usr/lib/x86_64-linux-gnu/libc.so.6", 16), "/usr/…/libc.so.6");
        assert_eq!(shortened("short", 16), "short");
    }
}
