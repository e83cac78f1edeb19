//! Texts of numbers, one a line, as studies of paging and caching have them: pages or blocks in the order of their use.
//!
//! Only lines that begin with a digit count. Others, such as the `*` that ends some traces, are noted.

use super::assembler::Reference;
use super::digits::number;
use super::notes::{NoteKind, shown};
use super::places::{BLOCK_SHIFT, place};
use super::reader::{Grammar, open_text};
use super::{Head, Importer, Opener};
use pagewalk_trace::Grain;
use pagewalk_units::{Kind, PAGE_SHIFT};

/// Most digits of a number.
const MAX_DIGITS: usize = 19;

/// Numbers of pages of 4 KiB.
pub(super) const PAGES: Importer = format::<PAGE_SHIFT>("pages", "the number of a 4 KiB page on each line");

/// Numbers of blocks of 64 bytes.
pub(super) const BLOCKS: Importer =
    format::<BLOCK_SHIFT>("blocks", "the number of a 64-byte block on each line");

/// The format of numbers of pieces of memory of `1 << SHIFT` bytes.
const fn format<const SHIFT: u32>(name: &'static str, about: &'static str) -> Importer {
    Importer { name, about, recognises: are_numbers, open: Opener::One(open_text::<Numbers<SHIFT>>) }
}

/// Whether there are numbers alone on their lines, and no other words.
fn are_numbers(head: &Head<'_>) -> bool {
    let mut lines = head.lines().map(Line::read);
    let has_numbers = lines.any(|line| matches!(line, Line::Number(_)));
    has_numbers
        && head
            .lines()
            .all(|line| !line.iter().any(u8::is_ascii_alphabetic) && Line::read(line) != Line::Damaged)
}

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Number(u64),
    Blank,
    /// It does not begin with a digit.
    Other,
    /// It begins with a digit, and is no number.
    Damaged,
}

impl Line {
    fn read(text: &[u8]) -> Line {
        let text = text.trim_ascii();
        match text.first() {
            None => Line::Blank,
            Some(first) if !first.is_ascii_digit() => Line::Other,
            Some(_) => {
                let digits = std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_DIGITS);
                digits.and_then(|digits| digits.parse().ok()).map_or(Line::Damaged, Line::Number)
            }
        }
    }
}

/// The grammar of numbers of pieces of memory of `1 << SHIFT` bytes.
#[derive(Debug, Default)]
struct Numbers<const SHIFT: u32>;

impl<const SHIFT: u32> Grammar for Numbers<SHIFT> {
    type Line = Line;
    const ENGINE: &'static str = if SHIFT == PAGE_SHIFT { "pages" } else { "blocks" };
    const GRAIN: Grain = if SHIFT == PAGE_SHIFT { Grain::Page } else { Grain::Byte };
    const SORTS: &'static [NoteKind] =
        &[NoteKind { what: "that do not begin with a digit", why: "passed over" }];
    const FACTS: &'static [&'static str] = &[
        "each number is a load of one byte, the first of its page or block; there are no instructions, threads or \
         mappings",
    ];

    #[inline]
    fn front(text: &[u8]) -> Option<(Reference, usize)> {
        let (number, end) = number::<10>(text, 0, MAX_DIGITS)?;
        let address = (text[end] == b'\n').then(|| place(number, SHIFT).ok())??;
        Some((Reference { kind: Kind::Load, address, bytes: 1 }, end + 1))
    }

    fn read(text: &[u8]) -> Line {
        Line::read(text)
    }

    fn reference(&self, line: Line, text: &[u8], _begun: bool) -> Result<Option<Reference>, String> {
        let number = match line {
            Line::Number(number) => number,
            Line::Blank | Line::Other => return Ok(None),
            Line::Damaged => {
                return Err(format!(
                    "(`{}`) is not one number of up to {MAX_DIGITS} decimal digits",
                    shown(text.trim_ascii_end())
                ));
            }
        };
        place(number, SHIFT).map(|address| Some(Reference { kind: Kind::Load, address, bytes: 1 }))
    }

    fn sort(&mut self, line: Line, _text: &[u8]) -> Option<usize> {
        (line == Line::Other).then_some(0)
    }

    fn is_cut(_line: Line, _text: &[u8]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::told;
    use super::super::{ImportError, Input, open};
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    #[test]
    fn only_lines_that_begin_with_a_digit_count() {
        let text = "0\r\n17\n*\n\n 3 \n-4\n5";
        let (read, notes, error) = told(&PAGES, text);
        assert_eq!(read, ["Load 0,1", "Load 11000,1", "Load 3000,1", "Load 5000,1"]);
        assert_eq!(error, None);
        assert_eq!(notes[0], "2 lines that do not begin with a digit (line 3: `*`): passed over");
        assert_eq!(told(&BLOCKS, text).0, ["Load 0,1", "Load 440,1", "Load c0,1", "Load 140,1"]);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (bad, part) in [
            ("12x\n", "line 2 (`12x`) is not one number of up to 19 decimal digits"),
            ("1 2\n", "line 2 (`1 2`) is not one number"),
            ("12345678901234567890\n", "line 2 (`12345678901234567890`) is not one number"),
            (
                "35184372088832\n",
                "line 2 has number 35184372088832: numbers of 4096-byte pieces of memory are below 2^45",
            ),
        ] {
            let (read, _, error) = told(&PAGES, format!("1\n{bad}"));
            let error = error.unwrap();
            assert!(error.starts_with(part), "{error}");
            assert_eq!(read, ["Load 1000,1"], "what came before is told");
        }
    }

    #[test]
    fn numbers_are_recognised_and_their_meaning_is_asked_for() {
        let of = |text: &str| {
            let bytes = Box::new(Cursor::new(text.to_owned().into_bytes()));
            open(vec![Input { name: "f".to_owned(), bytes, in_folder: false }], None).map(|_| ())
        };
        let Err(ImportError::Ambiguous(choices)) = of("1\n2\n*\n") else { panic!("it was read") };
        assert!(choices.contains("pages (") && choices.contains("blocks ("), "{choices}");
        for other in ["1\nwords\n", "*\n", "1,2\n"] {
            assert!(matches!(of(other), Err(ImportError::Unrecognised { .. })), "{other}");
        }
    }

    proptest! {
        /// The fast and the thorough parser agree.
        #[test]
        fn lines_read_fast_are_read_alike(number in 0u64..1 << 45) {
            let text = format!("{number}\n");
            let (parts, bytes) = Numbers::<12>::front(text.as_bytes()).unwrap();
            prop_assert_eq!(bytes, text.len());
            let line = Line::read(text.trim_end().as_bytes());
            prop_assert_eq!(line, Line::Number(number));
            prop_assert_eq!(Numbers::<12>.reference(line, text.as_bytes(), true), Ok(Some(parts)));
        }

        #[test]
        fn any_text_ends_in_an_error_or_the_end(text in "[0-9*x \n\r-]{0,60}") {
            told(&PAGES, text.clone());
            told(&BLOCKS, text);
        }
    }
}
