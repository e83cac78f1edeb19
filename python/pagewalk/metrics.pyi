# `cargo xtask docs` makes this stub from `pagewalk schema metrics`.

from collections.abc import Iterator, Mapping
from typing import Any

class Family(Mapping[str, Any]):
    """Metrics whose names begin alike; also by the rest of their names."""

    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class MetricsAnchors(Family):
    @property
    def distance(self) -> int:
        """distance between anchors at the end of the run (modelled, pages)"""

    @property
    def distance_changes(self) -> int:
        """changes of that distance (modelled)"""

    @property
    def hits(self) -> int:
        """lookups by anchor that hit; `tlb.{array}.hits` includes them (modelled)"""

    @property
    def lookups(self) -> int:
        """lookups by anchor (modelled)"""


class MetricsCacheEach(Family):
    @property
    def fetch_hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def fetch_lookups(self) -> int:
        """lookups of a cache of memory; reads of page-table entries for prefetches count as walks (modelled)"""

    @property
    def fetch_misses(self) -> int:
        """lookups that missed (modelled)"""

    @property
    def load_hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def load_lookups(self) -> int:
        """lookups of a cache of memory; reads of page-table entries for prefetches count as walks (modelled)"""

    @property
    def load_misses(self) -> int:
        """lookups that missed (modelled)"""

    @property
    def slow_hits(self) -> int:
        """of a column-associative or pseudo-associative cache: hits at `slow_latency`, if there were any (modelled)"""

    @property
    def store_hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def store_lookups(self) -> int:
        """lookups of a cache of memory; reads of page-table entries for prefetches count as walks (modelled)"""

    @property
    def store_misses(self) -> int:
        """lookups that missed (modelled)"""

    @property
    def walk_hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def walk_lookups(self) -> int:
        """lookups of a cache of memory; reads of page-table entries for prefetches count as walks (modelled)"""

    @property
    def walk_misses(self) -> int:
        """lookups that missed (modelled)"""

    @property
    def write_stall_cycles(self) -> float:
        """if stores waited for a place in the cache's write buffer: how long; `memory.stall_cycles` has these too (modelled, cycles)"""

    @property
    def writebacks(self) -> int:
        """dirty lines that left the cache, for the next level or memory; they take no time, and are no lookups there (modelled)"""


class MetricsCache(Family):
    def __getattr__(self, name: str) -> MetricsCacheEach: ...

class MetricsEnergyPjEach(Family):
    @property
    def searches(self) -> float:
        """dynamic energy of a structure's searches (modelled, pJ)"""

    @property
    def writes(self) -> float:
        """dynamic energy of its writes (modelled, pJ)"""


class MetricsEnergyPj(Family):
    def __getattr__(self, name: str) -> MetricsEnergyPjEach: ...
    @property
    def all(self) -> float:
        """dynamic energy of all of translation (modelled, pJ)"""

    @property
    def all_if_walks_miss_l1(self) -> float:
        """`energy_pj.all` if every read of a walk missed the first-level data cache and hit the second (bound, pJ)"""

    @property
    def range_walks(self) -> float:
        """dynamic energy of walks of the range table (modelled, pJ)"""

    @property
    def walks(self) -> float:
        """dynamic energy of page walks (modelled, pJ)"""


class MetricsKernelFramesFreeInBlocks(Family):
    def __getattr__(self, name: str) -> int: ...

