//! An address space that follows the stream's events as Linux would.

use crate::change::{flushed, gone};
use crate::former_code::FormerCode;
use crate::{Change, FilePage, FilePlace, HugeAdvice, MappingId, MappingInfo, Vma};
use pagewalk_trace::{Event, Mapping, MappingKind, Protection, ThpDisable};
use pagewalk_units::{PAGE_BYTES, PageSize, VirtAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

const MADV_DONTNEED: i32 = 4;
const MADV_REMOVE: i32 = 9;
const MADV_HUGEPAGE: i32 = 14;
const MADV_NOHUGEPAGE: i32 = 15;
const MADV_DONTNEED_LOCKED: i32 = 24;
/// Most named mappings before further inferred areas share one.
const INFERRED_NAMES: usize = 1000;

/// The areas and named mappings of one process.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    areas: BTreeMap<u64, Vma>,
    mappings: Vec<MappingInfo>,
    files: FxHashMap<String, MappingId>,
    heap: Option<MappingId>,
    stack: Option<MappingId>,
    former_code: FormerCode,
    /// Whether the program runs: before that, events describe the image that the kernel set up.
    running: bool,
    /// The process's ban of transparent huge pages.
    thp_disable: ThpDisable,
}

impl Default for AddressSpace {
    fn default() -> Self {
        let unknown = MappingInfo {
            name: "[unknown]".to_owned(),
            kind: None,
            build_id: None,
            start: VirtAddr(0),
            bytes: 0,
            bytes_max: 0,
            page_bytes: PAGE_BYTES,
        };
        AddressSpace {
            areas: BTreeMap::new(),
            mappings: vec![unknown],
            files: FxHashMap::default(),
            heap: None,
            stack: None,
            former_code: FormerCode::default(),
            running: false,
            thp_disable: ThpDisable::Off,
        }
    }
}

impl AddressSpace {
    /// Marks the start of the program: later mappings are its own.
    pub fn start_running(&mut self) {
        self.running = true;
    }

    /// The process's present ban of transparent huge pages.
    pub fn thp_disable(&self) -> ThpDisable {
        self.thp_disable
    }

    /// The area that holds `address`.
    pub fn vma(&self, address: VirtAddr) -> Option<&Vma> {
        let (_, vma) = self.areas.range(..=address.0).next_back()?;
        (address.0 < vma.end).then_some(vma)
    }

    /// The lowest area that overlaps the range.
    pub fn vma_within(&self, range: Range<u64>) -> Option<&Vma> {
        let before = self.vma(VirtAddr(range.start));
        before.or_else(|| self.areas.range(range).next().map(|(_, vma)| vma))
    }

    /// Whether one area holds all these bytes.
    pub fn is_one_area(&self, range: Range<u64>) -> bool {
        self.vma(VirtAddr(range.start)).is_some_and(|vma| range.end <= vma.end)
    }

    /// The named mapping of a page's lowest mapped byte.
    pub fn mapping_of(&self, page: Range<u64>) -> MappingId {
        self.vma_within(page).map_or(MappingId::UNKNOWN, |vma| vma.mapping)
    }

    /// The description of a named mapping.
    pub fn info(&self, id: MappingId) -> &MappingInfo {
        &self.mappings[id.index()]
    }

    /// All named mappings, [`MappingId::UNKNOWN`] first.
    pub fn mappings(&self) -> impl Iterator<Item = (MappingId, &MappingInfo)> {
        self.mappings.iter().enumerate().map(|(i, info)| (MappingId(i as u32), info))
    }

    /// All areas by ascending address.
    pub fn areas(&self) -> impl Iterator<Item = &Vma> {
        self.areas.values()
    }

    /// The areas with bytes at or above `address`, by ascending address.
    pub fn areas_from(&self, address: u64) -> impl Iterator<Item = &Vma> {
        let first = self.vma(VirtAddr(address)).map_or(address, |vma| vma.start);
        self.areas.range(first..).map(|(_, vma)| vma)
    }

