//! The list: one entry a metric, or a family of metrics.

use super::{Adds, Chapter, Metric, Unit};
use crate::classes::Class;

const fn measured(id: &'static str, unit: Unit, doc: &'static str) -> Metric {
    Metric { id, unit, class: Class::Measured, adds: Adds::Up, doc }
}

const fn modelled(id: &'static str, unit: Unit, doc: &'static str) -> Metric {
    Metric { id, unit, class: Class::Modelled, adds: Adds::Up, doc }
}

impl Metric {
    const fn never_adds_up(self) -> Metric {
        Metric { adds: Adds::Never, ..self }
    }

    const fn made_anew(self, of: &'static [&'static str], times: f64, over: &'static str) -> Metric {
        Metric { adds: Adds::Anew { of, times, over }, ..self }
    }

    const fn bound(self) -> Metric {
        Metric { class: Class::Bound, ..self }
    }
}

/// All metrics, by what they are of.
pub const CHAPTERS: &[Chapter] = &[
    Chapter { title: "The program", about: "Of every machine.", metrics: PROGRAM },
    Chapter { title: "TLBs and walks", about: "Of every machine, as far as it has the part.", metrics: TLBS },
    Chapter {
        title: "Software-managed TLBs",
        about: "Of machines with `[walker.mapped]` ([how](../explanation/software-managed-tlbs.md)).",
        metrics: SOFTWARE,
    },
    Chapter {
        title: "Arrangements",
        about: "Of turns, cores and [structures](../explanation/os-structure.md).",
        metrics: ARRANGEMENTS,
    },
    Chapter {
        title: "Kernels",
        about: "Of a kernel with a [policy](../explanation/kernel-policies.md) (`--os`, `[os]`).",
        metrics: KERNELS,
    },
    Chapter {
        title: "Physical memory",
        about: "Of a kernel of its own with a memory: see [physical memory](../explanation/physical-memory.md).",
        metrics: MEMORY,
    },
    Chapter {
        title: "Data sides",
        about: "Of machines with `side = \"data\"`: see [ranges and energy](../explanation/ranges-and-energy.md).",
        metrics: DATA_SIDES,
    },
    Chapter {
        title: "Sets of the last level",
        about: "Of machines of a [study](study-files.md) with layouts: the last level's arrays for base\n\
                pages, each array alone and with LRU replacement.",
        metrics: LAST_LEVEL,
    },
    Chapter {
        title: "Families and curves",
        about: "Of arrays in the Parquet table of a [study](study-files.md), beside `references`.",
        metrics: FAMILIES,
    },
];

const PROGRAM: &[Metric] = &[
    measured("instructions", Unit::Count, "instructions executed"),
    measured(
        "spin_instructions",
        Unit::Count,
        "those of them that were a thread waiting by spinning; left out where there are none. Above 0.1 % the report \
         says so: threads run one at a time under the engine, so spinning lasts longer than natively",
    ),
    measured("references_fetch", Unit::Count, "fetches: one for each instruction, at its address and length"),
    measured(
        "references_data",
        Unit::Count,
        "data references: loads, stores, and modifies (a read and write of the same bytes by one instruction is one)",
    ),
    measured("references", Unit::Count, "both; on data sides the data references"),
    measured("pages_touched", Unit::Pages, "base pages of the machine referenced at least once"),
];

