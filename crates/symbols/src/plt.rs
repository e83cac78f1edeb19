//! Names stubs of the procedure linkage table `function@plt`.
//!
//! They have no symbols. A stub is recognised by its indirect jump through a slot of the global offset table; the
//! slot's relocation names the function. This covers lazy, immediate and CET layouts alike.

use crate::Svma;
use crate::elf::Elf;
use crate::symbol_table::Function;
use object::read::elf::SectionHeader;
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};
use rustc_hash::FxHashMap;

/// `jmp *displacement(%rip)`, before its 4-byte displacement.
const JUMP: [u8; 2] = [0xff, 0x25];

pub(crate) fn stubs(elf: &Elf<'_>) -> Vec<Function> {
    let names = slot_names(elf);
    let mut stubs = Vec::new();
    for section in elf.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt")))
    {
        let Ok(code) = section.data() else { continue };
        let entry_bytes = match section.elf_section_header().sh_entsize(elf.endian()) {
            stated @ 8..=64 => stated as usize,
            _ => 16,
        };
        for (number, entry) in code.chunks_exact(entry_bytes).enumerate() {
            let start = section.address().wrapping_add((number * entry_bytes) as u64);
            if let Some(name) = jump_slot(start, entry).and_then(|slot| names.get(&slot)) {
                let name = format!("{name}@plt").into();
                stubs.push(Function {
                    start: Svma(start),
                    bytes: Some(entry_bytes as u64),
                    name,
                    global: false,
                });
            }
        }
    }
    stubs
}

/// The slot through which the stub with these bytes at `start` jumps.
fn jump_slot(start: u64, stub: &[u8]) -> Option<u64> {
    let after_opcode = stub.windows(JUMP.len()).position(|bytes| bytes == JUMP)? + JUMP.len();
    let displacement = i32::from_le_bytes(*stub[after_opcode..].first_chunk()?);
    let next_instruction = start.wrapping_add(after_opcode as u64 + 4);
    Some(next_instruction.wrapping_add_signed(i64::from(displacement)))
}

/// The symbol of each slot.
fn slot_names<'data>(elf: &Elf<'data>) -> FxHashMap<u64, &'data str> {
    let Some(symbols) = elf.dynamic_symbol_table() else { return FxHashMap::default() };
    elf.dynamic_relocations()
        .into_iter()
        .flatten()
        .filter_map(|(slot, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let name = symbols.symbol_by_index(index).ok()?.name().ok()?;
            (!name.is_empty()).then_some((slot, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_relative_to_the_next_instruction() {
        let lazy = [0xff, 0x25, 0xe2, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff];
        assert_eq!(jump_slot(0x1030, &lazy), Some(0x1036 + 0x2fe2));
        let cet = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xfc, 0xff, 0xff, 0xff, 0x0f, 0x1f, 0x44, 0, 0];
        assert_eq!(jump_slot(0x1050, &cet), Some(0x1050 + 11 - 4));
        assert_eq!(jump_slot(0x1030, &[0xff, 0x25, 1]), None);
        assert_eq!(jump_slot(0x1030, &[0x90; 16]), None);
    }
}
