//! Exports streams to other tools' traces: one file per format, with a line in [`EXPORTERS`].
//!
//! A format writes bytes; an [`Export`] follows the stream, keeps the first error, and counts what the format cannot
//! say ([`Omissions`]). Only a bounded part of the stream is in memory.

mod champsim;
mod compression;
mod din;
mod drmemtrace;
mod flow;
mod instructions;
mod lackey;
mod omissions;
mod oracle;
mod parquet;
mod rows;
mod table;

pub use compression::{Out, Packing, packed};
pub use lackey::LackeyWriter;
pub use omissions::Omissions;
pub use rows::{Row, each_row};

use omissions::of_event;
use pagewalk_trace::{Analysis, Batch, Event, StreamHeader};
use pagewalk_units::RefIndex;
use std::io;

/// A writable format.
pub struct Exporter {
    /// Its name for `--format`; an importer of this name, if there is one, reads the files.
    pub name: &'static str,
    /// Who reads such files, as a phrase that continues "NAME is".
    pub about: &'static str,
    /// Begins a file.
    begin: fn(&StreamHeader, Out) -> io::Result<Box<dyn Encoder>>,
}

/// All formats, in the order of messages.
pub static EXPORTERS: &[Exporter] = &[
    lackey::FORMAT,
    din::FORMAT,
    drmemtrace::FORMAT,
    champsim::FORMAT,
    oracle::FORMAT,
    table::FORMAT,
    parquet::FORMAT,
];

/// The exporter of this name.
pub fn exporter(name: &str) -> Option<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name)
}

/// A file being written.
pub trait Encoder: Send {
    /// Writes a batch, and counts what the format cannot say of it.
    ///
    /// # Errors
    /// Errors of writing.
    fn batch(&mut self, batch: &Batch<'_>, omissions: &mut Omissions) -> io::Result<()>;

    /// Writes an event; false if the format cannot say it.
    ///
    /// # Errors
    /// Errors of writing.
    fn event(&mut self, _event: &Event) -> io::Result<bool> {
        Ok(false)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// Errors of writing.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Writes the stream that it follows to a file.
pub struct Export {
    /// `None` after an error.
    encoder: Option<Box<dyn Encoder>>,
    error: Option<io::Error>,
    omissions: Omissions,
}

impl Export {
    /// Begins a file of this format.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn begin(format: &Exporter, header: &StreamHeader, out: Out) -> io::Result<Export> {
        let encoder = Some((format.begin)(header, out)?);
        Ok(Export { encoder, error: None, omissions: Omissions::default() })
    }

    /// Writes the rest, and returns what the file does not say.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> io::Result<Omissions> {
        match (self.error, self.encoder) {
            (Some(error), _) => Err(error),
            (None, encoder) => encoder.map_or(Ok(()), |encoder| encoder.finish()).map(|()| self.omissions),
        }
    }

    fn note(&mut self, error: io::Error) {
        (self.error, self.encoder) = (Some(error), None);
    }
}

impl Analysis for Export {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        let Some(encoder) = &mut self.encoder else { return };
        if let Err(error) = encoder.batch(batch, &mut self.omissions) {
            self.note(error);
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let Some(encoder) = &mut self.encoder else { return };
        match encoder.event(event) {
            Ok(true) => {}
            Ok(false) => of_event(event).into_iter().for_each(|sort| self.omissions.add(sort, 1)),
            Err(error) => self.note(error),
        }
    }

    fn is_done(&self) -> bool {
        self.encoder.is_none()
    }
}

#[cfg(test)]
mod tests;
