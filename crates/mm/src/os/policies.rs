//! The policies by name: one line each.

use super::OsError;
use super::collapse::collapse;
use super::keys::Keys;
use super::sharing::LINUX_AROUND;
use crate::promotion::up_to;
use crate::promotion::{
    ApproxOnline, Asap, AsapShare, Break, Candidates, CandidatesSettings, Deferral, Eager, EagerSettings,
    Fixed, FreeBsd, HawkEye, HawkEyeSettings, Ingens, IngensSettings, Khugepaged, Limits, Linux,
    LinuxSettings, Mthp, Online, Policy, SizeMode, Throttle,
};
use crate::{KernelCosts, ThpMode};
use pagewalk_units::PageSize;

type Made = Result<Box<dyn Policy>, OsError>;

/// A policy that can be asked for.
pub(super) struct Entry {
    pub name: &'static str,
    pub title: &'static str,
    pub costs: KernelCosts,
    pub make: fn(&mut Keys) -> Made,
    /// Where pages of files and of parents are usually not the process's own: bytes around a load of a file's page that
    /// are mapped with it.
    pub around: Option<&'static str>,
}

/// A policy of Romer's: all pages are the process's own.
const fn romer(name: &'static str, title: &'static str, make: fn(&mut Keys) -> Made) -> Entry {
    Entry { name, title, costs: KernelCosts::ROMER, make, around: None }
}

/// One of today's.
const fn today(
    name: &'static str,
    title: &'static str,
    make: fn(&mut Keys) -> Made,
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
    // FreeBSD's prefault: four pages before and four after (`PFBAK`, `PFFOR` of vm_fault.c). The nearest block.
    today("freebsd", "reservations (Navarro et al. 2002)", freebsd, "32K"),
    today("ingens", "by utilisation (Kwon et al. 2016)", ingens, LINUX_AROUND),
    today("eager", "areas when they are mapped (Karakostas 2016)", eager, LINUX_AROUND),
    today("hawkeye", "by access coverage (Panwar et al. 2019)", hawkeye, LINUX_AROUND),
    today("candidates", "by walks, under a budget (Manocha et al. 2023)", candidates, LINUX_AROUND),
];

fn fixed(keys: &mut Keys) -> Made {
    Ok(Box::new(Fixed { order: keys.order("page", &keys.paging.base().to_string(), 0)? }))
}

fn asap(keys: &mut Keys) -> Made {
    let top = max_page(keys)?;
    Ok(Box::new(Asap::new(top).only(keys.held)))
}

fn asap_4_64(keys: &mut Keys) -> Made {
    let order = keys.order("page", "64K", 1)?;
    let share = keys.number("share", 0.5, 0.0..=1.0)?;
    let pages = (share * f64::from(1u32 << order)).ceil() as u64;
    Ok(Box::new(AsapShare { order, pages: pages.max(1) }))
}

fn approx_online(keys: &mut Keys) -> Made {
    let (top, prices) = (max_page(keys)?, prices(keys)?);
    let threshold = keys.number("threshold", 0.125, 0.0..=1000.0)?;
    let bookkeeping = keys.count("bookkeeping_cycles", 100, 0..=u64::MAX)?;
    let policy = ApproxOnline::new(top, &prices, threshold, bookkeeping).only(keys.held);
    let policy = match deferral(keys)? {
        Some(deferral) => policy.deferring(deferral),
        None => policy,
    };
    Ok(Box::new(policy))
}

/// Charges are passed on at once unless an eager size is named.
fn deferral(keys: &mut Keys) -> Result<Option<Deferral>, OsError> {
    let Some(mut of) = keys.table("deferred", false)? else { return Ok(None) };
    let deferral = Deferral { eager: of.order("eager_page", "64K", 1)?, batch: of.share("batch", 0.5)? };
    of.finish()?;
    Ok(Some(deferral))
}

