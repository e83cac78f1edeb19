"""Experiments over traces, and their results."""

import json
import pickle
import threading
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

from support import TRACE, InFolder, python

import pagewalk
from pagewalk import Experiment


class Experiments(InFolder):
    def test_figures_are_those_of_the_command(self) -> None:
        results = Experiment(["zen4", "k8"], TRACE, kernels=["asap"], what_if=True).run()
        words = ["-m", "zen4", "-m", "k8", "--os", "asap", "--what-if"]
        said = python("-m", "pagewalk", "simulate", "--json", *words, str(TRACE))
        theirs, ours = json.loads(said.stdout), dict(results.data)
        theirs.pop("tool"), ours.pop("tool")
        self.assertEqual(ours, theirs)

    def test_metrics_are_attributes_and_items(self) -> None:
        results = Experiment("zen4", TRACE).run()
        metrics = results["zen4"]
        self.assertEqual(results.walks, metrics.walks)
        self.assertEqual(metrics.tlb.l1d.misses, metrics["tlb.l1d.misses"])
        self.assertEqual(metrics.tlb["l1d.misses"], metrics["tlb.l1d.misses"])
        self.assertEqual(dict(metrics), results.data["machines"][0]["metrics"])
        self.assertIn("tlb", dir(metrics))
        self.assertEqual((results.cut, results.status, list(results)), (False, None, ["zen4"]))

    def test_a_misspelt_metric_is_answered_with_the_closest(self) -> None:
        results = Experiment("zen4", TRACE).run()
        with self.assertRaisesRegex(AttributeError, "did you mean `walks`"):
            results.walk
        with self.assertRaisesRegex(AttributeError, "this machine has no `range_walks`"):
            results.range_walks
        with self.assertRaises(AttributeError):
            results.metrics.tlb.nonesuch

    def test_every_metric_of_a_result_has_a_meaning(self) -> None:
        for name in Experiment(["zen4", "k8"], TRACE).run().metrics:
            self.assertTrue(pagewalk.metric(name).meaning, name)
        self.assertEqual(pagewalk.metric("walk_cycles").unit, "cycles")
        with self.assertRaisesRegex(pagewalk.UsageError, "did you mean `walks`"):
            pagewalk.metric("walk")

    def test_settings_that_do_not_go_together_are_refused_before_the_work(self) -> None:
        experiment = Experiment(["zen4", "k8"], TRACE, by_traps=64)
        with self.assertRaisesRegex(pagewalk.UsageError, "software-managed"):
            experiment.check()
        for wrong in ({"thp": "sometimes"}, {"kernels": "asaap"}, {"switch_at": ["reed"]}, {"global_files": True}):
            with self.assertRaises(pagewalk.UsageError, msg=str(wrong)):
                Experiment("zen4", TRACE, **wrong).check()  # type: ignore[arg-type]
        with self.assertRaises(pagewalk.UsageError):
            Experiment(["zen4", "zen4"], TRACE).run()
        with self.assertRaises(pagewalk.BadInputError):
            Experiment("zen4", "no/such.pwt").run()
        with self.assertRaises(pagewalk.UsageError):
            Experiment("zen4").run()
        with self.assertRaises(TypeError):
            Experiment("zen4", command="/bin/ls /")

    def test_errors_are_those_of_the_command(self) -> None:
        with self.assertRaises(pagewalk.PagewalkError) as raised:
            Experiment("zen4", TRACE, kernels="asaap").run()
        said = python("-m", "pagewalk", "simulate", "-m", "zen4", "--os", "asaap", str(TRACE))
        self.assertEqual(said.returncode, 2)
        self.assertEqual(said.stderr, f"pagewalk: {raised.exception}\n")

    def test_a_cut_trace_warns_and_what_could_be_read_counts(self) -> None:
        whole = TRACE.read_bytes()
        Path("cut.pwt").write_bytes(whole[: len(whole) * 2 // 3])
        with self.assertWarnsRegex(pagewalk.PagewalkWarning, "cut.pwt"):
            results = Experiment("zen4", "cut.pwt").run()
        self.assertTrue(results.cut)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(pagewalk.PagewalkWarning):
                Experiment("zen4", "cut.pwt").run()

    def test_traces_take_turns(self) -> None:
        results = Experiment("zen4", [TRACE, TRACE], quantum=50).run()
        self.assertEqual(len(results.processes), 1)
        self.assertGreater(results.switches, 0)

    def test_other_threads_go_on_meanwhile(self) -> None:
        ticks: list[float] = []
        stop = threading.Event()

        def tick() -> None:
            while not stop.wait(0.001):
                ticks.append(time.monotonic())

        beside = threading.Thread(target=tick)
        beside.start()
        begun = time.monotonic()
        for _ in range(5):
            Experiment(["zen4", "k8", "golden_cove"], TRACE, what_if=True).run()
        took = time.monotonic() - begun
        stop.set()
        beside.join()
        self.assertGreater(len(ticks), took / 0.001 / 20)

    def test_experiments_and_results_go_to_other_processes(self) -> None:
        results = pickle.loads(pickle.dumps(Experiment("zen4", TRACE))).run()
        copy = pickle.loads(pickle.dumps(results))
        self.assertEqual((copy.data, copy.cut, copy.status), (results.data, False, None))
        self.assertEqual(copy.walks, results.walks)


class Renderings(InFolder):
    @classmethod
    def setUpClass(cls) -> None:
        cls.results = Experiment("zen4", TRACE, kernels=["asap"], what_if=True).run()

    def test_json_is_read_again_and_renders_alike(self) -> None:
        self.results.to_json("result.json")
        again = pagewalk.Results.read("result.json")
        self.assertEqual(again.to_json(), self.results.to_json())
        self.assertEqual(again.to_html(), self.results.to_html())
        self.assertEqual(again.text(), str(self.results))

    def test_the_page_is_that_of_the_command(self) -> None:
        page = self.results.to_html("report.html")
        self.assertEqual(Path("report.html").read_text(), page)
        self.results.to_json("result.json")
        python("-m", "pagewalk", "report", "-o", "theirs.html", "result.json")
        self.assertEqual(Path("theirs.html").read_text(), page)

    def test_a_notebook_shows_the_page_in_a_frame(self) -> None:
        import html

        shown = self.results._repr_html_()
        self.assertTrue(shown.startswith("<iframe srcdoc="))
        self.assertEqual(html.unescape(shown.split('srcdoc="')[1].split('" style')[0]), self.results.to_html())

    def test_show_prints_where_there_is_no_notebook(self) -> None:
        with mock.patch("builtins.print") as printed:
            self.results.show()
        printed.assert_called_once_with(self.results.text())

    def test_show_gives_a_terminals_ipython_the_text_and_a_notebook_the_page(self) -> None:
        shown = mock.Mock()
        modules = {"IPython": mock.Mock(), "IPython.display": mock.Mock(display=shown)}
        with mock.patch.dict("sys.modules", modules), mock.patch("builtins.get_ipython", create=True):
            self.results.show()
        (forms,), options = shown.call_args
        self.assertEqual(options, {"raw": True})
        self.assertEqual(forms["text/plain"], self.results.text())
        self.assertIn("<iframe", forms["text/html"])

    def test_a_frame_has_a_row_for_each_machine_under_each_kernel(self) -> None:
        frame = self.results.frame()
        self.assertEqual(frame["kernel"].to_list(), ["host", "asap"])
        self.assertEqual(frame["walks"].to_list()[0], self.results.walks)

    def test_without_polars_the_error_says_what_to_install(self) -> None:
        with mock.patch.dict("sys.modules", {"polars": None}), self.assertRaisesRegex(ImportError, r"pagewalk\[frames\]"):
            self.results.frame()

    def test_an_unreadable_result_is_a_bad_input(self) -> None:
        Path("bad.json").write_text('{"schema": "nothing/1"}')
        with self.assertRaises(pagewalk.BadInputError):
            pagewalk.Results.read("bad.json")


if __name__ == "__main__":
    unittest.main()
