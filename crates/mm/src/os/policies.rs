//! The list of policies: one line each.

use super::OsError;
use super::collapse::collapse;
use super::keys::{Keys, one_of};
use super::sharing::LINUX_AROUND;
use crate::promotion::up_to;
use crate::promotion::{
    ApproxOnline, Asap, AsapShare, BreakEven, Candidates, CandidatesSettings, Deferral, Eager, EagerSettings,
    Fixed, FreeBsd, HawkEye, HawkEyeSettings, Ingens, IngensSettings, Khugepaged, Linux, LinuxSettings, Mthp,
    Online, Policy, SizeMode, Throttle, ThrottleLimits,
};
use crate::{KernelCosts, ORDERS, ThpMode};
use pagewalk_units::PageSize;
use toml::Value;

type PolicyResult = Result<Box<dyn Policy>, OsError>;

/// A policy of the list.
pub(super) struct Entry {
    pub name: &'static str,
    pub title: &'static str,
    pub costs: KernelCosts,
    pub make: fn(&mut Keys) -> PolicyResult,
    /// The default bytes to map around a faulting load of a file page; set for policies that share pages by default.
    pub around: Option<&'static str>,
}

/// One of Romer's policies: all pages are the process's own.
const fn romer(name: &'static str, title: &'static str, make: fn(&mut Keys) -> PolicyResult) -> Entry {
    Entry { name, title, costs: KernelCosts::ROMER, make, around: None }
}

/// A current policy.
const fn today(
    name: &'static str,
    title: &'static str,
    make: fn(&mut Keys) -> PolicyResult,
    around: &'static str,
) -> Entry {
    Entry { name, title, costs: KernelCosts::TODAY, make, around: Some(around) }
}

pub(super) const POLICIES: &[Entry] = &[
    romer("fixed", "pages of one size (Romer 1998)", fixed),
    romer("asap", "as soon as all parts are in use (Romer 1998)", asap),
    romer("asap-4-64", "at half populated (Romer 1998)", asap_4_64),
    romer("approx-online", "prefetch charges (Romer 1998)", approx_online),
    romer("online", "prefetch and capacity charges (Romer 1998)", online),
    today("linux", "THP at faults, khugepaged, mTHP", linux, LINUX_AROUND),
    // FreeBSD's prefault: four pages before and four after (`PFBAK`, `PFFOR` of vm_fault.c), as the nearest block.
    today("freebsd", "reservations (Navarro et al. 2002)", freebsd, "32K"),
    today("ingens", "by utilisation (Kwon et al. 2016)", ingens, LINUX_AROUND),
    today("eager", "areas when they are mapped (Karakostas 2016)", eager, LINUX_AROUND),
    today("hawkeye", "by access coverage (Panwar et al. 2019)", hawkeye, LINUX_AROUND),
    today("candidates", "by walks, under a budget (Manocha et al. 2023)", candidates, LINUX_AROUND),
];

fn fixed(keys: &mut Keys) -> PolicyResult {
    Ok(Box::new(Fixed {
        order: keys.order("page", "the size of every page", &keys.paging.base().to_string(), 0)?,
    }))
}

fn asap(keys: &mut Keys) -> PolicyResult {
    let top = max_page(keys)?;
    Ok(Box::new(Asap::new(top).only(keys.held)))
}

fn asap_4_64(keys: &mut Keys) -> PolicyResult {
    let order = keys.order("page", "the size of superpages", "64K", 1)?;
    let touched = "the share of a superpage's base pages that are touched when it is built";
    let share = keys.number("share", touched, 0.5, 0.0..=1.0)?;
    let pages = (share * f64::from(1u32 << order)).ceil() as u64;
    Ok(Box::new(AsapShare { order, pages: pages.max(1) }))
}

const THRESHOLD: &str = "prevented misses that build a superpage, as a share of what it costs";
const CAPACITY: &str = "the same of misses that room in the TLB would have prevented";
const BOOKKEEPING: &str = "cycles of the policy's own work at each miss";
const BUILD: &str = "cycles to build a superpage, for each KiB of it, for the thresholds";

fn approx_online(keys: &mut Keys) -> PolicyResult {
    let (top, prices) = (max_page(keys)?, prices(keys)?);
    let threshold = keys.number("threshold", THRESHOLD, 0.125, 0.0..=1000.0)?;
    let bookkeeping = keys.count("bookkeeping_cycles", BOOKKEEPING, 100, 0..=u64::MAX)?;
    let policy = ApproxOnline::new(top, &prices, threshold, bookkeeping).only(keys.held);
    let policy = match deferral(keys)? {
        Some(deferral) => policy.deferring(deferral),
        None => policy,
    };
    Ok(Box::new(policy))
}

