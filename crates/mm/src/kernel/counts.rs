//! Counts of the kernel's work.

use super::ORDERS;
use crate::frames::Buddy;

/// The state of the physical memory, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTotals {
    /// All frames.
    pub frames: u64,
    /// Free frames.
    pub free: u64,
    /// Free frames in blocks of at least each order.
    pub usable: [u64; ORDERS],
}

impl MemoryTotals {
    pub(super) fn of(memory: &Buddy) -> MemoryTotals {
        let mut usable = [0; ORDERS];
        for (order, usable) in (0..).zip(&mut usable) {
            *usable = (order..=memory.max_order()).map(|order| memory.free_blocks(order) << order).sum();
        }
        MemoryTotals { frames: memory.frames(), free: memory.free_frames(), usable }
    }
}

/// Counts of the kernel's work.
// Many fields: one per kind of event; results list them by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Page faults: first touches of unmapped pages, touches of swapped-out pages, and stores to pages that may be
    /// shared.
    pub faults: u64,
    /// Faults that took a smaller page because no block of frames was free.
    pub faults_fallen_back: u64,
    /// Superpages built from mapped pages, by order.
    pub promotions: [u64; ORDERS],
    /// Promotions in place.
    pub promotions_in_place: u64,
    /// Superpages split.
    pub demotions: u64,
    /// Bytes of superpages, never touched, that were freed.
    pub trimmed_bytes: u64,
    /// Promotions refused because the superpage would extend beyond its area.
    pub refused_area: u64,
    /// Promotions refused because no block of frames was free, because a part is swapped out, or, under a policy that
    /// copies nothing, because the pages do not lie in place.
    pub refused_memory: u64,
    /// Bytes of built superpages.
    pub promoted_bytes: u64,
    /// Peak backed bytes, together with what [`Kernel::beside`](super::Kernel::beside) told.
    pub backed_bytes_peak: u64,
    /// Peak bytes backed and not touched yet, likewise.
    pub untouched_bytes_peak: u64,
    /// Blocks of frames that compaction freed for promotions.
    pub compactions: u64,
    /// Frames that compaction moved, of this process and of others.
    pub frames_moved: u64,
    /// Reservations refused because no block of frames was free.
    pub reservations_refused: u64,
    /// Reservations broken because frames ran out.
    pub reservations_broken: u64,
    /// Mapping requests backed at once.
    pub eager_areas: u64,
    /// Their bytes.
    pub eager_bytes: u64,
    /// Their runs of adjacent frames.
    pub eager_runs: u64,
    /// Mapping requests left to demand paging, because memory was fragmented or short, or some pages were touched
    /// already.
    pub eager_left: u64,
    /// Base pages written to swap. Never touched pages are dropped instead.
    pub swap_outs: u64,
    /// Base pages read back from swap.
    pub swap_ins: u64,
    /// Base pages copied at their first store, because they belong to the page cache or the parent, or to a child too.
    pub copies_on_write: u64,
    /// Pages that no child shares any more at the first store after a fork.
    pub reused: u64,
    /// First stores to pages of shared file mappings that a load had mapped.
    pub write_notices: u64,
    /// Faults that mapped pages of files.
    pub file_faults: u64,
    /// Reads of files, for faults on pages that were not in memory.
    pub file_reads: u64,
    /// Peak bytes mapped in frames of the page cache or of the parent.
    pub foreign_bytes_peak: u64,
    /// Base pages moved to frames of other colors.
    pub recolorings: u64,
    /// Recolorings of pages that moved five times or more.
    pub recolorings_repeated: u64,
    /// Such moves refused, because no frame of the color was free or the page's frame is not the process's own.
    pub recolorings_refused: u64,
    /// Different pages that recolorings copied.
    pub pages_recolored: u64,
    /// Different pages that recolorings or promotions copied; kernels that place pages.
    pub pages_copied: u64,
    /// Of these, pages that both copied.
    pub pages_copied_by_both: u64,
    /// Pages that got a frame which the placement's list of frames does not name for them.
    pub pages_unlisted: u64,
}

impl std::ops::Add for KernelCounts {
    type Output = KernelCounts;

    /// The sum over two processes that [`Kernel::beside`](super::Kernel::beside) told of each other: peaks are of both
    /// together already.
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
            backed_bytes_peak: self.backed_bytes_peak.max(other.backed_bytes_peak),
            untouched_bytes_peak: self.untouched_bytes_peak.max(other.untouched_bytes_peak),
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
            foreign_bytes_peak: self.foreign_bytes_peak.max(other.foreign_bytes_peak),
            recolorings: self.recolorings + other.recolorings,
            recolorings_repeated: self.recolorings_repeated + other.recolorings_repeated,
            recolorings_refused: self.recolorings_refused + other.recolorings_refused,
            pages_recolored: self.pages_recolored + other.pages_recolored,
            pages_copied: self.pages_copied + other.pages_copied,
            pages_copied_by_both: self.pages_copied_by_both + other.pages_copied_by_both,
            pages_unlisted: self.pages_unlisted + other.pages_unlisted,
        }
    }
}
