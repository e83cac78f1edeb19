//! Parses a line as found in real files.
//!
//! Lackey's own lines take a faster way ([`super::Lackey`]). These come from editors, other options of Valgrind and the
//! traced program: `\r\n`, blanks, `0x`, a third column, superblocks, the program's output.

use super::super::assembler::Reference;
use pagewalk_units::Kind;

/// Least digits of an address that Lackey itself writes.
const OWN_DIGITS: usize = 8;

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An instruction or a data reference.
    Reference(Reference),
    /// A reference with one more column.
    ThirdColumn(Reference),
    /// A reference after unterminated output of the program.
    Behind(Reference),
    /// The start of a superblock (`--trace-superblocks=yes`), a blank line, or a comment (`#`).
    Idle,
    /// Valgrind's own: its report, warnings, and the program's client requests.
    Message,
    /// A system call or its result (`--trace-syscalls=yes`).
    Syscall,
    /// Other text: the program's output.
    Other,
    /// A damaged line of the trace, or binary data.
    Damaged,
}

impl Line {
    /// Parses `line`, without its end.
    pub fn read(line: &[u8]) -> Line {
        let line = line.trim_ascii_end();
        if let Some((parts, rest)) = reference(line) {
            return if rest.is_empty() { Line::Reference(parts) } else { Line::ThirdColumn(parts) };
        }
        if line.is_empty() || line.starts_with(b"#") || is_superblock(line) {
            return Line::Idle;
        }
        if is_message(line) {
            return Line::Message;
        }
        if line.starts_with(b"SYSCALL[") || line.starts_with(b" --> [") {
            return Line::Syscall;
        }
        if let Some(parts) = reference_at_end(line) {
            return Line::Behind(parts);
        }
        if is_damaged(line) || !is_text(line) { Line::Damaged } else { Line::Other }
    }
}

/// Whether a line is Valgrind's own.
fn is_message(line: &[u8]) -> bool {
    let warns = |mark: &[u8]| {
        // A process id, with --time-stamp=yes after a time.
        let stamp = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b' ');
        let inner = line.strip_prefix(mark).and_then(|rest| rest.split(|byte| !stamp(byte)).next());
        inner.is_some_and(|inner| !inner.is_empty() && line[mark.len() + inner.len()..].starts_with(mark))
    };
    line.starts_with(b"==") || warns(b"--") || warns(b"**")
}

/// The process id in a message of Valgrind's.
pub(super) fn process_of(message: &[u8]) -> Option<u32> {
    let stamp = message.strip_prefix(b"==")?;
    let end = stamp.windows(2).position(|mark| mark == b"==")?;
    std::str::from_utf8(&stamp[..end]).ok()?.rsplit(' ').next()?.parse().ok()
}

fn is_superblock(line: &[u8]) -> bool {
    let address = line.strip_prefix(b"SB ").map(<[u8]>::trim_ascii_start);
    address.is_some_and(|address| {
        !address.is_empty() && without_prefix(address).iter().all(u8::is_ascii_hexdigit)
    })
}

/// The reference at the front of a line, and what follows, which begins with a blank or a comma.
fn reference(line: &[u8]) -> Option<(Reference, &[u8])> {
    let (letter, rest) = line.trim_ascii_start().split_first()?;
    let kind = kind(*letter)?;
    let address = rest.trim_ascii_start();
    if address.len() == rest.len() {
        return None;
    }
    let (address, rest) = digits(without_prefix(address), 16, u8::is_ascii_hexdigit)?;
    let (bytes, rest) = digits(rest.strip_prefix(b",")?.trim_ascii_start(), 9, u8::is_ascii_digit)?;
    let ends = rest.first().is_none_or(|byte| *byte == b',' || byte.is_ascii_whitespace());
    let parts =
        Reference { kind, address: number(address, 16)?, bytes: u32::try_from(number(bytes, 10)?).ok()? };
    ends.then_some((parts, rest))
}

/// The reference at the end of a line, exactly as Lackey writes it.
fn reference_at_end(line: &[u8]) -> Option<Reference> {
    let comma = line.iter().rposition(|&byte| byte == b',')?;
    let hexadecimal = line[..comma].iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let start = (comma - hexadecimal).checked_sub(3)?;
    let own = [b"I  ", b" L ", b" S ", b" M "].iter().any(|mark| line[start..].starts_with(*mark));
    if !own || hexadecimal < OWN_DIGITS {
        return None;
    }
    reference(&line[start..]).filter(|(_, rest)| rest.is_empty()).map(|(parts, _)| parts)
}

/// Whether a line that is no reference was meant as one: a letter, and the form of an address or of the columns.
fn is_damaged(line: &[u8]) -> bool {
    let Some((letter, rest)) = line.trim_ascii_start().split_first() else { return false };
    let Some(word) = rest.trim_ascii_start().split(u8::is_ascii_whitespace).next() else { return false };
    if word.is_empty() || rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
        return false;
    }
    let (address, bytes) = match word.iter().position(|&byte| byte == b',') {
        Some(comma) => (&word[..comma], Some(&word[comma + 1..])),
        None => (word, None),
    };
    let is_address = without_prefix(address).iter().all(u8::is_ascii_hexdigit);
    let is_bytes = bytes.is_some_and(|bytes| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit));
    match kind(*letter) {
        Some(_) => is_address || bytes.is_some(),
        None => letter.is_ascii_alphabetic() && is_address && is_bytes,
    }
}

/// Whether a file's text may have been cut off inside `line`, a line of the trace.
pub(super) fn is_cut(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let begins =
        line.first().is_none_or(|letter| kind(*letter).is_some() || matches!(letter, b'=' | b'-' | b'*'));
    let single = line.len() <= 1
        || line.get(1).is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'=' | b'-' | b'*'));
    begins && single
}

/// Text has no control characters except those usual on terminals.
fn is_text(line: &[u8]) -> bool {
    line.iter().all(|byte| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\r' | 0x08 | 0x0c | 0x1b))
}

fn kind(letter: u8) -> Option<Kind> {
    match letter {
        b'I' => Some(Kind::Fetch),
        b'L' => Some(Kind::Load),
        b'S' => Some(Kind::Store),
        b'M' => Some(Kind::Modify),
        _ => None,
    }
}

fn without_prefix(address: &[u8]) -> &[u8] {
    address.strip_prefix(b"0x").or_else(|| address.strip_prefix(b"0X")).unwrap_or(address)
}

/// The 1 to `most` digits at the front of `text`, and the rest.
fn digits(text: &[u8], most: usize, is_digit: impl Fn(&u8) -> bool) -> Option<(&[u8], &[u8])> {
    let count = text.iter().take_while(|byte| is_digit(byte)).count();
    (1..=most).contains(&count).then(|| text.split_at(count))
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, base).ok()
}
