//! Unpacks files: compression and archives, told apart by their first bytes.

use super::lz4::Lz4Frames;
use super::zip::Zip;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use pagewalk_trace::SourceError;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// The bytes of a file.
pub type Bytes = Box<dyn BufRead + Send>;

/// Bytes unpacked at a time.
const PIECE_BYTES: usize = 128 << 10;
/// Most memory for a dictionary of xz; `xz -9` needs 65 MiB.
const MAX_XZ_BYTES: u64 = 256 << 20;
/// Largest window of zstd, as a power of two; larger ones need `zstd --long=31`.
const MAX_ZSTD_WINDOW: u32 = 27;
/// Containers inside each other, such as a text in gzip in a zip archive.
const MAX_DEPTH: usize = 2;
/// Enough first bytes to tell any container.
const HEAD_BYTES: usize = 10;

/// A way to pack files.
struct Container {
    /// The first bytes.
    mark: &'static [u8],
    unpack: fn(Bytes) -> io::Result<Box<dyn Read + Send>>,
}

/// The containers that are read. All may follow themselves, as `cat` makes them, and zip may have many members: what
/// they hold is one file.
const CONTAINERS: [Container; 6] = [
    Container { mark: b"\x1f\x8b", unpack: |file| Ok(Box::new(MultiGzDecoder::new(file))) },
    Container { mark: b"\x28\xb5\x2f\xfd", unpack: zstd },
    Container { mark: b"\xfd7zXZ\x00", unpack: xz },
    Container { mark: b"\x04\x22\x4d\x18", unpack: |file| Ok(Box::new(Lz4Frames::new(file))) },
    Container { mark: b"PK\x03\x04", unpack: |file| Ok(Box::new(Zip::new(file))) },
    Container {
        mark: b"\xff\x06\x00\x00sNaPpY",
        unpack: |file| Ok(Box::new(snap::read::FrameDecoder::new(file))),
    },
];

/// Other files that may be met, with what they are and a command that makes them readable.
const OTHERS: [(&[u8], &str, &str); 3] = [
    (b"BZh", "is compressed by bzip2", "bzip2 -dc FILE"),
    (b"\xff\xfe", "is UTF-16, as PowerShell's `>` writes", "iconv -f UTF-16 -t UTF-8 FILE"),
    (b"\xfe\xff", "is UTF-16, as PowerShell's `>` writes", "iconv -f UTF-16 -t UTF-8 FILE"),
];

/// The contents of `file`, without the containers around them. Only a bounded part is in memory, whatever lengths the
/// containers claim.
pub(crate) fn unpacked(mut file: Bytes) -> Result<Bytes, SourceError> {
    for _ in 0..MAX_DEPTH {
        let (head, whole) = peeked(file, HEAD_BYTES)?;
        file = whole;
        let Some(container) = CONTAINERS.iter().find(|container| head.starts_with(container.mark)) else {
            break;
        };
        let unpacked = Unpacked((container.unpack)(file)?);
        file = Box::new(BufReader::with_capacity(PIECE_BYTES, unpacked));
    }
    Ok(file)
}

/// The text in `file`: without a byte order mark. For what is no text, the error names the command that makes one.
pub(super) fn text_of(file: Bytes) -> Result<Bytes, SourceError> {
    let (head, mut whole) = peeked(file, HEAD_BYTES)?;
    check_readable(&head)?;
    if head.starts_with(BYTE_ORDER_MARK) {
        whole.read_exact(&mut [0; BYTE_ORDER_MARK.len()])?;
    }
    Ok(whole)
}

/// The mark that some editors write in front of UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Refuses the beginning of a file that another command makes readable.
pub(super) fn check_readable(head: &[u8]) -> Result<(), SourceError> {
    if pagewalk_trace::pwt::begins(head) {
        return Err(SourceError::Malformed(
            "the file is a trace of pagewalk already: `simulate` and the other commands read it".to_owned(),
        ));
    }
    match OTHERS.iter().find(|(mark, ..)| head.starts_with(mark)) {
        Some((_, what, command)) => Err(SourceError::Malformed(format!(
            "the file {what}, which is not read here: `{command} | pagewalk trace import -o OUT.pwt -`"
        ))),
        None => Ok(()),
    }
}

/// The first bytes of a file, at most `most`, and the whole file. An error while reading them is
/// returned again after them.
pub(super) fn peeked(mut file: Bytes, most: usize) -> Result<(Vec<u8>, Bytes), SourceError> {
    let mut head = Vec::new();
    let rest: Bytes = match (&mut file).take(most as u64).read_to_end(&mut head) {
        Ok(_) => file,
        Err(error) if head.is_empty() => return Err(packing_error(error, "its beginning")),
        Err(error) => Box::new(BufReader::new(FailingFile(Some(error)))),
    };
    let whole = Cursor::new(head.clone()).chain(rest);
    Ok((head, Box::new(whole)))
}

/// What a failure to read means, at a place in the unpacked file.
pub(super) fn packing_error(error: io::Error, place: &str) -> SourceError {
    match error.kind() {
        ErrorKind::UnexpectedEof => {
            SourceError::Truncated(format!("the packed file ends in the middle of {place}"))
        }
        ErrorKind::InvalidInput | ErrorKind::InvalidData => SourceError::Malformed(format!(
            "the packed file is damaged, or packed in a way that is not read here, in {place} ({error})"
        )),
        _ => error.into(),
    }
}

fn zstd(file: Bytes) -> io::Result<Box<dyn Read + Send>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
    decoder.window_log_max(MAX_ZSTD_WINDOW)?;
    Ok(Box::new(decoder))
}

fn xz(file: Bytes) -> io::Result<Box<dyn Read + Send>> {
    let stream = Stream::new_stream_decoder(MAX_XZ_BYTES, CONCATENATED)?;
    Ok(Box::new(XzDecoder::new_stream(file, stream)))
}

/// A container's contents. Its decoders disagree about how errors name damage; here, it is invalid data.
struct Unpacked(Box<dyn Read + Send>);

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::Interrupted => error,
            _ if error.raw_os_error().is_some() => error,
            _ => io::Error::new(ErrorKind::InvalidData, error),
        })
    }
}

/// A file whose reading failed: fails once more, then ends.
struct FailingFile(Option<io::Error>);

impl Read for FailingFile {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

#[cfg(test)]
mod tests;
