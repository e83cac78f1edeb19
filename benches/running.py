"""Runs one command and measures it: time, memory of all its processes, and load by other processes."""

import contextlib
import dataclasses
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SAMPLE_SECONDS = 0.05
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class RunFailed(Exception):
    """A measured command failed."""


def run_main(name, main):
    """Ends this process with what `main` returns, or 4 if a command did not do its work. A signal that ends it before
    ends what it waits for too."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # nohup makes the process ignore one of them.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        sys.exit(main())
    except RunFailed as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(4)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)


def find_program(name):
    """The absolute path of a program, valid in any working folder."""
    return pathlib.Path(os.path.abspath(shutil.which(name) or name))


def can_measure():
    """Whether this kernel lists a process's children, without which memory cannot be summed."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one command. Times cover the command and every process that it waited for."""

    wall_seconds: float
    user_seconds: float
    system_seconds: float
    # Peak of the resident memory of the command's own process, shared memory included.
    root_bytes_peak: int
    # Peak of the sum over processes of private and file memory, shared memory left out: of all, and of all but
    # the command's own.
    tree_bytes_peak: int
    descendants_bytes_peak: int
    # Average number of processors used by the rest of the machine meanwhile.
    foreign_processors: float
    output: bytes = dataclasses.field(repr=False)

    @property
    def cpu_seconds(self):
        return self.user_seconds + self.system_seconds


# Counts loops from the moment given on, for the seconds given.
_COUNTING = """import sys, time
begin, seconds = map(float, sys.argv[1:])
while time.monotonic() < begin:
    pass
loops = 0
while time.monotonic() < begin + seconds:
    loops += 1
print(loops)"""


def processors_worth(seconds=0.2):
    """How much two processes do at once, in what one does alone: 2 where each has a processor. A guest's processors may
    share one of the machine below, which its own accounts of time do not show."""

    def count(processes):
        # Interpreters start meanwhile.
        begin = time.monotonic() + 0.15
        command = [sys.executable, "-I", "-S", "-c", _COUNTING, str(begin), str(seconds)]
        all_of = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
        return sum(int(process.communicate()[0]) for process in all_of)

    return count(2) / max(count(1), 1)


@contextlib.contextmanager
def started(command, *, processor=None, **how):
    """Starts `command`. Whatever breaks off what is done with it ends it and all that it started. `processor`: the only
    one it may use."""
    try:
        # A group of its own, to reach also what a shell started. Not by code between fork and exec: for that, this
        # process's memory would be copied, and the command charged for it.
        with _only_on(processor):
            child = subprocess.Popen(command, start_new_session=True, **how)
    except OSError as error:
        raise RunFailed(f"{command[0]} does not start: {error}") from error
    try:
        yield child
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            # Terminated, not killed, so that pagewalk can end the program that it runs.
            os.killpg(child.pid, signal.SIGTERM)
        child.wait()
        raise


@contextlib.contextmanager
def _only_on(processor):
    """Pins the calling thread, and what it starts, to `processor` if one is given."""
    if processor is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(command, *, stdin=None, environment=None, processor=None, folder=None):
    """Runs `command` to its end, in `folder`. `processor`: the only one it may use."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(stdin or os.devnull, "rb") as source:
        busy = _busy_seconds()
        start = time.perf_counter()
        how = {"stdin": source, "stdout": out, "stderr": err, "env": environment, "cwd": folder}
        with started(command, processor=processor, **how) as child:
            sampler = _Sampler(child.pid)
            sampler.start()
            try:
                _, status, usage = os.wait4(child.pid, 0)
            finally:
                sampler.stop()
        wall = time.perf_counter() - start
        busy = _busy_seconds() - busy
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise RunFailed(f"exit {child.returncode}: {' '.join(command)}\n{_tail(err)}")
        out.seek(0)
        return Run(
            wall_seconds=wall,
            user_seconds=usage.ru_utime,
            system_seconds=usage.ru_stime,
            root_bytes_peak=sampler.root_bytes_peak,
            tree_bytes_peak=sampler.tree_bytes_peak,
            descendants_bytes_peak=sampler.descendants_bytes_peak,
            foreign_processors=max(0.0, (busy - usage.ru_utime - usage.ru_stime) / wall),
            output=out.read(),
        )


def warm(mebibytes):
    """Uses and frees memory, as pagewalk's `--warm` does, so that the next run finds it available."""
    size = int(mebibytes) << 20
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
        memory[:: mmap.PAGESIZE] = bytes(1) * (size // mmap.PAGESIZE)


def _tail(file):
    file.seek(0)
    lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-10:])


def _busy_seconds():
    """Busy seconds of all processors together since the machine started."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


class _Sampler(threading.Thread):
    """Samples the memory of a process and its descendants periodically."""

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root_bytes_peak = 0
        self.tree_bytes_peak = 0
        self.descendants_bytes_peak = 0
        self._root = root
        self._ended = threading.Event()

    def run(self):
        while not self._ended.is_set():
            self._look()
            self._ended.wait(SAMPLE_SECONDS)

    def stop(self):
        self._ended.set()
        self.join()

    def _look(self):
        root = _memory(self._root)
        descendants = sum(_unshared(_memory(pid)) for pid in _descendants(self._root))
        # The kernel records the peak of a single process; the peak of a sum is only known from samples.
        self.root_bytes_peak = max(self.root_bytes_peak, root.get("VmHWM", 0))
        self.tree_bytes_peak = max(self.tree_bytes_peak, _unshared(root) + descendants)
        self.descendants_bytes_peak = max(self.descendants_bytes_peak, descendants)


def _descendants(pid):
    """Process ids of all descendants, without processes that end meanwhile."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        return found
    return found + [below for child in found for below in _descendants(child)]


def _unshared(memory):
    return memory.get("RssAnon", 0) + memory.get("RssFile", 0)


def _memory(pid):
    """The fields of the process's status given in kB, in bytes; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = (line.split() for line in file)
            return {words[0][:-1]: int(words[1]) * 1024 for words in fields if words[-1] == "kB"}
    except OSError:
        return {}
