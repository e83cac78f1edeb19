"""The same stream on several machines, and on one with a larger TLB."""

import sys

import pagewalk

zen4 = pagewalk.Machine("zen4")
larger = zen4.vary({"tlb.l2d.entries": 6144}, name="zen4_doubled")
results = pagewalk.Experiment([zen4, larger, "golden_cove"], sys.argv[1]).run()
for name, metrics in results.machines.items():
    print(f"{name:<14} {metrics.walks:>8} walks")
