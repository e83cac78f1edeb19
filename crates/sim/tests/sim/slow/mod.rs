//! The slow side: a machine and a kernel of `oracle` fed operation by operation, and the fast side's feed.

use crate::random::{self, Op, Program, Random};
use pagewalk_cache::{AddressUsed, CacheFills, CacheOrganisation, CacheSpec, Requester, StoreRule};
use pagewalk_oracle::{
    Array, ArrayContents, Cache, Column, Counts, Globals, Hashed, Kernel, Machine, Memories, Memory, Nested,
    Paging, Prefetch, ReplacementModel, Skewed, Table, most_at_once, software,
};
use pagewalk_setassoc::{Geometry, Replacement};
use pagewalk_trace::{Analysis, Batch, BatchBuffer, Ref, Span};
use pagewalk_translate::{
    CostSpec, Fills, MachineSpec, MissClass, NestedSpec, Objective, RadixSpec, SoftwareSpec, TlbSpec,
    WalkCacheSpec, WalkerSpec,
};
use pagewalk_units::{Access, Kind, RefIndex, SpaceId, VirtAddr};
use std::collections::{BTreeMap, BTreeSet};

/// A slow machine and kernel fed reference by reference.
pub struct Slow {
    /// The machine, or the running core.
    pub machine: Machine,
    /// The other cores.
    pub others: Vec<Machine>,
    pub kernel: Kernel,
    /// Kernels of the other address spaces.
    pub parked: Vec<Kernel>,
    /// Whether pages of files are global that never could be written.
    pub global_files: bool,
    /// Pages that stores have come to, by address space.
    pub stored: BTreeSet<(u64, u64)>,
    /// Instructions executed, on all cores and in all address spaces.
    pub instructions: u64,
}

impl Slow {
    pub fn new(spec: &MachineSpec, paging: Paging) -> Slow {
        let arrays = spec.tlbs.iter().map(|tlb| {
            let serves = [Kind::Fetch, Kind::Load, Kind::Store].map(|kind| tlb.serves.has(kind));
            let shifts = tlb.page_sizes.iter().map(|size| size.shift()).collect();
            let held = slow_held(tlb);
            let victims = tlb.fills == Fills::Victims;
            let prefetch = tlb.prefetch.map(|buffer| Prefetch {
                held: replacing(buffer.geometry, buffer.replacement, "modulo"),
                issued: 0,
                useful: 0,
                walk_references: 0,
            });
            Array {
                victims,
                prefetch,
                pages_per_entry: tlb.pages_per_entry.into(),
                ..Array::new(tlb.level, serves, shifts, held)
            }
        });
        let (base, huge) = (spec.paging.base().shift(), spec.paging.huge().shift());
        let (mut caches, mut nested) = (Vec::new(), None);
        let mut tree = |radix: &RadixSpec| {
            caches = slow_caches(radix);
            Table::Radix { base, bits: huge - base, levels: radix.levels.into() }
        };
        let table = match &spec.walker {
            WalkerSpec::Radix(radix) => tree(radix),
            WalkerSpec::Nested(spec) => {
                nested = Some(slow_nested(spec));
                tree(&spec.guest)
            }
            WalkerSpec::Hashed(hashed) => Table::Hashed(Hashed::new(
                hashed.buckets.sets(),
                hashed.entries_per_bucket as usize,
                &hashed.index.to_string(),
            )),
            WalkerSpec::Software | WalkerSpec::Mapped(_) => Table::Software,
        };
        let arrays = arrays.collect();
        let memories = (!spec.caches.is_empty()).then(|| slow_memories(spec));
        let CostSpec { walk_reference: price, l2_hit, cycles_per_instruction, .. } = spec.cost;
        let (tables, counts) = (BTreeMap::new(), Counts::default());
        let globals = Globals { shift: base, pages: BTreeMap::new() };
        let (space, leaves) = (0, None);
        let machine = Machine {
            arrays,
            table,
            caches,
            nested,
            software: spec.software().map(slow_software),
            memories,
            tables,
            price,
            hit_price: l2_hit,
            instruction_price: cycles_per_instruction,
            counts,
            space,
            globals,
            leaves,
        };
        let mut kernel = Kernel::new(paging, [base, huge]);
        kernel.maps_hugetlb = spec.has_huge_pages() && spec.software().is_none();
        let (others, parked, stored) = (Vec::new(), Vec::new(), BTreeSet::new());
        Slow { machine, others, kernel, parked, global_files: false, stored, instructions: 0 }
    }

