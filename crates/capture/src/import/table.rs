//! Tables of references: a first line that names the columns, then a line for each reference.
//!
//! ```text
//! time,address,bytes,kind
//! 17,0x7ffe0010,8,load
//! ```
//!
//! Commas, semicolons or tabs separate columns. One column says where: `address` (or `addr`, `vaddr`), `page` (`vpn`,
//! `page_number`, of 4 KiB) or `block` (`block_number`, of 64 bytes). `bytes` (`size`) and `kind` (`op`,
//! `type`, `rw`) are optional, other columns are passed over. Numbers are decimal, or hexadecimal behind `0x`.

use super::assembler::Reference;
use super::notes::{NoteKind, shown};
use super::places::{BLOCK_SHIFT, place};
use super::reader::{Grammar, open_text};
use super::{Importer, Opener};
use pagewalk_units::{Kind, PAGE_SHIFT};

/// What separates columns.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// Names of columns that say where, and the shift of their numbers.
const PLACES: [(&str, u32); 8] = [
    ("address", 0),
    ("addr", 0),
    ("vaddr", 0),
    ("page", PAGE_SHIFT),
    ("vpn", PAGE_SHIFT),
    ("page_number", PAGE_SHIFT),
    ("block", BLOCK_SHIFT),
    ("block_number", BLOCK_SHIFT),
];
const BYTES: [&str; 2] = ["bytes", "size"];
const KINDS: [&str; 4] = ["kind", "op", "type", "rw"];
/// Words for kinds, in any case.
const KIND_WORDS: [(&[&str], Kind); 4] = [
    (&["load", "l", "read", "r"], Kind::Load),
    (&["store", "s", "write", "w"], Kind::Store),
    (&["modify", "m"], Kind::Modify),
    (&["fetch", "f", "i", "ifetch"], Kind::Fetch),
];

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "table",
    about: "CSV whose first line names a column address, page or block",
    recognises: |head| {
        head.lines()
            .find(|line| !line.trim_ascii().is_empty())
            .is_some_and(|line| Columns::read(line).is_some())
    },
    open: Opener::One(open_text::<Table>),
};

/// The columns that are read.
#[derive(Clone, Copy, Debug)]
struct Columns {
    separator: u8,
    place: usize,
    shift: u32,
    bytes: Option<usize>,
    kind: Option<usize>,
}

impl Columns {
    /// The columns that a line names; `None` if none says where.
    fn read(line: &[u8]) -> Option<Columns> {
        let separator = *line.iter().find(|byte| SEPARATORS.contains(byte)).unwrap_or(&b',');
        let names: Vec<String> = cells(line, separator)
            .map(|cell| String::from_utf8_lossy(cell).to_ascii_lowercase().replace(' ', "_"))
            .collect();
        let column = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let (place, shift) = PLACES.iter().find_map(|&(known, shift)| Some((column(&[known])?, shift)))?;
        Some(Columns { separator, place, shift, bytes: column(&BYTES), kind: column(&KINDS) })
    }

    /// The reference of a line; or its fault, which continues "line N".
    fn reference(&self, line: &[u8]) -> Result<Reference, String> {
        let cells: Vec<&[u8]> = cells(line, self.separator).collect();
        // Quotes around a whole cell are gone.
        if let Some(part) = cells.iter().find(|cell| cell.starts_with(b"\"")) {
            return Err(format!(
                "has `{}`: quoted cells with a separator inside are not read here",
                shown(part)
            ));
        }
        let cell = |column: usize| cells.get(column).copied().unwrap_or_default();
        let wrong = |what: &str, column: usize| {
            format!("has `{}` in column {}, where {what} is expected", shown(cell(column)), column + 1)
        };
        let place_number = whole(cell(self.place)).ok_or_else(|| wrong("a number", self.place))?;
        let bytes = match self.bytes {
            None => 1,
            Some(column) => whole(cell(column))
                .and_then(|bytes| u32::try_from(bytes).ok())
                .ok_or_else(|| wrong("a number of bytes", column))?,
        };
        let kind = match self.kind {
            None => Kind::Load,
            Some(column) => {
                kind(cell(column)).ok_or_else(|| wrong("one of load, store, modify, fetch", column))?
            }
        };
        Ok(Reference { kind, address: place(place_number, self.shift)?, bytes })
    }
}

/// The cells of a line, without blanks and quotes around them.
fn cells(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&byte| byte == separator).map(|cell| {
        let cell = cell.trim_ascii();
        cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell)
    })
}

