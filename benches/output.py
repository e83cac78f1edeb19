"""Output: the table for people, the JSON document, and the folder of kept runs."""

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess

SCHEMA = "pagewalk.bench/1"


def table(rows):
    """The rows as text, one line each; a measure's name is only in its first row."""
    lines = [("measure", "program", "value", "least - most", "must reach", "held")]
    shown = None
    for row in rows:
        measure = row.measure
        name, shown = ("" if measure is shown else measure.name), measure
        spread = "" if row.low is None else f"{row.low:.{measure.digits}f} - {row.high:.{measure.digits}f}"
        held = {None: "", True: "yes", False: "NO"}[row.held]
        value = f"{row.value:.{measure.digits}f}{measure.unit}"
        lines.append((name, row.program, value, spread, measure.target(row.limit), held))
    widths = [max(map(len, column)) for column in zip(*lines)]
    aligned = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust)
    text = ["  ".join(place(cell, width) for place, cell, width in zip(aligned, line, widths)) for line in lines]
    text.insert(1, "-" * len(text[0]))
    return "\n".join(line.rstrip() for line in text) + "\n"


def noise_text(noise):
    """How reliable the figures are, in a sentence or two."""
    text = (
        f"Noise: others used {noise.foreign_median:.2f} processors in the median run and "
        f"{noise.foreign_worst:.2f} in the worst"
    )
    if noise.repetitions > 1:
        text += (
            f"; one command's wall time varied by {noise.spread_median:.0%} in the median and "
            f"{noise.spread_worst:.0%} at worst"
        )
    least, most = noise.processors_least, noise.processors_most
    text += f". Two processors at once did {least:.2f} to {most:.2f} times the work of one"
    if not noise.quiet:
        text += ". The machine was not quiet: do not trust these figures"
    return text + ".\n"


def document(host, options, outcomes, rows, noise, failures, hidden):
    """Everything as one JSON document, raw runs included. Paths of this machine, `hidden`, are replaced by names."""
    programs = {}
    for name, outcome in outcomes.items():
        programs[name] = {
            "commands": {way: shlex.join(words) for way, words in outcome.commands.items()},
            "runs": {way: [_run(run) for run in runs] for way, runs in outcome.runs.items()},
            "trace": outcome.trace,
            "simulate": {machine: [_run(run) for run in runs] for machine, runs in outcome.simulated.items()},
            "from_memory": outcome.from_memory,
            "designs": outcome.designs,
            "families": outcome.families,
            "traps": outcome.traps,
            "sweeps": outcome.sweeps,
            "processors": outcome.processors,
        }
    measures = [
        {
            "measure": row.measure.key,
            "program": row.program,
            "value": row.value,
            "least": row.low,
            "most": row.high,
            "must_reach": row.measure.target(row.limit) or None,
            "held": row.held,
        }
        for row in rows
    ]
    result = {
        "schema": SCHEMA,
        "host": host,
        "options": options,
        "measures": measures,
        "noise": noise and dataclasses.asdict(noise),
        "failures": failures,
        "programs": programs,
    }
    text = json.dumps(result, indent=1)
    for path, name in hidden.items():
        # A home may be /, which is part of every path.
        if len(path) > 1:
            text = text.replace(json.dumps(path)[1:-1], name)
    return text + "\n"


def _run(run):
    fields = dataclasses.asdict(run)
    del fields["output"]
    return {name: round(value, 6) for name, value in fields.items()}


def describe_host(root, engine_version):
    """Facts about the host that a reader needs to judge the figures, without the host's name."""
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain")
    return {
        "cpu": _cpu_name(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "valgrind": engine_version,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit,
        "commit_changed": None if changed is None else changed != "",
    }


def new_folder(folder, host):
    """Makes a new folder, named after date and processor, for a run's table and raw runs; returns it."""
    cpu = re.sub(r"[^a-z0-9]+", "-", host["cpu"].lower().replace("(r)", "")).strip("-")
    name = f"{host['date'][:10]}-{cpu}-{host['processors']}p"
    taken = folder / name
    number = 1
    while taken.exists():
        number += 1
        taken = folder / f"{name}-{number}"
    taken.mkdir(parents=True)
    return taken


def _cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def _git(root, *words):
    """What git says, or None outside a repository."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
