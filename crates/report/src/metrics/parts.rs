//! The named parts of families of metrics, and their values.

/// A named part of a pattern.
pub struct MetricPart {
    /// Its name between braces.
    pub name: &'static str,
    /// What it names.
    pub doc: &'static str,
    /// All its values, each with its meaning; empty: any text without a dot.
    pub values: &'static [(&'static str, &'static str)],
}

/// All parts.
pub const PARTS: &[MetricPart] = &[
    MetricPart { name: "array", doc: "a TLB of the machine file, by its `name`", values: &[] },
    MetricPart {
        name: "cache",
        doc: "a page-walk cache, or a cache of memory, of the machine file",
        values: &[],
    },
    MetricPart {
        name: "structure",
        doc: "a TLB, a range TLB or a page-walk cache of the machine file",
        values: &[],
    },
    MetricPart { name: "level", doc: "1 for the first level", values: &[("1", ""), ("2", ""), ("3", "")] },
    MetricPart { name: "ways", doc: "how many ways of each set were on", values: &[] },
    MetricPart { name: "size", doc: "a page size, such as `64K`", values: &[] },
    MetricPart { name: "order", doc: "n, for blocks of at least 2^n frames", values: &[] },
    MetricPart {
        name: "percent",
        doc: "a share of all backed pages",
        values: &[("90", ""), ("95", ""), ("99", "")],
    },
    MetricPart {
        name: "sets",
        doc: "a count over the sets of the last level",
        values: &[
            ("misses", ""),
            ("compulsory_misses", ""),
            ("capacity_misses", ""),
            ("conflict_misses", ""),
            ("spared_misses", ""),
            ("fully_associative_misses", ""),
            ("evictions_of_code_by_code", ""),
            ("evictions_of_data_by_code", ""),
            ("evictions_of_code_by_data", ""),
            ("evictions_of_data_by_data", ""),
        ],
    },
    MetricPart {
        name: "requester",
        doc: "what makes the access",
        values: &[
            ("fetch", "a fetch of the program"),
            ("load", "a load of the program"),
            ("store", "a store of the program"),
            ("walk", "a page-table entry of a walk"),
        ],
    },
    MetricPart {
        name: "class",
        doc: "what a software-managed TLB misses, by Uhlig et al. 1994, Table V",
        values: &[
            ("l1u", "a page of the program"),
            ("l1k", "a mapped page of the kernel"),
            ("l2", "page-table entries of the program"),
            ("l3", "entries of `l2`, and of the kernel"),
            ("invalid", "first touch of a page"),
            ("modify", "first store to a page"),
        ],
    },
    MetricPart {
        name: "account",
        doc: "what a kernel's cycles are spent on",
        values: &[
            ("fault", "page faults"),
            ("zero", "clearing memory"),
            ("copy", "copying pages"),
            ("map", "changing page tables in place"),
            ("bookkeeping", "a policy's own work at TLB misses"),
            ("scan", "scanning page tables in the background"),
            ("flush", "flushing translations"),
            ("compaction", "moving pages out of the way"),
            ("swap", "writing pages to swap and reading them back"),
            ("file", "reading files"),
            ("recolor", "moving pages to other colors, and finding which; kernels that place pages"),
        ],
    },
];

impl MetricPart {
    /// The part of this name.
    pub fn named(name: &str) -> Option<&'static MetricPart> {
        PARTS.iter().find(|part| part.name == name)
    }

    fn may_be(&self, text: &str) -> bool {
        let is_listed = || self.values.is_empty() || self.values.iter().any(|(value, _)| *value == text);
        !text.is_empty() && !text.contains('.') && is_listed()
    }
}

/// The value of each part of a pattern in `name`, if it has the pattern's form.
pub(super) fn split<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let Some((literal, rest)) = pattern.split_once('{') else { return (pattern == name).then(Vec::new) };
    let name = name.strip_prefix(literal)?;
    let (part, rest) = rest.split_once('}')?;
    let part = MetricPart::named(part)?;
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    for end in ends.filter(|&end| part.may_be(&name[..end])) {
        if let Some(mut others) = split(rest, &name[end..]) {
            others.insert(0, &name[..end]);
            return Some(others);
        }
    }
    None
}

/// Names of a pattern's parts, in order.
#[cfg(test)]
pub(super) fn names(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('{').skip(1).map(|rest| rest.split_once('}').expect("a part is closed").0)
}
