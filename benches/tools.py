"""The ways to run programs: natively, under Valgrind's own tools, and under pagewalk's commands."""

import dataclasses
import json
import os
import pathlib
import shutil
import tempfile

from running import RunFailed, run

# Options of every Valgrind run here; pagewalk starts its engine with the same.
_VALGRIND_OPTIONS = ["--command-line-only=yes", "-q", "--trace-children=yes", "--vgdb=no"]

# Patterns of the files that a way of running leaves, for any number of processes.
_WRITES = {"record": ["trace*.pwt"], "cachegrind": ["cachegrind.*"]}

# What `from_memory` simulates beside each machine as it is: its options, and the most records where a slow loop takes
# part that gets no further. Haswell has arrays whose ways are powers of two, which trees need.
_DESIGNS = {
    "hundred": (["--ways", "hundred"], None),
    "hundred_start": (["--ways", "hundred,plain_hundred"], 2_000_000),
    **{
        replacement: (["--ways", "pass,plain", "--machine", "haswell", "--replacement", replacement], None)
        for replacement in ("fifo", "random", "tree-plru")
    },
    # A machine whose TLB is refilled from mapped page tables.
    "software": (["--ways", "pass", "--machine", "mips_r2000"], None),
    # A machine for which every operation of every array is counted.
    "rivals": (["--ways", "rivals"], None),
    # A machine of today with its first-level, second-level and last-level caches.
    "caches": (["--ways", "pass,system", "--machine", "zen4+caches"], None),
    # Pages that a policy moves among the colors of a direct-mapped cache.
    "recoloring": (
        ["--ways", "system,system_kernel", "--machine", "romer_remapping", "--os", "fixed:recoloring.policy=cml"],
        None,
    ),
    # The machine for which the policies were designed: small TLBs, which miss often.
    "kernel": (["--ways", "pass,kernel", "--machine", "romer_1998", "--os", "approx-online"], None),
}

# The kinds of analysis that `family_bench` runs.
FAMILY_WAYS = ("family_data", "family_everything", "distances_data", "distances_everything", "plain", "plain_distances")

_STUDY = """schema = 1
name = "memory"
title = "Memory of a sweep"
traces = {traces}
machines = ["skylake_sp"]
[vary]
"tlb.l2.entries" = [768, 1536, 3072]
[family]
serves = ["data", "fetches"]
[curve]
serves = ["data"]
rate = 0.1
"""

# Sizes of arrays whose misses are counted by page faults: one with many misses, and one with few.
_TRAPS = {"small": ["--entries", "64"], "large": ["--entries", "4096"]}

# The ways of running, in the order of the first repetition.
WAYS = ("native", "none", "engine", "record", "cachegrind", "profile", "profile_caches")


