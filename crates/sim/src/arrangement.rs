//! The arrangement of streams.

use pagewalk_mm::structure::StructureSpec;
use pagewalk_trace::Turns;

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

impl Arrangement {
    /// Most cores.
    pub const CORES_MAX: u8 = 16;
}

/// How processes share a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Where their turns end.
    pub turns: Turns,
    /// Whether read-only pages of files are global.
    pub global_files: bool,
}
