"""The measured programs and their inputs.

Inputs are made here, from a seed, so that every host measures the same bytes. Only `random.Random.random` is used: the
one method whose sequence Python promises to keep.
"""

import bisect
import dataclasses
import itertools
import os
import pathlib
import random
import sys

NAMES = ("gzip", "sort", "python", "sqlite3", "gcc")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large the inputs are."""

    text_bytes: int
    python_items: int
    table_rows: int
    c_lines: int


FULL = Sizes(text_bytes=20_000_000, python_items=400_000, table_rows=100_000, c_lines=5_000)
QUICK = Sizes(text_bytes=1_000_000, python_items=30_000, table_rows=5_000, c_lines=500)


@dataclasses.dataclass(frozen=True)
class Program:
    """One program with its arguments."""

    name: str
    command: list
    input: pathlib.Path = None  # what it reads from standard input
    # The same work for a tenth of the time, with the same memory; None if less work needs less memory.
    short: list = None


def prepare(names, sizes, folder):
    """Writes the inputs of the named programs into `folder`; returns the programs."""
    return [_PREPARE[name](sizes, folder) for name in NAMES if name in names]


def _gzip(sizes, folder):
    # -n: neither name nor time in the output, so that it is the same each time.
    command = ["gzip", "-n", "-c"]
    short = folder / "text_short"
    short.write_bytes(text(sizes.text_bytes // 10))
    return Program("gzip", [*command, str(_text_file(sizes, folder))], short=[*command, str(short)])


def _sort(sizes, folder):
    return Program("sort", ["sort", str(_text_file(sizes, folder))])


def _python(sizes, _folder):
    # The interpreter itself, because a version manager's shim would be measured with all programs that it starts.
    code = f"d={{i*7919%1000003:str(i) for i in range({sizes.python_items})}}; print(len(d))"
    return Program("python", [os.path.realpath(sys.executable), "-c", code])


def _sqlite3(sizes, folder):
    path = folder / "table.sql"
    path.write_text("\n".join(sql(sizes.table_rows)) + "\n")
    return Program("sqlite3", ["sqlite3", "-batch", ":memory:"], input=path)


def _gcc(sizes, folder):
    path = folder / "generated.c"
    path.write_text("\n".join(c_source(sizes.c_lines)) + "\n")
    return Program("gcc", ["gcc", "-O1", "-c", "-o", str(folder / "generated.o"), str(path)])


_PREPARE = {"gzip": _gzip, "sort": _sort, "python": _python, "sqlite3": _sqlite3, "gcc": _gcc}


def _text_file(sizes, folder):
    path = folder / "text"
    if not path.exists():
        path.write_bytes(text(sizes.text_bytes))
    return path


def _below(rng, end):
    return int(rng.random() * end)


# --- text ----------------------------------------------------------------------------------------------


def text(size):
    """`size` bytes of lines of words; the word of rank r occurs about in proportion to 1 / (r + 2.7)."""
    rng = random.Random(1)
    words = _vocabulary(rng, 30_000)
    weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(words))))
    out, made = [], 0
    while made < size:
        drawn = (bisect.bisect(weights, rng.random() * weights[-1]) for _ in range(6 + _below(rng, 9)))
        line = " ".join(words[rank] for rank in drawn) + "\n"
        out.append(line)
        made += len(line)
    return "".join(out).encode()[: size - 1] + b"\n"


def _vocabulary(rng, count):
    """Different words, the frequent ones short, of letters about as frequent as in English."""
    letters = "eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddlllccuummwwffggyyppbbvkjxqz"
    words = {}
    while len(words) < count:
        length = 2 + _below(rng, 3 + len(words).bit_length() // 2)
        words.setdefault("".join(letters[_below(rng, len(letters))] for _ in range(length)))
    return list(words)


# --- SQL -----------------------------------------------------------------------------------------------


def sql(rows):
    """Statements that fill a table and its index, and query them."""
    rng = random.Random(2)
    yield "CREATE TABLE product(id INTEGER PRIMARY KEY, name TEXT, class INTEGER);"
    yield "CREATE TABLE sale(id INTEGER PRIMARY KEY, product INTEGER, customer INTEGER, cents INTEGER, note TEXT);"
    yield "BEGIN;"
    products = 1_000
    for product in range(products):
        yield f"INSERT INTO product VALUES({product}, 'product {_below(rng, 10**9)}', {product % 17});"
    for start in range(0, rows, 20):
        values = (_sale(rng, number, products, rows) for number in range(start, min(start + 20, rows)))
        yield f"INSERT INTO sale VALUES {', '.join(values)};"
    yield "COMMIT;"
    yield "CREATE INDEX sale_customer ON sale(customer);"
    yield "SELECT class, count(*), sum(cents) FROM sale JOIN product ON product = product.id GROUP BY class ORDER BY class;"
    yield "SELECT customer, sum(cents) AS total FROM sale GROUP BY customer ORDER BY total DESC, customer LIMIT 20;"
    yield "SELECT count(*) FROM sale WHERE note LIKE '%77%';"
    yield "SELECT id, note FROM sale ORDER BY note, id LIMIT 20;"
    for _ in range(rows // 50):
        yield f"SELECT count(*), max(cents) FROM sale WHERE customer = {_below(rng, rows // 10)};"


def _sale(rng, number, products, rows):
    product, customer, cents = _below(rng, products), _below(rng, rows // 10), _below(rng, 100_000)
    return f"({number}, {product}, {customer}, {cents}, 'note {_below(rng, 10**6)} of sale {number}')"


# --- C -------------------------------------------------------------------------------------------------


def c_source(lines):
    """Exactly `lines` lines of C: functions over an array of structures, that call earlier ones."""
    rng = random.Random(3)
    out = ["struct item { long key; int weight; unsigned flags; double price; };"]
    number = 0
    while True:
        function = _C_SHAPES[_below(rng, len(_C_SHAPES))](rng, number)
        if len(out) + len(function) > lines:
            return out + ["/* filled up to the length that was asked for */"] * (lines - len(out))
        out += function
        number += 1


def _c_call(rng, number, arguments):
    return f"work_{_below(rng, number)}({arguments})" if number else "1"


def _c_loop(rng, number):
    return [
        f"long work_{number}(struct item *items, int count) {{",
        f"    long sum = {_below(rng, 1000)};",
        "    for (int i = 0; i < count; i++) {",
        f"        if (items[i].key % {2 + _below(rng, 9)} == 0 && items[i].flags & {1 << _below(rng, 16)}u) {{",
        f"            sum += items[i].weight * {1 + _below(rng, 50)} + i;",
        f"            items[i].price = items[i].price * {1 + rng.random():.4f} + sum;",
        f"        }} else if (items[i].weight > {_below(rng, 500)}) {{",
        f"            sum ^= {_c_call(rng, number, 'items, i / 2')};",
        "        }",
        "    }",
        "    return sum;",
        "}",
    ]


def _c_switch(rng, number):
    cases = []
    for case in range(4 + _below(rng, 8)):
        cases += [
            f"        case {case}:",
            f"            value = value * {3 + _below(rng, 90)} + items[value & {(1 << _below(rng, 6)) - 1}].key;",
            "            break;",
        ]
    return [
        f"long work_{number}(struct item *items, int count) {{",
        f"    long value = count + {_below(rng, 100)};",
        f"    for (int step = 0; step < {2 + _below(rng, 30)}; step++) {{",
        "        switch ((value ^ items[0].key) & 15) {",
        *cases,
        "        default:",
        f"            value -= {_c_call(rng, number, 'items, (int)(value & 7)')};",
        "        }",
        "    }",
        "    return value;",
        "}",
    ]


def _c_swap(rng, number):
    field = ["key", "weight", "price"][_below(rng, 3)]
    return [
        f"long work_{number}(struct item *items, int count) {{",
        "    int low = 0, high = count - 1;",
        "    while (low < high) {",
        f"        if (items[low].{field} > items[high].{field}) {{",
        "            struct item held = items[low];",
        "            items[low] = items[high];",
        "            items[high] = held;",
        f"            items[low].flags |= {1 << _below(rng, 20)}u;",
        "        }",
        f"        low += 1 + (items[low].weight & {_below(rng, 4)});",
        "        high--;",
        "    }",
        f"    return low * {1 + _below(rng, 9)} + {_c_call(rng, number, 'items, high')};",
        "}",
    ]


_C_SHAPES = (_c_loop, _c_switch, _c_swap)
