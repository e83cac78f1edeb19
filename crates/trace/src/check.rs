//! Checks whether a stream keeps the rules of streams: an analysis of every batch and event.
//!
//! Errors break what [`Batch`], [`Block`](crate::Block) and [`Event`] promise, and make figures wrong. Warnings are
//! facts that a sound program's stream may show but that deserve attention, such as references outside every known
//! mapping. One finding covers all breaches of a rule: their number, and the first one in detail.

mod ranges;

use crate::{Analysis, Batch, Dictionary, Event, Mapping, Ref, Span};
use pagewalk_units::{PAGE_BYTES, RefIndex, ThreadId, VirtAddr};
use ranges::Ranges;
use std::collections::HashSet;
use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Unusual, and worth knowing.
    Warning,
    /// The stream breaks a rule: its figures cannot be trusted.
    Error,
}

/// The rules of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Spans name blocks of the dictionary.
    BlockKnown,
    /// A span begins where the references of the one before end, and the last ends with the batch.
    SpansCoverRefs,
    /// Kind and size of a reference match its site in the block.
    RefsFitSites,
    /// A batch is marked wide if, and only if, a reference is.
    WideMarked,
    /// Instructions are 1 to 15 bytes long.
    InstructionLength,
    /// Sites belong to instructions of their block.
    SiteInstruction,
    /// A block has the bytes of all its instructions, or none.
    CodeBytes,
    /// A batch starts at the reference after the last one.
    RefsContinue,
    /// A batch starts at the instruction after the last one.
    InstructionsContinue,
    /// An event is placed after the references before it.
    EventPlace,
    /// Mappings are whole pages.
    PageAligned,
    /// Batches belong to the thread that was last switched to.
    ThreadRuns,
    /// Threads that are switched to or end have started; they start once.
    ThreadKnown,
    /// Spinning instructions were executed before.
    SpinExecuted,
    /// Nothing follows the exit.
    NothingAfterExit,
    /// The recorder lost nothing.
    NothingLost,
    /// Unmapped, moved or protected ranges are mapped.
    RangeKnown,
    /// Instructions lie in executable mappings.
    CodeMapped,
    /// References lie in mappings.
    DataMapped,
}

impl Rule {
    /// The severity of a breach.
    pub fn severity(self) -> Severity {
        use Rule::*;
        match self {
            // With a region of interest, the first ones may refer to what lies before.
            SpinExecuted | NothingLost | RangeKnown | CodeMapped | DataMapped => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// A place in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPlace {
    /// Data references before.
    pub reference: u64,
    /// Block executions before.
    pub execution: u64,
    /// Events before.
    pub event: u64,
}

impl fmt::Display for StreamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reference {}, block execution {}, event {}", self.reference, self.execution, self.event)
    }
}

/// All breaches of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// The rule.
    pub rule: Rule,
    /// How often it was broken.
    pub count: u64,
    /// The place of the first.
    pub first: StreamPlace,
    /// What was wrong there.
    pub what: String,
}

impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.rule.severity() {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {} (at {}", self.what, self.first)?;
        if self.count > 1 {
            write!(f, "; {} times in all", self.count)?;
        }
        f.write_str(")")
    }
}

/// Checks a stream incrementally.
#[derive(Debug, Default)]
pub struct Checker {
    findings: Vec<CheckFinding>,
    place: StreamPlace,
    instructions: u64,
    /// Spinning instructions so far.
    spun: u64,
    blocks_checked: usize,
    mapped: Ranges,
    /// The mapping of a recent reference.
    near: (u64, u64),
    /// Increases when mappings change.
    generation: u32,
    /// By block: the generation in which its code was last checked.
    code_checked: Vec<u32>,
    thread: Option<ThreadId>,
    threads: HashSet<u32>,
    exited: bool,
}

impl Checker {
    /// A new checker.
    pub fn new() -> Self {
        Checker { generation: 1, ..Checker::default() }
    }

    /// The findings, errors first.
    pub fn finish(mut self) -> Vec<CheckFinding> {
        self.findings.sort_by_key(|finding| (std::cmp::Reverse(finding.rule.severity()), finding.rule));
        self.findings
    }

    fn found(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        match self.findings.iter_mut().find(|finding| finding.rule == rule) {
            Some(finding) => finding.count += 1,
            None => self.findings.push(CheckFinding { rule, count: 1, first: self.place, what: what() }),
        }
    }

