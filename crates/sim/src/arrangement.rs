//! The arrangement of streams.

use pagewalk_mm::structure::StructureSpec;

/// Who runs where.
#[derive(Clone, Default)]
pub struct Arrangement {
    /// Whether processes take turns.
    pub turns: bool,
    /// Number of cores, which threads get in order of appearance; 0 means 1.
    pub cores: usize,
    /// Whether file pages mapped without the right to write are global.
    pub global_files: bool,
    /// The operating system around the programs.
    pub structure: Option<StructureSpec>,
}