    /// First touches in all address spaces.
    pub fn faults(&self) -> u64 {
        self.kernels().map(|kernel| kernel.faults).sum()
    }

    /// Most bytes that were backed in all address spaces at one time, and never touched.
    pub fn untouched_bytes(&self) -> u64 {
        let lives: Vec<_> = self.kernels().flat_map(|kernel| kernel.lives(self.instructions)).collect();
        most_at_once(&lives) << self.kernel.shifts[0]
    }

    fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        [&self.kernel].into_iter().chain(&self.parked)
    }

    /// A reference: each page of it in ascending order, one lookup per page at the size it is mapped.
    pub fn reference(&mut self, kind: Kind, address: u64, bytes: u64) {
        let mut seen = None;
        let base = self.kernel.shifts[0];
        for vpn in address >> base..=(address + bytes - 1) >> base {
            let new = !self.kernel.touched.contains(&vpn);
            if address < 1 << 56 {
                self.trap(kind, vpn, new);
            } else if new {
                // The kernel's pages are those of all spaces.
                self.parked.iter_mut().for_each(|kernel| _ = kernel.touched.insert(vpn));
            }
            self.kernel.now = self.instructions;
            let shift = self.kernel.touch(vpn);
            if new {
                self.share(vpn);
            }
            let entry = self.machine.entry_size(shift);
            let page = (entry, vpn << base >> entry);
            if seen != Some(page) {
                let kernel = &self.kernel;
                // Of a huge page in pieces only those that were touched are known.
                let in_pieces = self.machine.entry_size(kernel.shifts[1]) < kernel.shifts[1];
                let present = |vpn: u64| match in_pieces {
                    true => kernel.touched.contains(&vpn).then(|| kernel.size(vpn)),
                    false => kernel.present(vpn),
                };
                self.machine.translate(kind, vpn << base, shift, |address| present(address >> base));
            }
            seen = Some(page);
        }
        if let Some(memories) = &mut self.machine.memories {
            let requester = match kind {
                Kind::Fetch => Requester::Fetch,
                Kind::Load => Requester::Load,
                Kind::Store | Kind::Modify => Requester::Store,
            };
            let address = [(self.machine.space << 57) + address; 2];
            let executed = memories.instructions as f64 * self.machine.instruction_price;
            memories.now = executed as u64 + memories.stall_cycles;
            if kind == Kind::Modify
                && memories
                    .caches
                    .iter()
                    .any(|cache| cache.writes_through && cache.serves[Requester::Store as usize])
            {
                memories.stall_cycles += memories.access_bytes(Requester::Load as usize, address, bytes);
            }
            memories.stall_cycles += memories.access_bytes(requester as usize, address, bytes);
        }
    }

    /// First touches, and first stores after others.
    fn trap(&mut self, kind: Kind, page: u64, new: bool) {
        let key = (self.machine.space, page);
        let stores = matches!(kind, Kind::Store | Kind::Modify);
        if new {
            self.stored.remove(&key);
        }
        let first_store = stores && self.stored.insert(key);
        if let Some(software) = &mut self.machine.software {
            software.misses[software::INVALID] += u64::from(new);
            software.misses[software::MODIFY] += u64::from(first_store && !new);
        }
    }

    pub fn op(&mut self, program: &Program, op: &Op) {
        match op {
            Op::Run { block, addresses } => {
                let block = program.blocks.get(*block);
                let instructions = block.instructions.len() as u64;
                self.instructions += instructions;
                if let Some(software) = &mut self.machine.software {
                    software.instructions += instructions;
                }
                let mut sites = block.sites.iter().zip(addresses).peekable();
                for (i, instruction) in block.instructions.iter().enumerate() {
                    self.machine.memories.iter_mut().for_each(|memories| memories.instructions += 1);
                    self.reference(Kind::Fetch, instruction.address.0, instruction.length.into());
                    while let Some((site, &address)) = sites.next_if(|(s, _)| usize::from(s.instruction) == i)
                    {
                        let Access { kind, size } = site.access;
                        self.reference(kind, address, size.bytes().into());
                    }
                }
            }
            Op::Map { start, pages, anonymous } => {
                let before = self.map(*start..start + pages, *anonymous);
                self.drop_pieces(before, true);
            }
            Op::MapHuge { start, pages, page } => {
                let before = self.map(*start..start + pages, false);
                self.kernel.hugetlb.extend((*start..start + pages).map(|vpn| (vpn, *page)));
                self.drop_pieces(before, true);
            }
            Op::Forbid(mode) => self.kernel.forbidden = *mode,
            Op::MapFile { start, pages, file, offset, rights } => {
                let before = self.map(*start..start + pages, false);
                for vpn in *start..start + pages {
                    self.kernel.rights.insert(vpn, *rights);
                    if rights & 2 == 0 {
                        self.kernel.files.insert(vpn, (*file, offset + vpn - start));
                    }
                }
                self.drop_pieces(before, true);
            }
            Op::Unmap { start, pages } => {
                let before = self.mapped_pieces(*start..start + pages);
                for vpn in *start..start + pages {
                    self.kernel.mapped.remove(&vpn);
                    self.kernel.hugetlb.remove(&vpn);
                    self.kernel.files.remove(&vpn);
                }
                self.drop_pieces(before, true);
            }
            Op::Discard { start, pages } => self.drop_piece(*start..start + pages, true),
            Op::Advise { start, pages, advice } => {
                let shift = self.kernel.shifts[1];
                for block in self.kernel.advise(*start, start + pages, *advice) {
                    self.cores().for_each(|core| core.drop_page(shift, block));
                    self.cores().for_each(|core| core.drop_tables(block << shift, (block + 1) << shift));
                }
            }
            Op::Protect { start, pages, rights } => {
                // What has these rights already keeps its translations. All rights are what memory is mapped with.
                let others = self.pieces(*start..start + pages, |vpn| {
                    self.kernel.rights.get(&vpn).unwrap_or(&random::ALL) != rights
                });
                for vpn in *start..start + pages {
                    self.kernel.rights.insert(vpn, *rights);
                    if rights & 2 != 0 {
                        self.kernel.files.remove(&vpn);
                    }
                }
                self.drop_pieces(others, false);
            }
        }
    }

    /// Maps these pages in place of what was there; returns the pieces that were mapped.
    fn map(&mut self, range: std::ops::Range<u64>, anonymous: bool) -> Vec<std::ops::Range<u64>> {
        let before = self.mapped_pieces(range.clone());
        for vpn in range {
            self.kernel.mapped.insert(vpn, anonymous);
            self.kernel.hugetlb.remove(&vpn);
            self.kernel.advice.remove(&vpn);
            self.kernel.rights.remove(&vpn);
            self.kernel.files.remove(&vpn);
        }
        before
    }

    /// A page that is new, or mapped anew, may be a global one, or end one.
    fn share(&mut self, page: u64) {
        if !self.global_files {
            return;
        }
        let content = self.kernel.file_page(page);
        let global = self.machine.globals.pages.get(&page).map(|(holds, _)| *holds);
        if global.is_some() && global != content {
            self.machine.end_global(page);
        } else if let Some(content) = content
            && (global.is_some() || !self.parked.iter().any(|kernel| kernel.touched.contains(&page)))
        {
            self.machine.share(page, content);
        }
    }

    /// Calls take what is mapped, piece by piece; discarding takes the range as a whole.
    fn drop_pieces(&mut self, pieces: Vec<std::ops::Range<u64>>, gone: bool) {
        pieces.into_iter().for_each(|piece| self.drop_piece(piece, gone));
    }

    fn cores(&mut self) -> impl Iterator<Item = &mut Machine> {
        [&mut self.machine].into_iter().chain(&mut self.others)
    }

    fn drop_piece(&mut self, piece: std::ops::Range<u64>, gone: bool) {
        self.kernel.now = self.instructions;
        for (shift, number) in self.kernel.invalidate(piece.start, piece.end, gone) {
            self.cores().for_each(|core| core.drop_page(shift, number));
        }
        self.cores().for_each(|core| core.drop_tables(piece.start << 12, piece.end << 12));
        for page in self.kernel.pages_of(piece.start, piece.end) {
            let touched = self.kernel.touched.contains(&page);
            let now = self.kernel.file_page(page).filter(|_| touched);
            if self.machine.global(page).is_some_and(|content| Some(content) != now) {
                self.machine.leave(page);
                if touched {
                    self.share(page);
                }
            }
        }
    }

    fn mapped_pieces(&self, range: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        self.pieces(range, |_| true)
    }

    /// The mapped pieces of 4 KiB that are `wanted`: neighbours together.
    fn pieces(&self, range: std::ops::Range<u64>, wanted: impl Fn(u64) -> bool) -> Vec<std::ops::Range<u64>> {
        let mut pieces: Vec<std::ops::Range<u64>> = Vec::new();
        for (&vpn, _) in self.kernel.mapped.range(range).filter(|(vpn, _)| wanted(**vpn)) {
            match pieces.last_mut() {
                Some(piece) if piece.end == vpn => piece.end += 1,
                _ => pieces.push(vpn..vpn + 1),
            }
        }
        pieces
    }
}

