//! Attacks that need no connection.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::QueueState;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::json;

use super::{Desk, JSON, PLAN, TOML};
use crate::identity::Peer;

/// A text that would run if it became a tag or left an attribute.
const EVIL: &str = "</pre><script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

fn assert_inert(text: &str) {
    for part in ["<script>alert", "<img src=x", "</pre><script"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}

#[test]
fn no_text_of_an_entry_or_of_its_process_becomes_markup() {
    let desk = Desk::new(true);
    let level = json!([EVIL, "b"]);
    let plan = format!("# {EVIL}\n{PLAN}")
        .replace("[design]", &format!("[factors.arm]\nvalues = {level}\nlevel = \"sub-plot\"\n[design]"));
    let plan = plan.replace("blocks = 6", "blocks = 6 # <script>alert(3)</script>");
    let (status, text) = desk.send("POST", "/api/v1/queue", TOML, &plan);
    // A factor that nothing uses may be a fault: its message has the text, too.
    assert!(matches!(status, 201 | 422), "{status} {text}");
    assert!(text.contains("\"schema\""), "a document, not a page: {text}");
    let form = format!("csrf={}&do=check&plan={}", desk.app.access.csrf, percent(&plan));
    assert_inert(&desk.send("POST", "/plans/new", super::FORM, &form).1);
    let plan = format!("# {EVIL}\n{PLAN}");
    let (_, text) = desk.send("POST", "/api/v1/queue", TOML, &plan);
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    let id: RunId = entry["id"].as_str().unwrap().parse().unwrap();
    let mut queue = desk.app.queue().unwrap();
    queue.begin(id, RunId::fresh(WallAnchor::now())).unwrap();
    let folder = queue.workplace(id).unwrap();
    std::fs::write(folder.join("output.log"), format!("{EVIL}\n")).unwrap();
    queue.end(id, QueueState::Failed, None, Some(2), Some(EVIL)).unwrap();
    drop(queue);
    let page = desk.get(&format!("/queue/{id}")).1;
    assert_inert(&page);
    for part in ["# &#60;/pre&#62;", "alert(1)"] {
        assert!(page.contains(part), "the plan, the reason and the output are there: {part} {page}");
    }
    assert_inert(&desk.get("/").1);
    // A link in the place of the output leads nowhere.
    std::fs::remove_file(folder.join("output.log")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("output.log")).unwrap();
    let (_, text) = desk.get(&format!("/api/v1/queue/{id}/output"));
    assert!(!text.contains("root:"), "{text}");
}

fn percent(text: &str) -> String {
    let mut out = String::new();
    text.bytes().for_each(|b| write!(out, "%{b:02X}").unwrap());
    out
}

#[test]
fn a_tag_has_no_markup_and_a_link_changes_nothing() {
    let desk = Desk::new(true);
    let (entry, run) = (desk.submit(), desk.run("a"));
    let note = |tag: &str| {
        desk.send("PUT", &format!("/api/v1/runs/{run}/note"), JSON, &json!({"tags": [tag]}).to_string()).0
    };
    for tag in [EVIL, "a\"b", "a<b", "a'b", "a b", "a\u{202e}b", "a\nb", ""] {
        assert_eq!(note(tag), 400, "{tag}");
    }
    // An image or a link of another site can send these.
    let id = entry["id"].as_str().unwrap();
    for action in ["cancel", "pause", "prioritize"] {
        assert_eq!(desk.get(&format!("/queue/{id}/{action}")).0, 405, "{action}");
    }
    for path in [format!("/runs/{run}/delete"), format!("/runs/{run}/note"), "/logout".to_owned()] {
        assert_eq!(desk.get(&path).0, 405, "{path}");
    }
    assert!(desk.get(&format!("/api/v1/queue/{id}")).1.contains("\"waiting\""));
    let evil = [("Origin", "http://evil.example"), ("Content-Type", super::FORM)];
    assert_eq!(desk.ask("POST", "/login", &evil, "token=x").0, 403, "a login for a victim");
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_password_is_in_no_file_wherever_a_client_puts_it() {
    const SECRET: &str = "mysql://app:S3CR3T@127.0.0.1/db";
    let desk = Desk::new(true);
    let titled = |title: &str| PLAN.replace("title = \"t\"", &format!("title = \"{title}\""));
    for plan in [
        PLAN.replace("null:", SECRET),
        titled(SECRET),
        // The text of the plan does not have the form of a secret; its title has.
        titled("mysql:\\u002F/app:S3CR3T@127.0.0.1/db"),
        titled("\\u002D-password S3CR3T"),
    ] {
        let (status, text) = desk.send("POST", "/api/v1/queue", TOML, &plan);
        assert!(status == 422 && !text.contains("S3CR3T"), "{status} {text} {plan}");
    }
    let by = json!({"plan": PLAN, "by": SECRET}).to_string();
    let (status, text) = desk.send("POST", "/api/v1/queue", JSON, &by);
    assert!(status == 422 && !text.contains("S3CR3T"), "{status} {text}");
    assert_eq!(desk.app.queue().unwrap().entries(9).unwrap(), []);
    let note = format!("/api/v1/runs/{}/note", desk.sealed("a"));
    let (status, text) = desk.send("PUT", &note, JSON, &json!({"note": SECRET}).to_string());
    assert!(status == 200 && text.contains("mysql://app:***@"), "{status} {text}");
    assert_eq!(desk.send("PUT", &note, JSON, &json!({"tags": ["password=S3CR3T"]}).to_string()).0, 400);
    let (all, mut names) = (files(desk.app.archive.dir()), Vec::new());
    for file in &all {
        let bytes = std::fs::read(file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("S3CR3T"), "{}", file.display());
        names.extend(file.file_name().and_then(|name| name.to_str()));
    }
    assert!(names.contains(&"audit.jsonl") && names.contains(&"queue.sqlite"), "{names:?}");
}

#[test]
fn an_address_that_is_not_text_is_refused_as_any_other() {
    let desk = Desk::new(true);
    for (method, path) in [
        ("GET", "/api/v1/runs/%FF"),
        ("GET", "/api/v1/runs/%ff/export"),
        ("POST", "/api/v1/queue/%C3/pause"),
        ("GET", "/runs/%FF/about"),
        ("GET", "/queue/x%80y"),
        ("GET", "/%FF"),
    ] {
        let request = Request::builder().method(method).uri(path).extension(desk.peer.clone());
        let router = TowerToHyperService::new(crate::server::router(&desk.app));
        let request = request.body(Body::empty()).unwrap();
        let answer = desk.runtime.block_on(router.call(request)).unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!((answer.status().as_u16(), header("x-content-type-options")), (400, Some("nosniff")));
        assert!(header("content-security-policy").is_some(), "{path}");
        let of_type = if path.starts_with("/api/") { JSON } else { "text/html; charset=utf-8" };
        assert_eq!(header("content-type"), Some(of_type), "{path}");
    }
    assert_eq!(desk.get("/queue/%C3%BC").0, 404, "a name in UTF-8 that no entry has");
}

/// The answer to a request for an export by a host, of which nothing is read.
fn export(desk: &Desk, host: u8, run: RunId) -> axum::response::Response {
    let peer = Peer::Tcp { address: ([10, 0, 0, host], 9).into(), uid: None, certificate: None };
    let request = Request::get(format!("/api/v1/runs/{run}/export")).extension(peer);
    let request = request.header(AUTHORIZATION, "Bearer 0123456789012345678901").body(Body::empty());
    let router = TowerToHyperService::new(crate::server::router(&desk.app));
    desk.runtime.block_on(router.call(request.unwrap())).unwrap()
}

#[test]
fn a_reader_that_takes_nothing_cannot_keep_the_places_of_exports() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "read ann 0123456789012345678901\n").unwrap();
    let desk = Desk::with(false, Some(tokens.path()), |app| app.exports_rest_time = Duration::from_secs(1));
    // It has several parts, which all wait for the client.
    let run = desk.sealed(&"x".repeat(300_000));
    let held = export(&desk, 1, run);
    assert_eq!(held.status(), 200);
    assert_eq!(
        [export(&desk, 1, run).status(), export(&desk, 2, run).status()],
        [429_u16, 200],
        "a peer has one place"
    );
    let pause = || desk.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    let again = (0..200).any(|_| {
        pause();
        export(&desk, 1, run).status() == 200
    });
    assert!(again, "the place of an answer that is not read is not given back");
    let rest = desk.runtime.block_on(held.into_body().collect());
    assert!(rest.is_err(), "its beginning does not look like the whole");
}

