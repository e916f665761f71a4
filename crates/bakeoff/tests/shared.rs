//! The shared archive with real servers: PostgreSQL, a folder as a store, and an S3 server.

#![cfg(feature = "shared")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod lab;
mod servers;
mod sharing;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::{Ended, Lab};
use serde_json::Value;
use servers::{Postgres, S3};
use tempfile::TempDir;

/// Measures a small run; its id.
fn measure(lab: &Lab) -> String {
    let words = ["load", "null:", "--warmup", "0s", "--events", "10", "--threads", "1", "--observe", "none"];
    lab.json(&words)["run"].as_str().unwrap().to_owned()
}

/// Bytes of every file below a folder, by relative name.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A server, a folder as a store, and two machines.
struct Two {
    server: Postgres,
    here: Lab,
    there: Lab,
    place: String,
}

impl Two {
    fn start() -> Option<Self> {
        let server = Postgres::start(&[])?;
        let (here, there) = (Lab::new(), Lab::new());
        fs::create_dir(here.path("store")).unwrap();
        let place = server.place(&format!("file://{}", here.path("store").display()));
        assert_eq!(here.run(&["archive", "migrate", &place]).code, Some(0));
        Some(Self { server, here, there, place })
    }

    fn push(&self) -> Ended {
        self.here.run(&["archive", "push", &self.place])
    }

    fn pull(&self) -> Ended {
        self.there.run(&["archive", "pull", &self.place, "--json"])
    }

    fn in_store(&self, id: &str, name: &str) -> PathBuf {
        self.here.path("store").join("runs").join(id).join(name)
    }
}

#[test]
fn both_sides_have_the_same_bytes() {
    let Some(two) = Two::start() else { return };
    let ids = [measure(&two.here), measure(&two.here)];
    let other = measure(&two.there);
    assert_eq!(two.push().code, Some(0));
    let again = two.here.json(&["archive", "push", &two.place]);
    assert_eq!(
        (&again["pushed"]["same"], again["pushed"]["files"].as_u64()),
        (&2.into(), Some(0)),
        "{again}"
    );
    let sync = two.there.json(&["archive", "sync", &two.place]);
    assert_eq!(sync["pushed"]["moved"], serde_json::json!([other]));
    assert_eq!(sync["pulled"]["moved"], serde_json::json!(ids), "{sync}");
    assert_eq!(
        two.here.json(&["archive", "pull", &two.place, &other])["pulled"]["moved"],
        serde_json::json!([other])
    );
    let runs = tree(&two.here.path("archive/runs"));
    assert_eq!(runs.len(), 12);
    assert_eq!(runs, tree(&two.there.path("archive/runs")));
    assert_eq!(runs, tree(&two.here.path("store/runs")));
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "3");
    assert_eq!(two.there.run(&["runs", "verify"]).code, Some(0));
    for path in runs.keys() {
        let path = two.there.path("archive/runs").join(path);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
}

#[test]
fn a_killed_push_and_a_killed_pull_are_completed_by_the_same_command() {
    let Some(two) = Two::start() else { return };
    for _ in 0..8 {
        measure(&two.here);
    }
    let killed = |lab: &Lab, verb: &str, ms: u64| {
        let mut child = lab.command(&["archive", verb, &two.place]).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(ms));
        let _ = child.kill();
        !child.wait().unwrap().success()
    };
    let mut kills = 0;
    for ms in (1..400).step_by(7) {
        kills += usize::from(killed(&two.here, "push", ms));
        // At any moment, a row has all its files.
        let rows = two.server.sql("SELECT 'runs/' || run || '/' || name || ' ' || sha256 FROM file");
        for row in rows.lines() {
            let (path, sum) = row.split_once(' ').unwrap();
            let mut bytes = &fs::read(two.here.path("store").join(path)).unwrap()[..];
            assert_eq!(archive::sha256(&mut bytes).unwrap(), sum, "{path}");
        }
        kills += usize::from(killed(&two.there, "pull", ms));
    }
    assert!(kills > 8, "the kills came too late: {kills}");
    assert_eq!(two.push().code, Some(0));
    assert_eq!(two.pull().code, Some(0));
    let runs = tree(&two.here.path("archive/runs"));
    assert_eq!(runs, tree(&two.there.path("archive/runs")));
    let mut stored = tree(&two.here.path("store/runs"));
    // A killed writer of a folder leaves its temporary file.
    stored.retain(|path, _| !path.to_string_lossy().contains('#'));
    assert_eq!(runs, stored);
    assert_eq!(two.server.sql("SELECT count(*), count(DISTINCT id) FROM run"), "8|8");
}