const TLBS: &[Metric] = &[
    modelled("tlb.level{level}.misses", Unit::Count, "references that missed every array of a level"),
    modelled("tlb.{array}.lookups", Unit::Count, "references that looked the array up"),
    modelled("tlb.{array}.hits", Unit::Count, "those that it served"),
    modelled("tlb.{array}.misses", Unit::Count, "those that it did not serve"),
    modelled("tlb.{array}.prefetches", Unit::Count, "of an array that prefetches: translations fetched"),
    modelled("tlb.{array}.prefetches_useful", Unit::Count, "those of them that a reference then found"),
    modelled("tlb.{array}.prefetch_walk_references", Unit::Count, "page-table entries read for them"),
    modelled(
        "walks",
        Unit::Count,
        "page walks: every level of the TLB missed, and no prefetch buffer had the page",
    ),
    modelled("walks_fetch", Unit::Count, "those by fetches"),
    modelled("walks_data", Unit::Count, "those by data references"),
    modelled("walk_references", Unit::Count, "page-table entries that walks read"),
    modelled("walk_references_guest", Unit::Count, "of a nested walker: those in the guest's tables"),
    modelled("walk_references_host", Unit::Count, "of a nested walker: those in the host's tables"),
    modelled("walk_cache.{cache}.lookups", Unit::Count, "lookups of a page-walk cache"),
    modelled("walk_cache.{cache}.hits", Unit::Count, "those that found an entry"),
    modelled(
        "cache.{cache}.{requester}_lookups",
        Unit::Count,
        "accesses that looked a cache of memory up, page-table entries of prefetches among those of walks",
    ),
    modelled("cache.{cache}.{requester}_hits", Unit::Count, "those that it had"),
    modelled("cache.{cache}.{requester}_misses", Unit::Count, "those that it had not"),
    modelled("memory.walk_references", Unit::Count, "page-table entries that no cache of memory had"),
    modelled(
        "walk_cycles",
        Unit::Cycles,
        "`walk_references` × `cost.walk_reference` of the machine; with caches of memory, the latencies of where the \
         entries were found; of software-managed TLBs, the cycles of the four classes that a TLB has a part in",
    ),
    modelled(
        "l2_hit_cycles",
        Unit::Cycles,
        "misses of the first level that a lower one served × `cost.l2_hit` of the machine; on data sides all of them",
    ),
    modelled(
        "total_cycles",
        Unit::Cycles,
        "all modelled cycles but a kernel's: instructions × `cost.cycles_per_instruction`, lower-level hits, walks, \
         traps",
    ),
    modelled("walk_cycle_share", Unit::Share, "walk cycles as a share of all modelled cycles").made_anew(
        &["walk_cycles"],
        1.0,
        "total_cycles",
    ),
    modelled("walks_per_kilo_instruction", Unit::PerThousandInstructions, "walks in a thousand instructions")
        .made_anew(&["walks"], 1000.0, "instructions"),
    modelled(
        "tlb_mcpi",
        Unit::CyclesPerInstruction,
        "cycles of address translation for each instruction: `walk_cycles`, `l2_hit_cycles` and, where there is one, \
         `kernel.cycles`",
    )
    .made_anew(&["walk_cycles", "l2_hit_cycles", "kernel.cycles"], 1.0, "instructions"),
];

const SOFTWARE: &[Metric] = &[
    modelled(
        "misses.{class}",
        Unit::Count,
        "misses by [class](../explanation/software-managed-tlbs.md#classes-of-misses), first touches \
         and first stores among them",
    ),
    modelled("misses.all", Unit::Count, "all of them"),
    modelled("miss_cycles.{class}", Unit::Cycles, "cycles of their handlers"),
    modelled("miss_cycles.all", Unit::Cycles, "all of them"),
    modelled("partition.lower", Unit::Slots, "slots below the partition at the end").never_adds_up(),
    modelled(
        "partition.lower_mean",
        Unit::Slots,
        "the same on average over instructions; where it went is `partition` beside `metrics`, a list of \
         `instructions` and `lower`",
    )
    .never_adds_up(),
    modelled("partition.moves", Unit::Count, "how often the partition moved"),
    modelled("host_misses", Unit::Count, "with `--by-traps`: misses of the host's TLB, each a trap"),
];

const ARRANGEMENTS: &[Metric] = &[
    modelled("cores", Unit::Count, "cores on which threads ran").never_adds_up(),
    modelled("switches", Unit::Count, "switches from one process to another"),
    measured("system_calls", Unit::Count, "system calls of the programs, each of which enters the kernel"),
    modelled("clock_ticks", Unit::Count, "ticks of the clock"),
    modelled("server_visits", Unit::Count, "times that a server was switched to"),
    modelled("kernel_references", Unit::Count, "references of the kernel to its mapped data"),
    modelled("server_references", Unit::Count, "references of servers, fetches included"),
    modelled(
        "translations_fetch",
        Unit::Count,
        "fetches that the core's first level was asked for: one on two pages counts twice",
    ),
    modelled(
        "translations_data",
        Unit::Count,
        "data references that the core's first level was asked for: one on two pages counts twice",
    ),
];