    fn check_blocks(&mut self, blocks: &Dictionary) {
        for (number, block) in
            (self.blocks_checked..).zip(blocks.since(self.blocks_checked.min(blocks.len())))
        {
            let start = block.start();
            if let Some(odd) = block.instructions.iter().find(|i| !(1..=15).contains(&i.length)) {
                let (address, length) = (odd.address, odd.length);
                self.found(Rule::InstructionLength, || {
                    format!(
                        "the instruction at {address} in block {number} is {length} bytes long, not 1 to 15"
                    )
                });
            }
            let count = block.instructions.len();
            if let Some(site) = block.sites.iter().find(|s| count > 0 && usize::from(s.instruction) >= count)
            {
                let instruction = site.instruction;
                self.found(Rule::SiteInstruction, || {
                    format!(
                        "block {number} at {start} has a reference by instruction {instruction} of {count}"
                    )
                });
            }
            let bytes: usize = block.instructions.iter().map(|i| usize::from(i.length)).sum();
            if !block.code.is_empty() && block.code.len() != bytes {
                let code = block.code.len();
                self.found(Rule::CodeBytes, || {
                    format!("block {number} at {start} has {code} code bytes for instructions of {bytes}")
                });
            }
        }
        self.blocks_checked = blocks.len();
        self.code_checked.resize(blocks.len(), 0);
    }

    fn check_continuity(&mut self, batch: &Batch<'_>) {
        let (expected, instructions) = (self.place.reference, self.instructions);
        if batch.first.0 != expected {
            let first = batch.first.0;
            self.found(Rule::RefsContinue, || format!("a batch starts at reference {first}, not {expected}"));
        }
        if batch.first_instruction != instructions {
            let first = batch.first_instruction;
            self.found(Rule::InstructionsContinue, || {
                format!("a batch starts at instruction {first}, not {instructions}")
            });
        }
        // Continue from here, so that one gap is one finding.
        (self.place.reference, self.instructions) = (batch.first.0, batch.first_instruction);
        match self.thread {
            Some(thread) if thread != batch.thread => {
                let runs = batch.thread.0;
                self.found(Rule::ThreadRuns, || {
                    format!("thread {runs} runs where thread {} was switched to", thread.0)
                });
            }
            Some(_) => {}
            None => {
                self.threads.insert(batch.thread.0);
            }
        }
        self.thread = Some(batch.thread);
        let wide = batch.refs.iter().any(|reference| reference.size().bytes() > Batch::WIDE_BYTES);
        if wide != batch.wide {
            self.found(Rule::WideMarked, || format!("a batch says wide = {} and is {wide}", !wide));
        }
        if self.exited {
            self.found(Rule::NothingAfterExit, || "code runs after the exit".into());
        }
    }

    /// Checks one block execution with its references.
    fn check_span(&mut self, batch: &Batch<'_>, span: Span, expected: usize) -> usize {
        let Some(block) = batch.blocks.since(span.block.index().min(batch.blocks.len())).next() else {
            let known = batch.blocks.len();
            self.found(Rule::BlockKnown, || {
                format!("block {} is executed; the dictionary has {known}", span.block.0)
            });
            return expected;
        };
        let first = span.first as usize;
        let refs = batch.refs.get(first..first + block.sites.len());
        if first != expected || refs.is_none() {
            let (sites, all) = (block.sites.len(), batch.refs.len());
            self.found(Rule::SpansCoverRefs, || {
                format!(
                    "an execution of block {} starts at reference {first} of its batch's {all}, not {expected}, \
                     and makes {sites}",
                    span.block.0
                )
            });
        }
        let refs = refs.unwrap_or_default();
        for (reference, meta) in refs.iter().zip(block.metas()) {
            if reference.bits() as u8 & 127 != meta {
                self.found(Rule::RefsFitSites, || {
                    format!("{reference:?} is not what its place in block {} does", span.block.0)
                });
            }
            self.check_data(*reference);
            self.place.reference = self.place.reference.wrapping_add(1);
        }
        if !self.mapped.is_empty() && self.code_checked[span.block.index()] != self.generation {
            self.code_checked[span.block.index()] = self.generation;
            for instruction in &block.instructions {
                let start = instruction.address.0;
                if !self.mapped.covers(start, start.saturating_add(instruction.length.into()), true) {
                    self.found(Rule::CodeMapped, || {
                        format!("the instruction at {} is in no executable mapping", instruction.address)
                    });
                    break;
                }
            }
        }
        self.place.execution += 1;
        self.instructions += block.instructions.len() as u64;
        expected + block.sites.len()
    }

    #[inline]
    fn check_data(&mut self, reference: Ref) {
        let start = reference.address().0;
        let end = start + u64::from(reference.size().bytes());
        if start >= self.near.0 && end <= self.near.1 || self.mapped.is_empty() {
            return;
        }
        if self.mapped.covers(start, end, false) {
            self.near = self.mapped.around(start).unwrap_or_default();
        } else {
            self.found(Rule::DataMapped, || format!("{reference:?} is in no mapping"));
        }
    }

