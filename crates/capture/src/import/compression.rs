//! Unwraps the text in a file.

use flate2::bufread::MultiGzDecoder;
use pagewalk_trace::SourceError;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// A readable text.
pub type Text = Box<dyn BufRead + Send>;

/// Bytes that identify a file.
const HEAD_BYTES: usize = 6;
/// Bytes unpacked at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Beginnings of other archives, with their name and unpacking command.
const OTHERS: [(&[u8], &str, &str); 7] = [
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd", "zstd -dc FILE"),
    (b"\xfd7zXZ\x00", "is compressed by xz", "xz -dc FILE"),
    (b"BZh", "is compressed by bzip2", "bzip2 -dc FILE"),
    (b"\x04\x22\x4d\x18", "is compressed by lz4", "lz4 -dc FILE"),
    (b"PK\x03\x04", "is a zip archive", "unzip -p FILE"),
    (b"\xff\xfe", "is UTF-16, as PowerShell's `>` writes", "iconv -f UTF-16 -t UTF-8 FILE"),
    (b"\xfe\xff", "is UTF-16, as PowerShell's `>` writes", "iconv -f UTF-16 -t UTF-8 FILE"),
];

/// The text of `file`: gunzipped if needed, without byte order mark.
pub(super) fn text_of(mut file: Text) -> Result<Text, SourceError> {
    let mut head = Vec::new();
    (&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    if let Some((_, what, command)) = OTHERS.iter().find(|(mark, ..)| head.starts_with(mark)) {
        let what = format!(
            "the file {what}, which is not read here: `{command} | pagewalk trace import -o OUT.pwt -`"
        );
        return Err(SourceError::Malformed(what));
    }
    let is_packed = head.starts_with(b"\x1f\x8b");
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..3);
    }
    let whole = Cursor::new(head).chain(file);
    match is_packed {
        true => Ok(Box::new(BufReader::with_capacity(PIECE_BYTES, MultiGzDecoder::new(whole)))),
        false => Ok(Box::new(whole)),
    }
}

/// A text whose reading failed: fails once more, then ends.
pub(super) struct FailingText(pub Option<io::Error>);

impl Read for FailingText {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
