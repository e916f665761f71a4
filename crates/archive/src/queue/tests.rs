use serde_json::Value;

use super::*;
use crate::entry::Deaths;

fn archive() -> (tempfile::TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    (folder, archive)
}

fn plan(title: &str, priority: i32) -> Submission {
    Submission {
        id: fresh(),
        plan: format!("title = \"{title}\"\n"),
        plan_sha256: "0".repeat(64),
        title: title.to_owned(),
        by: "ann".to_owned(),
        priority,
        not_before_unix_ns: None,
        estimate_s: 1.5,
    }
}

fn titles(queue: &Queue) -> Vec<String> {
    queue.entries(100).unwrap().into_iter().map(|entry| entry.title).collect()
}

fn fresh() -> RunId {
    RunId::fresh(WallAnchor::now())
}

#[test]
fn entries_run_by_priority_and_then_by_submission() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    for (title, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        queue.submit(&plan(title, priority)).unwrap();
    }
    assert_eq!(titles(&queue), ["b", "d", "a", "c"]);
    let late = Submission { not_before_unix_ns: Some(1_000), ..plan("late", 9) };
    let late = queue.submit(&late).unwrap();
    assert_eq!(queue.next(999).unwrap().unwrap().title, "b", "not yet");
    assert_eq!(queue.next(1_000).unwrap().unwrap().id, late.id);
    queue.prioritize(late.id, -1).unwrap();
    assert_eq!(queue.next(1_000).unwrap().unwrap().title, "b");
}

#[test]
fn the_bake_off_of_an_open_entry_stays_whoever_removes_it() {
    let (_folder, archive) = archive();
    let bakeoff = || {
        let id = fresh();
        fs::create_dir(archive.bakeoff_dir(id)).unwrap();
        id
    };
    archive.remove(bakeoff()).unwrap();
    assert!(!archive.dir().join("queue.sqlite").exists(), "a removal makes no queue");
    let mut queue = archive.queue().unwrap();
    let (entry, run) = (queue.submit(&plan("a", 0)).unwrap().id, bakeoff());
    queue.begin(entry, run).unwrap();
    let is_refused =
        || matches!(archive.remove(run), Err(ArchiveError::Queued { entry: found, .. }) if found == entry);
    assert!(is_refused() && archive.bakeoff_dir(run).is_dir(), "its process is about to begin");
    queue.end(entry, QueueState::Paused, None, Some(130), None).unwrap();
    assert!(is_refused());
    archive.remove(bakeoff()).unwrap();
    queue.act(entry, Action::Resume).unwrap();
    assert!(is_refused());
    queue.act(entry, Action::Cancel).unwrap();
    archive.remove(run).unwrap();
    // A queue that cannot be read may hold any bake-off.
    drop(queue);
    fs::write(archive.dir().join("queue.sqlite"), "no database").unwrap();
    let run = bakeoff();
    assert!(matches!(archive.remove(run), Err(ArchiveError::Unreadable { .. })));
    assert!(archive.bakeoff_dir(run).is_dir());
}

#[test]
fn the_version_of_a_queue_differs_after_each_change_by_whichever_process() {
    let (_folder, archive) = archive();
    let (mut queue, mut other) = (archive.queue().unwrap(), archive.queue().unwrap());
    let mut versions = vec![queue.version().unwrap()];
    let mut is_new = |queue: &Queue| {
        let version = queue.version().unwrap();
        let is_new = !versions.contains(&version);
        versions.push(version);
        is_new
    };
    let id = queue.submit(&plan("a", 0)).unwrap().id;
    assert!(is_new(&queue), "our own change");
    assert!(!is_new(&queue), "a look is not a change");
    other.prioritize(id, 3).unwrap();
    assert!(is_new(&queue), "that of another connection");
    queue.begin(id, fresh()).unwrap();
    assert!(is_new(&queue));
    other.act(id, Action::Pause).unwrap();
    assert!(is_new(&queue));
    assert!(!is_new(&queue));
}

#[test]
fn an_entry_keeps_the_run_that_it_got_first() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let id = queue.submit(&plan("a", 0)).unwrap().id;
    let first = fresh();
    assert_eq!(queue.begin(id, first).unwrap().run, Some(first));
    assert!(matches!(queue.begin(id, fresh()), Err(QueueError::Refused(_))), "it runs already");
    queue.end(id, QueueState::Paused, None, Some(130), None).unwrap();
    queue.act(id, Action::Resume).unwrap();
    assert_eq!(queue.begin(id, fresh()).unwrap().run, Some(first), "a second run would double it");
}

