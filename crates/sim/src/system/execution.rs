//! Executions of blocks: fetches and data references in order.

use super::System;
use super::lookups::PageGrain;
use crate::classes::{FETCH, class_of};
use crate::code_lines::LineRun;
use crate::fetch::{FetchHead, FetchTable, Run};
use crate::moment::CodePosition;
use crate::pages::{as_recorded, pages_of};
use pagewalk_trace::{Batch, Instruction, Ref};
use pagewalk_units::{BlockId, Kind, VirtAddr};

/// A block, looked up only if needed.
struct BlockRef<'a> {
    batch: &'a Batch<'a>,
    id: BlockId,
}

impl BlockRef<'_> {
    fn instruction(&self, index: u32) -> Instruction {
        self.batch.blocks.get(self.id).instructions[index as usize]
    }

    /// The instruction after a data reference.
    fn instruction_after(&self, site: usize) -> u32 {
        let site = self.batch.blocks.get(self.id).sites.get(site);
        site.map_or(u32::MAX, |site| u32::from(site.instruction) + 1)
    }

    /// The fetches of a run up to the instruction of a data reference; at least `fetched`, since a file may have sites
    /// in any order.
    fn fetches_before(&self, site: usize, run: &Run, fetched: u32) -> u32 {
        self.instruction_after(site).saturating_sub(run.instruction).clamp(fetched, run.translations)
    }
}

impl System {
    /// Runs the spans `spans` of a batch.
    pub(super) fn run(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        if spans.is_empty() || self.killed.is_some() {
            return;
        }
        self.start();
        let before = self.clock;
        let none = FetchTable::new(self.machine().paging.base(), false);
        let mut fetches = std::mem::replace(&mut self.process().fetches, none);
        fetches.learn(batch.blocks.since(fetches.heads.len()));
        let mut lines = std::mem::take(&mut self.process().lines);
        let (grain, is_side) = (self.tlbs().line_grain(), self.is_side());
        let pages = PageGrain::of(self.machine().paging.base(), batch);
        if let Some(grain) = grain {
            lines.learn(batch.blocks.since(lines.blocks()), grain);
        }
        for span in spans {
            let id = batch.spans[span].block;
            let refs = &batch.refs[batch.spans[span].first as usize..batch.span_end(span)];
            let head = fetches.heads[id.index()];
            if is_side {
                self.decide();
                self.cores[self.core].executed += u64::from(head.instructions);
            }
            self.clock.instructions += u64::from(head.instructions);
            let own = if grain.is_some() { lines.runs(id.index()) } else { &[] };
            let hits = self.first_hits(head, refs, pages);
            if hits == Some(refs.len()) {
                self.known.repeated(FETCH, head.translations);
                self.through_caches(own, refs);
                self.observe(batch, span);
                continue;
            }
            let (block, hits) = (BlockRef { batch, id }, hits.unwrap_or(0));
            let done = if grain.is_some() {
                let among = lines.ordered_sites(id.index()).min(refs.len());
                self.execute_through_caches(&block, own, (refs, among), (hits, pages))
            } else if head.is_several() {
                self.execute(&block, fetches.runs(head), refs, hits)
            } else {
                self.execute(&block, &[head.only_run()], refs, hits)
            };
            self.observe(batch, span);
            if done.is_none() {
                break;
            }
        }
        self.count_repetitions();
        let clock = self.clock;
        let process = self.process_of(self.runs);
        (process.fetches, process.lines) = (fetches, lines);
        process.counts.instructions += clock.instructions - before.instructions;
        process.counts.data_references += clock.data_references - before.data_references;
    }

    /// Counts the repetitions so far.
    pub(super) fn count_repetitions(&mut self) {
        for (class, repeated) in self.known.take_repetitions().into_iter().enumerate() {
            if let Some((array, times)) = repeated {
                self.tlbs().repeat(class, array, times);
            }
        }
    }

    /// Translates the first data references of a block, as long as they change nothing but an order of use; returns
    /// their number. None if the block's fetches may change more, or if misses of caches make the kernel work.
    #[inline(always)]
    fn first_hits(&mut self, head: FetchHead, refs: &[Ref], pages: PageGrain) -> Option<usize> {
        if head.is_several() || !self.known.repeats(FETCH, head.vpn) || self.frames.are_watched() {
            return None;
        }
        let mut hits = self.known.repeat(refs, pages);
        // Other hits may change what fetches repeat, if these do not wait.
        while self.fetches_wait && refs.get(hits).is_some_and(|&record| self.hits(record, pages)) {
            hits += 1;
            hits += self.known.repeat(&refs[hits..], pages);
        }
        self.clock.data_references += hits as u64;
        Some(hits)
    }

