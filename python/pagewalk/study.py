"""Studies: many machines over many streams."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewalk import _pagewalk
from pagewalk._pagewalk import Document, Trace
from pagewalk.commands import StrPath, path_of, paths_of
from pagewalk.documents import Paged
from pagewalk.frames import parquet

if TYPE_CHECKING:
    import polars


class StudyResults(Paged):
    """The result of a study."""

    folder: Path | None
    """The folder with results.parquet, results.json, index.html, recordings and finished work."""

    def __init__(self, document: Document, folder: StrPath | None = None) -> None:
        super().__init__(document)
        self.folder = None if folder is None else Path(folder)

    @property
    def comparisons(self) -> list[dict[str, Any]]:
        """The comparisons with findings of sources, as data."""
        comparisons: list[dict[str, Any]] = self.data["comparisons"]
        return comparisons

    def check(self) -> None:
        """Raises `FailedError` with the titles of findings that must hold but do not."""
        _pagewalk.check_study(self._document)

    def frame(self) -> polars.DataFrame:
        """The table results.parquet as a data frame of polars (`pip install 'pagewalk[frames]'`)."""
        if self.folder is None:
            raise ValueError("a study read from JSON has no folder: read its results.parquet")
        return parquet(self.folder / "results.parquet")

    def __repr__(self) -> str:
        return f"<pagewalk.StudyResults in {self.folder}>"


def sweep(
    study: StrPath,
    *,
    traces: StrPath | Trace | Iterable[StrPath | Trace] = (),
    output: StrPath | None = None,
    threads: int | None = None,
    executor: Any = None,
    on: str = "local",
    job_units: int | None = None,
) -> StudyResults:
    """Runs a study, as `pagewalk sweep` does. What this build finished earlier is not done again.

    Args:
        study: The study's file.
        traces: Recordings to study instead of the study's programs.
        output: The folder for results; None: NAME.sweep, after the study's name.
        threads: Worker threads; None: one for each processor. Elsewhere: threads of a job; None: one.
        executor: Where jobs run: any `concurrent.futures.Executor`, whose workers have the same
            build of pagewalk, or a `distributed.Client`; None: as `on` says.
        job_units: Most units of a job elsewhere, which share a pass over their trace; None: 64, or
            fewer if a Dask cluster has so many workers.
        on: `"local"`, or `"dask://HOST:PORT"`: on the workers of a Dask scheduler.
    """
    scheduler = _pagewalk.scheduler_of(on)
    if executor is None and scheduler is None:
        return StudyResults(*_pagewalk.sweep(path_of(study), paths_of(traces), path_of(output), threads))
    if executor is not None and scheduler is not None:
        raise _pagewalk.UsageError("`executor` and `on` both say where jobs run: give one of them")
    from pagewalk import cluster

    jobs = _pagewalk.StudyJobs(path_of(study), paths_of(traces), path_of(output))
    try:
        if scheduler is None:
            cluster.run(jobs, executor, threads or 1, job_units)
        else:
            cluster.run_on_dask(jobs, scheduler, threads or 1, job_units)
        return StudyResults(*jobs.finish())
    finally:
        jobs.close()
