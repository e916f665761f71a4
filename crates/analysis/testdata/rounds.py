"""Prints the number of rounds that src/commands/design.rs must compute from a pilot, by scipy's distributions.

Made once with Python 3, numpy 2.2.0, scipy 1.17.1; the output is in src/commands/tests.rs.
"""
import math

import numpy as np
from scipy import integrate, stats


def within(n, level, mean, edge):
    df, root, t = n - 1, math.sqrt(n), stats.t.isf(level, n - 1)

    def density(s):
        reach = edge * root - t * s
        if reach <= 0:
            return 0
        inside = stats.norm.cdf(reach - mean * root) - stats.norm.cdf(-reach - mean * root)
        return inside * 2 * df * s * stats.chi2.pdf(df * s * s, df)

    return integrate.quad(density, 0, min(edge * root / t, 1 + 9 / math.sqrt(df)), epsabs=1e-12, limit=300)[0]


def needed(log_ratios, fit, alpha=0.05, rope=0.01):
    d, edge = np.array(log_ratios), math.log1p(rope)
    df = len(d) - 1
    sd = d.std(ddof=1) * math.sqrt(df / stats.chi2.ppf(0.1, df))
    reach = stats.t.isf(0.1, df) * d.std(ddof=1) / math.sqrt(len(d))

    def enough(mean, n):
        half = stats.t.isf(alpha / 2, n - 1) * sd / math.sqrt(n)
        if mean > edge:
            power = stats.nct.sf(stats.t.isf(alpha / 2, n - 1), n - 1, (mean - edge) / sd * math.sqrt(n))
        else:
            power = within(n, alpha / 2, mean / sd, edge / sd)
        return power >= 0.9 and half <= max(edge, 0.1 * mean)

    means = [abs(d.mean() + side * reach) for side in (-1, 0, 1)]
    return [next((n for n in range(13, fit) if enough(mean, n)), fit) for mean in means]


print(needed([0.05, 0.02, 0.08, -0.01, 0.06, 0.03, 0.09, 0.04], 2000))
print(needed([-math.log(1 + 0.01 * (i % 3)) for i in range(8)], 300))
