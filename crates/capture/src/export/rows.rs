//! A batch as rows of a table: one for each fetch and each data reference.

use super::instructions::each_instruction;
use pagewalk_trace::{Batch, Ref};
use pagewalk_units::Kind;
use std::io;

/// A fetch or a data reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Instructions of the stream before its own, or before it if it has none.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// The address of its instruction; none if the stream does not say it.
    pub instruction: Option<u64>,
    /// The address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u32,
    /// The kind.
    pub kind: Kind,
}

/// The columns' names, of which the importer of tables reads the last three.
pub(super) const COLUMNS: [&str; 6] = ["time", "thread", "instruction", "address", "bytes", "kind"];

/// Hands on the rows of a batch, in order.
///
/// # Errors
/// Errors of `take`.
pub fn each_row(batch: &Batch<'_>, mut take: impl FnMut(Row) -> io::Result<()>) -> io::Result<()> {
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
