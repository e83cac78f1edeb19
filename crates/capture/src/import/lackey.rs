//! The text that `valgrind --tool=lackey --trace-mem=yes` writes: one line for each instruction and each data
//! reference.
//!
//! ```text
//! I  04000c50,3
//!  L 1ffeffe7e,8
//!  S 1ffeffe80,8
//!  M 0421c7cc,4
//! ```
//!
//! Hexadecimal address, decimal bytes; an instruction's references follow it. Lines that begin with `==` are Valgrind's
//! own. There are no mappings, threads, system calls or code bytes.
//!
//! Real files contain more: lines of other options (`SB`, by its manual), the program's output between lines
//! (jackandthebean/csim), other line ends, a third column, gzip.
//! Unambiguous extras are read or skipped, with notes; a damaged line of the trace is an error.

mod line;

use super::assembler::Reference;
use super::digits::number;
use super::notes::{NoteKind, shown};
use super::reader::{Grammar, TextSource, open_text};
use super::{Importer, Opener};
use line::{Line, process_of};
use pagewalk_trace::StreamHeader;
use pagewalk_units::{Kind, Size};

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "lackey",
    about: "what `valgrind --tool=lackey --trace-mem=yes` writes",
    recognises: |head| {
        let is_of =
            |line| matches!(Line::read(line), Line::Reference(_) | Line::ThirdColumn(_) | Line::Message);
        head.lines().any(is_of)
    },
    open: Opener::One(open_text::<Lackey>),
};

/// Reads a Lackey trace.
pub type LackeySource<R> = TextSource<R, Lackey>;

/// The grammar of Lackey's lines.
#[derive(Debug, Default)]
pub struct Lackey {
    /// Whether a line was Valgrind's: other text before that means another kind of file.
    known: bool,
    /// The first process that a message named.
    process: Option<u32>,
}

/// Indices of [`Grammar::SORTS`].
const OUTPUT: usize = 0;
const SYSCALLS: usize = 1;
const THIRD_COLUMN: usize = 2;
const OTHERS: usize = 3;

impl Grammar for Lackey {
    type Line = Line;
    const ENGINE: &'static str = "valgrind lackey";
    const HEAD: &'static [u8] = b"=-*";
    const SORTS: &'static [NoteKind] = &[
        NoteKind {
            what: "of other text",
            why: "what the program printed is passed over; valgrind's --log-file=FILE keeps it apart",
        },
        NoteKind { what: "of --trace-syscalls=yes", why: "passed over" },
        NoteKind {
            what: "with a third column",
            why: "it is passed over; Lackey writes an address and bytes alone",
        },
        NoteKind {
            what: "of a second process or program",
            why: "the references of all are read as one process's; with --trace-children=yes, valgrind's \
                  --log-file=FILE.%p writes a file for each",
        },
    ];

    #[inline]
    fn front(text: &[u8]) -> Option<(Reference, usize)> {
        let kind = match text.first_chunk::<3>()? {
            b"I  " => Kind::Fetch,
            b" L " => Kind::Load,
            b" S " => Kind::Store,
            b" M " => Kind::Modify,
            _ => return None,
        };
        let (address, comma) = number::<16>(text, 3, 16)?;
        if text[comma] != b',' {
            return None;
        }
        let (bytes, end) = number::<10>(text, comma + 1, 9)?;
        (text[end] == b'\n').then_some((Reference { kind, address, bytes: bytes as u32 }, end + 1))
    }

    fn read(text: &[u8]) -> Line {
        Line::read(text)
    }

    fn reference(&self, line: Line, text: &[u8], begun: bool) -> Result<Option<Reference>, String> {
        match line {
            Line::Reference(parts) | Line::ThirdColumn(parts) | Line::Behind(parts) => Ok(Some(parts)),
            Line::Message | Line::Syscall | Line::Idle => Ok(None),
            Line::Other if self.known || begun => Ok(None),
            Line::Other | Line::Damaged => Err(format!(
                "is `{}`, not one of `I  ADDRESS,BYTES`, ` L ADDRESS,BYTES`, ` S ADDRESS,BYTES`, ` M ADDRESS,BYTES` \
                 (address in hexadecimal), nor a message of Valgrind's (`==PID==`, `--PID--`, `**PID**`): delete it, \
                 or have valgrind write the trace apart from all else, by --log-file=FILE",
                shown(text)
            )),
        }
    }

    fn sort(&mut self, line: Line, text: &[u8]) -> Option<usize> {
        self.known |= matches!(line, Line::Message | Line::Syscall);
        match line {
            Line::Behind(_) | Line::Other => Some(OUTPUT),
            Line::Syscall => Some(SYSCALLS),
            Line::ThirdColumn(_) => Some(THIRD_COLUMN),
            // It shows whose references follow.
            Line::Message => {
                let process = process_of(text)?;
                let first = *self.process.get_or_insert(process);
                (process != first).then_some(OTHERS)
            }
            Line::Reference(_) | Line::Idle | Line::Damaged => None,
        }
    }

    fn is_cut(line: Line, text: &[u8]) -> bool {
        match line {
            Line::Reference(parts) | Line::ThirdColumn(parts) | Line::Behind(parts) => {
                parts.kind != Kind::Fetch && Size::of_bytes(parts.bytes).is_none()
            }
            Line::Message | Line::Damaged => true,
            Line::Other => line::is_cut(text),
            Line::Syscall | Line::Idle => false,
        }
    }

    /// Reads the command from `==PID== Command: …`.
    fn head(line: &[u8], header: &mut StreamHeader) {
        let text = String::from_utf8_lossy(line);
        let command = text.split_once("== Command: ").map(|(_, command)| command);
        if let (Some(pid), Some(command)) = (process_of(line), command) {
            header.pid = pid;
            header.arguments = command.trim_end().split(' ').map(str::to_owned).collect();
            header.program = header.arguments[0].clone();
        }
    }
}

#[cfg(test)]
mod tests;
