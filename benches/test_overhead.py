"""Tests of the evaluation of measurements in benches/overhead."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import running
import turns

FOLDER = pathlib.Path(__file__).parent
# The file is a program without the suffix `.py`, so it cannot be imported as a module.
_loader = importlib.machinery.SourceFileLoader("overhead", str(FOLDER / "overhead"))
overhead = importlib.util.module_from_spec(importlib.util.spec_from_loader("overhead", _loader))
_loader.exec_module(overhead)


class Overhead(unittest.TestCase):
    def launcher(self, ratio):
        seconds = [1.0] * 5
        planned = [ratio] * 5
        wall = {"without": [2.0], "with": [2.25]}
        return overhead.launcher_check(
            "p", {"without": seconds, "with": planned, "ratio": turns.share_of(seconds, planned), "wall": wall}
        )

    def test_the_launcher_may_take_a_twentieth(self):
        text, name, _, is_reached = self.launcher(1.049)
        self.assertTrue(is_reached)
        self.assertIn("1.049 of it (1.049 to 1.049, 5 pairs); 250.0 ms more", text)
        self.assertEqual(name, "launcher, p: +4.9%")
        self.assertFalse(self.launcher(1.051)[-1])
        self.assertTrue(self.launcher(0.9)[-1])

    def promote(self, sampling, kernel, promotions):
        own = {"sampling": sampling, "kernel_thread": kernel, "promotions": promotions}
        return overhead.promote_check(
            {"own_processor_seconds": own, "processor_seconds": 10.0, "sampler": "damon", "promotions": 3}
        )

    def test_promote_may_take_a_hundredth_with_the_kernels_thread_and_without_promotions(self):
        self.assertTrue(self.promote(0.05, 0.049, 1.0)[-1])
        self.assertFalse(self.promote(0.05, 0.051, 0.0)[-1])
        self.assertIn("0.99% of it for sampling, 1000 ms for 3 promotions", self.promote(0.05, 0.049, 1.0)[0])

    def test_the_plan_has_as_many_ranges_as_it_says_and_none_that_the_program_has(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = overhead.write_plan(pathlib.Path(folder)).read_text().splitlines()
        sizes = [int(line.split('"')[1], 16) for line in lines if line.startswith("bytes")]
        self.assertEqual(len(set(sizes)), overhead.RANGES)
        self.assertGreater(min(sizes), 16 * 4096)

    def test_a_run_that_fails_says_so_and_ends_it(self):
        err = io.StringIO()
        with (
            unittest.mock.patch.object(sys, "argv", ["overhead"]),
            unittest.mock.patch.dict(os.environ, {"PAGEWALK_BINARY": "false"}),
            contextlib.redirect_stderr(err),
            self.assertRaises(SystemExit) as ended,
        ):
            running.run_main("overhead", overhead.main)
        self.assertEqual(ended.exception.code, 4)
        self.assertRegex(err.getvalue(), "overhead: exit 1: /.*/false apply ")


if __name__ == "__main__":
    unittest.main()
