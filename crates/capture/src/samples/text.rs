//! The text of `perf script`: a line for each sample, and with `--show-mmap-events` for each mapping.
//!
//! ```text
//! COMM PID/TID [CPU] SECONDS: PERIOD EVENT: ADDRESS SYMBOL (MAPPING) SOURCE |OP …|… WEIGHT CODE SYMBOL (FILE) 4K
//! ```
//!
//! perf prints the fields that `-F` chose, in this order, and leaves out the others. Of two addresses the first is the
//! data's, the second the code's; what stands between them, or behind the source, is the weight.

use super::{MappedRange, Outcome, Sample, SampleNotes, SampleRecord, mapping_name};
use pagewalk_trace::SourceError;
use pagewalk_units::quantities::bytes;
use std::io::{BufRead, Read};

/// Most bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Most events of a file.
const EVENTS_MAX: usize = 4096;
/// Lines without any sample after which a text is taken for none of perf's.
const FOREIGN_LINES_MAX: u64 = 10_000;
/// The beginning of a decoded data source.
const SOURCE_MARK: &str = "|OP";
/// The beginning of the name of a record that is no sample.
const RECORD_MARK: &str = "PERF_RECORD_";

/// Lines that are left out, by reason.
#[derive(Default)]
struct Tally {
    lines: u64,
    samples: u64,
    foreign: u64,
    first_foreign: u64,
    long: u64,
}

/// Reads a text.
pub(super) fn read(
    mut text: impl BufRead,
    take: &mut dyn FnMut(SampleRecord),
) -> Result<SampleNotes, SourceError> {
    let mut notes = SampleNotes { format: "perf script", ..SampleNotes::default() };
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while next_line(&mut text, &mut line, &mut tally)? {
        let text = String::from_utf8_lossy(&line);
        match record(text.trim_end(), &mut notes.events) {
            Some(record) => {
                tally.samples += u64::from(matches!(record, SampleRecord::Sample(_)));
                take(record);
            }
            None => tally.leave_out(&text),
        }
        if tally.samples == 0 && tally.foreign > FOREIGN_LINES_MAX {
            break;
        }
    }
    if tally.samples == 0 {
        return Err(SourceError::Malformed(format!(
            "the file is neither perf.data nor a text of perf script with samples: none of {} lines is one \
             (`COMM PID/TID SECONDS: EVENT: ADDRESS …`)",
            tally.lines
        )));
    }
    notes.notes = tally.sentences();
    Ok(notes)
}

/// The next line, or its beginning if it is too long; false at the end.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>, tally: &mut Tally) -> Result<bool, SourceError> {
    line.clear();
    if text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    tally.lines += 1;
    if line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        tally.long += 1;
        text.skip_until(b'\n')?;
        line.clear();
    }
    Ok(true)
}

impl Tally {
    /// Notes a line that is no sample. Comments, empty lines, call chains and perf's own records belong to such texts.
    fn leave_out(&mut self, line: &str) {
        let is_usual = line.trim().is_empty()
            || line.contains(RECORD_MARK)
            || line.starts_with('#')
            || line.starts_with(char::is_whitespace) && is_frame(line);
        if !is_usual {
            self.foreign += 1;
            if self.foreign == 1 {
                self.first_foreign = self.lines;
            }
        }
    }

    fn sentences(&self) -> Vec<String> {
        let foreign = (self.foreign > 0).then(|| {
            format!(
                "lines left out that are no samples: {} (line {} is the first)",
                self.foreign, self.first_foreign
            )
        });
        let long = (self.long > 0)
            .then(|| format!("lines of more than {LINE_BYTES_MAX} bytes left out: {}", self.long));
        foreign.into_iter().chain(long).collect()
    }
}

/// Whether a line is a frame of a call chain.
fn is_frame(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| hexadecimal(word).is_some())
}

