//! A table of command lines, found in documentation and public issues, and their translations.

use std::fmt::Write as _;

use super::*;

/// Command lines, each after a comment that names its source.
const LINES: &str = include_str!("../../testdata/like/lines.txt");

/// Source and command line of each entry.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let entries = LINES.split("\n\n").map(|entry| entry.trim_matches('\n'));
    entries.filter_map(|entry| entry.split_once('\n').filter(|(source, _)| source.starts_with('#')))
}

fn shown(translation: &Translation) -> String {
    let mut text = format!("{}\n", translation.typed());
    if translation.shown() != translation.typed() {
        let _ = writeln!(text, "masked: {}", translation.shown());
    }
    for Remark { kind, part, text: why } in &translation.remarks {
        let kind = match kind {
            RemarkKind::Missing => "MISSING",
            RemarkKind::Differs => "differs",
            RemarkKind::LeftOut => "left out",
        };
        let _ = writeln!(text, "  {kind}: {part}{}{why}", if why.is_empty() { "" } else { ": " });
    }
    text
}

#[test]
fn command_lines_of_documentation_and_issues_are_translated_or_the_missing_part_is_named() {
    let mut all = String::new();
    for (source, line) in lines() {
        let text = match translate(line) {
            Ok(translation) => shown(&translation),
            Err(error) => format!("ERROR: {error}\n"),
        };
        let _ = writeln!(all, "{source}\n{line}\n=> {text}");
    }
    assert!(lines().count() >= 60, "{}", lines().count());
    insta::assert_snapshot!(all);
}

#[test]
fn no_password_is_shown() {
    for (line, secrets) in [
        ("sysbench oltp_insert --mysql-password=geheim1 --mysql-user=u run", &["geheim1"][..]),
        (
            "sysbench oltp_insert --db-driver=pgsql --pgsql-password='ge heim1' run",
            &["ge heim1", "ge%20heim1"],
        ),
        ("PGPASSWORD=geheim1 pgbench -U u db", &["geheim1"]),
        ("pgbench 'postgresql://u:geheim1@h/db'", &["geheim1"]),
        ("memtier_benchmark -a geheim1", &["geheim1"]),
        ("memtier_benchmark --uri redis://u:geheim1@h", &["geheim1"]),
        ("hey -a u:geheim1 http://h/", &["geheim1"]),
        ("ab -A u:geheim1 http://h/", &["geheim1"]),
        ("oha -H 'Authorization: Bearer geheim1' http://h/", &["geheim1"]),
        ("ab -C 'session=geheim1' http://h/", &["geheim1"]),
        ("wrk 'http://h/?token=geheim1'", &["geheim1"]),
        ("wrk 'http://u:geheim1@h/'", &["geheim1"]),
    ] {
        let translation = translate(line).unwrap();
        let (typed, shown) = (translation.typed(), translation.shown());
        assert!(secrets.iter().any(|secret| typed.contains(secret)), "{typed}");
        assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
    }
}

#[test]
fn a_part_that_changes_the_load_is_missing_and_one_that_is_printed_only_is_left_out() {
    for (line, is_whole) in [
        ("wrk http://h/", true),
        ("wrk -s post.lua http://h/", false),
        ("wrk -H \"a: $N\" http://h/", false),
        ("sysbench oltp_insert --rand-type=gaussian run", false),
        ("sysbench oltp_insert --rand-type=pareto --rand-pareto-h=0.2 run", true),
        ("sysbench oltp_insert --rand-type=pareto --rand-pareto-h=0.3 run", false),
        ("sysbench oltp_read_only --simple_ranges=2 run", false),
        ("sysbench oltp_read_only --range_selects=off run", true),
        ("sysbench oltp_insert --reconnect=0 run", true),
        ("sysbench oltp_insert --reconnect=10 run", false),
        ("sysbench own.lua --reconnect=10 run", true),
        ("sysbench oltp_insert --unheard-of=1 run", false),
        ("memtier_benchmark --cluster-mode", false),
        ("memtier_benchmark --key-pattern=S:R --ratio=0:1", true),
        ("memtier_benchmark --key-pattern=S:R --ratio=1:1", false),
        ("memtier_benchmark -d 2", false),
        ("pgbench -C db", false),
        ("pgbench -l -P 1 db", true),
        ("hey -x p:1 http://h/", false),
        ("oha --proxy p:1 http://h/", false),
        ("ab -X p:1 http://h/", false),
    ] {
        let translation = translate(line).unwrap();
        let is = if translation.is_whole() { "" } else { "not " };
        assert_eq!(translation.is_whole(), is_whole, "{line} is {is}whole: {}", shown(&translation));
    }
}