#[test]
fn changes_have_a_limit_of_their_own() {
    let desk = Desk::new(true);
    let posts: Vec<u16> = (0..70).map(|_| desk.send("POST", "/api/v1/queue", TOML, "schema = 2").0).collect();
    assert!(posts[..60].iter().all(|status| *status == 422), "{posts:?}");
    // In as long as this takes, a slow machine may give a few back.
    assert!(posts[60..].contains(&429), "{posts:?}");
    assert_eq!(desk.get("/api/v1/queue").0, 200, "reading goes on");
}

#[test]
fn one_peer_cannot_take_the_places_of_all_viewers() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "read ann 0123456789012345678901\n").unwrap();
    let desk = Desk::with(false, Some(tokens.path()), |_| ());
    let view = |host: u8| {
        let peer = Peer::Tcp { address: ([10, 0, 0, host], 9).into(), uid: None, certificate: None };
        let request = Request::get("/api/v1/events").header(AUTHORIZATION, "Bearer 0123456789012345678901");
        let request = request.extension(peer).body(Body::empty()).unwrap();
        let router = TowerToHyperService::new(crate::server::router(&desk.app));
        desk.runtime.block_on(router.call(request)).unwrap()
    };
    let of_one: Vec<_> = (0..64).map(|_| view(1)).collect();
    let others: Vec<_> = (2..6).flat_map(|host| (0..16).map(move |_| host)).map(view).collect();
    let with = |status: u16, all: &[axum::response::Response]| {
        all.iter().filter(|answer| answer.status() == status).count()
    };
    assert_eq!((with(200, &of_one), with(429, &of_one)), (16, 48));
    assert_eq!((with(200, &others), with(429, &others)), (48, 16), "64 in all");

    // Pages that are closed make room for those that follow, though nothing new is shown meanwhile.
    drop(of_one);
    let pause = || desk.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
    let again = (0..400).any(|_| {
        pause();
        view(1).status() == 200
    });
    assert!(again, "a viewer that left keeps its place");
}
