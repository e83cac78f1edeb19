//! Reduces a stream's data addresses to pages.

use crate::{Analysis, Batch, Event, Ref};
use pagewalk_units::{PAGE_SHIFT, RefIndex, SpaceId};

/// Passes on a stream with only the pages of its data references ([`Grain::Page`](crate::Grain::Page)).
pub struct ToPages<'a> {
    inner: &'a mut dyn Analysis,
    refs: Vec<Ref>,
}

impl<'a> ToPages<'a> {
    /// Passes on to `inner`.
    pub fn new(inner: &'a mut dyn Analysis) -> Self {
        ToPages { inner, refs: Vec::new() }
    }
}

/// The reference at its page's first byte, unless it crosses the page.
#[inline(always)]
fn to_page(record: Ref) -> Ref {
    const INSIDE: u64 = ((1 << PAGE_SHIFT) - 1) << Ref::META_BITS;
    let bits = record.bits();
    Ref::from_bits(if record.last_vpn() == record.vpn() { bits & !INSIDE } else { bits })
}

impl Analysis for ToPages<'_> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.refs.clear();
        self.refs.extend(batch.refs.iter().copied().map(to_page));
        self.inner.on_batch(&Batch { refs: &self.refs, ..*batch });
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.inner.on_event(at, event);
    }

    fn on_turn(&mut self, space: SpaceId) {
        self.inner.on_turn(space);
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_units::{Access, Kind, Size, VirtAddr};

    #[test]
    fn pages_stay_and_what_leaves_them_stays_whole() {
        for code in 0..32 {
            let access = Access { kind: Kind::Store, size: Size::from_code(code) };
            for address in [0, 1, 4095, 4096, 0x7fff_ffff_f001, Ref::ADDRESS_END - 8192] {
                let whole = Ref::new(VirtAddr(address), access);
                let page = to_page(whole);
                assert_eq!((page.vpn(), page.last_vpn()), (whole.vpn(), whole.last_vpn()));
                assert_eq!((page.kind(), page.size()), (whole.kind(), whole.size()));
                let kept = if whole.vpn() == whole.last_vpn() { address & !4095 } else { address };
                assert_eq!(page.address(), VirtAddr(kept));
            }
        }
    }
}
