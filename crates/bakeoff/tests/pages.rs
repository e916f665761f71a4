//! Pages that speak for themselves: each number can be compared with the archive, and the run repeated.

mod lab;

use std::fs;

use lab::{Ended, Lab};

fn last(ended: &Ended) -> &str {
    ended.out.lines().last().unwrap_or_default()
}

/// A plan of two configurations and two blocks, which takes a second.
fn plan(title: &str, values: [&str; 2]) -> String {
    format!(
        r#"
schema = 1
title  = "{title}"
[factors.name]
values    = ["{}", "{}"]
reference = "{}"
level     = "whole-plot"
[design]
blocks = 2
[load]
target = "exec:true"
rate   = "max"
[phases]
warm-up = {{ min = "20ms" }}
measure = {{ time = "300ms", interval = "100ms" }}
[judge]
family = "name vs reference"
"#,
        values[0], values[1], values[0]
    )
}

/// Runs a bake-off; returns its id. On a busy machine some of its trials may be INVALID.
fn bake(lab: &Lab, title: &str) -> String {
    let path = lab.path("plan.toml");
    fs::write(&path, plan(title, ["one", "other"])).expect("a plan");
    let ended = lab.run(&["run", path.to_str().expect("text"), "--json"]);
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
    let document: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    document["bakeoff"].as_str().expect("an id").to_owned()
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_fresh_page_agrees_with_the_archive_and_a_changed_one_does_not() {
    let lab = Lab::new();
    let id = bake(&lab, "Two names");
    for name in ["page.html", "page.md"] {
        let page = lab.path(name);
        assert_eq!(lab.run(&["report", &id, "-o", text(&page)]).code, Some(0));
        let verified = lab.run(&["report", "--verify", text(&page)]);
        assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
        assert!(
            last(&verified).starts_with("VALID: ") && last(&verified).contains("every byte"),
            "{}",
            verified.out
        );

        // More runs in the archive change nothing for this page.
        lab.run(&["load", "null:", "--rate", "100", "--time", "100ms", "--warmup", "0"]);
        assert_eq!(lab.run(&["report", "--verify", text(&page)]).code, Some(0));

        let written = fs::read_to_string(&page).expect("the page");
        for (found, instead) in [("of 4 trials", "of 9 trials"), ("Two names", "Two good names")] {
            assert!(written.contains(found), "{written}");
            fs::write(&page, written.replacen(found, instead, 1)).expect("it can be written");
            let verified = lab.run(&["report", "--verify", text(&page)]);
            assert_eq!(verified.code, Some(1), "{found}: {}", verified.out);
            assert!(
                last(&verified).starts_with("INVALID: ") && verified.out.contains(instead),
                "{}",
                verified.out
            );
        }
    }
    let document = lab.run(&["report", "--verify", text(&lab.path("page.html")), "--json"]);
    assert_eq!(document.code, Some(1));
    let document: serde_json::Value = serde_json::from_str(&document.out).expect("JSON");
    assert_eq!(document["schema"], "bakeoff.report-verify/1");
    assert_eq!(document["same_bytes"], false);
    assert!(document["differing"].as_array().is_some_and(|list| !list.is_empty()), "{document}");
}

#[test]
fn a_page_with_the_names_of_the_machine_and_one_of_a_load_agree_too() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms", "--warmup", "0"]);
    for more in [&[][..], &["--identify"]] {
        let page = lab.path("load.html");
        lab.run(&[&["report", "latest", "-o", text(&page)], more].concat());
        let verified = lab.run(&["report", "--verify", text(&page)]);
        assert_eq!(verified.code, Some(0), "{more:?}: {}{}", verified.out, verified.err);
    }
    // Its command is on the page by request only.
    let page = lab.path("load.html");
    let again = lab.run(&["reproduce", text(&page)]);
    assert!(
        again.code == Some(0) && last(&again).contains("load null: --rate 100"),
        "{}{}",
        again.out,
        again.err
    );
    lab.run(&["report", "latest", "-o", text(&page)]);
    let again = lab.run(&["reproduce", text(&page)]);
    assert!(again.code == Some(2) && again.err.contains("--identify"), "{}{}", again.out, again.err);
}

#[test]
fn damage_and_foreign_pages_are_told() {
    let lab = Lab::new();
    let id = bake(&lab, "Two names");
    let page = lab.path("page.html");
    lab.run(&["report", "latest", "-o", text(&page)]);
    let elsewhere = Lab::new();
    elsewhere.run(&["load", "null:", "--rate", "100", "--time", "100ms", "--warmup", "0"]);
    let foreign = elsewhere.run(&["report", "--verify", text(&page)]);
    assert!(foreign.code == Some(2) && foreign.err.contains(&id), "{}{}", foreign.out, foreign.err);
    let other = lab.path("other.html");
    fs::write(&other, "<!DOCTYPE html><html><body>12 %</body></html>").expect("a file");
    let told = lab.run(&["report", "--verify", text(&other)]);
    assert!(told.code == Some(1) && told.err.contains("does not name its runs"), "{}", told.err);
    // A file of a run that was changed after the page was written.
    let archived = lab.archived_bytes();
    let (path, bytes) =
        archived.iter().find(|(path, _)| path.ends_with("hist.parquet")).expect("a histogram");
    let mut bytes = bytes.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("it can be written");
    let verified = lab.run(&["report", "--verify", text(&page)]);
    assert!(verified.code == Some(1), "{}{}", verified.out, verified.err);
}

