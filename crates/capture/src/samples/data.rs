//! `perf.data`. The container is the library's work; what it allocates by a file's word is checked here before.

use super::fields::Fields;
use super::{MappedRange, Outcome, Sample, SampleNotes, SampleRecord, mapping_name};
use linux_perf_data::{AttributeDescription, Error, PerfFileReader, PerfFileRecord};
use linux_perf_event_reader::{CpuMode, EventRecord, RawData, RawEventRecord, RecordType, SamplingPolicy};
use pagewalk_trace::SourceError;
use std::io::{BufRead, ErrorKind, Read, Seek, SeekFrom};

/// The first bytes.
pub(super) const MARK: &[u8] = b"PERFILE2";
/// The same of a big-endian machine.
pub(super) const SWAPPED_MARK: &[u8] = b"2ELIFREP";
/// Bytes of a file's header, and of one that was written to a pipe.
const HEADER_BYTES: u64 = 104;
const PIPE_HEADER_BYTES: u64 = 16;
/// Bits of features, and the one of the events' descriptions.
const FEATURE_BITS: usize = 256;
const EVENT_DESCRIPTIONS: usize = 12;
/// The least and most bytes of an event's attributes.
const ATTRIBUTE_BYTES: std::ops::RangeInclusive<u64> = 64..=4096;
/// Most events of a file.
const EVENTS_MAX: u64 = 4096;
/// The record types whose data follow it, and whose contents are compressed.
const AUXTRACE: u32 = 71;
const COMPRESSED: [u32; 2] = [81, 83];
/// A record's header.
const RECORD_HEADER_BYTES: u64 = 8;
/// In a mapping's record: the mark of a build id, where its length stands, and the longest.
const HAS_BUILD_ID: u16 = 1 << 14;
const BUILD_ID_LENGTH_AT: usize = 32;
const BUILD_ID_BYTES: u8 = 20;
/// The kernel's note that samples were lost.
const LOST_SAMPLES: u32 = 13;

/// Reads a file.
pub(super) fn read(
    mut file: impl BufRead + Seek,
    take: &mut dyn FnMut(SampleRecord),
) -> Result<SampleNotes, SourceError> {
    check(&mut file).map_err(truncated)?;
    file.seek(SeekFrom::Start(0))?;
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(file).map_err(damaged)?;
    let events: Vec<Event> = perf_file.event_attributes().iter().map(Event::of).collect();
    let mut tally = Tally::default();
    while let Some(record) = record_iter.next_record(&mut perf_file).map_err(damaged)? {
        if let PerfFileRecord::EventRecord { attr_index, record } = record {
            let event = events.get(attr_index).map(|event| (attr_index, event));
            match record.record_type {
                RecordType::SAMPLE => match event.and_then(|event| sample(&record, event)) {
                    Some(sample) => take(SampleRecord::Sample(sample)),
                    None => tally.unread += 1,
                },
                _ => other(&record, &mut tally).into_iter().for_each(&mut *take),
            }
        }
    }
    let events = events.into_iter().map(|event| event.name).collect();
    Ok(SampleNotes { format: "perf.data", events, notes: tally.sentences() })
}

/// What is known of an event.
struct Event {
    name: String,
    /// Events between samples, if it is fixed.
    period: Option<u64>,
}

impl Event {
    fn of(description: &AttributeDescription) -> Event {
        let attributes = description.attributes();
        let period = match attributes.sampling_policy {
            SamplingPolicy::Period(period) => Some(period.get()),
            _ => None,
        };
        let name = description.name().filter(|name| !name.is_empty());
        Event { name: name.map_or_else(|| format!("{:?}", attributes.type_), str::to_owned), period }
    }
}

/// What was left out.
#[derive(Default)]
struct Tally {
    unread: u64,
    lost: u64,
}

impl Tally {
    fn sentences(&self) -> Vec<String> {
        let unread = (self.unread > 0).then(|| {
            format!(
                "samples left out, as they are damaged or carry values of other counters: {}",
                self.unread
            )
        });
        let lost = (self.lost > 0).then(|| format!("samples that perf lost: {}", self.lost));
        unread.into_iter().chain(lost).collect()
    }
}