    /// Sends a block whose references each lie in a page through the caches of memory, if there are some.
    #[inline(always)]
    fn through_caches(&mut self, runs: &[LineRun], refs: &[Ref]) {
        if self.frames.exist() || self.observed.is_some() && self.tlbs().memory.is_some() {
            return self.one_by_one(runs, refs);
        }
        let asid = self.asid;
        if let Some(memory) = &mut self.tlbs().memory {
            memory.access_block(runs, refs, asid);
        }
    }

    fn one_by_one(&mut self, runs: &[LineRun], refs: &[Ref]) {
        let mut next = 0;
        for (index, run) in runs.iter().enumerate() {
            self.tlbs().executed();
            self.at = CodePosition::Instruction(run.instruction);
            self.access_quietly(Kind::Fetch, run.address, run.bytes);
            self.tlbs().fetched(run.repeats);
            let end = runs.get(index + 1).map_or(refs.len(), |next| refs.len().min(next.site as usize));
            while next < end {
                let record = refs[next];
                self.at = CodePosition::Site(next);
                self.access_quietly(record.kind(), record.address(), record.size().bytes());
                next += 1;
            }
        }
    }

    /// Executes a block with fetches `runs`, whose first data references, `hits`, are translated. `None`: the process
    /// was killed.
    ///
    /// Fetches that repeat hits only change a count. They wait until a data reference may change their result, and are
    /// counted together.
    fn execute(&mut self, block: &BlockRef<'_>, runs: &[Run], refs: &[Ref], hits: usize) -> Option<()> {
        let mut next = hits;
        for (index, run) in runs.iter().enumerate() {
            let end = runs.get(index + 1).map_or(refs.len(), |run| refs.len().min(run.site as usize));
            let mut fetched = 0;
            if run.crosses || !self.known.repeats(FETCH, run.vpn) {
                self.at = CodePosition::Instruction(run.instruction);
                self.touch_anew(Kind::Fetch, run.vpn, run.crosses)?;
                fetched = 1;
            }
            let changes = self.known.changes();
            let mut wait = self.fetches_wait && self.known.repeats(FETCH, run.vpn);
            if index == 0 && !wait {
                let due = (0..hits).fold(fetched, |fetched, site| block.fetches_before(site, run, fetched));
                self.fetch(run, fetched..due)?;
                fetched = due;
            }
            while next < end {
                if !wait {
                    let due = block.fetches_before(next, run, fetched);
                    self.fetch(run, fetched..due)?;
                    fetched = due;
                }
                self.at = CodePosition::Site(next);
                self.data(refs[next])?;
                if wait && self.known.changes() != changes {
                    let due = block.fetches_before(next, run, fetched);
                    self.known.repeated(FETCH, due - fetched);
                    fetched = due;
                    wait = false;
                }
                next += 1;
            }
            self.fetch(run, fetched..run.translations)?;
        }
        // References without code.
        (next..refs.len()).try_for_each(|site| {
            self.at = CodePosition::Site(site);
            self.data(refs[site])
        })
    }

    /// Some fetches of a run.
    #[inline]
    fn fetch(&mut self, run: &Run, fetches: std::ops::Range<u32>) -> Option<()> {
        // On a data side fetches only touch their page.
        let end = if self.is_side() { fetches.end.min(fetches.start + 1) } else { fetches.end };
        for fetch in fetches.start..end {
            if self.known.repeats(FETCH, run.vpn) {
                self.known.repeated(FETCH, end - fetch);
                return Some(());
            }
            self.at = CodePosition::Instruction(run.instruction + fetch);
            self.touch_anew(Kind::Fetch, run.vpn, false)?;
        }
        Some(())
    }

    /// Executes a block whose instructions and data also go through caches of memory: data references among its
    /// instructions, and those that follow. The first, `hits`, are translated. Fetches wait while they and the data
    /// references among them are repetitions.
    fn execute_through_caches(
        &mut self,
        block: &BlockRef<'_>,
        runs: &[LineRun],
        (refs, among): (&[Ref], usize),
        (hits, pages): (usize, PageGrain),
    ) -> Option<()> {
        let mut next = 0;
        for (index, run) in runs.iter().enumerate() {
            let end = runs.get(index + 1).map_or(among, |run| among.min(run.site as usize));
            self.tlbs().executed();
            self.at = CodePosition::Instruction(run.instruction);
            let mut changes = self.fetch_through_caches(run.address, run.bytes)?;
            let mut fetched = 1;
            while next < end {
                if changes == self.known.changes() && self.frames.are_watched() && self.repeats_fetch(run) {
                    let (done, told) = self.hit_quietly(&refs[..end], next, pages);
                    next += done;
                    if let Some(vpn) = told {
                        let due = run.fetches_before(block.instruction_after(next - 1)).max(fetched);
                        changes = self.fetch_again(block, run, fetched..due, changes)?;
                        fetched = due;
                        self.tell_cache_accesses(vpn);
                    }
                    if told.is_some() || next == end {
                        continue;
                    }
                }
                let waits = next < hits || self.repeats_fetch(run) && self.only_repeats(refs[next]);
                if fetched < run.fetches() && !waits {
                    let due = run.fetches_before(block.instruction_after(next)).max(fetched);
                    changes = self.fetch_again(block, run, fetched..due, changes)?;
                    fetched = due;
                }
                self.data_through_caches(refs[next], next, next < hits)?;
                next += 1;
            }
            self.fetch_again(block, run, fetched..run.fetches(), changes)?;
        }
        (next..refs.len()).try_for_each(|index| self.data_through_caches(refs[index], index, index < hits))
    }

