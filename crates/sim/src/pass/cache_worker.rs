//! The caches of alternatives, below the first level.
//!
//! Nobody needs what they cost before the counts are asked for. So they may be simulated on a second thread: it owns
//! them, takes what passes in the same order, and gives them back when they are asked for.

use crate::caches::MemoryCaches;
use crate::pass::cohorts::{Cohorts, Passage};
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
    passages: Vec<Passage>,
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

/// What designs of one cohort have alike.
#[derive(Clone, PartialEq)]
pub(crate) struct Alike {
    /// The number of their first level.
    pub first: usize,
    /// All their caches.
    pub caches: Vec<CacheSpec>,
    pub memory_latency: u64,
}

/// The caches, wherever they are.
pub(crate) struct CacheWorker {
    place: Place,
    /// The designs whose caches it has, one bit each.
    pub owns: u64,
    cohorts: Vec<Alike>,
    parcel: Parcel,
}

impl CacheWorker {
    /// On this thread, with no caches yet.
    pub fn here() -> CacheWorker {
        CacheWorker::at(Place::Here(Cohorts::default()))
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
        CacheWorker { place, owns: 0, cohorts: Vec::new(), parcel: Parcel::default() }
    }

    /// Gives it the caches of a design.
    pub fn own(&mut self, alike: Alike, design: usize, memory: Box<MemoryCaches>) {
        // What comes next is not for older parcels.
        self.send_parcel();
        self.owns |= 1 << design;
        let cohort = self.cohorts.iter().position(|known| *known == alike).unwrap_or_else(|| {
            self.cohorts.push(alike);
            self.cohorts.len() - 1
        });
        self.order(Order::Own { cohort, design, memory });
    }

    /// Lets what passed go on to the caches of designs, together with their walks.
    pub fn take(&mut self, passed: Vec<PassedAt>, walks: Vec<(usize, WaitingWalks)>) {
        let len = passed.len() + walks.iter().map(|(_, walks)| walks.len()).sum::<usize>();
        if len == 0 {
            return;
        }
        // Lists take room even if they are empty.
        self.parcel.len += 1 + walks.len() + len;
        self.parcel.passages.push(Passage { passed, walks });
        if self.parcel.len >= PARCEL_LEN {
            self.send_parcel();
        }
    }

    /// Takes all caches back, when all that passed has gone through them.
    pub fn give_back(&mut self) -> Vec<(usize, Box<MemoryCaches>)> {
        self.send_parcel();
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

    fn send_parcel(&mut self) {
        let parcel = std::mem::take(&mut self.parcel);
        if !parcel.passages.is_empty() {
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
        Order::Work(Parcel { passages, .. }) => cohorts.take(&passages),
        // Nobody may wait for them any more.
        Order::GiveBack(back) => _ = back.send(cohorts.give_back()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use crate::moment::{CodePosition, Moment};
    use crate::waiting_walks::WalkCause;
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
            let at = CodePosition::Site(0);
            let cause = WalkCause { class: 0, page: 0, span: 0, at, instructions: 0 };
            // Some are ahead of need.
            walks.note(Moment::of_data(index * 3), (entry % 3 > 0).then_some(cause));
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
                    prop::collection::vec(prop::collection::vec(0..1_u64 << 14, 0..3), 4),
                ),
                1..8,
            ),
            late in 0..6_usize,
            back in 0..6_usize,
            slices in prop::sample::select(vec![1_u32, 3]),
        ) {
            let mut machine = Library::get("zen4+caches").unwrap();
            // Few sets, so that lines leave all caches.
            for (cache, (entries, ways)) in machine.caches.iter_mut().zip([(64, 4), (64, 4), (64, 4), (512, 8)]) {
                cache.geometry = Geometry::new(entries, Some(ways)).unwrap();
            }
            machine.caches[3].slices = slices;
            let mut empty = MemoryCaches::of(&machine).unwrap();
            empty.leave_first_level_to(0, &machine, true);
            let mut first = Hierarchy::first_level(&machine.caches, machine.cost.memory);
            let mut alone: Vec<MemoryCaches> = vec![empty.clone(); 4];
            let mut placed = [
                (CacheWorker::here(), vec![empty.clone(); 4]),
                (CacheWorker::thread().unwrap(), vec![empty; 4]),
            ];
            // The last design is of a cohort of its own.
            let alike = |design: usize| Alike {
                first: 0,
                caches: machine.caches.clone(),
                memory_latency: if design < 3 { machine.cost.memory } else { 0 },
            };
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
                            worker.own(alike(design), design, Box::new(caches.send_away()));
                        }
                        if is_late {
                            caches.take_passed::<false>(&passed, &walks(&entries[2]), |_, _| {}, |_, _| {});
                        }
                    }
                    let owned = (0..4).filter(|design| worker.owns >> design & 1 != 0);
                    let walks = owned.map(|design| (design, walks(&entries[design]))).collect();
                    worker.take(passed.clone(), walks);
                }
            }
            for (mut worker, mut caches) in placed {
                worker.give_back().into_iter().for_each(|(design, back)| caches[design].come_back(*back));
                for (design, (found, expected)) in caches.iter().zip(&alone).enumerate() {
                    prop_assert_eq!(found.counts, expected.counts, "design {}", design);
                    let waited = [found, expected].map(|memory| memory.clone().take_waited_cycles());
                    prop_assert_eq!(waited[0], waited[1], "design {}", design);
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
