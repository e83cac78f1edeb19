//! Where pages lie in an endless memory: a list of frames that grows, each with the page that it holds.

use pagewalk_units::Draws;

/// How a process chooses the color of a base page at its first touch.
#[derive(Clone, Debug)]
pub enum PlacementRule {
    /// The page's number from the process's first color on: the first draw with the process as the seed, and 0 for the
    /// first process.
    PageColoring,
    /// In turn, from the process's first color on.
    BinHopping,
    /// Any: the first draw with a drawn seed, whose last bits the process changes.
    Random(Draws),
    /// The least used one; of several, the first from page coloring's on.
    Careful,
}

/// A process: its rule, and what it was given so far.
#[derive(Clone, Debug)]
struct Placer {
    rule: PlacementRule,
    /// The colors that its rule has chosen, in order.
    chosen: Vec<u64>,
    /// Orders of the blocks that it got, in order.
    blocks: Vec<u32>,
}

/// The frames of all processes.
#[derive(Clone, Debug)]
pub struct EndlessMemory {
    colors: u64,
    /// By frame: the process and the page that own it.
    owners: Vec<Option<(usize, u64)>>,
    processes: Vec<Placer>,
}

impl EndlessMemory {
    /// A memory of so many colors for processes with these rules.
    pub fn new(colors: u64, rules: Vec<PlacementRule>) -> EndlessMemory {
        let placer = |rule| Placer { rule, chosen: Vec::new(), blocks: Vec::new() };
        EndlessMemory { colors, owners: Vec::new(), processes: rules.into_iter().map(placer).collect() }
    }

    /// The color of a page's frame, if it has one.
    pub fn color(&self, process: usize, page: u64) -> Option<u64> {
        let frame = self.owners.iter().position(|owner| *owner == Some((process, page)))?;
        Some(frame as u64 % self.colors)
    }

    /// A page is used that the unit of 2^`order` pages from `first` on maps.
    pub fn place(&mut self, process: usize, page: u64, first: u64, order: u32) {
        if self.color(process, page).is_some() {
            return;
        }
        if order == 0 {
            let color = self.choose(process, page);
            self.give(process, page, color);
        } else {
            self.give_block(process, first, order);
        }
    }

    /// The color that a process's rule chooses now.
    fn choose(&mut self, process: usize, page: u64) -> u64 {
        let colors = self.colors;
        let Placer { rule, chosen, .. } = &mut self.processes[process];
        let start = if process == 0 { 0 } else { Draws::new(process as u64).below(colors) };
        let color = match rule {
            PlacementRule::PageColoring => (page + start) % colors,
            PlacementRule::BinHopping => (chosen.len() as u64 + start) % colors,
            PlacementRule::Random(draws) => Draws::new(draws.draw() ^ process as u64).below(colors),
            PlacementRule::Careful => {
                let uses = |color: u64| chosen.iter().filter(|other| **other == color).count();
                let least = (0..colors).map(uses).min().unwrap();
                (page + start..).map(|number| number % colors).find(|&color| uses(color) == least).unwrap()
            }
        };
        chosen.push(color);
        color
    }

    fn is_free(&self, frame: u64) -> bool {
        self.owners.get(frame as usize).is_none_or(Option::is_none)
    }

    fn own(&mut self, frame: u64, process: usize, page: u64) {
        while self.owners.len() as u64 <= frame {
            self.owners.push(None);
        }
        assert_eq!(self.owners[frame as usize], None, "owned twice");
        self.owners[frame as usize] = Some((process, page));
    }

    fn give(&mut self, process: usize, page: u64, color: u64) {
        let frame = (0..).find(|&frame| frame % self.colors == color && self.is_free(frame)).unwrap();
        self.own(frame, process, page);
    }

    /// Successive blocks of an order lie behind each other in the cache.
    fn give_block(&mut self, process: usize, first: u64, order: u32) {
        let blocks = &mut self.processes[process].blocks;
        let place = (blocks.iter().filter(|of| **of == order).count() as u64) << order;
        blocks.push(order);
        let is_such = |frame: u64| {
            frame.is_multiple_of(1 << order)
                && frame % self.colors == place % self.colors
                && (frame..frame + (1 << order)).all(|frame| self.is_free(frame))
        };
        let frame = (0..).find(|&frame| is_such(frame)).unwrap();
        (0..1 << order).for_each(|offset| self.own(frame + offset, process, first + offset));
    }

    /// A page that the unit of 2^`order` pages from `first` on maps moves to a color.
    pub fn recolor(&mut self, process: usize, page: u64, (first, order): (u64, u32), color: u64) {
        self.place(process, page, first, order);
        let old = self.owners.iter().position(|owner| *owner == Some((process, page))).unwrap();
        self.give(process, page, color);
        self.owners[old] = None;
    }

    /// So many pages from `first` on lose their frames.
    pub fn free(&mut self, process: usize, first: u64, pages: u64) {
        for owner in &mut self.owners {
            if owner.is_some_and(|(of, page)| of == process && (first..first + pages).contains(&page)) {
                *owner = None;
            }
        }
    }
}
