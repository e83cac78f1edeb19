//! Reference model of a machine, simulated one reference at a time.

use crate::software::Software;
use crate::{ArrayContents, Memories, Nested, ReplacementModel, Table};
use pagewalk_units::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// One TLB array.
#[derive(Clone, Debug)]
pub struct Array {
    /// Level, 1 first.
    pub level: u8,
    /// Whether it serves fetches, loads and stores.
    pub serves: [bool; 3],
    /// log2 of the page sizes it holds.
    pub shifts: Vec<u32>,
    /// Number of neighbouring pages that one entry maps.
    pub pages_per_entry: u64,
    /// Whether it is filled by victims of the arrays above instead of by walks.
    pub victims: bool,
    /// The prefetcher, if there is one.
    pub prefetch: Option<Prefetch>,
    /// The pages held, with keys of [`Machine::key`].
    pub held: ArrayContents,
    /// Lookups.
    pub lookups: u64,
    /// Hits.
    pub hits: u64,
}

impl Array {
    /// An array with these contents.
    pub fn new(level: u8, serves: [bool; 3], shifts: Vec<u32>, held: ArrayContents) -> Array {
        Array {
            level,
            serves,
            shifts,
            pages_per_entry: 1,
            victims: false,
            prefetch: None,
            held,
            lookups: 0,
            hits: 0,
        }
    }

    /// Whether references of kind `served` to pages of this size use the array.
    pub fn takes(&self, served: usize, shift: u32) -> bool {
        self.serves[served] && self.shifts.contains(&shift)
    }

    /// The entry for the page with this key: its number, log2 of the size that it maps, and its key.
    fn entry(&self, key: u64) -> (u64, u32, u64) {
        let (number, shift) = page_of(key);
        let number = number / self.pages_per_entry;
        let mapped = shift + self.pages_per_entry.ilog2();
        (number, mapped, (key >> SPACE << SPACE) + number * 64 + u64::from(shift))
    }

    fn touch(&mut self, key: u64) -> bool {
        let entry = self.entry(key);
        self.held.touch(entry)
    }

    fn remove(&mut self, key: u64) -> bool {
        let entry = self.entry(key);
        self.held.remove(entry)
    }
}

/// The prefetch buffer of an array, and counts.
#[derive(Clone, Debug)]
pub struct Prefetch {
    /// The pages in the buffer, as in [`Array::held`].
    pub held: ReplacementModel,
    /// Number of prefetches.
    pub issued: u64,
    /// Number of useful prefetches.
    pub useful: u64,
    /// Page-table entries read for prefetches.
    pub walk_references: u64,
}

/// One page-walk cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// log2 of the number of bytes that an entry maps.
    pub shift: u32,
    /// The prefixes held.
    pub held: ReplacementModel,
    /// Lookups.
    pub lookups: u64,
    /// Hits.
    pub hits: u64,
}

impl Cache {
    /// A cache with these contents.
    pub fn new(shift: u32, held: ReplacementModel) -> Cache {
        Cache { shift, held, lookups: 0, hits: 0 }
    }

    /// Looks up a prefix of an address space, and inserts it on a miss.
    pub fn look_up(&mut self, space: u64, prefix: u64) -> bool {
        self.look_up_key(prefix, (space << SPACE) + prefix)
    }

    /// Like [`Cache::look_up`], with an explicit key.
    pub(crate) fn look_up_key(&mut self, prefix: u64, key: u64) -> bool {
        self.lookups += 1;
        let hit = self.held.touch(prefix, key);
        if hit {
            self.hits += 1;
        } else {
            self.held.fill(prefix, key);
        }
        hit
    }
}

/// Counts of walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Walks for fetches.
    pub walks_fetch: u64,
    /// Walks for data.
    pub walks_data: u64,
    /// Page-table entries read.
    pub walk_references: u64,
    /// First-level misses that hit a lower level.
    pub lower_hits: u64,
    /// Cycles of walks.
    pub walk_cycles: u64,
    /// Translations for fetches and for data; one lookup of all arrays of a level counts once.
    pub translations: [u64; 2],
    /// Translations that missed in all arrays of a level, by level.
    pub level_misses: [u64; 3],
}

