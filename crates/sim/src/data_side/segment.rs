//! The memory of an ideal direct segment.
//!
//! Karakostas 2016, section 4.7, after Basu et al., ISCA 2013: all areas of fixed size that live for more than 80 % of
//! the run count as one contiguous segment, whose translations are free. It is known only at the end of the run. Areas
//! made by `brk` or `mremap` have no fixed size; the rest of a cut area has.

use pagewalk_trace::Event;
use std::collections::BTreeMap;
use std::ops::Range;

/// The life of an area.
#[derive(Clone, Copy, Debug)]
struct Region {
    born: u64,
    died: Option<u64>,
    fixed: bool,
}

/// All areas of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    regions: Vec<Region>,
    /// Live areas by first byte: their end and their index.
    live: BTreeMap<u64, (u64, usize)>,
}

impl Segments {
    /// The area of a byte.
    pub fn region(&self, address: u64) -> Option<usize> {
        let (_, &(end, region)) = self.live.range(..=address).next_back()?;
        (address < end).then_some(region)
    }

    /// Records an event's effect on areas at instruction `now`.
    pub fn note(&mut self, event: &Event, now: u64) {
        match event {
            Event::Map(mapping) => self.add(mapping.start.0, mapping.bytes, true, now),
            Event::Unmap { start, bytes } => self.cut(bytes_of(start.0, *bytes), now),
            Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
                self.cut(bytes_of(old_start.0, *old_bytes), now);
                self.add(new_start.0, *new_bytes, false, now);
            }
            Event::Break { old_end, new_end } if new_end < old_end => self.cut(new_end.0..old_end.0, now),
            Event::Break { old_end, new_end } => self.add(old_end.0, new_end.0 - old_end.0, false, now),
            _ => {}
        }
    }

    fn add(&mut self, start: u64, bytes: u64, fixed: bool, now: u64) {
        let range = bytes_of(start, bytes);
        if range.is_empty() {
            return;
        }
        self.cut(range.clone(), now);
        self.live.insert(range.start, (range.end, self.regions.len()));
        self.regions.push(Region { born: now, died: None, fixed });
    }

    fn cut(&mut self, gone: Range<u64>, now: u64) {
        let from = self.live.range(..=gone.start).next_back().map_or(gone.start, |(&start, _)| start);
        let touched: Vec<(u64, u64, usize)> = self
            .live
            .range(from..gone.end.max(from))
            .map(|(&start, &(end, region))| (start, end, region))
            .filter(|&(start, end, _)| start < gone.end && gone.start < end)
            .collect();
        for (start, end, region) in touched {
            self.live.remove(&start);
            self.regions[region].died = Some(now);
            for rest in [start..gone.start.max(start), gone.end.min(end)..end] {
                if !rest.is_empty() {
                    self.live.insert(rest.start, (rest.end, self.regions.len()));
                    self.regions.push(Region { died: None, ..self.regions[region] });
                }
            }
        }
    }

    /// How many of the `walks` by area the segment serves in a run of `instructions`.
    pub fn served(&self, walks: &[u64], alive: f64, instructions: u64) -> u64 {
        let lives = |region: &Region| {
            let lived = region.died.unwrap_or(instructions) - region.born;
            region.fixed && lived as f64 > alive * instructions as f64
        };
        let in_segment = self.regions.iter().zip(walks).filter(|(region, _)| lives(region));
        in_segment.map(|(_, walks)| walks).sum()
    }
}

fn bytes_of(start: u64, bytes: u64) -> Range<u64> {
    start..start.saturating_add(bytes)
}
