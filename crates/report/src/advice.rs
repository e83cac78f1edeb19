//! The advice: one sentence on what to do about a process's translation cost, or that there is nothing to gain.
//!
//! It names only what a user can do on Linux today. Larger TLBs, a perfect TLB and a machine with huge pages alone
//! stand in the table to show how much there is to gain.

use crate::figures::{memory_share, size_bytes, total_cycles, walk_cycle_share, whole};
use crate::numbers::{count, mebibytes, page_name, percent};
use crate::schema::{MachineResult, MappingRow, ProcessResult, WhatIf};
use std::borrow::Cow;

/// Page walks below this share of all modelled cycles are not worth acting on.
pub const NOTICEABLE_WALK_SHARE: f64 = 0.01;
/// An alternative must save at least this share of all modelled cycles.
pub const NOTICEABLE_SAVING: f64 = 0.005;
/// Among alternatives that save at least this part of the largest saving, the one with the least memory wins.
pub const NEARLY_AS_MUCH: f64 = 0.9;
/// Extra memory up to this many MiB does not count against an alternative.
pub const NEGLIGIBLE_PRICE_MIB: f64 = 16.0;
/// A saving of 1 % of all modelled cycles may cost this many percent of the memory that the program touches.
pub const FAIR_MEMORY_PER_SAVING: f64 = 10.0;

/// The advice for a process, from its counters and alternatives on the first machine, whose base pages `pages_touched`
/// counts.
pub fn advise(process: &ProcessResult, base_page_bytes: u64) -> String {
    let Some(machine) = process.machines.first() else {
        return "No advice: no machine was simulated.".to_owned();
    };
    let name = &machine.name;
    if whole(machine, "references") == Some(0) {
        return "No advice: no reference was counted.".to_owned();
    }
    if whole(machine, "walks") == Some(0) {
        return format!("Nothing to gain here: on {name} the program makes no page walk at all.");
    }
    if whole(machine, "instructions") == Some(0) {
        return "No advice: without instructions, nobody can say what part of the time walks take."
            .to_owned();
    }
    let (Some(share), Some(cycles)) = (walk_cycle_share(machine), total_cycles(machine)) else {
        return format!("No advice: the counters of {name} lack walk_cycle_share or total_cycles.");
    };
    if share < NOTICEABLE_WALK_SHARE {
        let others = other_costs(machine, cycles);
        let verdict =
            if others.is_empty() { "Nothing to gain here" } else { "Page walks are not the cost here" };
        return format!(
            "{verdict}: on {name} page walks take {} of the modelled cycles, less than the {} that would be \
             worth a change.{others}",
            percent(share),
            percent(NOTICEABLE_WALK_SHARE)
        );
    }
    let candidates: Vec<Candidate> =
        process.what_if.iter().filter_map(|what_if| Candidate::new(what_if, cycles)).collect();
    let pages = whole(machine, "pages_touched").unwrap_or(0);
    let touched_mib = pages as f64 * base_page_bytes as f64 / f64::from(1 << 20);
    match choose(&candidates, touched_mib) {
        Choice::Do(best) => best.sentence(process, name),
        Choice::TooDear(best) => format!(
            "Nothing to gain at a fair price: on {name} {} would save {} of the modelled cycles but takes \
             {} of extra memory.",
            best.what_if.title,
            percent(best.saving),
            mebibytes(best.what_if.memory_price_mib)
        ),
        Choice::Nothing if candidates.is_empty() => format!(
            "Page walks take {} of the modelled cycles on {name}; no alternative that Linux can be asked for \
             was simulated.",
            percent(share)
        ),
        Choice::Nothing => format!(
            "Nothing to gain here: page walks take {} of the modelled cycles on {name}, but nothing \
             that Linux can be asked for saves even {} of all cycles.",
            percent(share),
            percent(NOTICEABLE_SAVING)
        ),
    }
}

