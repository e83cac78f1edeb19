"""Measures how fast and how small pagewalk is, against what it must reach. Started by ./pagewalk-bench."""

import argparse
import dataclasses
import os
import pathlib
import shutil
import sys
import tempfile

import measures
import output
import programs
from running import RunFailed, can_measure, find_program, processors_worth, run_main
from tools import WAYS, Tools, check_output

DESCRIPTION = """Measures every target of speed and size side by side in one run, and prints what was reached. The ways
of running a program take turns, so a noisy moment meets all of them; the table has the median of the ratios of
neighbouring runs, with the least and the most. Needs a quiet machine of two or more processors, and says how quiet it was."""

# Free bytes needed for the traces of one program.
FREE_BYTES = 3_000_000_000
# Number of records that are simulated from memory: as many as the slow comparison loop handles in half a minute.
FROM_MEMORY_RECORDS = 500_000_000
# The same for families of designs and for replacement other than LRU, of which there are more cases.
FAMILY_RECORDS = 100_000_000


def parse(words):
    parser = argparse.ArgumentParser(
        prog="pagewalk-bench",
        usage="pagewalk-bench [--no-install] [options]",
        description=DESCRIPTION,
        epilog="--no-install, in first place: install nothing, list what is missing. "
        "Exit codes: 0 measured, 1 a program could not be measured, 2 usage, 4 this host cannot.",
    )
    every = ",".join(programs.NAMES)
    parser.add_argument("--only", metavar="PROGRAM,...", default=every, type=_names, help=f"of {every}")
    parser.add_argument("--repetitions", metavar="N", type=_count, help="default 3; with --quick 1")
    parser.add_argument("--quick", action="store_true", help="small inputs: shows that it works, not how fast")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write figures and raw runs here")
    parser.add_argument("--keep", action="store_true", help="keep table and raw runs in benches/runs/DATE-CPU/")
    parser.add_argument("--pagewalk", type=find_program, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--examples", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.repetitions = options.repetitions or (1 if options.quick else 3)
    return options


def _names(text):
    names = text.split(",")
    unknown = [name for name in names if name not in programs.NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown program {unknown[0]!r}; there are {', '.join(programs.NAMES)}")
    return names


def _count(text):
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def say(text):
    print(f"pagewalk-bench: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Journal:
    """The files for raw runs, written after each program, so that an interruption loses none of them."""

    places: list
    host: dict
    options: dict
    hidden: dict

    def write(self, outcomes, failures, rows=(), noise=None):
        """Writes all results so far; returns whether all files could be written."""
        text = output.document(self.host, self.options, outcomes, rows, noise, failures, self.hidden)
        written = True
        for place in self.places:
            try:
                place.write_text(text)
            except OSError as error:
                say(f"cannot write {place}: {error.strerror}")
                written = False
        return written


def main(words=None):
    options = parse(words)
    if not can_measure():
        say("this kernel does not list a process's children (CONFIG_PROC_CHILDREN), so memory cannot be summed")
        return 4
    if options.json:
        try:
            # Detect a bad path before the long measurements.
            options.json.open("a").close()
        except OSError as error:
            say(f"cannot write {options.json}: {error.strerror}; choose another place with --json")
            return 1
    root = pathlib.Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="pagewalk-bench-") as name:
        folder = pathlib.Path(name)
        if shutil.disk_usage(folder).free < FREE_BYTES and not options.quick:
            say(f"traces need {FREE_BYTES // 10**9} GB free in {folder.parent}; choose another place with TMPDIR")
            return 4
        try:
            tools = Tools.find(options.pagewalk, options.examples, folder)
        except RunFailed as failure:
            say(str(failure))
            return 4
        host = output.describe_host(root, tools.engine["version"])
        described = {"quick": options.quick, "only": options.only, "repetitions": options.repetitions}
        hidden = {name: "WORK", str(options.pagewalk): "pagewalk", str(root): ".", os.path.expanduser("~"): "~"}
        kept = output.new_folder(root / "benches" / "runs", host) if options.keep else None
        places = [place for place in (options.json, kept and kept / "runs.json") if place]
        journal = Journal(places, host, described, hidden)
        outcomes, failures = measure_all(tools, options, journal)
    text, written = report(options, journal, tools.machines, outcomes, failures)
    if kept:
        (kept / "table.txt").write_text(text)
        say(f"kept in {kept.relative_to(root)}/")
    return 1 if failures or not written else 0


def measure_all(tools, options, journal):
    """Returns outcomes by program, and messages about programs that could not be measured."""
    outcomes, failures = {}, {}
    sizes = programs.QUICK if options.quick else programs.FULL
    for program in programs.prepare(options.only, sizes, tools.folder):
        try:
            outcomes[program.name] = measure(tools, program, options)
        except RunFailed as failure:
            failures[program.name] = str(failure)
            say(f"{program.name} is left out: {failure}")
        journal.write(outcomes, failures)
        tools.clear()
    return outcomes, failures


def measure(tools, program, options):
    commands = {way: tools.command(way, program) for way in WAYS}
    outcome = measures.Outcome(commands, runs={way: [] for way in WAYS})
    for repetition in range(options.repetitions):
        say(f"{program.name}: repetition {repetition + 1} of {options.repetitions}")
        # Alternate the order, so that a slow drift of the machine favours neither side.
        for way in WAYS if repetition % 2 == 0 else reversed(WAYS):
            outcome.processors.append(processors_worth())
            outcome.runs[way].append(tools.run(way, program))
            check_output(program, way, outcome.runs["native"][0], outcome.runs[way][-1])
    say(f"{program.name}: counting misses by page faults")
    outcome.traps = tools.trap(program, options.repetitions)
    outcome.trace = tools.trace_sizes()
    for machine in tools.machines:
        say(f"{program.name}: simulating {outcome.trace['records'] / 1e6:.0f} M records on {machine}")
        outcome.simulated[machine] = [tools.simulate(machine) for _ in range(options.repetitions)]
        outcome.from_memory[machine] = tools.simulate_from_memory(machine, FROM_MEMORY_RECORDS, options.repetitions)
    say(f"{program.name}: simulating families of designs, and other replacement than LRU")
    outcome.designs = tools.simulate_designs(FAMILY_RECORDS, options.repetitions)
    outcome.families = tools.simulate_families(FAMILY_RECORDS, options.repetitions)
    if program.short:
        say(f"{program.name}: sweeping over a short and a long trace")
        outcome.sweeps = tools.sweep_short_and_long(program)
    return outcome


def report(options, journal, machines, outcomes, failures):
    """Prints the table and writes the figures; returns the table, and whether all could be written."""
    host = journal.host
    rows = measures.evaluate(measures.all_measures(machines), outcomes) if outcomes else []
    noise = measures.noise(outcomes) if outcomes else None
    text = f"{host['cpu']}, {host['processors']} processors, Linux {host['kernel']}, Valgrind {host['valgrind']}\n"
    text += f"commit {host['commit'] or 'unknown'}{' with changes' if host['commit_changed'] else ''}, {host['date']}\n\n"
    if outcomes:
        text += output.table(rows) + "\n" + output.noise_text(noise)
    if options.quick:
        text += "Inputs were small (--quick): start-up and translation weigh too much for the targets to mean anything.\n"
    if failures or len(outcomes) < len(programs.NAMES):
        text += f"Measured on {', '.join(outcomes) or 'no program'} only; the means are over these.\n"
    for program, failure in failures.items():
        text += f"{program} could not be measured: {failure}\n"
    print(text, end="")
    return text, journal.write(outcomes, failures, rows, noise)


if __name__ == "__main__":
    run_main("pagewalk-bench", main)
