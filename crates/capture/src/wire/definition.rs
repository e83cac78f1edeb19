//! Block definitions, and the paths through them.

use super::{BadWord, MAX_INSTRUCTIONS, MAX_SLOTS, kind};
use pagewalk_trace::{Batch, Block, BlockEnd, Instruction, Ref, Site};
use pagewalk_units::{Access, BlockId, Kind, Size, VirtAddr};

/// One slot of a block: a reference, or padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    instruction: u16,
    /// `None` for padding.
    access: Option<Access>,
}

impl Slot {
    /// The low record bits for this slot; 0 for padding (no reference has it, as 0 means a fetch).
    pub fn meta(self) -> u8 {
        self.access.map_or(0, Ref::meta)
    }
}

/// A place where control leaves a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// Slots before it.
    pub slots: u16,
    /// How many of them are padding.
    pub padding: u16,
    instructions: u16,
    /// The path that ends here with no reference absent, once it has been taken.
    pub path: Option<Path>,
}

/// A taken path through a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Its block; `None` for a path without instructions and references, which is not reported.
    pub block: Option<BlockId>,
    /// Its instructions.
    pub instructions: u16,
    /// Whether it makes a reference wider than [`Batch::WIDE_BYTES`].
    pub wide: bool,
}

/// A block as the engine defined it.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub instructions: Box<[Instruction]>,
    pub slots: Box<[Slot]>,
    /// By ascending number of slots; the last is the block's end.
    pub exits: Box<[Exit]>,
    code: Box<[u8]>,
    end: BlockEnd,
}

impl Definition {
    /// Parses the payload of a BLOCK event: block number and definition.
    pub fn parse(payload: &[u64]) -> Result<(u32, Definition), BadWord> {
        let &[number, end, instructions, slots, exits, ref rest @ ..] = payload else {
            return Err(BadWord::Payload { kind: kind::BLOCK, what: "it is shorter than its fixed part" });
        };
        let number = u32::try_from(number)
            .ok()
            .filter(|&n| n <= u32::MAX >> 1)
            .ok_or(BadWord::Payload { kind: kind::BLOCK, what: "the block number has more than 31 bits" })?;
        let wrong = |what| BadWord::Definition { number, what };
        if !(1..=MAX_INSTRUCTIONS as u64).contains(&instructions) {
            return Err(wrong("the number of instructions is 0 or above the limit"));
        }
        if slots > MAX_SLOTS as u64 || exits > slots + 1 {
            return Err(wrong("too many slots, or more exits than slots allow"));
        }
        let (instructions, slots, exits) = (instructions as usize, slots as usize, exits as usize);
        if rest.len() < instructions * 2 + slots + exits {
            return Err(wrong("it ends before its last exit"));
        }
        let (instruction_words, rest) = rest.split_at(instructions * 2);
        let (slot_words, rest) = rest.split_at(slots);
        let (exit_words, code_words) = rest.split_at(exits);

        let instructions = parse_instructions(instruction_words).map_err(wrong)?;
        let slots = parse_slots(number, slot_words, instructions.len())?;
        let exits = parse_exits(exit_words, &slots, instructions.len()).map_err(wrong)?;
        let code_bytes: usize = instructions.iter().map(|i| usize::from(i.length)).sum();
        if code_words.len() != code_bytes.div_ceil(8) {
            return Err(wrong("its code is not as long as its instructions"));
        }
        let mut code: Vec<u8> = code_words.iter().flat_map(|word| word.to_le_bytes()).collect();
        code.truncate(code_bytes);
        let end = u8::try_from(end).ok().and_then(BlockEnd::from_code).ok_or(wrong("unknown kind of end"))?;
        Ok((number, Definition { instructions, slots, exits, code: code.into(), end }))
    }

