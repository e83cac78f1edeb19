//! Events other than block definitions.

use super::{BadWord, kind};
use pagewalk_trace::{Event, FileIdentity, Mapping, MappingKind, Protection, ThpDisable};
use pagewalk_units::{PAGE_BYTES, VirtAddr};

/// A parsed event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedEvent {
    /// The command line.
    Identity(Vec<String>),
    /// Executions of a block by a thread that waits by spinning.
    Spin {
        /// The block's number.
        block: u32,
        /// The executions.
        executions: u64,
    },
    /// Anything else.
    Event(Event),
}

/// Parses the payload of an event other than BLOCK.
pub(super) fn parse(kind_code: u8, payload: &[u64]) -> Result<ParsedEvent, BadWord> {
    let mut words = Payload { kind: kind_code, words: payload };
    let event = match kind_code {
        kind::IDENTITY => {
            let count = words.next()?;
            // Collecting stops at the first missing argument, so a wild count costs nothing.
            let arguments = (0..count).map(|_| words.text()).collect::<Result<_, _>>()?;
            words.finish()?;
            return Ok(ParsedEvent::Identity(arguments));
        }
        kind::MAP => Event::Map(mapping(&mut words)?),
        kind::UNMAP => {
            let (start, bytes) = words.range()?;
            Event::Unmap { start, bytes }
        }
        kind::REMAP => {
            let (old_start, old_bytes) = words.range()?;
            let (new_start, new_bytes) = words.range()?;
            Event::Remap { old_start, old_bytes, new_start, new_bytes }
        }
        kind::BREAK => Event::Break { old_end: words.page()?, new_end: words.page()? },
        kind::PROTECT => {
            let (start, bytes) = words.range()?;
            Event::Protect { start, bytes, protection: protection(words.next()?) }
        }
        kind::ADVISE => {
            let (start, bytes) = words.range()?;
            Event::Advise { start, bytes, advice: words.next()? as i32 }
        }
        kind::THREAD_START => Event::ThreadStart { thread: words.small()?, parent: words.small()? },
        kind::THREAD_END => Event::ThreadEnd { thread: words.small()? },
        kind::SWITCH => Event::Switch { thread: words.small()? },
        kind::FORK => Event::Fork { child: words.small()? },
        kind::EXEC => Event::Exec { path: words.text()? },
        kind::SYSCALL => Event::Syscall { number: words.small()?, result: words.next()? as i64 },
        kind::MARKER => Event::Marker { id: words.next()? },
        kind::EXIT => Event::Exit { status: words.next()? as i32 },
        kind::LOST => Event::Lost { what: words.text()? },
        kind::THP_DISABLE => {
            let mode = ThpDisable::from_code(words.next()?);
            Event::ThpDisable { mode: mode.ok_or(words.wrong("unknown mode of forbidding huge pages"))? }
        }
        kind::IDLE => Event::Idle { nanoseconds: words.next()? },
        kind::SPIN => {
            let (block, executions) = (words.small()?, words.next()?);
            words.finish()?;
            return Ok(ParsedEvent::Spin { block, executions });
        }
        _ => return Err(BadWord::UnknownEvent(kind_code)),
    };
    words.finish()?;
    Ok(ParsedEvent::Event(event))
}

fn mapping(words: &mut Payload<'_>) -> Result<Mapping, BadWord> {
    let (start, bytes) = words.range()?;
    let what = words.next()?;
    let offset = words.next()?;
    let path = words.text()?;
    let kind = match (what >> 8) as u8 {
        0 => MappingKind::Anonymous,
        1 => MappingKind::SharedAnonymous,
        2 => MappingKind::Heap,
        3 => MappingKind::Stack,
        4 => MappingKind::File,
        5 => MappingKind::SharedFile,
        6 => MappingKind::Kernel,
        _ => return Err(words.wrong("unknown kind of mapping")),
    };
    let page_bytes = page_bytes((what >> 16) as u8)
        .filter(|page| start.0.is_multiple_of(*page) && bytes.is_multiple_of(*page))
        .ok_or(words.wrong("a mapping is not of whole pages of its size"))?;
    let is_file = matches!(kind, MappingKind::File | MappingKind::SharedFile) && !path.is_empty();
    let file = is_file.then_some(FileIdentity { path, offset, build_id: None });
    Ok(Mapping { start, bytes, protection: protection(what), kind, file, page_bytes })
}

/// The page size from its base 2 logarithm, 0 meaning a base page; `None` if mappings cannot have it.
fn page_bytes(log2: u8) -> Option<u64> {
    let bytes = if log2 == 0 { PAGE_BYTES } else { 1u64.checked_shl(log2.into())? };
    Mapping::may_have_pages_of(bytes).then_some(bytes)
}

fn protection(bits: u64) -> Protection {
    Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 }
}

/// The unread words of a payload.
struct Payload<'a> {
    kind: u8,
    words: &'a [u64],
}

impl Payload<'_> {
    fn wrong(&self, what: &'static str) -> BadWord {
        BadWord::Payload { kind: self.kind, what }
    }

    fn next(&mut self) -> Result<u64, BadWord> {
        let (&first, rest) = self.words.split_first().ok_or(self.wrong("it is too short"))?;
        self.words = rest;
        Ok(first)
    }

    fn small(&mut self) -> Result<u32, BadWord> {
        let word = self.next()?;
        u32::try_from(word).map_err(|_| self.wrong("a number has more than 32 bits"))
    }

    fn page(&mut self) -> Result<VirtAddr, BadWord> {
        let address = self.next()?;
        if address % PAGE_BYTES != 0 {
            return Err(self.wrong("an address is not page aligned"));
        }
        Ok(VirtAddr(address))
    }

    /// A page-aligned start and a length, rounded up to whole pages like the kernel does.
    fn range(&mut self) -> Result<(VirtAddr, u64), BadWord> {
        let start = self.page()?;
        let bytes = self.next()?.checked_next_multiple_of(PAGE_BYTES);
        bytes
            .filter(|bytes| start.0.checked_add(*bytes).is_some())
            .map(|bytes| (start, bytes))
            .ok_or(self.wrong("a range reaches beyond the end of memory"))
    }

    /// A length in bytes, then the bytes, padded to whole words. Invalid UTF-8 becomes U+FFFD.
    fn text(&mut self) -> Result<String, BadWord> {
        let bytes = usize::try_from(self.next()?).unwrap_or(usize::MAX);
        let words = bytes.div_ceil(8);
        if words > self.words.len() {
            return Err(self.wrong("a text reaches beyond its end"));
        }
        let (text, rest) = self.words.split_at(words);
        self.words = rest;
        let mut text: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        text.truncate(bytes);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn finish(self) -> Result<(), BadWord> {
        if self.words.is_empty() { Ok(()) } else { Err(self.wrong("it has words left over")) }
    }
}
