//! The shapes of radix page tables: address bits per level, and the levels that may hold leaves.
//!
//! | format | base page | bits a level | levels | leaves |
//! |---|---|---|---|---|
//! | `x86-64` | 4K | 9 | 4, 5 | 4K, 2M, 1G |
//! | `aarch64-4k` | 4K | 9 | 3, 4 | 4K, 64K°, 2M, 32M°, 1G |
//! | `aarch64-16k` | 16K | 11 | 3, 4 | 16K, 2M°, 32M, 1G° |
//! | `aarch64-64k` | 64K | 13 | 2, 3 | 64K, 2M°, 512M, 16G° |
//! | `riscv-sv39`, `riscv-sv48`, `riscv-sv57` | 4K | 9 | 3, 4, 5 | 4K, 64K°, 2M, 1G, with 4 levels 512G |
//!
//! ° Adjacent entries marked as one page (AArch64's contiguous bit, RISC-V's Svnapot): a walk reads one of them, as
//! deep as for the smaller page.
//!
//! The root's level may have fewer bits than the others. A walk still reads one entry of the root, and the root counts
//! as wide enough for every recorded address, even if the format's addresses are shorter (39 bits in Sv39, 42 bits in
//! two levels of 64K).
//!
//! Sources: Intel SDM vol. 3A, 4.5; Arm Architecture Reference Manual for A-profile (DDI 0487), D8.2 and D8.7.1;
//! RISC-V Privileged Architecture 20240411, chapters 10.4 to 10.6, and "Svnapot".

use pagewalk_units::{PageSize, Paging};
use std::fmt;

/// A level of the page table above the leaves of base pages, deepest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalkLevel(u8);

impl WalkLevel {
    /// The level `height` above the leaves of base pages; `height` is 1 or more.
    pub(crate) fn above_leaves(height: u8) -> WalkLevel {
        debug_assert!(height > 0);
        WalkLevel(height)
    }

    /// Its height above the leaves of base pages.
    pub fn height(self) -> usize {
        self.0.into()
    }
}

/// The page tables of an architecture and granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RadixFormat {
    /// 9 bits a level.
    #[default]
    X86_64,
    /// The 4 KiB granule: 9 bits a level.
    Aarch64With4K,
    /// The 16 KiB granule: 11 bits a level.
    Aarch64With16K,
    /// The 64 KiB granule: 13 bits a level.
    Aarch64With64K,
    /// 9 bits a level, 3 levels.
    RiscVSv39,
    /// 9 bits a level, 4 levels.
    RiscVSv48,
    /// 9 bits a level, 5 levels.
    RiscVSv57,
}

impl RadixFormat {
    /// All formats.
    pub const ALL: [RadixFormat; 7] = [
        RadixFormat::X86_64,
        RadixFormat::Aarch64With4K,
        RadixFormat::Aarch64With16K,
        RadixFormat::Aarch64With64K,
        RadixFormat::RiscVSv39,
        RadixFormat::RiscVSv48,
        RadixFormat::RiscVSv57,
    ];

    /// The name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            RadixFormat::X86_64 => "x86-64",
            RadixFormat::Aarch64With4K => "aarch64-4k",
            RadixFormat::Aarch64With16K => "aarch64-16k",
            RadixFormat::Aarch64With64K => "aarch64-64k",
            RadixFormat::RiscVSv39 => "riscv-sv39",
            RadixFormat::RiscVSv48 => "riscv-sv48",
            RadixFormat::RiscVSv57 => "riscv-sv57",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<RadixFormat> {
        RadixFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// log2 of the bytes of a base page.
    fn base_shift(self) -> u32 {
        match self {
            RadixFormat::Aarch64With16K => 14,
            RadixFormat::Aarch64With64K => 16,
            _ => 12,
        }
    }

    /// The page sizes: in every format a table fills a base page and entries have 8 bytes.
    pub fn paging(self) -> Paging {
        let base = PageSize::from_shift(self.base_shift()).expect("a page size");
        Paging::with_base(base).expect("512M at most")
    }

    /// Bits of the address that a level takes.
    pub fn bits(self) -> u32 {
        self.base_shift() - 3
    }

    /// Levels that a table may have.
    pub fn levels(self) -> &'static [u8] {
        match self {
            RadixFormat::X86_64 => &[4, 5],
            RadixFormat::Aarch64With4K | RadixFormat::Aarch64With16K => &[3, 4],
            RadixFormat::Aarch64With64K => &[2, 3],
            RadixFormat::RiscVSv39 => &[3],
            RadixFormat::RiscVSv48 => &[4],
            RadixFormat::RiscVSv57 => &[5],
        }
    }

    /// The page sizes of a table of `levels` levels, smallest first.
    pub fn page_sizes(self, levels: u8) -> Vec<PageSize> {
        let shifts: &[u32] = match self {
            RadixFormat::X86_64 => &[12, 21, 30],
            RadixFormat::Aarch64With4K => &[12, 16, 21, 25, 30],
            RadixFormat::Aarch64With16K => &[14, 21, 25, 30],
            RadixFormat::Aarch64With64K => &[16, 21, 29, 34],
            RadixFormat::RiscVSv39 | RadixFormat::RiscVSv48 | RadixFormat::RiscVSv57 => &[12, 16, 21, 30, 39],
        };
        let end = self.base_shift() + u32::from(levels) * self.bits();
        let fitting = shifts.iter().take_while(|&&shift| shift < end);
        fitting.filter_map(|&shift| PageSize::from_shift(shift)).collect()
    }

    /// The levels above the leaves of base pages, which page-walk caches may hold, deepest first.
    pub fn upper_levels(self, levels: u8) -> impl Iterator<Item = WalkLevel> {
        (1..levels).map(WalkLevel::above_leaves)
    }

    /// The architecture's name of a level above the leaves of base pages, as in machine files and metrics.
    pub fn level_name(self, level: WalkLevel) -> &'static str {
        let names: &[&str] = match self {
            RadixFormat::X86_64 => &["pde", "pdpte", "pml4", "pml5"],
            // Arm counts from the root of a full-sized table: level 3 holds base pages.
            RadixFormat::Aarch64With4K | RadixFormat::Aarch64With16K | RadixFormat::Aarch64With64K => {
                &["l2", "l1", "l0"]
            }
            // RISC-V counts from the leaves.
            RadixFormat::RiscVSv39 | RadixFormat::RiscVSv48 | RadixFormat::RiscVSv57 => {
                &["l1", "l2", "l3", "l4"]
            }
        };
        names[level.height() - 1]
    }

    /// log2 of the bytes that one entry of a level maps.
    pub fn shift(self, level: WalkLevel) -> u32 {
        self.base_shift() + self.bits() * level.height() as u32
    }
}

impl fmt::Display for RadixFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_maps_its_two_pages_and_names_its_levels() {
        for format in RadixFormat::ALL {
            assert_eq!(RadixFormat::from_name(format.name()), Some(format));
            for &levels in format.levels() {
                let sizes = format.page_sizes(levels);
                assert!(sizes.is_sorted());
                let paging = format.paging();
                assert_eq!(sizes[0], paging.base());
                assert!(sizes.contains(&paging.huge()), "{format} of {levels} levels");
                let upper: Vec<WalkLevel> = format.upper_levels(levels).collect();
                assert_eq!(format.shift(upper[0]), paging.huge().shift());
                let names: std::collections::BTreeSet<_> =
                    upper.iter().map(|&level| format.level_name(level)).collect();
                assert_eq!(names.len(), usize::from(levels) - 1);
            }
        }
    }
}
