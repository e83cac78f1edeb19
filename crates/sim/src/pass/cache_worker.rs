//! The caches of alternatives, below the first level.
//!
//! Nobody needs what they cost before the counts are asked for. So they may be simulated on a second thread: it owns
//! them, takes what passes in the same order, and gives them back when they are asked for.

use crate::caches::MemoryCaches;
use crate::pass::cohorts::{Cohorts, Stretch};
use crate::waiting_walks::{PassedAt, WaitingWalks};
use pagewalk_cache::CacheSpec;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Parcels on their way.
const PARCELS: usize = 4;
/// Lines and walks of a parcel, more or less.
const PARCEL_LEN: usize = 1 << 14;

/// What passed a first level during some batches, one after the other.
#[derive(Default)]
struct Parcel {
    stretches: Vec<Stretch>,
    len: usize,
}

enum Order {
    Own { cohort: usize, design: usize, memory: Box<MemoryCaches> },
    Work(Parcel),
    GiveBack(Sender<Vec<(usize, Box<MemoryCaches>)>>),
}

/// Who simulates them.
enum Place {
    Here(Cohorts),
    /// A thread, which ends when this does.
    There(SyncSender<Order>),
}

/// The caches, wherever they are.
pub(crate) struct CacheWorker {
    place: Place,
    /// The designs whose caches it has, one bit each.
    pub owns: u64,
    /// By cohort: its first level's number, all caches of its designs, and the latency of memory.
    cohorts: Vec<(usize, Vec<CacheSpec>, u64)>,
    parcel: Parcel,
}

impl Default for CacheWorker {
    fn default() -> CacheWorker {
        CacheWorker {
            place: Place::Here(Cohorts::default()),
            owns: 0,
            cohorts: Vec::new(),
            parcel: Parcel::default(),
        }
    }
}

impl CacheWorker {
    /// A thread with no caches yet.
    ///
    /// # Errors
    /// If the host gives no thread.
    pub fn thread() -> io::Result<CacheWorker> {
        let (orders, taken) = sync_channel(PARCELS);
        thread::Builder::new().name("caches".into()).spawn(move || work(&taken))?;
        Ok(CacheWorker { place: Place::There(orders), ..CacheWorker::default() })
    }

    /// Gives it the caches of a design. `alike`: what designs of one cohort have alike.
    pub fn own(&mut self, alike: (usize, &[CacheSpec], u64), design: usize, memory: Box<MemoryCaches>) {
        // What comes next is not for older parcels.
        self.send();
        self.owns |= 1 << design;
        let (first, caches, latency) = alike;
        let is_it = |known: &(usize, Vec<CacheSpec>, u64)| (known.0, &known.1[..], known.2) == alike;
        let cohort = self.cohorts.iter().position(is_it).unwrap_or_else(|| {
            self.cohorts.push((first, caches.to_vec(), latency));
            self.cohorts.len() - 1
        });
        self.order(Order::Own { cohort, design, memory });
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
        match &mut self.place {
            Place::Here(cohorts) => cohorts.give_back(),
            Place::There(orders) => {
                let (back, caches) = channel();
                send(orders, Order::GiveBack(back));
                caches.recv().expect("the thread of caches has not failed")
            }
        }
    }

    fn send(&mut self) {
        let parcel = std::mem::take(&mut self.parcel);
        if !parcel.stretches.is_empty() {
            self.order(Order::Work(parcel));
        }
    }

    fn order(&mut self, order: Order) {
        match &mut self.place {
            Place::Here(cohorts) => follow(cohorts, order),
            Place::There(orders) => send(orders, order),
        }
    }
}

fn send(orders: &SyncSender<Order>, order: Order) {
    orders.send(order).expect("the thread of caches has not failed");
}

fn work(orders: &Receiver<Order>) {
    let mut cohorts = Cohorts::default();
    orders.iter().for_each(|order| follow(&mut cohorts, order));
}

