"""Virtual-memory performance of programs: record, simulate, forecast, measure.

A program runs under an engine that follows every memory reference (`record`, or `Experiment` with a
command). Machines are simulated over its stream (`Experiment`, `sweep`). `advise` says what huge
pages would save, `plan` applies and measures that, `probe` measures this host.

Errors are `PagewalkError`; its subclasses say whose fault it is. Warnings are `PagewalkWarning`.
What is merely good to know goes to the logger `pagewalk`, at level INFO.
"""

from pagewalk._pagewalk import (
    BadInputError,
    Batch,
    Batches,
    Column,
    Events,
    FailedError,
    HostCannotError,
    Machine,
    NotInEffectError,
    PagewalkError,
    PagewalkWarning,
    Trace,
    UsageError,
    __version__,
)
from pagewalk.experiment import Experiment
from pagewalk.host import Advice, HostProbe, advise, probe
from pagewalk.metrics import Metrics
from pagewalk.plans import AppliedPlan, Plan, Verification, plan
from pagewalk.recording import Recording, record
from pagewalk.registry import MetricInfo, metric
from pagewalk.results import Results
from pagewalk.study import StudyResults, sweep

KINDS = ("fetch", "load", "store", "modify")
"""Kinds of references, by their codes in the column `kind` of a batch."""

__all__ = [
    "KINDS",
    "Advice",
    "AppliedPlan",
    "BadInputError",
    "Batch",
    "Batches",
    "Column",
    "Events",
    "Experiment",
    "FailedError",
    "HostCannotError",
    "HostProbe",
    "Machine",
    "MetricInfo",
    "Metrics",
    "NotInEffectError",
    "PagewalkError",
    "PagewalkWarning",
    "Plan",
    "Recording",
    "Results",
    "StudyResults",
    "Trace",
    "UsageError",
    "Verification",
    "__version__",
    "advise",
    "metric",
    "plan",
    "probe",
    "record",
    "sweep",
]