/// The deferral of charges, if an eager size is given.
fn deferral(keys: &mut Keys) -> Result<Option<Deferral>, OsError> {
    let whole = "charges above a size wait in its blocks before they go to larger ones";
    let Some(mut of) = keys.table("deferred", whole, false)? else { return Ok(None) };
    let deferral = Deferral {
        eager: of.order("eager_page", "the largest size whose charges do not wait", "64K", 1)?,
        batch: of.share(
            "batch",
            "charges wait until they are this share of the next size's threshold",
            0.5,
        )?,
    };
    of.finish()?;
    Ok(Some(deferral))
}

fn online(keys: &mut Keys) -> PolicyResult {
    let (top, prices) = (max_page(keys)?, prices(keys)?);
    let threshold = keys.number("threshold", THRESHOLD, 0.125, 0.0..=1000.0)?;
    let capacity = keys.number("capacity_threshold", CAPACITY, 0.625, 0.0..=1000.0)?;
    let bookkeeping = keys.count("bookkeeping_cycles", BOOKKEEPING, 2570, 0..=u64::MAX)?;
    let policy = Online::new(top, &prices, threshold, capacity, bookkeeping).only(keys.held);
    Ok(Box::new(policy))
}

/// The largest superpage; default: up to the source's 8 MiB.
fn max_page(keys: &mut Keys) -> Result<u8, OsError> {
    let usual = PageSize::from_shift(23).and_then(|size| keys.order_of(size));
    keys.max_page(usual.unwrap_or_default())
}

fn prices(keys: &mut Keys) -> Result<BreakEven, OsError> {
    Ok(BreakEven {
        base: keys.paging.base(),
        copy_per_kib: keys.count("build_cycles_per_kib", BUILD, 3000, 1..=u64::MAX)?,
        miss_cycles: keys.count(
            "miss_cycles",
            "cycles of a TLB miss, for the thresholds",
            30,
            1..=u64::MAX,
        )?,
    })
}

const TRIP: &str = "misses for each instruction of a window above which the policy is off";
const TARGET: &str = "cycles of the policy for each instruction below which it is on again";

/// The policy, under a throttle if the keys ask for one.
pub(super) fn throttled(keys: &mut Keys, policy: Box<dyn Policy>) -> PolicyResult {
    let whole = "the policy is off after windows with many misses, until its own cycles are few";
    let Some(mut of) = keys.table("throttle", whole, false)? else { return Ok(policy) };
    let usual = ThrottleLimits::default();
    let limits = ThrottleLimits {
        window: of.count("window", "instructions of a window", usual.window, 1..=u64::MAX)?,
        trip: of.number("trip", TRIP, usual.trip, 0.0..=1.0)?,
        target: of.number("target", TARGET, usual.target, 0.0..=1000.0)?,
    };
    of.finish()?;
    Ok(Box::new(Throttle::new(policy, limits)))
}

fn huge(keys: &Keys) -> u8 {
    keys.paging.huge_order().try_into().unwrap_or(u8::MAX)
}

const THP: &str =
    "the mode of sizes that inherit it, as `/sys/kernel/mm/transparent_hugepage/enabled` has it";
const MODE: &str = "the mode of pages of this size, such as `sizes.64K`";
const MODES: &str = "always, madvise, inherit, never";

