//! Colors of frames: placement at first touch, and moves to other colors.

use super::copies::CopiedPages;
use super::{Account, Kernel, Remap};
use crate::frames::{EndlessFrames, Frame, FrameMove};
use crate::placement::{BinHopping, Colors, FrameList, PageColoring, Placement};
use crate::promotion::{CacheMiss, Footprint, PageMove, PolicyEvent, TlbDrops};
use crate::{AddressSpace, Superpage};

/// The color that a placement wants for a page's frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedColor {
    pub color: u64,
    pub colors: Colors,
    /// Whether no other color will do.
    pub is_strict: bool,
}

impl WantedColor {
    /// Whether one of so many successive frames has the color.
    pub fn is_in(self, first: Frame, frames: u64) -> bool {
        let WantedColor { color, colors, .. } = self;
        (color + colors.count - colors.of(first)) % colors.count < frames
    }
}

/// A kernel's placement of pages.
#[derive(Clone)]
pub(super) struct Placed {
    policy: Box<dyn Placement>,
    /// The cache whose colors count, by name; none: the last physically indexed level.
    cache: Option<String>,
    /// Its colors, once the machine is known.
    colors: Colors,
    /// Whether a page waits for a frame of its color, which another page must give up.
    is_strict: bool,
    /// The frames, if the kernel has no physical memory.
    endless: EndlessFrames,
    copied: CopiedPages,
}

impl Kernel {
    /// Places pages by a policy. `cache`: whose colors count, by name; none: the last physically indexed level.
    pub fn with_placement(self, policy: Box<dyn Placement>, cache: Option<String>) -> Kernel {
        let endless = endless_frames(self.number, policy.as_ref());
        let (colors, copied) = (Colors::default(), CopiedPages::default());
        let placed = Placed { policy, cache, colors, is_strict: false, endless, copied };
        Kernel { placed: Some(Box::new(placed)), ..self }
    }

    /// The same, but a full color evicts a page of its own instead of taking another color's frame (Romer 1998, section
    /// 2.2.2: strict page coloring). Only a described memory can run out of a color.
    pub fn with_strict_colors(mut self) -> Kernel {
        if let Some(placed) = &mut self.placed {
            placed.is_strict = true;
        }
        self
    }

    /// The same kernel with pages spread evenly over the colors of a cache, and the name of the placement: page
    /// coloring, or bin hopping if it colors pages already. The cache is the one whose colors count already, or else
    /// `cache`. None if its pages have no frames.
    pub fn recolored(&self, cache: &str) -> Option<(Kernel, &'static str)> {
        let now = self.placed.as_ref().map(|placed| placed.policy.name());
        let policy: Box<dyn Placement> = match now == Some(PageColoring.name()) {
            true => Box::new(BinHopping::default()),
            false => Box::new(PageColoring),
        };
        let name = policy.name();
        let cache =
            self.placed.as_ref().map_or_else(|| Some(cache.to_owned()), |placed| placed.cache.clone());
        let is_strict = self.placed.as_ref().is_some_and(|placed| placed.is_strict);
        let same = self.has_frames().then(|| self.clone().with_placement(policy, cache))?;
        Some((if is_strict { same.with_strict_colors() } else { same }, name))
    }

    /// Sets the process's number, which no other process has.
    pub(super) fn number_frames(&mut self) {
        if let Some(placed) = &mut self.placed {
            placed.endless = endless_frames(self.number, placed.policy.as_ref());
        }
    }

    /// Whether it places pages by color, and by those of which cache: see [`Kernel::with_placement`].
    pub fn colors_by(&self) -> Option<Option<&str>> {
        self.placed.as_ref().map(|placed| placed.cache.as_deref())
    }

    /// Sets the colors, before anything else.
    pub fn set_colors(&mut self, colors: Colors) {
        if let Some(placed) = &mut self.placed {
            placed.colors = colors;
        }
        self.policy.tell(PolicyEvent::Colors(colors));
    }

    /// Whether the caller must call [`Kernel::cache_missed`].
    pub fn watches_caches(&self) -> bool {
        self.policy.rules.watches_caches
    }

    /// Whether the caller must also call [`Kernel::cache_hit`].
    pub fn watches_cache_hits(&self) -> bool {
        self.policy.rules.watches_cache_hits
    }

    /// Whether pages have frames: a placement or a physical memory. Otherwise physical addresses equal virtual ones.
    pub fn has_frames(&self) -> bool {
        self.placed.is_some() || self.memory.is_some()
    }

    /// The color that the placement chooses for a base page now.
    pub(super) fn color_for(&mut self, page: u64) -> Option<WantedColor> {
        let placed = self.placed.as_mut()?;
        let (colors, is_strict) = (placed.colors, placed.is_strict);
        Some(WantedColor { color: placed.policy.color(page, self.number, colors), colors, is_strict })
    }

    /// The frame of a mapped page; an endless memory gives it now if it has none. `None`: it has no frame of its own,
    /// such as an inherited page in a physical memory.
    pub fn place(&mut self, page: u64) -> Option<Frame> {
        if self.memory.is_some() {
            return self.frame_of(page);
        }
        let unit = self.table.mapped(page)?;
        if let Some(frame) = self.placed.as_ref()?.endless.get(page) {
            return Some(frame);
        }
        let listed = self.listed(unit);
        let endless = &mut self.placed.as_mut()?.endless;
        match listed {
            Some(first) => endless.give_listed(unit, first),
            None if unit.order > 0 => endless.give_block(unit),
            None => {
                let WantedColor { color, colors, .. } = self.color_for(page)?;
                self.placed.as_mut()?.endless.give(page, color, colors);
            }
        }
        self.note_listed(unit, listed);
        self.placed.as_ref()?.endless.get(page)
    }

