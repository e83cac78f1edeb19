//! Frames of lz4, one after the other.
//!
//! The decoder takes a file for whole that ends inside a frame, but between blocks, and assumes that all its frames
//! have blocks of one size. So each frame gets a decoder of its own, which sees no byte behind it.

use super::container::Bytes;
use lz4_flex::frame::FrameDecoder;
use std::io::{self, BufRead, ErrorKind, Read};

/// Bits of a frame's flags (LZ4 Frame Format Description 1.6.4).
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const DICTIONARY: u8 = 1;
/// The bit of a block's length that says that it is not compressed.
const IS_PLAIN: u32 = 1 << 31;

/// The contents of all frames.
pub(super) struct Lz4Frames(Option<FrameDecoder<Frame>>);

impl Lz4Frames {
    pub fn new(file: Bytes) -> Lz4Frames {
        Lz4Frames(Some(FrameDecoder::new(Frame::new(file))))
    }
}

impl Read for Lz4Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            // 0 is the end of a frame, of the file, or an empty block.
            let bytes = decoder.read(into)?;
            if bytes > 0 || into.is_empty() {
                return Ok(bytes);
            }
            let frame = decoder.get_mut();
            let is_file_read = frame.file.fill_buf()?.is_empty();
            match (frame.part, is_file_read) {
                (Part::Ended, true) => self.0 = None,
                (Part::Ended, false) => {
                    let frame = self.0.take().map(FrameDecoder::into_inner);
                    self.0 = frame.map(|frame| FrameDecoder::new(Frame::new(frame.file)));
                }
                (_, true) => return Err(ErrorKind::UnexpectedEof.into()),
                (_, false) => {}
            }
        }
        Ok(0)
    }
}

/// The bytes of one frame.
struct Frame {
    file: Bytes,
    part: Part,
    /// Bytes of the part that are not read yet.
    left: usize,
    /// The last four bytes read, the latest in the highest byte.
    last: u32,
    flags: u8,
}

/// The parts of a frame, in their order; blocks are repeated.
#[derive(Clone, Copy)]
enum Part {
    /// The mark and the flags.
    Flags,
    Descriptor,
    BlockLength,
    Block,
    Checksum,
    Ended,
}

impl Frame {
    fn new(file: Bytes) -> Frame {
        Frame { file, part: Part::Flags, left: 5, last: 0, flags: 0 }
    }

    /// Goes to the part behind one that is read.
    fn advance(&mut self) {
        if let Part::Flags = self.part {
            self.flags = (self.last >> 24) as u8;
        }
        let bytes = |flag, bytes| if self.flags & flag != 0 { bytes } else { 0 };
        (self.part, self.left) = match self.part {
            Part::Flags => (Part::Descriptor, 2 + bytes(CONTENT_SIZE, 8) + bytes(DICTIONARY, 4)),
            Part::Descriptor | Part::Block => (Part::BlockLength, 4),
            Part::BlockLength if self.last == 0 => (Part::Checksum, bytes(CONTENT_CHECKSUM, 4)),
            Part::BlockLength => (Part::Block, (self.last & !IS_PLAIN) as usize + bytes(BLOCK_CHECKSUMS, 4)),
            Part::Checksum | Part::Ended => (Part::Ended, 0),
        };
    }
}

impl Read for Frame {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.left);
        let bytes = self.file.read(&mut into[..most])?;
        for &byte in &into[bytes.saturating_sub(4)..bytes] {
            self.last = self.last >> 8 | u32::from(byte) << 24;
        }
        self.left -= bytes;
        while self.left == 0 && !matches!(self.part, Part::Ended) {
            self.advance();
        }
        Ok(bytes)
    }
}