    /// Executes data references as long as they hit, up to one of which the kernel must hear, as the watched cache did
    /// something. `first` of `refs` is the first. Returns their number, and that one's page. Fetches wait beside them.
    #[inline(always)]
    fn hit_quietly(&mut self, refs: &[Ref], first: usize, pages: PageGrain) -> (usize, Option<u64>) {
        for (index, &record) in refs[first..].iter().enumerate() {
            let hits =
                self.known.repeat(&[record], pages) == 1 || self.fetches_wait && self.hits(record, pages);
            if !hits {
                return (index, None);
            }
            self.clock.data_references += 1;
            self.at = CodePosition::Site(first + index);
            if self.access_quietly(record.kind(), record.address(), record.size().bytes()) {
                return (index + 1, Some(self.machine().paging.base().number(record.address())));
            }
        }
        (refs.len() - first, None)
    }

    /// Fetches an instruction. Returns the cached translations' `changes` as they were when caches saw it.
    fn fetch_through_caches(&mut self, address: VirtAddr, bytes: u32) -> Option<u64> {
        self.translate_bytes(Kind::Fetch, address, bytes.into())?;
        let changes = self.known.changes();
        self.access(Kind::Fetch, address, bytes.into());
        Some(changes)
    }

    /// Fetches from a run's line again. `changes`: as at the last fetch; while they stay, only counts change.
    fn fetch_again(
        &mut self,
        block: &BlockRef<'_>,
        run: &LineRun,
        fetches: std::ops::Range<u32>,
        mut changes: u64,
    ) -> Option<u64> {
        for fetch in fetches.clone() {
            if changes == self.known.changes() && self.repeats_fetch(run) {
                let times = fetches.end - fetch;
                self.known.repeated(FETCH, times);
                self.tlbs().fetched(times);
                return Some(changes);
            }
            self.at = CodePosition::Instruction(run.instruction + fetch);
            let instruction = block.instruction(run.instruction + fetch);
            changes =
                self.fetch_through_caches(as_recorded(instruction.address), instruction.length.into())?;
        }
        Some(changes)
    }

    fn data_through_caches(&mut self, record: Ref, site: usize, is_translated: bool) -> Option<()> {
        self.at = CodePosition::Site(site);
        if !is_translated {
            self.data(record)?;
        }
        self.access(record.kind(), record.address(), record.size().bytes().into());
        Some(())
    }

    /// Whether the translation of another fetch from a run's line repeats a hit.
    #[inline]
    fn repeats_fetch(&self, run: &LineRun) -> bool {
        let last = VirtAddr(run.address.0 + u64::from(run.bytes.max(1) - 1));
        self.known.repeats(FETCH, self.machine().paging.base().number(last))
    }

    /// Whether the translation of a data reference repeats a hit, and nothing that it misses in caches makes a kernel
    /// work: it then changes no mapping and ends no process.
    #[inline]
    fn only_repeats(&self, record: Ref) -> bool {
        let (base, class) = (self.machine().paging.base(), class_of(record.kind(), true));
        let last = VirtAddr(record.address().0 + u64::from(record.size().bytes().max(1) - 1));
        let vpn = base.number(record.address());
        !self.frames.are_watched() && base.number(last) == vpn && self.known.repeats(class, vpn)
    }

    /// Translates a data reference.
    #[inline]
    fn data(&mut self, record: Ref) -> Option<()> {
        self.translate_bytes(record.kind(), record.address(), record.size().bytes().into())?;
        self.clock.data_references += 1;
        Some(())
    }

    /// Translates all pages of a reference; `address` is as records hold it.
    #[inline]
    fn translate_bytes(&mut self, kind: Kind, address: VirtAddr, bytes: u64) -> Option<()> {
        let (base, class) = (self.machine().paging.base(), class_of(kind, true));
        let vpn = base.number(address);
        let last = VirtAddr(address.0 + (bytes.max(1) - 1));
        if base.number(last) == vpn && self.known.repeats(class, vpn) {
            self.known.repeated(class, 1);
            return Some(());
        }
        let (first, last) = pages_of(base, address, bytes).into_inner();
        for vpn in first..=last {
            self.touch(kind, vpn, vpn != first)?;
        }
        Some(())
    }
}