/// Sentences about what costs noticeably besides walks: hits of lower TLB levels, and waits for caches.
fn other_costs(machine: &MachineResult, cycles: f64) -> String {
    let hits = whole(machine, "l2_hit_cycles").map_or(0.0, |hits| hits as f64 / cycles.max(1.0));
    let waits = memory_share(machine).unwrap_or(0.0);
    let mut others = String::new();
    if hits >= NOTICEABLE_WALK_SHARE {
        others += &format!(
            " Misses of the first-level TLBs that a lower level serves take another {}; larger pages lower \
             them too, which the alternatives do not count.",
            percent(hits)
        );
    }
    if waits >= NOTICEABLE_WALK_SHARE {
        others += &format!(" Waiting for caches and memory takes {}: see who waits.", percent(waits));
    }
    others
}

/// An alternative that a user can apply.
struct Candidate<'a> {
    what_if: &'a WhatIf,
    /// Share of all modelled cycles that it saves. A count that began in mid-run is still divided by the whole run,
    /// so the share errs on the low side.
    saving: f64,
}

enum Choice<'a> {
    Do(&'a Candidate<'a>),
    TooDear(&'a Candidate<'a>),
    Nothing,
}

impl<'a> Candidate<'a> {
    fn new(what_if: &'a WhatIf, cycles: f64) -> Option<Candidate<'a>> {
        let doable = matches!(what_if.id.as_str(), "all_4k" | "thp" | "mapping_2m");
        let given_up = what_if.to_instruction.is_some();
        if !doable || given_up || what_if.class != "modelled" || cycles <= 0.0 {
            return None;
        }
        let saved = what_if.baseline_walk_cycles as f64 - what_if.walk_cycles as f64;
        Some(Candidate { what_if, saving: saved / cycles })
    }

    fn fair(&self, touched_mib: f64) -> bool {
        let price = self.what_if.memory_price_mib;
        price <= NEGLIGIBLE_PRICE_MIB || price <= self.saving * FAIR_MEMORY_PER_SAVING * touched_mib
    }

    fn sentence(&self, process: &ProcessResult, machine: &str) -> String {
        let what_if = self.what_if;
        let fall = 1.0 - what_if.walk_cycles as f64 / what_if.baseline_walk_cycles as f64;
        let since = match what_if.from_instruction {
            0 => String::new(),
            from => format!(", counted from instruction {} on", count(from)),
        };
        let price = if what_if.memory_price_mib == 0.0 {
            "for no extra memory".to_owned()
        } else {
            format!("for {} of extra memory", mebibytes(what_if.memory_price_mib))
        };
        format!(
            "{}: on {machine}, modelled walk cycles fall by {} ({} of all cycles{since}) {price}; {}.",
            action(what_if, &process.attribution.mappings),
            percent(fall),
            percent(self.saving),
            allowed_way(what_if, process)
        )
    }
}

fn choose<'a>(candidates: &'a [Candidate<'a>], touched_mib: f64) -> Choice<'a> {
    let worthwhile = || candidates.iter().filter(|c| c.saving >= NOTICEABLE_SAVING);
    let most = |a: &&Candidate, b: &&Candidate| a.saving.total_cmp(&b.saving);
    let Some(largest) = worthwhile().filter(|c| c.fair(touched_mib)).max_by(most) else {
        return worthwhile().max_by(most).map_or(Choice::Nothing, Choice::TooDear);
    };
    let cheapest = worthwhile()
        .filter(|c| c.fair(touched_mib) && c.saving >= largest.saving * NEARLY_AS_MUCH)
        .min_by(|a, b| {
            let price = a.what_if.memory_price_mib.total_cmp(&b.what_if.memory_price_mib);
            price.then(b.saving.total_cmp(&a.saving))
        });
    Choice::Do(cheapest.unwrap_or(largest))
}

fn action(what_if: &WhatIf, mappings: &[MappingRow]) -> String {
    let pages = |usual: &str| page_name(what_if.page_size.as_deref().unwrap_or(usual));
    match (what_if.id.as_str(), &what_if.mapping) {
        ("mapping_2m", Some(mapping)) => {
            let row = mappings.iter().find(|row| row.name == *mapping);
            let label = row.map_or_else(|| mapping.clone(), MappingRow::label);
            format!("Put {label} on {} pages", pages("2M"))
        }
        ("thp", _) => "Let anonymous memory have transparent huge pages".to_owned(),
        ("all_4k", _) => format!("Keep this program on {} pages", pages("4K")),
        _ => what_if.title.clone(),
    }
}

/// [`way`], after the step that lifts the process's own ban on huge pages, if it has one.
fn allowed_way(what_if: &WhatIf, process: &ProcessResult) -> Cow<'static, str> {
    let way = way(what_if, process);
    match (process.thp_disable.as_deref(), what_if.id.as_str()) {
        (Some("all"), "thp" | "mapping_2m") => format!(
            "but the process itself forbids huge pages (`prctl(PR_SET_THP_DISABLE)`): lift that first, then {way}"
        )
        .into(),
        (Some("except_advised"), "thp") => {
            "but the process itself forbids huge pages that it does not advise (`prctl(PR_SET_THP_DISABLE)` with \
             `PR_THP_DISABLE_EXCEPT_ADVISED`): lift that first, or run it with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`"
                .into()
        }
        _ => way,
    }
}

/// Why most of a mapping lacks huge pages, if the cause is that it grows by less than one at a time.
fn growth(what_if: &WhatIf, row: &MappingRow) -> Option<String> {
    let size = what_if.page_size.as_deref().unwrap_or("2M");
    let blocks = row.bytes / size_bytes(size)?;
    let late = row.late_blocks.saturating_add(row.late_blocks_small_anyway);
    let is_most = late > 0 && late.saturating_mul(2) >= blocks;
    let huge = page_name(size);
    let mark = match row.late_blocks {
        0 => "mark it with `madvise(MADV_HUGEPAGE)` and ",
        _ => "",
    };
    let grown = format!(
        "{mark}grow by whole {huge}, at addresses that are multiples of it, as {} of its pieces of {huge} were first \
         touched before the mapping held all of them",
        count(late)
    );
    is_most.then_some(grown)
}

/// How a user applies the alternative on Linux.
fn way(what_if: &WhatIf, process: &ProcessResult) -> Cow<'static, str> {
    let row = what_if
        .mapping
        .as_ref()
        .and_then(|name| process.attribution.mappings.iter().find(|row| row.name == *name));
    let kind = row.map_or("unknown", |row| row.kind.as_str());
    if let (Some(row), "anonymous") = (row, kind)
        && let Some(grown) = growth(what_if, row)
    {
        return grown.into();
    }
    let way = match (what_if.id.as_str(), kind) {
        ("thp", _) => {
            "set THP to `always`, or to `madvise` and mark it `MADV_HUGEPAGE` (malloc's: \
             `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`)"
        }
        ("all_4k", _) => "turn huge pages off for it with `prctl(PR_SET_THP_DISABLE, 1)`",
        (_, "heap") => "try `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`",
        (_, "anonymous") => {
            "mark it with `madvise(MADV_HUGEPAGE)`, or where malloc made it try \
             `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`"
        }
        (_, "shared_anonymous") => {
            "mark it with `madvise(MADV_HUGEPAGE)` and set \
             /sys/kernel/mm/transparent_hugepage/shmem_enabled to `advise`"
        }
        (_, "file") => {
            let huge = page_name(what_if.page_size.as_deref().unwrap_or("2M"));
            return format!(
                "the file's text must be aligned to {huge} and remapped to huge pages when the program starts"
            )
            .into();
        }
        (_, "shared_file") => "the file must lie on hugetlbfs, or on tmpfs mounted with `huge=advise`",
        _ => "mark its range with `madvise(MADV_HUGEPAGE)`",
    };
    way.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Attribution, Metrics, Number};

    fn alternative(id: &str, mapping: Option<&str>, walk_cycles: u64, price: f64) -> WhatIf {
        WhatIf {
            id: id.to_owned(),
            title: mapping.map_or(id.to_owned(), |m| format!("{m} alone on 2 MB pages")),
            class: if id == "perfect_tlb" { "bound" } else { "modelled" }.to_owned(),
            mapping: mapping.map(str::to_owned),
            from_instruction: 0,
            to_instruction: None,
            walks: walk_cycles / 40,
            walk_cycles,
            baseline_walks: 2_000,
            baseline_walk_cycles: 80_000,
            memory_price_mib: price,
            ..WhatIf::default()
        }
    }

    fn mapping(name: &str, kind: &str) -> MappingRow {
        MappingRow { name: name.to_owned(), kind: kind.to_owned(), ..MappingRow::default() }
    }

    /// 80,000 of 1,000,000 cycles are walks; the program touches 100 MiB.
    fn process(what_if: Vec<WhatIf>) -> ProcessResult {
        let metrics = Metrics::from([
            ("walks".to_owned(), Number::Count(2_000)),
            ("pages_touched".to_owned(), Number::Count(25_600)),
            ("total_cycles".to_owned(), Number::Count(1_000_000)),
            ("walk_cycle_share".to_owned(), Number::Real(0.08)),
        ]);
        ProcessResult {
            pid: 1,
            origin: "start".to_owned(),
            program: "/bin/p".to_owned(),
            ended: "exit 0".to_owned(),
            machines: vec![MachineResult::new("skylake", metrics)],
            attribution: Attribution {
                mappings: vec![mapping("[heap]", "heap"), mapping("/lib/libx.so", "file")],
                ..Attribution::default()
            },
            what_if,
            ..ProcessResult::default()
        }
    }

    /// On a machine whose base pages are 4 KiB.
    fn advised(process: &ProcessResult) -> String {
        advise(process, 4096)
    }

    #[test]
    fn the_heap_on_huge_pages() {
        let advice = advised(&process(vec![
            alternative("baseline", None, 80_000, 0.0),
            alternative("mapping_2m", Some("[heap]"), 8_000, 3.2),
            alternative("all_2m", None, 0, 0.0),
            alternative("perfect_tlb", None, 0, 0.0),
        ]));
        assert_eq!(
            advice,
            "Put [heap] on 2 MB pages: on skylake, modelled walk cycles fall by 90.0 % (7.20 % of all \
             cycles) for 3.2 MiB of extra memory; try `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`."
        );
    }

    #[test]
    fn a_file_and_a_late_start_are_named() {
        let mut text = alternative("mapping_2m", Some("/lib/libx.so"), 20_000, 0.0);
        text.from_instruction = 12_300_000;
        assert_eq!(
            advised(&process(vec![text])),
            "Put /lib/libx.so on 2 MB pages: on skylake, modelled walk cycles fall by 75.0 % (6.00 % of \
             all cycles, counted from instruction 12.3 M on) for no extra memory; the file's text must be \
             aligned to 2 MB and remapped to huge pages when the program starts."
        );
    }

    #[test]
    fn nearly_the_same_saving_for_less_memory_wins() {
        let thp = alternative("thp", None, 1_000, 60.0);
        let heap = alternative("mapping_2m", Some("[heap]"), 8_000, 3.0);
        assert!(advised(&process(vec![thp.clone(), heap])).starts_with("Put [heap]"));
        let weaker = alternative("mapping_2m", Some("[heap]"), 9_000, 3.0);
        assert!(advised(&process(vec![thp, weaker])).starts_with("Let anonymous memory"));
    }

    #[test]
    fn memory_is_weighed_against_the_saving() {
        // 7.2 % of the cycles may cost 72 % of the 100 MiB touched.
        let fair = alternative("thp", None, 8_000, 72.0);
        assert!(advised(&process(vec![fair])).starts_with("Let anonymous memory"));
        let dear = alternative("thp", None, 8_000, 72.1);
        assert_eq!(
            advised(&process(vec![dear])),
            "Nothing to gain at a fair price: on skylake thp would save 7.20 % of the modelled cycles but \
             takes 72.1 MiB of extra memory."
        );
    }

    #[test]
    fn touched_memory_is_counted_in_the_machines_pages() {
        // Four times the memory, so four times the price.
        let fair = process(vec![alternative("thp", None, 8_000, 288.0)]);
        assert!(advise(&fair, 16 << 10).starts_with("Let anonymous memory"));
        let dear = process(vec![alternative("thp", None, 8_000, 288.1)]);
        assert!(advise(&dear, 16 << 10).starts_with("Nothing to gain at a fair price"));
    }

    #[test]
    fn what_nobody_can_do_is_never_advised() {
        let room = ["all_2m", "double_tlb", "perfect_tlb"].map(|id| alternative(id, None, 0, 0.0));
        let advice = advised(&process(room.to_vec()));
        assert_eq!(
            advice,
            "Page walks take 8.00 % of the modelled cycles on skylake; no alternative that Linux can be asked \
             for was simulated."
        );
        let mut bound = alternative("mapping_2m", Some("[heap]"), 0, 0.0);
        bound.class = "bound".to_owned();
        assert_eq!(advised(&process(vec![bound])), advice);
    }

    #[test]
    fn small_walk_shares_and_small_savings_are_nothing_to_gain() {
        let mut cheap = process(vec![alternative("mapping_2m", Some("[heap]"), 0, 0.0)]);
        cheap.machines[0].metrics.insert("walk_cycle_share".to_owned(), Number::Real(0.0099));
        assert_eq!(
            advised(&cheap),
            "Nothing to gain here: on skylake page walks take 0.99 % of the modelled cycles, less than \
             the 1.00 % that would be worth a change."
        );
        let small = process(vec![alternative("thp", None, 75_001, 0.0)]);
        assert!(advised(&small).starts_with("Nothing to gain here"), "{}", advised(&small));
        let enough = process(vec![alternative("thp", None, 75_000, 0.0)]);
        assert!(advised(&enough).starts_with("Let anonymous memory"));
        cheap.machines[0].metrics.insert("walks".to_owned(), Number::Count(0));
        assert_eq!(
            advised(&cheap),
            "Nothing to gain here: on skylake the program makes no page walk at all."
        );
    }

    #[test]
    fn what_the_process_forbids_is_to_be_lifted_first() {
        let mut process = process(vec![alternative("mapping_2m", Some("[heap]"), 8_000, 3.2)]);
        process.thp_disable = Some("all".to_owned());
        assert_eq!(
            advised(&process),
            "Put [heap] on 2 MB pages: on skylake, modelled walk cycles fall by 90.0 % (7.20 % of all cycles) for 3.2 \
             MiB of extra memory; but the process itself forbids huge pages (`prctl(PR_SET_THP_DISABLE)`): lift that \
             first, then try `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`."
        );
        process.thp_disable = Some("except_advised".to_owned());
        assert!(advised(&process).ends_with("; try `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`."));
        process.what_if = vec![alternative("thp", None, 8_000, 0.0)];
        assert!(
            advised(&process).contains("forbids huge pages that it does not advise"),
            "{}",
            advised(&process)
        );
    }

    #[test]
    fn memory_that_grows_in_small_pieces_is_to_grow_in_larger_ones() {
        let mut process = process(vec![alternative("mapping_2m", Some("[anonymous 0x1000]"), 8_000, 0.0)]);
        let grown =
            MappingRow { bytes: 256 << 20, late_blocks: 112, ..mapping("[anonymous 0x1000]", "anonymous") };
        process.attribution.mappings.push(grown.clone());
        let advice = advised(&process);
        assert!(
            advice.ends_with(
                "; grow by whole 2 MB, at addresses that are multiples of it, as 112 of its pieces of 2 MB were first \
                 touched before the mapping held all of them."
            ),
            "{advice}"
        );
        assert!(!advice.contains("madvise"), "{advice}");
        process.attribution.mappings.pop();
        let unadvised = MappingRow { late_blocks: 0, late_blocks_small_anyway: 112, ..grown.clone() };
        process.attribution.mappings.push(unadvised);
        assert!(advised(&process).contains("; mark it with `madvise(MADV_HUGEPAGE)` and grow by whole 2 MB"));
        process.attribution.mappings.pop();
        process.attribution.mappings.push(MappingRow { late_blocks: 3, ..grown });
        assert!(advised(&process).contains("; mark it with `madvise(MADV_HUGEPAGE)`, or where malloc"));
    }
}
