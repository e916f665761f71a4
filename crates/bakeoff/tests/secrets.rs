//! Secrets in every spelling of the table, planted in every part of a plan and its processes: none may appear
//! in the archive, its index, an export, a page or on the screen.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use lab::Lab;

/// A spelling and the secret in it.
struct Planted {
    text: String,
    secret: String,
}

/// Each spelling of the table, with a unique secret.
fn planted() -> Vec<Planted> {
    let table = include_str!("../../record/testdata/secrets.txt");
    let spellings = table.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let planted = spellings.enumerate().map(|(i, line)| {
        let line = line.replace("\\t", "\t").replace("\\n", "\n");
        if line.contains("S3CR3T") {
            let secret = format!("Zq{i:03}xV7");
            return Planted { text: line.replace("S3CR3T", &secret), secret };
        }
        // A secret that is recognized by its form is the longest word.
        let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
        let secret = words.max_by_key(|word| word.len()).unwrap().to_owned();
        Planted { text: line, secret }
    });
    planted.collect()
}

/// Starts a web server that answers every request with `ok`; returns its port.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut stream = stream;
                while let Some(Ok(line)) = lines.next() {
                    // A request without a body ends with an empty line.
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    if line.is_empty() && stream.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

const PHASES: &str = r#"
[design]
blocks = 1
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "200ms", interval = "100ms" }
"#;