#[test]
fn what_was_written_is_there_after_the_process_is_gone() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let id = queue.submit(&plan("a", 3)).unwrap().id;
    let begun = queue.begin(id, fresh()).unwrap();
    let asked = queue.act(id, Action::Pause).unwrap();
    assert_eq!((asked.state, asked.wish), (QueueState::Running, Some(Wish::Pause)), "its process decides");
    // Another connection stands for the next process; the first one is never closed in order.
    let next = archive.queue().unwrap();
    assert_eq!(next.current().unwrap(), Some(asked.clone()));
    assert_eq!((asked.run, asked.submitted_unix_ns), (begun.run, begun.submitted_unix_ns));
    assert_eq!(next.plan(id).unwrap(), "title = \"a\"\n");
}

#[test]
fn a_plan_with_a_password_is_refused_since_the_archive_holds_none() {
    let (folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let secret = "mysql://app:S3CR3T@localhost/test".to_owned();
    for new in [
        Submission { plan: format!("target = \"{secret}\"\n"), ..plan("a", 0) },
        Submission { title: secret.clone(), ..plan("a", 0) },
        Submission { by: secret.clone(), ..plan("a", 0) },
    ] {
        assert!(matches!(queue.submit(&new), Err(QueueError::Secret)), "{new:?}");
    }
    queue.audit(&serde_json::json!({"what": {"title": secret, "tags": [secret]}, "who": secret})).unwrap();
    drop(queue);
    for name in ["queue.sqlite", "queue.sqlite-wal", "audit.jsonl"] {
        let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
        assert!(!bytes.windows(6).any(|part| part == b"S3CR3T"), "{name}");
    }
}

#[test]
fn one_process_runs_the_queue() {
    let (_folder, archive) = archive();
    let first = archive.queue_worker().unwrap();
    assert!(first.is_some() && archive.queue_worker().unwrap().is_none());
    drop(first);
    assert!(archive.queue_worker().unwrap().is_some());
}

#[test]
fn a_link_in_place_of_the_queue_is_refused() {
    let (folder, archive) = archive();
    let other = folder.path().join("precious");
    fs::write(&other, "x").unwrap();
    std::os::unix::fs::symlink(&other, folder.path().join("queue.sqlite")).unwrap();
    assert!(archive.queue().is_err());
    assert_eq!(fs::read_to_string(&other).unwrap(), "x");
}

#[test]
fn an_entry_is_found_by_any_unique_name_and_no_other() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let (a, b) = (queue.submit(&plan("a", 0)).unwrap(), queue.submit(&plan("b", 0)).unwrap());
    assert_eq!(queue.find(&a.id.short(8).to_lowercase()).unwrap().id, a.id);
    assert_eq!(queue.find(&b.id.to_string()).unwrap().id, b.id);
    assert!(matches!(queue.find("01"), Err(QueueError::Ambiguous { .. })));
    for none in ["", "ZZZZZZ", "../x"] {
        assert!(matches!(queue.find(none), Err(QueueError::NotFound { .. })), "{none}");
    }
}

#[test]
fn a_long_history_of_entries_costs_a_list_nothing_and_hides_none_that_is_open() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    for n in 0..5 {
        let id = queue.submit(&plan(&n.to_string(), 0)).unwrap().id;
        if n != 1 {
            queue.act(id, Action::Cancel).unwrap();
        }
    }
    let of = |ended_max| queue.entries(ended_max).unwrap().into_iter().map(|e| e.title).collect::<Vec<_>>();
    assert_eq!([of(0), of(2), of(9)], [vec!["1"], vec!["1", "4", "3"], vec!["1", "4", "3", "2", "0"]]);
    let counts = queue.counts().unwrap();
    let counts: Vec<_> = counts.into_iter().collect();
    assert_eq!(counts, [(QueueState::Waiting, 1), (QueueState::Cancelled, 4)]);
}

#[test]
fn half_a_line_of_the_audit_log_does_not_swallow_the_next() {
    let (folder, archive) = archive();
    let queue = archive.queue().unwrap();
    let path = folder.path().join("audit.jsonl");
    fs::write(&path, "{\"action\":\"sub").unwrap();
    queue.audit(&serde_json::json!({"action": "cancel", "who": "ann\n{\"who\":\"bob\"}"})).unwrap();
    queue.audit(&serde_json::json!({"action": "pause"})).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Option<Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(lines.len(), 3, "a name with a line break makes no line: {text}");
    assert!(lines[0].is_none() && lines[1].is_some() && lines[2].is_some(), "{text}");
}