fn sample(record: &RawEventRecord<'_>, (number, event): (usize, &Event)) -> Option<Sample> {
    let fields = Fields::read(&record.data.as_slice(), &record.parse_info)?;
    Some(Sample {
        process: fields.process.unwrap_or(-1),
        nanoseconds: fields.nanoseconds,
        event: number,
        code: fields.code,
        in_kernel: matches!(CpuMode::from_misc(record.misc), CpuMode::Kernel | CpuMode::GuestKernel),
        function: None,
        address: fields.address.filter(|&address| address != 0),
        mapping: None,
        weight: fields.weight,
        outcome: Outcome::of(fields.source, &event.name),
        page_bytes: fields.page_bytes,
        period: fields.period.or(event.period),
    })
}

/// The meaning of a record that is no sample.
fn other(record: &RawEventRecord<'_>, tally: &mut Tally) -> Option<SampleRecord> {
    if record.record_type.0 == LOST_SAMPLES {
        let bytes = record.data.as_slice();
        tally.lost = tally.lost.saturating_add(u64::from_le_bytes(*bytes.first_chunk()?));
        return None;
    }
    if has_impossible_build_id(record) {
        return None;
    }
    match record.parse().ok()? {
        EventRecord::Comm(comm) => {
            Some(SampleRecord::Command { process: comm.pid, name: text(comm.name), is_exec: comm.is_execve })
        }
        EventRecord::Fork(fork) if fork.pid != fork.ppid => {
            Some(SampleRecord::Fork { process: fork.pid, parent: fork.ppid })
        }
        EventRecord::Mmap2(map) => mapped(map.pid, (map.address, map.length, map.page_offset), map.path),
        EventRecord::Mmap(map) => mapped(map.pid, (map.address, map.length, map.page_offset), map.path),
        EventRecord::Lost(lost) => {
            tally.lost = tally.lost.saturating_add(lost.count);
            None
        }
        _ => None,
    }
}

/// Whether a damaged mapping's record has a build id at whose length the library would panic.
fn has_impossible_build_id(record: &RawEventRecord<'_>) -> bool {
    record.record_type == RecordType::MMAP2
        && record.misc & HAS_BUILD_ID != 0
        && record.data.as_slice().get(BUILD_ID_LENGTH_AT).is_some_and(|&length| length > BUILD_ID_BYTES)
}

fn mapped(process: i32, (start, bytes, offset): (u64, u64, u64), path: RawData<'_>) -> Option<SampleRecord> {
    let end = start.checked_add(bytes).filter(|&end| end > start)?;
    Some(SampleRecord::Mapped(MappedRange { process, start, end, offset, name: mapping_name(&text(path)) }))
}

fn text(raw: RawData<'_>) -> String {
    String::from_utf8_lossy(&raw.as_slice()).into_owned()
}

/// Checks every length of the file before the library allocates by it: the sections, the events' descriptions, and
/// records with data of their own.
fn check(file: &mut (impl BufRead + Seek)) -> Result<(), SourceError> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(MARK.len() as u64))?;
    let header_bytes = word(file)?;
    if header_bytes == PIPE_HEADER_BYTES {
        return Err(malformed(
            "the file was written to a pipe; convert it: perf inject -i FILE -o NEW, or perf script",
        ));
    }
    let attribute_bytes = word(file)?;
    let sections = [section(file, length)?, section(file, length)?, section(file, length)?];
    let features = [word(file)?, word(file)?, word(file)?, word(file)?];
    if header_bytes < HEADER_BYTES || !ATTRIBUTE_BYTES.contains(&attribute_bytes) {
        return Err(malformed("the header's sizes are of no version of perf.data that is read"));
    }
    let [_, (data, data_bytes), _] = sections;
    if data_bytes == 0 {
        return Err(malformed("the file has no records: perf did not end in order, or sampled nothing"));
    }
    file.seek(SeekFrom::Start(data + data_bytes))?;
    let mut descriptions = None;
    for feature in (0..FEATURE_BITS).filter(|feature| features[feature / 64] >> (feature % 64) & 1 != 0) {
        let found = section(file, length)?;
        if feature == EVENT_DESCRIPTIONS {
            descriptions = Some(found);
        }
    }
    let descriptions = descriptions.ok_or_else(|| malformed("the file does not describe its events"))?;
    check_descriptions(file, descriptions)?;
    check_records(file, data, data + data_bytes)
}

