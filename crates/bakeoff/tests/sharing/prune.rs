//! Removal of old runs for all machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::lab::{Ended, Lab};
use super::super::servers::{Postgres, S3};
use super::super::{Two, measure, tree};
use super::own::PLAN;

/// Measures a small run with a label; its id.
fn labelled(lab: &Lab, label: &str) -> String {
    let words = ["load", "null:", "--warmup", "0s", "--events", "10", "--threads", "1", "--observe", "none"];
    lab.json(&[&words[..], &["--label", label]].concat())["run"].as_str().unwrap().to_owned()
}

impl Two {
    fn prune(&self, more: &[&str]) -> Value {
        let words = ["archive", "prune", self.place.as_str(), "--older-than", "90d"];
        self.here.json(&[&words[..], more].concat())
    }

    /// Makes a run, or a bake-off with its runs, a hundred days old.
    fn age(&self, id: &str) {
        let set = "UPDATE run SET pushed_at = now() - interval '100 days' WHERE";
        self.server.sql(&format!("{set} id = '{id}' OR bakeoff = '{id}'"));
    }

    fn rows(&self) -> String {
        self.server.sql("SELECT count(*) FROM run")
    }

    fn folder(&self, id: &str) -> PathBuf {
        self.here.path("store/runs").join(id)
    }
}

/// Runs in the list of a prune.
fn old(document: &Value) -> Vec<&str> {
    document["old"].as_array().unwrap().iter().map(|old| old["run"].as_str().unwrap()).collect()
}

#[test]
fn an_old_run_is_removed_for_all_machines_and_not_pushed_again() {
    let Some(two) = Two::start() else { return };
    let (gone, young) = (measure(&two.here), measure(&two.here));
    let (kept, also) = (labelled(&two.here, "release=1.0"), labelled(&two.here, "branch=main"));
    let other = labelled(&two.here, "branch=try");
    assert_eq!(two.push().code, Some(0));
    assert_eq!(two.pull().code, Some(0));
    let keep = ["--keep", "release", "--keep", "branch=main"];
    // A clock that was wrong when the run was measured makes it neither old nor young.
    two.server.sql(&format!("UPDATE run SET started_unix_ns = 0 WHERE id = '{young}'"));
    two.server.sql(&format!("UPDATE run SET started_unix_ns = 4e18 WHERE id = '{gone}'"));
    assert_eq!(old(&two.prune(&keep)), [""; 0], "nothing is old");
    for id in [&gone, &kept, &also, &other] {
        two.age(id);
    }
    let stored = tree(&two.here.path("store"));
    let listed = two.prune(&keep);
    // The oldest first.
    assert_eq!(old(&listed), [&*gone, &*other], "{listed}");
    assert_eq!((&two.rows()[..], &stored), ("5", &tree(&two.here.path("store"))), "a list removes nothing");
    let removed = two.prune(&[&keep[..], &["--yes"]].concat());
    assert_eq!((&removed["old"], &removed["problems"]), (&listed["old"], &json!([])), "{removed}");
    assert_eq!(two.rows(), "3");
    assert!(!two.folder(&gone).exists() && !two.folder(&other).exists() && two.folder(&kept).exists());
    assert_eq!(tree(&two.here.path("store/runs")).len(), 12);
    // The machines keep what they have, and do not bring it back.
    for lab in [&two.here, &two.there] {
        let sync = lab.json(&["archive", "sync", &two.place]);
        assert_eq!((&sync["pushed"]["removed"], &sync["pushed"]["moved"]), (&2.into(), &json!([])), "{sync}");
        assert_eq!(sync["pulled"]["moved"], json!([]), "{sync}");
        assert_eq!(tree(&lab.path("archive/runs")).len(), 20);
    }
    assert_eq!(two.here.json(&["archive", "push", &two.place, &gone])["pushed"]["removed"], 1);
    assert_eq!(two.rows(), "3");
    let fresh = Lab::new();
    assert_eq!(fresh.json(&["archive", "pull", &two.place])["pulled"]["moved"].as_array().unwrap().len(), 3);
    // Until a user allows it again.
    two.server.sql(&format!("DELETE FROM removed WHERE id = '{gone}'"));
    assert_eq!(two.push().code, Some(0));
    assert_eq!((&two.rows()[..], two.folder(&gone).exists()), ("4", true));
}

