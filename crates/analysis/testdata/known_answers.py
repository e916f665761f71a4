"""Prints known-answers.json: what scipy and statsmodels say of some log ratios.

Made once with Python 3, numpy 2.4.6, scipy 1.17.1, statsmodels 0.15.0:
    python known_answers.py > known-answers.json
"""

import itertools
import json

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

EDGE = np.log1p(0.01)
CASES = {
    "six blocks": [0.031, 0.052, 0.047, 0.029, 0.060, 0.041],
    "across zero": [0.012, -0.008, 0.021, 0.004, -0.015, 0.009, 0.017],
    "one wild block": [0.11, 0.12, 0.09, 0.10, 0.13, 0.08, 0.10, 0.11, 0.12, 0.09, 0.10, -0.6],
    "two blocks": [0.2, 0.3],
}


def answers(name, values):
    d = np.array(values)
    n = len(d)
    test = stats.ttest_1samp(d, 0)
    signs = np.array(list(itertools.product([1, -1], repeat=n)))
    p_sign_flip = np.mean(np.abs((signs * d).sum(1)) >= abs(d.sum()) - 1e-12)
    if n > 2:  # scipy's own count of the same ways, as a check of ours
        by_scipy = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
        assert abs(by_scipy.pvalue - p_sign_flip) < 1e-12
    over = abs(d.mean()) - EDGE
    p_beyond = 2 * stats.t.sf(over / (d.std(ddof=1) / np.sqrt(n)), n - 1) if over > 0 else 1.0
    walsh = [(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)]
    return {
        "name": name,
        "log_ratios": values,
        "p": float(test.pvalue),
        "interval_95": [float(x) for x in test.confidence_interval(0.95)],
        "interval_90": [float(x) for x in test.confidence_interval(0.90)],
        "p_beyond_1_percent": float(p_beyond),
        "p_sign_flip": float(p_sign_flip),
        "hodges_lehmann": float(np.median(walsh)),
    }


cases = [answers(name, values) for name, values in CASES.items()]
adjusted = multipletests([c["p"] for c in cases], method="holm")[1]
for case, p in zip(cases, adjusted):
    case["p_adjusted"] = float(p)
print(json.dumps(cases, indent=1))
