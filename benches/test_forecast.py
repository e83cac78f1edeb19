"""Tests of the evaluation of measurements in benches/forecast."""

import contextlib
import importlib.machinery
import importlib.util
import io
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest
import unittest.mock

import turns

FOLDER = pathlib.Path(__file__).parent
# The file is a program without the suffix `.py`, so it cannot be imported as a module.
_loader = importlib.machinery.SourceFileLoader("forecast", str(FOLDER / "forecast"))
forecast = importlib.util.module_from_spec(importlib.util.spec_from_loader("forecast", _loader))
_loader.exec_module(forecast)


def a_share(share, half=0.05):
    known = half is not None
    return {"share": share, "low": share - half if known else None, "high": share + half if known else None}


def a_forecast(share=0.8, measured_share=0.8, naive_share=0.4, half=0.05, measured_half=0.0, now=10.0, before=10.0):
    return {
        "name": "p", "share": a_share(share, half), "measured_share": a_share(measured_share, measured_half),
        "naive_share": naive_share, "now": now, "before": before, "measured": measured_share * now,
        "forecast": {"seconds": share * before}, "all_now": [now],
    }


class Forecasts(unittest.TestCase):
    def verdicts(self, rows, failed=()):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = forecast.summary(rows, failed)
        verdicts = [line.split()[0] for line in out.getvalue().splitlines() if line.startswith("  ")]
        return code, [verdict for verdict in verdicts if verdict in ("ok", "MISS")]

    def test_errors_are_shares_of_what_was_measured(self):
        row = a_forecast(measured_share=1.0)
        self.assertAlmostEqual(forecast.error(row), 0.2)
        self.assertAlmostEqual(forecast.error(row, row["naive_share"]), 0.6)

    def test_a_host_that_changes_is_no_error_but_is_told(self):
        row = a_forecast(now=12.5, before=10.0)
        self.assertAlmostEqual(forecast.error(row), 0)
        self.assertAlmostEqual(forecast.stale_error(row), 0.2)
        self.assertAlmostEqual(forecast.drift(row), 0.25)

    def test_an_interval_holds_its_ends_and_an_unknown_one_nothing(self):
        for measured, held in ((0.74, False), (0.76, True), (0.84, True), (0.86, False)):
            self.assertEqual(forecast.held(a_forecast(measured_share=measured)), held)
        self.assertFalse(forecast.held(a_forecast(measured_half=None)))

    def test_what_is_measured_has_an_interval_too(self):
        # Errors of at most 0.05 and 0.12 combine to 0.13.
        for measured, held in ((0.66, False), (0.68, True), (0.92, True), (0.94, False)):
            self.assertEqual(forecast.held(a_forecast(measured_share=measured, measured_half=0.12)), held)
        # A gain without an interval is no forecast.
        self.assertTrue(forecast.held(a_forecast(share=1.0, half=0.0, measured_share=1.02, measured_half=0.03)))
        self.assertFalse(forecast.held(a_forecast(share=1.0, half=0.0, measured_share=1.02, measured_half=0.01)))

    def test_each_line_has_its_verdict(self):
        self.assertEqual(self.verdicts([a_forecast()]), (0, ["ok"] * 5))
        # Of three programs, the median meets its target, the worst does not, and one interval does not hold.
        rows = [a_forecast(), a_forecast(), a_forecast(measured_share=0.9)]
        self.assertEqual(self.verdicts(rows), (1, ["ok", "MISS", "MISS", "ok", "ok"]))
        lost = a_forecast(share=0.97, measured_share=1.01)
        self.assertEqual(self.verdicts([lost])[1], ["MISS", "ok", "ok", "MISS", "ok"])
        self.assertEqual(self.verdicts([a_forecast()], ["q"])[1][-1], "MISS")
        self.assertEqual((self.verdicts([])[0], self.verdicts([], ["q"])[0]), (4, 1))

    def test_shares_have_wilcoxons_interval(self):
        def of(*ratios):
            found = turns.share_of([2.0] * len(ratios), [2 * ratio for ratio in ratios])
            return found["share"], found["low"], found["high"]

        self.assertEqual(of(0.5, 0.52, 0.51, 0.49)[1:], (None, None))
        share, low, high = of(0.5, 0.52, 0.51, 0.49, 2.0)
        self.assertTrue(0.5 < share < 0.53)
        self.assertAlmostEqual(low, 0.49)
        self.assertAlmostEqual(high, 2.0)
        # Hollander and Wolfe, table A.4: of ten, 10 of the 55 means are outside on each side.
        share, low, high = of(*(math.exp(k) for k in range(10)))
        self.assertAlmostEqual(math.log(share), 4.5)
        self.assertAlmostEqual(math.log(low), sorted((a + b) / 2 for a in range(10) for b in range(a, 10))[10])
        self.assertAlmostEqual(math.log(low) + math.log(high), 9)

    def turns(self, ratio, pairs=5):
        """The runs in order; in the nth pair the second way takes ratio(n) of the time of the first."""
        order = []

        def run(name):
            order.append(name)
            return 1.0 if name == "one" else ratio(order.count("other"))

        ones, others = turns.by_turns(lambda: run("one"), lambda: run("other"), pairs)
        self.assertEqual((len(ones), len(others)), (order.count("one"), order.count("other")))
        return order

    def test_pairs_begin_with_either_until_what_they_say_is_known(self):
        order = self.turns(lambda pair: 0.7)
        self.assertEqual(order, ["one", "other", "other", "one"] * 2 + ["one", "other"])
        chance = random.Random(1)
        unsure = self.turns(lambda pair: chance.uniform(0.5, 1))
        self.assertEqual(len(unsure), 2 * 5 * turns.MORE_PAIRS)

    def test_programs_that_take_long_run_no_more_pairs_than_asked_for(self):
        with unittest.mock.patch.object(turns, "LONG_ENOUGH_SECONDS", -1):
            self.assertEqual(len(self.turns(lambda pair: 0.7 if pair % 2 else 0.9)), 10)

    def refused(self, **variables):
        """The message if nothing can be forecast (exit code 4)."""
        with (
            tempfile.NamedTemporaryFile() as huge,
            unittest.mock.patch.object(forecast, "THP", pathlib.Path(huge.name)),
            unittest.mock.patch.object(sys, "argv", ["forecast"]),
            unittest.mock.patch.dict(os.environ, variables),
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            self.assertEqual(forecast.main(), 4)
        return err.getvalue()

    def test_an_old_python_is_told_so(self):
        with unittest.mock.patch.object(forecast, "tomllib", None):
            self.assertIn("Python 3.11 or newer is needed; this is 3.", self.refused())

    @unittest.skipUnless(forecast.tomllib, "Python before 3.11")
    def test_a_probe_that_fails_is_told_so(self):
        said = self.refused(PAGEWALK_BINARY="./no-such")
        self.assertIn(f"could not be probed: {os.getcwd()}/no-such does not start: ", said)
        said = self.refused(PAGEWALK_BINARY="false")
        self.assertRegex(said, "could not be probed: exit 1: /.*/false probe -q -o ")

    @unittest.skipUnless(forecast.tomllib, "Python before 3.11")
    def test_every_program_of_the_list_can_be_run(self):
        programs = forecast.tomllib.loads((FOLDER / "forecast.toml").read_text())["program"]
        self.assertGreaterEqual(len(programs), 16)
        for program in programs:
            self.assertLessEqual(set(program), {"name", "command", "prepare", "needs"})


if __name__ == "__main__":
    unittest.main()
