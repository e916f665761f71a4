"""Copies of a run, and the time of requests to `bakeoff serve`. See scripts/bench-serve."""
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

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
        manifest["environment"]["facts"]["host.name"] = f"machine{n % 5}"
        manifest["load"]["settings"]["target"] = chance.choice(["null:", "mysql://app@db/bench", "redis://db:6379"])
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
        "machine": lambda: f"/runs?machine=machine{chance.randrange(5)}",
        "target": lambda: f"/runs?target={chance.choice(['mysql', 'redis', 'nothing'])}",
        "factor": lambda: f"/runs?factor=rate%3D{chance.choice([200, 400, 800])}",
        "verdict": lambda: f"/runs?verdict={chance.choice(['better', 'worse', 'equivalent', 'inconclusive'])}",
        "search": lambda: f"/runs?text={chance.choice(['buffer', 'alloc', 'journal+1', 'db3+kernel', 'nothing'])}",
        "compare 2": lambda: f"/compare?runs={','.join(chance.sample(ids, 2))}",
        "compare 8": lambda: f"/compare?runs={','.join(chance.sample(ids, 8))}",
        "API list": lambda: f"/api/v1/runs?limit=100&from={chance.randrange(19000)}",
        "home": lambda: "/",
        "history": lambda: "/history",
    }
    slow = []
    print(f"{'request':10}  {'p50 ms':>8}  {'p99 ms':>8}  {'max ms':>8}   of {requests}")
    for name, path in kinds.items():
        if name == "history":
            # The first one after a change of the archive reads the newest 1,000 runs.
            began = time.perf_counter()
            get(path())
            print(f"{'first of':10}  {(time.perf_counter() - began) * 1e3:8.1f}")
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


class Viewers:
    """Readers of the monitor's stream, each a connection of its own, and a page each before."""

    def __init__(self, url, count):
        self.ended = threading.Event()
        self.events = [0] * count
        self.threads = [threading.Thread(target=self.view, args=(url, n), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def view(self, url, n):
        # Real viewers sit at other machines: only the server's work is to be seen. This thread gets idle priority: a nice one
        # keeps the CPU until the end of its slice.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        address = urllib.parse.urlsplit(url).netloc
        page = http.client.HTTPConnection(address)
        page.request("GET", "/")
        page.getresponse().read()
        page.close()
        # Without a change of what is shown, the stream is silent for 15 s.
        stream = http.client.HTTPConnection(address, timeout=20)
        stream.request("GET", "/events")
        answer = stream.getresponse()
        assert answer.status == 200, answer.status
        while not self.ended.is_set():
            self.events[n] += answer.fp.readline().startswith(b"event: now")
        stream.close()

    def end(self):
        # A thread that still reads ends with the next event, 15 s later at most. Until then the server counts its viewer.
        self.ended.set()
        for thread in self.threads:
            thread.join()


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def viewers(url, pid, bakeoff, rounds, seconds):
    """Lateness of a load at 1,000/s without and with 10 viewers, in turns whose order changes."""
    found = {0: [], 10: []}
    used = {0: [], 10: []}
    for turn in range(rounds):
        for count in (0, 10) if turn % 2 == 0 else (10, 0):
            watched = Viewers(url, count)
            time.sleep(1)
            before = cpu_s(pid)
            load = subprocess.run(
                [bakeoff, "load", "null:", "--rate", "1000", "--threads", "2", "--time", f"{seconds}s", "--json"],
                capture_output=True, text=True,
            )
            used[count].append((cpu_s(pid) - before) / seconds)
            watched.end()
            # A viewer that sees nothing costs nothing.
            if count and min(watched.events) < seconds / 2:
                sys.exit(f"a viewer got only {min(watched.events)} events in {seconds} s")
            document = json.loads(load.stdout)
            late = document["lateness_ns"]
            found[count].append(late["p99"])
            print(f"{count:3} viewers: lateness p50 {late['p50'] / 1e3:7.1f} us  p99 {late['p99'] / 1e3:7.1f} us  max "
                  f"{late['max'] / 1e3:8.1f} us  server {used[count][-1] * 100:.2f} % of a CPU  {document['verdict']['state']}"
                  f"  {sum(watched.events)} events shown", flush=True)
    middle = {count: statistics.median(values) for count, values in found.items()}
    ratios = [b / a for a, b in zip(found[0], found[10])]
    print(f"p99 lateness, median: {middle[0] / 1e3:.1f} us without, {middle[10] / 1e3:.1f} us with 10 viewers: "
          f"{(middle[10] / middle[0] - 1) * 100:+.1f} % (turns: {min(ratios):.2f} to {max(ratios):.2f})")
    same = [b / a for a, b in zip(found[0], found[0][1:])]
    if same:
        print(f"turns without viewers against the next one: {min(same):.2f} to {max(same):.2f}; less than that is not told apart")
    print(f"server: {statistics.median(used[0]) * 100:.2f} % of a CPU without, {statistics.median(used[10]) * 100:.2f} % with")


def scraped(url):
    """Waits until Prometheus has a value of each family."""
    families = [
        "bakeoff_queue_entries", "bakeoff_runs", "bakeoff_running", "bakeoff_load_done_per_second",
        "bakeoff_load_latency_p99_seconds", "bakeoff_cpu_busy_ratio", "bakeoff_run_queue_wait_seconds_per_second",
        "bakeoff_io_requests_per_second", "bakeoff_lock_spin_ratio", "bakeoff_nic_bytes_per_second",
        "bakeoff_memory_available_bytes",
    ]
    missing = families
    for _ in range(40):
        time.sleep(0.5)
        missing = [name for name in families if not query(url, name)]
        if not missing:
            break
    for name in families:
        samples = query(url, name)
        print(f"{name:45} {len(samples):3} samples" + (f", such as {samples[0]['value'][1]}" if samples else ""))
    up = query(url, "up")
    print("up:", [sample["value"][1] for sample in up])
    if missing:
        sys.exit(f"Prometheus has no value of {', '.join(missing)}")


def query(url, name):
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?query={name}", timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return []


what, *rest = sys.argv[1:]
if what == "make":
    make(rest[0], int(rest[1]))
elif what == "ask":
    ask(rest[0], int(rest[1]), rest[2])
elif what == "viewers":
    viewers(rest[0], rest[1], rest[2], int(rest[3]), int(rest[4]))
else:
    scraped(rest[0])