fn whole(cell: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(cell).ok().filter(|text| !text.contains('+'))?;
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn kind(cell: &[u8]) -> Option<Kind> {
    let is = |word: &&str| cell.eq_ignore_ascii_case(word.as_bytes());
    KIND_WORDS.iter().find(|(words, _)| words.iter().any(is)).map(|&(_, kind)| kind)
}

/// The grammar.
#[derive(Debug, Default)]
struct Table {
    columns: Option<Columns>,
}

impl Grammar for Table {
    type Line = ();
    const ENGINE: &'static str = "table";
    const SORTS: &'static [NoteKind] = &[
        NoteKind { what: "of names without `size` and `kind`", why: "each reference is a load of one byte" },
        NoteKind { what: "of names without `size`", why: "each reference has one byte" },
        NoteKind { what: "of names without `kind`", why: "each reference is a load" },
    ];

    fn front(_text: &[u8]) -> Option<(Reference, usize)> {
        None
    }

    fn read(_text: &[u8]) {}

    fn reference(&self, (): (), text: &[u8], _begun: bool) -> Result<Option<Reference>, String> {
        if text.trim_ascii().is_empty() {
            return Ok(None);
        }
        match &self.columns {
            Some(columns) => columns.reference(text).map(Some),
            None if Columns::read(text).is_some() => Ok(None),
            None => Err(format!(
                "(`{}`) names no column that says where references go: address, page or block",
                shown(text.trim_ascii_end())
            )),
        }
    }

    fn sort(&mut self, (): (), text: &[u8]) -> Option<usize> {
        // The first line that was accepted.
        if self.columns.is_some() {
            return None;
        }
        self.columns = Columns::read(text);
        match (self.columns?.bytes, self.columns?.kind) {
            (None, None) => Some(0),
            (None, Some(_)) => Some(1),
            (Some(_), None) => Some(2),
            (Some(_), Some(_)) => None,
        }
    }

    fn is_cut(_line: (), _text: &[u8]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::told;
    use super::super::{Input, open};
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "Time, Address ,\"Size\",op\r\n1,0x7fe0,8,R\r\n\r\n2,64,4,\"write\"\n\
                    3,4096,5,fetch,more\n4,0x10,2,M";
        let (read, _, error) = told(&FORMAT, text);
        assert_eq!(read, ["Load 7fe0,8", "Store 40,4", "I 1000,5", "Modify 10,2"]);
        assert_eq!(error, None);
        assert_eq!(told(&FORMAT, "id;page\n7;2\n8;0x10\n").0, ["Load 2000,1", "Load 10000,1"]);
        assert_eq!(told(&FORMAT, "block\tat\n3\t9\n").0, ["Load c0,1"]);
    }

    #[test]
    fn only_missing_columns_are_told() {
        let note = |text: &str| told(&FORMAT, text).1.join("; ");
        let of_names = "1 line of names without";
        assert_eq!(
            note("\nid;page\n7;2\n"),
            format!("{of_names} `size` and `kind` (line 2: `id;page`): each reference is a load of one byte")
        );
        assert!(note("addr,op\n1,r\n").starts_with(&format!("{of_names} `size` (")));
        assert!(note("addr,bytes\n1,8\n").starts_with(&format!("{of_names} `kind` (")));
        assert_eq!(note("addr,bytes,op\n1,8,r\n"), "");
    }

    #[test]
    fn wrong_lines_are_named_with_their_column() {
        for (text, part) in [
            (
                "a,b\n1,2\n",
                "line 1 (`a,b`) names no column that says where references go: address, page or block",
            ),
            ("page\nx\n", "line 2 has `x` in column 1, where a number is expected"),
            ("name,addr\n\"f<4,5>\",9\n", "line 2 has `\\\"f<4`: quoted cells with a separator inside"),
            ("page\n-1\n", "line 2 has `-1` in column 1, where a number is expected"),
            ("time,page\n1\n", "line 2 has `` in column 2, where a number is expected"),
            ("addr,size\n1,x\n", "line 2 has `x` in column 2, where a number of bytes is expected"),
            (
                "addr,op\n1,jump\n",
                "line 2 has `jump` in column 2, where one of load, store, modify, fetch is expected",
            ),
            ("addr,size\n1,11\n", "line 2 has a reference of 11 bytes, a size that records do not know"),
            ("page\n35184372088832\n", "line 2 has number 35184372088832: numbers of 4096-byte pieces"),
        ] {
            let error = told(&FORMAT, text).2.unwrap_or_default();
            assert!(error.starts_with(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn tables_are_recognised_by_their_first_line() {
        let of = |text: &str| {
            let bytes = Box::new(Cursor::new(text.to_owned().into_bytes()));
            let file = Input { name: "f".to_owned(), bytes, in_folder: false };
            open(vec![file], None).map(|opened| opened.format.name).ok()
        };
        assert_eq!(of("\nvpn\n1\n"), Some("table"));
        assert_eq!(of("pages,of\n1,2\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_ends_in_an_error_or_the_end(text in "(page|addr,size,op)\n[0-9xa-f,\"rw\n\r ]{0,60}") {
            told(&FORMAT, text);
        }
    }
}
