"""Compares two runs of a program: output, exit code, files, mappings; and what pagewalk reports about differences."""

import collections
import dataclasses
import functools
import hashlib
import json
import operator
import os
import re
import stat

import mappings

EQUAL, VARIES, SAID, UNSAID = "equal", "varies natively", "differs, said", "differs, unsaid"
# Keys of pagewalk's JSON under which it reports what it did not do.
_SAYING_KEYS = {"losses", "lost", "error", "why", "reason", "unseen", "refused", "not_taken_over", "problems"}
# Patterns of such texts that make a difference count as reported.
_NAMES_IT = re.compile(
    r"untraced|without (the engine|a plan|it)|as (it is|they are)|rest of the program|died|limit|not seen|given back|"
    r"refused|cannot"
)


@dataclasses.dataclass
class Outcome:
    """The result of one run."""

    exit: object  # a number, or "hung"
    out: bytes = b""
    err: bytes = b""
    files: dict = dataclasses.field(default_factory=dict)
    mappings: object = None  # None if the program left none
    said: list = dataclasses.field(default_factory=list)


def files_in(folder):
    """The contents of a folder: for each path, kind, rights, size and contents."""
    found = {}
    for base, folders, names in os.walk(folder):
        for name in folders + names:
            path = os.path.join(base, name)
            about = os.lstat(path)
            found[os.path.relpath(path, folder)] = (stat.filemode(about.st_mode), _contents(path, about))
    return found