fn online(keys: &mut Keys) -> Made {
    let (top, prices) = (max_page(keys)?, prices(keys)?);
    let threshold = keys.number("threshold", 0.125, 0.0..=1000.0)?;
    let capacity = keys.number("capacity_threshold", 0.625, 0.0..=1000.0)?;
    let bookkeeping = keys.count("bookkeeping_cycles", 2570, 0..=u64::MAX)?;
    let policy = Online::new(top, &prices, threshold, capacity, bookkeeping).only(keys.held);
    Ok(Box::new(policy))
}

/// The largest superpage: up to 8 MiB, the source's, if nothing is said.
fn max_page(keys: &mut Keys) -> Result<u8, OsError> {
    let usual = PageSize::from_shift(23).and_then(|size| keys.order_of(size));
    keys.max_page(usual.unwrap_or_default())
}

fn prices(keys: &mut Keys) -> Result<Break, OsError> {
    Ok(Break {
        base: keys.paging.base(),
        copy_per_kib: keys.count("build_cycles_per_kib", 3000, 1..=u64::MAX)?,
        miss_cycles: keys.count("miss_cycles", 30, 1..=u64::MAX)?,
    })
}

/// The policy, switched off where it does not pay, if that is asked for.
pub(super) fn throttled(keys: &mut Keys, policy: Box<dyn Policy>) -> Made {
    let Some(mut of) = keys.table("throttle", false)? else { return Ok(policy) };
    let usual = Limits::default();
    let limits = Limits {
        window: of.count("window", usual.window, 1..=u64::MAX)?,
        trip: of.number("trip", usual.trip, 0.0..=1.0)?,
        target: of.number("target", usual.target, 0.0..=1000.0)?,
    };
    of.finish()?;
    Ok(Box::new(Throttle::new(policy, limits)))
}

fn huge(keys: &Keys) -> u8 {
    keys.paging.huge_order().try_into().unwrap_or(u8::MAX)
}

