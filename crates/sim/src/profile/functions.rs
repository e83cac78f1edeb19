//! Walks by the instruction that caused them.

use crate::attribution::{Wait, Waits, Walk};
use crate::recent_ids::RecentIds;
use pagewalk_mm::{AddressSpace, FilePlace, MappingId};
use pagewalk_trace::Block;
use pagewalk_units::VirtAddr;
use rustc_hash::FxHashMap;

/// Walks caused by one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionWalks {
    /// Its address in the traced process.
    pub instruction: VirtAddr,
    /// The mapping that holds the code.
    pub mapping: MappingId,
    /// Offset of the instruction in the mapping's file, if it has one.
    pub file_offset: u64,
    /// The file's code that it may be, moved into anonymous memory.
    pub moved: Option<MovedCode>,
    /// Walks by its fetches.
    pub walks_fetch: u64,
    /// Walks by its data references.
    pub walks_data: u64,
    /// Page-table entries that they read.
    pub walk_references: u64,
    /// Their modelled cycles.
    pub walk_cycles: u64,
    /// What its references miss in caches of memory.
    pub waits: Waits,
}

/// Code at an address where a file's code was executed before: the program may have moved that into anonymous memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedCode {
    /// The file's place that was at the instruction's address; still valid if the code is the file's.
    pub from: FilePlace,
    /// Offset in the file of the first byte of `code`.
    pub offset: u64,
    /// The executed code around the instruction; empty if the stream has none.
    pub code: Box<[u8]>,
}

impl MovedCode {
    fn of(instruction: VirtAddr, block: &Block, space: &AddressSpace) -> Option<MovedCode> {
        let from = space.former_code(instruction)?;
        let (start, code) = code_around(instruction, block).unwrap_or((instruction.0, &[]));
        let offset = from.offset.checked_sub(instruction.0 - start)?;
        Some(MovedCode { from, offset, code: code.into() })
    }
}

/// The start and bytes of the block's contiguous instructions around this one.
fn code_around(instruction: VirtAddr, block: &Block) -> Option<(u64, &[u8])> {
    let (mut start, mut first_byte, mut byte) = (0, 0, 0);
    let mut before = None;
    let mut found = false;
    for one in &block.instructions {
        if before != Some(one.address.0) {
            if found {
                break;
            }
            (start, first_byte) = (one.address.0, byte);
        }
        found |= one.address == instruction;
        before = one.address.0.checked_add(u64::from(one.length));
        byte += usize::from(one.length);
    }
    let code = block.code.get(first_byte..byte)?;
    found.then_some((start, code))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    /// Their `waits` stay 0: see the next field.
    rows: Vec<FunctionWalks>,
    /// By row: its instruction, and what that waits for. There are many more waits than walks.
    waits: Vec<(VirtAddr, Waits)>,
    /// The rows of instructions whose code is as it was.
    current: FxHashMap<VirtAddr, u32>,
    recent: RecentIds<{ 1 << 14 }>,
}

impl Functions {
    /// The number of an instruction's row.
    #[inline]
    fn row(&mut self, instruction: VirtAddr, block: &Block, space: &AddressSpace) -> usize {
        let candidate = self.recent.candidate(instruction.0);
        let is_it = self.waits.get(candidate as usize).is_some_and(|(of, _)| *of == instruction);
        let row = if is_it { candidate } else { self.find(instruction, block, space) };
        row as usize
    }

    /// The number of an instruction's row, which may be new.
    #[inline(never)]
    fn find(&mut self, instruction: VirtAddr, block: &Block, space: &AddressSpace) -> u32 {
        let Functions { rows, waits, current, recent } = self;
        let row = *current.entry(instruction).or_insert_with(|| {
            let vma = space.vma(instruction);
            rows.push(FunctionWalks {
                instruction,
                mapping: vma.map_or(MappingId::UNKNOWN, |vma| vma.mapping),
                file_offset: vma.map_or(0, |vma| vma.file_offset.wrapping_add(instruction.0 - vma.start)),
                moved: MovedCode::of(instruction, block, space),
                walks_fetch: 0,
                walks_data: 0,
                walk_references: 0,
                walk_cycles: 0,
                waits: Waits::default(),
            });
            waits.push((instruction, Waits::default()));
            u32::try_from(rows.len() - 1).expect("fewer than 2^32 instructions")
        });
        recent.set(instruction.0, row);
        row
    }

    /// Adds what a reference missed in caches of memory.
    pub fn add_wait(&mut self, wait: &Wait<'_>, space: &AddressSpace) {
        let row = self.row(wait.instruction, wait.block, space);
        self.waits[row].1.add_reference(wait.waits);
    }

    /// Adds what references of an instruction missed that has a row, as its code is as it was.
    pub fn add_waits(&mut self, instruction: VirtAddr, waits: &Waits) {
        let row = self.current[&instruction];
        self.waits[row as usize].1.add(waits);
    }

    pub fn add(&mut self, walk: &Walk<'_>, space: &AddressSpace) {
        let row = self.row(walk.instruction, walk.block, space);
        let row = &mut self.rows[row];
        let walks = if walk.fetch { &mut row.walks_fetch } else { &mut row.walks_data };
        *walks += 1;
        row.walk_references += u64::from(walk.references);
        row.walk_cycles = row.walk_cycles.saturating_add(walk.cycles);
    }

    /// Code in this range may change from now on.
    pub fn forget(&mut self, range: std::ops::Range<u64>) {
        self.current.retain(|address, _| !range.contains(&address.0));
        self.recent.clear();
    }

    /// All rows, by ascending address.
    pub fn rows(&self) -> Vec<FunctionWalks> {
        let whole = |(row, (_, waits)): (&FunctionWalks, &(VirtAddr, Waits))| FunctionWalks {
            waits: *waits,
            ..row.clone()
        };
        let mut rows: Vec<FunctionWalks> = self.rows.iter().zip(&self.waits).map(whole).collect();
        rows.sort_by_key(|row| (row.instruction, row.mapping, row.walk_references, row.walks_data));
        rows
    }
}