    /// The first of the frames that a list gives a unit, if there is a list and it names them.
    pub(super) fn listed(&self, unit: Superpage) -> Option<Frame> {
        self.placed.as_ref()?.policy.frames(unit, self.number)
    }

    /// A unit got frames, those of the list or others.
    pub(super) fn note_listed(&mut self, unit: Superpage, listed: Option<Frame>) {
        let has_list = self.placed.as_ref().is_some_and(|placed| placed.policy.list().is_some());
        if has_list && listed.is_none() {
            self.counts.pages_unlisted += unit.len();
        }
    }

    /// A promotion is about to copy the backed pages of a block, unless it is in place.
    pub(super) fn note_copied(&mut self, block: Superpage, in_place: bool) {
        let Some(placed) = self.placed.as_mut().filter(|_| !in_place) else { return };
        for page in block.pages().filter(|&page| self.table.mapped(page).is_some()) {
            placed.copied.promoted(page, &mut self.counts);
        }
    }

    /// A block is no longer backed, or gets other frames.
    pub(super) fn displace(&mut self, block: Superpage) {
        if let Some(placed) = &mut self.placed {
            placed.endless.take_back(block);
        }
    }

    /// A miss of the cache whose colors count. [`Kernel::recolor`] then does what is due.
    pub fn cache_missed(&mut self, miss: CacheMiss) {
        self.policy.tell(PolicyEvent::CacheMissed(miss));
    }

    /// A hit of that cache.
    pub fn cache_hit(&mut self, frame: Frame) {
        self.policy.tell(PolicyEvent::CacheHit(frame));
    }

    /// What the policy wants dropped from the TLBs, which costs a flush. Ask after [`Kernel::missed`] and
    /// [`Kernel::cache_missed`].
    pub fn drops(&mut self) -> TlbDrops {
        let drops = std::mem::take(&mut self.policy.actions.drops);
        if drops != TlbDrops::Nothing {
            self.accounts.charge(Account::Flush, self.costs.flush);
        }
        drops
    }

    /// What the policy's work touched of its own code and data. Ask before [`Kernel::recolor`].
    pub fn policy_touched(&mut self) -> Footprint {
        std::mem::take(&mut self.policy.actions.touched)
    }

    /// Moves the pages that the policy wants moved, and returns the moves of frames.
    pub fn recolor(&mut self, space: &AddressSpace, remaps: &mut Vec<Remap>) -> Vec<FrameMove> {
        let cycles = std::mem::take(&mut self.policy.actions.recoloring_cycles);
        self.accounts.charge(Account::Recolor, cycles);
        let wanted = std::mem::take(&mut self.policy.actions.moves);
        let mut moves = Vec::new();
        for wanted in wanted {
            let Some(unit) = self.table.mapped(wanted.page) else { continue };
            let made = if self.may_move(unit, space) { self.move_page(wanted, remaps) } else { None };
            self.counts.recolorings_refused += u64::from(made.is_none());
            moves.extend(made);
        }
        moves
    }

    /// Whether a unit's frames are the process's own to change. A hugetlb page never splits.
    fn may_move(&self, unit: Superpage, space: &AddressSpace) -> bool {
        let is_foreign = self.memory.is_some() && self.table.is_foreign(unit.first);
        !is_foreign && !self.is_hugetlb(unit, space)
    }

    /// Moves a mapped base page, unless no frame of the color is free.
    fn move_page(
        &mut self,
        PageMove { page, color }: PageMove,
        remaps: &mut Vec<Remap>,
    ) -> Option<FrameMove> {
        let from = self.place(page)?;
        let colors = self.placed.as_ref()?.colors;
        // Found before the page leaves its superpage, which stays whole if there is none.
        let to = match &mut self.memory {
            Some(memory) => memory.allocate_color(color, colors)?,
            None => self.placed.as_mut()?.endless.give(page, color, colors),
        };
        // A superpage leaves a page behind (Romer 1998, section 6.6.1).
        self.part_at(page, &(page..page + 1), remaps);
        if let Some(memory) = &mut self.memory {
            memory.move_to(page, to, self.policy.rules.reserves.map(|rule| rule.order));
        }
        self.placed.as_mut()?.copied.recolored(page, &mut self.counts);
        self.accounts.charge(Account::Recolor, self.cycles(self.costs.recolor_per_kib, 1));
        self.accounts.charge(Account::Recolor, self.costs.recolor_map);
        self.accounts.charge(Account::Flush, self.costs.flush);
        self.policy.tell(PolicyEvent::Recolored { page, frame: to });
        remaps.push(Remap::Moved(Superpage::around(page, 0)));
        Some(FrameMove { from, to })
    }

    /// Charges cycles that the policy's work and copies wait for memory.
    pub fn waited(&mut self, cycles: u64) {
        self.accounts.charge(Account::Recolor, cycles);
    }
}

fn endless_frames(process: u32, policy: &dyn Placement) -> EndlessFrames {
    EndlessFrames::of_process(process, policy.list().map_or(0, FrameList::frames_end))
}