fn slow_software(spec: &SoftwareSpec) -> software::Software {
    let below = match spec.placement.to_string().as_str() {
        "A" => vec![software::L2],
        "B" => vec![software::L2, software::L3],
        "C" => vec![software::L2, software::L3, software::L1K],
        _ => vec![],
    };
    let tuning = spec.tuning.map(|tuning| software::Tuning {
        period: tuning.period,
        step: tuning.step.into(),
        threshold: tuning.threshold,
        bounds: (tuning.lower_min.into(), tuning.lower_max.into()),
        by_instruction: tuning.objective == Objective::Instructions,
        probe_after: tuning.probe_after.into(),
        up: true,
        window: (0, 0, 0),
        before: None,
        quiet: 0,
    });
    software::Software {
        slots: vec![None; spec.slots as usize],
        lower: spec.lower as usize,
        ways: spec.ways as usize,
        random: [spec.lower_replacement, spec.upper_replacement].map(Replacement::seed),
        draws: [0; 2],
        below,
        entries: 1 << spec.entries_shift,
        tables: spec.system.tables.into(),
        cycles: MissClass::ALL.map(|class| spec.system.cycles[class as usize].unwrap_or(0)),
        misses: [0; 6],
        arrivals: 0,
        tuning,
        instructions: 0,
    }
}

