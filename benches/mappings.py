"""The mappings of a program from /proc/PID/smaps, and the differences between two lists of mappings."""

import collections
import dataclasses
import functools
import operator
import re

HUGE = 2 << 20
# In multithreaded programs, thread timing decides how many arenas (up to 64 MiB each) the C library makes.
RACED_BYTES = (64 << 20) + 1
# The distance by which the engine moves a program's memory to lower addresses.
SHIFT = 2 << 40
_STACK_END = 0x7FFFFFFFF000
_ENGINE_STACK_END = _STACK_END - SHIFT
# Mappings of the kernel.
_KERNELS = {"[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]"}
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+) *(.*)")
# Mappings of the engine: its program, and the memory of its core.
_ENGINES = ((0x78000000, 0x7A000000), (0x3F0000000000, 0x400000000000), (0x1000000000, 0x2000000000))


@dataclasses.dataclass(frozen=True)
class Mapping:
    """One mapping: addresses, rights, file, and bytes on huge pages."""

    start: int
    end: int
    rights: str
    name: str
    huge_bytes: int
    flags: str = ""

    @property
    def size(self):
        return self.end - self.start

    @property
    def has_no_file(self):
        """Whether it is anonymous. Under `trap`, memory files replace anonymous memory."""
        return self.name == "" or self.name.startswith(("[anon", "[heap]", "/memfd:pagewalk"))

    @property
    def is_large(self):
        """Whether it is anonymous, not a stack, and can hold a huge page."""
        return self.has_no_file and self.size >= HUGE and "gd" not in self.flags.split()


def parse(text):
    """All mappings in the text of an smaps file. Of a truncated file, the complete mappings."""
    found = []
    for line in text.splitlines():
        head = _HEAD.fullmatch(line.rstrip())
        if head:
            start, end, rights, _, _, name = head.groups()
            found.append(Mapping(int(start, 16), int(end, 16), rights, name.strip(), 0))
        elif found and line.startswith(("AnonHugePages:", "ShmemPmdMapped:", "Private_Hugetlb:", "Shared_Hugetlb:")):
            bytes_more = int(line.split()[1]) << 10
            found[-1] = dataclasses.replace(found[-1], huge_bytes=found[-1].huge_bytes + bytes_more)
        elif found and line.startswith("VmFlags:"):
            found[-1] = dataclasses.replace(found[-1], flags=line.partition(":")[2].strip())
    return found


def of_program(mappings):
    """The program's mappings: without those of the kernel and the engine, and without stacks, whose size varies."""
    stacks = {one.start for one in mappings if one.name == "[stack]"}
    return [
        one
        for one in mappings
        if one.name not in _KERNELS
        and not _is_engines(one)
        and one.end != _ENGINE_STACK_END
        and not (one.name.startswith("/memfd:pagewalk") and one.end in stacks | {_STACK_END})
    ]


def taken_over(mappings):
    """The same as `trap` has it: private writable memory of files is in its own file too, and stays there when it may
    only be read any more, as loaders leave it. Whose that was cannot be seen then."""
    writable = [one for one in mappings if one.rights[:2] != "r-" or not one.has_no_file]
    return [
        (
            dataclasses.replace(one, name="", rights=one.rights[:3] + "s")
            if one.rights[1] == "w" and (one.rights[3] == "p" or one.name.startswith("/memfd:pagewalk"))
            else one
        )
        for one in writable
    ]


def joined(mappings):
    """The same with anonymous neighbours of equal rights as one. The kernel keeps the break apart from `.bss` before
    it, which the engine does not."""
    found = []
    for one in mappings:
        last = found[-1] if found else None
        if last and last.end == one.start and last.rights == one.rights and last.has_no_file and one.has_no_file:
            name = one.name or last.name
            found[-1] = dataclasses.replace(last, end=one.end, name=name, huge_bytes=last.huge_bytes + one.huge_bytes)
        else:
            found.append(one)
    return found


def _is_engines(mapping):
    return "/pagewalk/valgrind-" in mapping.name or any(low <= mapping.start < high for low, high in _ENGINES)


def places(mappings, has_addresses=True, least=HUGE):
    """Large anonymous mappings, each as its address modulo 2 MiB and its size, with how often it is there; without
    addresses each as its whole 2 MiB, as neighbours that join it are others then."""
    large = [one for one in mappings if one.is_large and one.size >= least]
    place = (lambda one: (one.start % HUGE, one.size)) if has_addresses else (lambda one: (0, one.size // HUGE * HUGE))
    return collections.Counter(map(place, large))


def huge(mappings, has_addresses=True, least=HUGE):
    """The same with the bytes that are on huge pages, of those that have any."""
    large = [one for one in mappings if one.is_large and one.size >= least and one.huge_bytes]
    return collections.Counter((one.start % HUGE if has_addresses else 0, one.size, one.huge_bytes) for one in large)


def is_exact(native, traced, shift=0):
    """Whether both have the same addresses and rights; high addresses of traced mappings are `shift` lower."""

    def moved(one):
        by = shift if one.start >= 0x500000000000 else 0
        return (one.start - by, one.end - by, one.rights)

    def of_files(mappings):
        return [one for one in mappings if one.name != "[stack]"]

    native, traced = (of_files(joined(one)) for one in (native, traced))
    return [moved(one) for one in native] == [(one.start, one.end, one.rights) for one in traced]


def difference(natives, traced):
    """Describes mappings that all native runs have and the traced one lacks, or the reverse; None if there are none."""
    stable, any_of_them = (functools.reduce(how, natives) for how in (operator.and_, operator.or_))
    # If native runs differ, only the mappings common to all are required.
    more = collections.Counter() if stable != any_of_them else traced - any_of_them
    missing = stable - traced
    if not missing and not more:
        return None
    return f"natively {_text(missing)}, traced {_text(more)}"


def _text(counter):
    items = [
        f"{' '.join(f'{part:#x}' for part in key)}" + (f" ×{times}" if times > 1 else "")
        for key, times in sorted(counter.items())
    ]
    shown = ", ".join(items[:4]) + (f" and {len(items) - 4} more" if len(items) > 4 else "")
    return shown or "nothing"