/// A machine: TLB arrays, page-walk caches, counts.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Arrays in the order of the machine file.
    pub arrays: Vec<Array>,
    /// The page table.
    pub table: Table,
    /// The page-walk caches.
    pub caches: Vec<Cache>,
    /// The host's side, in a virtual machine.
    pub nested: Option<Nested>,
    /// A software-managed TLB with mapped tables, which replaces the first array's contents and the walks.
    pub software: Option<Software>,
    /// The memory caches, if there are any.
    pub memories: Option<Memories>,
    /// Addresses of page tables, by address space, log2 of the bytes that an entry maps, and prefix.
    pub tables: BTreeMap<(u64, u32, u64), u64>,
    /// Cycles per page-table entry read, if there are no memory caches.
    pub price: u64,
    /// Cycles of a first-level miss that hits a lower level.
    pub hit_price: u64,
    /// Cycles of an instruction, without address translation.
    pub instruction_price: f64,
    /// The counts.
    pub counts: Counts,
    /// The current address space.
    pub space: u64,
    /// The global pages.
    pub globals: Globals,
    /// log2 of the page sizes of the page table, if pages of other sizes exist too; those use entries of the next
    /// smaller size.
    pub leaves: Option<[u32; 2]>,
}

/// Global base pages: all address spaces that map the same content at the same page share an entry.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    /// log2 of the page size.
    pub shift: u32,
    /// By page number: the content, and the address spaces that use it.
    pub pages: BTreeMap<u64, (Content, BTreeSet<u64>)>,
}

/// The content of a global page: see [`crate::Kernel::file_page`].
pub type Content = (u64, u64, u8);

/// The bit position of the address space in keys.
pub(crate) const SPACE: u32 = 57;

/// The address space in keys of global pages.
const GLOBAL: u64 = 64;

/// Whether an address lies in the kernel's half of the address space.
fn is_kernel(address: u64) -> bool {
    address >= 1 << 56
}

/// The page number and log2 of the size in a key.
fn page_of(key: u64) -> (u64, u32) {
    (key % (1 << SPACE) / 64, (key % 64) as u32)
}

impl Machine {
    /// The key in arrays of a page of the current address space: 64 times its number plus log2 of its size, and the
    /// space.
    pub fn key(&self, shift: u32, number: u64) -> u64 {
        let global =
            shift == self.globals.shift && self.global(number).is_some() || is_kernel(number << shift);
        let space = if global { GLOBAL } else { self.space };
        (space << SPACE) + number * 64 + u64::from(shift)
    }

    /// The key of the page in page tables.
    fn table_key(&self, shift: u32, number: u64) -> u64 {
        (self.space << SPACE) + number * 64 + u64::from(shift)
    }

    /// The content of the global page that the current address space uses here, if any.
    pub fn global(&self, page: u64) -> Option<Content> {
        let (content, users) = self.globals.pages.get(&page)?;
        users.contains(&self.space).then_some(*content)
    }

    /// Records that the current address space uses a global page with this content here.
    pub fn share(&mut self, page: u64, content: Content) {
        self.globals.pages.entry(page).or_insert((content, BTreeSet::new())).1.insert(self.space);
    }

    /// Makes a page no longer global.
    pub fn end_global(&mut self, page: u64) {
        self.globals.pages.remove(&page);
        let key = (GLOBAL << SPACE) + page * 64 + u64::from(self.globals.shift);
        self.drop_key(page, key);
    }

    /// Records that the current address space no longer uses the global page.
    pub fn leave(&mut self, page: u64) {
        if let Some((_, users)) = self.globals.pages.get_mut(&page) {
            users.remove(&self.space);
        }
        self.globals.pages.retain(|_, (_, users)| !users.is_empty());
    }

    /// Drops all entries of an address space.
    pub fn flush(&mut self, space: u64) {
        if let Some(software) = &mut self.software {
            software.flush(space);
        }
        let gone = |key: u64| key >> SPACE == space;
        for array in &mut self.arrays {
            array.held.remove_where(gone);
            if let Some(prefetch) = &mut array.prefetch {
                prefetch.held.remove_where(gone);
            }
        }
        self.caches.iter_mut().for_each(|cache| cache.held.remove_where(gone));
        if let Some(nested) = &mut self.nested {
            nested.flush(space);
        }
    }