#[test]
fn two_pushes_at_once_write_each_row_once() {
    let Some(two) = Two::start() else { return };
    for _ in 0..4 {
        measure(&two.here);
    }
    let push = || two.here.command(&["archive", "push", &two.place]).stdout(Stdio::null()).spawn().unwrap();
    let mut both: Vec<Child> = (0..4).map(|_| push()).collect();
    assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "4");
    assert_eq!(two.server.sql("SELECT count(*) FROM file"), "16");
}

#[test]
fn other_bytes_in_the_store_are_reported_and_not_replaced() {
    let Some(two) = Two::start() else { return };
    let (first, second) = (measure(&two.here), measure(&two.here));
    let planted = two.in_store(&first, "hist.parquet");
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    fs::write(&planted, "other bytes").unwrap();
    let ended = two.push();
    assert_eq!(ended.code, Some(1), "{}", ended.out);
    assert!(
        ended.out.contains(&first) && ended.out.contains("hist.parquet; it is not replaced"),
        "{}",
        ended.out
    );
    assert_eq!(fs::read_to_string(&planted).unwrap(), "other bytes");
    assert_eq!(two.server.sql("SELECT id FROM run"), second, "the other run is stored");
    fs::remove_file(&planted).unwrap();
    assert_eq!(two.push().code, Some(0));
    // A run that is damaged here is not shared.
    let third = measure(&two.here);
    fs::write(two.here.path("archive/runs").join(&third).join("hist.parquet"), "x").unwrap();
    let ended = two.push();
    assert_eq!((ended.code, ended.out.contains(&third)), (Some(1), true), "{}", ended.out);
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "2");
    assert!(!two.in_store(&third, "manifest.json").exists());
}

