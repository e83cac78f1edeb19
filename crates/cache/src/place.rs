//! A place for a line, with the times of the line's last uses.

/// Marks an empty place; no line has this number.
pub(crate) const EMPTY: u64 = u64::MAX;

/// A place for a line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Place {
    pub line: u64,
    /// The times of the last use and of the last store; no store: 0, so that the line is clean.
    pub uses: [u32; 2],
}

impl Place {
    /// Free: as if used before all others.
    pub const NONE: Place = Place { line: EMPTY, uses: [0; 2] };

    pub fn used(&self) -> u32 {
        self.uses[0].max(self.uses[1])
    }

    pub fn is_dirty(&self) -> bool {
        self.uses[1] != 0
    }
}

/// What a search of a set finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The place of the line, if the set has it.
    pub held: Option<usize>,
    /// The place whose line was used before all others.
    pub oldest: usize,
}
