//! What the hot loop needs to know of each engine block, by the engine's block number.

use pagewalk_units::BlockId;

/// Blocks per page of the table.
const PAGE: usize = 256;

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
    /// In [`Entry::slots`]: the fast path must not decode this block (undefined, never run to its end yet, with
    /// padding, or with a wide reference).
    pub const NOT_FAST: u16 = u16::MAX;

    const UNDEFINED: Entry =
        Entry { first_slot: 0, block: BlockId(0), definition: 0, slots: Entry::NOT_FAST, instructions: 0 };
}

/// Entries by engine block number, in pages made on first use: a forked child's ring names few blocks, but with
/// the high numbers of its parent.
#[derive(Debug)]
pub(super) struct Table {
    /// Page number in `entries` of each run of `PAGE` block numbers; 0 is the page of undefined entries.
    directory: Vec<u32>,
    entries: Vec<Entry>,
}

impl Table {
    pub fn new() -> Table {
        Table { directory: Vec::new(), entries: vec![Entry::UNDEFINED; PAGE] }
    }

    /// The entry of block `number`.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Entry {
        let page = self.directory.get(number as usize / PAGE).copied().unwrap_or(0);
        self.entries[page as usize * PAGE + number as usize % PAGE]
    }

    /// The entry of block `number`, to change it.
    pub fn get_mut(&mut self, number: u32) -> &mut Entry {
        let (run, within) = (number as usize / PAGE, number as usize % PAGE);
        if run >= self.directory.len() {
            self.directory.resize(run + 1, 0);
        }
        if self.directory[run] == 0 {
            self.directory[run] = (self.entries.len() / PAGE) as u32;
            self.entries.resize(self.entries.len() + PAGE, Entry::UNDEFINED);
        }
        &mut self.entries[self.directory[run] as usize * PAGE + within]
    }
}