#[test]
fn a_hostile_index_and_store_write_nothing() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    let before = tree(&two.here.path("store"));
    let latency = two.in_store(&id, "latency.hlog.zst");
    let bytes = fs::read(&latency).unwrap();
    let flipped: Vec<u8> = bytes.iter().map(|b| b ^ 1).collect();
    let evil = "INSERT INTO run SELECT '../../evil', shelf, kind, state, reason, 1, 1, title, NULL, tool_version, \
                command, sha256, bytes FROM run LIMIT 1";
    let cases: [(&str, &str, Option<&[u8]>); 7] = [
        ("flipped bytes", "", Some(&flipped)),
        ("a longer file", "", Some(&[&bytes[..], b"x"].concat())),
        ("a name that leads out", "UPDATE file SET name = '../../evil' WHERE name LIKE 'hist%'", None),
        ("a hidden name", "UPDATE file SET name = '.evil' WHERE name LIKE 'hist%'", None),
        ("a huge file", "UPDATE file SET bytes = 1099511627776 WHERE name LIKE 'hist%'", None),
        ("another checksum", "UPDATE run SET sha256 = repeat('0', 64)", None),
        ("an id that is a path", evil, None),
    ];
    for (case, sql, planted) in cases {
        two.server
            .sql("CREATE TABLE kept_run AS SELECT * FROM run; CREATE TABLE kept_file AS SELECT * FROM file");
        if !sql.is_empty() {
            two.server.sql(sql);
        }
        fs::write(&latency, planted.unwrap_or(&bytes)).unwrap();
        let ended = two.pull();
        assert_eq!(ended.code, Some(1), "{case}: {}{}", ended.out, ended.err);
        let pulled: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(pulled["pulled"]["problems"].as_array().unwrap().len(), 1, "{case}: {pulled}");
        let is_other = case == "an id that is a path";
        let found = tree(&two.there.path("archive/runs"));
        assert_eq!(found.len(), if is_other { 4 } else { 0 }, "{case}: {:?}", found.keys());
        two.server.sql(
            "DELETE FROM run; INSERT INTO run SELECT * FROM kept_run; INSERT INTO file SELECT * FROM kept_file;
             DROP TABLE kept_run; DROP TABLE kept_file",
        );
    }
    fs::write(&latency, &bytes).unwrap();
    assert_eq!(before, tree(&two.here.path("store")));
    // A manifest that agrees with the index, and not with its run.
    assert_eq!(two.there.run(&["runs", "rm", &id]).code, Some(0));
    let other = two.in_store(&id, "manifest.json");
    let text = fs::read_to_string(&other).unwrap().replace("null:", "nope:");
    fs::write(&other, &text).unwrap();
    let sum = archive::sha256(&mut text.as_bytes()).unwrap();
    two.server.sql(&format!("UPDATE run SET sha256 = '{sum}'"));
    two.server.sql(&format!("UPDATE file SET sha256 = '{sum}' WHERE name = 'manifest.json'"));
    assert_eq!(two.pull().code, Some(1));
    assert!(tree(&two.there.path("archive/runs")).is_empty());
}

#[test]
fn another_run_of_the_same_name_changes_neither_side() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    assert_eq!(two.push().code, Some(0));
    assert_eq!(two.pull().code, Some(0));
    let here = two.here.path("archive/runs").join(&id).join("manifest.json");
    let text = fs::read_to_string(&here).unwrap().replace("null:", "nope:");
    fs::write(&here, &text).unwrap();
    let stored = tree(&two.here.path("store"));
    for verb in ["push", "pull"] {
        let ended = two.here.run(&["archive", verb, &two.place]);
        assert_eq!(
            (ended.code, ended.out.contains("different run")),
            (Some(1), true),
            "{verb}: {}",
            ended.out
        );
    }
    assert_eq!(stored, tree(&two.here.path("store")));
    assert_eq!(fs::read_to_string(&here).unwrap(), text);
}

#[test]
fn a_bakeoff_comes_with_its_runs_when_it_has_ended() {
    let Some(two) = Two::start() else { return };
    let plan = "schema = 1\ntitle = \"t\"\n[factors.n]\nvalues = [\"1\", \"2\"]\nreference = \"1\"\nlevel = \"whole-plot\"\n\
        [design]\nblocks = 1\n[load]\ntarget = \"exec:true\"\nrate = \"max\"\n[phases]\nwarm-up = { min = \"20ms\" }\n\
        measure = { time = \"100ms\", interval = \"100ms\" }\n[judge]\nfamily = \"n vs reference\"\n";
    fs::write(two.here.path("plan.toml"), plan).unwrap();
    let path = two.here.path("plan.toml");
    let ended = two.here.run(&["run", path.to_str().unwrap()]);
    let bakeoffs: Vec<_> = fs::read_dir(two.here.path("archive/bakeoffs")).unwrap().flatten().collect();
    assert_eq!(bakeoffs.len(), 1, "{}{}", ended.out, ended.err);
    let id = bakeoffs[0].file_name().into_string().unwrap();
    let pushed = two.here.json(&["archive", "push", &two.place, &id]);
    assert_eq!(pushed["pushed"]["moved"].as_array().unwrap().len(), 3, "{pushed}");
    let pulled = two.there.json(&["archive", "pull", &two.place, &id[id.len() - 8..].to_lowercase()]);
    assert_eq!(pulled["pulled"]["moved"].as_array().unwrap().len(), 3, "{pulled}");
    assert_eq!(tree(&two.here.path("archive/bakeoffs")), tree(&two.there.path("archive/bakeoffs")));
    assert_eq!(two.there.run(&["runs", "verify"]).code, Some(0));
    // One that `resume` would continue stays here.
    let events = two.here.path("archive/bakeoffs").join(&id).join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap();
    fs::write(&events, &text[..=cut]).unwrap();
    two.server.sql("DELETE FROM run");
    let pushed = two.here.json(&["archive", "push", &two.place]);
    assert_eq!(pushed["pushed"]["moved"].as_array().unwrap().len(), 2, "{pushed}");
}