class MetricsKernel(Family):
    @property
    def backed_bytes_peak(self) -> int:
        """most bytes backed at one time (modelled, bytes)"""

    @property
    def bookkeeping_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def compaction_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def compactions(self) -> int:
        """blocks freed by compaction for promotions (modelled)"""

    @property
    def copies_on_write(self) -> int:
        """copies made at first stores to file pages or to pages shared with a parent or child (modelled)"""

    @property
    def copy_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def cycles(self) -> float:
        """all the kernel's cycles (modelled, cycles)"""

    @property
    def demotions(self) -> int:
        """superpages taken apart (modelled)"""

    @property
    def eager_areas(self) -> int:
        """mapping requests backed at once (modelled)"""

    @property
    def eager_bytes(self) -> int:
        """bytes of those requests (modelled, bytes)"""

    @property
    def eager_left(self) -> int:
        """mapping requests left to demand paging (modelled)"""

    @property
    def eager_runs(self) -> int:
        """runs of adjacent frames that back them (modelled)"""

    @property
    def fault_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def faults(self) -> int:
        """first touches of pages that nothing mapped, and stores to pages that may be shared (modelled)"""

    @property
    def faults_fallen_back(self) -> int:
        """faults that took a smaller page because no block of frames was free (modelled)"""

    @property
    def file_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def file_faults(self) -> int:
        """faults that mapped pages of files; `kernel.faults` includes them (modelled)"""

    @property
    def file_reads(self) -> int:
        """file reads that those faults caused (modelled)"""

    @property
    def flush_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def foreign_bytes_peak(self) -> int:
        """most bytes mapped at one time in frames of the page cache or of the parent; no other count of memory includes them (modelled, bytes)"""

    @property
    def frames(self) -> int:
        """frames of the physical memory (modelled, frames)"""

    @property
    def frames_free(self) -> int:
        """frames free at the end of the run (modelled, frames)"""

    @property
    def frames_free_in_blocks(self) -> MetricsKernelFramesFreeInBlocks: ...
    @property
    def frames_moved(self) -> int:
        """frames that compaction moved (modelled, frames)"""

    @property
    def killed_at(self) -> int:
        """with `memory.when_full = 'oom'`: the instruction at which the kernel killed the process. All counts of the kernel's row end there (modelled, instruction)"""

    @property
    def killed_for_bytes(self) -> int:
        """if the process was killed: the bytes that no frame was free for (modelled, bytes)"""

    @property
    def map_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def pages_copied(self) -> int:
        """different pages that such moves or promotions copied; kernels that place pages (modelled)"""

    @property
    def pages_copied_by_both(self) -> int:
        """of these, pages that both copied (table 6-3) (modelled)"""

    @property
    def pages_recolored(self) -> int:
        """different pages that such moves copied (modelled)"""

    @property
    def pages_unlisted(self) -> int:
        """base pages whose frame is not the one that `placement.frames` lists; 0 without a list (modelled)"""

    @property
    def promoted_bytes(self) -> int:
        """bytes of promoted superpages (modelled, bytes)"""

    @property
    def promotions(self) -> int:
        """superpages built from mapped pages (modelled)"""

    @property
    def promotions_in_place(self) -> int:
        """promotions whose pages already lay in place (modelled)"""

    @property
    def recolor_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def recolorings(self) -> int:
        """base pages moved to frames of other colors; kernels that place pages (modelled)"""

    @property
    def recolorings_refused(self) -> int:
        """such moves refused: no frame of the color was free, or the frame is not the process's own (modelled)"""

    @property
    def recolorings_repeated(self) -> int:
        """such moves of pages that moved five times or more (Romer 1998, table 6-4) (modelled)"""

    @property
    def refused_area(self) -> int:
        """promotions refused because the superpage would extend beyond its area (modelled)"""

    @property
    def refused_memory(self) -> int:
        """promotions refused because no block of frames was free (modelled)"""

    @property
    def reservations_broken(self) -> int:
        """reservations broken because frames ran out (modelled)"""

    @property
    def reservations_refused(self) -> int:
        """reservations that found no block (modelled)"""

    @property
    def reused(self) -> int:
        """first stores to pages that no child shares any more (modelled)"""

    @property
    def scan_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def swap_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""

    @property
    def swap_ins(self) -> int:
        """base pages read back from swap (modelled, pages)"""

    @property
    def swap_outs(self) -> int:
        """base pages written to swap (modelled, pages)"""

    @property
    def trimmed_bytes(self) -> int:
        """bytes of superpages that the kernel reclaimed because the program never touched them (modelled, bytes)"""

    @property
    def untouched_bytes_peak(self) -> int:
        """most bytes backed at one time that no process had touched yet (modelled, bytes)"""

    @property
    def write_notices(self) -> int:
        """first stores to pages of shared file mappings that a load had mapped (modelled)"""

    @property
    def zero_cycles(self) -> float:
        """the kernel's cycles by account (modelled, cycles)"""


class MetricsLastLevelEach(Family):
    @property
    def capacity_misses(self) -> int:
        """that count for one array (modelled)"""

    @property
    def compulsory_misses(self) -> int:
        """that count for one array (modelled)"""

    @property
    def conflict_misses(self) -> int:
        """that count for one array (modelled)"""

    @property
    def evictions_of_code_by_code(self) -> int:
        """that count for one array (modelled)"""

    @property
    def evictions_of_code_by_data(self) -> int:
        """that count for one array (modelled)"""

    @property
    def evictions_of_data_by_code(self) -> int:
        """that count for one array (modelled)"""

    @property
    def evictions_of_data_by_data(self) -> int:
        """that count for one array (modelled)"""

    @property
    def fully_associative_misses(self) -> int:
        """that count for one array (modelled)"""

    @property
    def misses(self) -> int:
        """that count for one array (modelled)"""

    @property
    def misses_per_set_variation(self) -> float:
        """standard deviation of the sets' misses over their mean (modelled, quotient)"""

    @property
    def most_involved_page_share(self) -> float:
        """evictions that the most involved page took part in, as a share of all misses (modelled, share of 1)"""

    @property
    def spared_misses(self) -> int:
        """that count for one array (modelled)"""


