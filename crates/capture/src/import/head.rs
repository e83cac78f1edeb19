//! The beginning of a file, by which formats are told apart.

use super::container::BYTE_ORDER_MARK;
use super::notes::shown;
use std::ops::Deref;

/// The first bytes of an unpacked file, at most [`Head::BYTES`].
pub struct Head<'a> {
    bytes: &'a [u8],
}

impl<'a> Head<'a> {
    /// Most bytes to examine.
    pub const BYTES: usize = 64 << 10;

    pub(super) fn new(bytes: &'a [u8]) -> Head<'a> {
        Head { bytes }
    }

    /// Lines of a text, without their ends and without a byte order mark; none if it is no text. The last one may be
    /// cut off.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let text = self.bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(self.bytes);
        let text = (!self.is_binary()).then_some(text);
        text.into_iter().flat_map(|text| text.split(|&byte| byte == b'\n')).map(<[u8]>::trim_ascii_end)
    }

    /// Whether it can be no text.
    pub fn is_binary(&self) -> bool {
        self.bytes.contains(&0)
    }

    /// The beginning as a clause of a message.
    pub(super) fn beginning(&self) -> String {
        if self.is_binary() {
            return format!(
                "the file is binary and begins with `{}`",
                shown(&self.bytes[..self.bytes.len().min(16)])
            );
        }
        let first = self.lines().enumerate().find(|(_, line)| !line.is_empty());
        let (line, text) = first.unwrap_or((0, b""));
        format!("line {} is `{}`", line + 1, shown(text))
    }
}

impl Deref for Head<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}
