"""Arguments that several functions take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from pagewalk._pagewalk import Machine

StrPath: TypeAlias = str | os.PathLike[str]
"""A path."""

Command: TypeAlias = Sequence[str | os.PathLike[str]]
"""A program and its arguments."""

AnyMachine: TypeAlias = Machine | str | os.PathLike[str]
"""A machine; or what `Machine` makes one of: a name, a path or a text."""


def command_of(command: Command | None) -> list[str]:
    """The words of a command."""
    if isinstance(command, (str, bytes)):
        raise TypeError(f"a command is a list of words, not one text: [{command!r}]")
    return [os.fspath(word) for word in command or ()]


def machines_of(machines: AnyMachine | Iterable[AnyMachine]) -> list[Machine]:
    """The machines of one or several names, paths, texts or machines."""
    if isinstance(machines, (Machine, str, os.PathLike)):
        machines = [machines]
    return [machine if isinstance(machine, Machine) else Machine(machine) for machine in machines]


def paths_of(paths: StrPath | Iterable[StrPath]) -> list[str]:
    """One or several paths."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return [os.fspath(path) for path in paths]


def texts_of(texts: str | Iterable[str]) -> list[str]:
    """One or several texts."""
    return [texts] if isinstance(texts, str) else list(texts)


def path_of(path: Any) -> str | None:
    """A path, if one is given."""
    return None if path is None else os.fspath(path)
