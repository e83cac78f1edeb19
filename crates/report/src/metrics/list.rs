//! The list: one entry a metric, or a family of metrics.

use super::{Aggregation, Chapter, Metric, Unit};
use crate::classes::Class;

const fn measured(id: &'static str, unit: Unit, doc: &'static str) -> Metric {
    Metric { id, unit, class: Class::Measured, adds: Aggregation::Sum, doc }
}

const fn modelled(id: &'static str, unit: Unit, doc: &'static str) -> Metric {
    Metric { id, unit, class: Class::Modelled, adds: Aggregation::Sum, doc }
}

impl Metric {
    const fn never_adds_up(self) -> Metric {
        Metric { adds: Aggregation::Never, ..self }
    }

    const fn recomputed(self, of: &'static [&'static str], times: f64, over: &'static str) -> Metric {
        Metric { adds: Aggregation::Recomputed { of, times, over }, ..self }
    }

    const fn bound(self) -> Metric {
        Metric { class: Class::Bound, ..self }
    }
}

/// All metrics, by subject.
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
        about: "Of a kernel of its own that has one: see [physical memory](../explanation/physical-memory.md).",
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
        "instructions that a thread spent spinning; left out if there are none. Above 0.1 % the report says so: \
         threads run one at a time under the engine, so spinning lasts longer than natively",
    ),
    measured("references_fetch", Unit::Count, "fetches: one for each instruction, at its address and length"),
    measured(
        "references_data",
        Unit::Count,
        "data references: loads, stores, and modifies (a read and write of the same bytes by one instruction is one)",
    ),
    measured("references", Unit::Count, "fetches and data references; on data sides data references only"),
    measured("pages_touched", Unit::Pages, "base pages of the machine referenced at least once"),
];

