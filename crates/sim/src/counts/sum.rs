//! Sums of counts over cores.

use super::{CacheTotals, DesignCounts};

/// The counts of all cores together. Counts that a pass keeps once, such as instructions, are equal in each core.
pub(crate) fn sum(cores: Vec<DesignCounts>) -> DesignCounts {
    let mut cores = cores.into_iter();
    let mut sum = cores.next().expect("at least one core");
    for core in cores {
        sum.add_core(&core);
    }
    sum
}

/// Adds another core's caches of memory.
pub(crate) fn add_caches(sum: &mut [CacheTotals], own: &[CacheTotals]) {
    for (sum, own) in sum.iter_mut().zip(own) {
        sum.counts.add(own.counts);
    }
}

impl DesignCounts {
    fn add_core(&mut self, core: &DesignCounts) {
        let classes = self.arrays.iter_mut().chain(&mut self.walk_caches);
        for (sum, own) in classes.zip(core.arrays.iter().chain(&core.walk_caches)) {
            sum.lookups += own.lookups;
            sum.hits += own.hits;
        }
        for (sum, own) in self.level_misses.iter_mut().zip(&core.level_misses) {
            *sum += own;
        }
        for (sum, own) in self.prefetchers.iter_mut().zip(&core.prefetchers) {
            sum.counts.issued += own.counts.issued;
            sum.counts.useful += own.counts.useful;
            sum.counts.walk_references += own.counts.walk_references;
        }
        add_caches(&mut self.caches, &core.caches);
        if let (Some(sum), Some(own)) = (&mut self.nested_walk_references, &core.nested_walk_references) {
            sum.guest += own.guest;
            sum.host += own.host;
        }
        if let (Some(sum), Some(own)) = (&mut self.memory, core.memory) {
            sum.add(own);
        }
        for (sum, own) in self.translations.iter_mut().zip(&core.translations) {
            *sum += own;
        }
        self.lower_hits += core.lower_hits;
        self.walks_fetch += core.walks_fetch;
        self.walks_data += core.walks_data;
        self.walk_references += core.walk_references;
        if let (Some(sum), Some(own)) = (&mut self.software, &core.software) {
            sum.add(own);
        }
        self.cycles.add_core(&core.cycles);
    }
}
