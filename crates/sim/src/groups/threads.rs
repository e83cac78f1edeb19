//! Counts by thread.

use super::{GroupCounter, GroupCounts};
use crate::counts::SpaceCounts;
use pagewalk_trace::{Batch, Event};
use pagewalk_translate::Asid;
use pagewalk_units::ThreadId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Most threads with counts of their own: programs may start any number.
const MOST: usize = 1000;

/// Counters by thread.
#[derive(Default)]
pub(super) struct Threads {
    /// Threads in order of their first run.
    all: Vec<Thread>,
    /// Indices of live threads. Thread numbers are reused.
    living: FxHashMap<(Asid, ThreadId), usize>,
    /// Number of threads of each process.
    many: FxHashMap<Asid, usize>,
}

struct Thread {
    space: Asid,
    /// Number of its process's threads that ran before it.
    before: usize,
    counts: SpaceCounts,
}

impl GroupCounter for Threads {
    fn ran(&mut self, space: Asid, batch: &Batch<'_>, counts: SpaceCounts) {
        let Threads { all, living, many } = self;
        let place = *living.entry((space, batch.thread)).or_insert_with(|| {
            let many = many.entry(space).or_default();
            all.push(Thread { space, before: *many, counts: SpaceCounts::default() });
            *many += 1;
            all.len() - 1
        });
        all[place].counts += counts;
    }

    fn happened(&mut self, space: Asid, event: &Event) {
        if let Event::ThreadStart { thread, .. } = event {
            self.living.remove(&(space, ThreadId(*thread)));
        }
    }

    /// Threads beyond [`MOST`], those with fewest walk cycles, form one group.
    fn groups(&self) -> Vec<GroupCounts> {
        if self.all.len() == self.many.len() {
            // One thread per process: the processes' counts say the same.
            return Vec::new();
        }
        let mut costliest: Vec<&Thread> = self.all.iter().collect();
        costliest.sort_by_key(|thread| Reverse(thread.counts.walk_cycles));
        let others = costliest.split_off(costliest.len().min(MOST));
        costliest.sort_by_key(|thread| (thread.space, thread.before));
        let group = |space, name, counts| GroupCounts { kind: "thread", space, name, counts };
        let told = costliest.iter().map(|of| group(of.space, (of.before + 1).to_string(), of.counts));
        let sum = others.iter().fold(SpaceCounts::default(), |mut sum, thread| {
            sum += thread.counts;
            sum
        });
        let rest = others.first().map(|of| group(of.space, format!("{} others", others.len()), sum));
        told.chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::Dictionary;
    use pagewalk_units::{RefIndex, SpaceId};

    #[test]
    fn threads_beyond_the_most_are_one_group_and_lose_nothing() {
        let blocks = Dictionary::default();
        let mut threads = Threads::default();
        let many = MOST as u64 + 5;
        for cycles in 0..many {
            // Successive threads with the same number.
            threads.happened(Asid::default(), &Event::ThreadStart { thread: 2, parent: 1 });
            let batch = Batch {
                space: SpaceId(0),
                thread: ThreadId(2),
                first: RefIndex(0),
                first_instruction: 0,
                refs: &[],
                spans: &[],
                wide: false,
                blocks: &blocks,
            };
            let counts = SpaceCounts { walk_cycles: cycles, instructions: 1, ..SpaceCounts::default() };
            threads.ran(Asid::default(), &batch, counts);
        }
        let groups = threads.groups();
        assert_eq!(groups.len(), MOST + 1);
        assert_eq!((groups[0].name.as_str(), groups[MOST].name.as_str()), ("6", "5 others"));
        assert_eq!(groups[MOST].counts.walk_cycles, 1 + 2 + 3 + 4);
        assert_eq!(groups.iter().map(|group| group.counts.instructions).sum::<u64>(), many);
    }
}
