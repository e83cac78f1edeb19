//! Function symbols by address.

use crate::Svma;
use crate::code::Code;
use crate::flow;
use crate::unwind::begins_at;
use std::iter;
use std::ops::Range;

/// One function symbol, as the linker spelled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub start: Svma,
    /// `None` in hand-written assembly that states no size.
    pub bytes: Option<u64>,
    pub name: Box<str>,
    pub global: bool,
}

impl Function {
    /// Order of names for the same code, best first: a stated size, no leading underscores (`malloc` rather than
    /// `__libc_malloc`), global, short, then alphabetical for determinism.
    fn preference(&self) -> impl Ord + '_ {
        let underscores = self.name.bytes().take_while(|&b| b == b'_').count();
        // Mangled names begin with underscores by their scheme, not by choice.
        let mangled = self.name.starts_with("_Z") || self.name.starts_with("_R");
        let underscores = if mangled { 0 } else { underscores };
        (self.bytes.is_none(), underscores, !self.global, self.name.len(), &self.name)
    }

    fn stated(&self) -> Option<Range<u64>> {
        Some(self.start.0..self.start.0.saturating_add(self.bytes?))
    }
}

/// The function around an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionMatch<'a> {
    /// As the linker spelled it.
    pub name: &'a str,
    /// Whether the symbol's stated size covers the address.
    pub stated: bool,
}

/// Bytes of one function. One without size may have several pieces.
#[derive(Debug)]
struct Piece {
    range: Range<u64>,
    /// Offset in the names of all functions.
    name: usize,
    stated: bool,
}

/// Functions sorted by start.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    names: Vec<Box<str>>,
    pieces: Vec<Piece>,
    /// The highest end of each piece and all before it: tells a search when to stop.
    highest_ends: Vec<u64>,
}

impl SymbolTable {
    /// A table of the functions of an object with this code.
    pub fn new(mut functions: Vec<Function>, code: &Code<'_>) -> SymbolTable {
        functions.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| a.preference().cmp(&b.preference())));
        functions.dedup_by(|later, kept| later.start == kept.start);
        drop_labels_inside(&mut functions, code);
        let mut table = SymbolTable::default();
        for (at, function) in functions.iter().enumerate() {
            let next = functions.get(at + 1).map(|next| next.start.0);
            let stated = function.stated();
            let ranges = match &stated {
                Some(range) => iter::once(range.clone()).collect(),
                None => ranges_without_size(function.start.0, next, code),
            };
            let stated = stated.is_some();
            table.pieces.extend(ranges.into_iter().map(|range| Piece { range, name: at, stated }));
        }
        table.names = functions.into_iter().map(|function| function.name).collect();
        table.pieces.sort_by_key(|piece| piece.range.start);
        let mut highest = 0;
        let highest_ends = table.pieces.iter().map(|piece| {
            highest = highest.max(piece.range.end);
            highest
        });
        table.highest_ends = highest_ends.collect();
        table
    }

    /// The innermost function that holds `address`.
    pub fn find(&self, address: Svma) -> Option<FunctionMatch<'_>> {
        let after = self.pieces.partition_point(|piece| piece.range.start <= address.0);
        (0..after)
            .rev()
            .take_while(|&i| self.highest_ends[i] > address.0)
            .map(|i| &self.pieces[i])
            .find(|piece| piece.range.end > address.0)
            .map(|piece| FunctionMatch { name: &self.names[piece.name], stated: piece.stated })
    }
}

/// Drops labels inside a function: one with a stated size or an unwind entry; and NASM's local labels, spelled
/// `function.label`. The remaining labels without size begin a routine.
fn drop_labels_inside(functions: &mut Vec<Function>, code: &Code<'_>) {
    let mut stated_end = 0;
    let mut routine: Option<(u64, Box<str>)> = None;
    functions.retain(|function| {
        let start = function.start.0;
        if let Some(stated) = function.stated() {
            stated_end = stated.end.max(stated_end);
            routine = None;
            return true;
        }
        let extent = code.extents().around(start);
        let in_another = extent.is_some_and(|extent| !begins_at(extent, start));
        let is_local = routine.as_ref().is_some_and(|(_, name)| {
            function.name.strip_prefix(&**name).is_some_and(|label| label.starts_with('.'))
        });
        if start < stated_end || in_another || is_local {
            return false;
        }
        routine = Some((start, function.name.clone()));
        true
    });
}

