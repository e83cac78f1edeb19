//! ChampSim's traces: a record of 64 bytes for each instruction.
//!
//! ```text
//! 0 address, 8 is a branch, 9 branch taken, 10 two destination registers, 12 four source registers,
//! 16 two destination addresses, 32 four source addresses
//! ```
//!
//! Numbers are little-endian, and 0 is no register and no address. Sources are loads, destinations are stores, in this
//! order. Source: `inc/trace_instruction.h` and `tracer/pin` of ChampSim.
//!
//! Records have no sizes. A reference is taken to have 8 bytes, or as many as fit its page, so that no page is touched
//! that the record does not name. An instruction's length is the distance to the next record's, if it does not jump and
//! that distance is a length that x86-64 has; else 4 bytes, or as many as fit its page.
//!
//! Branches are told apart by registers, as ChampSim does (`inc/instruction.h`): a call changes the stack pointer and
//! reads the instruction pointer, a return only changes both.

use super::assembler::{Assembler, Reference};
use super::notes::Notes;
use super::records::{Records, open_records};
use super::{Importer, Opener};
use pagewalk_trace::{BlockEnd, Instruction, Ref, SourceError};
use pagewalk_units::{Kind, PAGE_BYTES, VirtAddr};

const RECORD_BYTES: usize = 64;
/// Registers in ChampSim's numbering, which is Pin's.
const STACK_POINTER: u8 = 6;
const INSTRUCTION_POINTER: u8 = 26;
/// Bytes of a reference.
const REFERENCE_BYTES: u64 = 8;
/// Bytes of an instruction whose end is unknown.
const INSTRUCTION_BYTES: u64 = 4;
/// The longest instruction of x86-64.
const INSTRUCTION_BYTES_MAX: u64 = 15;
/// Length of AArch64's instructions.
const AARCH64_BYTES: u64 = 4;

/// The format, for the registry.
pub(super) const FORMAT: Importer = Importer {
    name: "champsim",
    about: "what ChampSim reads: records of 64 bytes",
    // There is no mark: every whole record has to be possible, and most are to follow the one before in memory.
    recognises: |head| {
        let records: Vec<Record> = head.chunks_exact(RECORD_BYTES).map(Record::read).collect();
        let follows =
            |pair: &&[Record]| (1..=INSTRUCTION_BYTES_MAX).contains(&pair[0].distance(pair[1].address));
        let following = records.windows(2).filter(follows).count();
        following > 0 && 2 * following + 1 >= records.len() && records.iter().all(Record::is_plausible)
    },
    open: Opener::One(open_records::<ChampSim>),
};

/// An executed instruction.
#[derive(Clone, Copy, Debug)]
struct Record {
    address: u64,
    /// Whether it is a branch, and whether it was taken: 0 or 1.
    branch: [u8; 2],
    end: BlockEnd,
    stores: [u64; 2],
    loads: [u64; 4],
}

impl Record {
    #[inline]
    fn read(bytes: &[u8]) -> Record {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let branch = [bytes[8], bytes[9]];
        Record {
            address: word(0),
            branch,
            end: if branch[0] == 0 { BlockEnd::Jump } else { end(&bytes[10..12], &bytes[12..16]) },
            stores: [16, 24].map(word),
            loads: [32, 40, 48, 56].map(word),
        }
    }

    /// Bytes from it to the next one.
    fn distance(&self, next: u64) -> u64 {
        next.wrapping_sub(self.address)
    }

    /// Whether a program can have executed it.
    fn is_plausible(&self) -> bool {
        let addresses = self.stores.iter().chain(&self.loads);
        self.address != 0
            && self.branch[0] <= 1
            && self.branch[1] <= self.branch[0]
            && addresses.chain([&self.address]).all(|&address| address < Ref::ADDRESS_END)
    }
}

/// How a branch with these destination and source registers ends its block.
fn end(destinations: &[u8], sources: &[u8]) -> BlockEnd {
    let moves_stack = destinations.contains(&STACK_POINTER) && sources.contains(&STACK_POINTER);
    match (moves_stack, sources.contains(&INSTRUCTION_POINTER)) {
        (true, true) => BlockEnd::Call,
        (true, false) => BlockEnd::Return,
        (false, _) => BlockEnd::Jump,
    }
}

/// The records so far.
#[derive(Default)]
struct ChampSim {
    /// The last instruction, whose length the next one tells.
    last: Option<Record>,
    /// All bits of instructions' addresses.
    bits: u64,
}

