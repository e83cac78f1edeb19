//! Facts about each engine block for the hot loop, by the engine's block number.

use pagewalk_units::BlockId;

/// One engine block, 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Index of its first slot in the flat array of metas.
    pub first_slot: u32,
    /// The block of its full path.
    pub block: BlockId,
    /// One more than the index of its definition; 0 while undefined.
    pub definition: u32,
    /// Slots of the full path, or [`Entry::NOT_FAST`].
    pub slots: u16,
    /// Instructions of the full path.
    pub instructions: u16,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// In [`Entry::slots`]: the fast path must not decode this block (undefined, not yet run to its end, with padding,
    /// or with a wide reference).
    pub const NOT_FAST: u16 = u16::MAX;

    const UNDEFINED: Entry =
        Entry { first_slot: 0, block: BlockId(0), definition: 0, slots: Entry::NOT_FAST, instructions: 0 };
}

/// Entries by engine block number. A flat table even though numbers may be sparse: a two-level table would cost a tenth
/// of the decoder's speed.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Entry>);

impl Table {
    /// The entry of block `number`.
    pub fn get(&self, number: u32) -> Entry {
        look_up(&self.0, number)
    }

    /// The mutable entry of block `number`. The caller bounds the number.
    pub fn get_mut(&mut self, number: u32) -> &mut Entry {
        let index = number as usize;
        if index >= self.0.len() {
            self.0.resize((index + 1).next_power_of_two(), Entry::UNDEFINED);
        }
        &mut self.0[index]
    }

    /// All entries, for [`look_up`].
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
}

/// The entry of block `number` among `entries`.
#[inline(always)]
pub(super) fn look_up(entries: &[Entry], number: u32) -> Entry {
    entries.get(number as usize).copied().unwrap_or(Entry::UNDEFINED)
}
