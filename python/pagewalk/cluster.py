"""Studies whose jobs run elsewhere: in a pool of processes, on a Dask cluster, on any executor.

The engine schedules, repeats and transports. A worker gets a job as text and answers with the job's
units, or with the traces that it lacks; those go along when the job is submitted again.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pagewalk import _pagewalk
from pagewalk._pagewalk import FailedError, PagewalkError, StudyJobs

if TYPE_CHECKING:
    import distributed

LOSSES = 10
"""How often an engine may lose a job. What is lost while its scheduler is away does not count."""

RETRIES = 3
"""How often Dask runs a job again that failed on a worker."""

IDLE_CHECKS = 3
"""How many seconds a Dask cluster with workers may process nothing before its jobs count as lost."""

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
            _held[key] = _on_disk(key, data)
        except OSError:
            _held[key] = _in_memory(key, data)


def _on_disk(key: str, data: bytes) -> str:
    path = Path(_folder(), f"{key}.pwt")
    try:
        path.write_bytes(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return str(path)


def _in_memory(key: str, data: bytes) -> str:
    number = os.memfd_create(key)
    with os.fdopen(number, "wb", closefd=False) as file:
        file.write(data)
    return f"/proc/self/fd/{number}"


@cache
def _folder() -> str:
    """A folder of this process, removed when it ends."""
    try:
        import distributed

        where = distributed.get_worker().local_directory
    except (ImportError, ValueError):
        where = None
    folder = tempfile.mkdtemp(prefix="pagewalk-", dir=where)
    # `atexit` would not do: processes of a pool leave that out.
    Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=0)
    return folder


class _Study:
    """A study whose jobs an executor runs."""

    def __init__(self, jobs: StudyJobs, executor: Executor, share: Callable[[Path], Any], threads: int, client: Any = None) -> None:
        self.jobs = jobs
        self.client = client
        self.executor = executor
        self.share = share
        self.threads = threads
        self.waiting: dict[Future[Answer], int] = {}
        self.done: SimpleQueue[Future[Answer]] = SimpleQueue()
        self.losses: Counter[int] = Counter()
        self.for_later: list[int] = []
        self.units: Counter[str] = Counter()
        self.idle_checks = 0
        self.told = 0.0

    def run(self) -> None:
        """Runs all jobs. What came back is kept, however this ends."""
        for number in range(len(self.jobs)):
            self.submit(number, [])
        while self.waiting or self.for_later:
            try:
                future = self.done.get(timeout=1)
            except Empty:
                self.check()
            else:
                self.idle_checks = 0
                self.take(future, self.waiting.pop(future))
            if self.for_later and not self.is_away():
                again, self.for_later = self.for_later, []
                for number in again:
                    self.submit(number, [])

    def submit(self, number: int, traces: list[str]) -> None:
        try:
            shared = {key: self.share(self.trace(key)) for key in traces}
            future = self.executor.submit(run_job, self.jobs.parcel(number), shared, self.threads)
        except OSError as error:
            # The worker that was to hold the trace died.
            return self.lose(number, error)
        except (BrokenExecutor, RuntimeError) as error:
            raise self.failed(number, error) from error
        self.waiting[future] = number
        future.add_done_callback(self.done.put)

    def trace(self, key: str) -> Path:
        path = self.jobs.trace(key)
        if path is None:
            raise FailedError(f"a worker asked for a trace that the study does not have: {key}")
        return path

    def check(self) -> None:
        """Ends the study if the engine is gone, and takes jobs for lost that it forgot: such futures never end.

        Dask's executor forgets a job if the connection breaks as its result arrives.
        """
        if self.client is None:
            return
        if self.client.status == "closed":
            raise FailedError(f"the connection to the Dask scheduler is lost\n  {_AGAIN}")
        if self.is_away():
            self.idle_checks = 0
            return
        self.idle_checks = self.idle_checks + 1 if self.is_idle() else 0
        if self.idle_checks >= IDLE_CHECKS:
            self.idle_checks = 0
            for future in list(self.waiting):
                future.cancel()

    def is_away(self) -> bool:
        """Whether the scheduler cannot be reached, now or ever again."""
        return self.client is not None and self.client.status != "running"

    def is_idle(self) -> bool:
        """Whether the cluster has workers, and they have nothing to do."""
        try:
            return bool(self.client.nthreads()) and not any(self.client.processing().values())
        except OSError:
            return False

    def lose(self, number: int, why: BaseException) -> None:
        if self.is_away():
            self.for_later.append(number)
            return
        self.losses[number] += 1
        if self.losses[number] > LOSSES:
            raise self.failed(number, f"the engine lost this job {LOSSES} times") from why
        # Without its traces, which may be lost too: a worker asks for them.
        self.submit(number, [])

    def take(self, future: Future[Answer], number: int) -> None:
        try:
            answer = future.result()
        except CancelledError as error:
            self.lose(number, error)
        except Exception as error:
            raise self.failed(number, error) from error
        else:
            title, units = self.jobs.about(number)
            if answer.error is not None:
                raise type(answer.error)(f"{title}: worker {answer.worker}: {answer.error}")
            is_new = not answer.lacks and answer.worker not in self.units
            if answer.lacks:
                self.submit(number, answer.lacks)
            else:
                self.jobs.keep(number, answer.worker, answer.units)
                self.units[answer.worker] += units
            self.tell(is_new)

    def failed(self, number: int, why: Exception | str) -> FailedError:
        said = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        return FailedError(f"{self.jobs.about(number)[0]}: {said}\n  {_AGAIN}")

    def tell(self, at_once: bool) -> None:
        if not at_once and time.monotonic() < self.told + 1:
            return
        self.told = time.monotonic()
        workers = "".join(f"; {worker} did {units} units" for worker, units in sorted(self.units.items()))
        waits = f"; {len(self.for_later)} wait for the scheduler" if self.for_later else ""
        self.jobs.tell(f"{len(self.waiting)} jobs elsewhere{waits}{workers}")


_AGAIN = "finished units are kept: run the study again to go on"


def run(jobs: StudyJobs, executor: Any, threads: int, job_units: int | None) -> None:
    """Runs the jobs on an executor, or on a `distributed.Client`."""
    if hasattr(executor, "get_executor"):
        on_client(jobs, executor, threads, job_units)
    else:
        if job_units is not None:
            jobs.split(job_units)
        study = _Study(jobs, executor, Path.read_bytes, threads)
        try:
            study.run()
        finally:
            for future in study.waiting:
                future.cancel()


def on_client(jobs: StudyJobs, client: distributed.Client, threads: int, job_units: int | None) -> None:
    """Runs the jobs on a Dask cluster. Its workers pass traces on to each other."""
    if not client.nthreads():
        logging.getLogger("pagewalk").warning("the Dask scheduler has no worker yet: jobs wait for one")
    units = sum(jobs.about(number)[1] for number in range(len(jobs)))
    slots = sum(client.nthreads().values())
    jobs.split(job_units or max(1, min(JOB_UNITS, units // (SHARES * slots or 1))))

    shared: dict[Path, Any] = {}

    def share(path: Path) -> Any:
        if path not in shared or shared[path].status != "finished":
            shared[path] = client.scatter(path.read_bytes(), hash=False)
        return shared[path]

    executor = client.get_executor(retries=RETRIES)
    try:
        _Study(jobs, executor, share, threads, client).run()
    finally:
        # A closed client has no jobs to cancel, and would say so in place of the error.
        if client.status != "closed":
            executor.shutdown(wait=False)


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