impl ChampSim {
    /// Adds the last instruction, whose successor is at `next`.
    #[inline]
    fn add_last(&mut self, next: Option<u64>, to: &mut Assembler) -> Result<bool, SourceError> {
        let Some(record) = self.last else { return Ok(true) };
        // Errors name the instruction's own record, which is the one before.
        to.done -= 1;
        let is_added = self.add(record, next, to);
        to.done += 1;
        is_added
    }

    #[inline]
    fn add(&mut self, record: Record, next: Option<u64>, to: &mut Assembler) -> Result<bool, SourceError> {
        let instruction = Instruction { address: VirtAddr(record.address), length: length(&record, next) };
        if !to.begin(instruction, record.end)? {
            return Ok(false);
        }
        self.last = None;
        let loads = record.loads.iter().map(|&address| (Kind::Load, address));
        let stores = record.stores.iter().map(|&address| (Kind::Store, address));
        for (kind, address) in loads.chain(stores).filter(|&(_, address)| address != 0) {
            // An instruction has room for its references.
            to.take(Reference { kind, address, bytes: reference_bytes(address) })?;
        }
        Ok(true)
    }
}

fn length(record: &Record, next: Option<u64>) -> u8 {
    let distance = next.map_or(0, |next| record.distance(next));
    match distance {
        1..=INSTRUCTION_BYTES_MAX if record.branch[1] == 0 => distance as u8,
        _ => within_page(record.address, INSTRUCTION_BYTES) as u8,
    }
}

/// Whole sizes up to 8 bytes all exist.
#[inline]
fn reference_bytes(address: u64) -> u32 {
    within_page(address, REFERENCE_BYTES) as u32
}

fn within_page(address: u64, bytes: u64) -> u64 {
    bytes.min(PAGE_BYTES - address % PAGE_BYTES)
}

