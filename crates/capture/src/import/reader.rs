//! Reads items from text.

use super::Import;
use super::assembler::{Assembler, Reference};
use super::container::{Bytes, packing_error, text_of, unpacked};
use super::notes::{NoteKind, Notes};
use pagewalk_trace::{Grain, Item, Origin, Source, SourceError, StreamHeader};
use std::io::{BufRead, Read};

/// Longest line; Valgrind writes a whole command line into one.
const MAX_LINE_BYTES: usize = 1 << 22;

/// The meaning of a format's lines.
pub(super) trait Grammar: Default {
    /// A parsed line.
    type Line: Copy;
    /// What wrote the text, for trace headers.
    const ENGINE: &'static str;
    /// What is known of data addresses.
    const GRAIN: Grain = Grain::Byte;
    /// Kinds of lines to note.
    const SORTS: &'static [NoteKind];
    /// What the format cannot say and is assumed instead, as sentences.
    const FACTS: &'static [&'static str] = &[];
    /// The prefix of header lines before the references.
    const HEAD: &'static [u8] = b"";

    /// The reference at the front of `text`, and its length with the line end; `None` if that is not a whole line as
    /// the format's own tool writes it. Hot.
    fn front(text: &[u8]) -> Option<(Reference, usize)>;

    /// Parses any line, without its end.
    fn read(text: &[u8]) -> Self::Line;

    /// A line's reference, `None` to skip it; or its fault, which continues "line N". `begun`: there were references
    /// before.
    fn reference(&self, line: Self::Line, text: &[u8], begun: bool) -> Result<Option<Reference>, String>;

    /// The index in [`Grammar::SORTS`] of an accepted line, if it is to be noted.
    fn sort(&mut self, line: Self::Line, text: &[u8]) -> Option<usize>;

    /// Whether the last line, which has no end, may have been cut off.
    fn is_cut(line: Self::Line, text: &[u8]) -> bool;

    /// Reads a header line.
    fn head(_line: &[u8], _header: &mut StreamHeader) {}
}

/// Reads a text of references. Each instruction is its own block; references before the first instruction belong to
/// blocks without instructions.
pub struct TextSource<R, G> {
    reader: R,
    /// The start of a line whose end was not in the reader's buffer.
    cut_line: Vec<u8>,
    header: StreamHeader,
    lines: Lines<G>,
    /// The error that ends the stream, after everything before it.
    error: Option<SourceError>,
    ended: bool,
}

#[expect(private_bounds, reason = "grammars are this module's own; their sources have names")]
impl<G: Grammar> TextSource<Bytes, G> {
    /// A source for the text in `file`, whatever packs it. For what cannot be unpacked here, the error names the
    /// command that does it.
    pub fn open(file: Bytes) -> Result<TextSource<Bytes, G>, SourceError> {
        TextSource::of(unpacked(file)?)
    }

    /// A source for the text in an unpacked file.
    fn of(file: Bytes) -> Result<TextSource<Bytes, G>, SourceError> {
        TextSource::new(text_of(file)?)
    }
}

/// Opens the text in an unpacked file.
pub(super) fn open_text<G: Grammar + Send + 'static>(file: Bytes) -> Result<Import, SourceError> {
    let source: TextSource<Bytes, G> = TextSource::of(file)?;
    Ok(Import { notes: source.notes(), source: Box::new(source) })
}

#[expect(private_bounds, reason = "grammars are this module's own; their sources have names")]
impl<R: BufRead, G: Grammar> TextSource<R, G> {
    /// A source for the text in `reader`. Reads the header.
    pub fn new(reader: R) -> Result<TextSource<R, G>, SourceError> {
        let header = StreamHeader {
            engine: G::ENGINE.to_owned(),
            grain: G::GRAIN,
            ..StreamHeader::unknown(Origin::Import)
        };
        let lines = Lines {
            assembler: Assembler::of("line"),
            grammar: G::default(),
            notes: Notes::new("line", G::SORTS, G::FACTS),
        };
        let mut source =
            TextSource { reader, cut_line: Vec::new(), header, lines, error: None, ended: false };
        source.read_head()?;
        Ok(source)
    }

    /// Notes on the text, complete at the end of the stream.
    pub fn notes(&self) -> Notes {
        self.lines.notes.clone()
    }

