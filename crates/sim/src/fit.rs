//! Whether a kernel fits a machine, and the pieces of its pages that the machine's TLBs hold.

use pagewalk_cache::{AddressUsed, CacheFills, NoColors};
use pagewalk_mm::placement::Colors;
use pagewalk_mm::{Kernel, ORDERS};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Kind, PageSize, names};

/// Why a kernel does not fit a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The policy needs pages that no TLB holds.
    #[error(
        "its policy builds pages of {size}, which no TLB of `{machine}` holds for {kind}; it holds {holds}"
    )]
    PageSize {
        /// The machine.
        machine: String,
        /// The size.
        size: PageSize,
        /// The kind of references.
        kind: &'static str,
        /// The sizes that TLBs hold.
        holds: String,
    },
    /// The kernel places pages by the colors of a cache that the machine lacks.
    #[error("it places pages by the colors of a cache; {0}")]
    Colors(String),
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fetch => "fetches",
        Kind::Load => "loads",
        Kind::Store | Kind::Modify => "stores",
    }
}

/// Orders of pages that a machine's TLBs hold for all kinds of references, one bit each.
pub fn held_orders(machine: &MachineSpec) -> u32 {
    let held = |order: &u32| {
        let size = PageSize::from_shift(machine.paging.base().shift() + order);
        let holds = |kind: Kind, size: PageSize| machine.tlbs.iter().any(|tlb| tlb.takes(kind, size));
        size.is_some_and(|size| machine.kinds().iter().all(|&kind| holds(kind, size)))
    };
    (0..ORDERS as u32).filter(held).fold(0, |orders, order| orders | 1 << order)
}

/// The cache by whose colors a kernel places pages, with its colors; none if it does not.
pub(crate) fn colored_cache(
    kernel: &Kernel,
    machine: &MachineSpec,
) -> Result<Option<(usize, Colors)>, KernelError> {
    let Some(wanted) = kernel.colors_by() else { return Ok(None) };
    let page = machine.paging.base().bytes();
    let found = match wanted {
        Some(wanted) => machine.caches.iter().position(|cache| cache.name == wanted),
        None => {
            let physical = (0..machine.caches.len()).filter(|&index| {
                let cache = &machine.caches[index];
                cache.address == AddressUsed::Physical && cache.fills == CacheFills::Misses
            });
            physical.max_by_key(|&index| machine.caches[index].level)
        }
    };
    let refused = |why| Err(KernelError::Colors(no_colors(machine, why)));
    let Some(index) = found else { return refused(ColorRefusal::Missing(wanted)) };
    let cache = &machine.caches[index];
    match cache.colors(page) {
        Ok(1) => refused(ColorRefusal::Single(&cache.name)),
        Ok(count) => Ok(Some((index, Colors { count, lines_per_page: page >> cache.line_shift }))),
        Err(why) => refused(ColorRefusal::None(&cache.name, why)),
    }
}

/// Why a kernel cannot place pages by a cache's colors.
enum ColorRefusal<'a> {
    /// There is no such cache; no name if the machine has none with physical addresses.
    Missing(Option<&'a str>),
    /// The cache of this name has one color.
    Single(&'a str),
    /// The cache of this name has none.
    None(&'a str, NoColors),
}

/// Names the reason, and the caches that have several colors.
fn no_colors(machine: &MachineSpec, why: ColorRefusal<'_>) -> String {
    let page = machine.paging.base().bytes();
    let with_colors = machine.caches.iter().filter(|cache| cache.colors(page).is_ok_and(|colors| colors > 1));
    let choices: Vec<&str> = with_colors.map(|cache| cache.name.as_str()).collect();
    let name = &machine.name;
    let choose = if choices.is_empty() {
        format!("no cache of `{name}` has several")
    } else {
        format!("choose {}", choices.join(", "))
    };
    match why {
        ColorRefusal::Missing(Some(wanted)) if !machine.caches.is_empty() => {
            format!("`{name}` has no cache `{wanted}`: {}", names::choice(wanted, &choices))
        }
        ColorRefusal::Missing(_) => {
            format!(
                "`{name}` has no cache that physical addresses find lines in ([[cache]]); `NAME+caches` names a \
                 machine of the library with its caches"
            )
        }
        ColorRefusal::Single(cache) => {
            format!("`{cache}` of `{name}` has a single color, as a page fills a whole way: {choose}")
        }
        ColorRefusal::None(cache, why) => format!("`{cache}` of `{name}` has none, as {why}: {choose}"),
    }
}

/// By order of the kernel's pages: the order of the pieces that TLBs hold.
pub(crate) fn held_order(kernel: &Kernel, machine: &MachineSpec) -> Result<[u8; ORDERS], KernelError> {
    let size_of = |order: u8| PageSize::from_shift(machine.paging.base().shift() + u32::from(order));
    let all_held = held_orders(machine);
    let mut held_order = [0; ORDERS];
    for order in 0..ORDERS as u8 {
        let held = (0..=order).rev().find(|order| all_held >> order & 1 == 1);
        held_order[order as usize] = held.unwrap_or(0);
        let missing = kernel.orders() >> order & 1 == 1 && held_order[order as usize] != order;
        if let (true, false, Some(size)) = (missing, kernel.goes_without(), size_of(order)) {
            let missing = |kind: &&Kind| !machine.tlbs.iter().any(|tlb| tlb.takes(**kind, size));
            let kind = *machine.kinds().iter().find(missing).expect("one is missing");
            let mut sizes: Vec<PageSize> =
                machine.tlbs.iter().flat_map(|tlb| tlb.page_sizes.clone()).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let names: Vec<String> = sizes.iter().map(PageSize::to_string).collect();
            let (machine, holds) = (machine.name.clone(), names.join(" "));
            return Err(KernelError::PageSize { machine, size, kind: kind_name(kind), holds });
        }
    }
    Ok(held_order)
}
