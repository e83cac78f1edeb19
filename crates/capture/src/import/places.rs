//! Where numbered pages and blocks lie.

use pagewalk_trace::Ref;

/// Blocks are lines of caches: 64 bytes.
pub(super) const BLOCK_SHIFT: u32 = 6;

/// The address of a page or block of `1 << shift` bytes; or why there is none, which continues "line N" or "record N".
pub(super) fn place(number: u64, shift: u32) -> Result<u64, String> {
    let first_above = Ref::ADDRESS_END >> shift;
    match number < first_above {
        true => Ok(number << shift),
        false => Err(format!(
            "has number {number}: numbers of {}-byte pieces of memory are below 2^{}",
            1u64 << shift,
            first_above.trailing_zeros()
        )),
    }
}