#[test]
fn a_queue_of_the_first_version_keeps_its_entries() {
    let all = ["told_unix_ns", "recorded_unix_ns", "left_unix_ns", "deaths", "deaths_ended"];
    for (version, columns) in [(1, &all[..]), (2, &all[1..]), (3, &all[3..])] {
        let (folder, archive) = archive();
        let mut queue = archive.queue().unwrap();
        let id = queue.submit(&plan("a", 0)).unwrap().id;
        drop(queue);
        let old = Connection::open(folder.path().join("queue.sqlite")).unwrap();
        for column in columns {
            old.execute_batch(&format!("ALTER TABLE entry DROP COLUMN {column}")).unwrap();
        }
        old.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
        drop(old);
        let mut queue = archive.queue().unwrap();
        assert_eq!(queue.deaths(id).unwrap(), Deaths::default());
        queue.act(id, Action::Cancel).unwrap();
        assert_eq!(queue.untold(0).unwrap().len(), 1);
        assert_eq!(queue.untold(i64::MAX.cast_unsigned()).unwrap().len(), 0, "an end of long ago");
        queue.told(&queue.entry(id).unwrap()).unwrap();
        assert_eq!(queue.untold(0).unwrap().len(), 0);
    }
}

#[test]
fn an_end_of_long_ago_has_its_time_and_is_still_to_be_told() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let id = queue.submit(&plan("a", 0)).unwrap().id;
    queue.begin(id, fresh()).unwrap();
    let recorded = WallAnchor::now().unix_ns;
    queue.end(id, QueueState::Done, Some(1_000), Some(0), None).unwrap();
    assert_eq!(queue.entry(id).unwrap().ended_unix_ns, Some(1_000), "no server ran when it ended");
    assert_eq!(queue.untold(recorded).unwrap().len(), 1, "a webhook has not heard of it");
}

#[test]
fn a_pause_that_no_user_asked_for_is_told_and_so_is_the_end_after_it() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let id = queue.submit(&plan("a", 0)).unwrap().id;
    let states = |queue: &Queue| {
        let untold = queue.untold(WallAnchor::now().unix_ns - 3_600_000_000_000).unwrap();
        untold.iter().map(|entry| entry.state).collect::<Vec<_>>()
    };
    queue.begin(id, fresh()).unwrap();
    queue.end(id, QueueState::Paused, None, Some(130), None).unwrap();
    assert_eq!(states(&queue), [], "a user asked for it");
    queue.act(id, Action::Resume).unwrap();
    queue.begin(id, fresh()).unwrap();
    queue.end(id, QueueState::Paused, None, Some(130), Some("the time budget")).unwrap();
    assert_eq!(states(&queue), [QueueState::Paused]);
    let paused = queue.entry(id).unwrap();
    queue.told(&paused).unwrap();
    assert_eq!(states(&queue), []);
    // A user resumes it, and pauses it before it begins: the reason is not that of this pause.
    queue.act(id, Action::Resume).unwrap();
    assert_eq!(queue.act(id, Action::Pause).unwrap().reason, None);
    assert_eq!(states(&queue), []);
    queue.act(id, Action::Resume).unwrap();
    queue.begin(id, fresh()).unwrap();
    // The receiver's answer to the pause arrives late.
    queue.told(&paused).unwrap();
    queue.end(id, QueueState::Done, None, Some(0), None).unwrap();
    assert_eq!(states(&queue), [QueueState::Done], "its end is told, too");
    let other = queue.submit(&plan("b", 0)).unwrap().id;
    queue.begin(other, fresh()).unwrap();
    queue.end(other, QueueState::Paused, None, Some(130), Some("the time budget")).unwrap();
    queue.told(&queue.entry(other).unwrap()).unwrap();
    queue.act(other, Action::Cancel).unwrap();
    assert!(states(&queue).contains(&QueueState::Cancelled), "{:?}", states(&queue));
}

#[test]
fn the_end_of_a_server_is_known_to_the_next_one_until_it_starts_a_process() {
    let (_folder, archive) = archive();
    let mut queue = archive.queue().unwrap();
    let id = queue.submit(&plan("a", 0)).unwrap().id;
    queue.begin(id, fresh()).unwrap();
    assert!(!queue.is_left(id).unwrap());
    queue.leave(id).unwrap();
    let mut next = archive.queue().unwrap();
    assert!(next.is_left(id).unwrap());
    let once = Deaths::default().and_a_start();
    next.take_over(id, once).unwrap();
    assert!(!next.is_left(id).unwrap());
    assert_eq!(archive.queue().unwrap().deaths(id).unwrap(), once, "the next server knows of its process");
    // A process that a user started by hand: its stop is the user's.
    next.leave(id).unwrap();
    next.end(id, QueueState::Paused, None, Some(130), None).unwrap();
    next.act(id, Action::Resume).unwrap();
    next.begin(id, fresh()).unwrap();
    assert!(!next.is_left(id).unwrap());
    assert_eq!(next.deaths(id).unwrap(), Deaths::default(), "a user has resumed it");
}
