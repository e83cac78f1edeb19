//! Small synthetic programs, and their simulation under kernels.

use pagewalk_mm::promotion::{OfflineSettings, Policy};
use pagewalk_mm::{Account, Kernel, KernelCosts, Superpage};
use pagewalk_sim::{
    Arrangement, DesignCounts, DesignSpec, NoObserver, OfflineResult, Pass, Simulation, offline,
};
use pagewalk_trace::{
    Analysis, Batch, BatchBuffer, Block, BlockEnd, Dictionary, Event, Instruction, Item, Mapping, Origin,
    Ref, Site, Source, SourceError, Span, StreamHeader,
};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Access, BlockId, Kind, PageSize, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use std::convert::Infallible;
use std::ops::Range;

/// First page of memory: the beginning of a largest superpage, far from the code.
pub const MEMORY: u64 = 1 << 20;

/// Loads from pages, counted from [`MEMORY`], all in one area of memory.
#[derive(Clone, Debug)]
pub struct Stream {
    pub pages: Vec<u64>,
    /// Pages of the area.
    pub area: Range<u64>,
    /// The area grows over the pages as they are loaded from, by so many at a time; all of it is there from the
    /// beginning where this is 0.
    pub growth: u64,
    /// Instructions executed for each load.
    pub instructions: u64,
}

impl Stream {
    /// Loads from pages of an area that holds them all, as a multiple of the largest superpage.
    pub fn new(pages: Vec<u64>) -> Stream {
        let end = pages.iter().max().map_or(1, |&last| last + 1).next_multiple_of(2048);
        Stream { pages, area: 0..end, growth: 0, instructions: 1 }
    }

    /// The stream from its beginning.
    pub fn open(&self) -> Reader<'_> {
        let mut blocks = Dictionary::default();
        let addresses = (0..self.instructions).map(|n| 0x1000 + 4 * (n % 1000));
        let block = blocks.intern(block(addresses, &[LOAD]));
        let header = StreamHeader::unknown(Origin::Start);
        let buffer = BatchBuffer::default();
        Reader { stream: self, blocks, block, header, at: 0, mapped: self.area.start, buffer }
    }

    /// Plays the stream from its beginning.
    pub fn play(&self, mut to: &mut dyn Analysis) {
        let mut reader = self.open();
        while let Some(item) = reader.next_item().unwrap() {
            item.play(&mut to);
        }
    }

    /// The superpages that OFFLINE finds for it alone, and their counts.
    pub fn offline(&self, machine: &MachineSpec, settings: &OfflineSettings) -> OfflineResult {
        let play = |replay: &mut Simulation| {
            self.play(replay);
            Ok::<_, Infallible>(())
        };
        offline(play, machine, &Arrangement::default(), settings, |_| {}).unwrap()
    }

    /// Simulates a design with a kernel under `policy`.
    pub fn under(&self, machine: &MachineSpec, policy: Box<dyn Policy>, costs: KernelCosts) -> DesignCounts {
        self.under_and_built(machine, policy, costs).0
    }

    /// Like the previous function; also returns the superpages at the end.
    pub fn under_and_built(
        &self,
        machine: &MachineSpec,
        policy: Box<dyn Policy>,
        costs: KernelCosts,
    ) -> (DesignCounts, Vec<Superpage>) {
        let kernel = Kernel::new(PageSize::FOUR_KIB, policy, costs);
        let spec = DesignSpec::with_kernel("design".to_owned(), machine, kernel);
        let mut pass = Pass::new(vec![spec], NoObserver).unwrap();
        self.play(&mut pass);
        let counts = pass.finish().pop().unwrap();
        let memory = MEMORY + self.area.start..MEMORY + self.area.end;
        let units = pass.kernel(0).unwrap().table().units_in(memory);
        (counts, units.into_iter().filter(|unit| unit.order > 0).collect())
    }
}

/// Cycles of one account.
pub fn spent(counts: &DesignCounts, account: Account) -> u64 {
    counts.kernel.unwrap().accounts.of(account)
}

/// Cycles of misses and of building superpages, without bookkeeping.
pub fn cost(counts: &DesignCounts) -> u64 {
    30 * counts.walks() + spent(counts, Account::Copy)
}

/// A load of eight bytes.
pub const LOAD: Access = Access { kind: Kind::Load, size: Size::from_code(3) };

/// A block of instructions of 4 bytes at these addresses, the first of which makes these accesses.
pub fn block(addresses: impl IntoIterator<Item = u64>, accesses: &[Access]) -> Block {
    let instruction = |address| Instruction { address: VirtAddr(address), length: 4 };
    Block {
        instructions: addresses.into_iter().map(instruction).collect(),
        sites: accesses.iter().map(|&access| Site { instruction: 0, access }).collect(),
        code: Box::default(),
        end: BlockEnd::Jump,
    }
}

/// The blocks of a program of one instruction at this address, which makes these accesses; and that one block.
pub fn one_block(address: u64, accesses: &[Access]) -> (Dictionary, BlockId) {
    let mut blocks = Dictionary::default();
    let block = blocks.intern(block([address], accesses));
    (blocks, block)
}

/// Executions after so many references and instructions.
pub fn batch<'a>(
    (refs_before, instructions_before): (u64, u64),
    refs: &'a [Ref],
    spans: &'a [Span],
    blocks: &'a Dictionary,
) -> Batch<'a> {
    Batch {
        space: SpaceId(0),
        thread: ThreadId(1),
        first: RefIndex(refs_before),
        first_instruction: instructions_before,
        refs,
        spans,
        wide: false,
        blocks,
    }
}

/// The mapping of anonymous memory on pages of `page_bytes`.
pub fn map(start: u64, bytes: u64, page_bytes: u64) -> Event {
    Event::Map(Mapping { page_bytes, ..Mapping::anonymous(VirtAddr(start), bytes) })
}

/// Knuth's linear congruential generator.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A reader of the stream.
pub struct Reader<'a> {
    stream: &'a Stream,
    blocks: Dictionary,
    block: BlockId,
    header: StreamHeader,
    /// Loads made.
    at: usize,
    /// End of the area so far.
    mapped: u64,
    buffer: BatchBuffer,
}

impl Source for Reader<'_> {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        let Stream { pages, area, growth, instructions } = self.stream;
        let at = self.at;
        let wanted = match growth {
            0 => area.end,
            _ => pages.get(at).map_or(0, |page| (page + 1).next_multiple_of(*growth)).min(area.end),
        };
        if wanted > self.mapped {
            let event = map((MEMORY + self.mapped) << 12, (wanted - self.mapped) << 12, 4096);
            self.mapped = wanted;
            return Ok(Some(Item::Event { at: RefIndex(at as u64), event }));
        }
        let there =
            pages[at..].iter().take(Batch::TARGET_LEN).take_while(|page| **page < self.mapped).count();
        let end = at + there;
        self.buffer.clear();
        for page in &pages[at..end] {
            self.buffer.spans.push(Span { block: self.block, first: self.buffer.refs.len() as u32 });
            self.buffer.refs.push(Ref::new(VirtAddr((MEMORY + page) << 12), LOAD));
        }
        self.at = end;
        let before = (at as u64, at as u64 * instructions);
        let batch = batch(before, &self.buffer.refs, &self.buffer.spans, &self.blocks);
        Ok((at < end).then_some(Item::Batch(batch)))
    }
}
