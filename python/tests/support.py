"""What the tests share: the recorded trace, folders of their own, and programs under the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "crates/trace/tests/fixtures/small.pwt"


class InFolder(unittest.TestCase):
    """Tests in a folder of their own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        os.chdir(folder.name)
        self.addCleanup(os.chdir, before)
        self.folder = Path(folder.name)


def python(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs Python as these tests run, with the package where it is here."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


def need_engine() -> None:
    """Skips the test if programs cannot run under the engine here."""
    if shutil.which("valgrind") is None:
        skip("programs", "valgrind is not installed")


def skip(need: str, why: str) -> None:
    """Skips the test, and says so where the project's tests do. `PAGEWALK_REQUIRE` with this need makes it fail."""
    if need in os.environ.get("PAGEWALK_REQUIRE", "").split(","):
        raise AssertionError(f"PAGEWALK_REQUIRE names {need}: {why}")
    if "PAGEWALK_SKIPPED" in os.environ:
        with open(os.environ["PAGEWALK_SKIPPED"], "a", encoding="utf-8") as file:
            file.write(f"python/tests ({need}): {why}\n")
    raise unittest.SkipTest(why)