fn slow_cache(shift: u32, cache: WalkCacheSpec) -> Cache {
    Cache::new(shift, replacing(cache.geometry, cache.replacement, "modulo"))
}

fn slow_caches(radix: &RadixSpec) -> Vec<Cache> {
    let base = radix.format.paging().base().shift();
    let bits = radix.format.paging().huge_order();
    let height = |name: &str| match name {
        "pde" => 1,
        "pdpte" => 2,
        "pml4" => 3,
        "pml5" => 4,
        // The height above the leaves, which are level 3 on Arm and level 0 on RISC-V.
        level if radix.format.name().starts_with("aarch64") => 3 - level[1..].parse::<u32>().unwrap(),
        level => level[1..].parse().unwrap(),
    };
    radix.caches().map(|(name, cache)| slow_cache(base + bits * height(name), cache)).collect()
}

fn slow_memories(spec: &MachineSpec) -> Memories {
    let memory = |cache: &CacheSpec| {
        let serves = Requester::ALL.map(|requester| cache.serves.has(requester));
        let (sets, ways) = (cache.geometry.sets(), cache.geometry.ways());
        let sets = sets * cache.slices.next_power_of_two() as usize;
        let held = ReplacementModel::new(
            sets,
            ways,
            cache.replacement.name(),
            cache.replacement.seed().unwrap_or(0),
            "modulo",
        );
        let mut memory = Memory::new(cache.level, serves, cache.latency, held);
        memory.inclusive = cache.inclusive;
        memory.bytes = 1 << cache.line_shift;
        memory.slow_latency = cache.slow_latency();
        if let CacheOrganisation::Column { .. } = cache.organisation {
            memory.column = Some(Column::new(cache.geometry.sets() as u64));
        }
        memory.write_buffer = cache.write_buffer.map(|buffer| (buffer.entries as usize, buffer.drain));
        memory.slices = cache.slices.into();
        memory.writes_through = cache.stores == StoreRule::Through;
        memory.is_virtual = cache.address == AddressUsed::Virtual;
        memory.holds_victims = cache.fills == CacheFills::Victims;
        memory
    };
    Memories::new(spec.caches.iter().map(memory).collect(), spec.cost.memory)
}

