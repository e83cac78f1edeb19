//! The `files` and `fork` tables of a kernel: shared pages.

use super::OsError;
use super::keys::Keys;
use crate::{FileRules, ForkRules, Kernel};

/// Linux's `fault_around_bytes`.
pub(super) const LINUX_AROUND: &str = "64K";

/// Adds sharing of pages to the kernel by its keys. `around`: the default bytes to map around a faulting load of a file
/// page; set if pages are shared by default.
pub(super) fn sharing(keys: &mut Keys, around: Option<&str>, kernel: Kernel) -> Result<Kernel, OsError> {
    let files = files(keys, around)?;
    let fork = fork(keys, around.is_some())?;
    Ok(match (files, fork) {
        (None, None) => kernel,
        (files, fork) => kernel.with_sharing(files, fork.unwrap_or(ForkRules::NONE)),
    })
}

const CACHE: &str = "warm: all pages of files are in memory; cold: none is at first, each is read once";
const AROUND: &str = "bytes around a load of a file's page that are mapped with it";
const READ_AHEAD: &str = "with a cold cache: bytes read together, half of them before the page";
const READ_CYCLES: &str = "with a cold cache: cycles of a read, charged to `file`";
const INHERITED: &str = "what the parent of a forked child had touched of its private memory";
const PROTECTS: &str = "private pages are protected when the process forks; false suits `vfork`";
const CHILD: &str = "instructions executed while a child lives, unless its end is seen before";

fn files(keys: &mut Keys, around: Option<&str>) -> Result<Option<FileRules>, OsError> {
    let whole = "pages of files lie in the page cache; false: they are the process's own";
    let Some(mut of) = keys.table("files", whole, around.is_some())? else { return Ok(None) };
    let (base, around) = (of.paging.base(), around.unwrap_or(LINUX_AROUND));
    let is_cold = |name: &str| match name {
        "warm" => Some(false),
        "cold" => Some(true),
        _ => None,
    };
    let cold = of.name("cache", CACHE, false, is_cold, "warm, cold")?;
    let usual = FileRules::linux(base);
    let at_least = |bytes: &str| match bytes.parse::<pagewalk_units::PageSize>() {
        Ok(size) if size.bytes() > base.bytes() => bytes.to_owned(),
        _ => base.to_string(),
    };
    let around = 1 << of.order("around", AROUND, &at_least(around), 0)?;
    for key in ["read_ahead", "read_cycles"] {
        if !cold && of.has(key) {
            let why = format!("os.files: {key} with a warm cache, which reads nothing: add cache = \"cold\"");
            return Err(OsError::Memory(why));
        }
    }
    let read_ahead = 1 << of.order("read_ahead", READ_AHEAD, &at_least("128K"), 0)?;
    let read_cycles = of.count("read_cycles", READ_CYCLES, usual.read_cycles, 0..=u64::MAX)?;
    of.finish()?;
    Ok(Some(FileRules { cold, around, read_ahead, read_cycles }))
}

fn fork(keys: &mut Keys, usual: bool) -> Result<Option<ForkRules>, OsError> {
    let whole = "pages are shared with parents and children; false: none is";
    let Some(mut of) = keys.table("fork", whole, usual)? else { return Ok(None) };
    let usual = ForkRules::default();
    let all = |name: &str| match name {
        "all" => Some(true),
        "none" => Some(false),
        _ => None,
    };
    let rules = ForkRules {
        inherits: of.name("inherited", INHERITED, usual.inherits, all, "all, none")?,
        protects: of.flag("protects", PROTECTS, usual.protects)?,
        child_instructions: of.count("child_instructions", CHILD, usual.child_instructions, 0..=u64::MAX)?,
    };
    of.finish()?;
    Ok(Some(rules))
}
