"""Experiments: machines under kernels, over traces or a running program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pagewalk import _pagewalk
from pagewalk._pagewalk import Trace
from pagewalk.commands import AnyMachine, Command, StrPath, command_of, machines_of, path_of, paths_of, texts_of
from pagewalk.results import Results


class Experiment:
    """Machines to simulate under kernels, over traces or over a running program.

    Args:
        machines: One or several machines; none: the library's machine of this host's CPU.
        traces: The traces to read, or
        command: the program to run, with its arguments.
        thp: The host's mode of transparent huge pages: `"always"`, `"madvise"` or `"never"`;
            None: the recording host's.
        what_if: Whether to simulate alternatives too: other page sizes, larger TLBs.
        kernels: Policies of kernels to compare with the host's, such as `"asap:threshold=2"`.
        structure: The operating system around the programs, by name or file.
        cores: Number of cores for the threads of each trace; None: one.
        quantum: Instructions of a turn, if the traces take turns on one processor.
        switch_at: System calls at which turns end.
        global_files: Whether read-only pages of files are global, if processes take turns.
        by_traps: Slots of a host TLB from whose misses to simulate the TLB as well.
        layout: A plan by which to move shared objects.
        areas: How to infer areas where a trace has no mappings: `"auto"`, `"inferred"` or `"none"`,
            with `",gap=BYTES"` if not 2M; None: `"auto"`.
        from_marker: Begin at the first marker with this number.
        to_marker: End at the first marker with this number.
        skip: Begin this many instructions later.
        max_instructions: End after this many instructions.
        max_threads: Most threads of a process that runs; None: the kernel's limit.

    An experiment can be pickled, so that other processes and machines of a cluster run it.
    """

    def __init__(
        self,
        machines: AnyMachine | Iterable[AnyMachine] = (),
        traces: StrPath | Trace | Iterable[StrPath | Trace] = (),
        *,
        command: Command | None = None,
        thp: str | None = None,
        what_if: bool = False,
        kernels: str | Iterable[str] = (),
        structure: str | None = None,
        cores: int | None = None,
        quantum: int | None = None,
        switch_at: str | Iterable[str] = (),
        global_files: bool = False,
        by_traps: int | None = None,
        layout: StrPath | None = None,
        areas: str | None = None,
        from_marker: int | None = None,
        to_marker: int | None = None,
        skip: int = 0,
        max_instructions: int | None = None,
        max_threads: int | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "machines": machines_of(machines),
            "traces": paths_of(traces),
            "command": command_of(command),
            "thp": thp,
            "what_if": what_if,
            "kernels": texts_of(kernels),
            "structure": structure,
            "cores": cores,
            "quantum": quantum,
            "switch_at": texts_of(switch_at),
            "global_files": global_files,
            "by_traps": by_traps,
            "layout": path_of(layout),
            "areas": areas,
            "from_marker": from_marker,
            "to_marker": to_marker,
            "skip": skip,
            "max_instructions": max_instructions,
            "max_threads": max_threads,
        }

    def check(self) -> None:
        """Checks that the settings go together. Raises `UsageError` with what to do, if not."""
        _pagewalk.check(self._settings)

    def run(self) -> Results:
        """Runs the experiment. Other Python threads go on meanwhile; Ctrl-C ends it."""
        return Results(*_pagewalk.simulate(self._settings))

    def __repr__(self) -> str:
        given = {name: value for name, value in self._settings.items() if value or value == 0 and value is not False}
        given = {name: value for name, value in given.items() if (name, value) != ("skip", 0)}
        return f"Experiment({', '.join(f'{name}={value!r}' for name, value in given.items())})"
