//! CSV, as the importer of that name reads it: a row for each fetch and each data reference.
//!
//! ```text
//! time,thread,instruction,address,bytes,kind
//! 17,1,0x401000,0x401000,4,fetch
//! 17,1,0x401000,0x7ffe0010,8,load
//! ```
//!
//! Time counts the stream's instructions. Parquet (`export/parquet.rs`) has the same columns.

use super::rows::{COLUMNS, each_row};
use super::{Encoder, Exporter, Omissions, Out};
use pagewalk_trace::{Batch, Event};
use std::io::{self, Write};

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "table",
    about: "CSV: time (in instructions), thread, instruction, address, bytes and kind of each fetch and reference",
    begin: |_, mut out| {
        writeln!(out, "{}", COLUMNS.join(","))?;
        Ok(Box::new(Table { out }))
    },
};

struct Table {
    out: Out,
}

impl Encoder for Table {
    fn batch(&mut self, batch: &Batch<'_>, _omissions: &mut Omissions) -> io::Result<()> {
        each_row(batch, |row| {
            let instruction = row.instruction.map_or(String::new(), |address| format!("{address:#x}"));
            let (address, bytes, kind) = (row.address, row.bytes, row.kind.name());
            writeln!(self.out, "{},{},{instruction},{address:#x},{bytes},{kind}", row.time, row.thread)
        })
    }

    fn event(&mut self, event: &Event) -> io::Result<bool> {
        Ok(names_thread(event))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.out.finish()
    }
}

/// Whether rows, which name their threads, say what this event does.
pub(super) fn names_thread(event: &Event) -> bool {
    matches!(event, Event::ThreadStart { .. } | Event::ThreadEnd { .. } | Event::Switch { .. })
}
