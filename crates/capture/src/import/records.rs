//! Reads items from files of records of one length.

use super::assembler::Assembler;
use super::container::packing_error;
use super::notes::{NoteKind, Notes};
use super::{Bytes, Import};
use pagewalk_trace::{Grain, Item, Origin, Source, SourceError, StreamHeader};
use std::io::BufRead;

/// The meaning of a format's records.
pub(super) trait Records: Default + Send {
    /// What wrote the file, for trace headers.
    const ENGINE: &'static str;
    /// Bytes of a record.
    const BYTES: usize;
    /// What is known of data addresses.
    const GRAIN: Grain = Grain::Byte;
    /// Kinds of records to note.
    const SORTS: &'static [NoteKind] = &[];
    /// What the format cannot say and is assumed instead, as sentences.
    const FACTS: &'static [&'static str];

    /// Adds a record's references; false if the batch must be yielded first: then the record comes again. Hot.
    fn take(&mut self, record: &[u8], to: &mut Assembler, notes: &Notes) -> Result<bool, SourceError>;

    /// Adds what was held back for a later record; false if the batch must be yielded first.
    fn take_last(&mut self, _to: &mut Assembler) -> Result<bool, SourceError> {
        Ok(true)
    }

    /// What was found about the whole file.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// Reads a file of records.
struct RecordSource<G> {
    file: Bytes,
    /// The start of a record whose end was not in the file's buffer.
    cut_record: Vec<u8>,
    header: StreamHeader,
    records: G,
    assembler: Assembler,
    notes: Notes,
    /// The error that ends the stream, after everything before it.
    error: Option<SourceError>,
    ended: bool,
}

/// Opens the records in an unpacked file.
pub(super) fn open_records<G: Records + 'static>(file: Bytes) -> Result<Import, SourceError> {
    let source: RecordSource<G> = RecordSource::new(file);
    Ok(Import { notes: source.notes.clone(), source: Box::new(source) })
}

impl<G: Records> RecordSource<G> {
    /// A source for the records in an unpacked file.
    fn new(file: Bytes) -> RecordSource<G> {
        let header = StreamHeader {
            engine: G::ENGINE.to_owned(),
            grain: G::GRAIN,
            ..StreamHeader::unknown(Origin::Import)
        };
        RecordSource {
            file,
            cut_record: Vec::with_capacity(G::BYTES),
            header,
            records: G::default(),
            assembler: Assembler::of("record"),
            notes: Notes::new("record", G::SORTS, G::FACTS),
            error: None,
            ended: false,
        }
    }

    /// Reads records until there is a batch or the file ends.
    fn fill(&mut self) -> Result<(), SourceError> {
        let RecordSource { file, cut_record, records, assembler, notes, .. } = self;
        while !assembler.is_full() {
            if cut_record.len() == G::BYTES {
                if !records.take(cut_record, assembler, notes)? {
                    return Ok(());
                }
                assembler.done += 1;
                cut_record.clear();
            }
            let bytes = file.fill_buf().map_err(|error| packing_error(error, &assembler.place()))?;
            if bytes.is_empty() {
                return self.end();
            }
            if !cut_record.is_empty() || bytes.len() < G::BYTES {
                let used = bytes.len().min(G::BYTES - cut_record.len());
                cut_record.extend_from_slice(&bytes[..used]);
                file.consume(used);
                continue;
            }
            let mut used = 0;
            for record in bytes.chunks_exact(G::BYTES) {
                if assembler.is_full() || !records.take(record, assembler, notes)? {
                    break;
                }
                assembler.done += 1;
                used += G::BYTES;
            }
            file.consume(used);
            if used == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), SourceError> {
        match self.cut_record.is_empty() {
            true => self.finish(),
            false => Err(self.assembler.cut_off()),
        }
    }

    /// Adds what was held back, and ends the stream if there was room for it.
    fn finish(&mut self) -> Result<(), SourceError> {
        if self.records.take_last(&mut self.assembler)? {
            self.ended = true;
            self.assembler.close_block()?;
            self.records.remark().into_iter().for_each(|remark| self.notes.remark(remark));
        }
        Ok(())
    }
}

impl<G: Records> Source for RecordSource<G> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.assembler.retire();
        if !self.ended && self.error.is_none() {
            self.error = self.fill().err();
        }
        if !self.ended && self.error.is_some() {
            self.finish()?;
        }
        self.assembler.item(&mut self.error)
    }
}
