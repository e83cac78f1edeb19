"""Small plans for `apply` and `layout run` of any program."""

import pathlib
import shutil
import struct
import subprocess

_LOAD = 1
_PAGE = 4096


def program_of(name):
    """The file that a command starts."""
    return pathlib.Path(shutil.which(name) or name).resolve()


def range_plan(name, mappings):
    """A plan of huge pages: the heap, and the largest anonymous mapping that the program had."""
    lines = ['schema = "pagewalk.plan/2"', "[program]", f'path = "{program_of(name)}"']
    lines += ["[[range]]", 'what = "heap"', 'from = "0x0"', 'to = "0x400000"']
    sizes = [one.size for one in mappings or () if one.is_large and one.name == ""]
    if sizes:
        lines += ["[[range]]", 'what = "anonymous"', f'bytes = "{max(sizes):#x}"', "nth = 1"]
    return "\n".join(lines) + "\n"


def library_plan(name, library=None):
    """A plan that puts the C library at the beginning of the arena."""
    library = library or _c_library()
    lines = ['schema = "pagewalk.plan/2"', "[program]", f'path = "{program_of(name)}"', "[layout]", 'planner = "hand"']
    lines += ["[[place]]", f'file = "{library}"', 'offset = "0x0"', f'size = "{size_of(library):#x}"']
    return "\n".join(lines) + "\n"


def _c_library():
    told = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    return pathlib.Path(next(line.split()[2] for line in told.splitlines() if "libc.so" in line)).resolve()


def size_of(file):
    """Bytes from the first to the last mapped byte of a 64-bit shared object, in whole pages."""
    with open(file, "rb") as opened:
        head = opened.read(64)
        offset, size, count = (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
        opened.seek(offset)
        table = opened.read(size * count)
    first, last = None, 0
    for at in range(0, size * count, size):
        kind, _flags, _offset, address, _, _, bytes_in_memory = struct.unpack_from("<IIQQQQQ", table, at)
        if kind == _LOAD:
            first = address if first is None else min(first, address)
            last = max(last, address + bytes_in_memory)
    return (last + _PAGE - 1) // _PAGE * _PAGE - first // _PAGE * _PAGE
