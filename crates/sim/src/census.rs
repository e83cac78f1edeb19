//! Who pays in each program, by mapping and page.
//!
//! References, touched pages and mappings are the programs' own, whatever the machines and the arrangement. So a pass
//! over a plain machine counts them, beside the engine that simulates the first machine and tells of its walks.

use crate::attribution::{MappingCounts, NoObserver, PageWalks, Waits};
use crate::pass::Pass;
use crate::profile::{FunctionWalks, HeatMap, Makers, PageWait, PageWalk, ProgramFindings, nameless};
use crate::spec::DesignSpec;
use crate::store::Tally;
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_setassoc::{Geometry, Organisation, Replacement};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, Fills, KindSet, MachineSpec, TlbSpec, WalkerSpec};
use pagewalk_units::{Kind, PageSize, RefIndex, VirtAddr};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of each of the plain machine's TLBs, and their ways: few pages miss, and a miss is cheap.
const ENTRIES: (u32, u32) = (4096, 4);

pub(crate) struct Census {
    pass: Pass<NoObserver>,
    programs: BTreeMap<Asid, Program>,
}

/// A program's walks, and the makers of its mappings.
struct Program {
    makers: Makers<MappingId>,
    pages: FxHashMap<(VirtAddr, MappingId), Tally>,
    waits: FxHashMap<(MappingId, VirtAddr), Waits>,
    heat: HeatMap,
}

impl Program {
    fn new(base: PageSize) -> Program {
        Program {
            makers: Makers::default(),
            pages: FxHashMap::default(),
            waits: FxHashMap::default(),
            heat: HeatMap::new(base),
        }
    }

    /// Pages with walks, costliest first.
    fn pages(&self) -> Vec<PageWalks> {
        let row = |(&(page, mapping), tally): (&(VirtAddr, MappingId), &Tally)| PageWalks {
            page,
            mapping,
            walks_fetch: tally.walks[0],
            walks_data: tally.walks[1],
        };
        let mut rows: Vec<PageWalks> = self.pages.iter().map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.walks_fetch + row.walks_data), row.page, row.mapping));
        rows
    }
}

impl Census {
    /// Of programs that run on a design.
    pub fn new(design: &DesignSpec) -> Census {
        let plain = DesignSpec::new(&plain(&design.machine), Arc::clone(&design.policy));
        let mut pass = Pass::new(vec![plain], NoObserver).expect("a pass simulates plain machines");
        pass.store.minds_units = true;
        let mut census = Census { pass, programs: BTreeMap::new() };
        census.switch_to(Asid::default());
        census
    }

    /// Another program runs.
    pub fn switch_to(&mut self, asid: Asid) {
        self.pass.switch_to(asid);
        let base = self.pass.store.paging.base();
        self.programs.entry(asid).or_insert_with(|| Program::new(base));
    }

    /// Tells the makers of the running program's mappings.
    fn tell_makers(&mut self, tell: impl FnOnce(&mut Makers<MappingId>, &AddressSpace)) {
        if let Some(program) = self.programs.get_mut(&self.pass.store.asid) {
            tell(&mut program.makers, self.pass.space());
        }
    }

    /// Takes walks of the batch that came last, before anything else comes. Visitors' are nobody's.
    pub fn walked(&mut self, walks: impl Iterator<Item = PageWalk>) {
        let Census { pass, programs } = self;
        let runs = pass.store.asid;
        let Some(program) = programs.get_mut(&runs) else { return };
        for walk in walks.filter(|walk| walk.process == runs) {
            let mapping = pass.mapping_of(walk.page);
            program.heat.add(walk.page, mapping, walk.instructions);
            let tally = program.pages.entry((walk.page, mapping)).or_default();
            tally.add(walk.fetch, walk.references, walk.cycles);
        }
    }

    /// The same with waits.
    pub fn waited(&mut self, waits: impl Iterator<Item = PageWait>) {
        let Census { pass, programs } = self;
        let runs = pass.store.asid;
        let Some(program) = programs.get_mut(&runs) else { return };
        for PageWait { page, waits, .. } in waits.filter(|wait| wait.process == runs) {
            program.waits.entry((pass.mapping_of(page), page)).or_default().add_reference(waits);
        }
    }

    /// What each program did so far, in order. `functions` tells its walks by function.
    pub fn programs(&mut self, functions: impl Fn(Asid) -> Vec<FunctionWalks>) -> Vec<ProgramFindings<'_>> {
        let Census { pass, programs } = self;
        let runs = pass.store.asid;
        pass.finish();
        let mut counted = BTreeMap::new();
        for (&process, program) in programs.iter_mut() {
            program.makers.finish();
            program.heat.cover(pass.executed.instructions);
            pass.switch_to(process);
            let mappings = pass.mapping_counts().into_iter();
            let mut mappings: BTreeMap<_, _> =
                mappings.map(|(id, counts)| (id, without_walks(&counts))).collect();
            for ((_, mapping), tally) in &program.pages {
                tally.add_to(mappings.entry(*mapping).or_default());
            }
            counted.insert(process, mappings);
        }
        pass.switch_to(runs);
        let (pass, programs) = (&*pass, &*programs);
        let findings = |(process, mappings)| {
            let program: &Program = &programs[&process];
            ProgramFindings {
                process,
                functions: functions(process),
                mappings,
                pages: program.pages(),
                waits: program.waits.iter().map(|(&at, &waits)| (at, waits)).collect(),
                heat: &program.heat,
                space: pass.space_of(process),
                makers: &program.makers,
            }
        };
        counted.into_iter().map(findings).collect()
    }
}

impl Analysis for Census {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.tell_makers(|makers, space| makers.ran(batch, space));
        self.pass.on_batch(batch);
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.pass.on_event(at, event);
        self.tell_makers(|makers, space| makers.happened(event, |address| nameless(space, address)));
    }
}

/// The counts that are the program's own.
fn without_walks(counts: &MappingCounts) -> MappingCounts {
    let &MappingCounts { pages_touched, references_fetch, references_data, late_blocks, .. } = counts;
    MappingCounts {
        pages_touched,
        references_fetch,
        references_data,
        late_blocks,
        ..MappingCounts::default()
    }
}

/// A machine with the pages of another one, and a TLB each for fetches and for data, whose order then does not matter.
fn plain(of: &MachineSpec) -> MachineSpec {
    let huge = of.has_huge_pages().then(|| of.paging.huge());
    let (entries, ways) = ENTRIES;
    let tlb = |name: &str, serves: &[Kind]| TlbSpec {
        name: name.to_owned(),
        level: 1,
        serves: serves.iter().fold(KindSet::default(), |set, &kind| set.with(kind)),
        page_sizes: [of.paging.base()].into_iter().chain(huge).collect(),
        geometry: Geometry::new(entries, Some(ways)).expect("powers of two"),
        reserved: 0,
        pages_per_entry: 1,
        replacement: Replacement::Lru,
        replacement_source: None,
        index: Organisation::default(),
        fills: Fills::default(),
        shared: false,
        prefetch: None,
        coalesce: None,
    };
    MachineSpec {
        asids: Asid::COUNT,
        tlbs: vec![tlb("fetch", &[Kind::Fetch]), tlb("data", &[Kind::Load, Kind::Store])],
        walker: WalkerSpec::Software,
        caches: Vec::new(),
        os: None,
        data_side: None,
        ..of.clone()
    }
}