class MetricsLastLevel(Family):
    def __getattr__(self, name: str) -> MetricsLastLevelEach: ...
    @property
    def capacity_misses(self) -> int:
        """misses that a fully associative array has too (modelled)"""

    @property
    def compulsory_misses(self) -> int:
        """misses of pages never referenced before (modelled)"""

    @property
    def conflict_misses(self) -> int:
        """misses that a fully associative array avoids (modelled)"""

    @property
    def evictions_of_code_by_code(self) -> int:
        """pages of code that code evicted (modelled)"""

    @property
    def evictions_of_code_by_data(self) -> int:
        """pages of code that data evicted (modelled)"""

    @property
    def evictions_of_data_by_code(self) -> int:
        """pages of data that code evicted (modelled)"""

    @property
    def evictions_of_data_by_data(self) -> int:
        """pages of data that data evicted (modelled)"""

    @property
    def fully_associative_misses(self) -> int:
        """misses of a fully associative array of the same size: no placement of libraries does better, except for spared misses (modelled)"""

    @property
    def misses(self) -> int:
        """misses of all these arrays; on a machine with one level, its walks (modelled)"""

    @property
    def spared_misses(self) -> int:
        """hits that a fully associative array would have missed (modelled)"""


class MetricsLite(Family):
    @property
    def intervals(self) -> int:
        """decisions on ways (modelled)"""

    @property
    def reactivations_by_chance(self) -> int:
        """decisions that switched all ways on at random (modelled)"""

    @property
    def reactivations_by_misses(self) -> int:
        """decisions that switched all ways on because misses rose (modelled)"""


class MetricsMemory(Family):
    @property
    def stall_cycles(self) -> float:
        """with caches of memory: cycles that references, also of a structure, wait beyond the latency of the nearest cache that can end them; nothing overlaps, so a processor that runs on waits less (modelled, cycles)"""

    @property
    def walk_references(self) -> int:
        """page-table entries that missed every cache of memory (modelled)"""


class MetricsPartition(Family):
    @property
    def lower(self) -> int:
        """slots below the partition at the end of the run (modelled, slots)"""

    @property
    def lower_mean(self) -> int:
        """slots below the partition, averaged over instructions; `partition` beside `metrics` lists each move as `instructions` and `lower` (modelled, slots)"""

    @property
    def moves(self) -> int:
        """how often the partition moved (modelled)"""


class MetricsPredictor(Family):
    @property
    def second_searches_level1(self) -> int:
        """references that searched for both page sizes (modelled)"""

    @property
    def second_searches_level2(self) -> int:
        """references that searched for both page sizes (modelled)"""

    @property
    def second_searches_level3(self) -> int:
        """references that searched for both page sizes (modelled)"""


class MetricsRangeTable(Family):
    @property
    def largest_pages(self) -> int:
        """pages of the longest range (modelled, pages)"""

    @property
    def median_pages(self) -> int:
        """pages of the range of median length (modelled, pages)"""

    @property
    def nodes(self) -> int:
        """nodes of the range table's tree (modelled)"""

    @property
    def pages(self) -> int:
        """pages in ranges (modelled, pages)"""

    @property
    def pages_of_all(self) -> int:
        """pages backed at the end of the run (modelled, pages)"""

    @property
    def ranges(self) -> int:
        """ranges at the end of the run (modelled)"""

    @property
    def ranges_for_90_percent(self) -> int:
        """how many of the longest ranges cover that share of all pages; 0 if all ranges together do not (modelled)"""

    @property
    def ranges_for_95_percent(self) -> int:
        """how many of the longest ranges cover that share of all pages; 0 if all ranges together do not (modelled)"""

    @property
    def ranges_for_99_percent(self) -> int:
        """how many of the longest ranges cover that share of all pages; 0 if all ranges together do not (modelled)"""