    /// Translates one page at `address`, mapped at 2^`shift` bytes. `size_at` returns log2 of the size of the page that
    /// maps an address, if there is one.
    pub fn translate(&mut self, kind: Kind, address: u64, shift: u32, size_at: impl Fn(u64) -> Option<u32>) {
        let leaf = |[base, huge]: [u32; 2]| if shift >= huge { huge } else { base };
        let (mapped, shift) = (self.leaves.map_or(shift, leaf), self.entry_size(shift));
        let served = match kind {
            Kind::Fetch => 0,
            Kind::Load => 1,
            Kind::Store | Kind::Modify => 2,
        };
        let number = address >> shift;
        let key = self.key(shift, number);
        self.counts.translations[usize::from(kind != Kind::Fetch)] += 1;
        if let Some(software) = &mut self.software {
            let (ran, cycles) = software.translate(key >> SPACE, number, is_kernel(address));
            self.counts.level_misses[0] += u64::from(ran > 0);
            self.arrays[0].lookups += 1;
            self.arrays[0].hits += u64::from(ran == 0);
            self.counts.walks_fetch += u64::from(ran > 0 && kind == Kind::Fetch);
            self.counts.walks_data += u64::from(ran > 0 && kind != Kind::Fetch);
            self.counts.walk_references += ran;
            self.counts.walk_cycles += cycles;
            return;
        }
        let last = self.arrays.iter().map(|array| array.level).max().unwrap();
        let mut found = None;
        for level in 1..=last {
            for at in 0..self.arrays.len() {
                let moves = self.moves(at, served, shift);
                let array = &mut self.arrays[at];
                if array.level != level || !array.serves[served] {
                    continue;
                }
                array.lookups += 1;
                let hit = if moves { array.remove(key) } else { array.touch(key) };
                if hit {
                    array.hits += 1;
                    found = Some(level);
                }
            }
            if found.is_some() {
                break;
            }
            self.counts.level_misses[usize::from(level) - 1] += 1;
        }
        let prefetching = |array: &Array| array.prefetch.is_some() && array.takes(served, shift);
        let prefetching = self.arrays.iter().position(prefetching);
        let prefetched = found.is_none() && prefetching.is_some_and(|at| self.take_prefetched(at, key));
        match found {
            None if prefetched => self.counts.lower_hits += 1,
            None => self.walk_for(kind, address, mapped),
            Some(1) => {}
            Some(_) => self.counts.lower_hits += 1,
        }
        let above = found.unwrap_or(last + 1);
        for level in 1..above {
            for at in 0..self.arrays.len() {
                let array = &self.arrays[at];
                if array.level == level && array.takes(served, shift) && !self.moves(at, served, shift) {
                    self.put(at, key);
                }
            }
        }
        if let (None, Some(at)) = (found, prefetching) {
            let next = (number + 1) << shift;
            if let Some(mapped) = size_at(next) {
                self.prefetch(at, next, mapped);
            }
        }
    }

    /// Performs a walk and counts it.
    fn walk_for(&mut self, kind: Kind, address: u64, mapped: u32) {
        let (references, cycles) = self.walk(address, mapped);
        self.counts.walk_references += references;
        self.counts.walk_cycles += cycles;
        *(match kind {
            Kind::Fetch => &mut self.counts.walks_fetch,
            _ => &mut self.counts.walks_data,
        }) += 1;
    }

    /// Inserts a page into all arrays that are filled by walks for it.
    pub fn fill(&mut self, kind: Kind, address: u64, shift: u32) {
        let served = (kind as usize).min(Kind::Store as usize);
        let key = self.key(shift, address >> shift);
        for level in 1..=self.arrays.iter().map(|array| array.level).max().unwrap() {
            for at in 0..self.arrays.len() {
                let array = &self.arrays[at];
                if array.level == level && array.takes(served, shift) && !self.moves(at, served, shift) {
                    self.put(at, key);
                }
            }
        }
    }

    fn take_prefetched(&mut self, at: usize, key: u64) -> bool {
        let prefetch = self.arrays[at].prefetch.as_mut().unwrap();
        let found = prefetch.held.remove(page_of(key).0, key);
        prefetch.useful += u64::from(found);
        found
    }

    /// Prefetches the page of `address`, unless the array or its buffer has it.
    fn prefetch(&mut self, at: usize, address: u64, mapped: u32) {
        let shift = self.entry_size(mapped);
        let number = address >> shift;
        let key = self.key(shift, number);
        let array = &self.arrays[at];
        let entry = array.entry(key);
        let buffered = array.prefetch.as_ref().unwrap().held.contains(number, key);
        if array.shifts.contains(&shift) && !array.held.contains(entry) && !buffered {
            let (read, _) = self.walk(address, mapped);
            let prefetch = self.arrays[at].prefetch.as_mut().unwrap();
            prefetch.held.fill(number, key);
            prefetch.issued += 1;
            prefetch.walk_references += read;
        }
    }

