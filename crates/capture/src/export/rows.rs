//! A batch as rows of a table: one for each fetch and each data reference.

use super::instructions::each_instruction;
use pagewalk_trace::{Batch, Ref};
use pagewalk_units::Kind;
use std::io;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Instructions of the stream before its own, or before it if it has none.
    pub time: u64,
    pub thread: u32,
    /// The address of its instruction.
    pub instruction: Option<u64>,
    pub address: u64,
    pub bytes: u32,
    pub kind: Kind,
}

/// The columns' names, of which the importer of tables reads the last three.
pub(super) const COLUMNS: [&str; 6] = ["time", "thread", "instruction", "address", "bytes", "kind"];

/// A kind's name in a table.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fetch => "fetch",
        Kind::Load => "load",
        Kind::Store => "store",
        Kind::Modify => "modify",
    }
}

/// Hands on the rows of a batch.
pub(super) fn each_row(batch: &Batch<'_>, mut take: impl FnMut(Row) -> io::Result<()>) -> io::Result<()> {
    let (mut time, thread) = (batch.first_instruction, batch.thread.0);
    each_instruction(batch, |executed| {
        let instruction = executed.instruction.map(|instruction| instruction.address.0);
        if let Some(fetched) = executed.instruction {
            let (address, bytes) = (fetched.address.0, u32::from(fetched.length));
            take(Row { time, thread, instruction, address, bytes, kind: Kind::Fetch })?;
        }
        let row = |reference: &Ref| Row {
            time,
            thread,
            instruction,
            address: reference.address().0,
            bytes: reference.size().bytes(),
            kind: reference.kind(),
        };
        executed.references.iter().map(row).try_for_each(&mut take)?;
        time += u64::from(executed.instruction.is_some());
        Ok(())
    })
}
