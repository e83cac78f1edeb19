//! Dictionary frames: blocks as bytes.
//!
//! Payload: two columns, structure and code bytes, each compressed separately. A block in the structure column: varint
//! number of instructions, the instructions, varint number of sites, the sites, a byte for the end, varint number of
//! code bytes. An instruction is a varint `length << 1 | jumped`, followed by a zigzag varint of the distance if it
//! does not begin at the end of the previous one. A site is a varint of instructions since the previous site, and its
//! low bits.

use super::bytes::{Bytes, put_varint, unzigzag, zigzag};
use super::layout::{
    Decompressor, FrameBuilder, MAX_CODE_BYTES, MAX_INSTRUCTIONS, MAX_SITES, MAX_TOTAL_CODE_BYTES,
    MAX_TOTAL_INSTRUCTIONS, MAX_TOTAL_SITES, parts,
};
use super::table::LANES;
use crate::{Block, BlockEnd, Instruction, Ref, Site};
use pagewalk_units::{Access, Kind, Size, VirtAddr};

/// Remaining limits for a file's blocks. A few stored bytes can claim many instructions, so check this before reserving
/// memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    instructions: usize,
    sites: usize,
    code_bytes: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            instructions: MAX_TOTAL_INSTRUCTIONS,
            sites: MAX_TOTAL_SITES,
            code_bytes: MAX_TOTAL_CODE_BYTES,
        }
    }
}

impl Room {
    /// What remains after a block; `None` if it does not fit.
    pub fn beside(self, block: &Block) -> Option<Room> {
        Some(Room {
            instructions: self.instructions.checked_sub(block.instructions.len())?,
            // Rounded up as in the table.
            sites: self.sites.checked_sub(block.sites.len().next_multiple_of(LANES))?,
            code_bytes: self.code_bytes.checked_sub(block.code.len())?,
        })
    }
}

/// Blocks collected for a frame.
#[derive(Debug, Default)]
pub(super) struct BlockWriter {
    structure: Vec<u8>,
    code: Vec<u8>,
    /// Blocks held.
    pub count: u64,
    /// The expected address of the next instruction.
    expected: u64,
}

impl BlockWriter {
    /// Bytes held.
    pub fn len(&self) -> usize {
        self.structure.len() + self.code.len()
    }

    /// Appends a block. Returns why not if it exceeds the format's limits.
    pub fn push(&mut self, block: &Block) -> Result<(), String> {
        if block.code.len() > MAX_CODE_BYTES {
            return Err(format!(
                "a block at {} has {} code bytes; the trace format allows {MAX_CODE_BYTES}",
                block.start(),
                block.code.len()
            ));
        }
        let to = &mut self.structure;
        put_varint(to, block.instructions.len() as u64);
        for instruction in &block.instructions {
            let jump = instruction.address.0.wrapping_sub(self.expected);
            put_varint(to, u64::from(instruction.length) << 1 | u64::from(jump != 0));
            if jump != 0 {
                put_varint(to, zigzag(jump as i64));
            }
            self.expected = instruction.address.0.wrapping_add(instruction.length.into());
        }
        put_varint(to, block.sites.len() as u64);
        let mut before = 0;
        for site in &block.sites {
            put_varint(to, zigzag(i64::from(site.instruction) - before));
            to.push(Ref::meta(site.access));
            before = site.instruction.into();
        }
        to.push(block.end as u8);
        put_varint(to, block.code.len() as u64);
        self.code.extend_from_slice(&block.code);
        self.count += 1;
        Ok(())
    }

    /// Writes all held blocks into a frame's payload.
    pub fn put(&self, frame: &mut FrameBuilder) -> std::io::Result<()> {
        frame.put_parts([&self.structure[..], &self.code[..]])
    }
}

/// Reads the blocks of a frame's payload, if it is valid and they fit.
pub(super) fn read_blocks(
    payload: &[u8],
    count: u64,
    mut room: Room,
    zstd: &mut Decompressor,
) -> Option<Vec<Block>> {
    let [(structure_raw, structure_stored), (code_raw, code_stored)] = parts(Bytes(payload))?;
    let (mut structure, mut code) = (Vec::new(), Vec::new());
    zstd.decompress(structure_stored, structure_raw, &mut structure)?;
    zstd.decompress(code_stored, code_raw, &mut code)?;
    // A block takes at least four bytes; a false count must not reserve memory.
    if count > structure.len() as u64 / 4 {
        return None;
    }
    let (mut structure, mut code) = (Bytes(&structure), Bytes(&code));
    let mut expected = 0;
    let block = |_| {
        let block = read_block(&mut structure, &mut code, &mut expected, room)?;
        room = room.beside(&block)?;
        Some(block)
    };
    let blocks = (0..count).map(block).collect::<Option<_>>()?;
    (structure.0.is_empty() && code.0.is_empty()).then_some(blocks)
}

