"""Metrics of a machine, as attributes and by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pagewalk._pagewalk import PagewalkError, metric


class Attributes:
    """A machine's metrics as attributes: the stub names them, with units, classes and meanings."""


class Metrics(Mapping[str, Any], Attributes):
    """A machine's metrics: `metrics.walks`, `metrics.tlb.l1d.misses`, `metrics["tlb.l1d.misses"]`.

    Only metrics that the machine has are there. `docs/reference/metrics.md` lists all, with units.
    """

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = self._prefix + name
        if path in self._values:
            return self._values[path]
        if any(known.startswith(path + ".") for known in self._values):
            return Metrics(self._values, path + ".")
        raise AttributeError(_why(path, self))

    def __getitem__(self, name: str) -> Any:
        return self._values[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        length = len(self._prefix)
        return (name[length:] for name in self._values if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __dir__(self) -> list[str]:
        return sorted({name.partition(".")[0] for name in self} | set(super().__dir__()))

    def __repr__(self) -> str:
        return f"Metrics({dict(self)!r})"


def _why(name: str, metrics: Metrics) -> str:
    """Why there is no such metric."""
    try:
        metric(name)
    except PagewalkError as error:
        parts = sorted({known.partition(".")[0] for known in metrics})
        return f"{error}\n  here: {', '.join(parts)}"
    return f"this machine has no `{name}`"
