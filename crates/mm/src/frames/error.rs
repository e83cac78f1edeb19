//! Errors of descriptions of physical memory.

use super::{BuddyInfoError, MAX_FRAMES, MAX_ORDER};

/// Why a description of memory is invalid. Each message names the key, the fault and the choices.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MemoryError {
    /// Its table has wrong keys or values.
    #[error("{0}")]
    Table(String),
    /// `size` is no number of bytes.
    #[error("memory: size = \"{0}\": expected bytes, or a number with K, M, G or T, such as 8G")]
    Size(String),
    /// `size` is no valid number of frames.
    #[error(
        "memory: size = {bytes} bytes with frames of {frame} bytes: choose a multiple of them, from one to {MAX_FRAMES}"
    )]
    Frames {
        /// Bytes of memory.
        bytes: u64,
        /// Bytes of a frame.
        frame: u64,
    },
    /// An order above the largest.
    #[error("memory: {key} = {order}: choose 0 to {MAX_ORDER}")]
    Order {
        /// The key.
        key: &'static str,
        /// Its value.
        order: u32,
    },
    /// `initial` is an unknown word or table.
    #[error(
        "memory: initial = {0}: choose \"empty\", {{ fragmentation = [1.0, …], free = 0.6 }} or \
         {{ buddyinfo = \"FILE\" }}"
    )]
    Initial(String),
    /// A share outside 0 to 1.
    #[error("memory: {key} = {value}: choose a share from 0.0 to 1.0")]
    Share {
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
    },
    /// `fragmentation` is not a falling list of shares.
    #[error(
        "memory: fragmentation[{order}] = {value}: the share of free memory in blocks of at least each order begins \
         with 1.0 and never rises"
    )]
    Fragmentation {
        /// The index in the list.
        order: usize,
        /// Its value.
        value: f64,
    },
    /// `fragmentation` has too many shares.
    #[error("memory: fragmentation has {entries} shares: choose 1 to {most}, for orders 0 to {}", most - 1)]
    FragmentationLength {
        /// The number of shares.
        entries: usize,
        /// The most allowed.
        most: u32,
    },
    /// The host's largest order differs from `max_order`.
    #[error(
        "memory: max_order = {asked}, but the host's free lists end at order {host}: leave max_order out, or \
         choose {host}"
    )]
    HostOrder {
        /// The key's value.
        asked: u32,
        /// The largest order of the host's lists.
        host: u32,
    },
    /// The caller could not read the file.
    #[error("memory: buddyinfo = \"{path}\": {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The caller's error.
        why: String,
    },
    /// The text is no valid `/proc/buddyinfo`.
    #[error("memory: buddyinfo: {0}")]
    BuddyInfo(#[from] BuddyInfoError),
    /// The free blocks do not fit the memory.
    #[error(
        "memory: {frames} frames cannot hold the {free} free ones asked for: two free buddies would be one block, so \
         used frames must keep the free blocks apart, which takes {needed} blocks of order {max_order} and memory has \
         {blocks}: choose a larger size, less free memory, or larger free blocks"
    )]
    NoRoom {
        /// Frames of memory.
        frames: u64,
        /// Free frames requested.
        free: u64,
        /// Blocks of the largest order needed.
        needed: u64,
        /// Whole blocks of the largest order available.
        blocks: u64,
        /// The largest order.
        max_order: u32,
    },
}
