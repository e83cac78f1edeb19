//! From text to items.

use super::assembler::Assembler;
use super::line::process_of;
use super::notes::LackeyNotes;
use super::packed::{Text, text_of};
use pagewalk_trace::{Item, Origin, Source, SourceError, StreamHeader};
use std::io::{self, BufRead, ErrorKind, Read};

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

impl LackeySource<Text> {
    /// A source of the text in `file`, which gzip may have packed. Other archives are named with the command that
    /// unpacks them.
    pub fn open(file: Text) -> Result<LackeySource<Text>, SourceError> {
        LackeySource::new(text_of(file)?)
    }
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

    /// What the text has besides references: whole at the end of the stream.
    pub fn notes(&self) -> LackeyNotes {
        self.assembler.notes.clone()
    }

    /// Takes Valgrind's own lines at the start, and from `==PID== Command: …` the command.
    fn read_head(&mut self) -> Result<(), SourceError> {
        while matches!(self.filled()?.first(), Some(b'=' | b'-' | b'*')) {
            let mut line = Vec::new();
            (&mut self.reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
            let text = String::from_utf8_lossy(&line);
            let command = text.split_once("== Command: ").map(|(_, command)| command);
            if let (Some(pid), Some(command)) = (process_of(&line), command) {
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
            let bytes = filled(&mut self.reader, &self.assembler)?;
            if bytes.is_empty() {
                return self.end();
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

    /// Takes what is left at the end of the text.
    fn end(&mut self) -> Result<(), SourceError> {
        if self.cut_line.is_empty() || self.assembler.take_last(&self.cut_line)? {
            self.cut_line.clear();
            self.ended = true;
            self.assembler.close_block()?;
        }
        Ok(())
    }

    fn filled(&mut self) -> Result<&[u8], SourceError> {
        filled(&mut self.reader, &self.assembler)
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

/// What comes next of the text; nothing at its end.
fn filled<'a>(reader: &'a mut impl BufRead, assembler: &Assembler) -> Result<&'a [u8], SourceError> {
    reader.fill_buf().map_err(|error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            SourceError::Truncated(format!("the packed text ends in the middle of {}", assembler.place()))
        }
        ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            SourceError::Malformed(format!("the packed text is damaged in {} ({error})", assembler.place()))
        }
        _ => error.into(),
    })
}
