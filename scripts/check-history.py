"""check-history.py make|compare DIR: the series of scripts/check-history, and what both programs found in them."""

import csv
import json
import logging
import os
import sys

import numpy as np

SEED = int(os.environ.get("SEED", "20261125"))
EACH = 40  # series of each kind
NEAR = 5  # a step counts as found by a change at most this many values away
SIGMA = 3.0  # of a level of 100: a step of 2 sigma is 6 %
# The first five kinds are the 200 series; the last is apart, because a step in noise with a memory is a harder question.
KINDS = ["none", "one step", "two steps", "AR(1) noise", "spikes", "one step in AR(1) 0.5"]


def red(random, n, ar1):
    values = np.empty(n)
    values[0] = random.normal()
    for i in range(1, n):
        values[i] = ar1 * values[i - 1] + np.sqrt(1 - ar1 * ar1) * random.normal()
    return values


def series(random, kind, number):
    """Values and the indices of the true changes."""
    n = int(random.integers(60, 151))
    ar1 = {"AR(1) noise": [0.3, 0.5, 0.7, 0.8][number % 4], "one step in AR(1) 0.5": 0.5}.get(kind, 0.0)
    values, steps = red(random, n, ar1), []
    if "one step" in kind:
        steps = [int(random.integers(20, n - 19))]
        values[steps[0] :] += random.choice([-2, 2])
    if kind == "two steps":
        first = int(random.integers(20, n - 39))
        steps = [first, int(random.integers(first + 20, n - 19))]
        up = random.choice([-2, 2])
        values[first:] += up
        values[steps[1] :] += random.choice([-2, 2])
    if kind == "spikes":
        for at in random.choice(n, 3, replace=False):
            values[at] += random.choice([-1, 1]) * random.uniform(8, 30)
    return 100 + SIGMA * values, steps


def make(folder):
    random = np.random.default_rng(SEED)
    truth = {}
    with open(f"{folder}/series.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "metric", "value"])
        for kind in KINDS:
            for number in range(EACH):
                values, steps = series(random, kind, number)
                name = f"{kind} {number}"
                truth[name] = {"kind": kind, "steps": steps, "values": list(values)}
                rows.writerows([1_700_000_000 + 86_400 * i, name, repr(float(v))] for i, v in enumerate(values))
    json.dump(truth, open(f"{folder}/truth.json", "w"))


def of_otava(values):
    from otava.series import AnalysisOptions, Metric, Series

    logging.disable(logging.CRITICAL)
    times = [1_700_000_000 + 86_400 * i for i in range(len(values))]
    read = Series("t", None, times, {"m": Metric(1, 1.0)}, {"m": list(values)}, {})
    return [change.index for change in read.analyze(AnalysisOptions()).change_points["m"]]


def score(steps, found):
    """Steps that a change is near, and changes that are near no step."""
    left = list(found)
    hits = 0
    for step in steps:
        near = sorted((abs(at - step), at) for at in left if abs(at - step) <= NEAR)
        if near:
            hits += 1
            left.remove(near[0][1])
    return hits, len(left)


def compare(folder):
    truth = json.load(open(f"{folder}/truth.json"))
    ours, drifts, excursions = {}, {}, {kind: 0 for kind in KINDS}
    for one in json.load(open(f"{folder}/found.json"))["series"]:
        places = {point["at"]: i for i, point in enumerate(one["points"])}
        ours[one["metric"]] = [places[change["at"]] for change in one["changes"]]
        # No series has a true drift: each is a false finding.
        drifts[one["metric"]] = len(one["drifts"])
        excursions[truth[one["metric"]]["kind"]] += len(one["excursions"])
    print(f"| series (seed {SEED}) | steps | found by bakeoff | by Otava | false changes a series: bakeoff | Otava |")
    print("|---|---|---|---|---|---|")
    total = np.zeros(5, dtype=int)
    for kind in KINDS:
        sums = np.zeros(5, dtype=int)
        for name, one in truth.items():
            if one["kind"] != kind:
                continue
            a, b = score(one["steps"], ours[name]), score(one["steps"], of_otava(one["values"]))
            sums += [len(one["steps"]), a[0], b[0], a[1] + drifts[name], b[1]]
        if kind != KINDS[-1]:
            total += sums
        print(row(kind, sums, EACH))
        if kind == KINDS[-2]:
            print(row("all five", total, EACH * 5))
    print("Drifts, which count as false changes:", sum(drifts.values()))
    print("Excursions, which are no changes:", ", ".join(f"{kind} {count}" for kind, count in excursions.items()))


def row(kind, sums, n):
    steps, a, b, wrong, others = sums
    share = lambda found: f"{100 * found / steps:.0f} %" if steps else "-"
    return f"| {kind} | {steps} | {share(a)} | {share(b)} | {wrong / n:.3f} | {others / n:.3f} |"


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](sys.argv[2])