#[test]
fn a_bakeoff_is_removed_with_its_runs_or_not_at_all() {
    let Some(two) = Two::start() else { return };
    let plan = two.here.path("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    two.here.run(&["run", plan.to_str().unwrap(), "--archive", &two.place]);
    let id = two.server.sql("SELECT id FROM run WHERE shelf = 'bakeoffs'");
    two.age(&id);
    let one = two.server.sql("SELECT min(id) FROM run WHERE shelf = 'runs'");
    two.server.sql(&format!("UPDATE run SET pushed_at = now() WHERE id = '{one}'"));
    assert_eq!(old(&two.prune(&["--yes"])), [""; 0], "one of its runs is young");
    two.age(&id);
    two.server.sql(&format!("INSERT INTO label VALUES ('{one}', 'release', '2')"));
    assert_eq!(old(&two.prune(&["--keep", "release=2", "--yes"])), [""; 0], "one of its runs is kept");
    assert_eq!(two.rows(), "3");
    let removed = two.prune(&["--keep", "release=1", "--yes"]);
    assert_eq!((old(&removed), &removed["old"][0]["rows"]), (vec![&*id], &3.into()), "{removed}");
    assert_eq!(
        (&two.rows()[..], tree(&two.here.path("store")).len()),
        ("0", 1),
        "only the archive's id is left"
    );
    // A later state of it is not stored either.
    two.here.run(&["resume", &id]);
    let pushed = two.here.json(&["archive", "push", &two.place]);
    assert_eq!((&pushed["pushed"]["moved"], &two.rows()[..]), (&json!([]), "0"), "{pushed}");
}

#[test]
fn runs_of_a_bakeoff_that_has_not_ended_are_removed_with_its_name() {
    let Some(two) = Two::start() else { return };
    let plan = two.here.path("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    two.here.run(&["run", plan.to_str().unwrap(), "--archive", &two.place]);
    let id = two.server.sql("SELECT id FROM run WHERE shelf = 'bakeoffs'");
    two.age(&id);
    two.server.sql("DELETE FROM run WHERE shelf = 'bakeoffs'");
    let removed = two.prune(&["--yes"]);
    assert_eq!((old(&removed), &two.rows()[..]), (vec![&*id], "0"), "{removed}");
    assert_eq!(tree(&two.here.path("store")).len(), 1, "only the archive's id is left");
    assert_eq!(two.push().code, Some(0));
    assert_eq!(two.rows(), "0");
}

#[test]
fn a_killed_prune_is_completed_by_the_next() {
    let Some(two) = Two::start() else { return };
    let ids: Vec<String> = (0..8).map(|_| measure(&two.here)).collect();
    assert_eq!(two.push().code, Some(0));
    for id in &ids {
        two.age(id);
    }
    let mut kills = 0;
    for ms in (1..200).step_by(7) {
        let words = ["archive", "prune", two.place.as_str(), "--older-than", "90d", "--yes"];
        let mut child = two.here.command(&words).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(ms));
        let _ = child.kill();
        kills += usize::from(!child.wait().unwrap().success());
        // At any moment, a row has all its files.
        for name in two.server.sql("SELECT 'store/runs/' || run || '/' || name FROM file").lines() {
            assert!(two.here.path(name).exists(), "{name}");
        }
    }
    assert!(kills > 2, "the kills came too late: {kills}");
    assert_eq!(two.prune(&["--yes"])["problems"], json!([]));
    assert_eq!((&two.rows()[..], tree(&two.here.path("store")).len()), ("0", 1));
    assert_eq!(two.server.sql("SELECT count(*), count(*) FILTER (WHERE has_files) FROM removed"), "8|0");
}

#[test]
fn a_push_that_began_before_the_removal_stores_no_row_and_its_files_go() {
    let Some(two) = Two::start() else { return };
    let id = measure(&two.here);
    // The run is removed between the files of the push and its row.
    two.server.sql(
        "CREATE FUNCTION remove() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
             INSERT INTO removed (id, shelf, has_files) VALUES (NEW.id, NEW.shelf, false); RETURN NEW; END $$;
         CREATE TRIGGER remove BEFORE INSERT ON run FOR EACH ROW EXECUTE FUNCTION remove()",
    );
    let pushed = two.here.json(&["archive", "push", &two.place]);
    assert_eq!((&pushed["pushed"]["removed"], &two.rows()[..]), (&1.into(), "0"), "{pushed}");
    assert!(two.folder(&id).exists(), "its files are there");
    assert_eq!(two.prune(&["--yes"])["problems"], json!([]));
    assert!(!two.folder(&id).exists());
}

#[test]
fn what_a_store_does_not_let_go_is_named_and_tried_again() {
    let Some(two) = Two::start() else { return };
    let (bad, good) = (measure(&two.here), measure(&two.here));
    assert_eq!(two.push().code, Some(0));
    two.age(&bad);
    two.age(&good);
    fs::create_dir(two.folder(&bad).join("below")).unwrap();
    let words = ["archive", "prune", two.place.as_str(), "--older-than", "90d", "--yes"];
    let ended = two.here.run(&words);
    assert_eq!(
        (ended.code, ended.out.contains(&format!("{bad}: its files"))),
        (Some(1), true),
        "{}",
        ended.out
    );
    assert_eq!((&two.rows()[..], two.folder(&good).exists()), ("0", false));
    fs::remove_dir(two.folder(&bad).join("below")).unwrap();
    assert_eq!(two.prune(&["--yes"])["problems"], json!([]));
    assert!(!two.folder(&bad).exists());
}

#[test]
fn a_bucket_of_s3_loses_the_old_run_only() {
    let (Some(server), Some(s3)) = (Postgres::start(&[]), S3::start()) else { return };
    let lab = Lab::new();
    let place = server.place("s3://lab/team/one");
    let run = |words: &[&str]| {
        let mut command: Command = lab.command(words);
        command.env("AWS_ENDPOINT_URL", &s3.url).env("AWS_DEFAULT_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "lab").env("AWS_SECRET_ACCESS_KEY", "x");
        Ended::of(command.output().unwrap())
    };
    let (gone, kept) = (measure(&lab), measure(&lab));
    assert_eq!(run(&["archive", "migrate", &place]).code, Some(0));
    assert_eq!(run(&["archive", "push", &place]).code, Some(0));
    server.sql(&format!("UPDATE run SET pushed_at = now() - interval '100 days' WHERE id = '{gone}'"));
    // A run with a name that begins with the old one's, and a file of a push that was killed.
    let kind = "Content-Type: application/octet-stream";
    let put = ["-X", "PUT", "-H", "x-amz-acl: public-read-write", "-H", kind, "--data-binary", "other"];
    s3.curl(&put, &format!("team/one/runs/{gone}X/manifest.json"));
    s3.curl(&put, &format!("team/one/runs/{gone}/left"));
    let ended = run(&["archive", "prune", &place, "--older-than", "90d", "--yes"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let names = |id: &str| -> Vec<bool> {
        let local = lab.path("archive/runs").join(&kept);
        let files = fs::read_dir(Path::new(&local)).unwrap().flatten();
        let names = files.map(|file| file.file_name().into_string().unwrap()).chain(["left".to_owned()]);
        names.map(|name| !s3.curl(&[], &format!("team/one/runs/{id}/{name}")).contains("NoSuchKey")).collect()
    };
    assert_eq!(names(&gone), [false; 5]);
    assert_eq!(names(&kept).iter().filter(|is| **is).count(), 4);
    assert_eq!(s3.curl(&[], &format!("team/one/runs/{gone}X/manifest.json")), "other");
    let fresh = Lab::new();
    let pulled = {
        let mut command = fresh.command(&["archive", "pull", &place]);
        command.env("AWS_ENDPOINT_URL", &s3.url).env("AWS_DEFAULT_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "lab").env("AWS_SECRET_ACCESS_KEY", "x");
        Ended::of(command.output().unwrap())
    };
    assert_eq!((pulled.code, tree(&fresh.path("archive/runs")).len()), (Some(0), 4), "{}", pulled.out);
}
