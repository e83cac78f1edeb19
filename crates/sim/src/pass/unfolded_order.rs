//! The unfolded order: every fetch in its own place among the data references.
//!
//! It is needed if one first-level array serves fetches and data and its replacement depends on hits, or if fetches can
//! bypass the first level: the number and order of fetches then change what lower levels see.

use crate::attribution::Observer;
use crate::classes::FETCH;
use crate::fetch::instruction_pages;
use crate::moment::CodePosition;
use crate::pass::Pass;
use crate::pass::place::ReferencePlace;
use pagewalk_trace::Batch;
use pagewalk_units::Kind;

impl<O: Observer> Pass<O> {
    pub(crate) fn run_every_fetch(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        self.store.front_make_room(0);
        let batch_end = batch.span_end(spans.end - 1);
        for span in spans {
            let block = batch.blocks.get(batch.spans[span].block);
            let end = batch.span_end(span);
            let mut next = batch.spans[span].first as usize;
            let mut sites = block.sites.iter().peekable();
            self.executed.instructions += block.instructions.len() as u64;
            for index in 0..block.instructions.len() {
                self.course.left = batch_end - next;
                self.fetch_one(batch, span, index);
                while sites.next_if(|site| usize::from(site.instruction) == index).is_some() && next < end {
                    self.course.left = batch_end - next;
                    self.data(batch, span, next);
                    next += 1;
                }
            }
            // References without code.
            for index in next..end {
                self.course.left = batch_end - index;
                self.data(batch, span, index);
            }
        }
    }

    fn fetch_one(&mut self, batch: &Batch<'_>, span: usize, index: usize) {
        let at = CodePosition::Instruction(index as u32);
        let place = ReferencePlace { batch, span, at, ahead: &[] };
        let instruction = place.block().instructions[index];
        let pages = instruction_pages(&instruction, self.store.paging.base());
        let first = *pages.start();
        for vpn in pages {
            self.touch(FETCH, Kind::Fetch, vpn, 1, vpn != first, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DesignSpec, NoObserver};
    use pagewalk_mm::Small;
    use pagewalk_trace::{Analysis, Block, BlockEnd, Dictionary, Instruction, Span};
    use pagewalk_translate::MachineSpec;
    use pagewalk_units::{RefIndex, SpaceId, ThreadId, VirtAddr};
    use std::sync::Arc;

    /// One array for everything, replaced by hits.
    const UNIFIED: &str = "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"l1\"\nlevel = 1\nentries = 8\n\
                           serves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\"]\n\
                           [walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\n";

    /// A page has more fetches than a counter of the front holds.
    #[test]
    fn more_hits_of_one_page_than_its_counter_holds_are_counted() {
        let machine = MachineSpec::from_toml("m.toml", UNIFIED).unwrap();
        let mut pass = Pass::new(vec![DesignSpec::new(&machine, Arc::new(Small))], NoObserver).unwrap();
        let mut blocks = Dictionary::default();
        let block = blocks.intern(Block {
            instructions: [Instruction { address: VirtAddr(0x1000), length: 4 }].into(),
            sites: Box::default(),
            code: Box::default(),
            end: BlockEnd::Jump,
        });
        let spans = vec![Span { block, first: 0 }; 4096];
        let run = |pass: &mut Pass| {
            pass.on_batch(&Batch {
                space: SpaceId(0),
                thread: ThreadId(1),
                first: RefIndex(0),
                first_instruction: 0,
                refs: &[],
                spans: &spans,
                wide: false,
                blocks: &blocks,
            });
            spans.len() as u64
        };
        let mut executed = run(&mut pass);
        // As if all but the last few thousand had been counted.
        let page = pass.store.find(1).expect("it was fetched from");
        let more = u32::MAX - 3 * 4096;
        pass.store.count(FETCH, page, more);
        executed += (0..4).map(|_| run(&mut pass)).sum::<u64>();
        assert_eq!(pass.finish()[0].translations, [executed + u64::from(more), 0]);
    }
}
