//! The addresses of pages of the kernel and servers.

use pagewalk_units::VirtAddr;

/// The first kernel address: kernel addresses have bit 56 set, programs' have not. It is the highest of 57 bits, which
/// distinguishes the halves of the address space.
pub const KERNEL_START: VirtAddr = VirtAddr(1 << 56);

/// The page that working sets are counted in: 4 KiB.
const PAGE_SHIFT: u32 = 12;
/// Pages that one page of a linear page table maps, with entries of 4 bytes: 4 MiB.
pub(super) const REGION_PAGES: u64 = 1024;

/// The pages of the kernel's mapped data, distributed over consecutive regions of 4 MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelData {
    pub regions: u64,
}

impl KernelData {
    pub fn page(self, page: u64) -> VirtAddr {
        let number = page % self.regions * REGION_PAGES + page / self.regions;
        VirtAddr(KERNEL_START.0 + (number << PAGE_SHIFT))
    }
}

/// A server's segments: text, data and stack, each in its own regions, as in a Unix process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Segment {
    Text,
    Data,
    Stack,
}

impl Segment {
    pub fn page(self, page: u64) -> VirtAddr {
        match self {
            Segment::Text => VirtAddr(0x0040_0000 + (page << PAGE_SHIFT)),
            Segment::Data => VirtAddr(0x1000_0000 + (page << PAGE_SHIFT)),
            // Stacks grow down.
            Segment::Stack => VirtAddr(0x7fff_f000 - (page << PAGE_SHIFT)),
        }
    }
}
