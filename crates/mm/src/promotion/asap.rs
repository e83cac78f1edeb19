//! ASAP and ASAP-4-64: build superpages as soon as their parts are in use (Romer 1998, section 3.4.4).

use super::{Actions, Policy, PolicyEvent, Rules, up_to};
use crate::Superpage;
use crate::kernel::tree::Tree;

/// ASAP: builds a superpage once all its base pages are touched. If one touch completes several sizes, it builds only
/// the largest, so that pages are copied once.
#[derive(Clone, Debug)]
pub struct Asap {
    orders: u32,
    /// Touched base pages by block.
    touched: Tree<u16>,
}

impl Asap {
    /// A policy for superpages up to order `top`.
    pub fn new(top: u8) -> Asap {
        Asap { orders: up_to(top), touched: Tree::new(top) }
    }

    /// Restricts superpages to these orders, one bit each, none above the largest.
    pub fn only(mut self, orders: u32) -> Asap {
        self.orders &= orders;
        self
    }
}

impl Policy for Asap {
    fn rules(&self) -> Rules {
        Rules::new(self.orders)
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Touched { page, .. } => {
                let (mut full, orders) = (None, self.orders);
                self.touched.climb(page, 0, |order, touched| {
                    *touched += 1;
                    if orders >> order & 1 == 1 && u32::from(*touched) == 1 << order {
                        full = Some(order);
                    }
                    true
                });
                full.into_iter().for_each(|order| actions.promote(Superpage::around(page, order)));
            }
            PolicyEvent::Gone(page) => self.touched.climb(page, 0, |_, touched| {
                *touched -= 1;
                true
            }),
            _ => {}
        }
    }
}

/// ASAP-4-64, after Talluri and Hill 1994: builds superpages of one size once a share of their base pages is touched.
#[derive(Clone, Debug)]
pub struct AsapShare {
    /// The size, as an order.
    pub order: u8,
    /// Base pages that must have been touched.
    pub pages: u64,
}

impl Policy for AsapShare {
    fn rules(&self) -> Rules {
        Rules::new(1 << self.order)
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        let PolicyEvent::Touched { page, table, .. } = event else { return };
        let block = Superpage::around(page, self.order);
        let is_small = table.mapped(page).is_some_and(|unit| unit.order < self.order);
        if is_small && table.touched_in(block) >= self.pages {
            actions.promote(block);
        }
    }
}
