"""Results of experiments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pagewalk._pagewalk import Document
from pagewalk.documents import Paged
from pagewalk.frames import frame
from pagewalk.metrics import Attributes, Metrics

if TYPE_CHECKING:
    import polars


class Results(Paged, Attributes):
    """The result of an experiment: each machine's metrics, over all processes.

    `results["zen4"].walks` is a metric of one machine; `results.walks` is the first machine's.
    """

    cut: bool
    """Whether a trace could not be read to its end; the figures are of what could be read."""

    status: int | None
    """The exit code of the program that ran, below 0 for a signal; None for traces."""

    def __init__(self, document: Document, cut: bool = False, status: int | None = None) -> None:
        super().__init__(document)
        self.cut = cut
        self.status = status

    @property
    def machines(self) -> dict[str, Metrics]:
        """Each machine's metrics over all processes, by the machine's name."""
        return {machine["name"]: Metrics(machine["metrics"]) for machine in self.data["machines"]}

    @property
    def metrics(self) -> Metrics:
        """The first machine's metrics over all processes."""
        return Metrics(self.data["machines"][0]["metrics"]) if self.data["machines"] else Metrics({})

    @property
    def processes(self) -> list[dict[str, Any]]:
        """The process images as data, in order of start: attribution, heat, alternatives, advice."""
        processes: list[dict[str, Any]] = self.data["processes"]
        return processes

    def __getitem__(self, machine: str) -> Metrics:
        return self.machines[machine]

    def __iter__(self) -> Iterator[str]:
        return iter(self.machines)

    def __len__(self) -> int:
        return len(self.data["machines"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        return getattr(self.metrics, name)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each process, machine and kernel: who, then its metrics by name."""
        return [row for number, process in enumerate(self.processes) for row in _rows(number, process)]

    def frame(self) -> polars.DataFrame:
        """`rows()` as a data frame of polars (`pip install 'pagewalk[frames]'`)."""
        return frame(self.rows())

    def __repr__(self) -> str:
        return f"<pagewalk.Results of {', '.join(self)}>"


def _rows(number: int, process: dict[str, Any]) -> Iterator[dict[str, Any]]:
    who = {"process": number, "pid": process["pid"], "program": process["program"]}
    kernels = process.get("kernels", [])
    if not kernels:
        for machine in process["machines"]:
            yield {**who, "machine": machine["name"], "kernel": "host", **machine["metrics"]}
    for kernel in kernels:
        yield {**who, "machine": kernel["machine"], "kernel": kernel["policy"], **kernel["metrics"]}