/// Every file of the archive, with logs unpacked, and all output about its contents.
fn everything(lab: &Lab, ids: &[String]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (path, bytes) in lab.archived_bytes() {
        let bytes = if path.extension().is_some_and(|e| e == "zst") {
            let unpacked = Command::new("zstd").arg("-dcq").arg(&path).output().expect("zstd is installed");
            assert!(unpacked.status.success(), "{}", path.display());
            unpacked.stdout
        } else {
            bytes
        };
        all.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    let mut pages = Vec::new();
    let mut said = |words: &[&str]| {
        let ended = lab.run(words);
        assert!(matches!(ended.code, Some(0..=5)), "{words:?}: {:?} {}", ended.code, ended.err);
        all.push((words.join(" "), format!("{}{}", ended.out, ended.err)));
    };
    said(&["runs", "list", "--all"]);
    said(&["runs", "list", "--all", "--json"]);
    for id in ids {
        said(&["runs", "show", id]);
        said(&["runs", "show", id, "--json"]);
        for format in ["csv", "json", "openmetrics"] {
            said(&["runs", "export", id, "--format", format]);
        }
        for form in ["html", "md"] {
            let page = lab.path(&format!("{id}.{form}"));
            said(&["report", id, "--identify", "-o", page.to_str().unwrap()]);
            pages.push(page);
        }
    }
    for page in pages {
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        all.push((page.display().to_string(), text));
    }
    for (_, text) in &mut all {
        // The text as a reader sees it.
        for (escape, sign) in [("&quot;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        {
            *text = text.replace(escape, sign);
        }
    }
    all
}

/// The names of all runs and bake-offs of the archive.
fn ids(lab: &Lab) -> Vec<String> {
    let listed = lab.json(&["runs", "list", "--all"]);
    let runs = listed["runs"].as_array().unwrap();
    let name =
        |run: &serde_json::Value| ["id", "run"].iter().find_map(|key| run[key].as_str().map(str::to_owned));
    runs.iter().map(|run| name(run).expect("it has a name")).collect()
}

fn assert_hidden(all: &[(String, String)], planted: &[Planted], written: &str) {
    let mut found = Vec::new();
    for Planted { text, secret } in planted.iter().filter(|p| written.contains(&p.secret)) {
        for (place, content) in all.iter().filter(|(_, content)| content.contains(secret.as_str())) {
            let at = content.find(secret.as_str()).unwrap();
            let from = content.floor_char_boundary(at.saturating_sub(60));
            found.push(format!("{text:?} in {place}: ...{}", &content[from..at + secret.len()]));
        }
    }
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}

/// Number of masked texts in the files of this name.
fn stars(all: &[(String, String)], name: &str) -> usize {
    let of_name = all.iter().filter(|(place, _)| Path::new(place).file_name().is_some_and(|n| n == name));
    of_name.map(|(_, content)| content.matches("***").count()).sum()
}

#[test]
fn secrets_of_a_plan_are_in_nothing_that_is_stored_or_shown() {
    let (lab, planted, port) = (Lab::new(), planted(), web_server());
    let comments: Vec<String> =
        planted.iter().filter(|p| !p.text.contains('\n')).map(|p| format!("# {}\n", p.text)).collect();
    let comments = comments.concat();
    let texts: Vec<&str> = planted.iter().flat_map(|p| [p.text.as_str(), "\n"]).collect();
    let texts = texts.concat();
    let secret = |spelling: &str| {
        let found = planted.iter().find(|p| p.text.starts_with(spelling));
        found.unwrap_or_else(|| panic!("no {spelling}")).secret.clone()
    };
    let headers: Vec<String> = planted
        .iter()
        .filter_map(|p| Some(p.text.strip_prefix("-H '")?.strip_suffix('\'')?.to_owned()))
        .map(|header| format!("{header:?}"))
        .collect();
    assert!(headers.len() >= 6 && planted.len() >= 100, "{} {}", headers.len(), planted.len());
    let plan = format!(
        r#"# control-77 --port 11211
{comments}
schema = 1
title  = "Secrets of a plan"
question = '''
{texts}
'''
[load]
target = "http://bob:{0}@127.0.0.1:{port}/x?sig={1}&X-Amz-Signature={2}&a=1"
rate   = 200
header = [{3}]
{PHASES}"#,
        secret("mysql://"),
        secret("http://h/x?sig="),
        secret("http://h/x?X-Amz-Signature="),
        headers.join(", "),
    );
    let path = lab.path("plan.toml");
    fs::write(&path, &plan).unwrap();
    let path = path.to_str().unwrap();

    let checked = lab.run(&["plan", "check", path]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    let warnings = format!("{}{}", checked.out, checked.err).matches("looks like a secret").count();
    assert!(warnings >= comments.lines().count(), "{warnings} warnings: {}", checked.out);

    let ran = lab.run(&["run", path]);
    assert!(matches!(ran.code, Some(0 | 3)), "{:?} {}", ran.code, ran.err);
    let mut all = everything(&lab, &ids(&lab));
    all.push(("the screen".to_owned(), format!("{}{}", ran.out, ran.err)));
    assert_hidden(&all, &planted, &plan);
    // The plan is stored, without the secrets.
    let stored = all.iter().find(|(place, _)| place.ends_with("/plan.toml")).unwrap();
    assert!(stored.1.starts_with("# control-77 --port 11211\n"), "{}", stored.1);
    assert!(stars(&all, "plan.toml") >= 2 * comments.lines().count());
    assert!(all.iter().any(|(place, text)| place.ends_with("manifest.json") && text.contains("sig=***")));
}

#[test]
fn secrets_that_servers_and_commands_print_are_in_nothing_that_is_stored_or_shown() {
    let (lab, planted) = (Lab::new(), planted());
    // bakeoff may start a server as a user without access to the lab.
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A log is masked line by line.
    let lines: Vec<&Planted> = planted.iter().filter(|p| !p.text.contains('\n')).collect();
    let texts: Vec<&str> = lines.iter().flat_map(|p| [p.text.as_str(), "\n"]).collect();
    let texts = texts.concat();
    let said = open.path().join("said");
    fs::write(&said, format!("control-77 --port 11211\n{texts}")).unwrap();
    let said = said.to_str().unwrap();
    let plan = |server: &str| {
        format!(
            "schema = 1\ntitle = \"Said\"\n[load]\ntarget = \"null:\"\nrate = 1000\n[server]\n{server}\n{PHASES}"
        )
    };
    let path = lab.path("plan.toml");
    let mut all = Vec::new();
    let mut run = |text: &str| {
        fs::write(&path, text).unwrap();
        let ran = lab.run(&["run", path.to_str().unwrap()]);
        all.push(("the screen".to_owned(), format!("{}{}", ran.out, ran.err)));
        ran
    };
    // One server prints the secrets and is measured; further ones print a part of them as their last words.
    let ready = "ready = \"test -e {scratch}/ready\"";
    let ran = run(&plan(&format!(
        "command = \"sh -c 'cat {said}; touch {{scratch}}/ready; exec sleep 1000'\"\n{ready}"
    )));
    assert!(matches!(ran.code, Some(0 | 3)), "{:?} {}", ran.code, ran.err);
    for part in (0..lines.len()).step_by(lines.len() / 4) {
        let ran =
            run(&plan(&format!("command = \"sh -c 'head -n {part} {said} | tail -n 20; exit 1'\"\n{ready}")));
        assert_eq!(ran.code, Some(5), "{}", ran.err);
    }
    all.extend(everything(&lab, &ids(&lab)));
    assert_hidden(&all, &planted, &texts);
    let log = all.iter().find(|(place, _)| place.ends_with("server.log.zst")).unwrap();
    assert!(log.1.starts_with("control-77 --port 11211\n"), "{}", log.1);
    assert!(stars(&all, "server.log.zst") >= lines.len());
    assert!(stars(&all, "events.jsonl") > 0, "the last words of a server");
}

#[test]
fn secrets_of_a_command_line_are_in_nothing_that_is_stored_or_shown() {
    let (lab, planted, port) = (Lab::new(), planted(), web_server());
    let target = format!("http://127.0.0.1:{port}/");
    let mut written = String::new();
    for some in planted.chunks(24) {
        let mut words = vec!["load", &target, "--rate", "200", "--time", "100ms", "--warmup", "0s"];
        for header in some.iter().filter_map(|p| p.text.strip_prefix("-H '")?.strip_suffix('\'')) {
            words.extend(["--header", header]);
        }
        let titles: Vec<&str> = some.iter().map(|p| p.text.as_str()).filter(|t| !t.contains('\n')).collect();
        let title = titles.join(" ; ");
        // One word, because a title may begin with a dash.
        let title = format!("--title={title}");
        words.push(&title);
        let ended = lab.run(&words);
        assert!(matches!(ended.code, Some(0 | 3)), "{:?} {}", ended.code, ended.err);
        written.push_str(&words.join(" "));
    }
    let all = everything(&lab, &ids(&lab));
    assert_hidden(&all, &planted, &written);
    assert!(stars(&all, "manifest.json") > planted.len());
}