class MetricsRangeTlbEach(Family):
    @property
    def hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def lookups(self) -> int:
        """references that reached the level of a range TLB (modelled)"""

    @property
    def misses(self) -> int:
        """lookups that missed (modelled)"""

    @property
    def repeated_hits(self) -> int:
        """hits of the range used last (modelled)"""

    @property
    def searches(self) -> int:
        """searches of a range TLB (modelled)"""

    @property
    def writes(self) -> int:
        """ranges written to a range TLB (modelled)"""


class MetricsRangeTlb(Family):
    def __getattr__(self, name: str) -> MetricsRangeTlbEach: ...

class MetricsTlbEachSearchesWithWays(Family):
    def __getattr__(self, name: str) -> int: ...

class MetricsTlbEachWritesWithWays(Family):
    def __getattr__(self, name: str) -> int: ...

class MetricsTlbEach(Family):
    @property
    def hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def lookups(self) -> int:
        """references that looked the array up (modelled)"""

    @property
    def misses(self) -> int:
        """lookups that missed (modelled)"""

    @property
    def prefetch_walk_references(self) -> int:
        """page-table entries that prefetches read (modelled)"""

    @property
    def prefetches(self) -> int:
        """if the array prefetches: translations prefetched (modelled)"""

    @property
    def prefetches_useful(self) -> int:
        """prefetched translations that a reference then hit (modelled)"""

    @property
    def searches(self) -> int:
        """searches of an array; each costs energy (modelled)"""

    @property
    def searches_with_ways(self) -> MetricsTlbEachSearchesWithWays: ...
    @property
    def writes(self) -> int:
        """entries written to an array (modelled)"""

    @property
    def writes_with_ways(self) -> MetricsTlbEachWritesWithWays: ...

class MetricsTlbLevel1(Family):
    @property
    def misses(self) -> int:
        """references that missed every array of a level (modelled)"""


class MetricsTlbLevel2(Family):
    @property
    def misses(self) -> int:
        """references that missed every array of a level (modelled)"""


class MetricsTlbLevel3(Family):
    @property
    def misses(self) -> int:
        """references that missed every array of a level (modelled)"""


class MetricsTlb(Family):
    def __getattr__(self, name: str) -> MetricsTlbEach: ...
    @property
    def level1(self) -> MetricsTlbLevel1: ...
    @property
    def level2(self) -> MetricsTlbLevel2: ...
    @property
    def level3(self) -> MetricsTlbLevel3: ...

class MetricsWalkCacheEach(Family):
    @property
    def hits(self) -> int:
        """lookups that hit (modelled)"""

    @property
    def lookups(self) -> int:
        """lookups of a page-walk cache (modelled)"""

    @property
    def writes(self) -> int:
        """entries written to a page-walk cache (modelled)"""


class MetricsWalkCache(Family):
    def __getattr__(self, name: str) -> MetricsWalkCacheEach: ...