fn linux(keys: &mut Keys) -> Made {
    let enabled = keys.name("thp", ThpMode::Always, ThpMode::from_name, "always, madvise, never")?;
    let mut settings = LinuxSettings::new(huge(keys), enabled);
    if let Some(mut of) = keys.table("sizes", false)? {
        for (size, mode) in of.rest() {
            let order = size.parse::<PageSize>().ok().and_then(|size| of.order_of(size));
            let mode = mode.as_str().and_then(SizeMode::from_name);
            let (Some(order), Some(mode)) = (order, mode) else {
                let expected = format!("{} = one of always, madvise, inherit, never", of.sizes(2));
                return Err(OsError::Value { key: "os.sizes".to_owned(), given: size, expected });
            };
            settings.sizes[usize::from(order)] = mode;
        }
    }
    settings.khugepaged = match keys.table("khugepaged", true)? {
        None => None,
        Some(mut of) => {
            let usual = Khugepaged::new(settings.huge);
            let khugepaged = Khugepaged {
                pages_to_scan: of.count("pages_to_scan", usual.pages_to_scan, 1..=u64::MAX)?,
                scan_sleep_millisecs: of.count(
                    "scan_sleep_millisecs",
                    usual.scan_sleep_millisecs,
                    0..=u64::MAX,
                )?,
                alloc_sleep_millisecs: of.count(
                    "alloc_sleep_millisecs",
                    usual.alloc_sleep_millisecs,
                    0..=u64::MAX,
                )?,
                max_ptes_none: of.count("max_ptes_none", usual.max_ptes_none, 0..=usual.max_ptes_none)?,
                max_ptes_shared: of.count(
                    "max_ptes_shared",
                    usual.max_ptes_shared,
                    0..=usual.max_ptes_none + 1,
                )?,
                mthp: of.name("mthp", usual.mthp, Mthp::from_name, "never, strict, scaled")?,
                mthp_remains: of.flag("mthp_remains", usual.mthp_remains)?,
                instructions_per_millisecond: clock(&mut of, usual.instructions_per_millisecond)?,
                cycles_per_page: of.count("cycles_per_page", usual.cycles_per_page, 0..=u64::MAX)?,
            };
            of.finish()?;
            Some(khugepaged)
        }
    };
    settings.collapse = collapse(keys)?;
    Ok(Box::new(Linux::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn clock(keys: &mut Keys, usual: u64) -> Result<u64, OsError> {
    keys.count("instructions_per_millisecond", usual, 1..=u64::MAX)
}

fn freebsd(keys: &mut Keys) -> Made {
    Ok(Box::new(FreeBsd::new(huge(keys)).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn ingens(keys: &mut Keys) -> Made {
    let usual = IngensSettings::new(huge(keys));
    let settings = IngensSettings {
        utilisation: keys.number("utilisation", usual.utilisation, 0.0..=1.0)?,
        fragmentation: keys.number("fragmentation", usual.fragmentation, 0.0..=1.0)?,
        fragmentation_limit: keys.number("fragmentation_limit", usual.fragmentation_limit, 0.0..=1.0)?,
        promote_sleep_millisecs: keys.count(
            "promote_sleep_millisecs",
            usual.promote_sleep_millisecs,
            1..=u64::MAX,
        )?,
        instructions_per_millisecond: clock(keys, usual.instructions_per_millisecond)?,
        cycles_per_request: keys.count("cycles_per_request", usual.cycles_per_request, 0..=u64::MAX)?,
        ..usual
    };
    Ok(Box::new(Ingens::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn eager(keys: &mut Keys) -> Made {
    let huge = huge(keys);
    let usual = EagerSettings::new(huge);
    let size =
        PageSize::from_shift(keys.paging.huge().shift()).map_or_else(String::new, |size| size.to_string());
    let settings = EagerSettings {
        orders: keys.held & up_to(keys.order("max_page", &size, 0)?),
        least_pages: keys.count("least_pages", usual.least_pages, 0..=u64::MAX)?,
        fragmentation_limit: keys.number("fragmentation_limit", usual.fragmentation_limit, 0.0..=1.0)?,
        ..usual
    };
    Ok(Box::new(Eager::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn hawkeye(keys: &mut Keys) -> Made {
    let usual = HawkEyeSettings::new(huge(keys));
    let settings = HawkEyeSettings {
        at_fault: keys.flag("at_fault", usual.at_fault)?,
        sample_millisecs: keys.count("sample_millisecs", usual.sample_millisecs, 1..=u64::MAX)?,
        window_millisecs: keys.count("window_millisecs", usual.window_millisecs, 1..=u64::MAX)?,
        promote_sleep_millisecs: keys.count(
            "promote_sleep_millisecs",
            usual.promote_sleep_millisecs,
            1..=u64::MAX,
        )?,
        instructions_per_millisecond: clock(keys, usual.instructions_per_millisecond)?,
        cycles_per_page: keys.count("cycles_per_page", usual.cycles_per_page, 0..=u64::MAX)?,
        high_watermark: keys.count("high_watermark", usual.high_watermark, 1..=100)?,
        low_watermark: keys.count("low_watermark", usual.low_watermark, 1..=100)?,
        wasted_pages: keys.count("wasted_pages", usual.wasted_pages, 1..=1 << usual.order)?,
        ..usual
    };
    Ok(Box::new(HawkEye::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}

fn candidates(keys: &mut Keys) -> Made {
    let usual = CandidatesSettings::new(huge(keys));
    let settings = CandidatesSettings {
        entries: keys.count("entries", usual.entries, 1..=1 << 20)?,
        most_walks: keys.count("most_walks", usual.most_walks, 1..=u64::MAX)?,
        budget: keys.number("budget", usual.budget, 0.0..=1.0)?,
        promote_sleep_millisecs: keys.count(
            "promote_sleep_millisecs",
            usual.promote_sleep_millisecs,
            1..=u64::MAX,
        )?,
        regions_at_once: keys.count("regions_at_once", usual.regions_at_once, 1..=u64::MAX)?,
        instructions_per_millisecond: clock(keys, usual.instructions_per_millisecond)?,
        cycles_per_entry: keys.count("cycles_per_entry", usual.cycles_per_entry, 0..=u64::MAX)?,
        ..usual
    };
    Ok(Box::new(Candidates::new(settings).map_err(|error| OsError::Policy(error.to_string()))?))
}
