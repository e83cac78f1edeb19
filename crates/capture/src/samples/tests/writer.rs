//! Writes small files of perf's, for tests: one event whose samples have every field that is read.

/// Bits of a sample type: ip, tid, time, addr, period, weight, data_src, data_page_size.
pub const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 8 | 1 << 14 | 1 << 15 | 1 << 22;
/// A record's mode: the program's code.
const USER: u16 = 2;
/// Bits of an event's flags: ids behind all records.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const ATTRIBUTE_BYTES: u32 = 128;
const HEADER_BYTES: u64 = 104;

/// Data sources: a hit of the first level, and a walk.
pub const FIRST_LEVEL: u64 = 0x0a << 26;
pub const WALK: u64 = 0x14 << 26;

/// A sample's fields.
#[derive(Clone, Copy)]
pub struct Fields {
    pub time: u64,
    pub code: u64,
    pub address: u64,
    pub weight: u64,
    pub source: u64,
}

/// A record of this type and body.
pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = (body.len() + 8) as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// The ids behind a record that is no sample: tid and time.
fn ids(process: i32, time: u64) -> Vec<u8> {
    [&process.to_le_bytes()[..], &process.to_le_bytes(), &time.to_le_bytes()].concat()
}

fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() / 8 + 1) * 8, 0);
    bytes
}

pub fn command(process: i32, name: &str, is_exec: bool) -> Vec<u8> {
    let process_bytes = process.to_le_bytes();
    let body = [&process_bytes[..], &process_bytes, &padded(name), &ids(process, 1)].concat();
    record(3, if is_exec { 1 << 13 } else { 0 }, &body)
}

pub fn fork(process: i32, parent: i32, time: u64) -> Vec<u8> {
    let numbers = [process, parent, process, parent].map(i32::to_le_bytes).concat();
    record(7, 0, &[&numbers[..], &time.to_le_bytes(), &ids(parent, time)].concat())
}

pub fn mapping(process: i32, start: u64, bytes: u64, offset: u64, name: &str) -> Vec<u8> {
    let process_bytes = process.to_le_bytes();
    let place = [start, bytes, offset].map(u64::to_le_bytes).concat();
    let body =
        [&process_bytes[..], &process_bytes, &place, &[0; 32], &padded(name), &ids(process, 2)].concat();
    record(10, USER, &body)
}

pub fn sample(process: i32, fields: Fields) -> Vec<u8> {
    let Fields { time, code, address, weight, source } = fields;
    let process_bytes = process.to_le_bytes();
    let before = [&code.to_le_bytes()[..], &process_bytes, &process_bytes].concat();
    let behind = [time, address, 100, weight, source, 4096].map(u64::to_le_bytes).concat();
    record(9, USER, &[before, behind].concat())
}

/// The event's attributes, with this sample type.
fn attributes(sample_type: u64) -> Vec<u8> {
    let words = [0x1cd, 100, sample_type, 0, SAMPLE_ID_ALL].map(u64::to_le_bytes).concat();
    let mut bytes = [&4u32.to_le_bytes()[..], &ATTRIBUTE_BYTES.to_le_bytes(), &words].concat();
    bytes.resize(ATTRIBUTE_BYTES as usize, 0);
    bytes
}

/// A file with these records.
pub fn file(sample_type: u64, event: &str, records: &[Vec<u8>]) -> Vec<u8> {
    let data = records.concat();
    let name = padded(event);
    let event =
        [&attributes(sample_type)[..], &0u32.to_le_bytes(), &(name.len() as u32).to_le_bytes(), &name]
            .concat();
    let description = [&1u32.to_le_bytes()[..], &ATTRIBUTE_BYTES.to_le_bytes(), &event].concat();
    let attribute_end = HEADER_BYTES + u64::from(ATTRIBUTE_BYTES) + 16;
    let data_end = attribute_end + data.len() as u64;
    let sections = [HEADER_BYTES, u64::from(ATTRIBUTE_BYTES) + 16, attribute_end, data.len() as u64, 0, 0];
    let header = [HEADER_BYTES, u64::from(ATTRIBUTE_BYTES) + 16];
    let words = [&header[..], &sections, &[1 << 12, 0, 0, 0]].concat();
    let features = [data_end + 16, description.len() as u64];
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let parts = [b"PERFILE2".to_vec(), bytes(&words), attributes(sample_type), vec![0; 16], data];
    [parts.concat(), bytes(&features), description].concat()
}
