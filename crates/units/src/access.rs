//! The kind and size of memory references.

/// The kind of a memory reference. A modify is one reference that reads and then writes the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An instruction fetch.
    Fetch = 0,
    /// A data read.
    Load = 1,
    /// A data write.
    Store = 2,
    /// A data read followed by a write of the same bytes by one instruction.
    Modify = 3,
}

impl Kind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Kind; 4] = [Kind::Fetch, Kind::Load, Kind::Store, Kind::Modify];

    /// Its name: `fetch`, `load`, `store` or `modify`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fetch => "fetch",
            Kind::Load => "load",
            Kind::Store => "store",
            Kind::Modify => "modify",
        }
    }

    /// The kind with this two-bit code; higher bits are ignored.
    #[inline(always)]
    pub const fn from_code(code: u8) -> Kind {
        // Compiles to the code itself; a table would be a load for each reference.
        match code & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            2 => Kind::Store,
            _ => Kind::Modify,
        }
    }
}

/// The number of bytes that one reference moves, stored as a 5-bit code.
///
/// Codes 0 to 15 are powers of two (1 to 32,768 bytes); 16 to 31 are the odd sizes that real
/// instructions use: x87 extended reals (10), environments (14, 28), states (94, 108), `fxsave` parts
/// (160, 464), descriptor tables (6), and small remainders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size(u8);

impl Size {
    /// Bytes for each code.
    pub const BYTES: [u16; 32] = [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, //
        3, 5, 6, 7, 9, 10, 12, 14, 24, 28, 48, 94, 108, 160, 464, 832,
    ];

    /// The size of `bytes`, or `None` if there is no code for it.
    pub fn of_bytes(bytes: u32) -> Option<Size> {
        let position = Size::BYTES.iter().position(|&b| u32::from(b) == bytes)?;
        Some(Size(position as u8))
    }

    /// The smallest size of at least `bytes`, or `None` if all are smaller.
    pub fn at_least(bytes: u32) -> Option<Size> {
        Size::all().filter(|size| size.bytes() >= bytes).min_by_key(|size| size.bytes())
    }

    /// The largest size of at most `bytes`, or `None` for no bytes.
    pub fn at_most(bytes: u32) -> Option<Size> {
        Size::all().filter(|size| size.bytes() <= bytes).max_by_key(|size| size.bytes())
    }

    /// All sizes, by code.
    fn all() -> impl Iterator<Item = Size> {
        (0..Size::BYTES.len() as u8).map(Size)
    }

    /// The size with this code; bits above the fifth are ignored.
    #[inline(always)]
    pub const fn from_code(code: u8) -> Size {
        Size(code & 31)
    }

    /// The 5-bit code.
    #[inline(always)]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The number of bytes.
    #[inline(always)]
    pub const fn bytes(self) -> u32 {
        Size::BYTES[self.0 as usize] as u32
    }
}

/// A memory access of one site in the code: everything except the address, which differs between executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Load, store or modify.
    pub kind: Kind,
    /// Number of bytes moved.
    pub size: Size,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_code_stands_for_one_size() {
        for code in 0..32 {
            let size = Size::from_code(code);
            assert_eq!(Size::of_bytes(size.bytes()), Some(size));
        }
        assert_eq!(Size::of_bytes(11), None);
        let near = |bytes| [Size::at_most(bytes), Size::at_least(bytes)].map(|size| size.map(Size::bytes));
        assert_eq!(near(11), [Some(10), Some(12)]);
        assert_eq!(near(12), [Some(12), Some(12)]);
        assert_eq!(near(0), [None, Some(1)]);
        assert_eq!(near(40_000), [Some(32_768), None]);
    }
}
