//! ChampSim's traces, as the importer of that name reads them: a record of 64 bytes for each instruction
//! (`import/champsim.rs` has the layout).
//!
//! Where the stream has code, registers come from it: ChampSim tells branches apart by them, and delays instructions by
//! them. Without code, an instruction behind which another one than the next in memory runs is a direct jump.
//!
//! - A record holds four loads and two stores; an instruction with more has several records of the same address.
//! - Records have no sizes. So a reference that crosses into other pages is one for each page.
//! - References without an instruction are made by one at [`NO_CODE_ADDRESS`].
//! - All threads are in one file, in the order of the stream.

use super::flow::{Facts, Flow, MAX_BYTES};
use super::instructions::{Executed, accesses, each_instruction, places};
use super::omissions::Omission;
use super::{Encoder, Exporter, Omissions, Out};
use iced_x86::{InstructionInfoFactory, OpAccess, Register};
use pagewalk_trace::{Batch, Ref};
use pagewalk_units::{Kind, PAGE_BYTES, ThreadId};
use std::io::{self, Write};

const RECORD_BYTES: usize = 64;
/// Where a record says that it is a branch, and that the branch was taken.
const IS_BRANCH: usize = 8;
const IS_TAKEN: usize = 9;
/// Where destination and source registers, destinations and sources stand, and how many.
const DESTINATION_REGISTERS: (usize, usize) = (10, 2);
const SOURCE_REGISTERS: (usize, usize) = (12, 4);
const STORES: (usize, usize) = (16, 2);
const LOADS: (usize, usize) = (32, 4);
/// Bytes of a reference, if they fit its page.
const REFERENCE_BYTES: u64 = 8;
/// The instruction of references without one.
const NO_CODE_ADDRESS: u64 = PAGE_BYTES;

/// Registers in ChampSim's numbering, which is Pin's.
const GENERAL: [(Register, u8); 16] = [
    (Register::RDI, 3),
    (Register::RSI, 4),
    (Register::RBP, 5),
    (Register::RSP, STACK_POINTER),
    (Register::RBX, 7),
    (Register::RDX, 8),
    (Register::RCX, 9),
    (Register::RAX, 10),
    (Register::R8, 11),
    (Register::R9, 12),
    (Register::R10, 13),
    (Register::R11, 14),
    (Register::R12, 15),
    (Register::R13, 16),
    (Register::R14, 17),
    (Register::R15, 18),
];
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// The first vector register, of a number that no other register has.
const VECTORS: u8 = 64;
/// Stands for what an indirect jump reads, if that is memory alone.
const ANY: u8 = 128;

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "champsim",
    about: "ChampSim's records of 64 bytes; it reads them packed, as .xz or .gz",
    begin: |_, out| {
        Ok(Box::new(ChampSim {
            out,
            shapes: Facts::default(),
            thread: ThreadId(0),
            last: Vec::new(),
            next: 0,
        }))
    },
};

/// What the records of an instruction say of it, whenever it runs.
#[derive(Clone, Copy, Debug)]
struct Shape {
    flow: Flow,
    destinations: [u8; DESTINATION_REGISTERS.1],
    sources: [u8; SOURCE_REGISTERS.1],
}

struct ChampSim {
    out: Out,
    shapes: Facts<Shape>,
    thread: ThreadId,
    /// The records of the last instruction: the next one tells whether it jumped.
    last: Vec<([u8; RECORD_BYTES], Flow)>,
    /// The address behind it.
    next: u64,
}

impl ChampSim {
    /// Writes the last instruction, behind which the one at `next` ran.
    fn write_last(&mut self, next: u64) -> io::Result<()> {
        let has_jumped = next != self.next;
        for (mut record, flow) in self.last.drain(..) {
            let (is_branch, is_taken) = match flow {
                Flow::Plain => (false, false),
                Flow::Unknown => (has_jumped, has_jumped),
                Flow::ConditionalJump => (true, has_jumped),
                _ => (true, true),
            };
            if flow == Flow::Unknown && has_jumped {
                Shape::of_flow(Flow::Jump).write(&mut record);
            }
            (record[IS_BRANCH], record[IS_TAKEN]) = (is_branch.into(), is_taken.into());
            self.out.write_all(&record)?;
        }
        Ok(())
    }

    fn instruction(&mut self, executed: &Executed<'_>, omissions: &mut Omissions) -> io::Result<()> {
        let address = executed.instruction.map_or(NO_CODE_ADDRESS, |instruction| instruction.address.0);
        self.write_last(address)?;
        if executed.instruction.is_none() {
            omissions.add(Omission::NoCode, executed.references.len() as u64);
        }
        let shape = match executed.code {
            [] => Shape::of_flow(Flow::of_end(executed.end)),
            code if code.len() > MAX_BYTES => Shape::of_flow(Flow::of_end(executed.end)),
            code => *self.shapes.on(address, code, Shape::of),
        };
        let length = executed.instruction.map_or(0, |instruction| instruction.length);
        self.next = address.wrapping_add(length.into());
        let (loads, stores) = operands(executed.references, omissions);
        let count = 1.max(loads.len().div_ceil(LOADS.1)).max(stores.len().div_ceil(STORES.1));
        omissions.add(Omission::Repeated, u64::from(count > 1));
        let (mut loads, mut stores) = (loads.chunks(LOADS.1), stores.chunks(STORES.1));
        for number in 1..=count {
            let mut record = [0; RECORD_BYTES];
            record[..8].copy_from_slice(&address.to_le_bytes());
            // Only the last of several records can be a branch.
            let shape =
                if number == count { shape } else { Shape { flow: Flow::Plain, ..shape.without_jump() } };
            shape.write(&mut record);
            write_addresses(&mut record, LOADS.0, loads.next().unwrap_or_default());
            write_addresses(&mut record, STORES.0, stores.next().unwrap_or_default());
            self.last.push((record, shape.flow));
        }
        Ok(())
    }
}