fn slow_nested(spec: &NestedSpec) -> Nested {
    Nested {
        levels: spec.host.levels.into(),
        page: spec.host_page.shift(),
        caches: slow_caches(&spec.host),
        nested_tlb: spec.nested_tlb.map(|tlb| slow_cache(spec.host_page.shift(), tlb.cache)),
        serves_pages: spec.nested_tlb.is_some_and(|tlb| tlb.serves_pages),
        entry_cache: spec.entry_cache.map(|cache| slow_cache(0, cache)),
        places: BTreeMap::new(),
        host_tables: BTreeMap::new(),
        read: Vec::new(),
        end: 0,
        guest: 0,
        host: 0,
    }
}

fn slow_held(tlb: &TlbSpec) -> ArrayContents {
    match tlb.index.to_string().as_str() {
        "skewed" => {
            let shifts = tlb.page_sizes.iter().map(|size| size.shift() + tlb.pages_per_entry.ilog2());
            ArrayContents::Skewed(Skewed::new(tlb.geometry.sets(), tlb.geometry.ways(), shifts.collect()))
        }
        index => ArrayContents::Sets(replacing(tlb.geometry, tlb.replacement, index)),
    }
}

fn replacing(geometry: Geometry, replacement: Replacement, index: &str) -> ReplacementModel {
    let seed = replacement.seed().unwrap_or(0);
    ReplacementModel::new(geometry.sets(), geometry.ways(), replacement.name(), seed, index)
}

/// Feeds the program to the pass in batches cut at random places.
pub fn feed(pass: &mut impl Analysis, program: &Program, random: &mut Random) {
    let mut buffer = BatchBuffer::default();
    let (mut refs, mut instructions) = (0, 0);
    let mut flush = |pass: &mut dyn Analysis, buffer: &mut BatchBuffer| {
        let batch = Batch {
            space: SpaceId(0),
            thread: program.thread,
            first: RefIndex(refs),
            first_instruction: instructions,
            refs: &buffer.refs,
            spans: &buffer.spans,
            wide: buffer.wide,
            blocks: &program.blocks,
        };
        pass.on_batch(&batch);
        refs += buffer.refs.len() as u64;
        instructions += batch.instructions();
        buffer.clear();
    };
    for op in &program.ops {
        if let Op::Run { block, addresses } = op {
            let first = buffer.refs.len() as u32;
            buffer.spans.push(Span { block: *block, first });
            for (site, &address) in program.blocks.get(*block).sites.iter().zip(addresses) {
                buffer.refs.push(Ref::new(VirtAddr(address), site.access));
                buffer.wide |= site.access.size.bytes() > Batch::WIDE_BYTES;
            }
            if random.below(50) == 0 {
                flush(pass, &mut buffer);
            }
        } else {
            flush(pass, &mut buffer);
            pass.on_event(RefIndex(0), &op.event());
        }
    }
    flush(pass, &mut buffer);
}