fn follow(cohorts: &mut Cohorts, order: Order) {
    match order {
        Order::Own { cohort, design, memory } => cohorts.add(cohort, design, memory),
        Order::Work(Parcel { stretches, .. }) => cohorts.take(&stretches),
        // Nobody may wait for them any more.
        Order::GiveBack(back) => _ = back.send(cohorts.give_back()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use crate::moment::Moment;
    use pagewalk_cache::{CacheAddress, Hierarchy, Requester};
    use pagewalk_setassoc::Geometry;
    use proptest::prelude::*;

    /// The walks of a design: one entry each, and all at once.
    fn walks(entries: &[u64]) -> WaitingWalks {
        let mut walks = WaitingWalks::default();
        for (index, &entry) in entries.iter().enumerate() {
            walks.add(|list| {
                list.push(entry << 3);
                1
            });
            walks.note(Moment::of_data(index * 3), None);
        }
        walks
    }

    proptest! {
        /// Caches of several designs below the first level, some of which come late, or are taken back and given away
        /// again: on the thread, here, and each alone.
        #[test]
        fn cohorts_count_as_each_design_alone(
            stretches in prop::collection::vec(
                (
                    prop::collection::vec(0..1_u64 << 11, 0..200),
                    prop::collection::vec(prop::collection::vec(0..1_u64 << 14, 0..3), 3),
                ),
                1..8,
            ),
            late in 0..6_usize,
            back in 0..6_usize,
        ) {
            let mut machine = Library::get("zen4+caches").unwrap();
            // Few sets, so that lines leave all caches.
            for (cache, (entries, ways)) in machine.caches.iter_mut().zip([(64, 4), (64, 4), (64, 4), (512, 8)]) {
                cache.geometry = Geometry::new(entries, Some(ways)).unwrap();
            }
            let mut empty = MemoryCaches::of(&machine).unwrap();
            empty.leave_first_level_to(0, &machine, true);
            let mut first = Hierarchy::first_level(&machine.caches, machine.cost.memory);
            let mut alone: Vec<MemoryCaches> = vec![empty.clone(), empty.clone(), empty.clone()];
            let mut placed = [
                (CacheWorker::default(), vec![empty.clone(), empty.clone(), empty.clone()]),
                (CacheWorker::thread().unwrap(), vec![empty.clone(), empty.clone(), empty]),
            ];
            let alike = (0, &machine.caches[..], machine.cost.memory);
            for (number, (lines, entries)) in stretches.iter().enumerate() {
                let mut passed = Vec::new();
                for (index, line) in lines.iter().enumerate() {
                    let by = if line % 3 == 0 { Requester::Store } else { Requester::Load };
                    first.access(by, CacheAddress::same(line << 6));
                    let moment = Moment::of_data(index);
                    passed.extend(first.passed().iter().map(|&line| PassedAt { moment, line }));
                    first.clear_passed();
                }
                for (design, caches) in alone.iter_mut().enumerate() {
                    caches.take_passed::<false>(&passed, &walks(&entries[design]), |_, _| {}, |_, _| {});
                }
                for (worker, caches) in &mut placed {
                    if number == back {
                        worker.give_back().into_iter().for_each(|(design, back)| caches[design].come_back(*back));
                    }
                    for (design, caches) in caches.iter_mut().enumerate() {
                        let is_late = design == 2 && number < late;
                        if worker.owns >> design & 1 == 0 && !is_late {
                            worker.own(alike, design, Box::new(caches.send_away()));
                        }
                        if is_late {
                            caches.take_passed::<false>(&passed, &walks(&entries[2]), |_, _| {}, |_, _| {});
                        }
                    }
                    let owned = (0..3).filter(|design| worker.owns >> design & 1 != 0);
                    let walks = owned.map(|design| (design, walks(&entries[design]))).collect();
                    worker.take(passed.clone(), walks);
                }
            }
            for (worker, mut caches) in placed {
                let mut worker = worker;
                worker.give_back().into_iter().for_each(|(design, back)| caches[design].come_back(*back));
                for (design, (found, expected)) in caches.iter().zip(&alone).enumerate() {
                    prop_assert_eq!(found.counts, expected.counts, "design {}", design);
                    for cache in 0..2 {
                        for by in Requester::ALL {
                            let [found, expected] =
                                [found, expected].map(|memory| memory.hierarchy.counts(cache, by));
                            prop_assert_eq!(found, expected, "design {}, cache {}, {:?}", design, cache, by);
                        }
                    }
                }
            }
        }
    }
}
