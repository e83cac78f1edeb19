//! THROTTLE: switches a policy off while it does not pay (Romer 1998, section 6.5).

use super::{Actions, MapBacking, Policy, PolicyEvent, Rules};
use crate::kernel::{Account, Accounts};
use crate::{Superpage, Vma};

/// When to switch a policy off and on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleLimits {
    /// Instructions per window: 10,000,000 in the source.
    pub window: u64,
    /// Misses per instruction of a window that switch the policy off: 0.001.
    pub trip: f64,
    /// Cycles of overhead per instruction that switch it on again: 0.02.
    pub target: f64,
}

impl Default for ThrottleLimits {
    fn default() -> ThrottleLimits {
        ThrottleLimits { window: 10_000_000, trip: 0.001, target: 0.02 }
    }
}

/// Switches a policy off while misses stay frequent, until its overhead (bookkeeping, scans and copying) is small
/// relative to executed instructions, both counted since it was last switched on; the source does not say from when.
///
/// While it is off, misses are free and not charged, and its requests are dropped. It still gets entries and departures
/// of TLBs, which it could read when switched on; it still scans memory; and superpages still come at first touches and
/// at mappings.
#[derive(Clone)]
pub struct Throttle {
    inner: Box<dyn Policy>,
    limits: ThrottleLimits,
    on: bool,
    /// The window's start and misses.
    window_start: u64,
    misses: u64,
    /// Instructions and overhead at the last switch on.
    on_since: u64,
    spent_before: u64,
}

impl Throttle {
    /// `inner` under `limits`.
    pub fn new(inner: Box<dyn Policy>, limits: ThrottleLimits) -> Throttle {
        Throttle { inner, limits, on: true, window_start: 0, misses: 0, on_since: 0, spent_before: 0 }
    }

    fn spent(accounts: &Accounts) -> u64 {
        let own = [Account::Bookkeeping, Account::Scan, Account::Copy];
        own.iter().fold(0, |spent, &account| spent.saturating_add(accounts.of(account)))
    }

    /// Updates the state at a miss: between misses nothing happens, so the next miss can end a window late.
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

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        if let PolicyEvent::Missed { miss, accounts } = event {
            self.look(miss.instructions, accounts);
            self.misses += u64::from(self.on);
            if !self.on {
                return;
            }
        }
        let before = actions.requests.len();
        self.inner.on(event, actions);
        // Advice is the program's own request, not a guess of the policy.
        if !self.on && !matches!(event, PolicyEvent::Advised { .. }) {
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
