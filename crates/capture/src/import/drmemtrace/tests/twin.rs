//! A slow reader: one record after the other, without blocks, batches or tables of kinds.

use super::super::record::{Record, kind, marker};
use pagewalk_trace::{Batch, Event};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// One thing that a stream tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Instruction { thread: u32, address: u64, length: u8, code: Option<Vec<u8>> },
    Reference { thread: u32, kind: &'static str, address: u64, bytes: u32 },
    Event(Event),
}

impl Step {
    /// Equal, but for bytes of code that the blocks around do not know.
    pub fn agrees_with(&self, twin: &Step) -> bool {
        match (self, twin) {
            (
                Step::Instruction { thread, address, length, code },
                Step::Instruction { thread: thread2, address: address2, length: length2, code: code2 },
            ) => {
                (thread, address, length) == (thread2, address2, length2) && (code.is_none() || code == code2)
            }
            _ => self == twin,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Instruction { thread, address, length, code } => {
                let code = code.as_ref().map_or("?".to_owned(), |code| {
                    code.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
                });
                write!(f, "{thread} I {address:x},{length} {code}")
            }
            Step::Reference { thread, kind, address, bytes } => {
                write!(f, "{thread} {kind} {address:x},{bytes}")
            }
            Step::Event(event) => write!(f, "{event:?}"),
        }
    }
}

/// The steps of a batch.
pub fn steps(batch: &Batch<'_>) -> Vec<Step> {
    let thread = batch.thread.0;
    let mut steps = Vec::new();
    for (index, span) in batch.spans.iter().enumerate() {
        let block = batch.blocks.get(span.block);
        let mut references = batch.refs[span.first as usize..batch.span_end(index)].iter().map(|r| {
            let kind = if format!("{:?}", r.kind()) == "Load" { "Load" } else { "Store" };
            Step::Reference { thread, kind, address: r.address().0, bytes: r.size().bytes() }
        });
        let mut code = &block.code[..];
        for (number, one) in block.instructions.iter().enumerate() {
            let bytes = code.split_off(..usize::from(one.length)).map(<[u8]>::to_vec);
            steps.push(Step::Instruction { thread, address: one.address.0, length: one.length, code: bytes });
            let sites = block.sites.iter().filter(|site| usize::from(site.instruction) == number).count();
            steps.extend(references.by_ref().take(sites));
        }
        steps.extend(references);
    }
    steps
}

/// What the files tell.
pub fn read(files: &[Vec<Record>]) -> Vec<Step> {
    let mut twin = Twin { first: 1, running: 1, ..Twin::default() };
    twin.alive.insert(1);
    let mut parts: Vec<Part> =
        files.iter().enumerate().map(|(index, records)| Part::new(index, records)).collect();
    // The part that waits for the earliest time runs up to a timestamp that is later than another part's.
    while let Some(index) =
        (0..parts.len()).filter(|&i| !parts[i].is_done).min_by_key(|&i| (parts[i].time, i))
    {
        twin.switch_to(parts[index].thread);
        let others: Vec<(u64, usize)> = (0..parts.len())
            .filter(|&i| i != index && !parts[i].is_done)
            .map(|i| (parts[i].time, i))
            .collect();
        parts[index].run(&mut twin, &others, index);
    }
    twin.steps
}

#[derive(Default)]
struct Twin {
    steps: Vec<Step>,
    first: u32,
    running: u32,
    alive: BTreeSet<u32>,
    is_named: bool,
    codes: HashMap<u64, Vec<u8>>,
}

impl Twin {
    fn switch_to(&mut self, thread: u32) {
        let is_new = self.alive.insert(thread);
        if is_new || thread != self.running {
            self.name_first();
            if is_new {
                self.event(Event::ThreadStart { thread, parent: self.first });
            }
            self.event(Event::Switch { thread });
            self.running = thread;
        }
    }

    fn name_first(&mut self) {
        let has_run = self.steps.iter().any(|step| !matches!(step, Step::Event(_)));
        if !std::mem::replace(&mut self.is_named, true) && !has_run {
            self.event(Event::Switch { thread: self.first });
        }
    }

    fn event(&mut self, event: Event) {
        self.steps.push(Step::Event(event));
    }
}

struct Part {
    records: Vec<Record>,
    next: usize,
    time: u64,
    thread: u32,
    call: Option<u32>,
    code: Vec<u8>,
    in_kernel: bool,
    is_done: bool,
}

impl Part {
    fn new(index: usize, records: &[Record]) -> Part {
        let next =
            records.iter().position(|r| r.kind == kind::MARKER && r.size == marker::TIMESTAMP).unwrap();
        Part {
            time: records[next].value,
            records: records.to_vec(),
            next,
            thread: index as u32 + 1,
            call: None,
            code: Vec::new(),
            in_kernel: false,
            is_done: false,
        }
    }

    fn run(&mut self, twin: &mut Twin, others: &[(u64, usize)], index: usize) {
        loop {
            let record = self.records[self.next];
            if record.kind != kind::MARKER
                && let Some(number) = self.call.take()
                && ![kind::THREAD_EXIT, kind::FOOTER].contains(&record.kind)
            {
                twin.event(Event::Syscall { number, result: 0 });
            }
            self.next += 1;
            match record.kind {
                kind::FOOTER => {
                    self.is_done = true;
                    return;
                }
                kind::MARKER if record.size == marker::TIMESTAMP => {
                    if others.iter().any(|other| *other < (record.value, index)) {
                        self.time = record.value;
                        return;
                    }
                }
                _ => self.step(record, twin),
            }
        }
    }

    /// The last system call returned without an error.
    fn end_call(&mut self, twin: &mut Twin) {
        if let Some(number) = self.call.take() {
            twin.event(Event::Syscall { number, result: 0 });
        }
    }

    fn step(&mut self, record: Record, twin: &mut Twin) {
        let Record { kind, size, value } = record;
        let thread = twin.running;
        let is_user = value < 1 << 57;
        match kind {
            0 | 1 if is_user && !self.in_kernel => {
                let kind = if kind == 0 { "Load" } else { "Store" };
                let bytes = match size {
                    0 => 1,
                    88 if (4003..=4008).contains(&(value % 4096)) => 64,
                    88 => 94,
                    size => size.into(),
                };
                twin.steps.push(Step::Reference { thread, kind, address: value, bytes });
            }
            10..=16 | 31 | 48 | 49 => {
                self.in_kernel = !is_user;
                let code = std::mem::take(&mut self.code);
                if is_user {
                    if !code.is_empty() {
                        twin.codes.insert(value, code);
                    }
                    let code = twin.codes.get(&value).filter(|code| code.len() == usize::from(size)).cloned();
                    twin.steps.push(Step::Instruction { thread, address: value, length: size as u8, code });
                }
            }
            22 => {
                self.thread = value as u32;
                twin.switch_to(self.thread);
            }
            23 => {
                let thread = value as u32;
                if twin.alive.remove(&thread) {
                    twin.name_first();
                    twin.event(Event::ThreadEnd { thread });
                }
            }
            29 => self.code.clear(),
            47 => self.code.extend(&value.to_le_bytes()[..usize::from(size)]),
            28 => match size {
                25 => {
                    self.end_call(twin);
                    self.call = Some(value as u32);
                }
                30 => {
                    if let Some(number) = self.call.take() {
                        twin.event(Event::Syscall { number, result: -(value as i64) });
                    }
                }
                100 => {
                    self.end_call(twin);
                    twin.event(Event::Marker { id: 100 });
                }
                _ => {}
            },
            _ => {}
        }
    }
}