#[test]
fn numbers_of_events_and_rates_are_those_of_all_connections() {
    let has = |line: &str, wanted: &str| {
        let typed = translate(line).unwrap().typed();
        assert!(format!("{typed} ").contains(&format!(" {wanted} ")), "{line}: {typed}");
    };
    has("pgbench -c 8 -t 100 db", "--events 800");
    has("pgbench -c 8 db", "--events 80");
    has("pgbench -c 2 -j 8 db", "--connections 2 --threads 2");
    has("memtier_benchmark -c 5 -t 2 -n 30", "--events 300");
    has("memtier_benchmark -c 5 -t 2 --rate-limiting=7", "--rate 70");
    has("memtier_benchmark", "--connections 200 --threads 4");
    has(
        "memtier_benchmark --command 'PING' --command 'GET a' --command-ratio=3",
        "--command PING@1 --command 'GET a@3'",
    );
    has("wrk -c 10 -t 3 http://h/", "--connections 9 --threads 3");
    has("hey -c 5 -q 3 http://h/", "--rate 15");
    has("hey -n 204 -c 10 http://h/", "--events 200");
    has("oha -c 5 -q 3 http://h/", "--rate 3");
    has("ab -t 5 http://h/", "--time 5s --events 50000");
    has("ab -n 100 -t 5 http://h/", "--time 5s --events 50000");
    has("ab -t 5 -n 100 http://h/", "--time 5s --events 100");
    has("sysbench oltp_insert --events=100 run", "--time 10s --events 100 --warmup 0s");
    has("sysbench oltp_insert --events=100 --time=0 run", "--threads 1 --events 100");
    has("sysbench --test=oltp --max-requests=100 run", "--threads 1 --events 100");
}

#[test]
fn a_script_gets_the_options_that_it_reads() {
    let options = "--mysql-user=a --mysql_storage_engine=rocksdb --pgsql-variant=redshift --reconnect=5 \
                   --mysql-ignore-errors=1062 --percentile=99 --tables=4 --own=1 --histogram --rand-type=gaussian";
    let typed = translate(&format!("sysbench own.lua {options} run")).unwrap().typed();
    let passed: Vec<&str> = typed.split(' ').filter(|word| word.contains('=')).collect();
    let expected = "--mysql_storage_engine=rocksdb --pgsql-variant=redshift --reconnect=5 \
                    --mysql-ignore-errors=1062 --percentile=99 --tables=4 --own=1 --rand-type=gaussian";
    assert_eq!(passed.join(" "), expected);
}

#[test]
fn what_the_tool_would_refuse_is_refused() {
    for line in [
        "sysbench",
        "sysbench oltp_insert --time=0 run",
        "sysbench oltp_insert --threads=0 run",
        "sysbench oltp_insert --rate=fast run",
        "sysbench oltp_insert --db-driver=oracle run",
        "sysbench oltp_insert --mysql-port=99999 run",
        "wrk",
        "wrk -c 2 -t 4 http://h/",
        "wrk -d soon http://h/",
        "wrk ftp://h/",
        "wrk http:///x",
        "wrk -c",
        "wrk2 http://h/",
        "pgbench -c 0 db",
        "pgbench -b nothing db",
        "pgbench -c 9223372036854775807 -t 3 db",
        "memtier_benchmark --ratio=0:0",
        "memtier_benchmark --key-minimum=5 --key-maximum=4",
        "hey -n 5 -c 10 http://h/",
        "ab -n 5 -c 10 http://h/",
        "oha -H novalue http://h/",
    ] {
        assert!(translate(line).is_err(), "{line}: {:?}", translate(line));
    }
}
