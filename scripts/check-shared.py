"""Reads the store of a shared archive with DuckDB and chDB, and compares percentiles with `runs show`. Called by check-shared."""
import json
import pathlib
import re
import sys

import duckdb

work, page = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
queries = re.findall(r"```sql\n(.*?)```", page.read_text(), re.S)
NAMES = ["p50", "p90", "p99", "p99_9", "p99_99"]
documents = [json.loads(path.read_text()) for path in sorted(work.glob("*.show"))]
failures, compared = [], dict.fromkeys(NAMES, 0)


def compare(engine, rows):
    """Compares rows of run, kind and percentiles with the documents of `runs show`."""
    found = {(row[0], row[1]): row[2:] for row in rows}
    for document in documents:
        for kind in ["response", "service", "wait", "lateness"]:
            shown = document[f"{kind}_ns"]
            if shown is None:
                continue
            for name, low in zip(NAMES, found[document["run"], kind]):
                value = shown[name]
                if value is None:  # Too few values.
                    continue
                compared[name] += 1
                # `runs show` has the upper end of the bucket, whose width is at most 0.1 % of its lowest value.
                if not low <= value <= low + low // 1000:
                    failures.append(f"{engine}, {document['run']}, {kind}, {name}: {low}, shown {value}")


def query_of(marker):
    return next(query for query in queries if marker in query).replace("/srv/lab", str(work / "store"))


compare("DuckDB " + duckdb.__version__, duckdb.sql(query_of("regexp_extract(filename")).fetchall())
engines = ["DuckDB " + duckdb.__version__]
try:
    import chdb
except ImportError:
    print("skipped: chDB is not installed")
else:
    answer = str(chdb.query(query_of("quantilesExactWeighted"), "JSONCompact"))
    compare("chDB", [[run, kind, *map(int, values)] for run, kind, values in json.loads(answer)["data"]])
    engines.append("chDB " + chdb.__version__)
print(f"percentiles of {len(documents)} runs compared: {compared}  by {', '.join(engines)}; {len(failures)} differ")
print("\n".join(failures))
sys.exit(bool(failures) or 0 in compared.values())
