"""Runs the test cases of sysbench's repository (files of commands and their expected output) against bakeoff.

A program named `sysbench`, written here, translates each command line into one of ours. The report, the banner and the log
lines of sysbench's program are not compared: they are its program's, not a script's. What a script prints is compared line by
line, in order, with the expected patterns.
"""

import fnmatch
import os
import re
import subprocess
import sys

# Files about sysbench's built-in tests and its own program, with the reason why they do not apply.
OTHER = {
    r"test_(cpu|fileio|memory|mutex|threads)": "built-in test without a script",
    r"opt_(version|luajit_cmd|report_checkpoints|histogram|help|warmup_time)|help_drv_.*|drivers|1st|cmd_help|commands|tests":
        "options and help of sysbench's own program",
    r"opt_rate|opt_report_interval|drv_.*": "report of sysbench's own program",
}
# Lines that no script prints.
CHROME = [
    r"sysbench .*", r"Running the test with following options:.*", r"Number of threads: .*", r"Target transaction rate:.*",
    r"Report intermediate results.*", r"Initializing random number generator.*", r"Initializing worker threads.*",
    r"Threads started!", r"(FATAL|ALERT|WARNING|DEBUG): .*", r"LINE 1: .*", r" +\^", r"\(last message repeated .*",
    # A server's description of a table, which MariaDB, MySQL and versions of PostgreSQL write differently.
    r"\*+ 1\. row \*+", r"sbtest\d+", r"CREATE TABLE `.*", r"  `.*", r"  PRIMARY KEY.*", r"  (UNIQUE )?KEY .*", r"\) (/\*.*)?ENGINE=.*",
    r"(/\*!50100 )?.*PARTITION.*", r"ERROR .*at line .*", r" +Table \"public.*", r" *Column.*\|.*", r"[-+]+", r" (id|k|c|pad) +\|.*",
    r"SHOW CREATE TABLE .*", r"Indexes:", r" (CREATE|create) (UNIQUE )?INDEX.*", r"\(\d+ rows\)", r"ERROR: +relation.*", r"Did not find any relation.*",
]
# Differences that are meant: lines, and the reason.
MEANT = {
    r"sysbench\.rand\.special": "`special` of sysbench 1.0, which 1.1 removed",
    r"connection creation failed": "a load on a server that cannot be reached does not begin",
}
SHIM = r'''
import os, re, subprocess, sys, tempfile, traceback
def broken(*error):
    traceback.print_exception(*error)
    sys.stderr.flush()
    os._exit(70)
sys.excepthook = broken
words = sys.argv[1:]
general = {"threads": "1", "events": "0", "time": "10"}
ours, target, positional, given = [], None, [], []
driver, host = "", ""
passes = ("rand-", "mysql-ignore-errors", "percentile", "db-ps-mode", "db-debug", "verbosity")
silent = ("mysql-", "pgsql-", "report-checkpoints", "histogram", "debug", "validate", "thread-", "config-file", "forced-")
for word in words:
    if not word.startswith("--"):
        positional.append(word)
        continue
    name, _, value = word[2:].partition("=")
    if name in ("threads", "events", "time", "rate", "report-interval", "warmup-time"):
        general[name] = value
    elif name == "db-driver":
        driver = value
    elif name in ("mysql-host", "pgsql-host"):
        host = value
    elif name.startswith(passes):
        ours.append(word)
    elif name in ("help", "version", "luajit-cmd"):
        print("not applicable: --" + name)
        sys.exit(80)
    elif not name.startswith(silent):
        ours.append(word)
        given.append(word)
if not positional or positional[0] == "-":
    if len(positional) > 1:
        print("not applicable: a script on standard input, which is not run there")
        sys.exit(80)
    path = os.path.join(tempfile.mkdtemp(), "stdin.lua")
    open(path, "w").write(sys.stdin.read())
    positional = [path]
script, command = positional[0], (positional[1:] or [None])[0]
if len(positional) > 2:
    print("Unrecognized command line argument: " + positional[2])
    sys.exit(2)
if script in ("cpu", "fileio", "memory", "mutex", "threads"):
    print("not applicable: built-in test")
    sys.exit(80)
if not os.path.exists(script):
    found = None
    for form in os.environ.get("LUA_PATH", "").split(";") + ["/usr/share/sysbench/?.lua"]:
        path = form.replace("?", script)
        if form and os.path.isfile(path):
            found = path
            break
    script = found or script
if not script.endswith(".lua") and os.path.exists(script):
    link = os.path.join(tempfile.mkdtemp(), os.path.basename(script) + ".lua")
    os.symlink(os.path.abspath(script), link)
    script = link
target = os.environ.get("CHECK_PGSQL" if driver == "pgsql" else "CHECK_MYSQL") or "null:"
if host == "non-existing":
    target = re.sub(r"(://[^@]*@)[^/]*(/[^?]*).*", r"\1non-existing\2", target)
bakeoff = os.environ["BAKEOFF"]
if command == "run" and any(word.startswith("--reconnect=") for word in words):
    # A line of sysbench's report that a test looks for, from the same count.
    path = os.path.join(tempfile.mkdtemp(), "reconnects.lua")
    with open(path, "w") as file:
        file.write(f"dofile('{script}')\nfunction sysbench.hooks.report_cumulative(stat)\n  print(string.format('    reconnects:                          %-6d "
                   "(%.2f per sec.)', stat.reconnects, stat.reconnects / stat.time_total))\nend\n")
    script = path
# Lines of our own program: its messages, the table of intervals, the result of a load.
OURS = (r"bakeoff( load| script)?: |error: | +time offered/s | *[0-9.]+m?s +(-|[0-9.,]+) +[0-9.,]+ +[0-9]+ "
        r"|[0-9]+ of [0-9]+ connected| (done|offered|response|service|client|errors|outage|statements) |(VALID|INVALID): "
        r"| +first error: ")
if command == "run":
    line = [bakeoff, "load", target, "--script", script, "--no-archive", "--observe", "none", "--warmup", "0",
            "--prepare", "never", "--threads", general["threads"]]
    if general["events"] != "0":
        line += ["--events", general["events"]]
    else:
        line += ["--time", general["time"] + "s"]
    if general.get("report-interval", "0") != "0":
        line += ["--interval", general["report-interval"] + "s"]
    if general.get("rate", "0") != "0":
        line += ["--rate", general["rate"]]
else:
    line = [bakeoff, "script", script] + ([command] if command else []) + [target, "--threads", general["threads"]]
done = subprocess.run(line + ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
# An interval's row may stand behind a line that the script has begun.
shown = re.sub(r" *\b[0-9.]+m?s +(-|[0-9.,]+) +[0-9.,]+ +[0-9]+ +[^\n]*\n", "", done.stdout)
sys.stdout.write("".join(line for line in shown.splitlines(True) if not re.match(OURS, line)))
if host == "non-existing" and done.returncode == 2 and "cannot resolve the host" in done.stdout:
    sys.exit(0)
if done.returncode < 0:
    print(f"bakeoff was ended by signal {-done.returncode}")
code = done.returncode if done.returncode >= 0 else 128 - done.returncode
sys.exit({0: 0, 3: 0, 1: 70}.get(code, code))
'''


