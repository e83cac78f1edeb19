//! Processes that share a physical memory: two processes behave like one process with the pages of both, under policies
//! that look at one region at a time.

use crate::common::Process;
use crate::physical_memory::{Op, act, op, policy};
use pagewalk_mm::frames::Buddy;
use pagewalk_mm::promotion::{Fixed, Policy};
use pagewalk_mm::{Account, KernelCounts};
use pagewalk_oracle::cases;
use pagewalk_trace::MappingKind::Anonymous;
use proptest::prelude::*;

/// Where the pages of the second process are in the combined process.
const APART: u64 = 1 << 20;

/// Of those that [`policy`] knows: those whose decisions in one region depend on no other.
const LOCAL: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 8];

/// Two processes, the first of which has the memory at the start.
struct Two {
    processes: [Process; 2],
    holder: usize,
}

impl Two {
    fn new(policy: impl Fn() -> Box<dyn Policy>, memory: &Buddy, compact: bool) -> Two {
        let process = |of: u32| {
            let mut process = Process::new(policy()).with_memory(memory.clone(), compact);
            process.kernel = process.kernel.numbered(of);
            process
        };
        Two { processes: [process(0), process(1)], holder: 0 }
    }

    /// Lets one process use the memory, and tells the other what it lost.
    fn work(&mut self, of: usize, act: impl FnOnce(&mut Process)) {
        self.hand(of);
        self.tell_use(of);
        act(&mut self.processes[of]);
        for (process, loss) in self.processes[of].kernel.losses() {
            self.hand(process as usize);
            let Process { kernel, remaps, .. } = &mut self.processes[process as usize];
            kernel.lost(loss, remaps);
        }
        self.hand(of);
        self.tell_use(of);
    }

    /// Tells one process what the other uses.
    fn tell_use(&mut self, of: usize) {
        let others = self.processes[1 - of].kernel.in_use();
        self.processes[of].kernel.beside(others);
    }

    fn hand(&mut self, to: usize) {
        if self.holder != to {
            let [first, second] = &mut self.processes;
            let (from, to) = if to == 1 { (first, second) } else { (second, first) };
            from.kernel.hand_memory(&mut to.kernel);
        }
        self.holder = to;
    }

    fn counts(&self) -> KernelCounts {
        *self.processes[0].kernel.counts() + *self.processes[1].kernel.counts()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_processes_are_as_one_with_the_pages_of_both(
        number in prop::sample::select(&LOCAL[..]),
        frames in 4..100u64,
        compact in any::<bool>(),
        ops in prop::collection::vec((0..2usize, op()), 1..300),
    ) {
        let memory = Buddy::new(frames, 4);
        let mut two = Two::new(|| policy(number), &memory, compact);
        let mut one = Process::new(policy(number)).with_memory(memory, compact);
        for (of, op) in ops {
            // Children hold memory by the time of one process, and the background looks at one as a whole.
            let does_nothing = matches!(op, Op::Fork | Op::Wait(_));
            let act = |p: &mut Process, from| if !does_nothing { act(p, &op, from) };
            two.work(of, |p| act(p, 0));
            act(&mut one, APART * of as u64);
            for (of, p) in (0..).zip(&two.processes) {
                for page in 0..128 {
                    let whole = one.kernel.table().mapped(APART * of + page);
                    let unit = p.kernel.table().mapped(page);
                    prop_assert_eq!(unit.map(|unit| (unit.first + APART * of, unit.order)),
                        whole.map(|unit| (unit.first, unit.order)), "process {}, page {}", of, page);
                }
            }
            prop_assert_eq!(two.counts(), *one.kernel.counts());
            let holder = &two.processes[two.holder].kernel;
            prop_assert_eq!(holder.memory_totals(), one.kernel.memory_totals());
        }
        for of in 0..2 {
            two.hand(of);
            let frame = |page| two.processes[of].kernel.frame_of(page);
            for page in 0..128 {
                prop_assert_eq!(frame(page), one.kernel.frame_of(APART * of as u64 + page));
            }
        }
        let [a, b] = &two.processes;
        for account in Account::ALL {
            let both = a.kernel.accounts().of(account) + b.kernel.accounts().of(account);
            prop_assert_eq!(both, one.kernel.accounts().of(account), "{:?}", account);
        }
    }
}

#[test]
fn what_one_process_needs_another_gives_up() {
    let mut two = Two::new(|| Box::new(Fixed { order: 0 }), &Buddy::new(2, 0), false);
    for of in 0..2 {
        two.work(of, |p| p.map(8, 4, Anonymous));
    }
    two.work(0, |p| p.touch(8));
    two.work(0, |p| p.touch(9));
    two.work(1, |p| p.touch(8));
    let mapped = |two: &Two| two.processes.each_ref().map(|p| p.units(8, 4).len());
    assert_eq!(mapped(&two), [1, 1], "the first page of the first process has gone");
    assert_eq!(two.counts().swap_outs, 1);
    assert_eq!(two.processes[0].order(9), Some(0));
    two.work(0, |p| p.touch(8));
    assert_eq!((two.counts().swap_ins, two.processes[0].order(9)), (1, None), "the oldest goes");
    two.work(1, |p| p.kernel.ended());
    assert_eq!(two.processes[1].kernel.memory().map(Buddy::free_frames), Some(1));
}