const TLBS: &[Metric] = &[
    modelled("tlb.level{level}.misses", Unit::Count, "references that missed every array of a level"),
    modelled("tlb.{array}.lookups", Unit::Count, "references that looked the array up"),
    modelled("tlb.{array}.hits", Unit::Count, "lookups that hit"),
    modelled("tlb.{array}.misses", Unit::Count, "lookups that missed"),
    modelled("tlb.{array}.prefetches", Unit::Count, "if the array prefetches: translations prefetched"),
    modelled(
        "tlb.{array}.prefetches_useful",
        Unit::Count,
        "prefetched translations that a reference then hit",
    ),
    modelled("tlb.{array}.prefetch_walk_references", Unit::Count, "page-table entries that prefetches read"),
    modelled(
        "walks",
        Unit::Count,
        "page walks: every level of the TLB missed, and no prefetch buffer had the page",
    ),
    modelled("walks_fetch", Unit::Count, "walks by fetches"),
    modelled("walks_data", Unit::Count, "walks by data references"),
    modelled("walk_references", Unit::Count, "page-table entries that walks read"),
    modelled("walk_references_guest", Unit::Count, "of a nested walker: entries read in the guest's tables"),
    modelled("walk_references_host", Unit::Count, "of a nested walker: entries read in the host's tables"),
    modelled("walk_cache.{cache}.lookups", Unit::Count, "lookups of a page-walk cache"),
    modelled("walk_cache.{cache}.hits", Unit::Count, "lookups that hit"),
    modelled(
        "cache.{cache}.{requester}_lookups",
        Unit::Count,
        "lookups of a cache of memory; reads of page-table entries for prefetches count as walks",
    ),
    modelled("cache.{cache}.{requester}_hits", Unit::Count, "lookups that hit"),
    modelled("cache.{cache}.{requester}_misses", Unit::Count, "lookups that missed"),
    modelled(
        "cache.{cache}.slow_hits",
        Unit::Count,
        "of a column-associative or pseudo-associative cache: hits at `slow_latency`, if there were any",
    ),
    modelled(
        "cache.{cache}.writebacks",
        Unit::Count,
        "dirty lines that left the cache, for the next level or memory; they take no time, and are no lookups there",
    ),
    modelled(
        "cache.{cache}.write_stall_cycles",
        Unit::Cycles,
        "if stores waited for a place in the cache's write buffer: how long; `memory.stall_cycles` has these too",
    ),
    modelled("memory.walk_references", Unit::Count, "page-table entries that missed every cache of memory"),
    modelled(
        "memory.stall_cycles",
        Unit::Cycles,
        "with caches of memory: cycles that references, also of a structure, wait beyond the latency of the nearest \
         cache that can end them; nothing overlaps, so a processor that runs on waits less",
    ),
    modelled(
        "walk_cycles",
        Unit::Cycles,
        "`walk_references` × `cost.walk_reference` of the machine; with caches of memory, the latencies of the caches \
         that held the entries; of software-managed TLBs, the cycles of the four classes that depend on the TLB",
    ),
    modelled(
        "l2_hit_cycles",
        Unit::Cycles,
        "first-level misses that a lower level served × `cost.l2_hit` of the machine; on data sides all of level 1's \
         misses",
    ),
    modelled(
        "total_cycles",
        Unit::Cycles,
        "all modelled cycles except a kernel's: instructions × `cost.cycles_per_instruction`, lower-level hits, walks, \
         traps and, with caches of memory, waits",
    ),
    modelled("walk_cycle_share", Unit::Share, "walk cycles as a share of all modelled cycles").recomputed(
        &["walk_cycles"],
        1.0,
        "total_cycles",
    ),
    modelled("walks_per_kilo_instruction", Unit::PerThousandInstructions, "walks per thousand instructions")
        .recomputed(&["walks"], 1000.0, "instructions"),
    modelled(
        "tlb_mcpi",
        Unit::CyclesPerInstruction,
        "cycles of address translation per instruction: `walk_cycles`, `l2_hit_cycles` and, if there is one, \
         `kernel.cycles`",
    )
    .recomputed(&["walk_cycles", "l2_hit_cycles", "kernel.cycles"], 1.0, "instructions"),
    modelled(
        "mcpi",
        Unit::CyclesPerInstruction,
        "with caches of memory: cycles of the memory system per instruction, `memory.stall_cycles` and those of \
         `tlb_mcpi` (Romer 1998, section 4.3)",
    )
    .recomputed(
        &["memory.stall_cycles", "walk_cycles", "l2_hit_cycles", "kernel.cycles"],
        1.0,
        "instructions",
    ),
];

const SOFTWARE: &[Metric] = &[
    modelled(
        "misses.{class}",
        Unit::Count,
        "misses by [class](../explanation/software-managed-tlbs.md#classes-of-misses), first touches \
         and first stores among them",
    ),
    modelled("misses.all", Unit::Count, "misses of all classes"),
    modelled("miss_cycles.{class}", Unit::Cycles, "cycles of the class's handler"),
    modelled("miss_cycles.all", Unit::Cycles, "cycles of all handlers"),
    modelled("partition.lower", Unit::Slots, "slots below the partition at the end of the run").never_adds_up(),
    modelled(
        "partition.lower_mean",
        Unit::Slots,
        "slots below the partition, averaged over instructions; `partition` beside `metrics` lists each move as \
         `instructions` and `lower`",
    )
    .never_adds_up(),
    modelled("partition.moves", Unit::Count, "how often the partition moved"),
    modelled("host_misses", Unit::Count, "by traps: misses of the host's TLB; each is a trap"),
];

const ARRANGEMENTS: &[Metric] = &[
    modelled("cores", Unit::Count, "cores on which threads ran").never_adds_up(),
    modelled("switches", Unit::Count, "switches from one process to another"),
    measured("system_calls", Unit::Count, "system calls of the programs; each enters the kernel"),
    modelled("clock_ticks", Unit::Count, "ticks of the clock"),
    modelled("server_visits", Unit::Count, "switches to a server"),
    modelled("kernel_references", Unit::Count, "references of the kernel to its mapped data"),
    modelled("server_references", Unit::Count, "references of servers, fetches included"),
    modelled(
        "translations_fetch",
        Unit::Count,
        "fetches translated by the core's first level; a fetch on two pages counts twice",
    ),
    modelled(
        "translations_data",
        Unit::Count,
        "data references translated by the core's first level; one on two pages counts twice",
    ),
];

