//! Names a mapping's maker: the function and line that asked for memory, outside the allocator.

use crate::findings::{code_of_file, short, unnamed_in_file};
use pagewalk_mm::AddressSpace;
use pagewalk_sim::{CodePlace, Maker};
use pagewalk_symbols::{FileOffset, Symbolizer};
use std::collections::BTreeMap;

/// Name prefixes of the C library, its loader and allocators: they request memory only for others.
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
/// Allocator functions, which may be linked into the program.
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
/// Name prefixes of further allocator functions.
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

/// `build (join.c:17)`: who mapped more than half of `all` bytes; `None` if unknown.
pub(crate) fn made_by(
    (makers, all): (&[Maker], u64),
    space: &AddressSpace,
    symbols: &mut Symbolizer,
) -> Option<String> {
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    for maker in makers {
        if let Some(named) = maker.callers.iter().find_map(|caller| name(space, caller, symbols)) {
            let sum = bytes.entry(named).or_default();
            *sum = sum.saturating_add(maker.bytes);
        }
    }
    bytes.into_iter().find(|(_, bytes)| *bytes > all / 2).map(|(name, _)| name)
}

/// The function that a call returns to, unless it is an allocator's.
fn name(space: &AddressSpace, caller: &CodePlace, symbols: &mut Symbolizer) -> Option<String> {
    let info = space.info(caller.mapping);
    let object = short(&info.name);
    if !code_of_file(info) || LIBRARIES.iter().any(|library| object.starts_with(library)) {
        return None;
    }
    // The byte before the return address: after a call that never returns, another function may start.
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
