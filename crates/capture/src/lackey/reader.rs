//! From text to items.

use super::assembler::Assembler;
use pagewalk_trace::{Item, Origin, Source, SourceError, StreamHeader};
use std::io::{BufRead, Read};

/// Longest line; Valgrind writes a whole command line into one.
const MAX_LINE_BYTES: usize = 1 << 22;

/// Reads a Lackey trace. Each instruction is a block of its own; references before the first instruction belong to
/// blocks without instructions.
pub struct LackeySource<R> {
    reader: R,
    /// Start of a line whose end was not in the reader's buffer.
    cut_line: Vec<u8>,
    header: StreamHeader,
    assembler: Assembler,
    /// What ends the stream, once all before it has been told.
    error: Option<SourceError>,
    ended: bool,
}

impl<R: BufRead> LackeySource<R> {
    /// A source of the text in `reader`. Reads Valgrind's first lines for the command.
    pub fn new(reader: R) -> Result<LackeySource<R>, SourceError> {
        let header =
            StreamHeader { engine: "valgrind lackey".to_owned(), ..StreamHeader::unknown(Origin::Import) };
        let assembler = Assembler::default();
        let mut source =
            LackeySource { reader, cut_line: Vec::new(), header, assembler, error: None, ended: false };
        source.read_head()?;
        Ok(source)
    }

    /// Takes Valgrind's own lines at the start, and from `==PID== Command: …` the command.
    fn read_head(&mut self) -> Result<(), SourceError> {
        while matches!(self.reader.fill_buf()?.first(), Some(b'=' | b'-' | b'*')) {
            let mut line = Vec::new();
            (&mut self.reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
            let text = String::from_utf8_lossy(&line);
            let stamped = text.strip_prefix("==").and_then(|rest| rest.split_once("== Command: "));
            if let Some((Ok(pid), command)) = stamped.map(|(pid, command)| (pid.parse(), command)) {
                self.header.pid = pid;
                self.header.arguments = command.trim_end().split(' ').map(str::to_owned).collect();
                self.header.program = self.header.arguments[0].clone();
            }
            // Checked like any other line.
            self.cut_line = line;
            self.fill_from_cut_line()?;
        }
        Ok(())
    }

    /// Reads lines until there is a batch or the text ends.
    fn fill(&mut self) -> Result<(), SourceError> {
        while !self.assembler.is_full() {
            if self.cut_line.last() == Some(&b'\n') {
                self.fill_from_cut_line()?;
                continue;
            }
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                self.ended = true;
                self.assembler.close_block()?;
                return if self.cut_line.is_empty() { Ok(()) } else { Err(self.assembler.cut_off()) };
            }
            if self.cut_line.is_empty() {
                let used = self.assembler.take_lines(bytes)?;
                if used > 0 || self.assembler.is_full() {
                    self.reader.consume(used);
                    continue;
                }
            }
            let used = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
            self.cut_line.extend_from_slice(&bytes[..used]);
            self.reader.consume(used);
            if self.cut_line.len() > MAX_LINE_BYTES {
                return Err(self.assembler.malformed(&format!("has more than {MAX_LINE_BYTES} bytes")));
            }
        }
        Ok(())
    }

    fn fill_from_cut_line(&mut self) -> Result<(), SourceError> {
        if self.assembler.take_lines(&self.cut_line)? > 0 {
            self.cut_line.clear();
        }
        Ok(())
    }
}

impl<R: BufRead> Source for LackeySource<R> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.assembler.retire();
        if !self.ended
            && let Err(error) = self.fill()
        {
            self.ended = true;
            self.assembler.close_block()?;
            self.error = Some(error);
        }
        match self.assembler.is_empty() {
            false => Ok(Some(Item::Batch(self.assembler.batch()))),
            true => self.error.take().map_or(Ok(None), Err),
        }
    }
}
