//! The hot record.

use pagewalk_units::{Access, Kind, Size, VirtAddr, Vpn};

/// One data reference in 8 bytes: bits 63…7 the virtual byte address (57 bits, user half), bits 6…2 the size code, bits
/// 1…0 the kind.
///
/// The address is on top so that one shift yields its page number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ref(u64);

const _: () = assert!(size_of::<Ref>() == 8);

impl Ref {
    /// Bits below the address.
    pub const META_BITS: u32 = 7;
    /// The first address that does not fit.
    pub const ADDRESS_END: u64 = 1 << (64 - Ref::META_BITS);

    /// A reference of `access` at `address`. Address bits above the 57th are dropped.
    #[inline(always)]
    pub const fn new(address: VirtAddr, access: Access) -> Ref {
        Ref::from_parts(address.0, Ref::meta(access))
    }

    /// The low record bits of `access`: constant per site, so decoders precompute them.
    #[inline(always)]
    pub const fn meta(access: Access) -> u8 {
        access.size.code() << 2 | access.kind as u8
    }

    /// A reference from an address and low bits of [`Ref::meta`].
    #[inline(always)]
    pub const fn from_parts(address: u64, meta: u8) -> Ref {
        Ref(address << Ref::META_BITS | (meta & 127) as u64)
    }

    /// Reinterprets records as whole words.
    pub fn slice_bits(records: &mut [Ref]) -> &mut [u64] {
        // SAFETY: `Ref` is a transparent `u64` of which every value is valid.
        unsafe { std::slice::from_raw_parts_mut(records.as_mut_ptr().cast(), records.len()) }
    }

    /// The record with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Ref {
        Ref(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The first byte referenced.
    #[inline(always)]
    pub const fn address(self) -> VirtAddr {
        VirtAddr(self.0 >> Ref::META_BITS)
    }

    /// The 4 KiB page of the first byte.
    #[inline(always)]
    pub const fn vpn(self) -> Vpn {
        Vpn(self.0 >> (Ref::META_BITS + pagewalk_units::PAGE_SHIFT))
    }

    /// Load, store or modify (fetches live in the dictionary; only importers without code use them).
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        Kind::from_code(self.0 as u8)
    }

    /// Bytes moved.
    #[inline(always)]
    pub const fn size(self) -> Size {
        Size::from_code((self.0 >> 2) as u8)
    }

    /// The last byte referenced.
    #[inline(always)]
    pub const fn last_byte(self) -> VirtAddr {
        VirtAddr(self.address().0 + (self.size().bytes() as u64 - 1))
    }

    /// The numbers of the lines of its first and last byte; lines have 2 to the power of `shift` bytes. At the end of
    /// the address space the second is meaningless.
    #[inline(always)]
    pub const fn lines(self, shift: u32) -> (u64, u64) {
        let end = self.0.wrapping_add(LAST_BYTES[self.0 as usize % LAST_BYTES.len()]);
        (self.0 >> (Ref::META_BITS + shift), end >> (Ref::META_BITS + shift))
    }

    /// The 4 KiB page of the last byte.
    #[inline(always)]
    pub const fn last_vpn(self) -> Vpn {
        self.last_byte().vpn()
    }
}

/// By the bits below the address: what to add for the last byte's.
const LAST_BYTES: [u64; 1 << Ref::META_BITS] = {
    let mut all = [0; 1 << Ref::META_BITS];
    let mut meta = 0;
    while meta < all.len() {
        all[meta] = (Ref(meta as u64).size().bytes() as u64 - 1) << Ref::META_BITS;
        meta += 1;
    }
    all
};

impl std::fmt::Debug for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({}, {})", self.kind(), self.address(), self.size().bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_parts() {
        for address in [0, 1, 0x7fff_ffff_ffff, Ref::ADDRESS_END - 1] {
            for kind in Kind::ALL {
                for code in 0..32 {
                    let access = Access { kind, size: Size::from_code(code) };
                    let record = Ref::new(VirtAddr(address), access);
                    assert_eq!(record.address(), VirtAddr(address));
                    assert_eq!((record.kind(), record.size()), (kind, access.size));
                    let last = address + u64::from(access.size.bytes()) - 1;
                    if last < Ref::ADDRESS_END {
                        assert_eq!(record.lines(6), (address >> 6, last >> 6));
                    }
                }
            }
        }
    }
}
