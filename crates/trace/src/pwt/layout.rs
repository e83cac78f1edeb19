//! Frames, which wrap every part of a file, and the limits on every length read.

use super::bytes::Bytes;
use crate::SourceError;
use std::io::{self, Read};

/// The format's version.
pub const VERSION: u32 = 1;

/// The file's first bytes. They detect loss of the high bit and translated line ends.
pub(super) const FILE_MAGIC: [u8; 8] = *b"\x89PWT\r\n\x1a\n";

/// How many bytes tell a trace.
pub const MAGIC_BYTES: u64 = FILE_MAGIC.len() as u64;

/// Whether a file that begins with these bytes is a trace.
pub fn begins(head: &[u8]) -> bool {
    head.starts_with(&FILE_MAGIC)
}

/// Magic, version, and four zero bytes.
pub(super) const FILE_HEAD_BYTES: usize = 16;
/// Why a trace is not all of its file; the place follows.
pub(super) const SURPLUS: &str = "the trace ends before its file: something else follows from byte";
/// The last bytes of a complete file, after the index's offset and its checksum.
pub(super) const TRAILER_MAGIC: [u8; 4] = *b"PWTe";
pub(super) const TRAILER_BYTES: usize = 16;

const FRAME_MAGIC: [u8; 4] = *b"PWTf";
pub(super) const FRAME_HEAD_BYTES: usize = 32;
/// Sizes of a part before and after compression.
const PART_SIZES_BYTES: usize = 8;

/// Most stored bytes of a frame, and most decompressed bytes of one of its parts.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 26;
/// Most data references or block executions in a chunk.
pub(super) const MAX_CHUNK_COUNT: u32 = 1 << 24;
/// Most blocks in a file.
pub(super) const MAX_BLOCKS: usize = 1 << 22;
/// Most data references of one block execution.
pub(super) const MAX_SITES: usize = (1 << 12) - 1;
/// Most instructions in a block.
pub(super) const MAX_INSTRUCTIONS: usize = (1 << 15) - 1;
/// Most sites of all blocks of a file.
pub(super) const MAX_TOTAL_SITES: usize = 1 << 25;
/// Most instructions of all blocks of a file.
pub(super) const MAX_TOTAL_INSTRUCTIONS: usize = 1 << 26;
/// Most code bytes of all blocks of a file.
pub(super) const MAX_TOTAL_CODE_BYTES: usize = 1 << 28;
/// Most code bytes in a block.
pub(super) const MAX_CODE_BYTES: usize = 1 << 20;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    /// The stream header, as JSON. The first frame.
    Header = 1,
    /// Blocks of the dictionary, before the first chunk that names them.
    Blocks = 2,
    /// Block executions, data references and events.
    Chunk = 3,
    /// The index. The last frame of a complete file.
    Index = 4,
}

impl FrameKind {
    fn from_code(code: u8) -> Option<FrameKind> {
        use FrameKind::*;
        [Header, Blocks, Chunk, Index].into_iter().find(|&kind| kind as u8 == code)
    }

    /// The name used in messages and in the index.
    pub fn name(self) -> &'static str {
        match self {
            FrameKind::Header => "header",
            FrameKind::Blocks => "blocks",
            FrameKind::Chunk => "chunk",
            FrameKind::Index => "index",
        }
    }
}

/// The fixed part in front of each frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub kind: FrameKind,
    /// Bytes of the following payload.
    pub stored: u32,
    /// Bytes of the decompressed payload.
    pub raw: u32,
    /// Data references plus block executions for a chunk, blocks for a blocks frame, else 0.
    pub records: u64,
    /// CRC-32 of the payload.
    pub checksum: u32,
}

impl FrameHead {
    pub fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.records.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Parses a frame head, or says what is wrong.
    pub fn from_bytes(bytes: &[u8; FRAME_HEAD_BYTES]) -> Result<FrameHead, &'static str> {
        let (front, own) = bytes.split_at(28);
        if front[..4] != FRAME_MAGIC {
            return Err("a frame was expected and its mark is not there");
        }
        if own != crc32fast::hash(front).to_le_bytes() {
            return Err("the frame head's checksum is wrong");
        }
        let kind = FrameKind::from_code(bytes[4]).ok_or("the frame is of no known kind")?;
        let mut rest = Bytes(&bytes[8..28]);
        let fields = || Some((rest.u32()?, rest.u32()?, rest.u64()?, rest.u32()?));
        let (stored, raw, records, checksum) = { fields }().ok_or("the frame head is too short")?;
        if stored as usize > MAX_FRAME_BYTES {
            return Err("the frame claims more bytes than the format allows");
        }
        Ok(FrameHead { kind, stored, raw, records, checksum })
    }
}

