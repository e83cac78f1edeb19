//! THROTTLE: a policy that is switched off where it does not pay (Romer 1998, section 6.5).

use super::{Actions, Event, MapBacking, Policy, Rules};
use crate::kernel::{Account, Accounts};
use crate::{Superpage, Vma};

/// When a policy is switched off and on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleLimits {
    /// Instructions after which misses are looked at: 10,000,000 in the source.
    pub window: u64,
    /// Misses per instruction of a window above which the policy is switched off: 0.001.
    pub trip: f64,
    /// Cycles of overhead per instruction below which it is switched on again: 0.02.
    pub target: f64,
}

impl Default for ThrottleLimits {
    fn default() -> ThrottleLimits {
        ThrottleLimits { window: 10_000_000, trip: 0.001, target: 0.02 }
    }
}

/// Switches a policy off when misses stay frequent, until its overhead (bookkeeping, looks and copying) is small beside
/// the instructions executed, both counted since it was switched on last; the source does not say from when.
///
/// While it is off, misses are not charged and cost nothing, and nothing is promoted: what it asks for then is lost. It
/// still hears of what TLBs hold, as it would find that out by a look at them when it is switched on; it still looks
/// over the memory; and superpages still come at first touches and when memory is mapped.
#[derive(Clone)]
pub struct Throttle {
    inner: Box<dyn Policy>,
    limits: ThrottleLimits,
    on: bool,
    /// Where the window began, and its misses.
    window_start: u64,
    misses: u64,
    /// Instructions and overhead when it was switched on last.
    on_since: u64,
    spent_before: u64,
}

impl Throttle {
    /// `inner` within `limits`.
    pub fn new(inner: Box<dyn Policy>, limits: ThrottleLimits) -> Throttle {
        Throttle { inner, limits, on: true, window_start: 0, misses: 0, on_since: 0, spent_before: 0 }
    }

    fn spent(accounts: &Accounts) -> u64 {
        let own = [Account::Bookkeeping, Account::Scan, Account::Copy];
        own.iter().fold(0, |spent, &account| spent.saturating_add(accounts.of(account)))
    }

    /// Nothing happens between two misses, so both ends of a window are seen at the miss that follows.
    fn look(&mut self, now: u64, accounts: &Accounts) {
        if self.on && now - self.window_start >= self.limits.window {
            let instructions = (now - self.window_start) as f64;
            self.on = self.misses as f64 / instructions <= self.limits.trip;
            (self.window_start, self.misses) = (now, 0);
        }
        if !self.on {
            let spent = Throttle::spent(accounts);
            let overhead = (spent - self.spent_before) as f64;
            if overhead < self.limits.target * (now - self.on_since) as f64 {
                self.on = true;
                (self.window_start, self.misses) = (now, 0);
                (self.on_since, self.spent_before) = (now, spent);
            }
        }
    }
}

impl Policy for Throttle {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ..self.inner.rules() }
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn on(&mut self, event: Event<'_>, actions: &mut Actions) {
        if let Event::Missed { miss, accounts } = event {
            self.look(miss.instructions, accounts);
            self.misses += u64::from(self.on);
            if !self.on {
                return;
            }
        }
        let before = actions.requests.len();
        self.inner.on(event, actions);
        // What is advised is the program's own wish: no policy's guess of what pays.
        if !self.on && !matches!(event, Event::Advised { .. }) {
            actions.requests.truncate(before);
        }
    }

    fn takes(&self, area: &Vma) -> bool {
        self.inner.takes(area)
    }

    fn fault_orders(&self, page: u64, area: Option<&Vma>) -> u32 {
        self.inner.fault_orders(page, area)
    }

    fn at_map(&self, area: &Vma, pages: u64) -> MapBacking {
        self.inner.at_map(area, pages)
    }

    fn wakes(&self) -> Option<u64> {
        self.inner.wakes()
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        if self.on { self.inner.due(unit) } else { None }
    }
}
