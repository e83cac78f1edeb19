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
// Many fields: one for each event that is counted; results list them by name.
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

impl std::ops::Add for KernelCounts {
    type Output = KernelCounts;

    /// Of two processes together. Peaks are those of each, which may have come at different times.
    fn add(self, other: KernelCounts) -> KernelCounts {
        KernelCounts {
            promotions: std::array::from_fn(|order| self.promotions[order] + other.promotions[order]),
            faults: self.faults + other.faults,
            faults_fallen_back: self.faults_fallen_back + other.faults_fallen_back,
            promotions_in_place: self.promotions_in_place + other.promotions_in_place,
            demotions: self.demotions + other.demotions,
            trimmed_bytes: self.trimmed_bytes + other.trimmed_bytes,
            refused_area: self.refused_area + other.refused_area,
            refused_memory: self.refused_memory + other.refused_memory,
            promoted_bytes: self.promoted_bytes + other.promoted_bytes,
            backed_bytes_peak: self.backed_bytes_peak + other.backed_bytes_peak,
            untouched_bytes_peak: self.untouched_bytes_peak + other.untouched_bytes_peak,
            compactions: self.compactions + other.compactions,
            frames_moved: self.frames_moved + other.frames_moved,
            reservations_refused: self.reservations_refused + other.reservations_refused,
            reservations_broken: self.reservations_broken + other.reservations_broken,
            eager_areas: self.eager_areas + other.eager_areas,
            eager_bytes: self.eager_bytes + other.eager_bytes,
            eager_runs: self.eager_runs + other.eager_runs,
            eager_left: self.eager_left + other.eager_left,
            swap_outs: self.swap_outs + other.swap_outs,
            swap_ins: self.swap_ins + other.swap_ins,
            copies_on_write: self.copies_on_write + other.copies_on_write,
            reused: self.reused + other.reused,
            write_notices: self.write_notices + other.write_notices,
            file_faults: self.file_faults + other.file_faults,
            file_reads: self.file_reads + other.file_reads,
            foreign_bytes_peak: self.foreign_bytes_peak + other.foreign_bytes_peak,
        }
    }
}
