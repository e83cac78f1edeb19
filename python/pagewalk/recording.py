"""Recording programs."""

from __future__ import annotations

from typing import Any

from pagewalk import _pagewalk
from pagewalk._pagewalk import Trace
from pagewalk.commands import Command, StrPath, command_of, path_of


class Recording:
    """What was recorded of a program."""

    data: dict[str, Any]
    """The files as data, by the schema `pagewalk.record/1`."""

    status: int | None
    """The program's exit code; below 0 for a signal."""

    def __init__(self, data: dict[str, Any], status: int | None) -> None:
        self.data = data
        self.status = status

    @property
    def traces(self) -> list[Trace]:
        """A trace for each process image, in order of start."""
        return [Trace(file["file"]) for file in self.data["files"]]

    @property
    def trace(self) -> Trace:
        """The trace of the program itself, without those that it started."""
        return Trace(self.data["files"][0]["file"])

    def __repr__(self) -> str:
        return f"<pagewalk.Recording {', '.join(file['file'] for file in self.data['files'])}>"


def record(
    command: Command,
    output: StrPath = "pagewalk.pwt",
    *,
    grain: str = "byte",
    layout: StrPath | None = None,
    from_marker: int | None = None,
    to_marker: int | None = None,
    skip: int = 0,
    max_instructions: int | None = None,
    max_threads: int | None = None,
) -> Recording:
    """Runs a program and records each of its process images, as `pagewalk record` does.

    Args:
        command: The program and its arguments.
        output: The trace file. Programs that the program starts get this name with a number.
        grain: `"byte"`, or `"page"` to keep only the 4 KiB pages of data addresses.
        layout: A plan by which to place shared objects.
        from_marker: Begin at the first marker with this number.
        to_marker: End at the first marker with this number.
        skip: Begin this many instructions later.
        max_instructions: End after this many instructions.
        max_threads: Most threads of a process at one time; None: the kernel's limit.

    Ctrl-C goes to the program; what was recorded so far is whole and can be read.
    """
    settings = {
        "command": command_of(command),
        "output": path_of(output),
        "grain": grain,
        "layout": path_of(layout),
        "from_marker": from_marker,
        "to_marker": to_marker,
        "skip": skip,
        "max_instructions": max_instructions,
        "max_threads": max_threads,
    }
    data, status = _pagewalk.record(settings)
    return Recording(data, status)