/// Builds frames, reusing memory.
pub(super) struct FrameBuilder {
    zstd: zstd::bulk::Compressor<'static>,
    /// Room for the head, then the payload.
    bytes: Vec<u8>,
    raw: usize,
}

impl FrameBuilder {
    /// A builder that compresses at `level`.
    pub fn new(level: i32) -> io::Result<Self> {
        let zstd = zstd::bulk::Compressor::new(level)?;
        Ok(FrameBuilder { zstd, bytes: vec![0; FRAME_HEAD_BYTES], raw: 0 })
    }

    /// Appends uncompressed bytes to the payload.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends compressed parts, preceded by the size of each before and after compression.
    pub fn put_parts<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
        let sizes = self.bytes.len();
        self.bytes.resize(sizes + PART_SIZES_BYTES * N, 0);
        for (number, part) in parts.into_iter().enumerate() {
            let stored = self.put_compressed(part)?;
            let size = &mut self.bytes[sizes + PART_SIZES_BYTES * number..][..PART_SIZES_BYTES];
            size[..4].copy_from_slice(&(part.len() as u32).to_le_bytes());
            size[4..].copy_from_slice(&(stored as u32).to_le_bytes());
        }
        Ok(())
    }

    /// Appends `part` compressed; returns its stored size.
    pub fn put_compressed(&mut self, part: &[u8]) -> io::Result<usize> {
        self.bytes.reserve(zstd::zstd_safe::compress_bound(part.len()));
        let mut behind = io::Cursor::new(&mut self.bytes);
        behind.set_position(behind.get_ref().len() as u64);
        let stored = self.zstd.compress_to_buffer(part, &mut behind)?;
        self.raw += part.len();
        Ok(stored)
    }

    /// Passes the whole frame to `write`, and starts the next.
    pub fn finish(
        &mut self,
        kind: FrameKind,
        records: u64,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<FrameHead> {
        let payload = &self.bytes[FRAME_HEAD_BYTES..];
        if payload.len() > MAX_FRAME_BYTES {
            return Err(io::Error::other(format!(
                "a {} frame would be too large for the format",
                kind.name()
            )));
        }
        let head = FrameHead {
            kind,
            stored: payload.len() as u32,
            raw: u32::try_from(self.raw).unwrap_or(u32::MAX),
            records,
            checksum: crc32fast::hash(payload),
        };
        self.bytes[..FRAME_HEAD_BYTES].copy_from_slice(&head.to_bytes());
        write(&self.bytes)?;
        self.bytes.truncate(FRAME_HEAD_BYTES);
        self.raw = 0;
        Ok(head)
    }
}

