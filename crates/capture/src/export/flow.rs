//! What instructions do with the control flow, from their bytes.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use pagewalk_trace::BlockEnd;
use rustc_hash::FxHashMap;

/// Longest instruction of x86-64.
pub(super) const MAX_BYTES: usize = 15;

/// What an instruction does with the control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next one follows.
    Plain,
    Jump,
    IndirectJump,
    ConditionalJump,
    Call,
    IndirectCall,
    Return,
    /// It may jump: its bytes are unknown, and it ends a block.
    Unknown,
}

impl Flow {
    /// Of a decoded instruction.
    pub fn of(instruction: &Instruction) -> Flow {
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => Flow::Jump,
            FlowControl::IndirectBranch => Flow::IndirectJump,
            FlowControl::ConditionalBranch => Flow::ConditionalJump,
            // System calls count as calls there.
            FlowControl::Call if instruction.mnemonic() == Mnemonic::Call => Flow::Call,
            FlowControl::IndirectCall => Flow::IndirectCall,
            FlowControl::Return => Flow::Return,
            _ => Flow::Plain,
        }
    }

    /// Of an instruction of unknown bytes, by how it ends its block, if it does.
    pub fn of_end(end: Option<BlockEnd>) -> Flow {
        match end {
            Some(BlockEnd::Jump) => Flow::Unknown,
            Some(BlockEnd::Call) => Flow::Call,
            Some(BlockEnd::Return) => Flow::Return,
            Some(BlockEnd::Syscall | BlockEnd::Other) | None => Flow::Plain,
        }
    }
}

/// The instruction of these bytes.
pub(super) fn decoded(address: u64, code: &[u8]) -> Instruction {
    Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode()
}

/// Facts on instructions, kept for each address as long as its bytes stay the same.
pub(super) struct Facts<T>(FxHashMap<u64, ([u8; MAX_BYTES], u8, T)>);

impl<T> Default for Facts<T> {
    fn default() -> Self {
        Facts(FxHashMap::default())
    }
}

impl<T> Facts<T> {
    /// The facts on an instruction of at most [`MAX_BYTES`] bytes; `find` makes them if they are new.
    pub fn on(&mut self, address: u64, code: &[u8], find: impl Fn(&Instruction) -> T) -> &mut T {
        let is_same = |(bytes, length, _): &([u8; MAX_BYTES], u8, T)| bytes[..usize::from(*length)] == *code;
        let fresh = || {
            let mut bytes = [0; MAX_BYTES];
            bytes[..code.len()].copy_from_slice(code);
            (bytes, code.len() as u8, find(&decoded(address, code)))
        };
        let known = self.0.entry(address).or_insert_with(fresh);
        if !is_same(known) {
            *known = fresh();
        }
        &mut known.2
    }
}
