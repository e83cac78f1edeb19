"""What metrics mean."""

from __future__ import annotations

from typing import NamedTuple

from pagewalk import _pagewalk


class MetricInfo(NamedTuple):
    """A metric of the registry."""

    unit: str
    """What it is measured in; empty for a count."""

    kind: str
    """`measured`, `modelled` or `bound`."""

    meaning: str
    """What it is."""


def metric(name: str) -> MetricInfo:
    """What a metric means, such as `walks` or `tlb.l1d.misses`. Raises `UsageError` with the closest names."""
    return MetricInfo(*_pagewalk.metric(name))
