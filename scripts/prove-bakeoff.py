"""Reads the documents of `scripts/prove-bakeoff`: false verdicts, and metrics that are neither judged nor refused."""

import collections
import json
import pathlib
import sys

BLOCKS = 6
# Of 16 families at 5 %, more than 3 false ones have a probability of less than 1 %.
FALSE_MAX = 3


def main(folder: pathlib.Path) -> int:
    false_families, broken = [], []
    metrics = collections.Counter()
    for path in sorted(folder.glob("*.run"), key=lambda path: int(path.stem)):
        run = json.loads(path.read_text())
        check = json.loads(path.with_suffix(".check").read_text())
        seed, title = path.stem, run["title"]
        verdicts = collections.Counter(c["verdict"] for c in run["comparisons"])
        if verdicts["better"] + verdicts["worse"]:
            false_families.append(seed)
        fallen = sum(arm["invalid"] + arm["failed"] for arm in run["fallen_out"])
        for metric in check["metrics"]:
            name, judged = metric["metric"], metric["judged"]
            found = [c["n"] for c in run["comparisons"] if c["metric"] == name]
            left = [out["reason"] for out in run["not_judged"] if out["metric"] == name]
            if found and min(found) == BLOCKS:
                metrics[title, name, "judged on all blocks"] += 1
            elif found and fallen:
                # A trial that was INVALID is named on the page, and its pair claims nothing.
                metrics[title, name, "trials fell out, named"] += 1
            elif judged != "yes" and not found and left:
                metrics[title, name, "refused by plan check" if judged == "no" else "left out, as plan check warned"] += 1
            else:
                broken.append(f"seed {seed}: {name}: plan check says {judged}, blocks {found}, {left}")
        said = ", ".join(f"{verdict} x {count}" for verdict, count in sorted(verdicts.items()))
        print(f"seed {seed}: {title}: {said or 'nothing is judged'}; {run['cells']['sealed']} of {run['cells']['planned']} trials sealed")
    for (title, name, how), count in sorted(metrics.items()):
        print(f"{title}: {name}: {how} in {count}")
    runs = len(list(folder.glob("*.run")))
    print(f"{runs} A/A bake-offs: {len(false_families)} with a false verdict {false_families}; "
          f"{len(broken)} metrics neither judged on all blocks nor refused")
    print("\n".join(broken))
    if any("fell out" in how for _, _, how in metrics):
        print("trials fell out: this machine was not quiet, and the counts above say less")
    return int(len(false_families) > FALSE_MAX or bool(broken))


sys.exit(main(pathlib.Path(sys.argv[1])))
