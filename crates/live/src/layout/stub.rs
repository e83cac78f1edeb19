//! The code in front of the loader's `mmap`, and the table that it reads.
//!
//! The code keeps no state: it looks up the file's number, and maps the file at the planned place if the table has it.
//! So it serves every thread, every forked copy, and libraries opened hours later, with no tracer attached.

use std::arch::global_asm;

/// `mov eax, 9; syscall`: the loader's call of `mmap`.
pub const SITE: [u8; 7] = [0xb8, 9, 0, 0, 0, 0x0f, 0x05];
/// `mov eax, 5; syscall`: a loader that queries a file's number with `fstat`.
pub const FSTAT: [u8; 7] = [0xb8, 5, 0, 0, 0, 0x0f, 0x05];
/// Bytes of one table entry, and of the zeros that end the table.
const ENTRY_BYTES: usize = 32;

// A jump replaces SITE with this code, which returns after it. As for a system call, only rax, rcx and r11 may change.
// It is copied from here and never runs here; the fields at its end are filled in for each copy.
//
// It uses MAP_FIXED_NOREPLACE, not just an address hint: for files of 2 MiB and more, most file systems accept a hint
// only if 2 MiB after the file are free too (`__thp_get_unmapped_area`), so neighbours would drive each other away. If
// the place is taken, the loader's call is made unchanged.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .rodata.pagewalk_layout_stub, \"a\"",
    ".globl pagewalk_layout_stub",
    ".hidden pagewalk_layout_stub",
    ".globl pagewalk_layout_stub_end",
    ".hidden pagewalk_layout_stub_end",
    "pagewalk_layout_stub:",
    // Only the first mapping of an object: at no given address, from the file's beginning, neither fixed nor anonymous.
    "mov eax, 9",
    "test rdi, rdi",
    "jnz 6f",
    "test r9, r9",
    "jnz 6f",
    "test r10d, 0x30",
    "jnz 6f",
    // Below the red zone: struct stat, and saved registers.
    "lea rsp, [rsp - 320]",
    "mov [rsp + 144], rsi",
    "mov [rsp + 152], rdx",
    "mov [rsp + 160], r10",
    // Queries as the loader does, since a filter of the program may forbid the other call.
    "movsxd rdi, r8d",
    "mov eax, dword ptr [rip + 42f]",
    "cmp eax, 5",
    "jne 21f",
    "mov rsi, rsp",
    "jmp 2f",
    "21:", // newfstatat(fd, "", stat, AT_EMPTY_PATH)
    "lea rsi, [rip + 43f]",
    "mov rdx, rsp",
    "mov r10d, 0x1000",
    "2:",
    "syscall",
    "mov rsi, [rsp + 144]",
    "mov rdx, [rsp + 152]",
    "mov r10, [rsp + 160]",
    "test eax, eax",
    "jnz 4f",
    "mov rcx, [rip + 41f]",
    "3:", // device, inode, base, bytes
    "mov rdi, [rcx + 16]",
    "test rdi, rdi",
    "jz 4f",
    "mov rax, [rsp]",
    "cmp rax, [rcx]",
    "jne 31f",
    "mov rax, [rsp + 8]",
    "cmp rax, [rcx + 8]",
    "jne 31f",
    "lea rax, [rsi + 4095]",
    "and rax, -4096",
    "cmp rax, [rcx + 24]",
    "je 32f",
    "31:",
    "add rcx, 32",
    "jmp 3b",
    "32:",
    "or r10d, 0x100000",
    "mov eax, 9",
    "syscall",
    "mov r10, [rsp + 160]",
    "cmp rax, -4096",
    "jbe 5f",
    "4:", // As the loader meant it.
    "xor edi, edi",
    "mov eax, 9",
    "syscall",
    "5:",
    "xor edi, edi",
    "lea rsp, [rsp + 320]",
    "jmp 7f",
    "6:",
    "syscall",
    "7:",
    "jmp qword ptr [rip + 40f]",
    ".p2align 3",
    "40: .quad 0", // where to go on
    "41: .quad 0", // the table
    "42: .long 0", // how to ask
    "43: .long 0", // ""
    "pagewalk_layout_stub_end:",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    static pagewalk_layout_stub: u8;
    static pagewalk_layout_stub_end: u8;
}

/// The code's bytes in this program.
#[cfg(target_arch = "x86_64")]
fn code() -> &'static [u8] {
    let (start, end) = (&raw const pagewalk_layout_stub, &raw const pagewalk_layout_stub_end);
    // SAFETY: both labels stand in one read-only section, the second behind the first.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

/// Never used: programs are refused before.
#[cfg(not(target_arch = "x86_64"))]
fn code() -> &'static [u8] {
    &[]
}

