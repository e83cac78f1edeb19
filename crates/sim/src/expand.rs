//! The unfolded order: every fetch at its own place among the data references.
//!
//! Needed where one first-level array serves fetches and data and its replacement depends on hits, or where fetches can
//! bypass the first level: there, how often a page is fetched, and when, changes what the next levels see. Needed too
//! where there are caches of memory, which see every reference.

use crate::attribution::WalkObserver;
use crate::pass::{At, Pass, Place};
use crate::store::FETCH;
use pagewalk_trace::Batch;
use pagewalk_units::{Kind, VirtAddr};

impl<O: WalkObserver> Pass<O> {
    pub(crate) fn run_every_fetch(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        let batch_end = batch.span_end(spans.end - 1);
        for span in spans {
            let block = batch.blocks.get(batch.spans[span].block);
            let end = batch.span_end(span);
            let mut next = batch.spans[span].first as usize;
            let mut sites = block.sites.iter().peekable();
            self.instructions += block.instructions.len() as u64;
            for index in 0..block.instructions.len() {
                self.left = batch_end - next;
                self.fetch_one(batch, span, index);
                while sites.next_if(|site| usize::from(site.instruction) == index).is_some() && next < end {
                    self.left = batch_end - next;
                    self.data_whole(batch, span, next);
                    next += 1;
                }
            }
            // References without code.
            for index in next..end {
                self.left = batch_end - index;
                self.data_whole(batch, span, index);
            }
        }
    }

    fn data_whole(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        self.data(batch, span, index);
        if self.with_memory != 0 {
            let record = batch.refs[index];
            self.access_memory(record.kind(), record.address(), record.size().bytes().into());
        }
    }

    fn fetch_one(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        let id = batch.spans[span].block;
        let instruction = batch.blocks.get(id).instructions[index];
        let base = self.store.paging.base();
        let first = base.number(instruction.address);
        let last_byte = instruction.address.0.saturating_add(u64::from(instruction.length.max(1)) - 1);
        let place = Place { blocks: batch.blocks, block: id, at: At::Instruction(index as u32), ahead: &[] };
        for vpn in first..=base.number(VirtAddr(last_byte)) {
            self.touch(FETCH, Kind::Fetch, vpn, 1, vpn != first, place);
        }
        if self.with_memory != 0 {
            self.access_memory(Kind::Fetch, instruction.address, instruction.length.into());
        }
    }
}