/// The meaning of a line.
fn record(line: &str, events: &mut Vec<String>) -> Option<SampleRecord> {
    let (head, rest) = Head::read(line)?;
    if let Some(at) = rest.find(RECORD_MARK) {
        return named_record(&rest[at..]);
    }
    let (event, fields) = event(rest)?;
    let number = match events.iter().position(|known| known == event.name) {
        Some(number) => number,
        None if events.len() == EVENTS_MAX => return None,
        None => {
            events.push(event.name.to_owned());
            events.len() - 1
        }
    };
    let found = Found::read(fields);
    let code = found.code?;
    Some(SampleRecord::Sample(Sample {
        process: head.process,
        nanoseconds: head.nanoseconds,
        event: number,
        code: Some(code.value),
        in_kernel: code
            .place
            .is_some_and(|place| place.starts_with("[kernel") || place.starts_with("[guest.kernel")),
        function: code.symbol.zip(code.place).map(|(symbol, place)| (symbol.to_owned(), place.to_owned())),
        address: found.address.map(|address| address.value).filter(|&address| address != 0),
        mapping: found.address.and_then(|address| address.place).map(mapping_name),
        weight: found.weight,
        outcome: Outcome::of(found.source, event.name),
        page_bytes: found.page_bytes,
        period: event.period,
    }))
}

/// What stands in front of every record.
struct Head {
    process: i32,
    nanoseconds: Option<u64>,
}

impl Head {
    /// Reads it, and returns the rest of the line. A command's name may have blanks.
    fn read(line: &str) -> Option<(Head, &str)> {
        let mut rest = line.trim_start();
        let process = loop {
            rest = split_word(rest)?.1;
            let (word, _) = split_word(rest)?;
            if let Some((process, thread)) = word.split_once('/')
                && thread.parse::<i32>().is_ok()
                && let Ok(process) = process.parse()
            {
                break process;
            }
        };
        rest = split_word(rest)?.1;
        let (word, behind) = split_word(rest)?;
        if word.starts_with('[') && word.ends_with(']') {
            rest = behind;
        }
        let (word, behind) = split_word(rest)?;
        let nanoseconds = word.strip_suffix(':').and_then(nanoseconds);
        if nanoseconds.is_some() {
            rest = behind;
        }
        Some((Head { process, nanoseconds }, rest))
    }
}

/// Seconds with a fraction.
fn nanoseconds(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    let is_fraction = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let fraction: u64 = is_fraction.then(|| format!("{fraction:0<9}").parse().ok())??;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// The event's name and period.
struct EventName<'a> {
    name: &'a str,
    period: Option<u64>,
}

fn event(rest: &str) -> Option<(EventName<'_>, &str)> {
    let (mut word, mut behind) = split_word(rest)?;
    let mut period = None;
    if let Ok(number) = word.parse() {
        period = Some(number);
        (word, behind) = split_word(behind)?;
    }
    let name = word.strip_suffix(':').filter(|name| !name.is_empty())?;
    Some((EventName { name, period }, behind))
}

/// A record of another kind than a sample, of which mappings, names and forks are read.
fn named_record(text: &str) -> Option<SampleRecord> {
    let (kind, rest) = split_word(text)?;
    let kind = kind.strip_prefix(RECORD_MARK)?.trim_end_matches(':');
    match kind {
        "MMAP" | "MMAP2" => mapped(rest),
        "COMM" => {
            let (name, numbers) = rest.trim_start().rsplit_once(':')?;
            let process = numbers.split('/').next()?.parse().ok()?;
            let is_exec = name.starts_with("exec:");
            let name = name.trim_start_matches("exec:").trim_start().to_owned();
            Some(SampleRecord::Command { process, name, is_exec })
        }
        _ => {
            // `FORK(PID:TID):(PID:TID)`, also of threads.
            let (child, parent) = kind.strip_prefix("FORK(")?.split_once("):(")?;
            let number = |of: &str| of.split(':').next()?.parse::<i32>().ok();
            let (process, parent) = (number(child)?, number(parent)?);
            (process != parent).then_some(SampleRecord::Fork { process, parent })
        }
    }
}

