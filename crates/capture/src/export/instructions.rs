//! A batch, one executed instruction after the other.

use pagewalk_trace::{Batch, Block, BlockEnd, Instruction, Ref};
use pagewalk_units::{Kind, PAGE_BYTES, PAGE_SHIFT};
use std::io;

/// An executed instruction with its references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed<'a> {
    /// `None` for references without code.
    pub instruction: Option<Instruction>,
    /// Its bytes; empty if they are unknown.
    pub code: &'a [u8],
    /// Its data references.
    pub references: &'a [Ref],
    /// How it ends its block, if it is the last one.
    pub end: Option<BlockEnd>,
}

/// Hands on each executed instruction of a batch, in order.
pub(super) fn each_instruction(
    batch: &Batch<'_>,
    mut take: impl FnMut(Executed<'_>) -> io::Result<()>,
) -> io::Result<()> {
    for (index, span) in batch.spans.iter().enumerate() {
        let block = batch.blocks.get(span.block);
        let references = &batch.refs[span.first as usize..batch.span_end(index)];
        each_of_block(block, references, &mut take)?;
    }
    Ok(())
}

fn each_of_block(
    block: &Block,
    references: &[Ref],
    take: &mut impl FnMut(Executed<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let (mut done, mut code) = (0, &*block.code);
    for (number, &instruction) in block.instructions.iter().enumerate() {
        let rest = block.sites.get(done..).unwrap_or_default();
        let own = rest.iter().take_while(|site| usize::from(site.instruction) <= number).count();
        let end = (done + own).min(references.len());
        let length = usize::from(instruction.length).min(code.len());
        let (bytes, behind) = code.split_at(length);
        let is_last = number + 1 == block.instructions.len();
        take(Executed {
            instruction: Some(instruction),
            code: bytes,
            references: &references[done..end],
            end: is_last.then_some(block.end),
        })?;
        (done, code) = (end, behind);
    }
    if done < references.len() {
        take(Executed { instruction: None, code: &[], references: &references[done..], end: None })?;
    }
    Ok(())
}

/// The accesses of which a reference consists: a modify loads and stores.
pub(super) fn accesses(kind: Kind) -> &'static [Kind] {
    match kind {
        Kind::Fetch => &[Kind::Fetch],
        Kind::Load => &[Kind::Load],
        Kind::Store => &[Kind::Store],
        Kind::Modify => &[Kind::Load, Kind::Store],
    }
}

/// For formats without sizes: the first byte in each 4 KiB page of what lies at `address`.
pub(super) fn places(address: u64, bytes: u64) -> impl Iterator<Item = u64> {
    let last = address.saturating_add(bytes.saturating_sub(1)) >> PAGE_SHIFT;
    let first = address >> PAGE_SHIFT;
    std::iter::once(address).chain((first + 1..=last).map(|page| page * PAGE_BYTES))
}