const KERNELS: &[Metric] = &[
    modelled(
        "kernel.faults",
        Unit::Count,
        "first touches of pages that nothing mapped, and stores to pages that may be shared",
    ),
    modelled("kernel.promotions", Unit::Count, "superpages built from mapped pages"),
    modelled("kernel.promotions.{size}", Unit::Count, "promotions to one size; left out if there are none"),
    modelled("kernel.promotions_in_place", Unit::Count, "promotions whose pages already lay in place"),
    modelled("kernel.promoted_bytes", Unit::Bytes, "bytes of promoted superpages"),
    modelled("kernel.demotions", Unit::Count, "superpages taken apart"),
    modelled(
        "kernel.trimmed_bytes",
        Unit::Bytes,
        "bytes of superpages that the kernel reclaimed because the program never touched them",
    ),
    modelled(
        "kernel.recolorings",
        Unit::Count,
        "base pages moved to frames of other colors; kernels that place pages",
    ),
    modelled(
        "kernel.recolorings_repeated",
        Unit::Count,
        "such moves of pages that moved five times or more (Romer 1998, table 6-4)",
    ),
    modelled(
        "kernel.recolorings_refused",
        Unit::Count,
        "such moves refused: no frame of the color was free, or the frame is not the process's own",
    ),
    modelled("kernel.pages_recolored", Unit::Count, "different pages that such moves copied"),
    modelled(
        "kernel.pages_copied",
        Unit::Count,
        "different pages that such moves or promotions copied; kernels that place pages",
    ),
    modelled("kernel.pages_copied_by_both", Unit::Count, "of these, pages that both copied (table 6-3)"),
    modelled(
        "kernel.pages_unlisted",
        Unit::Count,
        "base pages whose frame is not the one that `placement.frames` lists; 0 without a list",
    ),
    modelled(
        "kernel.refused_area",
        Unit::Count,
        "promotions refused because the superpage would extend beyond its area",
    ),
    modelled("kernel.file_faults", Unit::Count, "faults that mapped pages of files; `kernel.faults` includes them"),
    modelled("kernel.file_reads", Unit::Count, "file reads that those faults caused"),
    modelled(
        "kernel.copies_on_write",
        Unit::Count,
        "copies made at first stores to file pages or to pages shared with a parent or child",
    ),
    modelled("kernel.reused", Unit::Count, "first stores to pages that no child shares any more"),
    modelled(
        "kernel.write_notices",
        Unit::Count,
        "first stores to pages of shared file mappings that a load had mapped",
    ),
    modelled("kernel.backed_bytes_peak", Unit::Bytes, "most bytes backed at one time"),
    modelled(
        "kernel.untouched_bytes_peak",
        Unit::Bytes,
        "most bytes backed at one time that no process had touched yet",
    ),
    modelled(
        "kernel.foreign_bytes_peak",
        Unit::Bytes,
        "most bytes mapped at one time in frames of the page cache or of the parent; no other count of memory includes \
         them",
    ),
    modelled(
        "kernel.killed_at",
        Unit::Instruction,
        "with `memory.when_full = \"oom\"`: the instruction at which the kernel killed the process. All counts of the \
         kernel's row end there",
    )
    .never_adds_up(),
    modelled(
        "kernel.killed_for_bytes",
        Unit::Bytes,
        "if the process was killed: the bytes that no frame was free for",
    )
    .never_adds_up(),
    modelled("kernel.{account}_cycles", Unit::Cycles, "the kernel's cycles by account"),
    modelled("kernel.cycles", Unit::Cycles, "all the kernel's cycles"),
];

