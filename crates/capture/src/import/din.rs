//! Dinero's traditional `din` text: a label and an address on each line.
//!
//! ```text
//! 2 400c50
//! 0 7ffeffe7e
//! 1 0x7ffeffe80 whatever follows is a comment
//! ```
//!
//! Labels: 0 a read, 1 a write, 2 an instruction fetch, 3 an escape (unknown), 4 an escape that flushes caches. Both
//! escapes are skipped and counted. Addresses are hexadecimal, with or without `0x`. There are no sizes: as in Dinero
//! IV (Edler and Hill, 1998, `dinfmt.c`), an address stands for the aligned word of [`WORD_BYTES`] around it, so no
//! reference crosses a page.

use super::assembler::Reference;
use super::digits::number;
use super::notes::{NoteKind, shown};
use super::reader::{Grammar, open_text};
use super::{Importer, Opener};
use pagewalk_units::Kind;

/// Bytes of each reference and instruction.
const WORD_BYTES: u32 = 4;
/// Most digits of an address.
const MAX_DIGITS: usize = 16;

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "din",
    about: "what Dinero reads as `din`: `LABEL ADDRESS`",
    recognises: |head| head.lines().any(|line| !matches!(Line::read(line), Line::Blank | Line::Damaged(_))),
    open: Opener::One(open_text::<Din>),
};

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Reference(Reference),
    /// An escape of unknown meaning.
    Unknown,
    /// An escape that flushes caches.
    Flush,
    Blank,
    Damaged(Damage),
}

/// Faults of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Label,
    /// There is no address.
    Short,
    Address,
}

impl Line {
    fn read(text: &[u8]) -> Line {
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(label) = words.next() else { return Line::Blank };
        let address = words.next().ok_or(Damage::Short).and_then(|word| address(word).ok_or(Damage::Address));
        let reference = |kind, address| Line::Reference(word(kind, address));
        match (label, address) {
            (b"0", Ok(address)) => reference(Kind::Load, address),
            (b"1", Ok(address)) => reference(Kind::Store, address),
            (b"2", Ok(address)) => reference(Kind::Fetch, address),
            (b"3", Ok(_)) => Line::Unknown,
            (b"4", Ok(_)) => Line::Flush,
            (b"0" | b"1" | b"2" | b"3" | b"4", Err(damage)) => Line::Damaged(damage),
            _ => Line::Damaged(Damage::Label),
        }
    }
}

fn address(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"0X")).unwrap_or(word);
    let fits = digits.len() <= MAX_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
    fits.then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
}

/// The word around an address.
fn word(kind: Kind, address: u64) -> Reference {
    Reference { kind, address: address & !u64::from(WORD_BYTES - 1), bytes: WORD_BYTES }
}

/// The grammar of `din`.
#[derive(Debug, Default)]
struct Din;

