//! The pass: one stream, many designs.

use crate::design::{Design, DesignSpec, share_huge, splits_data};
use crate::fetch::{FetchTable, SEVERAL};
use crate::profile::PageWalks;
use crate::store::{BLOCK_SHIFT, FETCH, PAGES_PER_BLOCK, PageStore, Unit, bits, class_of};
use pagewalk_mm::{AddressSpace, Change, Fault, MappingId, PageSizePolicy, Scope};
use pagewalk_trace::{Analysis, Batch, Dictionary, Event, Span};
use pagewalk_units::{BlockId, Kind, RefIndex, VirtAddr, Vpn};
use std::sync::Arc;

/// Why a pass cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// No design, or more than one word of residency bits holds.
    #[error("{0} designs in one pass: from 1 to {max} are possible", max = Pass::<NoObserver>::DESIGNS_MAX)]
    DesignCount(usize),
}

/// A walk of the first design, as its observer sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Walk {
    /// The page walked for.
    pub vpn: Vpn,
    /// Its mapping.
    pub mapping: MappingId,
    /// Whether a fetch caused it (otherwise a data reference).
    pub fetch: bool,
    /// Page-table entries read.
    pub references: u32,
    /// The instruction that caused it; 0 where the stream has no code.
    pub instruction: VirtAddr,
    /// Instructions executed before it, those of its own block included.
    pub instructions: u64,
}

/// Told of every walk of the first design.
pub trait WalkObserver: Send {
    /// A walk happened. `space` is the address space at this moment.
    fn on_walk(&mut self, walk: &Walk, space: &AddressSpace);
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl WalkObserver for NoObserver {
    fn on_walk(&mut self, _walk: &Walk, _space: &AddressSpace) {}
}

/// What one named mapping received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingCounts {
    /// Pages touched.
    pub pages_touched: u64,
    /// Fetch references.
    pub references_fetch: u64,
    /// Data references.
    pub references_data: u64,
    /// Walks of the first design by fetches.
    pub walks_fetch: u64,
    /// Walks of the first design by data.
    pub walks_data: u64,
    /// Page-table entries that those walks read.
    pub walk_references: u64,
}

/// Memory that a huge page backed and the program never touched, while the page lived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untouched {
    pub born: u64,
    pub died: u64,
    pub pages: u64,
    pub designs: u64,
}

/// Where in the code a reference stands.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub blocks: &'a Dictionary,
    pub block: BlockId,
    pub at: At,
}

#[derive(Clone, Copy)]
pub(crate) enum At {
    Instruction(u32),
    Site(usize),
}

impl Place<'_> {
    fn instruction(&self) -> VirtAddr {
        let block = self.blocks.get(self.block);
        let found = match self.at {
            At::Instruction(i) => block.instructions.get(i as usize).copied(),
            At::Site(site) => block.instruction_of(site),
        };
        found.map_or(VirtAddr(0), |instruction| instruction.address)
    }
}

/// How far fetches have been followed in a batch.
struct FetchCursor {
    span: usize,
    run: usize,
    end: usize,
}

impl FetchCursor {
    /// The span that holds the data reference up to which fetches were followed.
    fn current(&self) -> usize {
        if self.run > 0 { self.span } else { self.span - 1 }
    }
}

/// One stream through many designs; see the crate's documentation for how.
pub struct Pass<O: WalkObserver = NoObserver> {
    pub(crate) space: AddressSpace,
    pub(crate) store: PageStore,
    pub(crate) designs: Vec<Design>,
    /// Designs that still count: a bit each.
    active: u64,
    pub(crate) observer: O,
    pub(crate) split: bool,
    pub(crate) instructions: u64,
    pub(crate) retired: Vec<Untouched>,
    pub(crate) pages_touched: u64,
    pub(crate) data_references: u64,
    mappings: Vec<MappingCounts>,
    /// Page counts of the first design that outlive their page: page number, mapping, walks.
    pub(crate) retired_walks: rustc_hash::FxHashMap<(u64, MappingId), [u64; 2]>,
    followers: Vec<Follower>,
    fetches: FetchTable,
    every_fetch: bool,
    fetching: Fetching,
    changes: Vec<Change>,
}