    /// The path that leaves at `exit`, without the slots for which `absent` holds: its block (`None` if empty), number
    /// of instructions, and whether a reference is wide.
    pub fn path(&self, exit: usize, absent: impl Fn(usize) -> bool) -> (Option<Block>, u16, bool) {
        let Exit { slots, instructions, .. } = self.exits[exit];
        let whole = exit + 1 == self.exits.len();
        let taken = &self.instructions[..usize::from(instructions)];
        let sites: Box<[Site]> = self.slots[..usize::from(slots)]
            .iter()
            .enumerate()
            .filter(|&(index, _)| !absent(index))
            .filter_map(|(_, slot)| slot.access.map(|access| Site { instruction: slot.instruction, access }))
            .collect();
        if taken.is_empty() && sites.is_empty() {
            return (None, 0, false);
        }
        let wide = sites.iter().any(|site| site.access.size.bytes() > Batch::WIDE_BYTES);
        let code_bytes: usize = taken.iter().map(|i| usize::from(i.length)).sum();
        let block = Block {
            instructions: taken.into(),
            sites,
            code: self.code[..code_bytes].into(),
            end: if whole { self.end } else { BlockEnd::Jump },
        };
        (Some(block), instructions, wide)
    }
}

fn parse_instructions(words: &[u64]) -> Result<Box<[Instruction]>, &'static str> {
    words
        .chunks_exact(2)
        .map(|pair| match u8::try_from(pair[1]) {
            // Longer than the processor's 15 bytes: Valgrind counts the sequence of a client request as one.
            Ok(length @ 1..) => Ok(Instruction { address: VirtAddr(pair[0]), length }),
            _ => Err("an instruction is 0 or more than 255 bytes long"),
        })
        .collect()
}

fn parse_slots(number: u32, words: &[u64], instructions: usize) -> Result<Box<[Slot]>, BadWord> {
    let wrong = |what| BadWord::Definition { number, what };
    let parse = |(slot, &word): (usize, &u64)| {
        let instruction = word as u16;
        if usize::from(instruction) >= instructions {
            return Err(wrong("a slot belongs to an instruction that it does not have"));
        }
        let bytes = (word >> 32) as u32;
        let access = match (word >> 16) as u16 {
            0 => None,
            code @ 1..=3 => {
                let size = Size::of_bytes(bytes).ok_or(BadWord::ReferenceSize { number, slot, bytes })?;
                Some(Access { kind: Kind::from_code(code as u8), size })
            }
            _ => return Err(wrong("a slot has an unknown kind of access")),
        };
        Ok(Slot { instruction, access })
    };
    let slots: Box<[Slot]> = words.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
    if !slots.is_sorted_by_key(|slot| slot.instruction) {
        return Err(wrong("its slots are not in order of their instructions"));
    }
    Ok(slots)
}

fn parse_exits(words: &[u64], slots: &[Slot], instructions: usize) -> Result<Box<[Exit]>, &'static str> {
    let mut exits: Vec<Exit> = Vec::with_capacity(words.len());
    for &word in words {
        let (before, executed) = (word as u32 as usize, (word >> 32) as usize);
        if before > slots.len() || executed > instructions {
            return Err("an exit lies after its end");
        }
        if exits.last().is_some_and(|last| usize::from(last.slots) >= before) {
            return Err("its exits are not in order of their slots");
        }
        let taken = &slots[..before];
        if taken.iter().any(|slot| slot.access.is_some() && usize::from(slot.instruction) >= executed) {
            return Err("a slot before an exit belongs to an instruction after it");
        }
        let padding = taken.iter().filter(|slot| slot.access.is_none()).count();
        exits.push(Exit {
            slots: before as u16,
            padding: padding as u16,
            instructions: executed as u16,
            path: None,
        });
    }
    match exits.last() {
        Some(last)
            if (usize::from(last.slots), usize::from(last.instructions)) == (slots.len(), instructions) =>
        {
            Ok(exits.into())
        }
        _ => Err("its last exit is not its end"),
    }
}
