"""Runs a program in two ways alternately, and estimates the ratio of their run times."""

import itertools
import math
import statistics
import time

# Pairs of runs are repeated up to so many times as often as asked for, as long as no more time than this has passed,
# until the interval of what they say is narrower than this.
MORE_PAIRS, LONG_ENOUGH_SECONDS, SURE = 4, 90, 0.02


def by_turns(one, other, pairs):
    """Run times of two ways of running, in pairs of alternating order, repeated until the interval is narrow."""
    ones, others, begun = [], [], time.monotonic()
    for done in itertools.count(1):
        for run, taken in ((one, ones), (other, others))[:: 1 if done % 2 else -1]:
            taken.append(run())
        share = share_of(ones, others)
        is_sure = share["low"] is not None and share["high"] - share["low"] <= SURE
        is_late = done >= MORE_PAIRS * pairs or time.monotonic() - begun > LONG_ENOUGH_SECONDS
        if done >= pairs and (is_sure or is_late):
            return ones, others


def share_of(now, planned):
    """What the second run of a pair takes to what the first takes, with the 90 % interval (unknown of fewer than five):
    Hodges and Lehmann's estimate of the ratio's logarithm, and Wilcoxon's signed ranks, as `pagewalk advise` and
    `verify` have them (pagewalk_forecast::interval::ratio)."""
    ratios = [math.log(new / old) for old, new in zip(now, planned)]
    means = sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(ratios, 2))
    # By sum: the number of subsets of the ranks with this sum.
    ways = [1] + [0] * len(means)
    for rank in range(1, len(ratios) + 1):
        for total in range(len(means), rank - 1, -1):
            ways[total] += ways[total - rank]
    outside = sum(below <= 0.05 * 2 ** len(ratios) for below in itertools.accumulate(ways)) - 1
    low, high = (math.exp(means[outside]), math.exp(means[-1 - outside])) if outside >= 0 else (None, None)
    return {"share": math.exp(statistics.median(means)), "low": low, "high": high}