/// A policy for which the first design stands as long as it decides the same.
struct Follower {
    name: String,
    policy: Arc<dyn PageSizePolicy>,
    design: Option<usize>,
}

/// The page that fetches come from now, with those not yet counted.
#[derive(Clone, Copy)]
struct Fetching {
    vpn: u64,
    page: u32,
    pending: u64,
}

/// No page: as a page number it never occurs, and it differs from [`SEVERAL`].
const NOWHERE: Fetching = Fetching { vpn: SEVERAL - 1, page: 0, pending: 0 };

impl<O: WalkObserver> Pass<O> {
    /// Most designs in one pass: a residency word holds so many bits.
    pub const DESIGNS_MAX: usize = 64;

    /// A pass over `specs`; the first one is observed.
    pub fn new(specs: Vec<DesignSpec>, observer: O) -> Result<Pass<O>, PassError> {
        if specs.is_empty() || specs.len() > Self::DESIGNS_MAX {
            return Err(PassError::DesignCount(specs.len()));
        }
        let split = specs.iter().any(|spec| splits_data(&spec.machine));
        let mut pass = Pass {
            space: AddressSpace::default(),
            store: PageStore::new(),
            designs: Vec::new(),
            active: 0,
            observer,
            split,
            instructions: 0,
            retired: Vec::new(),
            pages_touched: 0,
            data_references: 0,
            mappings: Vec::new(),
            retired_walks: Default::default(),
            followers: Vec::new(),
            fetches: FetchTable::default(),
            every_fetch: false,
            fetching: NOWHERE,
            changes: Vec::new(),
        };
        for (bit, spec) in specs.into_iter().enumerate() {
            pass.add(Design::new(spec, bit, split));
            pass.store.huge_refs.push(Default::default());
        }
        Ok(pass)
    }

    fn add(&mut self, design: Design) {
        if design.policy.may_be_huge() && design.policy.scope() == Scope::Block {
            self.store.block_designs |= design.mask();
        }
        self.every_fetch |= design.needs_every_fetch(design.policy.as_ref());
        self.active |= design.mask();
        self.designs.push(design);
    }

    /// Stops a design: its counts stay as they are now.
    pub(crate) fn stop(&mut self, design: usize) {
        self.settle();
        self.active &= !self.designs[design].mask();
    }

    /// Adds a copy of the first design that is under `policy` from now on; returns its index.
    pub(crate) fn fork(&mut self, name: String, policy: Arc<dyn PageSizePolicy>) -> usize {
        self.settle();
        let bit = self.designs.len();
        let mut copy = self.designs[0].fork(&mut self.store, bit, policy);
        copy.name = name;
        self.add(copy);
        bit
    }

    /// Moves all of `mapping` to huge pages in one design.
    pub(crate) fn make_huge(&mut self, design: usize, mapping: MappingId) {
        self.settle();
        self.designs[design].make_huge(&mut self.store, mapping);
        self.note_extents(mapping);
    }

    /// Has the first design stand for `policy` as well, until the two first decide differently; from then
    /// on a design of its own does.
    pub(crate) fn follow(&mut self, name: String, policy: Arc<dyn PageSizePolicy>) {
        self.every_fetch |= self.designs[0].needs_every_fetch(policy.as_ref());
        self.followers.push(Follower { name, policy, design: None });
    }

    /// The design that stands for follower `index`.
    pub(crate) fn design_of_follower(&self, index: usize) -> usize {
        self.followers[index].design.unwrap_or(0)
    }

    /// The address space as it is now.
    pub fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Counts what the fast paths still hold, so that all counters are exact now.
    pub(crate) fn settle(&mut self) {
        self.settle_fetches();
        self.fetching = NOWHERE;
        self.store.front_clear();
    }

    fn settle_fetches(&mut self) {
        if self.fetching.pending > 0 {
            self.store.credit(self.fetching.page, FETCH, self.fetching.pending);
            self.fetching.pending = 0;
        }
    }