#[test]
fn several_bakeoffs_share_a_page() {
    let lab = Lab::new();
    let (first, second) = (bake(&lab, "Monday"), bake(&lab, "Tuesday"));
    let page = lab.path("both.html");
    let written = lab.run(&["report", "--compare", &first, &second, "-o", text(&page)]);
    assert_eq!(written.code, Some(0), "{}", written.err);
    let html = fs::read_to_string(&page).expect("the page");
    for word in ["Monday", "Tuesday", "side by side", "other against one", "not randomized"] {
        assert!(html.contains(word), "{word}: {html}");
    }
    let forced = lab.run(&["report", "--compare", &first, &second, "--force"]);
    assert!(forced.code == Some(2) && forced.err.contains("--force has no effect"), "{}", forced.err);
    let verified = lab.run(&["report", "--verify", text(&page)]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    lab.run(&["load", "null:", "--rate", "100", "--time", "100ms", "--warmup", "0"]);
    let load =
        lab.json(&["runs", "list", "--kind", "load"])["runs"][0]["run"].as_str().expect("an id").to_owned();
    let mixed = lab.run(&["report", "--compare", &first, &load]);
    assert!(mixed.code == Some(2) && mixed.err.contains("single run"), "{}", mixed.err);
}

#[test]
fn a_page_gives_its_plan_and_the_command_that_repeats_it() {
    let lab = Lab::new();
    bake(&lab, "Two names");
    let page = lab.path("page.html");
    lab.run(&["report", "latest", "-o", text(&page)]);
    let again = lab.path("again.toml");
    let told = lab.run(&["reproduce", text(&page), "-o", text(&again)]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert_eq!(fs::read_to_string(&again).expect("the plan"), plan("Two names", ["one", "other"]));
    assert!(told.out.contains("its checksum matches the archived plan"), "{}", told.out);
    assert_eq!(last(&told), format!("bakeoff run {}", again.display()));
    assert!(
        told.out.contains("nothing among the facts known of both machines"),
        "the same machine: {}",
        told.out
    );
    // A file of the user is not replaced by a page's plan.
    let refused = lab.run(&["reproduce", text(&page), "-o", text(&again)]);
    assert!(refused.code == Some(2) && refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(lab.run(&["plan", "check", text(&again)]).code, Some(0));
    // Another version and another kernel.
    let html = fs::read_to_string(&page).expect("the page");
    let (_, kernel) = html.rsplit_once("\"kernel.release\":\"").expect("a fact");
    let kernel = kernel.split('"').next().expect("its value");
    let old = html.replace(&format!("\"kernel.release\":\"{kernel}\""), "\"kernel.release\":\"2.6.9\"");
    let old = old.replace("\"measured_by\":\"", "\"measured_by\":\"0.0.");
    fs::write(&page, old).expect("it can be written");
    let document = lab.json(&["reproduce", text(&page), "-o", text(&again), "--force"]);
    assert_eq!(document["schema"], "bakeoff.reproduce/1");
    let what: Vec<&str> =
        document["differing"].as_array().expect("a list").iter().filter_map(|d| d["what"].as_str()).collect();
    assert_eq!(what, ["bakeoff", "kernel.release"], "{document}");
}

#[test]
fn a_page_opens_in_the_browser_of_the_user() {
    use std::os::unix::fs::PermissionsExt as _;

    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "100ms", "--warmup", "0"]);
    let (browser, shown) = (lab.path("browser"), lab.path("shown"));
    nix::unistd::mkfifo(&shown, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    fs::write(&browser, format!("#!/bin/sh\ncat \"$1\" > {}\n", shown.display())).expect("a script");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).expect("a mode");
    let page = lab.path("page.html");
    let mut command = lab.command(&["report", "latest", "--open", "-o", text(&page)]);
    let ended = Ended::of(command.env("BROWSER", &browser).output().expect("it starts"));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(fs::read(&shown).expect("what the browser writes"), fs::read(&page).expect("the page"));
    let mut command = lab.command(&["report", "latest", "--open", "-o", text(&page)]);
    let ended = Ended::of(command.env("BROWSER", "no-such-browser").output().expect("it starts"));
    assert!(ended.code == Some(6) && ended.err.contains("no-such-browser"), "{}", ended.err);
    // xdg-open would show nothing, and end well.
    let mut command = lab.command(&["report", "latest", "--open", "-o", text(&page)]);
    for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
        command.env_remove(name);
    }
    let ended = Ended::of(command.output().expect("it starts"));
    assert!(ended.code == Some(6) && ended.err.contains("there is no display"), "{}", ended.err);
}
