//! Visitors of a pass: an operating system's kernel and servers.

use crate::attribution::Observer;
use crate::bits::bits;
use crate::pass::Pass;
use pagewalk_trace::Batch;
use pagewalk_translate::Asid;

impl<O: Observer> Pass<O> {
    /// Runs references of a visitor with its own pages and blocks, without counting them for programs.
    ///
    /// The front keeps its entries while the kernel runs, whose page numbers are unique.
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

    /// Stops time for moving partitions at `at`, or resumes it.
    fn stop_time(&mut self, at: Option<u64>) {
        for design in bits(self.sets.mapped) {
            if let Some(mmu) = self.designs[design].first[0].software() {
                mmu.stop_time(at);
            }
        }
    }
}
