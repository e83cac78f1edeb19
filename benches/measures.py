"""The measures and their targets."""

import dataclasses
import math
import statistics
import typing


# Least number of misses by page faults at which their cost exceeds the noise of run times.
MISSES_MIN = 10_000
# With fewer misses per second than this, a program under page faults must be nearly as fast as natively.
RARE_MISSES_PER_SECOND = 1_000
# With fewer misses per record than this, a software-managed TLB must be simulated as fast as others.
RARE_MISSES_PER_RECORD = 0.01


@dataclasses.dataclass
class Outcome:
    """All measurements of one program."""

    commands: dict = dataclasses.field(default_factory=dict)  # command line, by way of running
    runs: dict = dataclasses.field(default_factory=dict)  # one `Run` per repetition, by way of running
    trace: dict = None
    simulated: dict = dataclasses.field(default_factory=dict)  # one `Run` per repetition, by machine
    from_memory: dict = dataclasses.field(default_factory=dict)  # by machine
    designs: dict = dataclasses.field(default_factory=dict)  # like `from_memory`, by kind of simulation
    families: dict = dataclasses.field(default_factory=dict)  # records, data references and seconds, by way
    traps: dict = dataclasses.field(default_factory=dict)  # misses and seconds per repetition, by size of the array
    sweeps: dict = dataclasses.field(default_factory=dict)  # of a short and a long trace, if there are both
    processors: list = dataclasses.field(default_factory=list)  # what two did of one's work, before each run

    def ratios(self, way, other, seconds="wall_seconds"):
        """Ratios of the seconds of neighbouring runs."""
        pairs = zip(self.runs[way], self.runs[other])
        return [getattr(run, seconds) / getattr(beside, seconds) for run, beside in pairs]

    def file_rates(self, machine):
        """Million records a second, from a file."""
        return [self.trace["records"] / run.wall_seconds / 1e6 for run in self.simulated[machine]]

    def memory_rates(self, machine, way):
        """Million records a second, from memory."""
        return _rates(self.from_memory[machine]["records"], self.from_memory[machine][way])

    def design_rates(self, name, way):
        """Million records a second, from memory."""
        return _rates(self.designs[name]["records"], self.designs[name][way])

    def software_rates(self):
        """Million records a second on a software-managed machine, where misses are rare."""
        rare = self.software_misses()[0] < RARE_MISSES_PER_RECORD * 100
        return self.design_rates("software", "pass") if rare else []

    def software_misses(self):
        """Misses of pages in a hundred records on a software-managed machine."""
        timed = self.designs["software"]
        return [timed["walks"] / timed["records"] * 100]

    def kernel_ratios(self):
        """Simulation time of a machine with a kernel that watches its misses, relative to the machine without one."""
        return self._design_ratios("kernel", "kernel", "pass")

    def recoloring_ratios(self):
        """Simulation time of a machine with a kernel that moves pages, relative to the machine without one."""
        return self._design_ratios("recoloring", "system_kernel", "system")

    def _design_ratios(self, name, way, other):
        timed = self.designs[name]
        return [under / without for under, without in zip(timed[way], timed[other])]

    def family_rates(self, way, counted):
        """Million `counted` a second, from memory: `records`, or the `data_references` among them."""
        return _rates(self.families[way][counted], self.families[way]["seconds"])

    def trap_microseconds(self):
        """Cost of a miss by page fault, for programs whose run time is dominated by them."""
        traps = [trap for trap in self.traps.get("small", []) if trap["misses"] >= MISSES_MIN]
        return [(trap["run_seconds"] - trap["native_seconds"]) / trap["misses"] * 1e6 for trap in traps]

    def trap_slowdowns(self):
        """Run time under page faults relative to the native run time, if misses are rare."""
        traps = self.traps.get("large", [])
        rare = [trap for trap in traps if trap["misses"] / trap["run_seconds"] < RARE_MISSES_PER_SECOND]
        return [trap["run_seconds"] / trap["native_seconds"] for trap in rare]

    def sweep_megabytes(self, length):
        """Peak memory of a sweep over a trace of this length; empty if there was no sweep."""
        return [self.sweeps[length]["bytes_peak"] / 1e6] if self.sweeps else []

    def sweep_growth(self):
        """Peak memory of a sweep over a long trace relative to a short one; empty if there was no sweep."""
        return [long / short for long, short in zip(self.sweep_megabytes("long"), self.sweep_megabytes("short"))]

    def megabytes_beyond(self, way):
        """Memory of pagewalk's process, the rings in it, and what Valgrind's processes take more than without
        our engine. Shared memory (the rings) is counted once, in pagewalk's process."""
        valgrinds = [run.tree_bytes_peak for run in self.runs["none"]]
        return [
            (run.root_bytes_peak + run.descendants_bytes_peak - beside) / 1e6
            for run, beside in zip(self.runs[way], valgrinds)
        ]


