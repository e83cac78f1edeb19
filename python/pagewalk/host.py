"""This host: what huge pages would save a program on it, and what translation costs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pagewalk import _pagewalk
from pagewalk._pagewalk import Document, Machine
from pagewalk.commands import Command, StrPath, command_of, path_of
from pagewalk.documents import Paged, Rendered, write
from pagewalk.plans import Plan


class Advice(Rendered):
    """What huge pages would save a program."""

    toml: str | None
    """The plan's text; None if there is no plan."""

    why_none: str | None
    """Why there is no plan; None if there is one."""

    def __init__(self, document: Document, toml: str | None = None, why_none: str | None = None) -> None:
        super().__init__(document)
        self.toml = toml
        self.why_none = why_none

    def save(self, path: StrPath) -> Plan:
        """Writes the plan to a file. Raises `ValueError` if there is none."""
        if self.toml is None:
            raise ValueError(f"{self.why_none}, so there is no plan")
        write(self.toml, path)
        return Plan(path)

    def __repr__(self) -> str:
        return f"<pagewalk.Advice {'with a plan' if self.toml else self.why_none}>"


class HostProbe(Paged):
    """Timings of this host's TLBs, walks, caches and kernel."""

    toml: str | None
    """The text of the machine file that stands for this host; None if the probe was read from JSON."""

    def __init__(self, document: Document, toml: str | None = None) -> None:
        super().__init__(document)
        self.toml = toml

    @property
    def machine(self) -> Machine:
        """The machine that stands for this host. Raises `ValueError` if the probe was read from JSON."""
        return Machine(self._machine_file())

    def save(self) -> Path:
        """Keeps the machine as `Machine("host")`; returns its file. Raises `ValueError` as `machine` does."""
        toml = self._machine_file()
        path = Path(_pagewalk.saved_probe())
        path.parent.mkdir(parents=True, exist_ok=True)
        write(toml, path)
        return path

    def _machine_file(self) -> str:
        if self.toml is None:
            raise ValueError("a probe read from JSON has no machine file: probe again")
        return self.toml

    def __repr__(self) -> str:
        return "<pagewalk.HostProbe>"


def advise(
    command: Command | None = None,
    *,
    trace: StrPath | None = None,
    seconds: Iterable[float] = (),
    pid: int | None = None,
    watch: float = 10.0,
    input: StrPath | None = None,
    runs: int = 5,
    warm: bool = False,
    trial: bool = True,
    budget: int | None = None,
    probe: StrPath | None = None,
    machine: str | None = None,
    thp: str | None = None,
) -> Advice:
    """What a program gains from huge pages on this host, and a plan, as `pagewalk advise` says it.

    Args:
        command: The program and its arguments, or
        trace: a trace of it, with
        seconds: the processor time of each of its runs on this host, in seconds; or
        pid: a running process, to watch for
        watch: this many seconds.
        input: File for standard input in every run; None: empty.
        runs: Fewest runs of the program as it is, and of each alternative.
        warm: Whether to use and free memory before each run.
        trial: Whether to run the alternatives.
        budget: Most bytes that may be backed but never touched; None: as much as pays.
        probe: A probe of this host; None: the last one, or a new one.
        machine: The machine to simulate, by name or path; None: this host's.
        thp: Mode of transparent huge pages of the baseline; None: this host's.
    """
    if pid is not None:
        return Advice(*_pagewalk.advise_process(pid, watch, budget, path_of(probe)))
    settings = {
        "command": command_of(command),
        "trace": path_of(trace),
        "seconds": list(seconds),
        "input": path_of(input),
        "runs": runs,
        "warm": warm,
        "trial": trial,
        "budget": budget,
        "probe": path_of(probe),
        "machine": machine,
        "thp": thp,
    }
    return Advice(*_pagewalk.advise(settings))


def probe(*, cpu: int | None = None, quick: bool = False, machine: Machine | None = None) -> HostProbe:
    """Measures this host's TLBs, walks, caches and kernel by timing, as `pagewalk probe` does.

    Args:
        cpu: The processor to measure on; None: any.
        quick: Whether to measure less, in some seconds.
        machine: A machine to compare the figures with.
    """
    return HostProbe(*_pagewalk.probe_host(cpu, quick, machine))