const MEMORY: &[Metric] = &[
    modelled(
        "kernel.faults_fallen_back",
        Unit::Count,
        "faults that took a smaller page because no block of frames was free",
    ),
    modelled("kernel.refused_memory", Unit::Count, "promotions refused because no block of frames was free"),
    modelled("kernel.compactions", Unit::Count, "blocks freed by compaction for promotions"),
    modelled("kernel.frames_moved", Unit::Frames, "frames that compaction moved"),
    modelled("kernel.reservations_refused", Unit::Count, "reservations that found no block"),
    modelled("kernel.reservations_broken", Unit::Count, "reservations broken because frames ran out"),
    modelled("kernel.eager_areas", Unit::Count, "mapping requests backed at once"),
    modelled("kernel.eager_bytes", Unit::Bytes, "bytes of those requests"),
    modelled("kernel.eager_runs", Unit::Count, "runs of adjacent frames that back them"),
    modelled("kernel.eager_left", Unit::Count, "mapping requests left to demand paging"),
    modelled("kernel.swap_outs", Unit::Pages, "base pages written to swap"),
    modelled("kernel.swap_ins", Unit::Pages, "base pages read back from swap"),
    modelled("kernel.frames", Unit::Frames, "frames of the physical memory"),
    modelled("kernel.frames_free", Unit::Frames, "frames free at the end of the run"),
    modelled(
        "kernel.frames_free_in_blocks.{order}",
        Unit::Frames,
        "free frames in blocks of at least 2^n frames; 1 − `frames_free_in_blocks.N` / `frames_free` is the unusable \
         index",
    ),
];

const DATA_SIDES: &[Metric] = &[
    modelled("translations", Unit::Count, "translations; a reference to two pages counts twice"),
    modelled("tlb.{array}.searches", Unit::Count, "searches of an array; each costs energy"),
    modelled("tlb.{array}.writes", Unit::Count, "entries written to an array"),
    modelled(
        "tlb.{array}.searches_with_ways.{ways}",
        Unit::Count,
        "of a first-level array: searches with that many ways on",
    ),
    modelled(
        "tlb.{array}.writes_with_ways.{ways}",
        Unit::Count,
        "of a first-level array: writes with that many ways on",
    ),
    modelled("range_tlb.{array}.lookups", Unit::Count, "references that reached the level of a range TLB"),
    modelled("range_tlb.{array}.hits", Unit::Count, "lookups that hit"),
    modelled("range_tlb.{array}.misses", Unit::Count, "lookups that missed"),
    modelled("range_tlb.{array}.repeated_hits", Unit::Count, "hits of the range used last"),
    modelled("range_tlb.{array}.searches", Unit::Count, "searches of a range TLB"),
    modelled("range_tlb.{array}.writes", Unit::Count, "ranges written to a range TLB"),
    modelled("walk_cache.{cache}.writes", Unit::Count, "entries written to a page-walk cache"),
    modelled("range_table.ranges", Unit::Count, "ranges at the end of the run"),
    modelled("range_table.nodes", Unit::Count, "nodes of the range table's tree"),
    modelled("range_table.pages", Unit::Pages, "pages in ranges"),
    modelled("range_table.pages_of_all", Unit::Pages, "pages backed at the end of the run"),
    modelled("range_table.median_pages", Unit::Pages, "pages of the range of median length").never_adds_up(),
    modelled("range_table.largest_pages", Unit::Pages, "pages of the longest range").never_adds_up(),
    modelled(
        "range_table.ranges_for_{percent}_percent",
        Unit::Count,
        "how many of the longest ranges cover that share of all pages; 0 if all ranges together do not",
    ),
    modelled("range_walks", Unit::Count, "walks of the range table"),
    modelled("range_walk_nodes", Unit::Count, "nodes that walks of the range table read"),
    modelled(
        "walks_without_frame",
        Unit::Count,
        "with `backing = \"eager\"` or `\"demand\"`: walks for pages that no frame was free for. If it is not 0, the \
         physical memory is too small",
    ),
    modelled(
        "segment_hits",
        Unit::Count,
        "walks that the ideal direct segment served; `walk_references` counts them, `walks` does not",
    ),
    modelled("collapses", Unit::Count, "regions that got a huge page in the background"),
    modelled("anchors.lookups", Unit::Count, "lookups by anchor"),
    modelled("anchors.hits", Unit::Count, "lookups by anchor that hit; `tlb.{array}.hits` includes them"),
    modelled("anchors.distance", Unit::Pages, "distance between anchors at the end of the run")
        .never_adds_up(),
    modelled("anchors.distance_changes", Unit::Count, "changes of that distance"),
    modelled(
        "predictor.second_searches_level{level}",
        Unit::Count,
        "references that searched for both page sizes",
    ),
    modelled("lite.intervals", Unit::Count, "decisions on ways"),
    modelled("lite.reactivations_by_chance", Unit::Count, "decisions that switched all ways on at random"),
    modelled(
        "lite.reactivations_by_misses",
        Unit::Count,
        "decisions that switched all ways on because misses rose",
    ),
    modelled("miss_cycles", Unit::Cycles, "`l2_hit_cycles` and `walk_cycles`"),
    modelled("energy_pj.walks", Unit::Picojoules, "dynamic energy of page walks"),
    modelled("energy_pj.range_walks", Unit::Picojoules, "dynamic energy of walks of the range table"),
    modelled("energy_pj.all", Unit::Picojoules, "dynamic energy of all of translation"),
    modelled(
        "energy_pj.all_if_walks_miss_l1",
        Unit::Picojoules,
        "`energy_pj.all` if every read of a walk missed the first-level data cache and hit the second",
    )
    .bound(),
    modelled("energy_pj.{structure}.searches", Unit::Picojoules, "dynamic energy of a structure's searches"),
    modelled("energy_pj.{structure}.writes", Unit::Picojoules, "dynamic energy of its writes"),
];

