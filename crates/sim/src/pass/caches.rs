//! Caches of memory beside the pass.

use crate::attribution::{Observer, Wait, Waits};
use crate::bits::bits;
use crate::caches::{MemoryCaches, logical};
use crate::pages::as_recorded;
use crate::pass::Pass;
use crate::pass::place::ReferencePlace;
use pagewalk_cache::{CacheAddress, Requester};
use pagewalk_mm::MappingId;
use pagewalk_units::{Kind, VirtAddr};

/// Fetches from one line that change nothing but counts: they wait, and are counted together.
pub(crate) struct WaitingFetches {
    line: Option<u64>,
    times: u32,
    /// log2 of the bytes of the shortest line.
    shift: u32,
    /// Whether some caches must know of each instruction.
    has_clock: bool,
}

impl<O: Observer> Pass<O> {
    /// No fetches yet.
    pub(crate) fn waiting_fetches(&self) -> WaitingFetches {
        let designs =
            || bits(self.sets.with_memory).filter_map(|design| self.designs[design].memory.as_ref());
        WaitingFetches {
            line: None,
            times: 0,
            shift: designs().map(|memory| memory.hierarchy.line_shift(Requester::Fetch)).min().unwrap_or(0),
            has_clock: designs().any(MemoryCaches::has_clock),
        }
    }

    /// Fetches an instruction in the designs with caches. Another fetch from the same line waits, if it changes only
    /// counts.
    #[inline]
    pub(crate) fn fetch_memory(
        &mut self,
        at: VirtAddr,
        bytes: u64,
        place: ReferencePlace<'_>,
        fetches: &mut WaitingFetches,
    ) {
        if fetches.has_clock {
            self.executed_in_memory();
        }
        let start = as_recorded(at).0;
        let (first, last) = (start >> fetches.shift, (start + (bytes.max(1) - 1)) >> fetches.shift);
        if fetches.line == Some(first) && first == last {
            fetches.times += 1;
            return;
        }
        self.fetched_in_memory(fetches);
        self.access_memory(Kind::Fetch, at, bytes, place);
        let address = CacheAddress::same(logical(self.store.asid, VirtAddr(last << fetches.shift)));
        let all_wait =
            self.memories().all(|memory| memory.hierarchy.repeats_alone(Requester::Fetch, address));
        fetches.line = all_wait.then_some(last);
    }

    /// Counts the fetches that wait.
    pub(crate) fn fetched_in_memory(&mut self, fetches: &mut WaitingFetches) {
        let times = std::mem::take(&mut fetches.times);
        if times > 0 {
            self.memories().for_each(|memory| memory.hierarchy.repeated(Requester::Fetch, times.into()));
        }
    }

    fn executed_in_memory(&mut self) {
        self.memories().for_each(MemoryCaches::executed);
    }

    /// The caches of the active designs that have some.
    fn memories(&mut self) -> impl Iterator<Item = &mut MemoryCaches> {
        let with = self.sets.with_memory & self.sets.active;
        let designs = self.designs.iter_mut().enumerate().filter(move |(design, _)| with >> design & 1 == 1);
        designs.filter_map(|(_, design)| design.memory.as_mut())
    }

    /// Gives a translated reference of the program to the designs with caches, and tells the observer what it misses
    /// in the first design's.
    pub(crate) fn access_memory(&mut self, kind: Kind, at: VirtAddr, bytes: u64, place: ReferencePlace<'_>) {
        let address = CacheAddress::same(logical(self.store.asid, as_recorded(at)));
        for design in bits(self.sets.with_memory & self.sets.active) {
            let Some(memory) = &mut self.designs[design].memory else { continue };
            if design > 0 || !O::OBSERVES_WAITS {
                memory.access(kind, address, bytes);
                continue;
            }
            let waits = memory.access_telling(kind, address, bytes);
            if waits != Waits::default() {
                self.observe_wait(at, waits, place);
            }
        }
    }

    fn observe_wait(&mut self, at: VirtAddr, waits: Waits, place: ReferencePlace<'_>) {
        let vpn = self.store.paging.base().number(as_recorded(at));
        let mapping = self.store.find(vpn).map(|page| self.store.pages[page as usize].mapping);
        let wait = Wait {
            page: self.store.address(vpn),
            mapping: mapping.unwrap_or(MappingId::UNKNOWN),
            instruction: place.instruction(),
            block: place.blocks.get(place.block),
            waits,
        };
        self.observer.on_wait(&wait, &self.process.space);
    }
}
