//! Accesses of plain caches: those whose sets are in order of use, without rules that need steps in another order.
//!
//! On its way down, an access puts its line into each cache that misses, so that a set is searched and shifted at once.
//! What the caches evict waits until then, and goes its way from the farthest cache on. That is the order of
//! [`Hierarchy::find_by_rules`]: it too finds the line before it fills, and no lookup heeds what waits.

use super::{DataSource, Hierarchy};
use crate::cache::Look;
use crate::lanes::{self, Lanes, Work};
use crate::path::{Path, Step, StepOfLine};
use crate::stack::{Entered, Oldest};
use crate::{CacheAddress, Requester};

/// An access. `COUNTED`: counts it. `MISSES`: the nearest cache lacks the line, and lies below a first level.
struct Find<'a, const COUNTED: bool, const MISSES: bool> {
    hierarchy: &'a mut Hierarchy,
    requester: Requester,
    address: CacheAddress,
}

impl<const COUNTED: bool, const MISSES: bool> Work for Find<'_, COUNTED, MISSES> {
    type Result = DataSource;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> DataSource {
        let Find { hierarchy, requester, address } = self;
        let line = address.physical >> hierarchy.least_line_shift;
        let path = &hierarchy.paths[requester as usize];
        let nearest = path.nearest;
        let soils = requester == Requester::Store && path.soils;
        let cache = &mut hierarchy.caches[nearest];
        let entered = if MISSES {
            // There no store soils, and no repeated line is kept.
            let stack = cache.in_order_mut().expect("its lines are in order of use");
            Entered::Filled(stack.fill(line, false))
        } else {
            cache.enter(lanes, line, soils)
        };
        let hit = matches!(entered, Entered::Held);
        if COUNTED {
            cache.count(requester, if hit { Look::Hit } else { Look::Miss });
        }
        match entered {
            Entered::Held => DataSource::Cache(nearest),
            Entered::Filled(oldest) => hierarchy.find_below::<COUNTED>(lanes, requester, address, oldest),
        }
    }
}

impl Hierarchy {
    /// [`Hierarchy::find`] for a path that has [`steps`](crate::path::Path::steps).
    #[inline]
    pub(super) fn find_in_order<const COUNTED: bool>(
        &mut self,
        requester: Requester,
        address: CacheAddress,
    ) -> DataSource {
        lanes::run(Find::<COUNTED, false> { hierarchy: self, requester, address })
    }

    /// An access to a line that the nearest cache lacks, by a path that has
    /// [`steps`](crate::path::Path::steps) and soils nothing.
    #[inline]
    pub(super) fn find_missing(&mut self, requester: Requester, address: CacheAddress) -> DataSource {
        lanes::run(Find::<true, true> { hierarchy: self, requester, address })
    }

    /// Goes on after a miss in the nearest cache, which `oldest` left.
    #[inline(always)]
    fn find_below<const COUNTED: bool>(
        &mut self,
        lanes: impl Lanes,
        requester: Requester,
        address: CacheAddress,
        oldest: Oldest,
    ) -> DataSource {
        let line = address.physical >> self.least_line_shift;
        let Path { steps, nearest, .. } = &self.paths[requester as usize];
        if COUNTED && self.levels[*nearest] == 1 {
            self.passed.note(address, Some(requester));
        }
        let mut left = [(oldest, *nearest), (Oldest::NONE, 0), (Oldest::NONE, 0), (Oldest::NONE, 0)];
        let mut served = DataSource::Memory;
        let mut above = *nearest;
        for (&Step { cache: index, line: step }, left) in steps[1..].iter().zip(&mut left[1..]) {
            let cache = &mut self.caches[index];
            let hit = match step {
                StepOfLine::Enters => match cache.enter(lanes, line, false) {
                    Entered::Held => true,
                    Entered::Filled(oldest) => {
                        *left = (oldest, index);
                        false
                    }
                },
                StepOfLine::Stays => cache.use_line(lanes, line),
                StepOfLine::MovesUp => {
                    let given = cache.give_line(lanes, line);
                    if given == Some(true) {
                        self.caches[above].soil_latest(line);
                    }
                    given.is_some()
                }
            };
            if COUNTED {
                self.caches[index].count(requester, if hit { Look::Hit } else { Look::Miss });
            }
            if hit {
                served = DataSource::Cache(index);
                break;
            }
            above = index;
        }
        for (oldest, from) in left.into_iter().rev() {
            if let Some((line, dirty)) = oldest.line() {
                self.leave::<COUNTED>(lanes, requester, from, line, dirty);
            }
        }
        served
    }

    /// A line leaves a cache: for the victim cache below it, and if dirty for what lies below.
    #[inline(always)]
    fn leave<const COUNTED: bool>(
        &mut self,
        lanes: impl Lanes,
        requester: Requester,
        mut from: usize,
        mut line: u64,
        mut dirty: bool,
    ) {
        while let Some(victims) = self.victims[from] {
            self.caches[from].counts[requester as usize].writebacks += u64::from(COUNTED && dirty);
            let Entered::Filled(oldest) = self.caches[victims].enter(lanes, line, dirty) else { return };
            let Some(next) = oldest.line() else { return };
            (from, (line, dirty)) = (victims, next);
        }
        if dirty {
            let address = CacheAddress::same(line << self.least_line_shift);
            self.write_back::<COUNTED>(requester, from, address);
        }
    }
}