/// Decompresses what [`FrameBuilder`] compressed.
pub(super) struct Decompressor(zstd::bulk::Decompressor<'static>);

impl Decompressor {
    pub fn new() -> io::Result<Self> {
        zstd::bulk::Decompressor::new().map(Decompressor)
    }

    /// Decompresses `stored` into exactly `raw` bytes in `into`, whose memory is reused.
    pub fn decompress(&mut self, stored: &[u8], raw: u32, into: &mut Vec<u8>) -> Option<()> {
        let raw = raw as usize;
        if raw > MAX_FRAME_BYTES {
            return None;
        }
        into.clear();
        into.reserve(raw);
        self.0.decompress_to_buffer(stored, into).ok()?;
        (into.len() == raw).then_some(())
    }
}

/// The parts written by [`FrameBuilder::put_parts`], still compressed, each with its original size; `None` if `from`
/// holds anything else.
pub(super) fn parts<'a, const N: usize>(mut from: Bytes<'a>) -> Option<[(u32, &'a [u8]); N]> {
    let mut parts = [(0, &[][..]); N];
    let mut lengths = [0; N];
    for (part, length) in parts.iter_mut().zip(&mut lengths) {
        part.0 = from.u32()?;
        *length = from.u32()? as usize;
    }
    for (part, length) in parts.iter_mut().zip(lengths) {
        part.1 = from.take(length)?;
    }
    let raw: u64 = parts.iter().map(|&(raw, _)| u64::from(raw)).sum();
    (from.0.is_empty() && raw <= MAX_FRAME_BYTES as u64).then_some(parts)
}

/// Reads frames one after the other.
#[derive(Debug)]
pub(super) struct FrameReader<R> {
    input: R,
    /// Bytes read so far.
    pub offset: u64,
    /// Payload of the last frame.
    pub payload: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Checks the file's first bytes.
    pub fn new(mut input: R) -> Result<Self, SourceError> {
        let mut head = [0; FILE_HEAD_BYTES];
        let got = read_up_to(&mut input, &mut head)?;
        if head[..got.min(8)] != FILE_MAGIC[..got.min(8)] || got == 0 {
            return Err(SourceError::Malformed(
                "not a pagewalk trace: the file's first bytes are not those of a .pwt file".into(),
            ));
        }
        if got < FILE_HEAD_BYTES {
            return Err(SourceError::Truncated(format!(
                "the trace is cut off at byte {got}, inside the first {FILE_HEAD_BYTES}: nothing is left of it"
            )));
        }
        let mut rest = Bytes(&head[8..]);
        let (version, zero) = (rest.u32().unwrap_or(0), rest.u32().unwrap_or(1));
        if version != VERSION {
            return Err(SourceError::Malformed(format!(
                "the trace is of format version {version}; this program reads version {VERSION}"
            )));
        }
        if zero != 0 {
            return Err(SourceError::Malformed("bytes 12 to 15 of the trace must be zero".into()));
        }
        Ok(FrameReader::at(input, FILE_HEAD_BYTES as u64))
    }

    /// Continues at byte `offset`, where a frame begins.
    pub fn at(input: R, offset: u64) -> Self {
        FrameReader { input, offset, payload: Vec::new() }
    }

    /// The next frame's head, with its payload in `self.payload`; `None` if the file ends between frames.
    pub fn next(&mut self) -> Result<Option<FrameHead>, SourceError> {
        let start = self.offset;
        let Some(head) = self.head()? else { return Ok(None) };
        self.payload.clear();
        // `take` and growth on demand: a false length allocates no more than the existing bytes.
        let got = (&mut self.input).take(head.stored.into()).read_to_end(&mut self.payload)? as u64;
        self.offset += got;
        if got < head.stored.into() {
            let what = head.kind.name();
            return Err(SourceError::Truncated(format!(
                "the trace is cut off at byte {}: of the {what} frame at byte {start} ({}), {got} of {} bytes \
                 are there",
                self.offset,
                self.contents(&head),
                head.stored,
            )));
        }
        if crc32fast::hash(&self.payload) != head.checksum {
            let behind = self.skim();
            return Err(SourceError::Malformed(format!(
                "the {} frame at byte {start} is damaged (its checksum is wrong): {} lost, and {behind} \
                 records in whole chunks behind it were not read",
                head.kind.name(),
                self.contents(&head),
            )));
        }
        Ok(Some(head))
    }

    /// After the index: whether anything follows the trace's last bytes, as where two traces were joined.
    pub fn has_surplus(&mut self) -> io::Result<bool> {
        Ok(read_up_to(&mut self.input, &mut [0; TRAILER_BYTES + 1])? > TRAILER_BYTES)
    }

    fn contents(&self, head: &FrameHead) -> String {
        match head.kind {
            FrameKind::Chunk => format!("{} records", head.records),
            FrameKind::Blocks => format!("{} blocks", head.records),
            FrameKind::Header => format!("{} bytes", head.stored),
            FrameKind::Index => format!("{} bytes", head.raw),
        }
    }

    fn head(&mut self) -> Result<Option<FrameHead>, SourceError> {
        let start = self.offset;
        let mut bytes = [0; FRAME_HEAD_BYTES];
        let got = read_up_to(&mut self.input, &mut bytes)?;
        self.offset += got as u64;
        match got {
            0 => Ok(None),
            FRAME_HEAD_BYTES => FrameHead::from_bytes(&bytes)
                .map(Some)
                .map_err(|why| SourceError::Malformed(format!("at byte {start} of the trace: {why}"))),
            _ => Err(SourceError::Truncated(format!(
                "the trace is cut off at byte {}, inside the head of the frame at byte {start}",
                self.offset
            ))),
        }
    }

    /// Records in the complete chunks from here on, as far as frame heads are valid.
    fn skim(&mut self) -> u64 {
        let mut records = 0u64;
        while let Ok(Some(head)) = self.head() {
            let stored = u64::from(head.stored);
            let skipped = io::copy(&mut (&mut self.input).take(stored), &mut io::sink()).unwrap_or(0);
            self.offset += skipped;
            if skipped < stored {
                break;
            }
            if head.kind == FrameKind::Chunk {
                records = records.saturating_add(head.records);
            }
        }
        records
    }
}

/// Fills `buffer` as far as the input goes.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
