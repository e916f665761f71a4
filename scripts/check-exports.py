"""Reads every export by the tools that people read them with, and compares the numbers. Called by check-exports."""

import collections
import json
import math
import pathlib
import re
import sys

import duckdb
import pandas
from prometheus_client.openmetrics import parser

work = pathlib.Path(sys.argv[1])
runs = json.loads((work / "runs.json").read_text())["runs"]
failures = []


def check(what, ok):
    if not ok:
        failures.append(what)


def same(a, b):
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300) or (math.isnan(a) and math.isnan(b))


def plain(name):
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return "_" + name if name[:1].isdigit() else name


def pairs(text, may_have_commas=False):
    """`a=1,b=2` as a dict; values of whole runs may have commas, and any other text that is no list of pairs is one label."""
    if not text:
        return {}
    parts = re.split(",(?=[a-z_][a-z0-9_]*=)", text) if may_have_commas else text.split(",")
    if all("=" in part for part in parts):
        return dict(part.split("=", 1) for part in parts)
    return {"labels": text}


def expected(row, start_ms):
    """The OpenMetrics sample of a row of the CSV: family and labels, value, and time."""
    own = ("run", "kind", "run_state", "block", "bakeoff", "host", "copy_of_row")
    labels = {plain(name): value for name, value in pairs(row["labels"], row["t_ms"] == "").items()}
    labels = {"sample_" + name if name in own else name: value for name, value in labels.items()}
    value = float(row["value"])
    if labels.get("stat") == "count":
        family = "bakeoff_" + plain(row["name"].removesuffix("_ns")) + "_samples"
    else:
        family = "bakeoff_" + plain(row["name"])
        for suffix, unit, factor in (("_ns", "_seconds", 1e-9), ("_us_per_event", "_seconds_per_event", 1e-6),
                                     ("_per_s", "_per_second", 1.0), ("_s", "_seconds", 1.0)):
            if family.endswith(suffix):
                family, value = family.removesuffix(suffix) + unit, value * factor
                break
    labels |= {"level_" + plain(name): level for name, level in pairs(row["levels"]).items()}
    labels |= {name: row[name] for name in ("block", "bakeoff") if row[name] != ""}
    if row["t_ms"] != "" and row["host"]:
        labels["host"] = row["host"]
    labels |= {"run": row["run"], "kind": row["kind"], "run_state": row["state"]}
    ms = start_ms[row["run"]] + (int(row["t_ms"]) if row["t_ms"] != "" else 0)
    return (family, frozenset(labels.items()), ms), value


def differing(csv, samples, start_ms):
    """Samples of the OpenMetrics text that are not a row of the CSV, in name, labels, time and value, or the reverse."""
    rows, found = collections.defaultdict(list), collections.defaultdict(list)
    for row in csv.astype(str).to_dict("records"):
        key, value = expected(row, start_ms)
        rows[key].append(value)
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != "copy_of_row"}
        key = (sample.name, frozenset(labels.items()), round(float(sample.timestamp) * 1e3))
        found[key].append(sample.value)
    wrong = [key for key in rows.keys() | found.keys() if len(rows[key]) != len(found[key])
             or not all(same(a, b) for a, b in zip(sorted(rows[key]), sorted(found[key])))]
    return wrong


