//! Planners: decide where the shared objects of a recorded stream should lie.
//!
//! Each assigns every movable object a *shift*: by how many pages it moves as far as TLB sets can see, that is, modulo
//! the largest number of sets. [`arena`] turns shifts into places.
//!
//! - [`single_move`]: one object, by evictions in the worst set (Konireddygari 2008, section 3.2).
//! - [`callgraph`]: all objects, by calls between code pages (section 3.3).
//! - [`search`]: all objects, by reuses of pages ([`reuses`]), for several machines at once.
//! - [`random`]: random layouts, for comparison.
//! - [`pack`]: hot objects side by side, in as few 2 MiB regions as they need.
//!
//! Modelled walks of `konireddygari_u512`, `full` with a fully associative array:
//!
//! ```text
//!                                  recorded  single  callgraph  search   full
//! sqlite3, joins of 100,000 rows     13.3 k  −30.6%     −18.0%  −42.3%  3.35 k
//! python3, dictionaries and lists     301 k   −1.5%      −0.8%   −3.4%   297 k
//! cc1 of gcc 12 (program, heap)      54.5 k  +19.1%      −1.8%   −3.8%  21.5 k
//! ```
//!
//! [`Views`] collects what planners need from a stream; [`StreamView::choose`] runs one.

pub mod arena;
pub mod callgraph;
mod choose;
pub mod pack;
pub mod random;
pub mod reuses;
pub mod search;
pub mod single_move;
mod views;

pub use choose::{Candidate, Planner, PlannerError, PlannerOptions, ProposedLayouts, at_random, period_of};
pub use views::{StreamView, Views};

use crate::files;
use crate::objects::{Owner, OwnerId, Owners};
use pagewalk_units::PAGE_BYTES;
use pagewalk_units::Vpn;
use rustc_hash::FxHashMap;

/// Libraries that Valgrind preloads: not part of the program.
const ENGINE_PREFIX: &str = "vgpreload_";

fn is_engine(owner: &Owner) -> bool {
    let file = owner.file.as_deref().unwrap_or_default();
    file.rsplit('/').next().is_some_and(|name| name.starts_with(ENGINE_PREFIX))
}

/// An object's length. For an object from before the program ran, nobody saw the loader map the whole, and the kernel
/// shows its `.bss` together with memory after it. If this host still has the file of that build, the file tells.
fn bytes(owner: &Owner, file: &str) -> u64 {
    if !owner.initial {
        return owner.bytes;
    }
    let told = files::place(file, 0).ok().filter(|place| place.build_id == owner.build_id);
    let fits = |bytes: &u64| (owner.file_bytes..=owner.bytes).contains(bytes);
    told.map(|place| place.size).filter(fits).unwrap_or(owner.file_bytes)
}

/// A movable shared object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movable {
    /// Its file.
    pub file: String,
    /// The file's build-id.
    pub build_id: Option<String>,
    /// The page of its first byte, as recorded.
    pub first_page: u64,
    /// Its pages.
    pub pages: u64,
}

/// The movable objects of a stream.
#[derive(Clone, Debug, Default)]
pub struct Movables {
    all: Vec<Movable>,
    by_owner: FxHashMap<OwnerId, usize>,
}

impl Movables {
    /// From a stream's owners: shared objects that were mapped once, by the loader, and not moved by the program.
    pub fn new(owners: &Owners) -> Movables {
        let mut movables = Movables::default();
        let own = |(_, owner): &(OwnerId, &Owner)| !is_engine(owner);
        let mut objects: Vec<(OwnerId, &Owner)> = owners.objects().filter(own).collect();
        objects.sort_by(|a, b| (&a.1.file, a.0).cmp(&(&b.1.file, b.0)));
        for same_file in objects.chunk_by(|(_, a), (_, b)| a.file == b.file) {
            let [(id, owner)] = same_file else { continue };
            let Some(file) = owner.file.clone().filter(|_| !owner.remapped) else { continue };
            movables.by_owner.insert(*id, movables.all.len());
            movables.all.push(Movable {
                build_id: owner.build_id.clone(),
                first_page: owner.base / PAGE_BYTES,
                pages: bytes(owner, &file).div_ceil(PAGE_BYTES),
                file,
            });
        }
        movables
    }

    /// Objects without owners, for tests.
    #[cfg(test)]
    pub(crate) fn with_files(mut self, files: usize) -> Movables {
        let object = |n| Movable { file: format!("/{n}.so"), build_id: None, first_page: 64 * n, pages: 1 };
        self.all.extend((0..files as u64).map(object));
        self
    }

    /// They, by file.
    pub fn all(&self) -> &[Movable] {
        &self.all
    }

    /// The movable object that a page of an owner belongs to.
    pub fn of(&self, owner: OwnerId, page: Vpn) -> Option<usize> {
        let object = *self.by_owner.get(&owner)?;
        let Movable { first_page, pages, .. } = self.all[object];
        // Memory after an object from before the program ran may not belong to it.
        (first_page..first_page + pages).contains(&page.0).then_some(object)
    }

    /// How many objects stay because they were mapped several times or moved by the program.
    pub fn left(&self, owners: &Owners) -> usize {
        owners.objects().filter(|(_, owner)| !is_engine(owner)).count() - self.all.len()
    }
}