class Attributes:
    """A machine's metrics as attributes."""

    @property
    def anchors(self) -> MetricsAnchors: ...
    @property
    def cache(self) -> MetricsCache: ...
    @property
    def capacity_misses(self) -> int:
        """misses that the fully associative cache of the same size has too (modelled)"""

    @property
    def clock_ticks(self) -> int:
        """ticks of the clock (modelled)"""

    @property
    def collapses(self) -> int:
        """regions that got a huge page in the background (modelled)"""

    @property
    def compulsory_misses(self) -> int:
        """misses of lines never referenced before, in every cache of a `[cache_family]` (modelled)"""

    @property
    def conflict_misses(self) -> int:
        """the other misses of the cache; negative if its sets keep lines that the fully associative one replaces (modelled)"""

    @property
    def cores(self) -> int:
        """cores on which threads ran (modelled)"""

    @property
    def energy_pj(self) -> MetricsEnergyPj: ...
    @property
    def host_misses(self) -> int:
        """by traps: misses of the host's TLB; each is a trap (modelled)"""

    @property
    def instructions(self) -> int:
        """instructions executed (measured)"""

    @property
    def kernel(self) -> MetricsKernel: ...
    @property
    def kernel_references(self) -> int:
        """references of the kernel to its mapped data (modelled)"""

    @property
    def l2_hit_cycles(self) -> float:
        """first-level misses that a lower level served × `cost.l2_hit` of the machine; on data sides all of level 1's misses (modelled, cycles)"""

    @property
    def last_level(self) -> MetricsLastLevel: ...
    @property
    def lite(self) -> MetricsLite: ...
    @property
    def mcpi(self) -> float:
        """with caches of memory: cycles of the memory system per instruction, `memory.stall_cycles` and those of `tlb_mcpi` (Romer 1998, section 4.3) (modelled, cycles per instruction)"""

    @property
    def memory(self) -> MetricsMemory: ...
    @property
    def miss_cycles(self) -> float:
        """`l2_hit_cycles` and `walk_cycles` (modelled, cycles)"""

    @property
    def misses(self) -> int:
        """misses of one array of a `[family]` or `[cache_family]`, or of one size of a `[curve]` (modelled)"""

    @property
    def pages_touched(self) -> int:
        """base pages of the machine referenced at least once (measured, pages)"""

    @property
    def partition(self) -> MetricsPartition: ...
    @property
    def predictor(self) -> MetricsPredictor: ...
    @property
    def range_table(self) -> MetricsRangeTable: ...
    @property
    def range_tlb(self) -> MetricsRangeTlb: ...
    @property
    def range_walk_nodes(self) -> int:
        """nodes that walks of the range table read (modelled)"""

    @property
    def range_walks(self) -> int:
        """walks of the range table (modelled)"""

    @property
    def references(self) -> int:
        """fetches and data references; on data sides data references only (measured)"""

    @property
    def references_data(self) -> int:
        """data references: loads, stores, and modifies (a read and write of the same bytes by one instruction is one) (measured)"""

    @property
    def references_fetch(self) -> int:
        """fetches: one for each instruction, at its address and length (measured)"""

    @property
    def segment_hits(self) -> int:
        """walks that the ideal direct segment served; `walk_references` counts them, `walks` does not (modelled)"""

    @property
    def server_references(self) -> int:
        """references of servers, fetches included (modelled)"""

    @property
    def server_visits(self) -> int:
        """switches to a server (modelled)"""

    @property
    def spin_instructions(self) -> int:
        """instructions that a thread spent spinning; left out if there are none. Above 0.1 % the report says so: threads run one at a time under the engine, so spinning lasts longer than natively (measured)"""

    @property
    def switches(self) -> int:
        """switches from one process to another (modelled)"""

    @property
    def system_calls(self) -> int:
        """system calls of the programs; each enters the kernel (measured)"""

    @property
    def tlb(self) -> MetricsTlb: ...
    @property
    def tlb_mcpi(self) -> float:
        """cycles of address translation per instruction: `walk_cycles`, `l2_hit_cycles` and, if there is one, `kernel.cycles` (modelled, cycles per instruction)"""

    @property
    def total_cycles(self) -> float:
        """all modelled cycles except a kernel's: instructions × `cost.cycles_per_instruction`, lower-level hits, walks, traps and, with caches of memory, waits (modelled, cycles)"""

    @property
    def translations(self) -> int:
        """translations; a reference to two pages counts twice (modelled)"""

    @property
    def translations_data(self) -> int:
        """data references translated by the core's first level; one on two pages counts twice (modelled)"""

    @property
    def translations_fetch(self) -> int:
        """fetches translated by the core's first level; a fetch on two pages counts twice (modelled)"""

    @property
    def walk_cache(self) -> MetricsWalkCache: ...
    @property
    def walk_cycle_share(self) -> float:
        """walk cycles as a share of all modelled cycles (modelled, share of 1)"""

    @property
    def walk_cycles(self) -> float:
        """`walk_references` × `cost.walk_reference` of the machine; with caches of memory, the latencies of the caches that held the entries; of software-managed TLBs, the cycles of the four classes that depend on the TLB (modelled, cycles)"""

    @property
    def walk_references(self) -> int:
        """page-table entries that walks read (modelled)"""

    @property
    def walk_references_guest(self) -> int:
        """of a nested walker: entries read in the guest's tables (modelled)"""

    @property
    def walk_references_host(self) -> int:
        """of a nested walker: entries read in the host's tables (modelled)"""

    @property
    def walks(self) -> int:
        """page walks: every level of the TLB missed, and no prefetch buffer had the page (modelled)"""

    @property
    def walks_data(self) -> int:
        """walks by data references (modelled)"""

    @property
    def walks_fetch(self) -> int:
        """walks by fetches (modelled)"""

    @property
    def walks_per_kilo_instruction(self) -> float:
        """walks per thousand instructions (modelled, per 1000 instructions)"""

    @property
    def walks_without_frame(self) -> int:
        """with `backing = 'eager'` or `'demand'`: walks for pages that no frame was free for. If it is not 0, the physical memory is too small (modelled)"""


class Metrics(Family, Attributes):
    """A machine's metrics: `metrics.walks`, `metrics.tlb.l1d.misses`.

    Only metrics that the machine has are there.
    """

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None: ...