for entry in runs:
    run, kind = entry["run"], entry["kind"]
    csv = pandas.read_csv(work / f"{run}.csv", keep_default_na=False)
    table = duckdb.sql(
        f"select * from '{work / run}.parquet'").df()
    by_sql = duckdb.sql(f"select name, labels, value from read_csv('{work / run}.csv', all_varchar=true)").fetchall()
    document = json.loads((work / f"{run}.json").read_text())
    families = list(parser.text_string_to_metric_families((work / f"{run}.openmetrics").read_text()))
    samples = [sample for family in families for sample in family.samples]

    check(f"{kind}: the CSV has no rows", len(csv) > 0)
    check(f"{kind}: CSV has {len(csv)} rows, Parquet {len(table)}", len(csv) == len(table))
    check(f"{kind}: CSV has {len(csv)} rows, DuckDB reads {len(by_sql)}", len(csv) == len(by_sql))
    check(f"{kind}: CSV has {len(csv)} rows, OpenMetrics {len(samples)} samples", len(csv) == len(samples))
    measured = [a["measured"] for a in document.get("attempts", []) if a["measured"]] or [document]
    start_ms = {m["run"]["run"]: m["run"]["started"]["unix_ns"] // 1_000_000 for m in measured}
    wrong = differing(csv, samples, start_ms)
    check(f"{kind}: {len(wrong)} OpenMetrics samples are not the CSV's rows: {wrong[:2]}", not wrong)
    for column in ("state", "name", "labels"):
        check(f"{kind}: {column} differ", list(csv[column].astype(str)) == list(table[column].astype(str)))
    check(f"{kind}: values differ", all(same(float(a), float(b)) for a, b in zip(csv["value"], table["value"])))
    check(f"{kind}: values by SQL differ", all(same(float(a), float(b[2])) for a, b in zip(csv["value"], by_sql)))

    # The series of the JSON export are rows of the table, each with its value.
    wanted = collections.Counter(
        (s["name"], s["labels"], s["t_ms"], float(s["value"])) for m in measured if "series" in m for s in m["series"])
    found = collections.Counter(
        (row.name_, row.labels, int(row.t_ms), float(row.value))
        for row in csv.rename(columns={"name": "name_"}).itertuples() if row.t_ms != "")
    missing = wanted - found
    check(f"{kind}: {sum(missing.values())} samples are not in the CSV: {list(missing)[:2]}", not missing)

    show = json.loads((work / f"{run}.show").read_text())
    value = lambda name, labels="": next(
        (float(v) for n, l, v in zip(csv["name"], csv["labels"], csv["value"]) if n == name and l == labels), None)
    if kind == "load":
        check("load: achieved_per_s", value("achieved_per_s") == show["achieved_per_s"])
        response = show["response_ns"]
        for stat in ("p50", "p90", "p95", "p99", "mean", "max"):
            # A busy machine ends with events in flight, or makes the generator late: then it is a bound, in the export too.
            bound = "lower" if stat in response["lower_bounds"] else "upper" if stat in response.get("upper_bounds", []) else None
            labels = f"stat={stat}" + (f",bound={bound}" if bound else "")
            found, shown = value("response_ns", labels), response[stat]
            check(f"load: {labels} {found}, shown {shown}", found == shown)
    if kind == "record":
        check("record: events", abs(value("recorded_by_events_ns") * 1e-9 - show["cpu_by_events_s"]) < 1e-9
              if show["cpu_by_events_s"] is not None else value("recorded_by_events_ns") is None)
    if kind == "import":
        for shown in show["series"]:
            rows = csv[(csv["name"] == shown["name"]) & (csv["labels"] == shown["labels"])]
            values = rows["value"].astype(float)
            same_mean = math.isclose(values.mean(), shown["mean"], rel_tol=1e-9, abs_tol=1e-12)
            ends = (values.min(), values.max()) == (shown["min"], shown["max"])
            check(f"import: {shown['name']}", same_mean and ends and len(values) == shown["count"])
    if kind == "prove":
        for proof in show["proofs"]:
            if proof["found"] is not None:
                found = csv[csv["name"] == "proof_found"]["value"].astype(float)
                check(f"prove: {proof['workload']} {proof['found']}", any(same(v, proof["found"]) for v in found))
    if kind == "dder":
        for cell in show["cells"]:
            for point in cell["points"][:50]:
                rows = csv[(csv["name"] == "call_ns") & (csv["labels"] == f"size={point['size_bytes']}")
                           & csv["levels"].str.contains(f"how={cell['how']}")]
                check(f"dder: {cell['how']} {point['size_bytes']} bytes: {len(rows)} rows, n {point['n']}",
                      len(rows) == point["n"])
    if kind == "bakeoff":
        rates = csv[csv["name"] == "achieved_per_s"]
        of = lambda arm, block: float(
            rates[(rates["levels"] == f"journal_mode={arm}") & (rates["block"].astype(str) == block)]["value"].iloc[0])
        for pair in show["comparisons"]:
            check("bakeoff: no block", bool(pair["block_ratios"]))
            for block, ratio in pair["block_ratios"].items():
                found = of(pair["a"], block) / of(pair["b"], block)
                check(f"bakeoff: block {block}: {found}, shown {ratio}", math.isclose(found, ratio, rel_tol=1e-9))
    if kind == "scale":
        levels_compared = 0
        for level in show["levels"]:
            if level["work_per_s"] is None:
                # Every round of it is INVALID, as the export must say too.
                states = set(csv[csv["levels"] == f"copies={level['copies']}"]["state"])
                check(f"scale: {level['copies']} copies are {states}", states <= {"invalid"})
                continue
            levels_compared += 1
            rows = csv[(csv["name"] == "work_per_s") & (csv["levels"] == f"copies={level['copies']}")
                       & (csv["state"] == "sealed")]
            sums = rows.groupby("run")["value"].sum()
            mean = math.exp(sum(math.log(v) for v in sums) / len(sums))
            check(f"scale: {level['copies']} copies", math.isclose(mean, level["work_per_s"], rel_tol=1e-9))
        if levels_compared == 0:
            print(f"NOT COMPARED: no level of the scale run {run} is valid")
    print(f"{kind:8} {run}: {len(csv)} rows, {len(families)} families")

kinds = {entry["kind"] for entry in runs}
check(f"only these kinds: {sorted(kinds)}", {"load", "record", "scale", "dder", "prove", "import", "bakeoff"} <= kinds)
for failure in failures:
    print(f"FAILED {failure}")
sys.exit(1 if failures else 0)