/// The code of a symbol without size at `start`, if the next symbol is at `next`: from the unwind table, else what
/// control flow reaches before anything else begins.
fn ranges_without_size(start: u64, next: Option<u64>, code: &Code<'_>) -> Vec<Range<u64>> {
    let Some(section_end) = code.section_end(start) else { return Vec::new() };
    let end = next.map_or(section_end, |next| next.min(section_end));
    match code.extents().around(start) {
        Some(extent) if begins_at(extent, start) => iter::once(start..extent.end.min(end)).collect(),
        Some(_) => Vec::new(),
        None => {
            let end = code.extents().next_start(start).map_or(end, |next| next.min(end));
            flow::reached(code.bytes(start), start..end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::CodeSection;
    use crate::unwind::Extents;

    fn function(start: u64, bytes: u64, name: &str) -> Function {
        // As in ELF: no size is a size of 0.
        let bytes = (bytes != 0).then_some(bytes);
        Function { start: Svma(start), bytes, name: name.into(), global: true }
    }

    /// A table of functions in one section from 0 with this code and these unwind entries.
    fn table(functions: Vec<Function>, code: &[u8], extents: &[Range<u64>]) -> SymbolTable {
        let all = 0..code.len() as u64;
        let sections = [CodeSection { addresses: all.clone(), in_file: all }];
        SymbolTable::new(functions, &Code::new(&sections, &Extents::new(extents.to_vec()), code))
    }

    fn sized(functions: Vec<Function>) -> SymbolTable {
        table(functions, &[], &[])
    }

    fn found(table: &SymbolTable, address: u64) -> Option<&str> {
        table.find(Svma(address)).map(|found| found.name)
    }

    const NOP: u8 = 0x90;
    const RET: u8 = 0xc3;

    #[test]
    fn a_gap_between_functions_has_no_name() {
        let table = sized(vec![function(0x30, 8, "b"), function(0x10, 8, "a")]);
        assert_eq!(found(&table, 0x0f), None);
        assert_eq!(found(&table, 0x10), Some("a"));
        assert_eq!(found(&table, 0x17), Some("a"));
        assert_eq!(found(&table, 0x18), None);
        assert_eq!(found(&table, 0x37), Some("b"));
        assert_eq!(found(&table, 0x38), None);
    }

    #[test]
    fn without_a_size_a_function_is_what_control_reaches_up_to_the_next() {
        let mut code = [NOP; 0x40];
        let functions =
            vec![function(0x10, 0, "start"), function(0x20, 4, "main"), function(0x30, 0, "last")];
        let falls = table(functions.clone(), &code, &[]);
        assert_eq!(found(&falls, 0x1f), Some("start"));
        assert_eq!((found(&falls, 0x24), found(&falls, 0x3f)), (None, Some("last")));
        assert!(!falls.find(Svma(0x1f)).unwrap().stated && falls.find(Svma(0x20)).unwrap().stated);
        assert_eq!(found(&falls, 0x40), None, "the section ends there");
        (code[0x13], code[0x33]) = (RET, RET);
        let returns = table(functions, &code, &[]);
        assert_eq!((found(&returns, 0x13), found(&returns, 0x14)), (Some("start"), None));
        assert_eq!((found(&returns, 0x33), found(&returns, 0x34)), (Some("last"), None));
    }

    #[test]
    fn the_table_for_unwinding_ends_what_has_no_size() {
        let functions =
            vec![function(0x10, 0, "known"), function(0x31, 0, "early"), function(0x50, 0, "before")];
        let table = table(functions, &[NOP; 0x80], &[0x10..0x18, 0x30..0x38, 0x58..0x60]);
        assert_eq!((found(&table, 0x17), found(&table, 0x18)), (Some("known"), None));
        assert_eq!((found(&table, 0x37), found(&table, 0x38)), (Some("early"), None));
        assert_eq!((found(&table, 0x57), found(&table, 0x58)), (Some("before"), None));
    }

    #[test]
    fn labels_inside_of_functions_name_nothing() {
        let functions = vec![
            function(0x10, 8, "stated"),
            function(0x14, 0, "in_stated"),
            function(0x24, 0, "in_unnamed"),
            function(0x30, 0, "known"),
            function(0x34, 0, "in_known"),
            function(0x40, 0, "routine"),
            function(0x44, 0, "routine.loop"),
            function(0x48, 0, "routine2.x"),
        ];
        let table = table(functions, &[NOP; 0x50], &[0x20..0x28, 0x30..0x38]);
        assert_eq!((found(&table, 0x15), found(&table, 0x19)), (Some("stated"), None));
        assert_eq!((found(&table, 0x25), found(&table, 0x28)), (None, None));
        assert_eq!((found(&table, 0x35), found(&table, 0x38)), (Some("known"), None));
        assert_eq!((found(&table, 0x46), found(&table, 0x4a)), (Some("routine"), Some("routine2.x")));
    }

    #[test]
    fn the_innermost_of_nested_functions_wins() {
        let functions = vec![function(0, 100, "outer"), function(10, 5, "inner"), function(20, 5, "second")];
        let table = sized(functions);
        assert_eq!(found(&table, 12), Some("inner"));
        assert_eq!(found(&table, 17), Some("outer"));
        assert_eq!(found(&table, 22), Some("second"));
        assert_eq!(found(&table, 99), Some("outer"));
        assert_eq!(found(&table, 100), None);
    }

    #[test]
    fn the_plainest_of_several_names_wins() {
        let functions = vec![
            function(0x10, 8, "__libc_malloc"),
            function(0x10, 8, "malloc"),
            function(0x10, 0, "m"),
            Function { global: false, ..function(0x10, 8, "alloc") },
        ];
        assert_eq!(found(&sized(functions), 0x10), Some("malloc"));
        let mangled = vec![function(0x10, 8, "_ZN1a1bEv"), function(0x10, 8, "_x")];
        assert_eq!(found(&sized(mangled), 0x10), Some("_ZN1a1bEv"));
    }

    #[test]
    fn ends_beyond_the_address_space_do_not_overflow() {
        let table = sized(vec![function(u64::MAX - 1, u64::MAX, "x")]);
        assert_eq!(found(&table, u64::MAX - 1), Some("x"));
        assert_eq!(found(&table, 0), None);
    }
}
