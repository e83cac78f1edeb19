"""Studies whose jobs run elsewhere: in a pool of processes, on a Dask cluster, on any executor.

The engine schedules, repeats and transports. A worker gets a job as text and answers with the job's
units, or with the traces that it lacks; those go along when the job is submitted again.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pagewalk import _pagewalk
from pagewalk._pagewalk import FailedError, PagewalkError, StudyJobs

if TYPE_CHECKING:
    import distributed

LOSSES = 3
"""How often an engine may lose a job, as when its scheduler starts anew."""

RETRIES = 3
"""How often Dask runs a job again that failed on a worker."""


JOB_UNITS = 64
"""Most units of a job on Dask, which share a pass over their trace."""

SHARES = 4
"""How many jobs each worker of Dask gets at least, so that all end at about the same time."""


class Executor(Protocol):
    """What runs jobs: `concurrent.futures.Executor`, or what submits as that does."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Runs a function elsewhere."""


class Answer(NamedTuple):
    """What a worker says of a job."""

    worker: str
    units: dict[str, bytes]
    lacks: list[str]
    error: PagewalkError | None


def run_job(parcel: str, traces: dict[str, bytes], threads: int) -> Answer:
    """Runs a job on a worker. An engine need not repeat what ends in an `error`: it would end so anywhere."""
    worker = f"{socket.gethostname()} {os.getpid()}"
    for key, data in traces.items():
        _hold(key, data)
    try:
        return Answer(worker, *_pagewalk.run_job(parcel, dict(_held), threads), None)
    except PagewalkError as error:
        return Answer(worker, {}, [], error)


_held: dict[str, str] = {}
_lock = threading.Lock()


def _hold(key: str, data: bytes) -> None:
    """Keeps a trace for the other jobs of this process: in its folder, or in memory if the disk is full."""
    with _lock:
        if key in _held:
            return
        try:
            path = Path(_folder(), f"{key}.pwt")
            path.write_bytes(data)
            _held[key] = str(path)
        except OSError:
            file = os.fdopen(os.memfd_create(key), "wb", closefd=False)
            with file:
                file.write(data)
            _held[key] = f"/proc/self/fd/{file.fileno()}"


@cache
def _folder() -> str:
    """A folder of this process."""
    try:
        import distributed

        where = distributed.get_worker().local_directory
    except (ImportError, ValueError):
        where = None
    return tempfile.mkdtemp(prefix="pagewalk-", dir=where)


class _Study:
    """A study whose jobs an executor runs."""

    def __init__(self, jobs: StudyJobs, executor: Executor, share: Callable[[Path], Any], threads: int) -> None:
        self.jobs = jobs
        self.executor = executor
        self.share = share
        self.threads = threads
        self.waiting: dict[Future[Answer], tuple[int, list[str]]] = {}
        self.done: SimpleQueue[Future[Answer]] = SimpleQueue()
        self.losses: Counter[int] = Counter()
        self.units: Counter[str] = Counter()

    def run(self) -> None:
        """Runs all jobs. What came back is kept, however this ends."""
        try:
            for number in range(len(self.jobs)):
                self.submit(number, [])
            while self.waiting:
                future = self.done.get()
                self.take(future, *self.waiting.pop(future))
        finally:
            for future in self.waiting:
                future.cancel()

    def submit(self, number: int, traces: list[str]) -> None:
        shared = {key: self.share(self.trace(key)) for key in traces}
        future = self.executor.submit(run_job, self.jobs.parcel(number), shared, self.threads)
        self.waiting[future] = number, traces
        future.add_done_callback(self.done.put)

    def trace(self, key: str) -> Path:
        path = self.jobs.trace(key)
        if path is None:
            raise FailedError(f"a worker asked for a trace that the study does not have: {key}")
        return path

    def take(self, future: Future[Answer], number: int, traces: list[str]) -> None:
        title, units = self.jobs.about(number)
        try:
            answer = future.result()
        except CancelledError as error:
            self.losses[number] += 1
            if self.losses[number] > LOSSES:
                raise FailedError(f"{title}: the engine lost this job {LOSSES} times\n  {_AGAIN}") from error
            self.submit(number, traces)
        except (Exception, BrokenExecutor) as error:
            raise FailedError(f"{title}: {type(error).__name__}: {error}\n  {_AGAIN}") from error
        else:
            if answer.error is not None:
                raise type(answer.error)(f"{title}: worker {answer.worker}: {answer.error}")
            if answer.lacks:
                self.submit(number, answer.lacks)
            else:
                self.jobs.keep(number, answer.worker, answer.units)
                self.units[answer.worker] += units
            self.tell()

    def tell(self) -> None:
        workers = "".join(f"; {worker} did {units} units" for worker, units in sorted(self.units.items()))
        self.jobs.tell(f"{len(self.waiting)} jobs elsewhere{workers}")


_AGAIN = "finished units are kept: run the study again to go on"


def run(jobs: StudyJobs, executor: Any, threads: int, job_units: int | None) -> None:
    """Runs the jobs on an executor, or on a `distributed.Client`."""
    if hasattr(executor, "get_executor"):
        on_client(jobs, executor, threads, job_units)
    else:
        if job_units is not None:
            jobs.split(job_units)
        _Study(jobs, executor, Path.read_bytes, threads).run()


def on_client(jobs: StudyJobs, client: distributed.Client, threads: int, job_units: int | None) -> None:
    """Runs the jobs on a Dask cluster. Its workers pass traces on to each other."""
    units = sum(jobs.about(number)[1] for number in range(len(jobs)))
    slots = sum(client.nthreads().values())
    jobs.split(job_units or max(1, min(JOB_UNITS, units // (SHARES * slots or 1))))

    def share(path: Path) -> Any:
        return client.scatter({"trace": path.read_bytes()}, hash=False)["trace"]

    _Study(jobs, client.get_executor(retries=RETRIES), share, threads).run()


def run_on_dask(jobs: StudyJobs, address: str, threads: int, job_units: int | None = None) -> None:
    """Runs the jobs on the workers of a Dask scheduler at `HOST:PORT`."""
    try:
        import distributed
    except ImportError as error:
        why = "Dask is not installed: pip install 'pagewalk[cluster]'"
        raise _pagewalk.HostCannotError(why) from error
    try:
        client = distributed.Client(f"tcp://{address}", timeout="10s", set_as_default=False)
    except OSError as error:
        why = f"no Dask scheduler answers at {address}: {error}\n  start one: dask scheduler --port {address.rpartition(':')[2]}"
        raise FailedError(why) from error
    with client:
        on_client(jobs, client, threads, job_units)
