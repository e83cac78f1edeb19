//! The caches of alternatives, below the first level.
//!
//! Nobody needs what they cost before the counts are asked for. So they may be simulated on a second thread: it owns
//! them, takes what passes in the same order, and gives them back when they are asked for.

use crate::caches::MemoryCaches;
use crate::caches::passage::Nobody;
use crate::caches::waiting_walks::{PassedAt, WaitingWalks};
use pagewalk_cache::PartLines;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Parcels on their way.
const PARCELS: usize = 4;
/// Lines and walks of a parcel, more or less.
const PARCEL_LEN: usize = 1 << 14;

/// What passed a first level during a part of a batch.
#[derive(Default)]
pub(crate) struct Passage {
    /// What parts of the caches hold before.
    pub parts: Vec<PartLines>,
    pub passed: Vec<PassedAt>,
    /// By design, for all that take it.
    pub walks: Vec<(usize, WaitingWalks)>,
}

/// Passages one after the other.
#[derive(Default)]
struct Parcel {
    passages: Vec<Passage>,
    len: usize,
}

/// A design and its caches.
type Owned = (usize, Box<MemoryCaches>);

enum Order {
    Own(Owned),
    Work(Parcel),
    GiveBack(Sender<Vec<Owned>>),
}

/// Who simulates them.
enum Place {
    Here(Vec<Owned>),
    /// A thread, which ends when this does.
    There(SyncSender<Order>),
}

/// The caches, wherever they are.
pub(crate) struct CacheWorker {
    place: Place,
    /// The designs whose caches it has, one bit each.
    pub owns: u64,
    parcel: Parcel,
}

impl CacheWorker {
    /// On this thread, with no caches yet.
    pub fn here() -> CacheWorker {
        CacheWorker::at(Place::Here(Vec::new()))
    }

    /// On a thread of its own, with no caches yet.
    ///
    /// # Errors
    /// If the host gives no thread.
    pub fn thread() -> io::Result<CacheWorker> {
        let (orders, taken) = sync_channel(PARCELS);
        thread::Builder::new().name("caches".into()).spawn(move || work(&taken))?;
        Ok(CacheWorker::at(Place::There(orders)))
    }

    fn at(place: Place) -> CacheWorker {
        CacheWorker { place, owns: 0, parcel: Parcel::default() }
    }

    /// Gives it the caches of a design.
    pub fn own(&mut self, design: usize, memory: Box<MemoryCaches>) {
        // What comes next is not for older parcels.
        self.send_parcel();
        self.owns |= 1 << design;
        self.order(Order::Own((design, memory)));
    }

    /// Lets what passed go on to the caches of designs, together with their walks.
    pub fn take(&mut self, passage: Passage) {
        let Passage { parts, passed, walks } = &passage;
        let len = parts.len() + passed.len() + walks.iter().map(|(_, walks)| walks.len()).sum::<usize>();
        if len == 0 {
            return;
        }
        // Lists take room even if they are empty.
        self.parcel.len += 1 + walks.len() + len;
        self.parcel.passages.push(passage);
        if self.parcel.len >= PARCEL_LEN {
            self.send_parcel();
        }
    }

    /// Takes all caches back, when all that passed has gone through them.
    pub fn give_back(&mut self) -> Vec<Owned> {
        self.send_parcel();
        self.owns = 0;
        match &mut self.place {
            Place::Here(owned) => std::mem::take(owned),
            Place::There(orders) => {
                let (back, caches) = channel();
                send(orders, Order::GiveBack(back));
                caches.recv().expect("the thread of caches has not failed")
            }
        }
    }

    fn send_parcel(&mut self) {
        let parcel = std::mem::take(&mut self.parcel);
        if !parcel.passages.is_empty() {
            self.order(Order::Work(parcel));
        }
    }

    fn order(&mut self, order: Order) {
        match &mut self.place {
            Place::Here(owned) => follow(owned, order),
            Place::There(orders) => send(orders, order),
        }
    }
}

fn send(orders: &SyncSender<Order>, order: Order) {
    orders.send(order).expect("the thread of caches has not failed");
}

fn work(orders: &Receiver<Order>) {
    let mut owned = Vec::new();
    orders.iter().for_each(|order| follow(&mut owned, order));
}

fn follow(owned: &mut Vec<Owned>, order: Order) {
    match order {
        Order::Own(own) => owned.push(own),
        Order::Work(Parcel { passages, .. }) => {
            for (design, memory) in owned {
                passages.iter().for_each(|passage| pass(passage, *design, memory));
            }
        }
        // Nobody may wait for them any more.
        Order::GiveBack(back) => _ = back.send(std::mem::take(owned)),
    }
}

/// Lets what passed go on to the caches of a design, if it takes it.
fn pass(passage: &Passage, design: usize, memory: &mut MemoryCaches) {
    let Some((_, walks)) = passage.walks.iter().find(|(own, _)| *own == design) else { return };
    passage.parts.iter().for_each(|part| memory.hierarchy.set_part(part));
    memory.take_passed(&passage.passed, walks, &mut Nobody);
}
