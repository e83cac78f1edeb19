//! What the kernel did.

use super::ORDERS;
use crate::frames::Buddy;

/// How the physical memory lies, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTotals {
    /// Frames in all.
    pub frames: u64,
    /// Those that are free.
    pub free: u64,
    /// Free frames in blocks of at least each order.
    pub usable: [u64; ORDERS],
}

impl MemoryTotals {
    /// The share of free memory in blocks too small for a superpage of this order; 1 when nothing is free. See
    /// [`Buddy::unusable_index`].
    pub fn unusable_index(&self, order: u8) -> f64 {
        if self.free == 0 {
            return 1.0;
        }
        (self.free - self.usable[order as usize]) as f64 / self.free as f64
    }

    pub(super) fn of(memory: &Buddy) -> MemoryTotals {
        let mut usable = [0; ORDERS];
        for (order, usable) in (0..).zip(&mut usable) {
            *usable = (order..=memory.max_order()).map(|order| memory.free_blocks(order) << order).sum();
        }
        MemoryTotals { frames: memory.frames(), free: memory.free_frames(), usable }
    }
}

/// What the kernel did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Page faults: first touches of pages that nothing mapped, touches of pages that were swapped out, and stores to
    /// pages that may be shared.
    pub faults: u64,
    /// Faults that took a smaller page than they could have had, as there was no block of frames for it.
    pub faults_fallen_back: u64,
    /// Superpages built of pages that were mapped before, by order.
    pub promotions: [u64; ORDERS],
    /// Superpages built where their pages lay already, among them.
    pub promotions_in_place: u64,
    /// Superpages taken apart.
    pub demotions: u64,
    /// Bytes given back, of superpages, that the program had never touched.
    pub trimmed_bytes: u64,
    /// Superpages that the policy wanted and that would have reached out of their area of memory.
    pub refused_area: u64,
    /// Superpages that the policy wanted and for which there was no block of frames; under a policy that copies
    /// nothing, also those whose pages do not lie in place; and those of which a part is swapped out.
    pub refused_memory: u64,
    /// Bytes of superpages that were built.
    pub promoted_bytes: u64,
    /// Most bytes that were backed at one time.
    pub backed_bytes_peak: u64,
    /// Most bytes that were backed and never touched at one time.
    pub untouched_bytes_peak: u64,
    /// Blocks of frames that were made free for promotions by moving what was in them.
    pub compactions: u64,
    /// Frames moved for that, of this process and of others.
    pub frames_moved: u64,
    /// Reservations that the policy wanted and for which there was no block of frames.
    pub reservations_refused: u64,
    /// Reservations broken for want of frames.
    pub reservations_broken: u64,
    /// Requests of memory that were backed as a whole when they were mapped.
    pub eager_areas: u64,
    /// Bytes of them.
    pub eager_bytes: u64,
    /// Runs of adjacent frames that they took.
    pub eager_runs: u64,
    /// Requests that were left to demand, as memory was fragmented or had not enough free, or
    /// some of them were touched already.
    pub eager_left: u64,
    /// Base pages written to swap. What the program has never touched is dropped instead.
    pub swap_outs: u64,
    /// Base pages read back.
    pub swap_ins: u64,
    /// Base pages copied at the first store to them, as they were the page cache's, the parent's, or also a child's.
    pub copies_on_write: u64,
    /// Pages that no child shared any more at the first store after a fork.
    pub reused: u64,
    /// First stores to pages of shared mappings of files that a load had mapped.
    pub write_notices: u64,
    /// Faults that mapped pages of files.
    pub file_faults: u64,
    /// Reads of files, for faults on pages that were not in memory.
    pub file_reads: u64,
    /// Most bytes that were mapped at one time in frames of the page cache or of the parent.
    pub foreign_bytes_peak: u64,
}
