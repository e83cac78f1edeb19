//! What the translation of a sampled address met.

/// Bits of `perf_mem_data_src.mem_dtlb` (`include/uapi/linux/perf_event.h`).
const TLB_SHIFT: u32 = 26;
const TLB_BITS: u64 = 0x7f;
const HIT: u64 = 0x02;
const MISS: u64 = 0x04;
const FIRST: u64 = 0x08;
const SECOND: u64 = 0x10;
const WALKER: u64 = 0x20;
const SYSTEM: u64 = 0x40;

/// What a translation met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The first level of the TLB had it.
    FirstLevel,
    /// The second level had it.
    SecondLevel,
    /// Some level had it.
    SomeLevel,
    /// No level had it: a walk.
    Walk,
    /// The kernel had to map the page.
    Fault,
    /// The sample does not say.
    #[default]
    Unknown,
}

impl Outcome {
    /// All, in the order of tables.
    pub const ALL: [Outcome; 6] = [
        Outcome::FirstLevel,
        Outcome::SecondLevel,
        Outcome::SomeLevel,
        Outcome::Walk,
        Outcome::Fault,
        Outcome::Unknown,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::FirstLevel => "first_level",
            Outcome::SecondLevel => "second_level",
            Outcome::SomeLevel => "some_level",
            Outcome::Walk => "walk",
            Outcome::Fault => "fault",
            Outcome::Unknown => "unknown",
        }
    }

    /// By a sample's data source and its event. The data source goes first; events are told apart by their names.
    ///
    /// Intel says `L2 miss` for a walk and `L1 or L2 hit` else; AMD says which level hit; Arm says `Walker` for both
    /// and tells them apart by hit and miss. A miss of the first level alone says nothing of the second.
    pub fn of(source: Option<u64>, event: &str) -> Outcome {
        let tlb = source.map_or(0, |source| source >> TLB_SHIFT & TLB_BITS);
        let levels = tlb & (FIRST | SECOND);
        match tlb {
            _ if tlb & SYSTEM != 0 => Outcome::Fault,
            _ if tlb & MISS != 0 && levels == FIRST => Outcome::of_event(event),
            _ if tlb & MISS != 0 => Outcome::Walk,
            _ if tlb & HIT != 0 => match levels {
                FIRST => Outcome::FirstLevel,
                SECOND => Outcome::SecondLevel,
                _ => Outcome::SomeLevel,
            },
            _ if tlb & WALKER != 0 => Outcome::Walk,
            _ => Outcome::of_event(event),
        }
    }

    /// By an event's name alone, if the event is one of translation.
    fn of_event(event: &str) -> Outcome {
        const FAULTS: [&str; 4] = ["page-faults", "minor-faults", "major-faults", "faults"];
        const WALKS: [&str; 5] =
            ["stlb_miss", "dtlb_miss", "dtlb-load-misses", "dtlb-store-misses", "dtlb_load_misses"];
        let event = event.to_ascii_lowercase();
        let stem = event.split(':').next().unwrap_or_default();
        match stem {
            _ if FAULTS.contains(&stem) => Outcome::Fault,
            _ if WALKS.iter().any(|name| event.contains(name)) => Outcome::Walk,
            _ => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendors_way_to_say_it_is_understood() {
        let of = |tlb: u64| Outcome::of(Some(tlb << TLB_SHIFT), "cpu/mem-loads/P");
        assert_eq!(of(HIT | FIRST | SECOND), Outcome::SomeLevel, "Intel");
        assert_eq!(of(MISS | SECOND), Outcome::Walk, "Intel and AMD");
        assert_eq!(of(HIT | FIRST), Outcome::FirstLevel, "AMD");
        assert_eq!(of(HIT | SECOND), Outcome::SecondLevel, "AMD");
        assert_eq!(of(HIT | WALKER), Outcome::SomeLevel, "Arm");
        assert_eq!(of(MISS | WALKER), Outcome::Walk, "Arm");
        assert_eq!(of(SYSTEM), Outcome::Fault);
        assert_eq!(of(1), Outcome::Unknown, "not available");
    }

    #[test]
    fn events_of_translation_speak_for_themselves() {
        let of = |event| Outcome::of(Some(1 << TLB_SHIFT), event);
        assert_eq!(of("page-faults:u"), Outcome::Fault);
        assert_eq!(of("mem_inst_retired.stlb_miss_loads:Pu"), Outcome::Walk);
        assert_eq!(of("dTLB-load-misses"), Outcome::Walk);
        assert_eq!(of("ibs_op//"), Outcome::Unknown);
        let hit = Outcome::of(Some((HIT | FIRST) << TLB_SHIFT), "dTLB-load-misses");
        assert_eq!(hit, Outcome::FirstLevel, "the sample knows better than the event");
    }
}
