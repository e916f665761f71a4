"""Prints steady.json: what statsmodels, ruptures and numpy say of some series.

Made once with Python 3, numpy, statsmodels 0.15.0, ruptures 1.1.10:
    python steady.py > steady.json
"""

import json
import math
import warnings

import numpy as np
import ruptures
from statsmodels.tsa.stattools import kpss

warnings.simplefilter("ignore")
chance = np.random.default_rng(20261121)


def noise(n, sd=1.0):
    return chance.normal(0.0, sd, n)


def ar1(n, phi):
    values = [chance.normal()]
    for _ in range(n - 1):
        values.append(phi * values[-1] + chance.normal())
    return np.array(values)


t = np.arange(60)
CASES = {
    "flat": 100 + noise(60),
    "short": 100 + noise(11),
    "ramp": 100 * (1 - np.exp(-t / 6)) + noise(60),
    "step": np.where(t < 25, 100.0, 90.0) + noise(60),
    "two steps": np.where(t < 15, 100.0, np.where(t < 40, 90.0, 97.0)) + noise(60),
    "trend": 100 + 0.2 * t + noise(60),
    "memory": 100 + ar1(60, 0.7),
    "cycle": 100 + 5 * np.sin(2 * np.pi * t / 12) + noise(60),
}


def mser(z):
    errors = [((z[d:] - z[d:].mean()) ** 2).sum() / (len(z) - d) ** 2 for d in range(len(z) // 2 + 1)]
    return int(np.argmin(errors))


def answers(name, z):
    lags = math.ceil(4 * (len(z) / 100) ** 0.25)
    penalty = 3 * z.var(ddof=1) * math.log(len(z)) / 4
    ends = ruptures.Dynp(model="l2", min_size=2, jump=1).fit(z)
    # The exact optimum over every number of segments: PELT's, whose pruning is inexact with a least length.
    best = None
    for changes in range(0, 15 if len(z) > 20 else 4):
        found = ends.predict(n_bkps=changes) if changes else [len(z)]
        starts = [0] + found[:-1]
        cost = sum(((z[a:b] - z[a:b].mean()) ** 2).sum() for a, b in zip(starts, found)) + penalty * changes
        if best is None or cost < best[0] - 1e-9:
            best = (cost, found[:-1])
    by_pelt = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(z).predict(pen=penalty)[:-1]
    assert by_pelt == best[1], (name, by_pelt, best)
    return {
        "name": name,
        "values": [float(x) for x in z],
        "lags": lags,
        "kpss": float(kpss(z, regression="c", nlags=lags)[0]),
        "mser": mser(z),
        "penalty": float(penalty),
        "changes": [int(c) for c in best[1]],
    }


print(json.dumps([answers(name, values) for name, values in CASES.items()], indent=1))
