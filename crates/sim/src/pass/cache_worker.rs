//! A thread for the caches of alternatives.
//!
//! Nobody needs what they cost before the counts are asked for. So a second thread simulates them below the first
//! level: it owns them, takes what passes in the same order, and gives them back when they are asked for.

use crate::caches::MemoryCaches;
use crate::waiting_walks::{PassedAt, WaitingWalks};
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
    pub fn new() -> CacheWorker {
        let (orders, taken) = sync_channel(PARCELS);
        thread::Builder::new()
            .name("caches".into())
            .spawn(move || work(&taken))
            .expect("a thread can be made");
        CacheWorker { orders, owns: 0, parcel: Parcel::default() }
    }

    /// Gives it the caches of a design.
    pub fn own(&mut self, design: usize, memory: Box<MemoryCaches>) {
        // What comes next is not for older parcels.
        self.send();
        self.owns |= 1 << design;
        self.order(Order::Own(design, memory));
    }

    /// Lets what passed go on to the caches of designs, after their walks.
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
                            memory.take::<false>(passed, walks, |_, _| {}, |_, _| {});
                        }
                    }
                }
            }
        }
    }
}
