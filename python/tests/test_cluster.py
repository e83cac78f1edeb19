"""Studies whose jobs run elsewhere: the same bytes as one thread, whatever dies."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cluster import Cluster, wait_for, write_study
from support import InFolder, python, skip

import pagewalk

FILES = ("results.json", "results.parquet", "index.html")
# Traces lie in the driver's folder: workers see other files under this name, or none.
UNSEEN = "/proc/self/cwd/"

# A study in a pool whose processes are in another folder: traces go there.
SWEEP = """
import concurrent.futures, os, tempfile, pagewalk
with concurrent.futures.ProcessPoolExecutor(1, initializer=os.chdir, initargs=("/",)) as pool:
    pagewalk.sweep("s.toml", output="pool", executor=pool)
    if os.listdir(tempfile.gettempdir()):
        print("the worker had a folder")
"""


class Changing(ThreadPoolExecutor):
    """An executor that changes jobs on their way."""

    def __init__(self, change: Callable[[str], str]) -> None:
        super().__init__(2)
        self.change = change
        self.shipped = 0

    def submit(self, fn: Any, /, parcel: str, traces: dict[str, bytes], threads: int) -> Future[Any]:  # type: ignore[override]
        self.shipped += len(traces)
        return super().submit(fn, self.change(parcel), traces, threads)


def lost() -> Future[Any]:
    """A job that its executor has lost."""
    future: Future[Any] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


class Forgetful(ThreadPoolExecutor):
    """An executor that loses its first jobs, as a Dask scheduler does that starts anew."""

    losses = 3

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:  # type: ignore[override]
        if self.losses == 0:
            return super().submit(fn, *args)
        self.losses -= 1
        return lost()


class Gone(ThreadPoolExecutor):
    """A Dask client that lost its scheduler for good: what it is given never ends."""

    status = "closed"

    def get_executor(self, **_: Any) -> Gone:
        return self

    def nthreads(self) -> dict[str, int]:
        return {"worker": 1}

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:  # type: ignore[override]
        return Future()


class Forgetting(ThreadPoolExecutor):
    """A Dask client whose executor forgets its first job, as when the connection breaks as a result arrives."""

    status = "running"
    forgets = True

    def get_executor(self, **_: Any) -> Forgetting:
        return self

    def nthreads(self) -> dict[str, int]:
        return {"worker": 1}

    def processing(self) -> dict[str, tuple[str, ...]]:
        return {"worker": ()}

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:  # type: ignore[override]
        if not self.forgets:
            return super().submit(fn, *args)
        self.forgets = False
        return Future()


class Away(Forgetting):
    """A Dask client whose scheduler starts anew: until that is there, jobs are lost at once."""

    forgets = False

    def __init__(self) -> None:
        super().__init__(1)
        self.back = time.monotonic() + 1.5

    @property
    def status(self) -> str:  # type: ignore[override]
        return "running" if time.monotonic() > self.back else "connecting"

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:  # type: ignore[override]
        return super().submit(fn, *args) if self.status == "running" else lost()


class Study(InFolder):
    """A study in a folder of its own, and what one thread makes of it."""

    def write(self, traces: int = 2, values: int = 16, references: int = 500, seen_from: str = "") -> None:
        write_study(self.folder, traces, values, references, seen_from)
        pagewalk.sweep("s.toml", output="alone", threads=1)

    def assert_same(self, output: str) -> None:
        for name in FILES:
            self.assertEqual(Path(output, name).read_bytes(), Path("alone", name).read_bytes(), name)


class Executors(Study):
    def test_a_pool_of_processes_makes_the_bytes_of_one_thread(self) -> None:
        self.write()
        with ProcessPoolExecutor(2) as pool:
            results = pagewalk.sweep("s.toml", output="pool", executor=pool, job_units=7)
        self.assertEqual(results.folder, Path("pool"))
        self.assert_same("pool")
        self.assertEqual(len(os.listdir("pool/units")), 160)

    def test_processes_leave_no_traces_behind(self) -> None:
        self.write(seen_from=UNSEEN)
        Path("temporary").mkdir()
        run = python("-c", SWEEP, env={**os.environ, "TMPDIR": str(self.folder / "temporary")})
        self.assertEqual((run.returncode, run.stderr, run.stdout), (0, "", "the worker had a folder\n"))
        self.assert_same("pool")
        self.assertEqual(os.listdir("temporary"), [])

    def test_a_job_that_the_engine_forgot_is_done_again(self) -> None:
        self.write(1)
        pagewalk.sweep("s.toml", output="forgotten", executor=Forgetting(1), job_units=40)
        self.assert_same("forgotten")

    def test_jobs_wait_for_a_scheduler_that_is_away(self) -> None:
        self.write(1)
        pagewalk.sweep("s.toml", output="away", executor=Away(), job_units=40)
        self.assert_same("away")

    def test_what_was_done_is_not_done_again(self) -> None:
        self.write()
        shutil.copytree("alone/units", "again/units")
        missing = random.Random(1).sample(sorted(os.listdir("again/units")), 3)
        for name in missing:
            os.remove(f"again/units/{name}")
        pool = Changing(lambda parcel: parcel)
        jobs = pagewalk._pagewalk.StudyJobs("s.toml", [], "again")
        self.assertEqual(sum(jobs.about(number)[1] for number in range(len(jobs))), 3)
        jobs.close()
        pagewalk.sweep("s.toml", output="again", executor=pool)
        self.assert_same("again")

    def test_a_worker_of_another_build_is_refused_and_both_are_named(self) -> None:
        self.write(1, 1)

        def change(parcel: str) -> str:
            return json.dumps({**json.loads(parcel), "build": {"version": "0.1.0", "tool": "c0ffee00c0ffee"}})

        with self.assertRaisesRegex(pagewalk.FailedError, r"worker .* pagewalk 0\.1\.0 \(build c0ffee00\) .* to pagewalk .*\n.*one build"):
            pagewalk.sweep("s.toml", output="refused", executor=Changing(change))

    def test_traces_that_workers_do_not_see_go_to_them(self) -> None:
        self.write()
        pool = Changing(lambda parcel: parcel.replace(str(self.folder), "/nowhere"))
        pagewalk.sweep("s.toml", output="sent", executor=pool, job_units=10)
        self.assert_same("sent")
        self.assertGreaterEqual(pool.shipped, 2)

    def test_lost_jobs_are_handed_in_again_but_not_for_ever(self) -> None:
        self.write(1, 2)
        pool = Forgetful(1)
        pagewalk.sweep("s.toml", output="lost", executor=pool)
        self.assert_same("lost")
        pool.losses = 11
        with self.assertRaisesRegex(pagewalk.FailedError, "lost this job 10 times\n.*run the study again"):
            pagewalk.sweep("s.toml", output="again", executor=pool)

    def test_a_scheduler_that_does_not_come_back_ends_with_one_error(self) -> None:
        self.write(1, 1)
        with self.assertRaisesRegex(pagewalk.FailedError, "scheduler is lost\n.*run the study again"):
            pagewalk.sweep("s.toml", output="gone", executor=Gone(1))

    def test_a_broken_pool_ends_with_one_error_and_the_study_goes_on_later(self) -> None:
        self.write()
        with ProcessPoolExecutor(1) as pool:
            pool.submit(os.getpid).result()
            threading.Timer(0.05, next(iter(pool._processes.values())).kill).start()
            with self.assertRaisesRegex(pagewalk.FailedError, r"BrokenProcessPool: .*\n.*run the study again"):
                pool.submit(time.sleep, 0.2)
                pagewalk.sweep("s.toml", output="broken", executor=pool, job_units=1)
        with ProcessPoolExecutor(1) as pool:
            pagewalk.sweep("s.toml", output="broken", executor=pool)
        self.assert_same("broken")

    def test_a_job_that_is_wrong_is_named_with_its_trace(self) -> None:
        self.write(1, 1)
        pool = Changing(lambda parcel: parcel.replace("pde", "pdx"))
        with self.assertRaisesRegex(pagewalk.BadInputError, "t0: machine k8.*worker .*pdx"):
            pagewalk.sweep("s.toml", output="wrong", executor=pool)

    def test_places_are_refused_with_the_choices(self) -> None:
        self.write(1, 1)
        done = python("-m", "pagewalk", "sweep", "--on", "ray://a:1", "s.toml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("`local` or `dask://HOST:PORT`", done.stderr)
        with self.assertRaises(pagewalk.UsageError):
            pagewalk.sweep("s.toml", on="dask://a:1", executor=Forgetful(1))


class Dask(Study):
    def run_study(self, cluster: Cluster, output: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pagewalk", "sweep", "-q", "--on", cluster.place, "-o", output, *words, "s.toml"]
        study = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(study.kill)
        return study

    def units(self, output: str) -> int:
        units = Path(output, "units")
        return len(os.listdir(units)) if units.exists() else 0

    def assert_ends_well(self, study: subprocess.Popen[str], output: str, may_log: bool = False) -> None:
        _, said = study.communicate(timeout=100)
        if may_log:
            # Dask logs a connection that breaks as a result arrives, with the time in front.
            said = re.sub(r"(?ms)^[\d-]+ [\d:,]+ - (distributed|tornado)\..*", "", said)
        # Workers may come later than the study.
        self.assertIn((study.returncode, said), [(0, ""), (0, "the Dask scheduler has no worker yet: jobs wait for one\n")])
        self.assert_same(output)

    def cluster(self) -> Cluster:
        folder = self.folder / "cluster"
        folder.mkdir()
        return Cluster(folder)

    def test_a_study_survives_killed_workers_and_a_new_scheduler(self) -> None:
        self.write(4, 16, 20_000, UNSEEN)
        with self.cluster() as cluster:
            cluster.start_worker()
            cluster.start_worker()
            study = self.run_study(cluster, "dask")
            wait_for(lambda: self.units("dask") > 40)
            status = python("-m", "pagewalk", "sweep", "--status", "dask").stdout
            self.assertRegex(status, r"jobs elsewhere; .* did \d+ units")
            cluster.workers[1].kill()
            cluster.start_worker()
            wait_for(lambda: self.units("dask") > 120)
            cluster.scheduler.kill()
            cluster.scheduler.wait()
            cluster.start_scheduler()
            cluster.start_worker()
            self.assert_ends_well(study, "dask", may_log=True)

    def test_a_worker_with_a_full_disk_does_its_part(self) -> None:
        fill = 'mkdir d && mount -t tmpfs -o size=64k tmpfs d && cd d && (head -c 1M /dev/zero >full; true) && exec "$@"'
        namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", fill, "sh"]
        if subprocess.run([*namespace, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            skip("mount", "a worker with a full disk: a file system cannot be mounted here")
        self.write(2, 4, 2_000, UNSEEN)
        with self.cluster() as cluster:
            cluster.start_worker(namespace)
            self.assert_ends_well(self.run_study(cluster, "full"), "full")

    def test_a_worker_of_another_build_ends_the_study_with_both_named(self) -> None:
        self.write(1, 1)
        package = Path(pagewalk.__file__).parent
        shutil.copytree(package, "other/pagewalk")
        with open(next(Path("other/pagewalk").glob("_pagewalk*.so")), "ab") as module:
            module.write(b"another build")
        with self.cluster() as cluster:
            cluster.start_worker(PYTHONPATH=str(self.folder / "other"))
            study = self.run_study(cluster, "refused")
            _, said = study.communicate(timeout=60)
        self.assertEqual(study.returncode, 1)
        version = pagewalk.__version__
        build = rf"pagewalk {version} \(build [0-9a-f]{{8}}\)"
        self.assertRegex(said, rf"worker \S+ \d+: the study's {build} sent a job to {build}\n.*one build")
        self.assertEqual(len(set(re.findall("build [0-9a-f]{8}", said))), 2)
        self.assertEqual(self.units("refused"), 0)


if __name__ == "__main__":
    unittest.main()