/// `PID/TID: [START(BYTES) @ OFFSET …]: RIGHTS NAME`.
fn mapped(rest: &str) -> Option<SampleRecord> {
    let (process, rest) = rest.trim_start().split_once('/')?;
    let (_, rest) = rest.split_once('[')?;
    let (start, rest) = rest.split_once('(')?;
    let (bytes, rest) = rest.split_once(')')?;
    let (place, rest) = rest.split_once(']')?;
    let offset = place.trim_start().strip_prefix('@')?.split_whitespace().next()?;
    let name = split_word(rest.strip_prefix(':')?).map_or("", |(_, name)| name.trim());
    let start = hexadecimal(start)?;
    let end = start.checked_add(hexadecimal(bytes)?).filter(|&end| end > start)?;
    Some(SampleRecord::Mapped(MappedRange {
        process: process.parse().ok()?,
        start,
        end,
        offset: hexadecimal(offset)?,
        name: mapping_name(name),
    }))
}

/// A number with what perf says of it.
#[derive(Clone, Copy)]
struct Group<'a> {
    text: &'a str,
    value: u64,
    symbol: Option<&'a str>,
    place: Option<&'a str>,
}

/// The fields behind the event.
#[derive(Default)]
struct Found<'a> {
    address: Option<Group<'a>>,
    source: Option<u64>,
    weight: Option<u64>,
    code: Option<Group<'a>>,
    page_bytes: Option<u64>,
}

impl<'a> Found<'a> {
    fn read(fields: &'a str) -> Found<'a> {
        let mut found = Found::default();
        let Some(mark) = fields.find(SOURCE_MARK) else {
            let mut groups = groups(fields, &mut found.page_bytes);
            found.code = groups.pop();
            found.address = (!groups.is_empty()).then(|| groups.remove(0));
            found.weight = groups.first().and_then(|group| group.text.parse().ok());
            return found;
        };
        let mut before = groups(&fields[..mark], &mut None);
        found.source = before.pop().map(|group| group.value);
        found.address = before.first().copied();
        let behind = fields[mark..].rfind('|').map_or("", |last| &fields[mark + last..]);
        let mut behind = groups(behind, &mut found.page_bytes);
        found.code = behind.pop();
        found.weight = behind.first().and_then(|group| group.text.parse().ok());
        found
    }
}

/// The numbers of a text, each with its symbol and place. A size of a page at the end is none of them.
fn groups<'a>(text: &'a str, page_bytes: &mut Option<u64>) -> Vec<Group<'a>> {
    let mut text = text.trim_end();
    if let Some((before, last)) = text.rsplit_once(char::is_whitespace)
        && (last == "N/A" || page_size(last).is_some())
    {
        (*page_bytes, text) = (page_size(last), before.trim_end());
    }
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut rest = text;
    while let Some((word, behind)) = split_word(rest) {
        let value = hexadecimal(word).filter(|_| !is_symbol(word, behind));
        match (value, groups.last_mut()) {
            (Some(value), _) => groups.push(Group { text: word, value, symbol: None, place: None }),
            (None, Some(group)) => {
                let (symbol, place, behind) = described(rest);
                (group.symbol, group.place) = (symbol, place);
                rest = behind;
                continue;
            }
            (None, None) => {}
        }
        rest = behind;
    }
    groups
}

/// Whether a word of hexadecimal digits is a symbol's name, such as `fade`: no digit is in it, and its file follows.
fn is_symbol(word: &str, behind: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphabetic()) && behind.trim_start().starts_with('(')
}

/// The symbol and place of `SYMBOL (PLACE) …`, and what follows. A symbol may have blanks and parentheses; a place
/// begins like a path or a name in brackets.
fn described(text: &str) -> (Option<&str>, Option<&str>, &str) {
    const PLACES: [&str; 3] = ["(/", "([", "(inlined)"];
    let found = PLACES.iter().filter_map(|begin| text.find(begin)).min();
    let Some((at, bytes)) = found.and_then(|at| Some((at, text[at..].find(')')?))) else {
        let (symbol, behind) = split_word(text).unwrap_or(("", ""));
        return (Some(symbol), None, behind);
    };
    let symbol = Some(text[..at].trim()).filter(|symbol| !symbol.is_empty() && *symbol != "[unknown]");
    (symbol, Some(&text[at + 1..at + bytes]), &text[at + bytes + 1..])
}

fn page_size(word: &str) -> Option<u64> {
    let bytes = word.ends_with(['K', 'M', 'G']).then(|| bytes(word)).flatten();
    bytes.filter(|bytes| bytes.is_power_of_two())
}

fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let fits = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The first word, and what follows it.
fn split_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}
