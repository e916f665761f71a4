"""Reads the documents of `scripts/prove-bakeoff` and judges them strictly.

Exit code 0: each of the 16 A/A bake-offs is whole, each metric that its plan names is judged on all blocks or was refused by
`plan check`, and at most 2 families have a false verdict. 1: anything else; each reason is printed.
"""

import collections
import json
import pathlib
import sys
import tomllib

RUNS = 16
# Of 16 families at 5 %, more than 2 false ones have a probability of 4 %.
FALSE_MAX = 2


def broken(path: pathlib.Path, metrics: collections.Counter) -> list[str]:
    """What is wrong with one bake-off; counts what became of its metrics."""
    run, check = (json.loads(path.with_suffix(suffix).read_text()) for suffix in (".run", ".check"))
    plan = tomllib.loads(path.with_suffix(".toml").read_text())
    blocks, named = plan["design"]["blocks"], plan["judge"]["metrics"]
    trials = blocks * len(plan["factors"]["name"]["values"])
    wrong = []
    code, cells = int(path.with_suffix(".code").read_text()), run["cells"]
    if code != 0 or cells["sealed"] != cells["planned"] or cells["planned"] != trials:
        wrong.append(f"it is not whole: exit code {code}, {cells}; this machine was not quiet, or the tool is wrong")
    if run["fallen_out"] and any(arm["invalid"] + arm["failed"] for arm in run["fallen_out"]):
        wrong.append(f"trials fell out: {run['fallen_out']}")
    if [metric["metric"] for metric in check["metrics"]] != named:
        wrong.append(f"plan check names {check['metrics']}, the plan {named}")
    judged_at_all = 0
    for metric in check["metrics"]:
        name, promised, why = metric["metric"], metric["judged"], metric["reason"]
        found = [c["n"] for c in run["comparisons"] if c["metric"] == name]
        left = [out["reason"] for out in run["not_judged"] if out["metric"] == name]
        judged_at_all += len(found)
        on_all_blocks = found == [blocks] and not left
        # `plan check` has said what it takes, and the run says that it was not there.
        as_warned = promised not in ("yes", "no") and why and not found and left and all(why in reason for reason in left)
        if on_all_blocks and promised != "no":
            how = "judged on all blocks"
        elif promised == "no" and why and not found and left:
            how = "refused by plan check"
        elif as_warned:
            how = "left out for the reason that plan check named"
        else:
            wrong.append(f"{name}: plan check says {promised} ({why}); blocks {found}, left out for {left}")
            continue
        metrics[run["title"], name, how] += 1
    others = [c["metric"] for c in run["comparisons"] if c["metric"] not in named]
    if others or judged_at_all != len(run["comparisons"]):
        wrong.append(f"comparisons of metrics that the plan does not name: {others}")
    if judged_at_all == 0:
        wrong.append("nothing is judged: such a bake-off proves nothing")
    return wrong


def main(folder: pathlib.Path) -> int:
    paths = sorted(folder.glob("*.run"), key=lambda path: int(path.stem))
    metrics, false_families, all_broken = collections.Counter(), [], []
    for path in paths:
        run = json.loads(path.read_text())
        verdicts = collections.Counter(c["verdict"] for c in run["comparisons"])
        if set(verdicts) - {"better", "worse", "equivalent", "inconclusive"}:
            all_broken.append(f"seed {path.stem}: unknown verdicts {verdicts}")
        if verdicts["better"] + verdicts["worse"]:
            false_families.append(path.stem)
        all_broken += [f"seed {path.stem}: {what}" for what in broken(path, metrics)]
        said = ", ".join(f"{verdict} x {count}" for verdict, count in sorted(verdicts.items()))
        cells = run["cells"]
        print(f"seed {path.stem}: {run['title']}: {said or 'nothing is judged'}; {cells['sealed']} of {cells['planned']} trials sealed")
    for (title, name, how), count in sorted(metrics.items()):
        print(f"{title}: {name}: {how} in {count}")
    if len(paths) != RUNS:
        all_broken.append(f"{len(paths)} bake-offs, expected {RUNS}")
    if len(false_families) > FALSE_MAX:
        all_broken.append(f"{len(false_families)} families have a false verdict, at most {FALSE_MAX} may")
    print(f"{len(paths)} A/A bake-offs: seeds with a false verdict: {', '.join(false_families) or 'none'}; {len(all_broken)} problems")
    print("\n".join(all_broken))
    return int(bool(all_broken))


sys.exit(main(pathlib.Path(sys.argv[1])))