fn linux(keys: &mut Keys) -> PolicyResult {
    let enabled = keys.name("thp", THP, ThpMode::Always, ThpMode::from_name, "always, madvise, never")?;
    let mut settings = LinuxSettings::new(huge(keys), enabled);
    if let Some(mut of) = keys.table("sizes", "the mode of each page size, size by size", false)? {
        of.document("SIZE", MODE, "2M: inherit; others: never", MODES);
        for (size, mode) in size_modes(&mut of, settings.huge)? {
            settings.sizes[usize::from(size)] = mode;
        }
    }
    settings.khugepaged = khugepaged(keys, settings.huge)?;
    settings.collapse = collapse(keys)?;
    Ok(Box::new(Linux::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

/// The modes in a table of sizes, by order; `huge` is the largest.
fn size_modes(of: &mut Keys, huge: u8) -> Result<Vec<(u8, SizeMode)>, OsError> {
    let huge = huge.min(ORDERS as u8 - 1);
    let given = of.rest();
    let mode = |(size, given): (String, Value)| {
        let key = format!("os.sizes.{size}");
        let order = size.parse::<PageSize>().ok().and_then(|size| of.order_of(size));
        let Some(order) = order.filter(|order| (2..=huge).contains(order)) else {
            return Err(OsError::Key { key, choice: format!("expected {}", of.sizes_to(2, huge)) });
        };
        let mode = given.as_str().and_then(SizeMode::from_name);
        let wrong = || OsError::Value { key, given: given.to_string(), expected: one_of(MODES, &given) };
        Ok((order, mode.ok_or_else(wrong)?))
    };
    given.into_iter().map(mode).collect()
}

const PAGES_TO_SCAN: &str = "base pages that one scan looks at; an area that is passed over counts as one";
const MAX_PTES_SHARED: &str = "base pages of a block that may be shared with a parent or a child";
const CYCLES_PER_PAGE: &str = "cycles to look at a base page, charged to `scan`";
const MTHP: &str = "sizes below the huge page that memory is collapsed to: none, or by one of two rules";
const MTHP_REMAINS: &str = "those sizes take base pages that a superpage left when it was taken apart";

/// The settings of khugepaged, if it runs.
fn khugepaged(keys: &mut Keys, huge: u8) -> Result<Option<Khugepaged>, OsError> {
    let whole = "a thread looks for blocks to collapse into huge pages; false: none does";
    let Some(mut of) = keys.table("khugepaged", whole, true)? else { return Ok(None) };
    let usual = Khugepaged::new(huge);
    let shared = usual.max_ptes_none + 1;
    let mut count = |key, meaning, usual, range| of.count(key, meaning, usual, range);
    let (any, positive) = (0..=u64::MAX, 1..=u64::MAX);
    let khugepaged = Khugepaged {
        pages_to_scan: count("pages_to_scan", PAGES_TO_SCAN, usual.pages_to_scan, positive)?,
        scan_sleep_millisecs: count(
            "scan_sleep_millisecs",
            "milliseconds between scans; 0 is taken as 1",
            usual.scan_sleep_millisecs,
            any.clone(),
        )?,
        alloc_sleep_millisecs: count(
            "alloc_sleep_millisecs",
            "milliseconds after a scan that found no free huge page",
            usual.alloc_sleep_millisecs,
            any.clone(),
        )?,
        max_ptes_none: count(
            "max_ptes_none",
            "base pages of a block that may be missing",
            usual.max_ptes_none,
            0..=usual.max_ptes_none,
        )?,
        max_ptes_shared: count("max_ptes_shared", MAX_PTES_SHARED, usual.max_ptes_shared, 0..=shared)?,
        cycles_per_page: count("cycles_per_page", CYCLES_PER_PAGE, usual.cycles_per_page, any)?,
        mthp: of.name("mthp", MTHP, usual.mthp, Mthp::from_name, "never, strict, scaled")?,
        mthp_remains: of.flag("mthp_remains", MTHP_REMAINS, usual.mthp_remains)?,
        instructions_per_millisecond: clock(&mut of, usual.instructions_per_millisecond)?,
    };
    of.finish()?;
    Ok(Some(khugepaged))
}

fn clock(keys: &mut Keys, usual: u64) -> Result<u64, OsError> {
    let meaning = "instructions that pass in a millisecond";
    keys.count("instructions_per_millisecond", meaning, usual, 1..=u64::MAX)
}

fn freebsd(keys: &mut Keys) -> PolicyResult {
    Ok(Box::new(FreeBsd::new(huge(keys)).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn promote_sleep(keys: &mut Keys, usual: u64) -> Result<u64, OsError> {
    let meaning = "milliseconds between two runs of the thread that builds huge pages";
    keys.count("promote_sleep_millisecs", meaning, usual, 1..=u64::MAX)
}

const UTILISATION: &str = "share of a block's base pages that must be backed where memory is fragmented";
const FRAGMENTATION: &str = "how fragmented free memory is, where no `memory` tells it";
const ENOUGH: &str = "fragmentation below which one backed base page is enough";

fn ingens(keys: &mut Keys) -> PolicyResult {
    let usual = IngensSettings::new(huge(keys));
    let settings = IngensSettings {
        utilisation: keys.number("utilisation", UTILISATION, usual.utilisation, 0.0..=1.0)?,
        fragmentation: keys.number("fragmentation", FRAGMENTATION, usual.fragmentation, 0.0..=1.0)?,
        fragmentation_limit: keys.number(
            "fragmentation_limit",
            ENOUGH,
            usual.fragmentation_limit,
            0.0..=1.0,
        )?,
        promote_sleep_millisecs: promote_sleep(keys, usual.promote_sleep_millisecs)?,
        instructions_per_millisecond: clock(keys, usual.instructions_per_millisecond)?,
        cycles_per_request: keys.count(
            "cycles_per_request",
            "cycles to look at a request, charged to `scan`",
            usual.cycles_per_request,
            0..=u64::MAX,
        )?,
        ..usual
    };
    Ok(Box::new(Ingens::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

const LEFT: &str = "fragmentation above which requests are left to demand";
const LARGEST: &str = "the largest page that maps what lies aligned";

fn eager(keys: &mut Keys) -> PolicyResult {
    let huge = huge(keys);
    let usual = EagerSettings::new(huge);
    let size =
        PageSize::from_shift(keys.paging.huge().shift()).map_or_else(String::new, |size| size.to_string());
    let settings = EagerSettings {
        orders: keys.held & up_to(keys.order("max_page", LARGEST, &size, 0)?),
        least_pages: keys.count(
            "least_pages",
            "the smallest request that is backed at once, in base pages",
            usual.least_pages,
            0..=u64::MAX,
        )?,
        fragmentation_limit: keys.number(
            "fragmentation_limit",
            LEFT,
            usual.fragmentation_limit,
            0.0..=1.0,
        )?,
        ..usual
    };
    Ok(Box::new(Eager::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

const HIGH: &str = "percent of the memory's frames in use above which wasted memory is taken back";
const LOW: &str = "percent of the memory's frames in use down to which it is taken back";
const WASTED: &str = "base pages never touched for which a huge page is taken apart";

fn hawkeye(keys: &mut Keys) -> PolicyResult {
    let usual = HawkEyeSettings::new(huge(keys));
    let settings = HawkEyeSettings {
        at_fault: keys.flag("at_fault", "faults map huge pages where they can", usual.at_fault)?,
        sample_millisecs: keys.count(
            "sample_millisecs",
            "milliseconds between samples of coverage",
            usual.sample_millisecs,
            1..=u64::MAX,
        )?,
        window_millisecs: keys.count(
            "window_millisecs",
            "milliseconds that one sample takes",
            usual.window_millisecs,
            1..=u64::MAX,
        )?,
        promote_sleep_millisecs: promote_sleep(keys, usual.promote_sleep_millisecs)?,
        instructions_per_millisecond: clock(keys, usual.instructions_per_millisecond)?,
        cycles_per_page: keys.count(
            "cycles_per_page",
            CYCLES_PER_PAGE,
            usual.cycles_per_page,
            0..=u64::MAX,
        )?,
        high_watermark: keys.count("high_watermark", HIGH, usual.high_watermark, 1..=100)?,
        low_watermark: keys.count("low_watermark", LOW, usual.low_watermark, 1..=100)?,
        wasted_pages: keys.count("wasted_pages", WASTED, usual.wasted_pages, 1..=1 << usual.order)?,
        ..usual
    };
    Ok(Box::new(HawkEye::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn candidates(keys: &mut Keys) -> PolicyResult {
    let usual = CandidatesSettings::new(huge(keys));
    let settings = CandidatesSettings {
        entries: keys.count(
            "entries",
            "regions that the cache beside the walker holds",
            usual.entries,
            1..=1 << 20,
        )?,
        most_walks: keys.count(
            "most_walks",
            "walks that a counter holds; one that is full halves all",
            usual.most_walks,
            1..=u64::MAX,
        )?,
        budget: keys.number(
            "budget",
            "share of the touched memory that may be on huge pages",
            usual.budget,
            0.0..=1.0,
        )?,
        promote_sleep_millisecs: promote_sleep(keys, usual.promote_sleep_millisecs)?,
        regions_at_once: keys.count(
            "regions_at_once",
            "the most regions promoted at a look",
            usual.regions_at_once,
            1..=u64::MAX,
        )?,
        instructions_per_millisecond: clock(keys, usual.instructions_per_millisecond)?,
        cycles_per_entry: keys.count(
            "cycles_per_entry",
            "cycles to read an entry, charged to `scan`",
            usual.cycles_per_entry,
            0..=u64::MAX,
        )?,
        ..usual
    };
    Ok(Box::new(Candidates::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}
