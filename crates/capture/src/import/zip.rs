//! Reads the members of a zip archive one after the other, as one file.
//!
//! The archive is read from its front, from the members' own headers (APPNOTE.TXT, 4.3.7), so it may come through a
//! pipe; the directory at its end is not needed. Sizes in headers are never used to reserve memory.

use super::container::Bytes;
use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;
use std::io::{self, ErrorKind, Read, Take};

/// The mark of a member's header.
pub(super) const MEMBER: [u8; 4] = *b"PK\x03\x04";
/// The marks of what follows the last member: the directory, or the end of an archive without members.
pub(super) const AFTER_MEMBERS: [[u8; 4]; 4] =
    [*b"PK\x01\x02", *b"PK\x05\x06", *b"PK\x06\x06", *b"PK\x06\x08"];
/// The optional mark of the sizes behind a member.
pub(super) const SIZES_BEHIND: [u8; 4] = *b"PK\x07\x08";
/// Bytes of a member's header behind the mark.
const HEADER_BYTES: usize = 26;
/// The header's flag for an encrypted member.
pub(super) const ENCRYPTED: u16 = 1;
/// The header's flag for a member whose sizes and checksum stand behind it.
pub(super) const STREAMED: u16 = 1 << 3;
/// The extra field with 8-byte sizes.
const WIDE_SIZES: u16 = 1;
/// Stands for a size that is in [`WIDE_SIZES`].
pub(super) const ELSEWHERE: u32 = u32::MAX;

/// The contents of all members.
pub(super) struct Zip {
    state: State,
}

enum State {
    Between(Bytes),
    Stored(Member, Take<Bytes>),
    Deflated(Member, DeflateDecoder<Bytes>),
    Ended,
}

/// The member being read.
struct Member {
    name: String,
    streamed: bool,
    wide: bool,
    checksum: u32,
    computed: Hasher,
}

impl Zip {
    pub fn new(file: Bytes) -> Zip {
        Zip { state: State::Between(file) }
    }
}

impl Read for Zip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !into.is_empty() {
            let (member, read) = match &mut self.state {
                State::Ended => return Ok(0),
                State::Between(_) => {
                    self.begin_member()?;
                    continue;
                }
                State::Stored(member, contents) => {
                    let read = contents.read(into)?;
                    if read == 0 && contents.limit() > 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    (member, read)
                }
                State::Deflated(member, contents) => (member, contents.read(into)?),
            };
            if read > 0 {
                member.computed.update(&into[..read]);
                return Ok(read);
            }
            self.end_member()?;
        }
        Ok(0)
    }
}

impl Zip {
    /// Reads the header of the next member, if there is one.
    fn begin_member(&mut self) -> io::Result<()> {
        let State::Between(mut file) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        let mark: [u8; 4] = array(&mut file)?;
        if AFTER_MEMBERS.contains(&mark) {
            return Ok(());
        }
        if mark != MEMBER {
            return Err(damaged("the zip archive has no header where a member is to begin".to_owned()));
        }
        let header: [u8; HEADER_BYTES] = array(&mut file)?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
        let (flags, method) = (short(2), short(4));
        let name = String::from_utf8_lossy(&bytes(&mut file, short(22))?).escape_debug().to_string();
        let wide_size = wide_size(&bytes(&mut file, short(24))?, long(18) == ELSEWHERE);
        let packed_bytes = match wide_size {
            Some(packed) if long(14) == ELSEWHERE => packed,
            _ => u64::from(long(14)),
        };
        let member = Member {
            streamed: flags & STREAMED != 0,
            wide: wide_size.is_some(),
            checksum: long(10),
            computed: Hasher::new(),
            name,
        };
        self.state = match method {
            _ if flags & ENCRYPTED != 0 => {
                return Err(damaged(format!("member `{}` of the zip archive is encrypted", member.name)));
            }
            0 if member.streamed && packed_bytes == 0 => {
                let what = "is stored without its length, which only `unzip -p FILE` can read";
                return Err(damaged(format!("member `{}` of the zip archive {what}", member.name)));
            }
            0 => State::Stored(member, file.take(packed_bytes)),
            8 => State::Deflated(member, DeflateDecoder::new(file)),
            _ => {
                let what = format!("is packed by method {method}; 0 (stored) and 8 (deflate) are read");
                return Err(damaged(format!("member `{}` of the zip archive {what}", member.name)));
            }
        };
        Ok(())
    }

    /// Checks the member that was read.
    fn end_member(&mut self) -> io::Result<()> {
        let (member, mut file) = match std::mem::replace(&mut self.state, State::Ended) {
            State::Stored(member, contents) => (member, contents.into_inner()),
            State::Deflated(member, contents) => (member, contents.into_inner()),
            State::Between(_) | State::Ended => return Ok(()),
        };
        let checksum = match member.streamed {
            false => member.checksum,
            true => {
                let mut first: [u8; 4] = array(&mut file)?;
                if first == SIZES_BEHIND {
                    first = array(&mut file)?;
                }
                bytes(&mut file, if member.wide { 16 } else { 8 })?;
                u32::from_le_bytes(first)
            }
        };
        if checksum != member.computed.finalize() {
            return Err(damaged(format!("member `{}` of the zip archive has a wrong checksum", member.name)));
        }
        self.state = State::Between(file);
        Ok(())
    }
}

/// The packed size in an extra field with wide sizes; 0 if only the unpacked one is there. `None` without that field.
fn wide_size(mut extra: &[u8], unpacked_is_wide: bool) -> Option<u64> {
    while let [id0, id1, bytes0, bytes1, rest @ ..] = extra {
        let bytes = usize::from(u16::from_le_bytes([*bytes0, *bytes1])).min(rest.len());
        if u16::from_le_bytes([*id0, *id1]) == WIDE_SIZES {
            let at = if unpacked_is_wide { 8 } else { 0 };
            let packed = rest[..bytes].get(at..).and_then(<[u8]>::first_chunk);
            return Some(packed.map_or(0, |packed| u64::from_le_bytes(*packed)));
        }
        extra = &rest[bytes..];
    }
    None
}

fn array<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    file.read_exact(&mut array)?;
    Ok(array)
}

fn bytes(file: &mut impl Read, count: u16) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(count)];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn damaged(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
