//! Which mappings are tried alone on huge pages.

use super::ProgramFindings;
use pagewalk_mm::{AddressSpace, MappingId, MappingInfo, ProcessMapping};
use pagewalk_units::{PAGE_BYTES, PageSize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most mappings to try.
pub(crate) const CANDIDATES_MAX: usize = 6;
/// Share of the walks so far that makes a mapping a candidate.
const CANDIDATE_SHARE: f64 = 0.05;
/// A mapping whose walks cost the baseline less than this share of all modelled cycles is not worth trying: no page
/// size can then save much. The costliest always is.
pub(crate) const WORTH_FOLLOWING: f64 = 0.001;

/// A mapping that causes much of an arrangement's walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostlyMapping {
    /// Whose, and which.
    pub mapping: ProcessMapping,
    /// Its name.
    pub name: String,
}

impl CostlyMapping {
    /// The costliest mappings of programs that fit and can be on pages of size `huge`.
    pub(crate) fn among(
        programs: &[ProgramFindings<'_>],
        huge: PageSize,
        fits: impl Fn(&MappingInfo) -> bool,
    ) -> Vec<CostlyMapping> {
        let (mut walks, mut known) = (BTreeMap::new(), BTreeMap::new());
        for of in programs {
            for (&mapping, counts) in &of.mappings {
                let owner = ProcessMapping { process: of.process.space(), mapping };
                walks.insert(owner, counts.walks_fetch + counts.walks_data);
                known.insert(owner, of.space);
            }
        }
        let mut costly = costliest(&walks);
        costly.retain(|of| may_be_huge(known[of], of.mapping, huge) && fits(known[of].info(of.mapping)));
        costly.truncate(CANDIDATES_MAX);
        let describe = |mapping: ProcessMapping| CostlyMapping {
            mapping,
            name: known[&mapping].info(mapping.mapping).name.clone(),
        };
        costly.into_iter().map(describe).collect()
    }
}

/// The mappings that cause enough of the walks, costliest first.
pub(crate) fn costliest<M: Copy + Ord>(walks: &BTreeMap<M, u64>) -> Vec<M> {
    let total: u64 = walks.values().sum();
    let is_costly = |walks: u64| walks > 0 && walks as f64 >= total as f64 * CANDIDATE_SHARE;
    let costly = walks.iter().filter(|&(_, &walks)| is_costly(walks));
    let mut costly: Vec<(Reverse<u64>, M)> =
        costly.map(|(&mapping, &walks)| (Reverse(walks), mapping)).collect();
    costly.sort();
    costly.into_iter().map(|(_, mapping)| mapping).collect()
}

/// Whether a policy can put a mapping on huge pages: it is known, and not hugetlb memory that has them already.
pub(crate) fn may_be_huge(space: &AddressSpace, mapping: MappingId, huge: PageSize) -> bool {
    let page = space.info(mapping).page_bytes;
    mapping != MappingId::UNKNOWN && (page <= PAGE_BYTES || page < huge.bytes())
}
