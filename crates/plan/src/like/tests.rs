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
        ("PGUSER=pu PGPASSWORD=geheim1 pgbench -U ou 'postgresql://u:geheim1/x@h/db'", &["geheim1"]),
        ("PGPASSWORD=geheim1 pgbench postgresql://u@h/db", &["geheim1"]),
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
        // A fill, with what `prepare` does as well and what it cannot do.
        ("memtier_benchmark --ratio=1:0 --key-pattern=P:P -n allkeys -t 2 -c 5 --pipeline 9 -x 1", true),
        ("memtier_benchmark --ratio=1:0 --key-pattern=P:P -n allkeys -x 3", false),
        ("memtier_benchmark --ratio=1:0 --key-pattern=P:P -n allkeys --expiry-range=60-60", false),
        ("sysbench --test=oltp --oltp-test-mode=complex run", true),
        ("sysbench --test=oltp --oltp-test-mode=simple run", true),
        ("sysbench --test=oltp --oltp-test-mode=nontrx run", false),
        ("sysbench --test=tests/db/oltp.lua --oltp-test-mode=simple run", false),
        ("sysbench oltp_read_only --rand-spec-iter=12 run", true),
        ("sysbench oltp_read_only --rand-spec-iter=1 run", false),
        ("sysbench oltp_insert --auto_inc=off run", false),
        ("sysbench oltp_read_only --auto_inc=off run", true),
        ("sysbench oltp_update_index --index_updates=5 run", false),
        ("sysbench oltp_read_write --index_updates=5 run", true),
        ("memtier_benchmark --command 'SET __key__ __data__' -d 8", true),
        ("memtier_benchmark --command 'SET __key__ __data__' --data-size-range=4-204", false),
        ("memtier_benchmark --command 'GET __key__' --data-size-range=4-204", true),
        ("pgbench -C db", false),
        ("pgbench -s 100 -S db", true),
        ("pgbench 'dbname=db options=-csynchronous_commit=off'", true),
        ("pgbench 'dbname=db replication=true'", false),
        ("PGTZ=UTC pgbench db", false),
        ("PGAPPNAME=x pgbench db", true),
        ("PGOPTIONS=-cjit=off pgbench postgresql://u@h/db", true),
        ("pgbench postgresql://u@h1,h2/db", false),
        ("hey -h2=false http://h/", false),
        ("hey -h2 -disable-keepalive https://h/", false),
        ("oha --http2 --disable-keepalive http://h/", false),
        ("oha --disable-keepalive http://h/", true),
        ("ab -b 1024 http://h/", false),
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
fn parts_that_a_url_of_pgbench_lacks_are_those_of_options_and_variables() {
    let all = "PGUSER=pu PGPASSWORD='p w' PGHOST=ph PGPORT=7 PGDATABASE=pd PGOPTIONS=-cjit=off pgbench";
    for (line, target) in [
        (format!("{all} postgresql://"), "pu:p%20w@ph:7/pd?options=-cjit%3Doff"),
        (format!("{all} -h oh -p 8 -U ou postgres:///ud"), "ou:p%20w@oh:8/ud?options=-cjit%3Doff"),
        (format!("{all} -h oh -p 8 -U ou postgres://u:q@h:1/d?options=-ca"), "u:q@h:1/d?options=-ca"),
        (format!("{all} postgres://u@[::1]/d"), "u:p%20w@[::1]:7/d?options=-cjit%3Doff"),
        (format!("{all} postgres://u@[::1]:1/d"), "u:p%20w@[::1]:1/d?options=-cjit%3Doff"),
        (format!("{all} 'postgres://u@/d?host=/tmp'"), "u:p%20w@/d?host=/tmp&port=7&options=-cjit%3Doff"),
        (
            format!("{all} 'postgres://u@/d?host=/tmp&port=5'"),
            "u:p%20w@/d?host=/tmp&port=5&options=-cjit%3Doff",
        ),
        ("PGPASSWORD=x pgbench -p 8 postgres://u@h".to_owned(), "u:x@h:8/u"),
        ("pgbench -h /tmp postgres:///d".to_owned(), "%2Ftmp/d"),
        ("pgbench postgres://u@/d".to_owned(), "u@%2Fvar%2Frun%2Fpostgresql/d"),
        ("PGSSLMODE=require pgbench postgres://u@h/d".to_owned(), "u@h/d?sslmode=require"),
        ("PGSSLMODE=require pgbench postgres://u@h/d?sslmode=disable".to_owned(), "u@h/d?sslmode=disable"),
    ] {
        let translation = translate(&line).unwrap();
        let target = Word::Target(format!("postgres://{target}"));
        assert!(translation.words.contains(&target), "{line}: {:?}", translation.words);
        assert!(translation.is_whole(), "{line}: {}", shown(&translation));
    }
    assert!(translate("pgbench -p 99999 postgres://h/d").is_err());
    assert!(remarks("pgbench postgres:///d", RemarkKind::Differs).iter().any(|r| r.starts_with("host: ")));
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
fn pgbenchs_own_scripts_have_no_scale_but_the_one_that_pgbench_would_use() {
    for (line, scale) in [
        // It is the number of rows of pgbench_branches.
        ("pgbench -S -c 8 db", None),
        ("pgbench -c 8 -T 60 bench", None),
        ("pgbench -s 100 -S db", None),
        ("pgbench -s 100 -S -f own.sql db", None),
        ("pgbench -s 100 -D scale=7 -S db", Some("scale=7")),
        ("pgbench -s 100 -f own.sql db", Some("scale=100")),
    ] {
        let translation = translate(line).unwrap();
        let typed = translation.typed();
        assert_eq!(
            typed.split("--define ").nth(1).map(|rest| rest.split(' ').next().unwrap()),
            scale,
            "{typed}"
        );
        assert!(translation.is_whole(), "{line}");
    }
    let remarks = translate("pgbench -s 100 -S db").unwrap().remarks;
    assert!(remarks.iter().any(|remark| remark.part == "-s 100" && remark.text.contains("pgbench_branches")));
}

#[test]
fn only_a_script_that_sysbench_installs_is_replaced_by_our_workload() {
    for (test, words) in [
        ("oltp_read_write", "--workload oltp-read-write"),
        ("/usr/share/sysbench/oltp_read_write.lua", "--workload oltp-read-write"),
        ("/opt/share/sysbench/tests/include/oltp_legacy/select.lua", "--workload oltp-point-select"),
        ("sysbench/tests/db/select.lua", "--workload oltp-point-select"),
        ("--test=oltp", "--workload oltp-read-write"),
        ("--test=oltp --oltp-test-mode=simple", "--workload oltp-point-select"),
        ("select.lua", "--script select.lua"),
        ("select", "--script select.lua"),
        ("oltp_read_write.lua", "--script oltp_read_write.lua"),
        ("./oltp_read_write.lua", "--script ./oltp_read_write.lua"),
        (
            "/home/me/sysbench/src/lua/oltp_read_write.lua",
            "--script /home/me/sysbench/src/lua/oltp_read_write.lua",
        ),
        ("/home/me/sysbench/oltp_read_write.lua", "--script /home/me/sysbench/oltp_read_write.lua"),
        ("cpu.lua", "--script cpu.lua"),
        ("tpcc", "--script tpcc.lua"),
        // One row an event into a table of the thread: none of our workloads is that.
        ("bulk_insert", "--script /usr/share/sysbench/bulk_insert.lua"),
        ("/usr/local/share/sysbench/bulk_insert.lua", "--script /usr/local/share/sysbench/bulk_insert.lua"),
    ] {
        let typed = translate(&format!("sysbench {test} --threads=1 run")).unwrap().typed();
        assert!(format!("{typed} ").contains(&format!(" {words} ")), "{test}: {typed}");
    }
    let typed = translate("sysbench bulk_insert prepare").unwrap().typed();
    assert!(typed.starts_with("bakeoff script /usr/share/sysbench/bulk_insert.lua prepare "), "{typed}");
}

#[test]
fn requests_have_the_version_of_http_that_the_other_tool_uses() {
    for (line, version) in [
        ("wrk https://h/", Some("1.1")),
        ("ab https://h/", Some("1.1")),
        ("hey https://h/", Some("1.1")),
        ("hey -h2 https://h/", Some("2")),
        ("hey -h2 http://h/", None),
        ("oha https://h/", Some("1.1")),
        ("oha --http2 http://h/", Some("2")),
        ("oha http://h/", None),
    ] {
        let typed = translate(line).unwrap().typed();
        assert_eq!(
            typed.split("--http-version ").nth(1).map(|rest| rest.split(' ').next().unwrap()),
            version,
            "{line}"
        );
    }
    let typed = |line: &str| translate(line).unwrap().typed();
    // hey sends this type unless another is given.
    assert!(typed("hey -m POST -d x http://h/").contains("'Content-Type: text/html'"));
    assert!(!typed("hey -m POST -d x -H 'content-type: a/b' http://h/").contains("text/html"));
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
        "pgbench -d -c 4 db",
        "pgbench db other",
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

/// Remarks of one kind: the part and the text.
fn remarks(line: &str, kind: RemarkKind) -> Vec<String> {
    let remarks = translate(line).unwrap().remarks.into_iter();
    remarks
        .filter(|remark| remark.kind == kind)
        .map(|remark| format!("{}: {}", remark.part, remark.text))
        .collect()
}

#[test]
fn each_host_of_sysbench_has_each_port() {
    for (options, hosts) in [
        ("--mysql-host=h1,h2 --mysql-port=1,2", "h1:1,h1:2,h2:1,h2:2"),
        ("--mysql-host=h1,h2 --mysql-port=1", "h1:1,h2:1"),
        ("--mysql-host=h1 --mysql-port=1,2,3", "h1:1,h1:2,h1:3"),
        ("--mysql-host=h1,,h2, --mysql-port=1,2,", "h1:1,h1:2,h2:1,h2:2"),
        ("--mysql-host=h1,h2,h3 --mysql-port=1,2", "h1:1,h1:2,h2:1,h2:2,h3:1,h3:2"),
        ("--mysql-host=h1,h2", "h1,h2"),
        ("--db-driver=pgsql --pgsql-host=h1 --pgsql-port=1", "h1:1"),
    ] {
        let typed = translate(&format!("sysbench oltp_insert {options} run")).unwrap().typed();
        assert!(typed.contains(&format!("//sbtest@{hosts}/sbtest")), "{options}: {typed}");
    }
    // libpq takes the first of several hosts that answers; sysbench's port of PostgreSQL is one number.
    assert!(!translate("sysbench oltp_insert --pgsql-host=h1,h2 run").unwrap().is_whole());
    assert!(translate("sysbench oltp_insert --pgsql-host=h1 --pgsql-port=1,2 run").is_err());
    assert!(!translate("sysbench oltp_insert --mysql-socket=/a,/b run").unwrap().is_whole());
}

/// Each thread of these tests reads its own part of the table: no workload reads the same rows.
#[test]
fn tests_that_read_random_rows_by_thread_are_sysbenchs_own_scripts() {
    for name in ["select_random_points", "select_random_ranges"] {
        for (test, script) in [
            (name.to_owned(), format!("/usr/share/sysbench/{name}.lua")),
            (format!("tests/db/{name}.lua"), format!("/usr/share/sysbench/{name}.lua")),
        ] {
            let typed = translate(&format!("sysbench {test} --threads=4 run")).unwrap().typed();
            assert!(typed.contains(&format!("--script {script} ")), "{typed}");
        }
    }
    let old = "sysbench --test=tests/db/select_random_points.lua --oltp-table-size=1000 --num-threads=8 \
               --max-time=60 run";
    let typed = translate(old).unwrap().typed();
    assert!(typed.contains(" --table-size=1000") && !typed.contains("--oltp-"), "{typed}");
    let typed = translate("sysbench oltp_read_only --tables=4 run").unwrap().typed();
    assert!(typed.contains(" --tables 4"), "{typed}");
}

/// The requests of wrk 4.1.
#[test]
fn wrk_sends_neither_a_header_without_a_blank_nor_a_login() {
    assert_eq!(
        translate("wrk -T 2s http://h/a").unwrap().typed(),
        translate("wrk --timeout 2s http://h/a").unwrap().typed()
    );
    for (line, part) in [("wrk -H 'X-Y:z' http://h/a", "-H X-Y:z: "), ("wrk http://u:p@h/a", "login: ")] {
        let differs = remarks(line, RemarkKind::Differs);
        assert!(
            differs.iter().any(|remark| remark.starts_with(part) || remark.contains("blank")),
            "{differs:?}"
        );
    }
    for line in ["wrk -H 'X-Y: z' http://h/a", "wrk http://h/a?x=@"] {
        let differs = remarks(line, RemarkKind::Differs);
        assert!(!differs.iter().any(|r| r.starts_with("login: ") || r.contains("blank")), "{differs:?}");
    }
}

#[test]
fn before_version_1_sysbench_ends_after_10_000_events() {
    let length = |line: &str| {
        let typed = translate(&format!("sysbench {line} run")).unwrap().typed();
        let of = |name: &str| typed.split(name).nth(1).map(|rest| rest.split(' ').next().unwrap().to_owned());
        (of(" --events "), of(" --time "))
    };
    let is = |events: Option<&str>, time: Option<&str>| (events.map(str::to_owned), time.map(str::to_owned));
    assert_eq!(length("--test=oltp --num-threads=8"), is(Some("10000"), None));
    assert_eq!(length("--test=oltp --max-time=60"), is(Some("10000"), Some("1m")));
    assert_eq!(length("--test=oltp --max-time=60 --max-requests=0"), is(None, Some("1m")));
    assert_eq!(length("--test=oltp --max-requests=70"), is(Some("70"), None));
    // Names of version 1.0, which still accepts --test.
    assert_eq!(length("--test=own.lua --time=60 --threads=8"), is(None, Some("1m")));
    assert_eq!(length("--test=own.lua --threads=8").0, None);
    assert_eq!(length("own.lua --max-time=60"), is(None, Some("1m")));
    assert!(translate("sysbench --test=oltp --max-requests=0 run").is_err());
}

#[test]
fn other_commands_than_run_have_their_options_and_remarks() {
    let typed = translate("sysbench tpcc.lua --threads=4 --rand-seed=7 check").unwrap().typed();
    assert!(typed.starts_with("bakeoff script tpcc.lua check ") && typed.contains(" --threads 4"), "{typed}");
    assert!(typed.contains(" --seed 7"), "{typed}");
    for command in ["run", "prepare", "cleanup"] {
        for missing in ["--config-file=x.cnf", "--mysql-dry-run"] {
            for test in ["oltp_insert", "own.lua"] {
                let line = format!("sysbench {test} {missing} {command}");
                assert!(!translate(&line).unwrap().is_whole(), "{line}");
            }
        }
    }
    let left = remarks("sysbench own.lua --time=60 --rate=5 --histogram prepare", RemarkKind::LeftOut);
    assert_eq!(left, ["--time=60: ", "--rate=5: ", "--histogram: "]);
    assert!(translate("sysbench oltp_insert --mysql-dry-run=off run").unwrap().is_whole());
    // bakeoff cleans up on one connection, as sysbench does.
    let left = remarks("sysbench oltp_insert --threads=4 cleanup", RemarkKind::LeftOut);
    assert_eq!(left, ["--threads=4: "]);
    for line in
        ["sysbench oltp_read_write --threads=8", "sysbench own.lua", "sysbench --test=oltp --max-time=5"]
    {
        let problem = translate(line).unwrap_err().to_string();
        assert!(problem.contains("the command is missing"), "{line}: {problem}");
    }
}

#[test]
fn a_tool_that_accepts_any_certificate_is_translated_with_insecure() {
    for (line, is_insecure) in [
        ("wrk https://h/", true),
        ("wrk2 -R 5 https://h/", true),
        ("hey https://h/", true),
        ("hey -h2 https://h/", true),
        ("ab https://h/", true),
        ("oha https://h/", false),
        ("oha --insecure https://h/", true),
        ("wrk http://h/", false),
        ("hey http://h/", false),
        ("ab http://h/", false),
    ] {
        let typed = format!("{} ", translate(line).unwrap().typed());
        assert_eq!(typed.contains(" --insecure "), is_insecure, "{line}: {typed}");
        let is_said = remarks(line, RemarkKind::Differs).iter().any(|remark| remark.starts_with("https: "));
        assert_eq!(is_said, is_insecure && !line.starts_with("oha"), "{line}");
    }
}

#[test]
fn a_line_that_would_use_tls_says_that_ours_does_not() {
    for (line, is_said) in [
        ("pgbench -h h1 db", true),
        ("pgbench -h h1 'dbname=db sslmode=prefer'", true),
        ("PGSSLMODE=allow pgbench -h h1 db", true),
        ("pgbench postgresql://u@h1/db", true),
        ("pgbench 'postgresql://u@h1/db?sslmode=prefer'", true),
        ("pgbench 'dbname=db host=h1'", true),
        ("sysbench oltp_insert --db-driver=pgsql run", true),
        ("sysbench oltp_insert --pgsql-host=h1 --pgsql-sslmode=prefer run", true),
        ("sysbench oltp_insert --pgsql-host=h1 prepare", true),
        ("PGSSLMODE=disable pgbench -h h1 db", false),
        ("pgbench 'postgresql://u@h1/db?sslmode=require'", false),
        ("sysbench oltp_insert --pgsql-host=h1 --pgsql-sslmode=verify-full run", false),
        // Sockets have no TLS.
        ("pgbench db", false),
        ("pgbench -h /tmp db", false),
        ("pgbench 'postgresql:///db?host=/tmp'", false),
        ("pgbench postgresql://u@%2Ftmp/db", false),
        ("sysbench oltp_insert --pgsql-host=/tmp run", false),
        // libmariadb 3.3, of Debian's sysbench, uses TLS only if it is asked to.
        ("sysbench oltp_insert --mysql-host=h1 run", false),
    ] {
        let remarks = remarks(line, RemarkKind::Differs);
        assert_eq!(
            remarks.iter().any(|remark| remark.contains("?sslmode=require")),
            is_said,
            "{line}: {remarks:?}"
        );
    }
}

#[test]
fn statements_are_prepared_only_if_the_test_prepares_them() {
    for (line, is_text) in [
        ("sysbench oltp_insert run", true),
        ("sysbench oltp_insert --db-ps-mode=auto run", true),
        ("sysbench /usr/share/sysbench/oltp_insert.lua run", true),
        ("sysbench tests/db/oltp.lua run", true),
        ("sysbench tests/db/oltp.lua --db-ps-mode=disable run", true),
        ("sysbench /x/oltp_legacy/select.lua run", true),
        ("sysbench oltp_read_write --db-ps-mode=disable run", true),
        ("sysbench oltp_read_write run", false),
        ("sysbench oltp_update_index run", false),
        // These of the old tests prepare their statement.
        ("sysbench tests/db/select_random_points.lua run", false),
        ("sysbench --test=oltp --max-time=5 run", false),
        ("sysbench oltp_insert prepare", false),
    ] {
        let typed = format!("{} ", translate(line).unwrap().typed());
        assert_eq!(typed.matches(" --prepared no ").count(), usize::from(is_text), "{line}: {typed}");
    }
    let has_id = |line| remarks(line, RemarkKind::Differs).iter().any(|remark| remark.starts_with("id: "));
    assert!(has_id("sysbench oltp_insert run") && has_id("sysbench tests/db/insert.lua run"));
    // On PostgreSQL, sysbench leaves the id out as well.
    assert!(!has_id("sysbench oltp_insert --db-driver=pgsql run") && !has_id("sysbench oltp_delete run"));
}

#[test]
fn a_tool_with_a_thread_for_each_cpu_is_not_one_of_one_thread() {
    let is_said =
        |line| remarks(line, RemarkKind::Differs).iter().any(|remark| remark.contains("--threads N"));
    for line in ["hey http://h/", "oha http://h/"] {
        assert!(is_said(line), "{line}");
    }
    for line in ["hey -cpus 2 http://h/", "hey -c 1 -n 5 http://h/", "oha -c 1 http://h/", "ab http://h/"] {
        assert!(!is_said(line), "{line}");
    }
    let typed = |line| format!("{} ", translate(line).unwrap().typed());
    assert!(typed("hey -cpus 2 http://h/").contains(" --threads 2 "), "{}", typed("hey -cpus 2 http://h/"));
    assert!(typed("hey -cpus 8 -c 3 http://h/").contains(" --connections 3 --threads 3 "));
}

#[test]
fn a_load_of_another_seed_says_so() {
    let is_said = |line| remarks(line, RemarkKind::Differs).iter().any(|remark| remark.contains("seed 1"));
    for line in [
        "pgbench db",
        "pgbench --random-seed=time db",
        "sysbench oltp_insert run",
        "sysbench own.lua --rand-seed=0 run",
    ] {
        assert!(is_said(line), "{line}");
    }
    for line in [
        "pgbench --random-seed=7 db",
        "sysbench oltp_insert --rand-seed=7 run",
        "sysbench oltp_insert cleanup",
        "wrk http://h/",
    ] {
        assert!(!is_said(line), "{line}");
    }
}

#[test]
fn memtiers_keys_and_its_sequence_of_operations_differ() {
    let has = |line: &str, part: &str| {
        let remarks = remarks(line, RemarkKind::Differs);
        remarks.iter().any(|remark| remark.starts_with(&format!("{part}: ")))
    };
    for line in [
        "memtier_benchmark",
        "memtier_benchmark --key-prefix=a --ratio=0:1",
        "memtier_benchmark --ratio=1:0 --key-pattern=P:P -n allkeys",
    ] {
        assert!(has(line, "keys"), "{line}");
    }
    assert!(has("memtier_benchmark", "--ratio") && !has("memtier_benchmark --ratio=0:1", "--ratio"));
    // These have memtier's own keys.
    assert!(!has("memtier_benchmark --command 'GET __key__'", "keys"));
    assert!(has("memtier_benchmark --command 'GET a' --command 'GET b'", "--command-ratio"));
    assert!(!has("memtier_benchmark --command 'GET a'", "--command-ratio"));
}

#[test]
fn a_request_is_sent_again_only_if_the_tool_does_so() {
    for (line, retry) in [
        ("memtier_benchmark", Some("0")),
        ("memtier_benchmark --command PING", Some("0")),
        ("wrk http://h/", Some("0")),
        ("hey http://h/", Some("0")),
        ("oha http://h/", Some("0")),
        ("ab http://h/", Some("0")),
        ("pgbench db", Some("0")),
        ("sysbench oltp_insert run", None),
    ] {
        let typed = translate(line).unwrap().typed();
        assert_eq!(
            typed.split(" --retry ").nth(1).map(|rest| rest.split(' ').next().unwrap()),
            retry,
            "{line}"
        );
    }
    for line in ["sysbench oltp_insert run", "sysbench own.lua run"] {
        let remarks = remarks(line, RemarkKind::Differs);
        assert!(remarks.iter().any(|remark| remark.contains("at most 3 times")), "{line}: {remarks:?}");
    }
}