    /// log2 of the size of the TLB entry for a page: a guest page is split into host pages if those are smaller.
    pub fn entry_size(&self, shift: u32) -> u32 {
        self.nested.as_ref().map_or(shift, |nested| shift.min(nested.page))
    }

    /// Whether an array gets pages of this kind only as victims from above.
    fn moves(&self, at: usize, served: usize, shift: u32) -> bool {
        let level = self.arrays[at].level;
        self.arrays[at].victims && self.arrays.iter().any(|a| a.level < level && a.takes(served, shift))
    }

    /// Inserts a page into an array; the victim is inserted into the level below, and so on.
    fn put(&mut self, at: usize, key: u64) {
        let entry = self.arrays[at].entry(key);
        let Some(gone) = self.arrays[at].held.fill(entry) else { return };
        let (_, shift) = page_of(gone);
        // For each kind, the arrays of the nearest lower level that hold pages of this size.
        let mut heirs = BTreeSet::new();
        for served in (0..3).filter(|&served| self.arrays[at].takes(served, shift)) {
            let below =
                self.arrays.iter().filter(|a| a.level > self.arrays[at].level && a.takes(served, shift));
            let nearest = below.map(|a| a.level).min();
            heirs.extend((0..self.arrays.len()).filter(|&heir| {
                let array = &self.arrays[heir];
                Some(array.level) == nearest && array.takes(served, shift) && array.victims
            }));
        }
        for heir in heirs {
            self.put(heir, gone);
        }
    }

    /// Performs a walk; returns the number of page-table entries read and their cycles.
    fn walk(&mut self, address: u64, shift: u32) -> (u64, u64) {
        let key = self.table_key(shift, address >> shift);
        let mut entries = self.table.reads(address, shift, key);
        for cache in &mut self.caches {
            if cache.shift <= shift {
                cache.lookups += 1;
            } else if cache.look_up(self.space, address >> cache.shift) {
                entries.retain(|&entry| entry < cache.shift);
            }
        }
        entries.reverse();
        let addresses: Vec<u64> = match (&mut self.nested, &self.table) {
            (Some(nested), _) => nested.walk(self.space, &entries, address, shift),
            (None, &Table::Radix { base, bits, .. }) => {
                entries.iter().map(|&entry| self.entry(entry, address, base, bits)).collect()
            }
            // Without caches, the addresses do not matter.
            (None, _) => vec![0; entries.len()],
        };
        let references = addresses.len() as u64;
        let cycles = match &mut self.memories {
            Some(memories) => addresses.iter().map(|&address| memories.access(3, address)).sum(),
            None => references * self.price,
        };
        (references, cycles)
    }

    /// The address of the page-table entry that maps 2^`entry` bytes around an address.
    fn entry(&mut self, entry: u32, address: u64, base: u32, bits: u32) -> u64 {
        let next = (1 << 63) + ((self.tables.len() as u64) << base);
        let table = *self.tables.entry((self.space, entry, address >> (entry + bits))).or_insert(next);
        table + (address >> entry) % (1 << bits) * 8
    }

    /// Drops the translation of one page, or of all its pieces.
    pub fn drop_page(&mut self, shift: u32, number: u64) {
        let piece = self.entry_size(shift);
        let pieces = 1 << (shift - piece);
        (number * pieces..(number + 1) * pieces).for_each(|number| self.drop_entry(piece, number));
    }

    fn drop_entry(&mut self, shift: u32, number: u64) {
        self.drop_key(number, self.key(shift, number));
        let key = self.table_key(shift, number);
        self.table.drop_page(key);
    }

    fn drop_key(&mut self, number: u64, key: u64) {
        if let Some(software) = &mut self.software {
            software.drop_page(key >> SPACE, number);
        }
        for array in &mut self.arrays {
            array.remove(key);
            if let Some(prefetch) = &mut array.prefetch {
                prefetch.held.remove(number, key);
            }
        }
    }

    /// Drops walk-cache entries that map any byte of `[start, end)`.
    pub fn drop_tables(&mut self, start: u64, end: u64) {
        if let Some(nested) = &mut self.nested {
            nested.drop_tables(self.space, start, end);
        }
        for cache in &mut self.caches {
            let (shift, space) = (cache.shift, self.space);
            cache.held.remove_where(|key| {
                if key >> SPACE != space {
                    return false;
                }
                let prefix = key % (1 << SPACE);
                let (first, last) = (prefix << shift, (prefix << shift) + (1 << shift) - 1);
                last >= start && first < end
            });
        }
    }
}