    /// The parts of a range of whole pages that are mapped without any right, merged.
    pub fn unusable(&self, start: VirtAddr, bytes: u64) -> Vec<Range<u64>> {
        let (start, end) = range(start.0, bytes);
        let mut parts: Vec<Range<u64>> = Vec::new();
        let areas = self.areas_from(start).take_while(|vma| vma.start < end);
        for vma in areas.filter(|vma| !vma.is_usable()) {
            match parts.last_mut() {
                Some(before) if before.end == vma.start => before.end = vma.end.min(end),
                _ => parts.push(vma.start.max(start)..vma.end.min(end)),
            }
        }
        parts
    }

    /// Whether some executable area overlaps the range.
    pub fn has_code(&self, range: Range<u64>) -> bool {
        let first = self.vma(VirtAddr(range.start)).map_or(range.start, |vma| vma.start);
        first < range.end && self.areas.range(first..range.end).any(|(_, vma)| vma.protection.execute)
    }

    /// The file code that was last mapped at `address`: the present code may be a copy of it.
    pub fn former_code(&self, address: VirtAddr) -> Option<FilePlace> {
        let vma = self.vma(address).filter(|vma| vma.protection.execute)?;
        self.former_code.at(address.0).filter(|place| place.mapping != vma.mapping)
    }

    /// The file content of a page at these bytes, if all of it is one piece of a file under the same rights that was
    /// never writable: see [`Vma::unwritten_file`].
    pub fn file_page(&self, page: Range<u64>) -> Option<FilePage> {
        let is_file_page = |vma: &&Vma| vma.unwritten_file && !vma.is_hugetlb();
        let first = self.vma(VirtAddr(page.start)).filter(is_file_page)?;
        let offset = first.file_offset + (page.start - first.start);
        let mut end = first.end;
        while end < page.end {
            let next = self.areas.get(&end).filter(|vma| {
                vma.unwritten_file
                    && (vma.mapping, vma.protection) == (first.mapping, first.protection)
                    && vma.file_offset == offset + (end - page.start)
            })?;
            end = next.end;
        }
        let info = self.info(first.mapping);
        let (path, build_id) = (info.name.clone(), info.build_id.clone());
        Some(FilePage { path, build_id, offset, protection: first.protection })
    }

    /// The number of pages of size `page` inside `range`, a range of whole pages, that overlap `mapping`.
    pub fn pages_within(&self, mapping: MappingId, range: Range<u64>, page: PageSize) -> u64 {
        let first = self.vma(VirtAddr(range.start)).map_or(range.start, |vma| vma.start);
        let areas = self.areas.range(first..range.end).map(|(_, vma)| vma);
        // An area may begin in the page where the previous one ends: that page counts once.
        let (mut pages, mut counted) = (0, page.number(VirtAddr(range.start)));
        for vma in areas.filter(|vma| vma.mapping == mapping) {
            let start = page.number(VirtAddr(vma.start)).max(counted);
            let end = page.number(VirtAddr(vma.end.min(range.end) - 1)) + 1;
            pages += end.saturating_sub(start);
            counted = counted.max(end);
        }
        pages
    }

    /// Applies an event; appends its changes to `changes`.
    pub fn apply(&mut self, event: &Event, changes: &mut Vec<Change>) {
        match event {
            Event::Map(mapping) => self.map(mapping, changes),
            Event::Unmap { start, bytes } => self.unmap(start.0, *bytes, changes),
            Event::Remap { old_start, old_bytes, new_start, new_bytes } => {
                self.remap(old_start.0, *old_bytes, new_start.0, *new_bytes, changes);
            }
            Event::Break { old_end, new_end } => self.set_break(old_end.0, new_end.0, changes),
            Event::Protect { start, bytes, protection } => {
                self.protect(start.0, *bytes, *protection, changes)
            }
            Event::Advise { start, bytes, advice } => self.advise(start.0, *bytes, *advice, changes),
            Event::ThpDisable { mode } => self.thp_disable = *mode,
            _ => {}
        }
    }

    fn map(&mut self, new: &Mapping, changes: &mut Vec<Change>) {
        let (start, end) = range(new.start.0, new.bytes);
        if start == end {
            return;
        }
        let mapping = self.name(new);
        self.unmap(start, end - start, changes);
        let file_offset = new.file.as_ref().map_or(0, |file| file.offset);
        let of_file = matches!(new.kind, MappingKind::File | MappingKind::SharedFile) && new.file.is_some();
        self.insert(Vma {
            start,
            end,
            protection: new.protection,
            kind: new.kind,
            mapping,
            advice: HugeAdvice::None,
            file_offset,
            unwritten_file: of_file && !new.protection.write,
            page_bytes: new.page_bytes,
        });
    }