#[test]
fn a_location_needs_its_tables_its_folder_and_no_password() {
    let Some(two) = Two::start() else { return };
    measure(&two.here);
    let push = |place: &str| {
        let ended = two.here.run(&["archive", "push", place]);
        (ended.code, ended.err)
    };
    let (code, error) = push(&two.place.replace("app@", "app:s3cret@"));
    assert_eq!(
        (code, error.contains("s3cret"), error.contains("PGPASSWORD")),
        (Some(2), false, true),
        "{error}"
    );
    let gone = format!("{}/not-mounted", two.place);
    assert_eq!(push(&gone).0, Some(6));
    assert!(!two.here.path("store/not-mounted").exists());
    two.server.sql("UPDATE bakeoff_archive SET version = 99");
    assert!(push(&two.place).1.contains("later version"));
    two.server.sql("DROP TABLE bakeoff_archive");
    assert!(push(&two.place).1.contains("bakeoff archive migrate"));
    assert_eq!(
        two.here.run(&["archive", "push", "postgres://app@127.0.0.1:1/lab,file:///tmp"]).code,
        Some(6)
    );
}

#[test]
fn a_load_is_pushed_and_stays_here_while_the_shared_archive_is_away() {
    let Some(two) = Two::start() else { return };
    let earlier = measure(&two.here);
    let load = |place: &str| {
        let words =
            ["load", "null:", "--warmup", "0s", "--events", "10", "--threads", "1", "--observe", "none"];
        two.here.run(&[&words[..], &["--archive", place]].concat())
    };
    let ended = load(&two.place);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "1", "{}", ended.err);
    assert_ne!(two.server.sql("SELECT id FROM run"), earlier, "only what the command measured is pushed");
    let away = "postgres://app@127.0.0.1:1/lab,file:///tmp";
    let ended = load(away);
    assert_eq!(ended.code, Some(6), "{}", ended.err);
    assert!(ended.err.contains(&format!("bakeoff archive push '{away}' ")), "{}", ended.err);
    assert_eq!(fs::read_dir(two.here.path("archive/runs")).unwrap().count(), 3);
    let ended = load("postgres://app:s3cret@127.0.0.1:1/lab,file:///tmp");
    assert_eq!((ended.code, ended.err.contains("s3cret")), (Some(2), false), "{}", ended.err);
    let ended = two.here.run(&["runs", "list", "--archive", &two.place]);
    assert_eq!((ended.code, ended.err.contains("archive pull")), (Some(2), true), "{}", ended.err);
    for (path, bytes) in two.here.archived_bytes() {
        assert!(!String::from_utf8_lossy(&bytes).contains("s3cret"), "{}", path.display());
    }
}

#[test]
fn a_link_in_the_archive_is_not_pushed() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    let file = two.here.path("archive/runs").join(&id).join("hist.parquet");
    fs::rename(&file, two.here.path("elsewhere")).unwrap();
    symlink(two.here.path("elsewhere"), &file).unwrap();
    assert_eq!(two.push().code, Some(1));
    assert_eq!(two.server.sql("SELECT count(*) FROM run"), "0");
}

