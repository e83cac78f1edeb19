//! The advice on a process's memory: whether some TLB design would help, and whether huge pages do already.

use super::schema::{ContiguityResult, name};
use crate::numbers::{exact, percent};

/// Entries of a current second-level TLB (Intel's cores from Skylake to Golden Cove have 1,536 to 2,048).
const TLB_ENTRIES: u64 = 1536;
/// The share of memory that a design must cover.
const PERCENT: u32 = 99;
/// A design that needs more than this part of the entries is not mentioned.
const LESS: f64 = 0.5;

/// Whether `entries` is at most [`LESS`] of `now`.
fn helps(entries: u64, now: u64) -> bool {
    entries as f64 <= now as f64 * LESS
}

/// Whether a current TLB is too small for the memory as mapped, and huge pages would help.
pub fn huge_pages_help(result: &ContiguityResult) -> bool {
    let needs = |name| result.covering(name, PERCENT);
    let needed = needs(name::AS_MAPPED).zip(needs(name::HUGE_EVERYWHERE));
    needed.is_some_and(|(now, huge)| now > TLB_ENTRIES && helps(huge, now))
}

/// The advice, as a sentence.
pub fn advise(result: &ContiguityResult) -> String {
    if result.present_pages == 0 {
        return "Nothing to gain: it has no memory.".to_owned();
    }
    let needs = |name| result.covering(name, PERCENT);
    let (Some(base), Some(now)) = (needs(name::BASE_PAGES), needs(name::AS_MAPPED)) else {
        return "Nothing can be said without the pages as they are mapped.".to_owned();
    };
    if base <= TLB_ENTRIES {
        return format!(
            "Nothing to gain: {} entries of 4 KB pages map {PERCENT} % of its memory, and second-level TLBs of today \
             have {} or more.",
            exact(base),
            exact(TLB_ENTRIES)
        );
    }
    if now <= TLB_ENTRIES {
        return format!(
            "Nothing to gain: with the huge pages that it has, {} entries map {PERCENT} % of its memory instead of {}.",
            exact(now),
            exact(base)
        );
    }
    let huge = percent(result.huge_mapped_pages as f64 / result.all_mapped_pages() as f64);
    let first = match needs(name::HUGE_EVERYWHERE) {
        Some(entries) if helps(entries, now) => format!(
            "Huge pages would help: wherever it has memory, {} entries would map {PERCENT} % of it instead of {} now, \
             when {huge} of it is on huge pages",
            exact(entries),
            exact(now)
        ),
        Some(entries) => format!(
            "More huge pages would not help much: {PERCENT} % of its memory takes {} entries now, with {huge} of it on \
             huge pages, and {} with 2 MB pages everywhere",
            exact(now),
            exact(entries)
        ),
        None => format!("{PERCENT} % of its memory takes {} entries now", exact(now)),
    };
    format!("{first}; {}.", hardware(result, now))
}

/// What other TLB designs would do with the memory as it lies.
fn hardware(result: &ContiguityResult, now: u64) -> String {
    if !result.frame_numbers {
        return "what TLBs that join pages would gain cannot be told without frame numbers".to_owned();
    }
    let designs = [
        (name::COALESCED, "coalescing groups of 4"),
        (name::CLUSTERED, "clusters of 8"),
        (name::HINTED, "blocks of 16 (Arm's contiguous hint)"),
        (name::RANGES, "ranges"),
    ];
    let needs =
        designs.into_iter().filter_map(|(name, words)| Some((result.covering(name, PERCENT)?, words)));
    match needs.min_by_key(|&(entries, _)| entries).filter(|&(entries, _)| helps(entries, now)) {
        Some((entries, words)) => {
            format!(
                "as its frames lie, {words} would need {} entries instead of {}",
                exact(entries),
                exact(now)
            )
        }
        None => "as its frames lie, no TLB that joins pages would need half as many entries".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::*;
    use super::*;

    fn result(present: u64, huge: u64, needs: &[(&str, u64)]) -> ContiguityResult {
        let design = |&(name, entries): &(&str, u64)| Design {
            name: name.to_owned(),
            title: String::new(),
            class: "measured".to_owned(),
            missing: None,
            entries: Some(entries),
            covering: vec![Coverage { percent: PERCENT, entries }],
            sizes: EntrySizes::default(),
        };
        let text = r#"{"schema":"","version":"","host":{"cpu":"","kernel":"","thp":""},"process":{"pid":1,"program":"",
            "command_line":[],"read":"at_exit","at_seconds":null,"reading_seconds":0.0},"page_bytes":4096,
            "huge_page_pages":512,"present_pages":0,"huge_mapped_pages":0,"swapped_pages":0,"peak_resident_bytes":null,
            "frame_numbers":true,"designs":[],"largest_virtual_run_pages":0,"largest_range_pages":null,"mappings":[],
            "advice":""}"#;
        let empty: ContiguityResult = serde_json::from_str(text).unwrap();
        let designs = needs.iter().map(design).collect();
        ContiguityResult { present_pages: present, huge_mapped_pages: huge, designs, ..empty }
    }

    #[test]
    fn what_fits_a_tlb_has_nothing_to_gain() {
        let small = result(1000, 0, &[(name::BASE_PAGES, 990), (name::AS_MAPPED, 990)]);
        assert!(advise(&small).starts_with("Nothing to gain: 990 entries of 4 KB pages"));
        let huge = result(512_000, 512_000, &[(name::BASE_PAGES, 506_880), (name::AS_MAPPED, 990)]);
        assert!(advise(&huge).starts_with("Nothing to gain: with the huge pages that it has, 990 entries"));
        assert!(advise(&result(0, 0, &[])).starts_with("Nothing to gain"));
    }

    #[test]
    fn what_helps_is_named_with_its_figures() {
        let needs = [
            (name::BASE_PAGES, 100_000),
            (name::AS_MAPPED, 80_000),
            (name::HUGE_EVERYWHERE, 200),
            (name::CLUSTERED, 12_000),
            (name::RANGES, 30),
        ];
        let dense = result(101_000, 25_000, &needs);
        assert!(huge_pages_help(&dense));
        let advice = advise(&dense);
        assert!(advice.starts_with("Huge pages would help: wherever it has memory, 200 entries"), "{advice}");
        assert!(
            advice.ends_with("as its frames lie, ranges would need 30 entries instead of 80,000."),
            "{advice}"
        );
        let unknown = ContiguityResult { frame_numbers: false, ..dense };
        assert!(advise(&unknown).ends_with("cannot be told without frame numbers."));
        let needs = [(name::BASE_PAGES, 9000), (name::AS_MAPPED, 9000), (name::HUGE_EVERYWHERE, 8000)];
        let sparse = advise(&result(9000, 0, &needs));
        assert!(
            sparse.starts_with(
                "More huge pages would not help much: 99 % of its memory takes 9,000 entries now"
            ),
            "{sparse}"
        );
        assert!(sparse.ends_with("no TLB that joins pages would need half as many entries."), "{sparse}");
    }
}
