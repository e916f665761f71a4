"""Copies of a run, and the time of requests to `bakeoff serve`. See scripts/bench-serve."""
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import sys
import time
import urllib.parse

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LIMIT_MS = 200.0


def ulid(unix_ms, chance):
    number = unix_ms << 80 | chance.getrandbits(80)
    return "".join(LETTERS[number >> 5 * i & 31] for i in reversed(range(26)))


def make(archive, runs):
    chance = random.Random(20261125)
    source = next((pathlib.Path(archive) / "runs").glob("0*"))
    manifest = json.loads((source / "manifest.json").read_text())
    now_ms = time.time_ns() // 1_000_000
    for n in range(runs - 1):
        at_ms = now_ms - (n + 1) * 600_000
        manifest["run"] = ulid(at_ms, chance)
        manifest["started"]["unix_ns"] = at_ms * 1_000_000
        manifest["title"] = f"load {n}: {chance.choice(['buffer pool', 'allocator', 'journal', 'kernel'])}"
        manifest["labels"] = {"commit": f"{chance.getrandbits(40):010x}", "host": f"db{n % 9}", "arm": chance.choice("abcd")}
        manifest["state"], manifest["reason"] = ("sealed", None) if n % 11 else ("invalid", "lateness: too late")
        folder = source.parent / manifest["run"]
        folder.mkdir()
        for file in source.iterdir():
            if not file.name.startswith("manifest"):
                shutil.copyfile(file, folder / file.name)
        text = json.dumps(manifest)
        (folder / "manifest.json").write_text(text)
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        (folder / "manifest.sha256").write_text(f"{sha256}  manifest.json\n")


def ask(url, requests, pid):
    address = urllib.parse.urlsplit(url).netloc
    connection = http.client.HTTPConnection(address)
    chance = random.Random(7)

    def get(path):
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 429:
            time.sleep(1)
            return get(path)
        assert answer.status == 200, (path, answer.status, body[:200])
        return body

    first = json.loads(get("/api/v1/runs?limit=1000"))
    ids = [run["run"] for run in first["runs"]]
    print(f"{first['found']} runs")
    kinds = {
        "list": lambda: f"/runs?page={chance.randrange(1, 400)}",
        "filter": lambda: f"/runs?state=invalid&label=host%3Ddb{chance.randrange(9)}&since=2026-01-01",
        "search": lambda: f"/runs?text={chance.choice(['buffer', 'alloc', 'journal 1', 'db3 kernel', 'nothing'])}",
        "compare 2": lambda: f"/compare?runs={','.join(chance.sample(ids, 2))}",
        "compare 8": lambda: f"/compare?runs={','.join(chance.sample(ids, 8))}",
        "API list": lambda: f"/api/v1/runs?limit=100&from={chance.randrange(19000)}",
        "home": lambda: "/",
    }
    slow = []
    print(f"{'request':10}  {'p50 ms':>8}  {'p99 ms':>8}  {'max ms':>8}   of {requests}")
    for name, path in kinds.items():
        took = []
        for _ in range(requests):
            time.sleep(0.021)  # below the limit of requests a second
            place = path()
            began = time.perf_counter()
            get(place)
            took.append((time.perf_counter() - began) * 1e3)
        took.sort()
        p50, p99 = took[len(took) // 2], took[min(len(took) - 1, int(len(took) * 0.99))]
        print(f"{name:10}  {p50:8.1f}  {p99:8.1f}  {took[-1]:8.1f}")
        if p99 > LIMIT_MS:
            slow.append(name)
    memory = [line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")]
    print("resident:", memory[0].split(None, 1)[1].strip())
    if slow:
        sys.exit(f"p99 above {LIMIT_MS:.0f} ms: {', '.join(slow)}")


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]))
else:
    ask(sys.argv[2], int(sys.argv[3]), sys.argv[4])
