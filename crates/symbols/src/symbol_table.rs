//! Function symbols by address.

use crate::Svma;

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
    /// Among names for the same code the better one is less: a stated size, then no underscores in front
    /// (`malloc` rather than `__libc_malloc`), then global, then short, then by the alphabet so that the
    /// choice is always the same.
    fn preference(&self) -> impl Ord + '_ {
        let underscores = self.name.bytes().take_while(|&b| b == b'_').count();
        // Mangled names begin with underscores by their scheme, not by their author's will.
        let mangled = self.name.starts_with("_Z") || self.name.starts_with("_R");
        let underscores = if mangled { 0 } else { underscores };
        (self.bytes.is_none(), underscores, !self.global, self.name.len(), &self.name)
    }
}

/// Functions sorted by start, one per start.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    functions: Vec<Function>,
    /// End of each function: where it states no size, the start of the next.
    ends: Vec<u64>,
    /// The highest end of each function and all before it: tells a search when to stop.
    highest_ends: Vec<u64>,
}

impl SymbolTable {
    pub fn new(mut functions: Vec<Function>) -> SymbolTable {
        functions.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| a.preference().cmp(&b.preference())));
        functions.dedup_by(|later, kept| later.start == kept.start);
        let starts = functions.iter().map(|function| function.start.0);
        let next_starts = starts.skip(1).map(Some).chain([None]);
        let ends: Vec<u64> = functions
            .iter()
            .zip(next_starts)
            .map(|(Function { start, bytes, .. }, next)| match bytes {
                Some(bytes) => start.0.saturating_add(*bytes),
                None => next.unwrap_or(start.0),
            })
            .collect();
        let mut highest = 0;
        let highest_ends = ends
            .iter()
            .map(|&end| {
                highest = highest.max(end);
                highest
            })
            .collect();
        SymbolTable { functions, ends, highest_ends }
    }

    /// The innermost function that holds `address`.
    pub fn find(&self, address: Svma) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        (0..after)
            .rev()
            .take_while(|&i| self.highest_ends[i] > address.0)
            .find(|&i| self.ends[i] > address.0)
            .map(|i| &self.functions[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(start: u64, bytes: u64, name: &str) -> Function {
        // As in ELF: no size is a size of 0.
        let bytes = (bytes != 0).then_some(bytes);
        Function { start: Svma(start), bytes, name: name.into(), global: true }
    }

    fn found(table: &SymbolTable, address: u64) -> Option<&str> {
        table.find(Svma(address)).map(|function| &*function.name)
    }

    #[test]
    fn a_gap_between_functions_has_no_name() {
        let table = SymbolTable::new(vec![function(0x30, 8, "b"), function(0x10, 8, "a")]);
        assert_eq!(found(&table, 0x0f), None);
        assert_eq!(found(&table, 0x10), Some("a"));
        assert_eq!(found(&table, 0x17), Some("a"));
        assert_eq!(found(&table, 0x18), None);
        assert_eq!(found(&table, 0x37), Some("b"));
        assert_eq!(found(&table, 0x38), None);
    }

    #[test]
    fn without_a_size_a_function_goes_up_to_the_next() {
        let table = SymbolTable::new(vec![function(0x10, 0, "start"), function(0x20, 4, "main")]);
        assert_eq!(found(&table, 0x1f), Some("start"));
        let last = SymbolTable::new(vec![function(0x10, 0, "last")]);
        assert_eq!(found(&last, 0x10), None);
    }

    #[test]
    fn the_innermost_of_nested_functions_wins() {
        let functions = vec![function(0, 100, "outer"), function(10, 5, "inner"), function(20, 5, "second")];
        let table = SymbolTable::new(functions);
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
        assert_eq!(found(&SymbolTable::new(functions), 0x10), Some("malloc"));
        let mangled = vec![function(0x10, 8, "_ZN1a1bEv"), function(0x10, 8, "_x")];
        assert_eq!(found(&SymbolTable::new(mangled), 0x10), Some("_ZN1a1bEv"));
    }

    #[test]
    fn ends_beyond_the_address_space_do_not_overflow() {
        let table = SymbolTable::new(vec![function(u64::MAX - 1, u64::MAX, "x")]);
        assert_eq!(found(&table, u64::MAX - 1), Some("x"));
        assert_eq!(found(&table, 0), None);
    }
}