def cases(path):
    """The commands of a file: text, and expected lines."""
    command, expected, found = None, [], []
    for line in open(path, errors="replace").read().split("\n"):
        if line.startswith("  $ "):
            if command is not None:
                found.append((command, expected))
            command, expected = line[4:] + "\n", []
        elif line.startswith("  > ") and command is not None and not expected:
            command += line[4:] + "\n"
        elif line == "  >" and command is not None and not expected:
            command += "\n"
        elif line.startswith("  ") and command is not None:
            expected.append(line[2:])
    if command is not None:
        found.append((command, expected))
    return found


def is_chrome(line):
    return not line.strip() or any(re.fullmatch(form, line.rstrip()) for form in CHROME)


def without_report(lines):
    """Lines without the report at the end of a run of sysbench."""
    kept, skips = [], False
    for line in lines:
        if re.match(r"(Throughput|General statistics|SQL statistics|CPU speed):", line.strip()) and not line.startswith(" "):
            skips = True
        if skips:
            if line.strip().startswith("execution time (avg"):
                skips = False
            continue
        kept.append(line)
    return kept


def fits(form, line):
    line = line.rstrip()
    if form.endswith(" (re)"):
        return re.fullmatch(form[:-5].rstrip(), line) is not None
    if form.endswith(" (esc)"):
        return form[:-6].encode().decode("unicode_escape").rstrip() == line
    if form.endswith(" (glob)"):
        form = form[:-7].rstrip()
        return fnmatch.fnmatchcase(line, form.replace("[", "[[]"))
    return form.rstrip() == line