    fn unmap(&mut self, start: u64, bytes: u64, changes: &mut Vec<Change>) {
        let (start, end) = range(start, bytes);
        self.split_at(start);
        self.split_at(end);
        let keys: Vec<u64> = self.areas.range(start..end).map(|(&key, _)| key).collect();
        for key in keys {
            let vma = self.areas.remove(&key).expect("the key is listed");
            self.mappings[vma.mapping.index()].bytes -= vma.end - vma.start;
            if vma.is_code_of_file() {
                self.former_code.note(&vma);
            }
            gone(vma.start, vma.end - vma.start, changes);
        }
    }

    fn remap(&mut self, old: u64, old_bytes: u64, new: u64, new_bytes: u64, changes: &mut Vec<Change>) {
        let (old, old_end) = range(old, old_bytes);
        let (new, new_end) = range(new, new_bytes);
        let Some(pattern) = self.vma(VirtAddr(old)).cloned() else { return };
        if old == new && new_end <= old_end {
            self.unmap(new_end, old_end - new_end, changes);
            return;
        }
        if old == new {
            self.unmap(old_end, new_end - old_end, changes);
            let file_offset = pattern.file_offset + (old_end - pattern.start);
            self.insert(Vma { start: old_end, end: new_end, file_offset, ..pattern });
            return;
        }
        self.unmap(old, old_end - old, changes);
        self.unmap(new, new_end - new, changes);
        let file_offset = pattern.file_offset + (old - pattern.start);
        self.insert(Vma { start: new, end: new_end, file_offset, ..pattern });
    }

    fn set_break(&mut self, old_end: u64, new_end: u64, changes: &mut Vec<Change>) {
        if new_end < old_end {
            return self.unmap(new_end, old_end - new_end, changes);
        }
        if new_end == old_end {
            return;
        }
        let heap =
            Mapping { kind: MappingKind::Heap, ..Mapping::anonymous(VirtAddr(old_end), new_end - old_end) };
        self.map(&heap, changes);
    }

    /// Areas that have the rights already stay unchanged, as in `mprotect_fixup` of Linux's `mm/mprotect.c`.
    fn protect(&mut self, start: u64, bytes: u64, protection: Protection, changes: &mut Vec<Change>) {
        let (start, end) = range(start, bytes);
        let others = self.areas_from(start).take_while(|vma| vma.start < end);
        let others = others.filter(|vma| vma.protection != protection);
        let parts: Vec<Range<u64>> = others.map(|vma| vma.start.max(start)..vma.end.min(end)).collect();
        for part in parts {
            if !protection.execute {
                self.note_former_code(part.clone());
            }
            self.change_areas(part.start, part.end - part.start, |vma| {
                vma.protection = protection;
                vma.unwritten_file &= !protection.write;
            });
            flushed(part.start, part.end - part.start, changes);
        }
    }

    /// Records file code in a range that stops being code.
    fn note_former_code(&mut self, range: Range<u64>) {
        let areas = self.areas_from(range.start).take_while(|vma| vma.start < range.end);
        let code: Vec<Vma> = areas.filter(|vma| vma.is_code_of_file()).cloned().collect();
        code.iter().for_each(|vma| self.former_code.note(vma));
    }

    fn advise(&mut self, start: u64, bytes: u64, advice: i32, changes: &mut Vec<Change>) {
        match advice {
            MADV_HUGEPAGE => self.change_areas(start, bytes, |vma| vma.advice = HugeAdvice::HugePage),
            MADV_NOHUGEPAGE => self.change_areas(start, bytes, |vma| vma.advice = HugeAdvice::NoHugePage),
            MADV_DONTNEED | MADV_REMOVE | MADV_DONTNEED_LOCKED => {
                let (start, end) = range(start, bytes);
                gone(start, end - start, changes);
            }
            _ => {}
        }
    }

