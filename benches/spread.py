"""Proves and measures studies on a Dask cluster of separate processes with separate folders, all on this host.

    python3 benches/spread.py prove      # 1,000 units while workers and the scheduler are killed at random moments
    python3 benches/spread.py measure    # efficiency of two workers, and what a unit costs beyond its simulation

Measured on two processors, which also ran scheduler and driver: seconds of a study, and the efficiency (time of one
worker over twice the time of two, with the 90 % interval). The last column has two processes without an executor, each
with one of the two traces.

    load before  one worker  two    efficiency     of the least times  no executor
    1.1          26.0 s     14.2 s  0.92 (0.91–0.93)  0.91            18.3 s
    0.1          4.7 s       2.5 s  0.86 (0.81–0.90)  0.93             2.8 s
    1.7          12.2 s      7.1 s  0.87 (0.78–0.91)  0.86             8.4 s
    2.5          5.4 s       3.8 s  0.57 (0.49–0.65)  0.70             4.6 s

Needs the Python package with its extra `cluster`.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python/tests"))

FILES = ("results.json", "results.parquet", "index.html")
# Workers have another file under this name, or none: traces must be sent.
UNSEEN = "/proc/self/cwd/"


def say(text):
    """Prints a line at once."""
    print(text, flush=True)


def same(one, other):
    """Whether two folders have the same results, byte for byte."""
    read = lambda folder, name: pathlib.Path(folder, name).read_bytes()
    return all(read(one, name) == read(other, name) for name in FILES)


def done(output):
    """How many units a folder has."""
    units = pathlib.Path(output, "units")
    return len(os.listdir(units)) if units.exists() else 0


def kill_at_random(cluster, is_over, seed):
    """Kills a worker now and then and starts another; twice, the scheduler, with all its workers."""
    draws, kills, starts = random.Random(seed), 0, 0
    while not is_over.wait(draws.uniform(1, 8)):
        if starts < 2 and draws.random() < 0.2:
            starts += 1
            cluster.scheduler.kill()
            cluster.scheduler.wait()
            cluster.start_scheduler()
            # Most end when they lose the scheduler; those that only began would join the new one.
            for worker in cluster.workers:
                worker.kill()
                worker.wait()
        else:
            kills += 1
            worker = draws.choice([worker for worker in cluster.workers if worker.poll() is None])
            worker.kill()
            worker.wait()
        while sum(worker.poll() is None for worker in cluster.workers) < 3:
            cluster.start_worker()
    return kills, starts


def prove(seed):
    """A study of 1,000 units loses nothing, whatever dies."""
    import pagewalk
    from cluster import Cluster, write_study

    write_study(pathlib.Path("."), traces=4, values=50, references=60_000, seen_from=UNSEEN)
    pagewalk.sweep("s.toml", output="alone", threads=1)
    pathlib.Path("cluster").mkdir()
    with Cluster(pathlib.Path("cluster").resolve()) as cluster:
        for _ in range(3):
            cluster.start_worker()
        is_over, killed, runs, begun = threading.Event(), [], 0, time.monotonic()
        killer = threading.Thread(target=lambda: killed.extend(kill_at_random(cluster, is_over, seed)))
        killer.start()
        try:
            # An engine may give a job up whose workers die again and again; the next run goes on.
            while runs == 0 or code != 0:
                runs += 1
                words = ["-m", "pagewalk", "sweep", "-q", "--on", cluster.place, "-o", "dask", "s.toml"]
                code = subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=False).returncode
        finally:
            is_over.set()
            killer.join()
    kills, starts = killed
    say(f"{done('dask')} units in {time.monotonic() - begun:.0f} s and {runs} runs; {kills} workers killed, {starts} new schedulers")
    say(f"results are those of one thread: {same('dask', 'alone')}")
    return same("dask", "alone")


def seconds(run):
    """How long it takes."""
    begun = time.monotonic()
    run()
    return time.monotonic() - begun


def processor_seconds(cluster):
    """What driver, scheduler and workers have used of the processors: other work on this host does not count."""
    import psutil

    def used(process):
        times = process.cpu_times()
        return times.user + times.system

    def with_children(pid):
        process = psutil.Process(pid)
        return sum(map(used, [process, *process.children(recursive=True)]))

    workers = sum(with_children(worker.pid) for worker in cluster.workers)
    return {"driver": used(psutil.Process()), "scheduler": with_children(cluster.scheduler.pid), "workers": workers}


def measure(pairs):
    """Efficiency from one to two workers, by turns, and the overhead of a unit."""
    import distributed
    import pagewalk
    from cluster import Cluster, write_study
    from turns import by_turns, share_of

    big, small = pathlib.Path("big"), pathlib.Path("small")
    for folder, values, references in ((big, 32, 1_500_000), (small, 100, 100)):
        folder.mkdir()
        write_study(folder, traces=2, values=values, references=references)
    pathlib.Path("cluster").mkdir()
    outputs = iter(range(10**6))

    def sweep(study, **options):
        return pagewalk.sweep(study / "s.toml", output=f"out{next(outputs)}", **options)

    def two_alone():
        # What this host has for two busy processes: each does one of the two traces.
        code = "import pagewalk, sys; pagewalk.sweep(sys.argv[1], traces=sys.argv[2], output=sys.argv[3], threads=1)"
        each = [[str(big / "s.toml"), str(big / f"t{n}.pwt"), f"out{next(outputs)}"] for n in range(2)]
        started = [subprocess.Popen([sys.executable, "-c", code, *words]) for words in each]
        return [process.wait() for process in started]

    with Cluster(pathlib.Path("cluster").resolve()) as cluster:
        cluster.start_worker()
        cluster.start_worker()
        client = distributed.Client(cluster.place.replace("dask", "tcp"), set_as_default=False)
        client.wait_for_workers(2)
        addresses = list(client.scheduler_info()["workers"])

        class Some:
            """Some of the cluster's workers."""

            status = client.status

            def __init__(self, count):
                self.count = count

            def get_executor(self, **options):
                return client.get_executor(workers=addresses[: self.count], **options)

            def processing(self):
                return client.processing()

            def nthreads(self):
                return dict.fromkeys(addresses[: self.count], 1)

            def scatter(self, data, **options):
                return client.scatter(data, workers=addresses[: self.count], **options)

        one = lambda: seconds(lambda: sweep(big, executor=Some(1), job_units=16))
        two = lambda: seconds(lambda: sweep(big, executor=Some(2), job_units=16))
        one(), two()
        ones, twos = by_turns(one, two, pairs)
        alone = [seconds(two_alone) for _ in range(pairs)]
        share = share_of(ones, twos)
        spread = "" if share["low"] is None else f" (90 % interval {0.5 / share['high']:.3f} to {0.5 / share['low']:.3f})"
        say(f"one worker {min(ones):.2f} s, two {min(twos):.2f} s; two processes without an engine {min(alone):.2f} s")
        say(f"efficiency from one to two workers: {0.5 / share['share']:.3f}{spread}; least over least {min(ones) / min(twos) / 2:.3f}")
        say(f"two workers to two processes without an engine: {min(alone) / min(twos):.3f}")
        units = 1000
        there = [seconds(lambda: sweep(small, executor=Some(1))) for _ in range(pairs)]
        here = [seconds(lambda: sweep(small, threads=1)) for _ in range(pairs)]
        say(f"{units} units of no work: {min(there):.2f} s on a worker, {min(here):.2f} s here")
        say(f"overhead of a unit: {1000 * (min(there) - min(here)) / units:.2f} ms beyond one process, {1000 * min(there) / units:.2f} ms in all")
        before = processor_seconds(cluster)
        by_one = [seconds(lambda: sweep(small, executor=Some(1), job_units=1)) for _ in range(2)]
        used = {who: time - before[who] for who, time in processor_seconds(cluster).items()}
        parts = ", ".join(f"{who} {1000 * time / units / 2:.2f}" for who, time in used.items())
        say(f"each unit a job of its own: {1000 * min(by_one) / units:.2f} ms in all; ms of processors: {parts}")
    return True


def main():
    """Runs what was asked for in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prove", "measure"))
    parser.add_argument("--seed", type=int, default=1, help="of the moments of kills")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs")
    given = parser.parse_args()
    say(f"load of this host before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        good = prove(given.seed) if given.what == "prove" else measure(given.pairs)
        os.chdir("/")
    say(f"load of this host after: {os.getloadavg()[0]:.2f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