const KERNELS: &[Metric] = &[
    modelled(
        "kernel.faults",
        Unit::Count,
        "first touches of pages that nothing mapped, and stores to pages that may be shared",
    ),
    modelled("kernel.promotions", Unit::Count, "superpages built of pages that were mapped before"),
    modelled("kernel.promotions.{size}", Unit::Count, "those of one size, where there are some"),
    modelled("kernel.promotions_in_place", Unit::Count, "those whose pages lay right already"),
    modelled("kernel.promoted_bytes", Unit::Bytes, "bytes of superpages that were built"),
    modelled("kernel.demotions", Unit::Count, "superpages taken apart"),
    modelled("kernel.trimmed_bytes", Unit::Bytes, "bytes of superpages given back that the program never touched"),
    modelled(
        "kernel.refused_area",
        Unit::Count,
        "superpages that the policy wanted and that would have reached out of their area of memory",
    ),
    modelled("kernel.file_faults", Unit::Count, "faults that mapped pages of files, among all"),
    modelled("kernel.file_reads", Unit::Count, "reads of files for them"),
    modelled(
        "kernel.copies_on_write",
        Unit::Count,
        "first stores to pages of files or shared with a parent or child, that copied them",
    ),
    modelled("kernel.reused", Unit::Count, "first stores to pages that no child shared any more"),
    modelled(
        "kernel.write_notices",
        Unit::Count,
        "first stores to shared mappings of files that a load had mapped",
    ),
    modelled("kernel.backed_bytes_peak", Unit::Bytes, "most bytes at one time that were backed"),
    modelled(
        "kernel.untouched_bytes_peak",
        Unit::Bytes,
        "most bytes at one time that were backed and never touched",
    ),
    modelled(
        "kernel.foreign_bytes_peak",
        Unit::Bytes,
        "most bytes mapped at one time in frames of the page cache or of the parent, which no other count of memory \
         holds",
    ),
    modelled(
        "kernel.killed_at",
        Unit::Instruction,
        "with `memory.when_full = \"oom\"`, if the process was killed: at which instruction. All counts of the \
         kernel's row end there",
    )
    .never_adds_up(),
    modelled(
        "kernel.killed_for_bytes",
        Unit::Bytes,
        "if the process was killed: the bytes that there was no frame for",
    )
    .never_adds_up(),
    modelled("kernel.{account}_cycles", Unit::Cycles, "the kernel's cycles by what they went into"),
    modelled("kernel.cycles", Unit::Cycles, "all of them"),
];

const MEMORY: &[Metric] = &[
    modelled(
        "kernel.faults_fallen_back",
        Unit::Count,
        "faults that took a smaller page for want of a block of frames",
    ),
    modelled("kernel.refused_memory", Unit::Count, "superpages not built for want of a block of frames"),
    modelled("kernel.compactions", Unit::Count, "blocks made free for promotions"),
    modelled("kernel.frames_moved", Unit::Frames, "frames moved for that"),
    modelled("kernel.reservations_refused", Unit::Count, "reservations that found no block"),
    modelled("kernel.reservations_broken", Unit::Count, "reservations that were broken for want of frames"),
    modelled("kernel.eager_areas", Unit::Count, "requests of memory backed when they were mapped"),
    modelled("kernel.eager_bytes", Unit::Bytes, "their bytes"),
    modelled("kernel.eager_runs", Unit::Count, "their runs of adjacent frames"),
    modelled("kernel.eager_left", Unit::Count, "requests left to demand"),
    modelled("kernel.swap_outs", Unit::Pages, "base pages written to swap"),
    modelled("kernel.swap_ins", Unit::Pages, "base pages read back"),
    modelled("kernel.frames", Unit::Frames, "frames of the memory"),
    modelled("kernel.frames_free", Unit::Frames, "those that are free at the end"),
    modelled(
        "kernel.frames_free_in_blocks.{order}",
        Unit::Frames,
        "those in free blocks of at least 2^n frames, so that 1 − `frames_free_in_blocks.N` / `frames_free` is the \
         unusable index",
    ),
];

