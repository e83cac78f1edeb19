"""A Dask cluster on this host: a scheduler and workers, each a process with a folder of its own."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = """schema = 1
name = "s"
traces = [TRACES]
machines = ["k8"]
[vary]
"tlb.l2d.entries" = [128, 256, 512, 1024, 2048]
"walker.caches.pde.entries" = [VALUES]
"""


def write_study(folder: Path, traces: int, values: int, references: int, seen_from: str = "") -> Path:
    """Writes a study of `5 × values` machines over each trace of random references; `seen_from` begins their paths."""
    for number in range(traces):
        draws = random.Random(number)
        pages = [draws.randrange(2000 if draws.random() < 0.6 else 60) for _ in range(references)]
        lines = (f"{'ls'[page % 3 == 0]} {0x7F0000000000 + (page << 12) + page % 500 * 8:#x}\n" for page in pages)
        text = folder / f"t{number}.txt"
        text.write_text("".join(lines))
        words = ["trace", "import", "--format", "addresses", "-o", str(folder / f"t{number}.pwt"), str(text)]
        subprocess.run([sys.executable, "-m", "pagewalk", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    study = folder / "s.toml"
    names = ", ".join(f'"{seen_from}t{number}.pwt"' for number in range(traces))
    study.write_text(STUDY.replace("TRACES", names).replace("VALUES", ", ".join(map(str, range(1, values + 1)))))
    return study


class Cluster:
    """A scheduler that can be restarted, and workers of one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.scheduler = self.start_scheduler()

    @property
    def place(self) -> str:
        """The scheduler, for `--on`."""
        return f"dask://127.0.0.1:{self.port}"

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Starts the scheduler, with nothing that an earlier one knew."""
        words = ["scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self._start(words, [], {})
        return self.scheduler

    def start_worker(self, before: list[str] | None = None, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a worker that ends when it is killed; `before` are words before its command."""
        address = f"tcp://127.0.0.1:{self.port}"
        words = ["worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", "."]
        self.workers.append(self._start(words, before or [], environment))
        return self.workers[-1]

    def _start(self, words: list[str], before: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        folder = tempfile.mkdtemp(dir=self.folder)
        log = open(f"{folder}.log", "wb")  # noqa: SIM115
        code = "import sys; from dask.__main__ import main; main()"
        process = subprocess.Popen(
            [*before, sys.executable, "-c", code, *words],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        return process

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


def wait_for(what: object, seconds: float = 60.0) -> None:
    """Waits until a function returns something true."""
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come in {seconds} s")
        time.sleep(0.02)