def session(path, environment, folder):
    """Runs the commands of a file in one shell; yields command, expected, found, status."""
    mark = "##check-sysbench##"
    found = cases(path)
    # The line break ends a line that the command has begun.
    text = "".join(command + f'\nprintf "\\n{mark} $?\\n"\n' for command, _ in found)
    done = subprocess.run(["bash"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
                          env=environment, errors="replace", timeout=900)
    outputs, lines = [], []
    for line in done.stdout.split("\n"):
        if line.startswith(mark):
            outputs.append((lines[:-1] if lines and not lines[-1] else lines, int(line.split()[1])))
            lines = []
        else:
            lines.append(line)
    for (command, expected), (printed, status) in zip(found, outputs):
        yield command, expected, printed, status
    # `set -e` of an included file ends the shell with its first command that fails. The commands after it do not run.
    status = done.returncode
    for command, expected in found[len(outputs):]:
        yield command, expected, lines, status
        lines, status = [], None


def judge(command, expected, found, status):
    status_line = re.fullmatch(r"\[(\d+)\]", expected[-1]) if expected else None
    wanted = int(status_line.group(1)) if status_line else 0
    expected = expected[:-1] if status_line else expected
    if "--help" in command or "--unknown" in command:
        return "n/a", "help of sysbench's own program", []
    if status is None:
        return "failed", "not run", ["- not run: the shell had ended"]
    if any(line.startswith("not applicable:") for line in found) or wanted == 80:
        reason = next((line for line in found if line.startswith("not applicable:")), "not applicable: skipped there too")
        return "n/a", reason.split(": ", 1)[1], []
    expected = [line for line in without_report(expected) if not is_chrome(line)]
    own = [line for line in without_report(found) if not is_chrome(line) and not line.startswith("  ")
           or any(fits(form, line) for form in expected)]
    meant = {form: why for form in expected for pattern, why in MEANT.items() if re.match(pattern, form)}
    own = [line for line in own if not any(re.match(pattern, line) for pattern in MEANT)]
    expected = [form for form in expected if form not in meant]
    differ, at = [], 0
    for form in expected:
        here = next((i for i in range(at, len(own)) if fits(form, own[i])), None)
        if here is None:
            differ.append("- " + form)
        else:
            differ += ["+ " + line for line in own[at:here]]
            at = here + 1
    differ += ["+ " + line for line in own[at:]]
    # Ours for a wrong command line or script, and for an error of the server or the script. Others are crashes.
    if wanted != 0 and status in (2, 5):
        # A message of sysbench's program about an error: ours has other words, and the same outcome.
        differ = [line for line in differ if not re.match(r"- (FATAL|invalid option|Unknown command|'.*' test does not|The '.*' test)", line)]
        differ = [line for line in differ if not line.startswith("+ ")]
        status = wanted
    if status != wanted:
        differ.append(f"status {status}, expected {wanted}")
    whys = sorted(set(meant.values())) + ([f"{len(differ)} lines differ"] if differ else [])
    return ("failed" if differ else "passed"), "; ".join(whys), differ


def main():
    checkout, scratch = sys.argv[1:3]
    only = os.environ.get("ONLY", ".*")
    tools = os.path.join(scratch, "bin")
    os.mkdir(tools)
    with open(os.path.join(tools, "shim.py"), "w") as file:
        file.write(SHIM)
    programs = {
        "sysbench": f'exec python3 {tools}/shim.py "$@"',
        "mysql": f'exec mariadb --no-defaults -S {os.environ.get("CHECK_SOCKET", "none")} "$@"',
    }
    for name, text in programs.items():
        path = os.path.join(tools, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
    tests = os.path.join(checkout, "tests")
    include, scripts = os.path.join(tests, "include"), os.path.join(checkout, "src", "lua")
    environment = {
        **os.environ, "PATH": tools + ":" + os.environ["PATH"], "SBTEST_INCDIR": include, "SBTEST_SCRIPTDIR": scripts,
        "SBTEST_SUITEDIR": os.path.join(tests, "t"), "SBTEST_ROOTDIR": tests, "SBTEST_VERSION": "1.0.20",
        "SBTEST_VERSION_STRING": "sysbench 1.0.20.*", "LUA_PATH": f"{scripts}/?;{scripts}/?.lua;{include}/?;{include}/?.lua",
    }
    for name, target in (("MYSQL", "CHECK_MYSQL"), ("PGSQL", "CHECK_PGSQL")):
        if os.environ.get(target):
            environment[f"SBTEST_{name}_ARGS"] = f"--{name.lower()}-user=root"
            environment[f"SBTEST_HAS_{name}"] = "yes"
    sums = {"passed": 0, "failed": 0, "n/a": 0}
    print(f"{'file':36} {'passed':>6} {'failed':>6} {'n/a':>4}  why")
    for name in sorted(os.listdir(os.path.join(tests, "t"))):
        stem = name.removesuffix(".t")
        if not re.fullmatch(only, stem):
            continue
        commands = [case for case in cases(os.path.join(tests, "t", name)) if "sysbench" in case[0] or "$SBTEST_INCDIR" in case[0]
                    or "${SBTEST_INCDIR}" in case[0]]
        reason = next((why for pattern, why in OTHER.items() if re.fullmatch(pattern, stem)), None)
        if reason:
            sums["n/a"] += len(commands)
            print(f"{stem:36} {'':>6} {'':>6} {len(commands):>4}  {reason}")
            continue
        folder = os.path.join(scratch, "work-" + stem)
        os.mkdir(folder)
        own, whys, differences = {"passed": 0, "failed": 0, "n/a": 0}, [], []
        environment["CRAMTMP"] = environment["TESTDIR"] = folder
        for command, expected, found, status in session(os.path.join(tests, "t", name), environment, folder):
            if not any(part in command for part in ("sysbench", "SBTEST_INCDIR")) or "_common.sh" in command and not expected:
                continue
            if re.match(r"\s*cat\b", command) and "| " not in command and not expected:
                continue
            verdict, why, differ = judge(command, expected, found, status)
            own[verdict] += 1
            if why and why not in whys:
                whys.append(why)
            if differ:
                differences += ["    $ " + command.strip().split("\n")[0][:100]] + ["      " + line for line in differ]
        for verdict, many in own.items():
            sums[verdict] += many
        print(f"{stem:36} {own['passed']:>6} {own['failed']:>6} {own['n/a']:>4}  {'; '.join(whys)}")
        if os.environ.get("VERBOSE"):
            print("\n".join(differences))
    print(f"{'all':36} {sums['passed']:>6} {sums['failed']:>6} {sums['n/a']:>4}")
    sys.exit(1 if sums["failed"] else 0)

def check_itself():
    """The verdicts on commands of which the outcome is known."""
    help_of = "help of sysbench's own program"
    for command, expected, found, status, verdict in [
        ("sysbench a.lua run", ["x"], ["x"], 0, "passed"),
        ("sysbench a.lua run", ["x"], ["y"], 0, "failed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], ["no such thing"], 2, "passed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], ["no such thing"], 5, "passed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], [], 0, "failed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], [], None, "failed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], [], 70, "failed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], [], 101, "failed"),
        ("sysbench a.lua run", ["FATAL: no", "[1]"], [], 139, "failed"),
        ("sysbench a.lua run", [], [], None, "failed"),
        ("sysbench a.lua run", ["x"], ["not applicable: " + help_of], 80, "n/a"),
        ("sysbench --help", ["x"], [], 0, "n/a"),
    ]:
        found_verdict = judge(command, expected, found, status)
        if found_verdict[0] != verdict:
            sys.exit(f"check-sysbench: {expected}, {found}, {status}: {found_verdict}, expected {verdict}")


check_itself()
if sys.argv[1:] != ["--itself"]:
    main()
