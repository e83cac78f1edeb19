//! The machine code through which a program's calls of `mmap`, `munmap`, `mremap` and `brk` pass: a thunk for each
//! site, and a common part (`agent/pages.c`).

use super::sites::{CallSite, FIRST_BYTES, SITE_BYTES};

static CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages.bin"));
/// Placeholder in the code for the table's address.
const TABLE_MARK: u64 = 0x1122_3344_5566_7788;
/// Bytes per site.
const THUNK_BYTES: usize = 32;
/// `lea rsp, [rsp - 128]`: skips the red zone of a leaf function.
const OVER_RED_ZONE: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// `lea rsp, [rsp + 128]`.
const BACK_OVER_RED_ZONE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
/// An invalid instruction after the jump.
const UNDEFINED: [u8; 2] = [0x0f, 0x0b];

/// The code for some sites, and the jumps to it.
#[derive(Debug, PartialEq, Eq)]
pub struct ThunkCode {
    /// The bytes of the region.
    pub bytes: Vec<u8>,
    /// The replacement of each site, in order.
    pub jumps: Vec<[u8; SITE_BYTES as usize]>,
}

/// Bytes of code for this many sites, in whole pages.
pub fn region_bytes(sites: usize) -> u64 {
    ((CODE.len().next_multiple_of(THUNK_BYTES) + sites * THUNK_BYTES) as u64).next_multiple_of(4096)
}

/// The code for `region`, with its table at `table`. None if a site is too far for a jump.
pub fn build(region: u64, table: u64, sites: &[CallSite]) -> Option<ThunkCode> {
    let mut bytes = CODE.to_vec();
    let at = bytes.array_windows().position(|window| *window == TABLE_MARK.to_le_bytes())?;
    bytes[at..at + 8].copy_from_slice(&table.to_le_bytes());
    bytes.resize(CODE.len().next_multiple_of(THUNK_BYTES), 0);
    let mut jumps = Vec::new();
    for site in sites {
        let thunk = region + bytes.len() as u64;
        let jump = near(JUMP, site.address, thunk)?;
        let [a, b, c, d, e] = jump;
        jumps.push([a, b, c, d, e, UNDEFINED[0], UNDEFINED[1]]);
        bytes.extend(site.first);
        bytes.extend(OVER_RED_ZONE);
        bytes.extend(near(CALL, region + bytes.len() as u64, region)?);
        bytes.extend(BACK_OVER_RED_ZONE);
        bytes.extend(near(JUMP, region + bytes.len() as u64, site.address + SITE_BYTES)?);
        bytes.resize(bytes.len().next_multiple_of(THUNK_BYTES), 0);
    }
    Some(ThunkCode { bytes, jumps })
}

/// A near jump or call.
fn near(opcode: u8, from: u64, to: u64) -> Option<[u8; FIRST_BYTES]> {
    let distance = i32::try_from(to.wrapping_sub(from + FIRST_BYTES as u64) as i64).ok()?;
    let [a, b, c, d] = distance.to_le_bytes();
    Some([opcode, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target of the jump or call at `at` of `bytes`, which lie at `base`.
    fn target(bytes: &[u8], base: u64, at: usize) -> u64 {
        let distance = i32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap());
        (base + at as u64 + 5).wrapping_add_signed(distance.into())
    }

    #[test]
    fn each_site_goes_through_its_own_bytes_and_back() {
        let (region, first) = (0x7000_0000_0000, [0xb8, 9, 0, 0, 0]);
        let sites = [0x7000_1000_0000, 0x7000_1000_0100].map(|address| CallSite { address, first });
        let code = build(region, 0xabcd_ef00, &sites).unwrap();
        assert!(code.bytes.len() as u64 <= region_bytes(2));
        let shared = CODE.len().next_multiple_of(THUNK_BYTES);
        for (position, site) in sites.iter().enumerate() {
            let thunk = shared + position * THUNK_BYTES;
            assert_eq!(target(&code.jumps[position], site.address, 0), region + thunk as u64);
            assert_eq!(code.bytes[thunk..thunk + 5], first);
            assert_eq!(target(&code.bytes, region, thunk + 10), region, "the call");
            assert_eq!(target(&code.bytes, region, thunk + 23), site.address + 7, "the way back");
        }
        assert!(code.bytes.array_windows().any(|window| *window == 0xabcd_ef00_u64.to_le_bytes()));
        assert!(!code.bytes.array_windows().any(|window| *window == TABLE_MARK.to_le_bytes()));
        let far = CallSite { address: region + (1 << 32), first };
        assert_eq!(build(region, 0, &[far]), None);
    }
}
