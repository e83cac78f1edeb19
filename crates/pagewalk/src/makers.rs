//! Names of those who made a mapping: the function and line that asked for memory, past the allocator's own.

use crate::findings::{code_of_file, short, unnamed_in_file};
use pagewalk_mm::MappingId;
use pagewalk_sim::{CodePlace, ProfileResult};
use pagewalk_symbols::{FileOffset, Symbolizer};
use std::collections::BTreeMap;

/// How files of the C library, its loader and of allocators begin: nobody asks these for memory for themselves.
const LIBRARIES: [&str; 10] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "ld-",
    "libpthread",
    "libstdc++.so",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "[vdso]",
];
/// Functions of allocators, which may be linked into the program.
const ALLOCATORS: [&str; 22] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "valloc",
    "posix_memalign",
    "mmap",
    "mmap64",
    "mremap",
    "sbrk",
    "brk",
    "sysmalloc",
    "sysmalloc_mmap",
    "ptmalloc_init",
    "tcache_init",
    "arena_get2",
    "new_heap",
    "grow_heap",
    "alloc_new_heap",
    "morecore",
];
/// How others of them begin.
const ALLOCATORS_BEGIN: [&str; 14] = [
    "__libc_",
    "_int_",
    "_mid_memalign",
    "__mmap",
    "__sbrk",
    "__brk",
    "__glibc_morecore",
    "operator new",
    "__rust_",
    "__rdl_",
    "__rustc::__r",
    "<alloc::",
    "alloc::",
    "runtime.",
];

/// `build (join.c:17)`, who had more than half of a mapping mapped; `None`: that is not known.
pub(crate) fn made_by(
    findings: &ProfileResult<'_>,
    mapping: MappingId,
    symbols: &mut Symbolizer,
) -> Option<String> {
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    let (makers, all) = findings.makers(mapping);
    for maker in makers {
        if let Some(named) = maker.callers.iter().find_map(|caller| name(findings, caller, symbols)) {
            let sum = bytes.entry(named).or_default();
            *sum = sum.saturating_add(maker.bytes);
        }
    }
    bytes.into_iter().find(|(_, bytes)| *bytes > all / 2).map(|(name, _)| name)
}

/// The function that a call returned to, unless it is an allocator's.
fn name(findings: &ProfileResult<'_>, caller: &CodePlace, symbols: &mut Symbolizer) -> Option<String> {
    let info = findings.space().info(caller.mapping);
    let object = short(&info.name);
    if !code_of_file(info) || LIBRARIES.iter().any(|library| object.starts_with(library)) {
        return None;
    }
    // What a call returned to may be the next function, where it never returns.
    let offset = FileOffset(caller.file_offset.checked_sub(1)?);
    let symbol = symbols.lookup_in_build(&info.name, info.build_id.as_deref(), offset);
    let Some(function) = &symbol.function else {
        return Some(unnamed_in_file(&info.name, offset.0, &symbol));
    };
    // Compilers name parts and copies of a function after it: `sysmalloc.constprop.0`.
    let plain = function.split_once('.').map_or(function.as_str(), |(before, _)| before);
    let is_allocators = ALLOCATORS.contains(&plain)
        || ALLOCATORS_BEGIN.iter().any(|beginning| function.starts_with(beginning));
    (!is_allocators).then(|| match (&symbol.file, symbol.line) {
        (Some(file), Some(line)) => format!("{function} ({}:{line})", short(file)),
        _ => format!("{function} ({object})"),
    })
}