    fn check_event(&mut self, event: &Event) {
        if self.exited {
            self.found(Rule::NothingAfterExit, || format!("{event:?} after the exit"));
        }
        match event {
            Event::Map(Mapping { start, bytes, protection, page_bytes, .. }) => {
                let end = self.range(event, *start, *bytes, *page_bytes);
                self.mapped.insert(start.0, end, protection.execute);
            }
            Event::Unmap { start, bytes } => {
                let end = self.range(event, *start, *bytes, PAGE_BYTES);
                let known = self.mapped.remove(start.0, end);
                self.expect_known(known, event);
            }
            Event::Protect { start, bytes, protection } => {
                let end = self.range(event, *start, *bytes, PAGE_BYTES);
                let known = self.mapped.protect(start.0, end, protection.execute);
                self.expect_known(known, event);
            }
            Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
                let old_end = self.range(event, *old_start, *old_bytes, PAGE_BYTES);
                let new_end = self.range(event, *new_start, *new_bytes, PAGE_BYTES);
                let executable = self.mapped.covers(old_start.0, old_end, true);
                let known = self.mapped.remove(old_start.0, old_end);
                self.mapped.insert(new_start.0, new_end, executable);
                self.expect_known(known, event);
            }
            Event::Break { old_end, new_end } if new_end >= old_end => {
                self.mapped.insert(old_end.0, new_end.0, false);
            }
            Event::Break { old_end, new_end } => {
                let known = self.mapped.remove(new_end.0, old_end.0);
                self.expect_known(known, event);
            }
            Event::ThreadStart { .. } | Event::ThreadEnd { .. } | Event::Switch { .. } => {
                self.check_thread(event)
            }
            Event::Exit { .. } => self.exited = true,
            Event::Lost { what } => {
                self.found(Rule::NothingLost, || {
                    format!("the recorder says that something was lost: {what}")
                });
            }
            Event::Spin { instructions } => {
                self.spun = self.spun.saturating_add(*instructions);
                let (spun, executed) = (self.spun, self.instructions);
                if spun > executed {
                    self.found(Rule::SpinExecuted, || {
                        format!("{spun} instructions were spinning, but only {executed} were executed")
                    });
                }
            }
            Event::Advise { .. }
            | Event::ThpDisable { .. }
            | Event::Idle { .. }
            | Event::Fork { .. }
            | Event::Exec { .. }
            | Event::Syscall { .. }
            | Event::Reaped { .. }
            | Event::Replaced
            | Event::Marker { .. } => {}
        }
        self.generation += 1;
        self.near = (0, 0);
    }

    /// Threads start, run and end in this order.
    fn check_thread(&mut self, event: &Event) {
        match event {
            Event::ThreadStart { thread, .. } if !self.threads.insert(*thread) => {
                self.found(Rule::ThreadKnown, || format!("thread {thread} starts twice"));
            }
            Event::ThreadEnd { thread } if !self.threads.remove(thread) => {
                self.found(Rule::ThreadKnown, || format!("thread {thread} ends and had not started"));
            }
            Event::Switch { thread } => {
                // The first switch names the first thread.
                if self.thread.is_none() {
                    self.threads.insert(*thread);
                }
                if !self.threads.contains(thread) {
                    self.found(Rule::ThreadKnown, || {
                        format!("thread {thread} is switched to and had not started")
                    });
                }
                self.thread = Some(ThreadId(*thread));
            }
            _ => {}
        }
    }

    /// The end of a range of whole pages of this size.
    fn range(&mut self, event: &Event, start: VirtAddr, bytes: u64, page: u64) -> u64 {
        let end = start.0.saturating_add(bytes);
        if !start.0.is_multiple_of(page) || !bytes.is_multiple_of(page) || end > Ref::ADDRESS_END {
            self.found(Rule::PageAligned, || format!("{event:?} is not a range of whole pages"));
        }
        end
    }

    fn expect_known(&mut self, known: bool, event: &Event) {
        if !known {
            self.found(Rule::RangeKnown, || format!("{event:?} of memory that was not all mapped"));
        }
    }
}

impl Analysis for Checker {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.check_blocks(batch.blocks);
        self.check_continuity(batch);
        let mut expected = 0;
        for &span in batch.spans {
            expected = self.check_span(batch, span, expected);
        }
        if expected != batch.refs.len() {
            let all = batch.refs.len();
            self.found(Rule::SpansCoverRefs, || {
                format!("a batch of {all} references has spans for {expected}")
            });
        }
        self.place.reference = batch.first.0.wrapping_add(batch.refs.len() as u64);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        let expected = self.place.reference;
        if at.0 != expected {
            self.found(Rule::EventPlace, || {
                format!("an event is placed at reference {}, not {expected}", at.0)
            });
        }
        self.check_event(event);
        self.place.event += 1;
    }
}
