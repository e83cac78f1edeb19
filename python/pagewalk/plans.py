"""Plans of huge pages and of places of libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagewalk import _pagewalk
from pagewalk._pagewalk import Document, NotInEffectError
from pagewalk.commands import Command, StrPath, command_of
from pagewalk.documents import Rendered


class AppliedPlan(Rendered):
    """A program that ran under a plan."""

    @property
    def seconds(self) -> float:
        """How long it ran, in seconds."""
        return float(self.data["seconds"])

    @property
    def processor_seconds(self) -> float:
        """Its processor time, in seconds."""
        return float(self.data["processor_seconds"])

    def __repr__(self) -> str:
        return f"<pagewalk.AppliedPlan {self.seconds:.3f} s>"


class Verification(Rendered):
    """What a plan saves, measured."""

    pays: bool
    """Whether the plan surely saves processor time."""

    def __init__(self, document: Document, pays: bool = False) -> None:
        super().__init__(document)
        self.pays = pays

    def __repr__(self) -> str:
        return f"<pagewalk.Verification {'pays' if self.pays else 'does not surely pay'}>"


class Plan:
    """A plan file: ranges on huge pages, places of libraries."""

    path: Path
    """The plan's file."""

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._preview = _pagewalk.outline_plan(self.path, None)

    @property
    def toml(self) -> str:
        """The plan's text."""
        return self.path.read_text(encoding="utf-8")

    def preview(self) -> Rendered:
        """What the plan would do on this host; runs nothing."""
        return Rendered(self._preview)

    def apply(self, command: Command, *, keep_others: bool = False, release: bool = False) -> AppliedPlan:
        """Runs a program under the plan, as `pagewalk apply` does.

        Raises `NotInEffectError`, whose `result` is what ran, if the plan had no effect.

        Args:
            command: The program and its arguments.
            keep_others: Whether a host in mode `always` also gives huge pages to other memory.
            release: Whether to let the program go when the plan is in place.
        """
        document, missed = _pagewalk.apply_plan(self.path, command_of(command), keep_others, release)
        applied = AppliedPlan(document)
        _check_effect(missed, applied)
        return applied

    def verify(
        self,
        command: Command,
        *,
        runs: int = 10,
        width: float = 2.0,
        budget: float | None = None,
        keep_others: bool = False,
        warm: bool = False,
        record: bool = True,
    ) -> Verification:
        """Measures the plan in pairs of runs without and with it, as `pagewalk verify` does.

        Raises `NotInEffectError`, whose `result` is what was measured, if the plan had no effect.

        Args:
            command: The program and its arguments.
            runs: Most pairs of runs.
            width: Stop when the saving is known to this many per cent of the processor time.
            budget: Seconds after which no pair begins.
            keep_others: As for `apply`.
            warm: Whether to use and free memory before each run.
            record: Whether to append the outcome to the record of forecasts.
        """
        settings: dict[str, Any] = {
            "path": self.path,
            "command": command_of(command),
            "runs": runs,
            "width": width,
            "budget": budget,
            "keep_others": keep_others,
            "warm": warm,
            "record": record,
        }
        document, pays, missed = _pagewalk.verify_plan(settings)
        verification = Verification(document, pays)
        _check_effect(missed, verification)
        return verification

    def __repr__(self) -> str:
        return f"<pagewalk.Plan {self.path}>"


def _check_effect(missed: str | None, result: Rendered) -> None:
    """Raises an error with the result if the plan had no effect."""
    if missed is not None:
        error = NotInEffectError(missed)
        error.result = result
        raise error


def plan(path: StrPath) -> Plan:
    """Reads and checks a plan that `advise` or `pagewalk layout plan` wrote."""
    return Plan(path)