#[test]
fn a_connection_with_tls_asks_for_the_servers_name() {
    let keys = TempDir::new().unwrap();
    let at = |name: &str| keys.path().join(name).display().to_string();
    let (key, certificate) = (at("key.pem"), at("cert.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=db",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("skipped: openssl is not installed (apt-get install openssl)");
        return;
    }
    fs::set_permissions(keys.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (k, c, p) =
        (format!("ssl_key_file={key}"), format!("ssl_cert_file={certificate}"), format!("port={port}"));
    let Some(server) = Postgres::start(&[&k, &c, "ssl=on", "listen_addresses=localhost", &p]) else { return };
    assert_eq!(server.sql("SHOW ssl"), "on");
    let lab = Lab::new();
    let migrate = |host: &str, options: &str| {
        let place = format!("postgres://app@{host}:{port}/lab?{options},file:///tmp");
        fs::write(lab.path("password"), "s3cret\n").unwrap();
        let mut command = lab.command(&["archive", "migrate", &place]);
        command.env("PGPASSWORD", format!("{{file:{}}}", lab.path("password").display()));
        Ended::of(command.output().unwrap())
    };
    let trusted = format!("sslmode=verify-full&sslrootcert={certificate}");
    let ended = migrate("localhost", &trusted);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(migrate("127.0.0.1", &trusted).code, Some(6), "the certificate names another host");
    assert_eq!(
        migrate("localhost", "sslmode=verify-full").code,
        Some(6),
        "no authority that we trust signed it"
    );
    assert_eq!(migrate("localhost", "sslmode=disable").code, Some(0));
}

#[test]
fn a_bucket_of_s3_holds_the_same_bytes() {
    let (Some(server), Some(s3)) = (Postgres::start(&[]), S3::start()) else { return };
    let (here, there) = (Lab::new(), Lab::new());
    let place = server.place("s3://lab/team/one");
    fs::write(here.path("key"), "secret of the bucket\n").unwrap();
    let run = |lab: &Lab, verb: &str, url: &str| {
        let mut command = lab.command(&["archive", verb, &place]);
        command
            .env("AWS_ACCESS_KEY_ID", "lab")
            .env("AWS_ENDPOINT_URL", url)
            .env("AWS_DEFAULT_REGION", "us-east-1");
        command.env("AWS_SECRET_ACCESS_KEY", format!("{{file:{}}}", here.path("key").display()));
        Ended::of(command.output().unwrap())
    };
    let (first, second) = (measure(&here), measure(&here));
    let planted = format!("team/one/runs/{first}/hist.parquet");
    s3.curl(
        &[
            "-X",
            "PUT",
            "-H",
            "x-amz-acl: public-read-write",
            "-H",
            "Content-Type: application/octet-stream",
            "--data-binary",
            "other",
        ],
        &planted,
    );
    assert_eq!(run(&here, "migrate", &s3.url).code, Some(0));
    let ended = run(&here, "push", &s3.url);
    assert_eq!(
        (ended.code, ended.out.contains("it is not replaced")),
        (Some(1), true),
        "{}{}",
        ended.out,
        ended.err
    );
    assert_eq!(s3.curl(&[], &planted), "other");
    assert_eq!(server.sql("SELECT id FROM run"), second);
    s3.curl(&["-X", "DELETE"], &planted);
    assert_eq!(run(&here, "push", &s3.url).code, Some(0));
    assert_eq!(run(&there, "pull", &s3.url).code, Some(0));
    assert_eq!(tree(&here.path("archive/runs")), tree(&there.path("archive/runs")));
    assert_eq!(there.run(&["runs", "verify"]).code, Some(0));
    measure(&here);
    let ended = run(&here, "push", "http://192.0.2.1:9000");
    assert_eq!(ended.code, Some(6), "plain HTTP off this machine: {}", ended.err);
    assert!(!ended.err.contains("secret of"), "{}", ended.err);
}