impl Records for ChampSim {
    const ENGINE: &'static str = "champsim";
    const BYTES: usize = RECORD_BYTES;
    const FACTS: &'static [&'static str] = &[
        "ChampSim's records have no sizes: references are taken to have 8 bytes, and instructions the distance to the \
         next one, or 4 bytes at branches that were taken; none crosses a page because of that",
        "ChampSim's records have no threads, mappings or system calls: all is one thread's",
    ];

    #[inline]
    fn take(&mut self, bytes: &[u8], to: &mut Assembler, _notes: &Notes) -> Result<bool, SourceError> {
        let record = Record::read(bytes);
        if record.branch[0] > 1 || record.branch[1] > 1 {
            return Err(to.malformed(&format!(
                "is no instruction of ChampSim's: bytes 8 and 9 are {} and {}, where 0 or 1 is expected; its \
                 records have 64 bytes (those of CloudSuite's traces have 88 and are not read here)",
                record.branch[0], record.branch[1]
            )));
        }
        if !self.add_last(Some(record.address), to)? {
            return Ok(false);
        }
        self.bits |= record.address;
        self.last = Some(record);
        Ok(true)
    }

    fn take_last(&mut self, to: &mut Assembler) -> Result<bool, SourceError> {
        self.add_last(None, to)
    }

    fn remark(&self) -> Option<String> {
        let is_aligned = self.bits != 0 && self.bits.is_multiple_of(AARCH64_BYTES);
        is_aligned.then(|| {
            "all instructions are at multiples of 4, as AArch64's are: if the trace was made from one of CVP-1, its \
             memory footprint is not the program's, since loads of several registers have one address there and \
             updated base registers count as loaded (ChampSim issue 112)"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::told;
    use super::super::{Input, open};
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    /// A record: address, taken or not if it is a branch, destination and source registers, stores, loads.
    fn record(
        at: u64,
        branch: Option<bool>,
        registers: (&[u8], &[u8]),
        stores: &[u64],
        loads: &[u64],
    ) -> Vec<u8> {
        let mut bytes = at.to_le_bytes().to_vec();
        bytes.extend([u8::from(branch.is_some()), u8::from(branch == Some(true))]);
        bytes.extend((0..2).map(|n| registers.0.get(n).copied().unwrap_or(0)));
        bytes.extend((0..4).map(|n| registers.1.get(n).copied().unwrap_or(0)));
        bytes.extend((0..2).flat_map(|n| stores.get(n).copied().unwrap_or(0).to_le_bytes()));
        bytes.extend((0..4).flat_map(|n| loads.get(n).copied().unwrap_or(0).to_le_bytes()));
        bytes
    }

    const NONE: (&[u8], &[u8]) = (&[], &[]);

    #[test]
    fn records_become_instructions_loads_and_stores_in_this_order() {
        let call: (&[u8], &[u8]) = (&[26, 6], &[26, 6]);
        let back: (&[u8], &[u8]) = (&[26, 6], &[6]);
        let file = [
            record(0x1000, None, NONE, &[0x7000], &[0x8000, 0x9000]),
            record(0x1003, Some(false), (&[26], &[26, 25]), &[], &[]),
            record(0x1005, Some(true), call, &[0x7ff8], &[]),
            record(0x2ffe, Some(true), back, &[], &[0x7ffd]),
            record(0x100a, None, NONE, &[], &[0, 0xaffd]),
        ];
        let (read, notes, error) = told(&FORMAT, file.concat());
        assert_eq!(
            read,
            [
                "I 1000,3 Jump",
                "Load 8000,8",
                "Load 9000,8",
                "Store 7000,8",
                "I 1003,2 Jump",
                "I 1005,4 Call",
                "Store 7ff8,8",
                "I 2ffe,2 Return",
                "Load 7ffd,3",
                "I 100a,4 Jump",
                "Load affd,3",
            ],
            "what has no size ends at its page"
        );
        assert_eq!(error, None);
        assert!(notes[0].starts_with("ChampSim's records have no sizes") && notes.len() == 2, "{notes:?}");
    }

    #[test]
    fn what_may_come_from_cvp_is_named() {
        let file = [0x1000, 0x1004, 0x1010].map(|at| record(at, None, NONE, &[], &[]));
        let (_, notes, _) = told(&FORMAT, file.concat());
        assert!(notes[0].starts_with("all instructions are at multiples of 4"), "{notes:?}");
    }

    #[test]
    fn damage_is_named_by_record_after_all_before_it() {
        let good = record(0x1000, None, NONE, &[], &[]);
        let (read, _, error) = told(&FORMAT, [&good[..], &good[..40]].concat());
        assert_eq!((read.len(), error.as_deref()), (1, Some("the file ends in the middle of record 2")));
        let mut bad = good.clone();
        bad[8] = 7;
        let (read, _, error) = told(&FORMAT, [&good[..], &bad].concat());
        let error = error.unwrap();
        assert!(
            read.len() == 1 && error.starts_with("record 2 is no instruction of ChampSim's: bytes 8"),
            "{error}"
        );
        let far = record(0x1000, None, NONE, &[], &[1 << 60]);
        for file in [[&good[..], &far, &good].concat(), [&good[..], &far].concat()] {
            let error = told(&FORMAT, file).2.unwrap();
            let expected = "record 2 refers to address 0x1000000000000000, above the 57 bits";
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn files_are_recognised_by_their_records() {
        let name = |bytes: Vec<u8>| {
            let file = Input { name: "f".to_owned(), bytes: Box::new(Cursor::new(bytes)), in_folder: false };
            open(vec![file], None).map(|opened| opened.format.name).ok()
        };
        let straight = |at: u64| record(0x1000 + 4 * at, None, NONE, &[], &[0x7000]);
        assert_eq!(name((0..2000).flat_map(straight).collect()), Some("champsim"));
        assert_eq!(
            name((0..2000).flat_map(|at| straight(100 * at)).collect()),
            None,
            "no program jumps so much"
        );
        assert_eq!(name(vec![0; 6400]), None);
        assert_eq!(name(straight(0)), None, "one record could be anything");
    }

    /// Records one at a time, without batches.
    fn slow(records: &[(u64, Option<bool>, Vec<u64>)]) -> Vec<String> {
        let mut told = Vec::new();
        for (index, (at, branch, loads)) in records.iter().enumerate() {
            let next = records.get(index + 1).map_or(0, |next| next.0);
            let falls_through = *branch != Some(true) && next > *at && next - at < 16;
            let length = if falls_through { next - at } else { 4.min(4096 - at % 4096) };
            told.push(format!("I {at:x},{length} Jump"));
            let loads = loads.iter().filter(|&&address| address > 0);
            told.extend(loads.map(|address| format!("Load {address:x},{}", 8.min(4096 - address % 4096))));
        }
        told
    }

    proptest! {
        #[test]
        fn records_read_in_batches_are_read_alike(
            parts in prop::collection::vec(
                (1u64..9000, prop::option::of(any::<bool>()), prop::collection::vec(0u64..20000, 0..=4)), 0..300,
            ),
            copies in 1usize..40,
        ) {
            let records: Vec<_> = (0..copies).flat_map(|_| parts.clone()).collect();
            let file = records.iter().flat_map(|(at, branch, loads)| record(*at, *branch, NONE, &[], loads));
            let (read, _, error) = told(&FORMAT, file.collect::<Vec<u8>>());
            prop_assert_eq!((read, error), (slow(&records), None));
        }

        #[test]
        fn any_bytes_end_in_an_error_or_the_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            told(&FORMAT, bytes);
        }
    }
}
