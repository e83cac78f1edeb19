use super::super::super::zip::*;
use std::io::{Cursor, Read, Write};

/// A member as archives write it.
pub struct Member {
    pub name: &'static str,
    pub method: u16,
    pub flags: u16,
    pub checksum: u32,
    pub packed: Vec<u8>,
    /// The packed size in the header.
    pub size: u32,
    pub extra: Vec<u8>,
    pub behind: Vec<u8>,
}

impl Member {
    pub fn deflated(name: &'static str, contents: &[u8]) -> Member {
        let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(contents).unwrap();
        let packed = packer.finish().unwrap();
        Member { method: 8, ..Member::of(name, contents, packed) }
    }

    fn stored(name: &'static str, contents: &[u8]) -> Member {
        Member::of(name, contents, contents.to_vec())
    }

    fn of(name: &'static str, contents: &[u8], packed: Vec<u8>) -> Member {
        Member {
            name,
            method: 0,
            flags: 0,
            checksum: crc32fast::hash(contents),
            size: packed.len() as u32,
            packed,
            extra: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// As written to a pipe: checksum and sizes behind it.
    fn streamed(self, marked: bool, wide: bool) -> Member {
        let mut behind = if marked { SIZES_BEHIND.to_vec() } else { Vec::new() };
        behind.extend(self.checksum.to_le_bytes());
        behind.extend(vec![0xee; if wide { 16 } else { 8 }]);
        let extra = if wide { [&[1, 0, 16, 0][..], &[0; 16]].concat() } else { Vec::new() };
        Member { flags: STREAMED, checksum: 0, size: if wide { ELSEWHERE } else { 0 }, extra, behind, ..self }
    }
}

/// An archive; of its directory, only the beginning.
pub fn archive(members: &[Member]) -> Vec<u8> {
    let mut archive = Vec::new();
    for member in members {
        archive.extend(MEMBER);
        archive.extend([20u16, member.flags, member.method, 0, 0].map(u16::to_le_bytes).concat());
        archive.extend([member.checksum, member.size, member.size].map(u32::to_le_bytes).concat());
        archive.extend([member.name.len() as u16, member.extra.len() as u16].map(u16::to_le_bytes).concat());
        archive.extend(member.name.bytes());
        archive.extend(&member.extra);
        archive.extend(&member.packed);
        archive.extend(&member.behind);
    }
    archive.extend(AFTER_MEMBERS[0]);
    archive
}

fn read(archive: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let outcome = Zip::new(Box::new(Cursor::new(archive))).read_to_end(&mut contents);
    outcome.map(|_| contents).map_err(|error| error.to_string())
}

#[test]
fn all_members_are_one_file_however_they_are_written() {
    let members = [
        Member::stored("a", b"one "),
        Member::deflated("b", b"two "),
        Member::stored("empty", b""),
        Member::deflated("c", b"three ").streamed(true, false),
        Member::deflated("d", b"four ").streamed(false, false),
        Member::deflated("e", b"five").streamed(true, true),
    ];
    assert_eq!(read(archive(&members)).unwrap(), b"one two three four five");
    assert_eq!(read(archive(&[])).unwrap(), b"");
}

#[test]
fn sizes_are_not_believed() {
    let wide = |size: u64| [&[1, 0, 16, 0][..], &[0xff; 8], &size.to_le_bytes()].concat();
    let whole = Member::stored("a", b"contents");
    let huge = Member { size: ELSEWHERE, extra: wide(u64::MAX), ..Member::stored("a", b"contents") };
    assert_eq!(read(archive(&[whole])).unwrap(), b"contents");
    assert!(read(archive(&[huge])).unwrap_err().contains("unexpected end"), "the archive ends before");
    let right = Member { size: ELSEWHERE, extra: wide(8), ..Member::stored("a", b"contents") };
    assert_eq!(read(archive(&[right])).unwrap(), b"contents");
    let huge = Member { size: 0xffff_fffe, ..Member::deflated("a", b"contents") };
    assert_eq!(read(archive(&[huge])).unwrap(), b"contents", "deflate knows its own end");
}

#[test]
fn members_that_cannot_be_read_are_named() {
    let plain = || Member::stored("the\nname", b"contents");
    for (member, part) in [
        (Member { method: 14, ..plain() }, "member `the\\nname` of the zip archive is packed by method 14"),
        (Member { flags: ENCRYPTED, ..plain() }, "is encrypted"),
        (Member { checksum: 1, ..plain() }, "has a wrong checksum"),
        (Member { size: 7, ..plain() }, "has a wrong checksum"),
        (plain().streamed(true, false), "is stored without its length"),
    ] {
        let error = read(archive(&[member])).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    let mut between = archive(&[plain()]);
    let mark = between.len() - 4;
    between[mark] = b'Q';
    assert!(read(between).unwrap_err().contains("no header where a member is to begin"));
}