@dataclasses.dataclass(frozen=True)
class Tools:
    """The binaries, and a folder for their output."""

    pagewalk: pathlib.Path
    examples: pathlib.Path  # folder of `from_memory` and `family_bench`
    folder: pathlib.Path
    environment: dict
    engine: dict  # `launcher` and `folder` of the built engine, `version` of its Valgrind
    machines: list  # names of the machines to simulate: a common one, and the default on this host
    can_trap: bool  # whether this host allows handling of page faults in user space

    @classmethod
    def find(cls, pagewalk, examples, folder):
        """Asks pagewalk for the path of its engine, which is built if necessary."""
        # The same locale on all hosts, because sort's time depends on it.
        environment = {**os.environ, "LC_ALL": "C"}
        doctor = _answer([str(pagewalk), "doctor", "--json"], environment)
        if "engine" not in doctor:
            raise RunFailed(f"{pagewalk} is too old for this benchmark: its `doctor --json` names no engine")
        machines = _answer([str(pagewalk), "machines", "list", "--json"], environment)["machines"]
        hosts_own = [machine["name"] for machine in machines if machine["is_host"]]
        names = ["skylake_sp"] + [name for name in hosts_own or ["golden_cove"] if name != "skylake_sp"]
        can_trap = any(found["for_commands"] == "trap" and found["able"] for found in doctor["findings"])
        return cls(pagewalk, examples, folder, environment, doctor["engine"], names, can_trap)

    def command(self, way, program):
        """The command line that runs `program` in this way."""
        folder, pagewalk = str(self.folder), str(self.pagewalk)
        valgrind = [self.engine["launcher"], *_VALGRIND_OPTIONS, f"--log-file={folder}/valgrind.log"]
        cachegrind = [f"--cachegrind-out-file={folder}/cachegrind.%p", "--cache-sim=yes"]
        before = {
            "native": [],
            "none": [*valgrind, "--tool=none", "--"],
            # Without a socket, the engine produces its records and discards them.
            "engine": ["env", f"VALGRIND_LIB={self.engine['folder']}", *valgrind, "--tool=pagewalk", "--"],
            "cachegrind": [*valgrind, "--tool=cachegrind", *cachegrind, "--"],
            "record": [pagewalk, "record", "-q", "-o", f"{folder}/trace.pwt", "--"],
            "profile": [pagewalk, "profile", "-q", "-o", f"{folder}/report.html", "--"],
            "profile_caches": [pagewalk, "profile", "-q", "-m", "zen4+caches", "-o", f"{folder}/report.html", "--"],
        }
        return before[way] + program.command

    def run(self, way, program):
        """Runs `program` in this way, on all processors."""
        # These files are numbered by process, so a later run does not overwrite all of an earlier one's.
        self.clear(_WRITES.get(way, ()))
        return run(self.command(way, program), stdin=program.input, environment=self.environment)

    # --- traces ----------------------------------------------------------------------------------------

    def traces(self):
        """The traces of the program that was recorded last: one for each process image."""
        return sorted(self.folder.glob("trace*.pwt"))

    def clear(self, patterns=("trace*.pwt", "cachegrind.*")):
        """Removes what earlier runs wrote."""
        for pattern in patterns:
            for path in self.folder.glob(pattern):
                path.unlink()

    def trace_sizes(self):
        """Bytes and records of the traces, together."""
        return self._sizes(self.traces())

    def _sizes(self, traces):
        command = [str(self.pagewalk), "trace", "info", "--json"]
        infos = [_answer([*command, str(trace)], self.environment) for trace in traces]
        records = sum(info["references"] + info["block_executions"] for info in infos)
        return {"files": len(infos), "bytes": sum(info["bytes"] for info in infos), "records": records}

    def simulate(self, machine):
        """Simulates the traces on one machine and one processor."""
        command = [str(self.pagewalk), "simulate", "-q", "-m", machine, *map(str, self.traces())]
        return run(command, environment=self.environment, processor=_last_processor())

    def simulate_from_memory(self, machine, records, repetitions):
        """Seconds to simulate up to this number of records from memory, on one processor."""
        return self._from_memory(["--machine", machine], records, repetitions)

    def simulate_designs(self, records, repetitions):
        """Like `from_memory`, for many machines together and for replacement other than LRU, by name."""
        return {
            name: self._from_memory(options, most or records, repetitions)
            for name, (options, most) in _DESIGNS.items()
        }

    def _from_memory(self, options, records, repetitions):
        limits = ["--records", str(records), "--repetitions", str(repetitions)]
        command = [str(self.examples / "from_memory"), *options, *limits, *map(str, self.traces())]
        return _answer(command, self.environment, _last_processor())

    def simulate_families(self, records, repetitions):
        """By way of simulating: records, data references among them, and seconds of each repetition, over so many
        records of each trace that lie in memory, on one processor."""
        options = ["--ways", ",".join(FAMILY_WAYS), "--records", str(records), "--repetitions", str(repetitions)]
        command = [str(self.examples / "family_bench"), *options]
        timed = [_answer([*command, str(trace)], self.environment, _last_processor()) for trace in self.traces()]
        return {way: sum_of([of_trace[way] for of_trace in timed]) for way in FAMILY_WAYS}

    def trap(self, program, repetitions):
        """By size of the array: what each run under page faults found, with a native run right before it; nothing where
        this host does not let faults be served."""
        return {size: [self._trap(program, size) for _ in range(repetitions)] for size in _TRAPS if self.can_trap}

    def _trap(self, program, size):
        found = self.folder / "trap.json"
        array = ["-m", "mips_r2000", "--replacement", "fifo", *_TRAPS[size]]
        command = [str(self.pagewalk), "trap", "-q", "--native", *array, "-o", str(found), "--", *program.command]
        run(command, stdin=program.input, environment=self.environment)
        result = json.loads(found.read_text())
        return {key: result[key] for key in ("misses", "run_seconds", "native_seconds")}

    def sweep_short_and_long(self, program):
        """Records, and peak bytes of a sweep over them: of the program's short run, and of what was recorded last."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = pathlib.Path(name)
            record = [str(self.pagewalk), "record", "-q", "-o", f"{folder}/short.pwt", "--", *program.short]
            run(record, stdin=program.input, environment=self.environment)
            short = sorted(folder.glob("short*.pwt"))
            return {"short": self._sweep(short, folder), "long": self._sweep(self.traces(), folder)}

    def _sweep(self, traces, folder):
        path = folder / "study.toml"
        path.write_text(study(traces))
        results = folder / "results"
        command = [str(self.pagewalk), "sweep", "-q", "-o", str(results), str(path)]
        swept = run(command, environment=self.environment)
        shutil.rmtree(results)
        return {"records": self._sizes(traces)["records"], "bytes_peak": swept.root_bytes_peak}


def check_output(program, way, native, measured):
    """Checks that the program does the same under every tool; otherwise the measurement is not of that program."""
    if measured.output != native.output:
        raise RunFailed(f"{program.name} printed something else under {way} than natively")


def _answer(command, environment, processor=None):
    """The output of a command, parsed as JSON."""
    printed = run(command, environment=environment, processor=processor).output
    try:
        return json.loads(printed)
    except ValueError as error:
        raise RunFailed(f"`{' '.join(command)}` prints no JSON: {error}") from error


def study(traces):
    """A study file over these traces that uses every kind of sweep."""
    # JSON strings are valid TOML strings.
    return _STUDY.format(traces=json.dumps([str(trace) for trace in traces]))


def sum_of(timed):
    """Counts and seconds summed over all traces; seconds for each repetition."""
    counts = {name: sum(of_trace[name] for of_trace in timed) for name in ("records", "data_references")}
    return {**counts, "seconds": [sum(seconds) for seconds in zip(*(of_trace["seconds"] for of_trace in timed))]}


def _last_processor():
    return max(os.sched_getaffinity(0))