fn read_block(
    structure: &mut Bytes<'_>,
    code: &mut Bytes<'_>,
    expected: &mut u64,
    room: Room,
) -> Option<Block> {
    let instructions = (0..structure.count(MAX_INSTRUCTIONS.min(room.instructions))?)
        .map(|_| {
            let head = structure.count(2 * usize::from(u8::MAX) + 1)?;
            let jump = if head & 1 != 0 { unzigzag(structure.varint()?) as u64 } else { 0 };
            let address = VirtAddr(expected.wrapping_add(jump));
            let length = (head >> 1) as u8;
            *expected = address.0.wrapping_add(length.into());
            Some(Instruction { address, length })
        })
        .collect::<Option<_>>()?;
    let mut before = 0;
    let sites = (0..structure.count(MAX_SITES.min(room.sites))?)
        .map(|_| {
            before = unzigzag(structure.varint()?).checked_add(before)?;
            let instruction = u16::try_from(before).ok()?;
            let meta = structure.u8().filter(|meta| meta >> Ref::META_BITS == 0)?;
            let access = Access { kind: Kind::from_code(meta), size: Size::from_code(meta >> 2) };
            Some(Site { instruction, access })
        })
        .collect::<Option<_>>()?;
    let end = BlockEnd::from_code(structure.u8()?)?;
    let code = code.take(structure.count(MAX_CODE_BYTES.min(room.code_bytes))?)?.into();
    Some(Block { instructions, sites, code, end })
}

#[cfg(test)]
mod tests {
    use super::super::layout::{FRAME_HEAD_BYTES, FrameKind};
    use super::*;

    fn block(addresses: &[(u64, u8)], sites: &[(u16, u8)], code: &[u8]) -> Block {
        let instruction = |&(address, length): &(u64, u8)| Instruction { address: VirtAddr(address), length };
        let site = |&(instruction, meta): &(u16, u8)| {
            let access = Access { kind: Kind::from_code(meta), size: Size::from_code(meta >> 2) };
            Site { instruction, access }
        };
        Block {
            instructions: addresses.iter().map(instruction).collect(),
            sites: sites.iter().map(site).collect(),
            code: code.into(),
            end: BlockEnd::Return,
        }
    }

    #[test]
    fn blocks_round_trip() {
        let blocks = [
            block(&[], &[], &[]),
            block(&[(0x40_1000, 4), (0x40_1004, 1)], &[(0, 13), (1, 127), (0, 1)], &[1, 2, 3, 4, 5]),
            block(&[(Ref::ADDRESS_END - 1, 255), (0, 0), (7, 15)], &[], &[9]),
        ];
        let mut zstd = Decompressor::new().unwrap();
        for count in 0..=blocks.len() {
            let mut writer = BlockWriter::default();
            blocks[..count].iter().for_each(|block| writer.push(block).unwrap());
            let mut frame = FrameBuilder::new(1).unwrap();
            writer.put(&mut frame).unwrap();
            let mut payload = Vec::new();
            let keep = |bytes: &[u8]| {
                payload.extend_from_slice(&bytes[FRAME_HEAD_BYTES..]);
                Ok(())
            };
            frame.finish(FrameKind::Blocks, count as u64, keep).unwrap();
            let mut read = |payload: &[u8], count, room| read_blocks(payload, count as u64, room, &mut zstd);
            let all = Room::default();
            assert_eq!(read(&payload, count, all).as_deref(), Some(&blocks[..count]));
            assert_eq!(read(&payload, count + 1, all), None);
            assert_eq!(read(&payload[..payload.len() - 1], count, all), None);
            // Exactly enough room, and slightly less of each.
            let held = blocks[..count].iter().try_fold(all, Room::beside).unwrap();
            let enough = Room {
                instructions: all.instructions - held.instructions,
                sites: all.sites - held.sites,
                code_bytes: all.code_bytes - held.code_bytes,
            };
            assert!(read(&payload, count, enough).is_some());
            let less = [
                enough.instructions.checked_sub(1).map(|instructions| Room { instructions, ..enough }),
                enough.sites.checked_sub(1).map(|sites| Room { sites, ..enough }),
                enough.code_bytes.checked_sub(1).map(|code_bytes| Room { code_bytes, ..enough }),
            ];
            for room in less.into_iter().flatten() {
                assert_eq!(read(&payload, count, room), None);
            }
        }
    }
}
