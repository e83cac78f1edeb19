//! The cache whose colors count, and how frames spread over them.

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::machines;
use pagewalk_cache::{CacheSpec, Requester};
use pagewalk_live::pagemap::{HostCache, PAGE_BYTES, Snapshot, frames_readable};
use pagewalk_live::probe::host::hypervisor;
use pagewalk_report::contiguity::schema::{ColorSpread, ColoredCache};
use pagewalk_sim::colored_second_level;
use pagewalk_translate::requests_caches;

/// The most colors that are counted: 4 GiB in a way.
const COLORS_MAX: u64 = 1 << 20;

/// A cache, and its colors.
pub struct CacheColors {
    cache: ColoredCache,
    colors: u64,
}

impl CacheColors {
    /// The private second-level cache of a machine, or of this host.
    ///
    /// # Errors
    /// If frame numbers are unreadable, or there is no such cache with colors.
    pub fn of(machine: Option<&str>, listener: &dyn Listener) -> Result<CacheColors, Error> {
        if !frames_readable().map_err(super::cannot_read)? {
            return Err(super::frames_needed("colors are of frames"));
        }
        let found = match machine {
            Some(name) => CacheColors::of_machine(name, listener)?,
            None => CacheColors::of_host()?,
        };
        match found.colors {
            2..=COLORS_MAX => Ok(found),
            1 => Err(refusal(&format!(
                "{}: a page covers all its sets, so no frame matters",
                found.cache.name
            ))),
            colors => {
                Err(refusal(&format!("{} has {colors} colors: at most {COLORS_MAX}", found.cache.name)))
            }
        }
    }

    fn of_host() -> Result<CacheColors, Error> {
        let host = HostCache::second_level().map_err(|error| {
            Error::new(Fault::HostCannot, error)
                .or("name a machine with a private [[cache]] of level 2: --machine FILE")
        })?;
        let HostCache { bytes, ways, line_bytes } = host;
        let cache =
            ColoredCache { name: "this host's second-level cache".to_owned(), bytes, ways, line_bytes };
        Ok(CacheColors { cache, colors: host.colors(PAGE_BYTES) })
    }

    fn of_machine(name: &str, listener: &dyn Listener) -> Result<CacheColors, Error> {
        let machine = machines::load_and_say(name, listener)?;
        let is_wanted = |cache: &&CacheSpec| cache.level == 2 && cache.serves.has(Requester::Load);
        let cache = machine.caches.iter().find(is_wanted).ok_or_else(|| {
            let why = format!("machine `{}` has no [[cache]] of level 2 that serves loads", machine.name);
            match has_colors_on_request(name) {
                true => Error::new(Fault::BadInput, why)
                    .or(format!("name it with its caches: --machine {name}+caches")),
                false => refusal(&why),
            }
        })?;
        let inside =
            |why: &str| refusal(&format!("machine `{}`: cache `{}`: {why}", machine.name, cache.name));
        if cache.shared {
            return Err(inside("all cores share it, and a private one is what can be colored"));
        }
        let colors = cache.colors(PAGE_BYTES).map_err(|why| inside(&why.to_string()))?;
        let cache = ColoredCache {
            name: format!("cache {} of {}", cache.name, machine.name),
            bytes: cache.bytes(),
            ways: cache.geometry.ways() as u64,
            line_bytes: 1 << cache.line_shift,
        };
        Ok(CacheColors { cache, colors })
    }

    /// How the frames spread; `None` if they were unreadable.
    pub fn spread(&self, snapshot: &Snapshot) -> Option<ColorSpread> {
        let pages = snapshot.frames.as_ref()?.by_color(self.colors);
        let mut all = pages.all();
        all.sort_unstable();
        let (sum, half) = (all.iter().sum::<u64>(), all.len() / 2);
        let (colors_beyond_ways, pages_beyond_ways) = pages.beyond(self.cache.ways);
        let freedom = (self.colors - 1) as f64;
        Some(ColorSpread {
            cache: self.cache.clone(),
            colors: self.colors,
            least_pages: all[0],
            median_pages: (all[half] + all[(all.len() - 1) / 2]) as f64 / 2.0,
            most_pages: all[all.len() - 1],
            even_pages: sum as f64 / self.colors as f64,
            chi_square: pages.chi_square(),
            chi_square_random: freedom,
            chi_square_deviation: (2.0 * freedom).sqrt(),
            colors_beyond_ways,
            pages_beyond_ways,
            pages_beyond_ways_if_even: sum.saturating_sub(self.colors.saturating_mul(self.cache.ways)),
            guest: hypervisor(),
            base_pages: pages.base,
            huge_pages: pages.huge,
        })
    }
}

/// Whether a machine without caches has a cache with colors on request.
fn has_colors_on_request(name: &str) -> bool {
    let (_, are_requested) = requests_caches(name);
    let with = || machines::load(&format!("{name}+caches"));
    !are_requested && with().is_ok_and(|machine| colored_second_level(&machine).is_some())
}

fn refusal(why: &str) -> Error {
    Error::new(Fault::BadInput, why.to_owned())
        .or("name a machine whose [[cache]] of level 2 is private, found by physical addresses, and larger than a page \
             for each way, such as zen4+caches")
}