const DATA_SIDES: &[Metric] = &[
    modelled("translations", Unit::Count, "references, by page"),
    modelled("tlb.{array}.searches", Unit::Count, "searches of an array: each costs energy"),
    modelled("tlb.{array}.writes", Unit::Count, "entries written to it"),
    modelled(
        "tlb.{array}.searches_with_ways.{ways}",
        Unit::Count,
        "of a first-level array: searches with so many ways on",
    ),
    modelled(
        "tlb.{array}.writes_with_ways.{ways}",
        Unit::Count,
        "of a first-level array: writes with so many ways on",
    ),
    modelled("range_tlb.{array}.lookups", Unit::Count, "references that came to the level of a range TLB"),
    modelled("range_tlb.{array}.hits", Unit::Count, "those that it served"),
    modelled("range_tlb.{array}.misses", Unit::Count, "those that it did not serve"),
    modelled("range_tlb.{array}.repeated_hits", Unit::Count, "hits of the range used last"),
    modelled("range_tlb.{array}.searches", Unit::Count, "searches of it"),
    modelled("range_tlb.{array}.writes", Unit::Count, "ranges written to it"),
    modelled("walk_cache.{cache}.writes", Unit::Count, "entries written to a page-walk cache"),
    modelled("range_table.ranges", Unit::Count, "ranges at the end"),
    modelled("range_table.nodes", Unit::Count, "nodes of the tree that holds them"),
    modelled("range_table.pages", Unit::Pages, "their pages"),
    modelled("range_table.pages_of_all", Unit::Pages, "pages that are backed at the end"),
    modelled("range_table.median_pages", Unit::Pages, "pages of the middle range by length").never_adds_up(),
    modelled("range_table.largest_pages", Unit::Pages, "pages of the longest range").never_adds_up(),
    modelled(
        "range_table.ranges_for_{percent}_percent",
        Unit::Count,
        "how many of the longest ranges have that share of all pages; 0 where all together have not",
    ),
    modelled("range_walks", Unit::Count, "walks of the range table"),
    modelled("range_walk_nodes", Unit::Count, "nodes that they read"),
    modelled(
        "walks_without_frame",
        Unit::Count,
        "walks for pages that the memory had no frame for, with `backing = \"eager\"` or `\"demand\"`: not 0 means \
         that the memory is too small",
    ),
    modelled(
        "segment_hits",
        Unit::Count,
        "walks that the ideal direct segment served; `walks` is without them, `walk_references` with them",
    ),
    modelled("collapses", Unit::Count, "blocks that got a huge page in the background"),
    modelled("anchors.lookups", Unit::Count, "lookups by anchor"),
    modelled("anchors.hits", Unit::Count, "those that hit; they are among `tlb.{array}.hits`"),
    modelled("anchors.distance", Unit::Pages, "the distance of anchors at the end").never_adds_up(),
    modelled("anchors.distance_changes", Unit::Count, "how often it changed"),
    modelled(
        "predictor.second_searches_level{level}",
        Unit::Count,
        "references that were searched for at both sizes",
    ),
    modelled("lite.intervals", Unit::Count, "decisions on ways"),
    modelled("lite.reactivations_by_chance", Unit::Count, "those that switched all ways on, drawn by chance"),
    modelled("lite.reactivations_by_misses", Unit::Count, "those that switched all ways on, as misses rose"),
    modelled("miss_cycles", Unit::Cycles, "`l2_hit_cycles` and `walk_cycles`"),
    modelled("energy_pj.walks", Unit::Picojoules, "dynamic energy of page walks"),
    modelled("energy_pj.range_walks", Unit::Picojoules, "dynamic energy of walks of the range table"),
    modelled("energy_pj.all", Unit::Picojoules, "dynamic energy of all of translation"),
    modelled(
        "energy_pj.all_if_walks_miss_l1",
        Unit::Picojoules,
        "what `energy_pj.all` would be if no read of a walk hit the first-level data cache and all the second",
    )
    .bound(),
    modelled("energy_pj.{structure}.searches", Unit::Picojoules, "dynamic energy of a structure's searches"),
    modelled("energy_pj.{structure}.writes", Unit::Picojoules, "dynamic energy of its writes"),
];

const LAST_LEVEL: &[Metric] = &[
    modelled(
        "last_level.misses",
        Unit::Count,
        "misses of all these arrays; the walks of a machine with one level",
    ),
    modelled("last_level.compulsory_misses", Unit::Count, "those of pages that were never referenced before"),
    modelled("last_level.capacity_misses", Unit::Count, "those that a fully associative array has too"),
    modelled("last_level.conflict_misses", Unit::Count, "those that it has not"),
    modelled(
        "last_level.spared_misses",
        Unit::Count,
        "hits that a fully associative array would have missed",
    ),
    modelled(
        "last_level.fully_associative_misses",
        Unit::Count,
        "misses with the sets made one: what placing libraries can come down to, but for what sets spare",
    ),
    modelled("last_level.evictions_of_code_by_code", Unit::Count, "pages of code that code displaced"),
    modelled("last_level.evictions_of_data_by_code", Unit::Count, "pages of data that code displaced"),
    modelled("last_level.evictions_of_code_by_data", Unit::Count, "pages of code that data displaced"),
    modelled("last_level.evictions_of_data_by_data", Unit::Count, "pages of data that data displaced"),
    modelled("last_level.{array}.{sets}", Unit::Count, "the same of one array"),
    modelled(
        "last_level.{array}.misses_per_set_variation",
        Unit::Quotient,
        "standard deviation of misses of sets over their mean",
    )
    .never_adds_up(),
    modelled(
        "last_level.{array}.most_involved_page_share",
        Unit::Share,
        "evictions that one page had a part in, of all misses, of the page with most",
    )
    .never_adds_up(),
];

const FAMILIES: &[Metric] =
    &[modelled("misses", Unit::Count, "misses of one array of a `[family]`, or of one size of a `[curve]`")];