/// An object and its planned place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StubEntry {
    /// The file's device.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// Its planned address; not 0.
    pub base: u64,
    /// Its length in bytes, whole pages.
    pub bytes: u64,
}

/// The system call with which a loader queries a file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatCall {
    /// `fstat`.
    Fstat = 5,
    /// `newfstatat`, used by glibc from 2.33 to 2.38.
    Newfstatat = 262,
}

/// Bytes for the code of this many sites and a table of this many objects.
pub fn region_bytes(sites: usize, entries: usize) -> u64 {
    ((sites * code().len() + (entries + 1) * ENTRY_BYTES) as u64).next_multiple_of(4096)
}

/// The contents of `region`: one copy of the code per site, then the table; and the jump that replaces each site. None
/// if a site is too far for a jump.
pub fn build(
    region: u64,
    sites: &[u64],
    entries: &[StubEntry],
    asks: StatCall,
) -> Option<(Vec<u8>, Vec<[u8; 7]>)> {
    let code = code();
    let table = region + (sites.len() * code.len()) as u64;
    let mut bytes = Vec::new();
    let mut jumps = Vec::new();
    for &site in sites {
        let copy = region + bytes.len() as u64;
        let [rest @ .., _, _, _] = code.as_chunks::<8>().0 else { return None };
        bytes.extend(rest.as_flattened());
        bytes.extend((site + SITE.len() as u64).to_le_bytes());
        bytes.extend(table.to_le_bytes());
        bytes.extend((asks as u64).to_le_bytes());
        let distance = i32::try_from(copy.wrapping_sub(site + 5) as i64).ok()?.to_le_bytes();
        // A jump, and two unreachable bytes.
        jumps.push([0xe9, distance[0], distance[1], distance[2], distance[3], 0x0f, 0x0b]);
    }
    for entry in entries {
        let words = [entry.device, entry.inode, entry.base, entry.bytes];
        bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
    }
    bytes.extend([0; ENTRY_BYTES]);
    Some((bytes, jumps))
}

/// Code that makes a system call, sets all registers as for a new program, and starts it at `start`. It needs no
/// further help.
pub fn bootstrap(start: u64) -> Vec<u8> {
    let mut code = vec![0x0f, 0x05];
    // Xors each register with itself: eax, edi, esi, edx, ecx, r8d, r10d, r11d.
    for xor in [&[0x31, 0xc0][..], &[0x31, 0xff], &[0x31, 0xf6], &[0x31, 0xd2], &[0x31, 0xc9]] {
        code.extend(xor);
    }
    for xor in [[0x45, 0x31, 0xc0], [0x45, 0x31, 0xd2], [0x45, 0x31, 0xdb]] {
        code.extend(xor);
    }
    // jmp [rip + 0], followed by the target.
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(start.to_le_bytes());
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_whole_words_and_ends_in_what_is_filled_in() {
        let code = code();
        assert_eq!(code.len() % 8, 0);
        assert!(code.ends_with(&[0; 24]), "{code:x?}");
        assert!(code.len() < 400, "{}", code.len());
    }

    #[test]
    fn each_site_gets_a_copy_that_comes_back_and_knows_the_table() {
        let (region, sites) = (0x7000_0000_0000, [0x7000_1000_0000, 0x7000_1000_0100]);
        let entry = StubEntry { device: 1, inode: 2, base: 0x8_0000_0000, bytes: 0x3000 };
        let (bytes, jumps) = build(region, &sites, &[entry], StatCall::Fstat).unwrap();
        assert!(bytes.len() as u64 <= region_bytes(2, 1));
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let length = code().len();
        for (position, site) in sites.into_iter().enumerate() {
            let end = (position + 1) * length;
            assert_eq!(
                (word(end - 24), word(end - 16), word(end - 8)),
                (site + 7, region + 2 * length as u64, 5)
            );
            let distance = i32::from_le_bytes(jumps[position][1..5].try_into().unwrap());
            assert_eq!((site as i64 + 5 + i64::from(distance)) as u64, region + (position * length) as u64);
        }
        let table: Vec<u64> = (0..8).map(|place| word(2 * length + 8 * place)).collect();
        assert_eq!(table, [1, 2, 0x8_0000_0000, 0x3000, 0, 0, 0, 0]);
        assert!(build(region, &[region + (1 << 32)], &[], StatCall::Fstat).is_none(), "too far");
    }

    #[test]
    fn the_bootstrap_is_short() {
        let code = bootstrap(0x1122_3344_5566_7788);
        assert!(code.len() <= crate::tracing::image::ROOM_BYTES, "{}", code.len());
        assert!(code.ends_with(&0x1122_3344_5566_7788u64.to_le_bytes()));
    }
}
