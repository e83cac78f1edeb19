//! Usual values of figures, for hosts that could not measure them: other work had the processor, or the kernel refused.
//!
//! Nobody publishes these figures by host, so they come from our own probes of an Intel Xeon with AMX, a Zen 4 and
//! similar processors, as guests and alone, quiet and busy (docs/explanation/probing.md, docs/explanation/promotion.md,
//! docs/explanation/forecasts.md). The bounds are wide: from half of the least that was seen to twice the most.

/// A figure's usual value, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualFigure {
    /// The figure's name.
    pub name: &'static str,
    /// The usual value.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// Entries for base pages in the last data TLB level if none was seen: Skylake's. Later cores have up to 3,072.
pub const LAST_LEVEL_ENTRIES: u64 = 1536;

/// The figures that decisions need.
pub const USUAL: [UsualFigure; 10] = [
    usual("tlb.4k.walk_extra", 14.0, 4.0, 40.0),
    usual("walk_extra.32m.chains_1", 15.0, 5.0, 60.0),
    usual("walk_extra.32m.chains_8", 3.0, 1.0, 15.0),
    usual("walk_extra.256m.chains_1", 60.0, 15.0, 200.0),
    usual("walk_extra.256m.chains_8", 8.0, 2.0, 40.0),
    usual("walk_extra.1g.chains_1", 100.0, 25.0, 300.0),
    usual("walk_extra.1g.chains_8", 11.0, 3.0, 60.0),
    // Guests whose host backs memory only at first touch take 5,000 to 12,000, and up to 6 ms for 2 MB.
    usual("fault.anonymous_4k", 800.0, 200.0, 4_000.0),
    usual("fault.anonymous_2m", 110_000.0, 35_000.0, 700_000.0),
    usual("collapse.2m", 550_000.0, 150_000.0, 3_000_000.0),
];

const fn usual(name: &'static str, value: f64, low: f64, high: f64) -> UsualFigure {
    UsualFigure { name, value, low, high }
}

/// A figure's usual value; none if no decision needs it.
pub fn usually(name: &str) -> Option<UsualFigure> {
    USUAL.into_iter().find(|usual| usual.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_lies_between_its_bounds() {
        for UsualFigure { name, value, low, high } in USUAL {
            assert!(0.0 < low && low < value && value < high, "{name}");
            assert_eq!(usually(name).map(|found| found.value), Some(value));
        }
        assert_eq!(usually("shootdown.4k"), None);
    }
}