    /// Applies `change` to exactly the bytes of a range, splitting and merging areas as needed.
    fn change_areas(&mut self, start: u64, bytes: u64, change: impl Fn(&mut Vma)) {
        let (start, end) = range(start, bytes);
        self.split_at(start);
        self.split_at(end);
        for (_, vma) in self.areas.range_mut(start..end) {
            change(vma);
        }
        let keys: Vec<u64> = self.areas.range(start..end).map(|(&key, _)| key).collect();
        for key in keys.into_iter().chain([end]) {
            self.merge_before(key);
        }
    }

    fn insert(&mut self, vma: Vma) {
        let (start, end) = (vma.start, vma.end);
        self.grow(vma.mapping, start, end);
        self.areas.insert(start, vma);
        self.merge_before(end);
        self.merge_before(start);
    }

    /// Merges the area that starts at `at` into the one that ends there, if the kernel would do so.
    fn merge_before(&mut self, at: u64) {
        let Some(next) = self.areas.get(&at) else { return };
        let Some((&key, before)) = self.areas.range(..at).next_back() else { return };
        if !before.merges_with(next) || !self.same_name(before.mapping, next.mapping) {
            return;
        }
        let (from, into, end) = (next.mapping, before.mapping, next.end);
        self.areas.remove(&at);
        self.areas.get_mut(&key).expect("found above").end = end;
        self.mappings[from.index()].bytes -= end - at;
        self.grow(into, at, end);
    }

    /// Whether two adjacent areas may share a name: they do already, or neither has its own.
    fn same_name(&self, a: MappingId, b: MappingId) -> bool {
        a == b || self.is_nameless(a) && self.is_nameless(b)
    }

    fn grow(&mut self, mapping: MappingId, start: u64, end: u64) {
        let info = &mut self.mappings[mapping.index()];
        info.start = if info.bytes_max == 0 { VirtAddr(start) } else { info.start.min(VirtAddr(start)) };
        info.bytes += end - start;
        info.bytes_max = info.bytes_max.max(info.bytes);
    }

    fn split_at(&mut self, at: u64) {
        let Some((_, vma)) = self.areas.range_mut(..at).next_back() else { return };
        if vma.end <= at {
            return;
        }
        let mut upper = vma.clone();
        upper.start = at;
        upper.file_offset += at - vma.start;
        vma.end = at;
        self.areas.insert(at, upper);
    }

    /// The named mapping that a new area belongs to.
    fn name(&mut self, new: &Mapping) -> MappingId {
        match (new.kind, &new.file) {
            (MappingKind::Heap, _) => {
                if let Some(id) = self.heap {
                    return id;
                }
                let id = self.new_mapping("[heap]".to_owned(), new, None);
                self.heap = Some(id);
                id
            }
            (MappingKind::Stack, _) => {
                if let Some(id) = self.stack {
                    return id;
                }
                let id = self.new_mapping("[stack]".to_owned(), new, None);
                self.stack = Some(id);
                id
            }
            (MappingKind::File | MappingKind::SharedFile | MappingKind::Kernel, Some(file)) => {
                self.shared_name(file.path.clone(), new, file.build_id.clone())
            }
            (MappingKind::Kernel, None) => self.shared_name("[vdso]".to_owned(), new, None),
            (MappingKind::Inferred, _) => self.name_inferred(new),
            _ => self.name_anonymous(new),
        }
    }

    fn shared_name(&mut self, name: String, new: &Mapping, build_id: Option<String>) -> MappingId {
        if let Some(&id) = self.files.get(&name) {
            let known = &mut self.mappings[id.index()].build_id;
            *known = known.take().or(build_id);
            return id;
        }
        let id = self.new_mapping(name.clone(), new, build_id);
        self.files.insert(name, id);
        id
    }

    fn name_anonymous(&mut self, new: &Mapping) -> MappingId {
        if let Some(file) = self.code_under(new) {
            let name = format!("{} [moved code]", self.info(file).name);
            return self.shared_name(name, new, None);
        }
        if let Some(file) = self.bss_of(new) {
            let name = format!("{} [bss]", self.info(file).name);
            return self.shared_name(name, new, None);
        }
        self.nameless_neighbour(new).unwrap_or_else(|| {
            let (start, _) = range(new.start.0, new.bytes);
            self.shared_name(format!("[anonymous {start:#x}{}]", hugetlb(new.page_bytes)), new, None)
        })
    }