/// A section's offset and bytes, which lie in the file.
fn section(file: &mut impl Read, length: u64) -> Result<(u64, u64), SourceError> {
    let (offset, bytes) = (word(file)?, word(file)?);
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok((offset, bytes)),
        _ => Err(SourceError::Truncated(format!(
            "the file ends before its section of {bytes} bytes at {offset}: it is cut off or damaged"
        ))),
    }
}

/// The descriptions of events: a number, the bytes of attributes, and for each event its attributes, number of ids,
/// name and ids.
fn check_descriptions(
    file: &mut (impl BufRead + Seek),
    (offset, bytes): (u64, u64),
) -> Result<(), SourceError> {
    file.seek(SeekFrom::Start(offset))?;
    let mut left = bytes;
    let mut spend = |bytes: u64| {
        left = left.checked_sub(bytes).ok_or_else(|| malformed("the descriptions of events are damaged"))?;
        Ok::<(), SourceError>(())
    };
    spend(8)?;
    let (events, attribute_bytes) = (half(file)?, half(file)?);
    if events == 0 || events > EVENTS_MAX || !ATTRIBUTE_BYTES.contains(&attribute_bytes) {
        return Err(malformed(&format!(
            "the file describes {events} events of {attribute_bytes} bytes; at most {EVENTS_MAX} are read"
        )));
    }
    for _ in 0..events {
        spend(attribute_bytes + 8)?;
        skip(file, attribute_bytes)?;
        let (ids, name) = (half(file)?, half(file)?);
        spend(ids * 8 + name)?;
        skip(file, ids * 8 + name)?;
    }
    Ok(())
}

/// Records lie one behind the other; trace data of processors follows its record.
fn check_records(file: &mut (impl BufRead + Seek), start: u64, end: u64) -> Result<(), SourceError> {
    file.seek(SeekFrom::Start(start))?;
    let mut at = start;
    while at < end {
        let (kind, size) = (half(file)? as u32, half(file)? >> 16);
        let body = size.checked_sub(RECORD_HEADER_BYTES);
        let body = body.ok_or_else(|| malformed(&format!("the record at byte {at} has {size} bytes")))?;
        if COMPRESSED.contains(&kind) {
            return Err(malformed(
                "the records are compressed; use the text of perf script, or record without -z",
            ));
        }
        let mut rest = body;
        let mut data = 0;
        if kind == AUXTRACE && body >= 8 {
            (data, rest) = (word(file)?, body - 8);
        }
        let next = at.checked_add(size).and_then(|next| next.checked_add(data));
        let next = next.filter(|&next| next <= end);
        let next = next.ok_or_else(|| {
            SourceError::Truncated(format!("the file ends in the middle of the record at byte {at}"))
        })?;
        skip(file, rest + data)?;
        at = next;
    }
    Ok(())
}

fn skip(file: &mut (impl BufRead + Seek), bytes: u64) -> Result<(), SourceError> {
    // Bounded by the file's length.
    Ok(file.seek_relative(bytes as i64)?)
}

fn word(file: &mut impl Read) -> Result<u64, SourceError> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn half(file: &mut impl Read) -> Result<u64, SourceError> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(u64::from(u32::from_le_bytes(bytes)))
}

fn malformed(what: &str) -> SourceError {
    SourceError::Malformed(what.to_owned())
}

/// An end of the file inside a number.
fn truncated(error: SourceError) -> SourceError {
    match error {
        SourceError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            SourceError::Truncated("the file ends in the middle of its header or a record".to_owned())
        }
        other => other,
    }
}

fn damaged(error: Error) -> SourceError {
    match error {
        Error::IoError(error) if error.kind() != ErrorKind::UnexpectedEof => SourceError::Io(error),
        error => SourceError::Malformed(format!("the file is damaged ({error})")),
    }
}