    /// Runs the spans `spans` of a batch.
    pub(crate) fn run(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        if spans.is_empty() {
            return;
        }
        if self.fetches.heads.is_empty() {
            self.space.start_running();
        }
        self.fetches.learn(batch.blocks.since(self.fetches.heads.len()));
        let first = batch.spans[spans.start].first as usize;
        let end = batch.span_end(spans.end - 1);
        self.data_references += (end - first) as u64;
        if self.every_fetch {
            self.run_every_fetch(batch, spans);
        } else {
            self.run_folded(batch, spans, first, end);
        }
    }

    fn run_folded(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>, first: usize, end: usize) {
        let mut cursor = FetchCursor { span: spans.start, run: 0, end: spans.end };
        let mut next = first;
        loop {
            next += self.store.take_data_hits(&batch.refs[next..end], batch.wide, self.split);
            if next == end {
                break;
            }
            self.fetch_until(batch, &mut cursor, next);
            let span = cursor.current();
            self.data(batch, span, next);
            next += 1;
        }
        self.fetch_until(batch, &mut cursor, usize::MAX);
    }

    /// Follows fetches up to data reference `until`: all that come before it in program order.
    fn fetch_until(&mut self, batch: &Batch<'_>, cursor: &mut FetchCursor, until: usize) {
        while self.stay_on_page(batch, cursor, until) {
            let span = batch.spans[cursor.span];
            let head = self.fetches.heads[span.block.index()];
            if cursor.run == 0 {
                self.instructions += u64::from(head.instructions);
            }
            if head.vpn != SEVERAL {
                let place = Place { blocks: batch.blocks, block: span.block, at: At::Instruction(0) };
                self.fetch(head.vpn, head.translations, false, place);
            } else if !self.fetch_runs(batch, cursor, until) {
                return;
            }
            cursor.span += 1;
        }
    }

    /// Follows fetches while they come from the same page: the hot loop. Says whether more come before `until`.
    fn stay_on_page(&mut self, batch: &Batch<'_>, cursor: &mut FetchCursor, until: usize) -> bool {
        let heads = self.fetches.heads.as_slice();
        let (mut pending, mut instructions, mut stayed) = (0, 0, 0);
        let mut more = false;
        for span in &batch.spans[cursor.span..cursor.end] {
            if span.first as usize > until {
                break;
            }
            let head = heads[span.block.index()];
            if head.vpn != self.fetching.vpn {
                more = true;
                break;
            }
            pending += u64::from(head.translations);
            instructions += u64::from(head.instructions);
            stayed += 1;
        }
        self.fetching.pending += pending;
        self.instructions += instructions;
        cursor.span += stayed;
        more
    }

    /// Follows the runs of the cursor's block; says whether it came to the block's end.
    fn fetch_runs(&mut self, batch: &Batch<'_>, cursor: &mut FetchCursor, until: usize) -> bool {
        let span = batch.spans[cursor.span];
        let head = self.fetches.heads[span.block.index()];
        while let Some(&run) = self.fetches.runs(head).get(cursor.run) {
            if (span.first + run.site) as usize > until {
                return false;
            }
            let place =
                Place { blocks: batch.blocks, block: span.block, at: At::Instruction(run.instruction) };
            self.fetch(run.vpn, run.translations, run.crosses, place);
            cursor.run += 1;
        }
        cursor.run = 0;
        true
    }

    /// A run of fetches from one page.
    fn fetch(&mut self, vpn: u64, translations: u32, crosses: bool, place: Place<'_>) {
        self.settle_fetches();
        let page = self.touch(FETCH, Kind::Fetch, vpn, crosses, place);
        self.fetching = Fetching { vpn, page, pending: u64::from(translations) };
    }

    /// A data reference that the front did not take.
    pub(crate) fn data(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        let record = batch.refs[index];
        let class = class_of(record.kind(), self.split);
        let Span { block, first } = batch.spans[span];
        let place = Place { blocks: batch.blocks, block, at: At::Site(index - first as usize) };
        for vpn in record.vpn().0..=record.last_vpn().0 {
            let page = self.touch(class, record.kind(), vpn, vpn != record.vpn().0, place);
            self.store.credit(page, class, 1);
        }
    }

