//! A thread for the caches of alternatives.
//!
//! Nobody needs what they cost before the counts are asked for. So a second thread simulates them below the first
//! level: it owns them, takes what passes in the same order, and gives them back when they are asked for.

use crate::caches::MemoryCaches;
use crate::waiting_walks::{PassedAt, WaitingWalks};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Parcels on their way.
const PARCELS: usize = 4;
/// Lines and walks of a parcel, more or less.
const PARCEL_LEN: usize = 1 << 14;

/// What passed a first level during some batches, one after the other.
#[derive(Default)]
pub(crate) struct Parcel {
    stretches: Vec<Stretch>,
    len: usize,
}

struct Stretch {
    passed: Vec<PassedAt>,
    /// By design, for all that take what passed.
    walks: Vec<(usize, WaitingWalks)>,
}

enum Order {
    Own(usize, Box<MemoryCaches>),
    Work(Parcel),
    GiveBack(Sender<Vec<(usize, Box<MemoryCaches>)>>),
}

/// The thread. It ends when this does.
pub(crate) struct CacheWorker {
    orders: SyncSender<Order>,
    /// The designs whose caches it has, one bit each.
    pub owns: u64,
    parcel: Parcel,
}

impl CacheWorker {
    /// A thread with no caches yet.
    ///
    /// # Errors
    /// If the host gives no thread.
    pub fn new() -> io::Result<CacheWorker> {
        let (orders, taken) = sync_channel(PARCELS);
        thread::Builder::new().name("caches".into()).spawn(move || work(&taken))?;
        Ok(CacheWorker { orders, owns: 0, parcel: Parcel::default() })
    }

    /// Gives it the caches of a design.
    pub fn own(&mut self, design: usize, memory: Box<MemoryCaches>) {
        // What comes next is not for older parcels.
        self.send();
        self.owns |= 1 << design;
        self.order(Order::Own(design, memory));
    }

    /// Lets what passed go on to the caches of designs, together with their walks.
    pub fn take(&mut self, passed: Vec<PassedAt>, walks: Vec<(usize, WaitingWalks)>) {
        self.parcel.len += passed.len() + walks.iter().map(|(_, walks)| walks.len()).sum::<usize>();
        self.parcel.stretches.push(Stretch { passed, walks });
        if self.parcel.len >= PARCEL_LEN {
            self.send();
        }
    }

    /// Takes all caches back, when all that passed has gone through them.
    pub fn give_back(&mut self) -> Vec<(usize, Box<MemoryCaches>)> {
        self.send();
        self.owns = 0;
        let (back, caches) = channel();
        self.order(Order::GiveBack(back));
        caches.recv().expect("the thread of caches has not failed")
    }

    fn send(&mut self) {
        let parcel = std::mem::take(&mut self.parcel);
        if !parcel.stretches.is_empty() {
            self.order(Order::Work(parcel));
        }
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("the thread of caches has not failed");
    }
}

fn work(orders: &Receiver<Order>) {
    let mut all: Vec<(usize, Box<MemoryCaches>)> = Vec::new();
    for order in orders {
        match order {
            Order::Own(design, memory) => all.push((design, memory)),
            Order::GiveBack(back) => {
                // Nobody may wait for them any more.
                _ = back.send(std::mem::take(&mut all));
            }
            Order::Work(Parcel { stretches, .. }) => {
                for (design, memory) in &mut all {
                    for Stretch { passed, walks } in &stretches {
                        let own = walks.iter().find(|(own, _)| own == design);
                        if let Some((_, walks)) = own {
                            memory.take_passed::<false>(passed, walks, |_, _| {}, |_, _| {});
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use crate::moment::Moment;
    use pagewalk_cache::{CacheAddress, Hierarchy, Requester};

    /// Caches below the first level, after three parcels or more of lines that passed it: on the thread and here.
    #[test]
    fn a_thread_counts_as_this_one() {
        let machine = Library::get("zen4+caches").unwrap();
        let mut first = Hierarchy::first_level(&machine.caches, machine.cost.memory);
        let mut memory = MemoryCaches::of(&machine).unwrap();
        memory.leave_first_level_to(0, &machine, true);
        let mut here = memory.clone();
        let mut worker = CacheWorker::new().unwrap();
        worker.own(1, Box::new(memory.send_away()));
        let mut address = 1_u64;
        for batch in 0..40 {
            let mut passed = Vec::new();
            for index in 0..PARCEL_LEN / 8 {
                address = address.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(batch);
                let by = if address >> 60 == 0 { Requester::Store } else { Requester::Load };
                first.access(by, CacheAddress::same(address >> 40));
                let moment = Moment::of_data(index);
                passed.extend(first.passed().iter().map(|&line| PassedAt { moment, line }));
                first.clear_passed();
            }
            here.take_passed::<false>(&passed, &WaitingWalks::default(), |_, _| {}, |_, _| {});
            worker.take(passed, vec![(1, WaitingWalks::default())]);
        }
        let (design, back) = worker.give_back().pop().expect("it has one");
        memory.come_back(*back);
        assert_eq!((design, memory.counts), (1, here.counts));
        assert!(here.counts.stall_cycles > 1 << 20);
        let counts =
            |memory: &MemoryCaches| [0, 1].map(|cache| memory.hierarchy.counts(cache, Requester::Load));
        assert_eq!(counts(&memory), counts(&here));
    }
}
