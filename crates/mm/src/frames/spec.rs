//! The specification of a physical memory.

use super::file::FileMemory;
use super::initial_state::{pin_share, with_free_blocks};
use super::{Buddy, BuddyInfo, MAX_FRAMES, MAX_ORDER, MemoryError};
use pagewalk_units::{Draws, PageSize};
use std::fmt;

/// A physical memory: its size, its initial state, and the cost of moving a frame.
///
/// ```
/// # #[derive(serde::Deserialize)] struct File { memory: pagewalk_mm::frames::MemorySpec }
/// use pagewalk_units::{Draws, PageSize};
///
/// let file: File = toml::from_str(r#"
///     [memory]
///     size = "1G"
///     initial = { fragmentation = [1.0, 0.9, 0.8, 0.5], free = 0.6 }
///     seed = 7
/// "#)?;
/// let memory = file.memory.build(PageSize::FOUR_KIB, |path| std::fs::read_to_string(path))?;
/// assert_eq!(memory.free_frames(), (0.6 * 262_144.0_f64).round() as u64);
/// assert_eq!(memory.largest_free_order(), Some(3));
/// assert!((memory.unusable_index(2) - 0.2).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(try_from = "FileMemory")]
pub struct MemorySpec {
    /// Bytes of memory (`size`).
    pub bytes: u64,
    /// The initial state; all frames are free by default.
    pub initial: Initial,
    /// The largest order of a block. Default: that of the host's free lists if a host is read, else [`MAX_ORDER`].
    pub max_order: Option<u32>,
    /// The share of initially used frames that are unmovable. Default 0.1: chosen.
    pub unmovable: f64,
    /// log2 of the frames of page blocks for unmovable frames; 0 scatters them singly. Default 9: Linux's
    /// `pageblock_order` on x86-64.
    pub unmovable_order: u32,
    /// Cycles to move one frame; see [`MemorySpec::migration_cycles`].
    pub migration_cycles: Option<u64>,
    /// The seed for the places of free and unmovable blocks. Default 0.
    pub seed: u64,
}

/// The initial state of a memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Initial {
    /// All frames are free.
    Empty,
    /// A share of the memory is free, in pieces.
    Fragmented {
        /// By order from 0, the share of free memory in blocks of at least that order: 1 first, never rising, 0 for
        /// larger orders. It is 1 − [`Buddy::unusable_index`].
        fragmentation: Vec<f64>,
        /// The share of memory that is free.
        free: f64,
    },
    /// The free blocks of a Linux host: the text of its `/proc/buddyinfo`, which begins with `Node`, or the name of a
    /// file that holds it.
    BuddyInfo(String),
}

impl MemorySpec {
    /// An unused memory, with all else at its default.
    pub fn empty(bytes: u64) -> MemorySpec {
        MemorySpec {
            bytes,
            initial: Initial::Empty,
            max_order: None,
            unmovable: 0.1,
            unmovable_order: 9,
            migration_cycles: None,
            seed: 0,
        }
    }

    /// Cycles that the caller charges per moved frame, for compaction and for superpages built by copying. Default:
    /// 3,000 per KiB, so 12,000 for 4 KiB (Romer 1998, section 3.2: promotion).
    pub fn migration_cycles(&self, frame: PageSize) -> u64 {
        self.migration_cycles.unwrap_or(3000 * (frame.bytes() >> 10))
    }

    /// The memory in its initial state, in frames of this size. `read` reads the file that `initial` names.
    pub fn build<E: fmt::Display>(
        &self,
        frame: PageSize,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<Buddy, MemoryError> {
        self.check()?;
        let frames = self.bytes >> frame.shift();
        if frames << frame.shift() != self.bytes || !(1..=MAX_FRAMES).contains(&frames) {
            return Err(MemoryError::Frames { bytes: self.bytes, frame: frame.bytes() });
        }
        let mut draws = Draws::new(self.seed);
        let max_order = self.max_order.unwrap_or(MAX_ORDER);
        let mut buddy = match &self.initial {
            Initial::Empty => Buddy::new(frames, max_order),
            Initial::Fragmented { fragmentation, free } => {
                let wanted = blocks_of_shares(frames, fragmentation, *free, max_order);
                with_free_blocks(frames, &wanted, &mut draws)?
            }
            Initial::BuddyInfo(text) => {
                let host = self.host(text, read)?;
                with_free_blocks(frames, &host.free_blocks(), &mut draws)?
            }
        };
        pin_share(&mut buddy, self.unmovable, self.unmovable_order, &mut draws);
        Ok(buddy)
    }

    /// Checks what does not depend on the frame size.
    pub(super) fn check(&self) -> Result<(), MemoryError> {
        let orders = [("max_order", self.max_order), ("unmovable_order", Some(self.unmovable_order))];
        for (key, order) in orders.into_iter().filter_map(|(key, order)| Some((key, order?))) {
            if order > MAX_ORDER {
                return Err(MemoryError::Order { key, order });
            }
        }
        check_share("unmovable", self.unmovable)?;
        let Initial::Fragmented { fragmentation, free } = &self.initial else { return Ok(()) };
        check_share("free", *free)?;
        let most = self.max_order.unwrap_or(MAX_ORDER) + 1;
        if fragmentation.is_empty() || fragmentation.len() > most as usize {
            return Err(MemoryError::FragmentationLength { entries: fragmentation.len(), most });
        }
        let mut least = 1.0;
        for (order, &value) in fragmentation.iter().enumerate() {
            let fits = if order == 0 { value == 1.0 } else { (0.0..=least).contains(&value) };
            if !fits {
                return Err(MemoryError::Fragmentation { order, value });
            }
            least = value;
        }
        Ok(())
    }

    fn host<E: fmt::Display>(
        &self,
        text: &str,
        read: impl FnOnce(&str) -> Result<String, E>,
    ) -> Result<BuddyInfo, MemoryError> {
        let host: BuddyInfo = if text.trim_start().starts_with("Node") {
            text.parse()?
        } else {
            let unreadable = |why: E| MemoryError::Unreadable { path: text.to_owned(), why: why.to_string() };
            read(text).map_err(unreadable)?.parse()?
        };
        match self.max_order {
            Some(asked) if asked != host.max_order() => {
                Err(MemoryError::HostOrder { asked, host: host.max_order() })
            }
            _ => Ok(host),
        }
    }
}

fn check_share(key: &'static str, value: f64) -> Result<(), MemoryError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(MemoryError::Share { key, value }) }
}

/// Free blocks by order: the frames in blocks of at least an order are its rounded share, without a partial block,
/// which the next smaller order takes.
fn blocks_of_shares(frames: u64, fragmentation: &[f64], free: f64, max_order: u32) -> Vec<u64> {
    let free_frames = (free * frames as f64).round();
    let mut wanted = vec![0; max_order as usize + 1];
    let mut placed = 0;
    for (order, share) in fragmentation.iter().enumerate().rev() {
        let at_least = (share * free_frames).round() as u64;
        wanted[order] = (at_least - placed) >> order;
        placed += wanted[order] << order;
    }
    wanted
}
