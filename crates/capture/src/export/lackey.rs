//! The text of `valgrind --tool=lackey --trace-mem=yes`, as the importer of that name reads it.

use super::instructions::each_instruction;
use super::{Encoder, Exporter, Omissions, Out};
use pagewalk_trace::{Analysis, Batch, Instruction, Ref};
use pagewalk_units::Kind;
use std::io::{self, Write};

/// Bytes per write.
const PIECE_BYTES: usize = 1 << 16;

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "lackey",
    about: "the text of `valgrind --tool=lackey --trace-mem=yes`",
    begin: |_, out| Ok(Box::new(LackeyWriter::new(out))),
};

impl Encoder for LackeyWriter<Out> {
    fn batch(&mut self, batch: &Batch<'_>, _omissions: &mut Omissions) -> io::Result<()> {
        self.write_batch(batch);
        self.error.take().map_or(Ok(()), Err)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        LackeyWriter::finish(*self)?.finish()
    }
}

/// Writes a stream as a Lackey trace: each instruction, then its references. The format has no events, so they are left
/// out. Call [`LackeyWriter::finish`] at the end.
pub struct LackeyWriter<W> {
    to: W,
    text: Vec<u8>,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl<W: Write> LackeyWriter<W> {
    /// A writer to `to`.
    pub fn new(to: W) -> LackeyWriter<W> {
        LackeyWriter { to, text: Vec::with_capacity(PIECE_BYTES * 2), error: None }
    }

    /// The error of an earlier write; then continuing is useless.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes the rest and returns the inner writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.hand_on();
        if self.error.is_none() {
            self.error = self.to.flush().err();
        }
        self.error.map_or(Ok(self.to), Err)
    }

    /// Appends the lines of one batch.
    pub fn write_batch(&mut self, batch: &Batch<'_>) {
        // An error is kept, and ends nothing here.
        let _ = each_instruction(batch, |executed| {
            executed.instruction.iter().for_each(|instruction| self.instruction(instruction));
            executed.references.iter().for_each(|reference| self.reference(*reference));
            if self.text.len() >= PIECE_BYTES {
                self.hand_on();
            }
            Ok(())
        });
    }

    fn instruction(&mut self, instruction: &Instruction) {
        push_line(&mut self.text, *b"I  ", instruction.address.0, u32::from(instruction.length));
    }

    fn reference(&mut self, r: Ref) {
        let start = match r.kind() {
            Kind::Fetch => *b"I  ",
            Kind::Load => *b" L ",
            Kind::Store => *b" S ",
            Kind::Modify => *b" M ",
        };
        push_line(&mut self.text, start, r.address().0, r.size().bytes());
    }

    fn hand_on(&mut self) {
        if self.error.is_none() {
            self.error = self.to.write_all(&self.text).err();
        }
        self.text.clear();
    }
}

impl<W: Write + Send> Analysis for LackeyWriter<W> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.write_batch(batch);
    }

    fn is_done(&self) -> bool {
        self.error().is_some()
    }
}

/// Appends one line, its address with at least eight digits, as Lackey prints it.
fn push_line(text: &mut Vec<u8>, start: [u8; 3], address: u64, bytes: u32) {
    text.extend_from_slice(&start);
    let digits = (u64::BITS - address.leading_zeros()).div_ceil(4).max(8);
    text.extend((0..digits).rev().map(|digit| b"0123456789abcdef"[(address >> (digit * 4)) as usize & 15]));
    text.push(b',');
    if bytes >= 10 {
        // Rare enough for the general way.
        text.extend_from_slice(bytes.to_string().as_bytes());
    } else {
        text.push(b'0' + bytes as u8);
    }
    text.push(b'\n');
}