const LAST_LEVEL: &[Metric] = &[
    modelled(
        "last_level.misses",
        Unit::Count,
        "misses of all these arrays; on a machine with one level, its walks",
    ),
    modelled("last_level.compulsory_misses", Unit::Count, "misses of pages never referenced before"),
    modelled("last_level.capacity_misses", Unit::Count, "misses that a fully associative array has too"),
    modelled("last_level.conflict_misses", Unit::Count, "misses that a fully associative array avoids"),
    modelled(
        "last_level.spared_misses",
        Unit::Count,
        "hits that a fully associative array would have missed",
    ),
    modelled(
        "last_level.fully_associative_misses",
        Unit::Count,
        "misses of a fully associative array of the same size: no placement of libraries does better, except for \
         spared misses",
    ),
    modelled("last_level.evictions_of_code_by_code", Unit::Count, "pages of code that code evicted"),
    modelled("last_level.evictions_of_data_by_code", Unit::Count, "pages of data that code evicted"),
    modelled("last_level.evictions_of_code_by_data", Unit::Count, "pages of code that data evicted"),
    modelled("last_level.evictions_of_data_by_data", Unit::Count, "pages of data that data evicted"),
    modelled("last_level.{array}.{sets}", Unit::Count, "that count for one array"),
    modelled(
        "last_level.{array}.misses_per_set_variation",
        Unit::Quotient,
        "standard deviation of the sets' misses over their mean",
    )
    .never_adds_up(),
    modelled(
        "last_level.{array}.most_involved_page_share",
        Unit::Share,
        "evictions that the most involved page took part in, as a share of all misses",
    )
    .never_adds_up(),
];

const FAMILIES: &[Metric] = &[
    modelled(
        "misses",
        Unit::Count,
        "misses of one array of a `[family]` or `[cache_family]`, or of one size of a `[curve]`",
    ),
    modelled(
        "compulsory_misses",
        Unit::Count,
        "misses of lines never referenced before, in every cache of a `[cache_family]`",
    ),
    modelled(
        "capacity_misses",
        Unit::Count,
        "misses that the fully associative cache of the same size has too",
    ),
    modelled(
        "conflict_misses",
        Unit::Count,
        "the other misses of the cache; negative if its sets keep lines that the fully associative one replaces",
    ),
];
