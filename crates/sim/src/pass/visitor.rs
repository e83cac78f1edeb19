//! Visitors of a pass: an operating system's kernel and servers.

use crate::attribution::NoObserver;
use crate::bits::bits;
use crate::pass::Pass;
use pagewalk_trace::Batch;
use pagewalk_translate::Asid;

impl Pass<NoObserver> {
    /// References of a visitor with pages and blocks of its own, of which the counters of programs take no notice.
    ///
    /// What the front holds may stay there while the kernel runs, as its page numbers are nobody else's.
    pub(crate) fn visited(&mut self, asid: Asid, batch: &Batch<'_>) {
        self.charge();
        let runs = self.store.asid;
        let programs = self.executed;
        self.stop_time(Some(self.executed.instructions));
        self.enter(asid);
        self.run(batch, 0..batch.spans.len());
        self.charge();
        self.enter(runs);
        self.executed = programs;
        self.stop_time(None);
        self.recount();
    }

    /// Has time stand still for partitions that move, or go on again.
    fn stop_time(&mut self, at: Option<u64>) {
        for design in bits(self.sets.mapped) {
            if let Some(mmu) = self.designs[design].first[0].software() {
                mmu.stop_time(at);
            }
        }
    }
}