    /// A scattered stream has more areas than anybody can read: all further ones share a name.
    fn name_inferred(&mut self, new: &Mapping) -> MappingId {
        self.nameless_neighbour(new).unwrap_or_else(|| {
            let (start, _) = range(new.start.0, new.bytes);
            let has_room = self.mappings.len() <= INFERRED_NAMES;
            let name =
                if has_room { format!("[inferred {start:#x}]") } else { "[inferred elsewhere]".to_owned() };
            self.shared_name(name, new, None)
        })
    }

    /// The mapping that memory without a name of its own extends, and so belongs to, as in the kernel.
    fn nameless_neighbour(&self, new: &Mapping) -> Option<MappingId> {
        let (start, end) = range(new.start.0, new.bytes);
        let below = start.checked_sub(1).and_then(|last| self.vma(VirtAddr(last)));
        let neighbour = [below, self.areas.get(&end)].into_iter().flatten().find(|vma| {
            let same = (vma.kind, vma.protection, vma.page_bytes);
            self.is_nameless(vma.mapping) && same == (new.kind, new.protection, new.page_bytes)
        });
        neighbour.map(|vma| vma.mapping)
    }

    fn is_nameless(&self, mapping: MappingId) -> bool {
        let name = &self.info(mapping).name;
        name.starts_with("[anonymous") || name.starts_with("[inferred")
    }

    /// The file whose code this mapping replaces, when a program moves code into anonymous memory. Right after the
    /// file's writable data it is the loader's mapping of zero-initialised data instead.
    fn code_under(&self, new: &Mapping) -> Option<MappingId> {
        // A separate name prevents merging, so give it only to moved code.
        let is_program = |vma: &&Vma| vma.is_code_of_file() && vma.kind == MappingKind::File;
        let code = self.vma(new.start).filter(is_program)?;
        let before = new.start.0.checked_sub(1).and_then(|last| self.vma(VirtAddr(last)));
        let is_bss = before.is_some_and(|vma| vma.mapping == code.mapping && vma.protection.write);
        let is_anonymous = matches!(new.kind, MappingKind::Anonymous | MappingKind::SharedAnonymous);
        (is_anonymous && !is_bss).then_some(code.mapping)
    }

    /// The file whose zero-initialised data this is. The loader maps it over the end of the file's range; the kernel
    /// puts the program's right after its data.
    fn bss_of(&self, new: &Mapping) -> Option<MappingId> {
        let is_file = |vma: &&Vma| vma.kind == MappingKind::File;
        let covered = self.vma(new.start).filter(is_file);
        let before = if self.running { None } else { self.vma(VirtAddr(new.start.0.checked_sub(1)?)) };
        let file = covered.or(before.filter(is_file).filter(|vma| vma.protection.write))?;
        let is_usual = new.page_bytes == PAGE_BYTES;
        (new.kind == MappingKind::Anonymous && is_usual).then_some(file.mapping)
    }

    fn new_mapping(&mut self, name: String, new: &Mapping, build_id: Option<String>) -> MappingId {
        let id = MappingId(u32::try_from(self.mappings.len()).expect("fewer than 2^32 mappings"));
        let &Mapping { start, page_bytes, .. } = new;
        let kind = Some(new.kind);
        self.mappings.push(MappingInfo { name, kind, build_id, start, bytes: 0, bytes_max: 0, page_bytes });
        id
    }
}

/// The part of an anonymous mapping's name about hugetlb pages.
fn hugetlb(page_bytes: u64) -> String {
    let size = PageSize::from_shift(page_bytes.trailing_zeros());
    size.filter(|_| page_bytes > PAGE_BYTES).map_or_else(String::new, |size| format!(" hugetlb {size}"))
}

/// Whole pages from `start`; saturates at the end of the address space.
fn range(start: u64, bytes: u64) -> (u64, u64) {
    let mask = PAGE_BYTES - 1;
    let end = start.saturating_add(bytes).saturating_add(mask) & !mask;
    (start & !mask, end.max(start & !mask))
}