    /// One translation; does not count the reference. `crosses`: the reference began on the page before.
    pub(crate) fn touch(
        &mut self,
        class: usize,
        kind: Kind,
        vpn: u64,
        crosses: bool,
        place: Place<'_>,
    ) -> u32 {
        let front = self.store.front_hit(class, vpn);
        let page = front.or_else(|| self.store.find(vpn)).unwrap_or_else(|| self.fault(vpn));
        let done = if crosses { self.note_crossing(class, vpn, page) } else { 0 };
        if front.is_none() {
            self.access(class, kind, page, done, place);
        }
        page
    }

    /// Both halves of a crossing reference may lie in one huge page: then the second is no lookup of its
    /// own. Returns the designs for which it is none.
    fn note_crossing(&mut self, class: usize, vpn: u64, page: u32) -> u64 {
        let Some(before) = self.store.find(vpn - 1) else { return 0 };
        let shared = share_huge(&self.store, before, page);
        for design in bits(shared) {
            self.designs[design].counts.inside_huge[class] += 1;
        }
        shared
    }

    /// A translation that not all designs are known to hit. It is done for the designs in `done`.
    fn access(&mut self, class: usize, kind: Kind, page: u32, done: u64, place: Place<'_>) {
        self.store.now += 1;
        for design in bits(self.active & !self.store.held(page, class) & !done) {
            let walked = self.designs[design].miss(&mut self.store, class, kind, page);
            if let (0, Some(references)) = (design, walked) {
                self.observe(page, class == FETCH, references, place);
            }
        }
        self.store.stamp(page, class);
        if self.active & !self.store.held(page, class) == 0 {
            self.store.front_insert(class, page);
        }
    }

    fn observe(&mut self, page: u32, fetch: bool, references: u32, place: Place<'_>) {
        let page = &mut self.store.pages[page as usize];
        page.walks[usize::from(!fetch)] += 1;
        page.walk_references += u64::from(references);
        let walk = Walk {
            vpn: Vpn(page.vpn),
            mapping: page.mapping,
            fetch,
            references,
            instruction: place.instruction(),
            instructions: self.instructions,
        };
        self.observer.on_walk(&walk, &self.space);
    }

    /// First touch of a page: the policies decide.
    fn fault(&mut self, vpn: u64) -> u32 {
        let address = Vpn(vpn).start();
        let named = self.space.mapping_of(Vpn(vpn));
        let mapping = self.kernel_huge_page_at(vpn).unwrap_or(named);
        let page = self.store.add_page(vpn, mapping, self.instructions);
        self.pages_touched += 1;
        self.counts_of(mapping).pages_touched += 1;
        let id = self.store.pages[page as usize].unit;
        if self.store.units[id as usize].pages_peak == 1 {
            self.store.units[id as usize].extent = extent(&self.space, mapping, vpn >> BLOCK_SHIFT);
        }
        self.part_followers(vpn, id);
        let fault = |populated| Fault::new(vpn >> BLOCK_SHIFT, mapping, self.space.vma(address), populated);
        let populated = self.store.populated(id);
        let unit = &mut self.store.units[id as usize];
        for design in self.designs.iter().filter(|design| design.decides()) {
            if (unit.huge | unit.small) & design.mask() == 0 {
                let huge = design.policy.wants_huge(&fault(populated & design.mask() != 0));
                *(if huge { &mut unit.huge } else { &mut unit.small }) |= design.mask();
            }
        }
        page
    }

    /// Gives a design of its own to every follower that decides otherwise than the first design.
    fn part_followers(&mut self, vpn: u64, unit: u32) {
        let Unit { huge, small, mapping, .. } = self.store.units[unit as usize];
        if (huge | small) & 1 != 0 {
            return;
        }
        let populated = self.store.populated(unit) & 1 != 0;
        let vma = self.space.vma(Vpn(vpn).start());
        let fault = Fault::new(vpn >> BLOCK_SHIFT, mapping, vma, populated);
        let first = self.designs[0].policy.wants_huge(&fault);
        let parts = |f: &Follower| f.design.is_none() && f.policy.wants_huge(&fault) != first;
        let parting: Vec<usize> =
            (0..self.followers.len()).filter(|&index| parts(&self.followers[index])).collect();
        for index in parting {
            let Follower { name, policy, .. } = &self.followers[index];
            let (name, policy) = (name.clone(), Arc::clone(policy));
            self.followers[index].design = Some(self.fork(name, policy));
        }
    }

