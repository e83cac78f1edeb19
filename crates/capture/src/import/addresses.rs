//! Texts of load and store addresses, as caches' simulators have them.
//!
//! ```text
//! l 0x1fffff58 1
//! s 0x1fffff50
//! ```
//!
//! `l` is a load and `s` a store, in either case; the address is hexadecimal. What follows is passed over: where there
//! is a third column, it counts instructions and is no size. So each reference has one byte.

use super::assembler::Reference;
use super::digits::number;
use super::notes::{NoteKind, shown};
use super::reader::{Grammar, open_text};
use super::{Importer, Opener};
use pagewalk_units::Kind;

/// Most digits of an address.
const MAX_DIGITS: usize = 16;

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "addresses",
    about: "lines of `l 0xADDRESS` and `s 0xADDRESS`, loads and stores",
    recognises: |head| head.lines().any(|line| matches!(Line::read(line), Line::Reference(_))),
    open: Opener::One(open_text::<Addresses>),
};

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Reference(Reference),
    Blank,
    /// It begins with another word.
    Other,
    /// It has no address.
    Damaged,
}

impl Line {
    fn read(text: &[u8]) -> Line {
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let kind = match words.next() {
            None => return Line::Blank,
            Some(b"l" | b"L") => Kind::Load,
            Some(b"s" | b"S") => Kind::Store,
            Some(_) => return Line::Other,
        };
        words.next().and_then(address).map_or(Line::Damaged, |address| reference(kind, address))
    }
}

fn address(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"0X"))?;
    let fits = (1..=MAX_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    fits.then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
}

fn reference(kind: Kind, address: u64) -> Line {
    Line::Reference(Reference { kind, address, bytes: 1 })
}

/// The grammar.
#[derive(Debug, Default)]
struct Addresses;

impl Grammar for Addresses {
    type Line = Line;
    const ENGINE: &'static str = "addresses";
    const SORTS: &'static [NoteKind] =
        &[NoteKind { what: "of neither loads nor stores", why: "passed over" }];
    const FACTS: &'static [&'static str] = &[
        "lines of addresses have no sizes: each reference has one byte; there are no instructions, threads or mappings",
    ];

    #[inline]
    fn front(text: &[u8]) -> Option<(Reference, usize)> {
        let kind = match text.first_chunk::<4>()? {
            b"l 0x" => Kind::Load,
            b"s 0x" => Kind::Store,
            _ => return None,
        };
        let (address, end) = number::<16>(text, 4, MAX_DIGITS)?;
        let end = match text[end] {
            b' ' => number::<10>(text, end + 1, 9)?.1,
            _ => end,
        };
        (text[end] == b'\n').then_some((Reference { kind, address, bytes: 1 }, end + 1))
    }

    fn read(text: &[u8]) -> Line {
        Line::read(text)
    }

    fn reference(&self, line: Line, text: &[u8], _begun: bool) -> Result<Option<Reference>, String> {
        match line {
            Line::Reference(parts) => Ok(Some(parts)),
            Line::Blank | Line::Other => Ok(None),
            Line::Damaged => Err(format!(
                "(`{}`) has no address: it is to be `l 0xADDRESS` or `s 0xADDRESS`, the address 1 to 16 hexadecimal \
                 digits",
                shown(text.trim_ascii_end())
            )),
        }
    }

    fn sort(&mut self, line: Line, _text: &[u8]) -> Option<usize> {
        (line == Line::Other).then_some(0)
    }

    fn is_cut(line: Line, _text: &[u8]) -> bool {
        line == Line::Damaged
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::told;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loads_and_stores_are_read_whatever_ends_lines() {
        let text = "s 0x1fffff50 1\r\n\nl 0x1FFFFF58 12345\n# two\n L\t0xa\nl 0x10";
        let (read, notes, error) = told(&FORMAT, text);
        assert_eq!(read, ["Store 1fffff50,1", "Load 1fffff58,1", "Load a,1", "Load 10,1"]);
        assert_eq!(error, None);
        assert_eq!(notes[0], "1 line of neither loads nor stores (line 4: `# two`): passed over");
        assert!(notes[1].starts_with("lines of addresses have no sizes"), "{notes:?}");
    }

    #[test]
    fn wrong_lines_are_named() {
        for bad in ["l\n", "l 1000\n", "s 0x\n", "l 0xyz\n", "s 0x12345678901234567\n"] {
            let (read, _, error) = told(&FORMAT, format!("l 0x1000 0\n{bad}"));
            let error = error.unwrap();
            let expected = format!("line 2 (`{}`) has no address: it is to be `l 0xADDRESS`", bad.trim_end());
            assert!(error.starts_with(&expected), "{error}");
            assert_eq!(read.len(), 1, "what came before is told");
        }
        let cut = told(&FORMAT, "l 0x1000 0\ns 0x").2;
        assert_eq!(cut.as_deref(), Some("the text ends in the middle of line 2"));
    }

    proptest! {
        /// The fast and the thorough parser agree.
        #[test]
        fn lines_read_fast_are_read_alike(
            store in any::<bool>(), address in any::<u64>(), third in prop::option::of(0u32..99999),
        ) {
            let third = third.map_or(String::new(), |third| format!(" {third}"));
            let text = format!("{} {address:#x}{third}\n", if store { "s" } else { "l" });
            let (parts, bytes) = Addresses::front(text.as_bytes()).unwrap();
            prop_assert_eq!(bytes, text.len());
            prop_assert_eq!(Line::read(text.trim_end().as_bytes()), Line::Reference(parts));
        }

        #[test]
        fn any_text_ends_in_an_error_or_the_end(text in "[ls0x1a \n\r]{0,60}") {
            told(&FORMAT, text);
        }
    }
}
