"""The compiled half of pagewalk."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, final

__version__: str

class PagewalkError(Exception):
    """Why pagewalk could not do something, and what to do next."""

class FailedError(PagewalkError):
    """The work failed."""

class UsageError(PagewalkError):
    """What was asked for is wrong."""

class BadInputError(PagewalkError):
    """An input file is wrong."""

class HostCannotError(PagewalkError):
    """This host cannot do it."""

class NotInEffectError(PagewalkError):
    """A plan had no effect."""

    result: Any
    """What ran or was measured nevertheless: an `AppliedPlan` or a `Verification`; None if there is nothing."""

class PagewalkWarning(UserWarning):
    """Something that users of a result must know."""

@final
class Machine:
    """A machine: its TLBs, walker and caches."""

    def __new__(cls, source: str | os.PathLike[str] | None = None, /, **keys: Any) -> Self:
        """A machine.

        Args:
            source: A name from `Machine.names()`, `"host"`, the path of a machine file (with `/` or
                ending in `.toml`), or the text of one. Without source and keys, the host's.
            keys: Or the keys of a machine file: `name="m", tlb=[{"name": "l1", …}], …`.
        """

    @staticmethod
    def names() -> list[str]:
        """The names of the library's machines."""

    @property
    def name(self) -> str:
        """Its name, by which results name it."""

    @property
    def toml(self) -> str:
        """The text of its file."""

    @property
    def description(self) -> dict[str, Any]:
        """Its structure as data, as results hold it."""

    def vary(self, changes: Mapping[str, Any] | None = None, /, **keys: Any) -> Machine:
        """The machine with some keys changed, such as `{"tlb.stlb.entries": 4096}` or `tlb__stlb__entries=4096`.

        A list of named tables is entered by a name. Without a new `name`, its name lists the changes.
        """

    def __eq__(self, other: object, /) -> bool: ...

@final
class Column:
    """One column of a batch, which NumPy (`numpy.asarray`) and Arrow see without copying."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class Batch:
    """References of a trace, in program order: columns of equal length, which nobody copies.

    `pyarrow.record_batch(batch)` and `polars.DataFrame(batch)` share its memory.
    """

    index: Column
    """Number of data references of the stream before this one (uint64)."""
    address: Column
    """The first byte referenced (uint64)."""
    kind: Column
    """What it does: `pagewalk.KINDS[kind]` (uint8)."""
    size: Column
    """Bytes moved (uint16)."""
    block: Column
    """The block of code that made it, by number of first appearance (uint32)."""
    thread: Column
    """The thread (uint32)."""
    instruction: Column
    """Instructions of the stream before the block that made it: the stream's time (uint64)."""

    @property
    def columns(self) -> list[str]:
        """The columns' names."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> Column: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class Batches:
    """An iterator over a trace's batches; as a stream of Arrow: `pyarrow.table(trace.batches())`."""

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Events:
    """An iterator over a trace's events, each a dict with `event` (its name) and `at`."""

    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __next__(self) -> dict[str, Any]: ...

@final
class Trace:
    """A recorded stream of one process image: a `.pwt` file."""

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def __fspath__(self) -> str: ...
    @property
    def path(self) -> Path:
        """The file."""

    @staticmethod
    def convert(
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        output: str | os.PathLike[str],
        format: str | None = None,
    ) -> Trace:
        """Converts other tools' files, or a folder of them, to a trace, as `pagewalk trace import` does.

        Args:
            files: The file, or the files or folder of one experiment.
            output: The trace to write.
            format: Their format; None: recognised from their beginnings.
        """

    def export(self, format: str, path: str | os.PathLike[str]) -> None:
        """Writes the trace in another tool's format, as `pagewalk trace export` does.

        A name that ends in `.gz`, `.zst` or `.xz` packs the file. What the format cannot say is warned of.
        """

    @property
    def info(self) -> dict[str, Any]:
        """What the trace holds: its program and host, and how many references, blocks and events."""

    def check(self) -> dict[str, Any]:
        """Checks the stream's rules: `rules_broken`, `findings`, `whole`, `losses`."""

    def events(self) -> Events:
        """The rare events, such as `map`, `syscall` and `switch`; `at` counts the data references before one."""

    def blocks(self) -> Batch:
        """The blocks of code by number: columns `block`, `address`, `bytes`, `instructions`, `references`.

        Reads the whole trace; `references` are those of one execution.
        """

    def batches(
        self,
        rows: int = 65_536,
        *,
        from_marker: int | None = None,
        to_marker: int | None = None,
        skip: int = 0,
        max_instructions: int | None = None,
    ) -> Batches:
        """The data references in batches of at least `rows`, but the last; of a region of interest."""

@final
class StudyJobs:
    """The jobs of a study that are not done, until they are gathered."""

    def __new__(cls, study: str | None, traces: list[str], output: str | None, /) -> Self: ...
    def split(self, most: int, /) -> None: ...
    def __len__(self) -> int: ...
    def about(self, number: int, /) -> tuple[str, int]: ...
    def parcel(self, number: int, /) -> str: ...
    def trace(self, hash: str, /) -> Path | None: ...
    def keep(self, number: int, worker: str, units: dict[str, bytes], /) -> None: ...
    def tell(self, text: str, /) -> None: ...
    def finish(self) -> tuple[Document, Path]: ...
    def close(self) -> None: ...

@final
class Document:
    def json(self) -> str: ...
    def text(self, verbose: bool = False, width: int = 100) -> str: ...
    def html(self) -> str | None: ...

def main(words: list[str], /) -> int: ...
def read_result(text: str, /) -> Document: ...
def metric(name: str, /) -> tuple[str, str, str]: ...
def record(settings: Mapping[str, Any], /) -> tuple[dict[str, Any], int | None]: ...
def check(settings: Mapping[str, Any], /) -> None: ...
def simulate(settings: Mapping[str, Any], /) -> tuple[Document, bool, int | None]: ...
def sweep(
    study: str | None, traces: list[str], output: str | None, threads: int | None, /
) -> tuple[Document, Path]: ...
def scheduler_of(place: str, /) -> str | None: ...
def run_job(parcel: str, held: dict[str, str], threads: int, /) -> tuple[dict[str, bytes], list[str]]: ...
def check_study(document: Document, /) -> None: ...
def advise(settings: Mapping[str, Any], /) -> tuple[Document, str | None, str | None]: ...
def advise_process(
    pid: int, watch: float, budget: int | None, probe: str | None, /
) -> tuple[Document, str | None, str | None]: ...
def probe_host(cpu: int | None, quick: bool, machine: Machine | None, /) -> tuple[Document, str]: ...
def saved_probe() -> Path: ...
def outline_plan(path: Path, program: str | None, /) -> Document: ...
def apply_plan(path: Path, command: list[str], keep_others: bool, release: bool, /) -> tuple[Document, str | None]: ...
def verify_plan(settings: Mapping[str, Any], /) -> tuple[Document, bool, str | None]: ...