    /// The mapping of the kernel-made huge page that backs `vpn`, if one does. Areas that grow together
    /// change names; a huge page keeps the name it was made under.
    fn kernel_huge_page_at(&self, vpn: u64) -> Option<MappingId> {
        let made =
            |unit: &&Unit| bits(unit.huge).any(|design| self.designs[design].policy.splits(unit.mapping));
        self.store.units_in(vpn >> BLOCK_SHIFT).find(made).map(|unit| unit.mapping)
    }

    pub(crate) fn counts_of(&mut self, mapping: MappingId) -> &mut MappingCounts {
        if self.mappings.len() <= mapping.index() {
            self.mappings.resize(mapping.index() + 1, MappingCounts::default());
        }
        &mut self.mappings[mapping.index()]
    }

    /// Notes how much of each unit of `mapping` is mapped now.
    pub(crate) fn note_extents(&mut self, mapping: MappingId) {
        for unit in self.store.units.iter_mut().filter(|unit| unit.pages > 0 && unit.mapping == mapping) {
            unit.extent = unit.extent.max(extent(&self.space, mapping, unit.number));
        }
    }

    fn apply(&mut self, change: Change) {
        let (Change::Gone { start, bytes } | Change::Flushed { start, bytes }) = change;
        let vpns = start.vpn().0..VirtAddr(start.0 + (bytes - 1)).vpn().0 + 1;
        let pages = self.store.pages_in(vpns.clone());
        for &page in &pages {
            for design in &mut self.designs {
                design.invalidate(&mut self.store, page);
            }
        }
        for design in &mut self.designs {
            design.walker.invalidate(start, bytes);
        }
        self.split_at_ends(vpns);
        if matches!(change, Change::Gone { .. }) {
            for page in pages {
                self.retire(page);
            }
        }
    }

    /// The kernel splits a huge page when a range covers part of it: the rest goes on as small pages.
    fn split_at_ends(&mut self, vpns: std::ops::Range<u64>) {
        let mut ends = vec![vpns.start >> BLOCK_SHIFT, (vpns.end - 1) >> BLOCK_SHIFT];
        ends.dedup();
        for block in ends {
            let of_block = block << BLOCK_SHIFT..(block + 1) << BLOCK_SHIFT;
            if vpns.start <= of_block.start && of_block.end <= vpns.end {
                continue;
            }
            for page in self.store.pages_in(of_block) {
                self.split(page);
            }
        }
    }

    /// Splits the huge page that holds `page` in every design whose policy has the kernel do so.
    fn split(&mut self, page: u32) {
        let unit = self.store.pages[page as usize].unit;
        let Unit { huge, mapping, .. } = self.store.units[unit as usize];
        for design in bits(huge) {
            let design = &mut self.designs[design];
            if design.policy.splits(mapping) {
                design.invalidate(&mut self.store, page);
                let unit = &mut self.store.units[unit as usize];
                unit.huge &= !design.mask();
                unit.small |= design.mask();
            }
        }
    }

    /// Moves a page's counts to its mapping and forgets it.
    fn retire(&mut self, page: u32) {
        let gone = self.store.pages[page as usize].clone();
        add_page(self.counts_of(gone.mapping), &gone);
        if gone.walks != [0; 2] {
            let kept = self.retired_walks.entry((gone.vpn, gone.mapping)).or_default();
            kept[0] += gone.walks[0];
            kept[1] += gone.walks[1];
        }
        self.store.remove_page(page);
        let Unit { pages, block, .. } = self.store.units[gone.unit as usize];
        if pages == 0 {
            self.note_untouched_of_unit(gone.unit);
            self.store.remove_unit(gone.unit);
        }
        if self.store.blocks[block as usize].pages == 0 {
            self.note_untouched_of_block(block);
        }
    }

