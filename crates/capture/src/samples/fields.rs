//! The body of a sample record: fields in a fixed order, each present if the event's sample type has its bit.
//!
//! The library's own parser leaves out weights and data sources, and does not know the newer fields. Source:
//! `perf_output_sample` of `kernel/events/core.c`, Linux 6.12.

use linux_perf_event_reader::{BranchSampleFormat, RecordParseInfo, SampleFormat};

/// Bytes of a number.
const WORD: u64 = 8;

/// What is taken of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub code: Option<u64>,
    pub process: Option<i32>,
    pub nanoseconds: Option<u64>,
    pub address: Option<u64>,
    pub period: Option<u64>,
    pub weight: Option<u64>,
    pub source: Option<u64>,
    pub page_bytes: Option<u64>,
}

/// A record being read, little-endian.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn half(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn skip_words(&mut self, words: u64) -> Option<()> {
        self.skip(words.checked_mul(WORD)?)
    }

    /// Skips the registers that the mask names, if there are any.
    fn skip_registers(&mut self, count: u64) -> Option<()> {
        match self.word()? {
            0 => Some(()),
            _ => self.skip_words(count),
        }
    }
}

impl Fields {
    /// Reads a record of an event with this description; `None` if it ends early, or has values of counters, which are
    /// not read.
    pub fn read(bytes: &[u8], info: &RecordParseInfo) -> Option<Fields> {
        let has = |bit| info.sample_format.contains(bit);
        let mut at = Cursor(bytes);
        let mut fields = Fields::default();
        if has(SampleFormat::READ) {
            return None;
        }
        if has(SampleFormat::IDENTIFIER) {
            at.word()?;
        }
        if has(SampleFormat::IP) {
            fields.code = Some(at.word()?);
        }
        if has(SampleFormat::TID) {
            fields.process = Some(at.half()? as i32);
            at.half()?;
        }
        if has(SampleFormat::TIME) {
            fields.nanoseconds = Some(at.word()?);
        }
        if has(SampleFormat::ADDR) {
            fields.address = Some(at.word()?);
        }
        for bit in [SampleFormat::ID, SampleFormat::STREAM_ID, SampleFormat::CPU] {
            if has(bit) {
                at.word()?;
            }
        }
        if has(SampleFormat::PERIOD) {
            fields.period = Some(at.word()?);
        }
        skip_stacks(&mut at, info)?;
        if has(SampleFormat::WEIGHT) {
            fields.weight = Some(at.word()?);
        }
        if has(SampleFormat::WEIGHT_STRUCT) {
            // The lower half is the latency of the access, as in the older form.
            fields.weight = Some(at.word()? & u64::from(u32::MAX));
        }
        if has(SampleFormat::DATA_SRC) {
            fields.source = Some(at.word()?);
        }
        if has(SampleFormat::TRANSACTION) {
            at.word()?;
        }
        if has(SampleFormat::REGS_INTR) {
            at.skip_registers(u64::from(info.intr_regs_count))?;
        }
        for bit in [SampleFormat::PHYS_ADDR, SampleFormat::CGROUP] {
            if has(bit) {
                at.word()?;
            }
        }
        if has(SampleFormat::DATA_PAGE_SIZE) {
            fields.page_bytes = Some(at.word()?).filter(|&bytes| bytes > 0);
        }
        Some(fields)
    }
}

/// Skips call chains, raw data, branches, registers and the stack.
fn skip_stacks(at: &mut Cursor<'_>, info: &RecordParseInfo) -> Option<()> {
    let has = |bit| info.sample_format.contains(bit);
    if has(SampleFormat::CALLCHAIN) {
        let calls = at.word()?;
        at.skip_words(calls)?;
    }
    if has(SampleFormat::RAW) {
        let bytes = at.half()?;
        at.skip(u64::from(bytes))?;
    }
    if has(SampleFormat::BRANCH_STACK) {
        let branches = at.word()?;
        at.skip_words(u64::from(info.branch_sample_format.contains(BranchSampleFormat::HW_INDEX)))?;
        at.skip_words(branches.checked_mul(3)?)?;
    }
    if has(SampleFormat::REGS_USER) {
        at.skip_registers(u64::from(info.user_regs_count))?;
    }
    if has(SampleFormat::STACK_USER) {
        let bytes = at.word()?;
        at.skip(bytes)?;
        at.skip_words(u64::from(bytes > 0))?;
    }
    Some(())
}