def _contents(path, about):
    if stat.S_ISLNK(about.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(about.st_mode):
        return ""
    with open(path, "rb") as file:
        return f"{about.st_size} bytes, {hashlib.sha256(file.read()).hexdigest()[:12]}"


def normal(text, rules):
    """Replaces the parts of the text that depend on more than the program."""
    text = text.decode(errors="backslashreplace")
    for pattern, instead, _reason in rules:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


# The report of `profile` and `trap`, printed after the program's end, begins with this.
_REPORT = re.compile(
    rb"^(Cut short: |.*  pid \d+, (exit|exec|ended|signal|killed|still)|\S+, \S+: \d+ entries, )", re.MULTILINE
)


def own_lines(err):
    """Splits standard error into the program's output and pagewalk's messages."""
    begin = _REPORT.search(err)
    err, report = (err[: begin.start()], err[begin.start() :]) if begin else (err, b"")
    theirs, said = [], []
    for line in err.splitlines(keepends=True):
        (said if re.match(rb"(pagewalk: |==\d+== pagewalk|next: )", line) else theirs).append(line)
    said += [line for line in report.splitlines() if line.lstrip().startswith((b"Cut short", b"lost ", b"pagewalk: "))]
    return b"".join(theirs), [line.decode(errors="replace").strip() for line in said]


def said_in(document):
    """All texts in a JSON document under keys that report what was not done."""
    found = []

    def look(value, is_saying):
        if isinstance(value, dict):
            for key, inner in value.items():
                look(inner, is_saying or key in _SAYING_KEYS)
        elif isinstance(value, list):
            for inner in value:
                look(inner, is_saying)
        elif isinstance(value, str) and is_saying and value:
            found.append(value)

    look(document, False)
    return found


def said_in_text(text):
    try:
        return said_in(json.loads(text))
    except ValueError:
        return []


def compare_text(natives, traced):
    """Compares one text with those of the native runs; returns the verdict and the first line that differs."""
    if traced in natives:
        return EQUAL, ""
    if all(text == natives[0] for text in natives):
        return UNSAID, _first_difference(natives[0], traced)
    # Only lines common to all native runs depend on the program alone.
    missing = _in_all([collections.Counter(text.splitlines()) for text in natives]) - collections.Counter(
        traced.splitlines()
    )
    if missing:
        return UNSAID, f"natively {next(iter(missing))!r} is there each time"
    return VARIES, ""


def _in_all(counters):
    return functools.reduce(operator.and_, counters)


def _first_difference(native, traced):
    ours, theirs = native.splitlines(), traced.splitlines()
    for at in range(max(len(ours), len(theirs))):
        pair = [lines[at] if at < len(lines) else "(end)" for lines in (ours, theirs)]
        if pair[0] != pair[1]:
            return f"line {at + 1}: natively {pair[0][:160]!r}, traced {pair[1][:160]!r}"
    return "line ends"


def compare_files(natives, traced, loose):
    """The verdict on files, with the first that differs. Files that differ between native runs only need to exist."""
    varies = False
    for path in sorted(set(traced).union(*natives)):
        native = [run.get(path) for run in natives]
        is_loose = any(one != native[0] for one in native) or any(re.fullmatch(pattern, path) for pattern, _ in loose)
        if is_loose:
            varies = True
            if None in native or traced.get(path):
                continue
        if traced.get(path) not in native:
            return UNSAID, f"{path}: natively {native[0]}, traced {traced.get(path)}"
    return (VARIES if varies else EQUAL), ""


def compare(program, command, natives, traced):
    """For each aspect of one traced run: (verdict, difference)."""
    found = {}
    if traced.exit in [run.exit for run in natives]:
        found["exit"] = EQUAL, ""
    else:
        found["exit"] = UNSAID, f"natively {natives[0].exit}, traced {traced.exit}"
    for aspect in ("out", "err"):
        rules = program.rules + RULES.get(command, ())
        *texts, last = [normal(getattr(run, aspect), rules) for run in (*natives, traced)]
        found[aspect] = compare_text(texts, last)
    found["files"] = compare_files([run.files for run in natives], traced.files, program.loose)
    found.update(compare_mappings(program, command, [run.mappings for run in natives], traced.mappings))
    return {aspect: settle(*verdict, traced.said) for aspect, verdict in found.items()}


def compare_mappings(program, command, natives, traced):
    """The verdicts on addresses and huge pages. Documented effects of `command` do not count as differences."""
    if program.no_maps or None in natives:
        return {}
    if traced is None:
        return {"maps": (UNSAID, "natively it leaves its mappings, traced none")}
    found = {}
    for aspect, what in (("maps", mappings.places), ("huge", mappings.huge)):
        if (aspect, command) in DOCUMENTED and DOCUMENTED[aspect, command][0] == "all":
            continue
        has_addresses = (aspect, command) not in DOCUMENTED and not program.races
        least = mappings.RACED_BYTES if program.races else mappings.HUGE
        runs = (*natives, traced)
        if command == "trap":
            runs = map(mappings.taken_over, runs)
        runs = [mappings.joined(run) for run in runs]
        if ("heap", command) in DOCUMENTED:
            runs = [[one for one in run if one.name != "[heap]"] for run in runs]
        counts = [what(run, has_addresses, least) for run in runs]
        text = mappings.difference(counts[:-1], counts[-1])
        is_same = all(count == counts[0] for count in counts) and not program.races
        found[aspect] = (UNSAID, text) if text else (EQUAL if is_same else VARIES, "")
    return found


# Output of programs about themselves that a command changes intentionally.
RULES = {
    "trap": ((r"AnonHugePages: +\d+ kB", "AnonHugePages: N kB", "memory is taken over in pages of 4 KiB"),),
    "apply": ((r"AnonHugePages: +\d+ kB", "AnonHugePages: N kB", "planned ranges are on huge pages"),),
}

# Intended changes of mappings by a command: what is not compared, and where it is documented.
DOCUMENTED = {
    ("heap", "apply"): ("all", "the break goes up by whole 2 MiB in a planned range (docs/explanation/forecasts.md)"),
    ("maps", "layout run"): (
        "addresses",
        "libraries that lie elsewhere leave room to what the kernel places after them (docs/explanation/layouts.md)",
    ),
    ("huge", "layout run"): ("addresses", "the same"),
    ("huge", "trap"): (
        "all",
        "memory is taken over in pages of 4 KiB, whose misses are what is counted (docs/explanation/traps.md)",
    ),
    ("huge", "apply"): ("all", "planned ranges are on huge pages: that is asked for (docs/explanation/forecasts.md)"),
}


def settle(verdict, difference, said):
    """Marks differences that pagewalk reports itself."""
    if verdict == UNSAID and any(_NAMES_IT.search(text) for text in said):
        return SAID, difference
    return verdict, difference


def worst(verdicts):
    """The verdict on a whole run."""
    kinds = {verdict for verdict, _ in verdicts.values()}
    return next((kind for kind in (UNSAID, SAID, VARIES) if kind in kinds), EQUAL)
