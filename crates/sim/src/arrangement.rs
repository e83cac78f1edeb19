//! The arrangement of streams.

use pagewalk_mm::structure::StructureSpec;
use pagewalk_trace::{Turns, all_calls, call_number};
use pagewalk_units::names::{closest, meant};

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

/// Why processes cannot share a processor so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// A turn of no instructions.
    #[error("a turn has 1 instruction or more")]
    Empty,
    /// There is no such call; the names meant, as a question.
    #[error("\"{0}\": no system call of x86-64 Linux has this name: {1}")]
    Call(String, String),
    /// Global files without turns.
    #[error("global files are for processes that take turns")]
    Alone,
}

/// How processes share a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Where their turns end.
    pub turns: Turns,
    /// Whether read-only pages of files are global.
    pub global_files: bool,
}

impl Sharing {
    /// Turns of `quantum` instructions, or up to system calls with these names or numbers; `None` without either.
    ///
    /// # Errors
    /// If a turn is empty, there is no such call, or files are to be global without turns.
    pub fn new(
        quantum: Option<u64>,
        switch_at: &[String],
        global_files: bool,
    ) -> Result<Option<Sharing>, SharingError> {
        if quantum == Some(0) {
            return Err(SharingError::Empty);
        }
        let calls = switch_at.iter().map(|name| call(name)).collect::<Result<Vec<u32>, _>>()?;
        match (quantum.is_none() && calls.is_empty(), global_files) {
            (false, _) => Ok(Some(Sharing { turns: Turns { quantum, calls }, global_files })),
            (true, true) => Err(SharingError::Alone),
            (true, false) => Ok(None),
        }
    }
}

/// The number of a system call given by name or number.
fn call(text: &str) -> Result<u32, SharingError> {
    call_number(text).or_else(|| text.parse().ok()).ok_or_else(|| {
        let names = || all_calls().map(|(_, name)| name);
        let way_out = match meant(&closest(text, names())) {
            None => "give names such as read, poll or futex, or numbers".to_owned(),
            Some(meant) => format!("{meant} Numbers work too"),
        };
        SharingError::Call(text.to_owned(), way_out)
    })
}