impl Encoder for ChampSim {
    fn batch(&mut self, batch: &Batch<'_>, omissions: &mut Omissions) -> io::Result<()> {
        if batch.thread != self.thread {
            // What another thread runs next is no jump of this one.
            self.write_last(self.next)?;
            self.thread = batch.thread;
        }
        each_instruction(batch, |executed| self.instruction(&executed, omissions))
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_last(self.next)?;
        self.out.finish()
    }
}

/// Addresses that an instruction loads and stores: one for each page.
fn operands(references: &[Ref], omissions: &mut Omissions) -> (Vec<u64>, Vec<u64>) {
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for reference in references {
        let (address, bytes) = (reference.address().0, u64::from(reference.size().bytes()));
        if reference.kind() == Kind::Fetch {
            omissions.add(Omission::Fetches, 1);
            continue;
        }
        omissions.add(Omission::Modifies, u64::from(reference.kind() == Kind::Modify));
        omissions.add(Omission::Crossings, u64::from(places(address, bytes).count() > 1));
        omissions.add(Omission::Sizes, u64::from(bytes != REFERENCE_BYTES));
        for access in accesses(reference.kind()) {
            let to = if *access == Kind::Load { &mut loads } else { &mut stores };
            // 0 is no address there.
            to.extend(places(address, bytes).map(|place| place.max(1)));
        }
    }
    (loads, stores)
}

fn write_addresses(record: &mut [u8; RECORD_BYTES], at: usize, addresses: &[u64]) {
    for (slot, address) in record[at..].chunks_exact_mut(8).zip(addresses) {
        slot.copy_from_slice(&address.to_le_bytes());
    }
}

impl Shape {
    /// Of a decoded instruction.
    fn of(instruction: &iced_x86::Instruction) -> Shape {
        let flow = Flow::of(instruction);
        let mut shape = Shape::of_flow(flow);
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(instruction);
        let is_indirect = matches!(flow, Flow::IndirectJump | Flow::IndirectCall);
        for register in used.used_registers() {
            let Some(number) = number(register.register()) else { continue };
            let (reads, writes) = match register.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
            };
            if reads && (flow == Flow::Plain || is_indirect && number != STACK_POINTER) {
                replace_first(&mut shape.sources, number);
            }
            if writes && flow == Flow::Plain {
                replace_first(&mut shape.destinations, number);
            }
        }
        if flow == Flow::Plain {
            // A flag that nothing reads is left out first.
            (instruction.rflags_read() != 0).then(|| replace_first(&mut shape.sources, FLAGS));
            (instruction.rflags_modified() != 0).then(|| replace_first(&mut shape.destinations, FLAGS));
        }
        shape
    }

    /// The registers by which ChampSim knows such a branch; those of other instructions are unknown.
    fn of_flow(flow: Flow) -> Shape {
        let (destinations, sources) = match flow {
            Flow::Plain | Flow::Unknown => ([0, 0], [0; 4]),
            Flow::Jump => ([INSTRUCTION_POINTER, 0], [INSTRUCTION_POINTER, 0, 0, 0]),
            Flow::IndirectJump => ([INSTRUCTION_POINTER, 0], [ANY, 0, 0, 0]),
            Flow::ConditionalJump => ([INSTRUCTION_POINTER, 0], [INSTRUCTION_POINTER, FLAGS, 0, 0]),
            Flow::Call => ([INSTRUCTION_POINTER, STACK_POINTER], [INSTRUCTION_POINTER, STACK_POINTER, 0, 0]),
            Flow::IndirectCall => {
                ([INSTRUCTION_POINTER, STACK_POINTER], [INSTRUCTION_POINTER, STACK_POINTER, ANY, 0])
            }
            Flow::Return => ([INSTRUCTION_POINTER, STACK_POINTER], [STACK_POINTER, 0, 0, 0]),
        };
        Shape { flow, destinations, sources }
    }

    fn without_jump(self) -> Shape {
        let is_branch = !matches!(self.flow, Flow::Plain | Flow::Unknown);
        if is_branch { Shape::of_flow(Flow::Plain) } else { self }
    }

    fn write(&self, record: &mut [u8; RECORD_BYTES]) {
        let (at, count) = DESTINATION_REGISTERS;
        record[at..at + count].copy_from_slice(&self.destinations);
        let (at, count) = SOURCE_REGISTERS;
        record[at..at + count].copy_from_slice(&self.sources);
    }
}

/// Puts a register into the first free place, or that of [`ANY`]; drops it if there is none, or if it is there.
fn replace_first(registers: &mut [u8], number: u8) {
    if registers.contains(&number) {
        return;
    }
    if let Some(place) = registers.iter_mut().find(|place| matches!(**place, 0 | ANY)) {
        *place = number;
    }
}

fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    if full.is_vector_register() {
        return Some(VECTORS + full.number() as u8);
    }
    GENERAL.iter().find(|(known, _)| *known == full).map(|(_, number)| *number)
}