def _rates(count, timed):
    return [count / seconds / 1e6 for seconds in timed]


def geometric_mean(values):
    """The geometric mean; numbers must not be negative."""
    return 0.0 if 0 in values else math.exp(statistics.fmean(map(math.log, values)))


# Functions that summarise programs, by name of the summary.
MEANS = {"geometric mean": geometric_mean, "mean": statistics.fmean, "most": max}


@dataclasses.dataclass(frozen=True)
class Measure:
    """One measure of the table of targets, or a figure that explains one."""

    key: str  # in JSON
    name: str  # for people
    values: typing.Callable  # of an `Outcome`: a value per repetition; empty if the measure does not apply
    digits: int = 2
    unit: str = ""
    at_least: bool = False  # else: at most
    each: float = None  # target for each program
    mean: float = None  # target for the mean
    mean_kind: str = "geometric mean"  # a key of `MEANS`

    def reaches(self, value, limit):
        """Whether `value` meets the target; None if there is none."""
        if limit is None:
            return None
        return value >= limit if self.at_least else value <= limit

    def target(self, limit):
        """For people: `<= 2.0`."""
        return "" if limit is None else f"{'>=' if self.at_least else '<='} {limit:g}{self.unit}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One measure of one program, or the mean over programs."""

    measure: Measure
    program: str
    value: float
    low: float = None
    high: float = None
    limit: float = None

    @property
    def held(self):
        """Whether the value meets its target; None if there is none."""
        return self.measure.reaches(self.value, self.limit)


def all_measures(machines):
    """All measures; simulation measures once for each machine."""
    measures = [
        _ratio("engine_over_none.wall", "bare engine / --tool=none", "engine", "none", each=2.0, mean=1.7),
        _ratio("engine_over_none.processor", "  the same, processor time", "engine", "none", "cpu_seconds"),
        _ratio("profile_over_cachegrind.wall", "profile / cachegrind", "profile", "cachegrind", each=0.75, mean=0.5),
        _ratio("profile_caches_over_cachegrind.wall", "  with caches", "profile_caches", "cachegrind", mean=0.9),
        _ratio("profile_over_native.wall", "  profile / native", "profile", "native", digits=1),
        Measure(
            "trace.bytes_per_record",
            "trace file, bytes a record",
            lambda outcome: [outcome.trace["bytes"] / outcome.trace["records"]],
            digits=3,
            mean=0.25,
            mean_kind="mean",
        ),
        _ratio("record_over_engine.wall", "record / bare engine", "record", "engine", each=4.0, mean=2.2),
    ]
    for machine in machines:
        measures += _simulation(machine)
    return measures + _designs() + _families() + [_memory("profile"), _memory("record")] + _sweeps() + _traps()


def _ratio(key, name, way, other, seconds="wall_seconds", **limits):
    return Measure(key, name, lambda outcome: outcome.ratios(way, other, seconds), **limits)


def _rate(key, name, values, each=None, digits=0, mean=None):
    key += "_records_per_microsecond"
    return Measure(key, name, values, digits=digits, unit=" M/s", at_least=True, each=each, mean=mean)


def _simulation(machine):
    def rate(key, name, values, **limits):
        return _rate(f"simulate.{machine}.{key}", name, values, **limits)

    def from_memory(way, name, **limits):
        return rate(f"memory_{way}", name, lambda outcome: outcome.memory_rates(machine, way), **limits)

    return [
        rate("file", f"read and simulate {machine}", lambda outcome: outcome.file_rates(machine), each=180, mean=250),
        from_memory("pass", "  the same from memory", each=400, mean=550),
        from_memory("profile", "  with attribution, huge pages"),
        from_memory("what_if", "  with every alternative of profile"),
        from_memory("plain", "  plain loop, each reference"),
    ]