    /// Notes what a unit's huge page backed for nothing.
    pub(crate) fn note_untouched_of_unit(&mut self, unit: u32) {
        let unit = &self.store.units[unit as usize];
        let pages = unit.extent.saturating_sub(unit.pages_peak).into();
        let (born, died) = (unit.born, self.instructions);
        self.note_untouched(Untouched { born, died, pages, designs: unit.huge });
    }

    /// The same for a block.
    pub(crate) fn note_untouched_of_block(&mut self, block: u32) {
        let block = &self.store.blocks[block as usize];
        let pages = PAGES_PER_BLOCK - u64::from(block.pages_peak);
        let (born, died) = (block.born, self.instructions);
        self.note_untouched(Untouched { born, died, pages, designs: self.store.block_designs });
    }

    fn note_untouched(&mut self, life: Untouched) {
        if life.pages > 0 && life.designs != 0 {
            self.retired.push(life);
        }
    }
}

fn extent(space: &AddressSpace, mapping: MappingId, block: u64) -> u32 {
    space.pages_within(mapping, block << 21, (block + 1) << 21) as u32
}

impl<O: WalkObserver> Analysis for Pass<O> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.run(batch, 0..batch.spans.len());
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        self.space.apply(event, &mut changes);
        if !changes.is_empty() {
            // The page being fetched from may go or move to another size.
            self.settle_fetches();
            self.fetching = NOWHERE;
        }
        for &change in &changes {
            self.apply(change);
        }
        self.changes = changes;
    }
}

/// Attribution by page and mapping, of the first design.
impl<O: WalkObserver> Pass<O> {
    /// Walks so far of each mapping that has some.
    pub(crate) fn walks_by_mapping(&self) -> std::collections::BTreeMap<MappingId, u64> {
        let mut walks = std::collections::BTreeMap::new();
        for page in self.store.live() {
            let page = &self.store.pages[page as usize];
            *walks.entry(page.mapping).or_default() += page.walks[0] + page.walks[1];
        }
        for (&(_, mapping), kept) in &self.retired_walks {
            *walks.entry(mapping).or_default() += kept[0] + kept[1];
        }
        walks
    }

    /// What each mapping received, all told.
    pub(crate) fn mapping_counts(&mut self) -> std::collections::BTreeMap<MappingId, MappingCounts> {
        let mut all = self.mappings.clone();
        for page in self.store.live() {
            let page = &self.store.pages[page as usize];
            let index = page.mapping.index();
            add_page(&mut all[index], page);
        }
        let rows = all.into_iter().enumerate().filter(|(_, counts)| counts.pages_touched > 0);
        rows.map(|(index, counts)| (MappingId(index as u32), counts)).collect()
    }

    /// Walks of each page that has some, costliest first.
    pub(crate) fn page_walks(&self) -> Vec<PageWalks> {
        let mut walks = self.retired_walks.clone();
        for page in self.store.live() {
            let page = &self.store.pages[page as usize];
            if page.walks != [0; 2] {
                let kept = walks.entry((page.vpn, page.mapping)).or_default();
                kept[0] += page.walks[0];
                kept[1] += page.walks[1];
            }
        }
        let mut rows: Vec<PageWalks> = walks
            .into_iter()
            .map(|((vpn, mapping), [walks_fetch, walks_data])| PageWalks {
                vpn: Vpn(vpn),
                mapping,
                walks_fetch,
                walks_data,
            })
            .collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.walks_fetch + row.walks_data), row.vpn, row.mapping));
        rows
    }
}

/// Adds a page's counts to its mapping's.
fn add_page(counts: &mut MappingCounts, page: &crate::store::Page) {
    let [fetches, loads, stores] = page.refs;
    counts.references_fetch += fetches;
    counts.references_data += loads + stores;
    counts.walks_fetch += page.walks[0];
    counts.walks_data += page.walks[1];
    counts.walk_references += page.walk_references;
}