    fn read_head(&mut self) -> Result<(), SourceError> {
        while self.filled()?.first().is_some_and(|first| G::HEAD.contains(first)) {
            let mut line = Vec::new();
            (&mut self.reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
            G::head(&line, &mut self.header);
            // Checked like any other line.
            self.cut_line = line;
            self.fill_from_cut_line()?;
        }
        Ok(())
    }

    /// Reads lines until there is a batch or the text ends.
    fn fill(&mut self) -> Result<(), SourceError> {
        while !self.lines.assembler.is_full() {
            if self.cut_line.last() == Some(&b'\n') {
                self.fill_from_cut_line()?;
                continue;
            }
            let bytes = filled(&mut self.reader, &self.lines.assembler)?;
            if bytes.is_empty() {
                return self.end();
            }
            if self.cut_line.is_empty() {
                let used = self.lines.take(bytes)?;
                if used > 0 || self.lines.assembler.is_full() {
                    self.reader.consume(used);
                    continue;
                }
            }
            let used = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
            self.cut_line.extend_from_slice(&bytes[..used]);
            self.reader.consume(used);
            if self.cut_line.len() > MAX_LINE_BYTES {
                let what = format!("has more than {MAX_LINE_BYTES} bytes");
                return Err(self.lines.assembler.malformed(&what));
            }
        }
        Ok(())
    }

    /// Reads the rest at the end of the text.
    fn end(&mut self) -> Result<(), SourceError> {
        if self.cut_line.is_empty() || self.lines.take_last(&self.cut_line)? {
            self.cut_line.clear();
            self.ended = true;
            self.lines.assembler.close_block()?;
        }
        Ok(())
    }

    fn filled(&mut self) -> Result<&[u8], SourceError> {
        filled(&mut self.reader, &self.lines.assembler)
    }

    fn fill_from_cut_line(&mut self) -> Result<(), SourceError> {
        if self.lines.take(&self.cut_line)? > 0 {
            self.cut_line.clear();
        }
        Ok(())
    }
}

impl<R: BufRead, G: Grammar> Source for TextSource<R, G> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        let assembler = &mut self.lines.assembler;
        assembler.retire();
        if !self.ended
            && let Err(error) = self.fill()
        {
            self.ended = true;
            self.lines.assembler.close_block()?;
            self.error = Some(error);
        }
        self.lines.assembler.item(&mut self.error)
    }
}

/// Turns lines into references.
struct Lines<G> {
    assembler: Assembler,
    grammar: G,
    notes: Notes,
}

impl<G: Grammar> Lines<G> {
    /// Reads whole lines from the front of `text`, until the batch is full or no whole line is left; returns the bytes
    /// read.
    fn take(&mut self, text: &[u8]) -> Result<usize, SourceError> {
        let mut used = 0;
        loop {
            let rest = &text[used..];
            if let Some((parts, bytes)) = G::front(rest) {
                if !self.assembler.take(parts)? {
                    return Ok(used);
                }
                used += bytes;
            } else {
                let Some(end) = rest.iter().position(|&byte| byte == b'\n') else { return Ok(used) };
                if !self.take_other(G::read(&rest[..end]), &rest[..end])? {
                    return Ok(used);
                }
                used += end + 1;
            }
            self.assembler.done += 1;
        }
    }

    /// Reads a line that deviates from the tool's form; false if the batch must be yielded first.
    fn take_other(&mut self, line: G::Line, text: &[u8]) -> Result<bool, SourceError> {
        let begun = self.assembler.has_begun();
        let reference = self.grammar.reference(line, text, begun);
        if let Some(parts) = reference.map_err(|what| self.assembler.malformed(&what))?
            && !self.assembler.take(parts)?
        {
            return Ok(false);
        }
        if let Some(sort) = self.grammar.sort(line, text) {
            self.notes.add(sort, self.assembler.done + 1, text);
        }
        Ok(true)
    }

    /// Reads the last line of a text, which has no end. If it is not a whole line of the trace, the text may have been
    /// cut off.
    fn take_last(&mut self, text: &[u8]) -> Result<bool, SourceError> {
        let line = G::read(text);
        if G::is_cut(line, text) { Err(self.assembler.cut_off()) } else { self.take_other(line, text) }
    }
}

/// The next part of the text; empty at its end.
fn filled<'a>(reader: &'a mut impl BufRead, assembler: &Assembler) -> Result<&'a [u8], SourceError> {
    reader.fill_buf().map_err(|error| packing_error(error, &assembler.place()))
}