def _designs():
    def rate(key, name, design, way, each=None, digits=0):
        return _rate(f"designs.{key}", name, lambda outcome: outcome.design_rates(design, way), each, digits)

    measures = [
        rate("hundred", "100 LRU machines together", "hundred", "hundred", 60, digits=1),
        rate("hundred_start", "  the same, first records", "hundred_start", "hundred", digits=1),
        rate("hundred_plain", "  plain loops, first records", "hundred_start", "plain_hundred", digits=2),
    ]
    for replacement, name in (("fifo", "FIFO"), ("random", "random"), ("tree-plru", "tree-PLRU")):
        key = replacement.replace("-", "_")
        measures.append(rate(key, f"one {name} machine", replacement, "pass", 150))
        measures.append(rate(f"{key}_plain", "  plain loop, each reference", replacement, "plain"))
    key, name = "software_rare", "one software-managed machine, few misses"
    measures += [
        _rate(f"designs.{key}", name, Outcome.software_rates, 100),
        rate("software", "  however many", "software", "pass"),
        Measure("designs.software_misses", "  misses in 100 records", Outcome.software_misses),
    ]
    measures.append(rate("rivals", "Karakostas 2016, all designs together", "rivals", "rivals", 20, digits=1))
    measures += [
        rate("caches", "Zen 4 with three levels of caches", "caches", "pass", 40),
        rate("caches_system", "  the engine in which all composes", "caches", "system"),
    ]
    over, recoloring = "under APPROX-ONLINE / without", "recoloring by a CML buffer / without"
    return [
        *measures,
        Measure("designs.kernel_over_pass", over, Outcome.kernel_ratios, each=1.3),
        Measure("designs.recoloring_over_system", recoloring, Outcome.recoloring_ratios, each=1.3),
    ]


def _families():
    def rate(way, name, counted, each=None, digits=1):
        return _rate(f"families.{way}", name, lambda outcome: outcome.family_rates(way, counted), each, digits)

    return [
        rate("family_data", "4,160 LRU arrays, data", "data_references", 20),
        rate("family_everything", "  data and fetches", "records", 20),
        rate("plain", "  plain loop, data, first records", "data_references", digits=3),
        rate("distances_data", "stack distances, data", "data_references", 50),
        rate("distances_everything", "  data and fetches", "records", 50),
        rate("plain_distances", "  plain list, data, first records", "data_references"),
    ]


def _sweeps():
    def megabytes(length):
        key, name = f"memory.sweep_{length}_megabytes", f"memory of a sweep, {length} trace"
        return Measure(key, name, lambda outcome: outcome.sweep_megabytes(length), digits=0, unit=" MB")

    growth = Measure("memory.sweep_long_over_short", "  long / short", Outcome.sweep_growth, each=1.1)
    return [megabytes("short"), megabytes("long"), growth]


def _traps():
    return [
        Measure(
            "trap.microseconds_per_miss",
            "a miss by page fault",
            Outcome.trap_microseconds,
            unit=" us",
            each=10,
            mean=6,
            # A difference of run times: noise can bring it below 0, where there is no geometric mean.
            mean_kind="mean",
        ),
        Measure("trap.slowdown_of_rare_misses", "trap / native, few misses", Outcome.trap_slowdowns, each=1.5),
    ]


def _memory(way):
    return Measure(
        f"memory.{way}_megabytes",
        f"memory beyond Valgrind, {way}",
        lambda outcome: outcome.megabytes_beyond(way),
        digits=0,
        unit=" MB",
        each=250,
        mean_kind="most",
    )


def evaluate(measures, outcomes):
    """The rows of the table: for each measure, one per program, then the mean."""
    rows = []
    for measure in measures:
        medians = []
        for program, outcome in outcomes.items():
            values = measure.values(outcome)
            if not values:
                continue
            value = statistics.median(values)
            medians.append(value)
            rows.append(Row(measure, program, value, min(values), max(values), measure.each))
        if len(medians) > 1 or medians and measure.mean is not None:
            rows.append(Row(measure, measure.mean_kind, MEANS[measure.mean_kind](medians), limit=measure.mean))
    return rows


# --- noise ---------------------------------------------------------------------------------------------

# If others use more processors than this, wall times are unreliable on a machine with few processors.
FOREIGN_PROCESSORS_MAX = 0.2


@dataclasses.dataclass(frozen=True)
class Noise:
    """How quiet the machine was."""

    foreign_median: float
    foreign_worst: float
    spread_median: float  # of one command's wall time over repetitions: (most - least) / median
    spread_worst: float
    repetitions: int
    processors_least: float  # what two processors did at once, in work of one
    processors_most: float

    @property
    def quiet(self):
        """Whether the ratios can be trusted."""
        return self.foreign_median <= FOREIGN_PROCESSORS_MAX


def noise(outcomes):
    """How quiet the machine was while programs ran and traces were simulated."""
    groups = [
        runs for outcome in outcomes.values() for runs in (*outcome.runs.values(), *outcome.simulated.values())
    ]
    foreign = [run.foreign_processors for runs in groups for run in runs]
    spreads = [_spread([run.wall_seconds for run in runs]) for runs in groups]
    processors = [worth for outcome in outcomes.values() for worth in outcome.processors]
    return Noise(
        foreign_median=statistics.median(foreign),
        foreign_worst=max(foreign),
        spread_median=statistics.median(spreads),
        spread_worst=max(spreads),
        repetitions=max(map(len, groups)),
        processors_least=min(processors),
        processors_most=max(processors),
    )


def _spread(values):
    return (max(values) - min(values)) / statistics.median(values)