impl Grammar for Din {
    type Line = Line;
    const ENGINE: &'static str = "din";
    const SORTS: &'static [NoteKind] = &[
        NoteKind { what: "with label 3 (escape, unknown)", why: "passed over" },
        NoteKind {
            what: "with label 4 (escape, cache flush)",
            why: "passed over; the references behind it find caches and TLBs as they are",
        },
    ];

    const FACTS: &'static [&'static str] = &[
        "`din` has no sizes: each reference and instruction is the aligned word of 4 bytes around its address, and \
         crosses no page; there are no threads, mappings or system calls",
    ];

    #[inline]
    fn front(text: &[u8]) -> Option<(Reference, usize)> {
        let kind = match text.first_chunk::<2>()? {
            b"0 " => Kind::Load,
            b"1 " => Kind::Store,
            b"2 " => Kind::Fetch,
            _ => return None,
        };
        let (address, end) = number::<16>(text, 2, MAX_DIGITS)?;
        (text[end] == b'\n').then(|| (word(kind, address), end + 1))
    }

    fn read(text: &[u8]) -> Line {
        Line::read(text)
    }

    fn reference(&self, line: Line, text: &[u8], _begun: bool) -> Result<Option<Reference>, String> {
        let wrong = match line {
            Line::Reference(parts) => return Ok(Some(parts)),
            Line::Unknown | Line::Flush | Line::Blank => return Ok(None),
            Line::Damaged(Damage::Label) => {
                "begins with no label of `din`: choose from 0 (read), 1 (write), 2 (instruction fetch), 3 (unknown, \
                 passed over), 4 (cache flush, passed over)"
            }
            Line::Damaged(Damage::Short) => {
                "has no address: it is to be `LABEL ADDRESS`, the address in hexadecimal"
            }
            Line::Damaged(Damage::Address) => {
                "has no address behind the label: it is to be `LABEL ADDRESS`, the address 1 to 16 hexadecimal \
                 digits, with or without `0x`"
            }
        };
        Err(format!("(`{}`) {wrong}", shown(text.trim_ascii_end())))
    }

    fn sort(&mut self, line: Line, _text: &[u8]) -> Option<usize> {
        match line {
            Line::Unknown => Some(0),
            Line::Flush => Some(1),
            Line::Reference(_) | Line::Blank | Line::Damaged(_) => None,
        }
    }

    fn is_cut(line: Line, text: &[u8]) -> bool {
        let in_prefix = matches!(text.last(), Some(b'x' | b'X'));
        line == Line::Damaged(Damage::Short) || line == Line::Damaged(Damage::Address) && in_prefix
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::told;
    use super::super::{ImportError, Input, Opened, open};
    use super::*;
    use proptest::prelude::*;

    /// References, notes, and the error at the end.
    fn read(text: impl Into<Vec<u8>>) -> (Vec<String>, Vec<String>, Option<String>) {
        told(&FORMAT, text)
    }

    #[test]
    fn labels_addresses_and_comments_are_read_whatever_ends_lines() {
        let text = "0 10 the stack\r\n2 0x400c53\n\n  1\t0X7fFe\n3 0\n4 0 flush\n3 1\n0 2000";
        let (told, notes, error) = read(text);
        assert_eq!(told, ["Load 10,4", "I 400c50,4", "Store 7ffc,4", "Load 2000,4"], "words, aligned");
        assert_eq!(error, None);
        assert_eq!(
            notes,
            [
                "2 lines with label 3 (escape, unknown) (line 5: `3 0`): passed over",
                "1 line with label 4 (escape, cache flush) (line 6: `4 0 flush`): passed over; the references behind \
                 it find caches and TLBs as they are",
                Din::FACTS[0],
            ]
        );
    }

    #[test]
    fn wrong_lines_are_named_with_the_choices() {
        let good = "2 1000\n0 2000\n";
        for (bad, part) in [
            ("5 1000\n", "line 3 (`5 1000`) begins with no label of `din`: choose from 0 (read), 1 (write)"),
            ("r 1000\n", "line 3 (`r 1000`) begins with no label"),
            ("# 1\n", "line 3 (`# 1`) begins with no label"),
            ("00 1\n", "line 3 (`00 1`) begins with no label"),
            ("0\n", "line 3 (`0`) has no address: it is to be `LABEL ADDRESS`"),
            ("0 xyz\n", "line 3 (`0 xyz`) has no address behind the label"),
            ("0 0x\n", "line 3 (`0 0x`) has no address behind the label"),
            ("0 -1\n", "line 3 (`0 -1`) has no address behind the label"),
            ("1 10000000000000000\n", "line 3 (`1 10000000000000000`) has no address behind the label"),
            ("1 200000000000000\n", "line 3 refers to address 0x200000000000000, above the 57 bits"),
            ("1", "the text ends in the middle of line 3"),
            ("1 0x", "the text ends in the middle of line 3"),
        ] {
            let (told, _, error) = read(format!("{good}{bad}"));
            let error = error.unwrap_or_default();
            assert!(error.starts_with(part), "{bad:?}: {error}");
            assert_eq!(told, ["I 1000,4", "Load 2000,4"], "what came before is told");
        }
    }

    #[test]
    fn the_format_is_recognised_where_no_line_is_of_another() {
        let of = |text: &str| {
            let bytes = Box::new(std::io::Cursor::new(text.to_owned()));
            open(vec![Input { name: "trace".to_owned(), bytes, in_folder: false }], None)
        };
        let name = |text: &str| of(text).map(|Opened { format, .. }| format.name);
        assert_eq!(name("0 1000\n").ok(), Some("din"));
        assert_eq!(name("\nI  1000,4\n").ok(), Some("lackey"));
        assert_eq!(name("==1== Lackey\n").ok(), Some("lackey"));
        assert_eq!(name("I  1000,4\n3 errors\n").ok(), Some("lackey"), "what the program printed");
        let Err(error @ ImportError::Ambiguous(_)) = of("I  1000,4\n0 1000\n") else { panic!("it was read") };
        assert!(
            error.to_string().starts_with("the file has the form of several formats: lackey (what"),
            "{error}"
        );
        let Err(error @ ImportError::Unrecognised { .. }) = of("\nx 0x1fffff58 1\n") else {
            panic!("it was read")
        };
        let error = error.to_string();
        assert!(error.starts_with("line 2 is `x 0x1fffff58 1`, and nothing in"), "{error}");
        assert!(error.contains("lackey, din, "), "{error}");
    }

    proptest! {
        /// The fast and the thorough parser agree.
        #[test]
        fn lines_read_fast_are_read_alike(label in 0u8..3, address in any::<u64>(), digits in 1usize..=16) {
            let text = format!("{label} {address:0digits$x}\n");
            let (parts, bytes) = Din::front(text.as_bytes()).unwrap();
            prop_assert_eq!(bytes, text.len());
            prop_assert_eq!(Line::read(text.trim_end().as_bytes()), Line::Reference(parts));
        }

        #[test]
        fn any_text_ends_in_an_error_or_the_end(text in "[0-5xaf \n\r]{0,60}") {
            read(text);
        }
    }
}
