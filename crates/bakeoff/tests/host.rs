//! `bakeoff host` as a user runs it.

mod lab;

use lab::Lab;

#[test]
fn a_machine_is_shown_kept_in_a_file_and_compared_with_another() {
    let lab = Lab::new();
    let here = lab.run(&["host"]);
    assert!(here.out.contains("cpu.model") && here.out.contains("kernel.release"), "{}", here.out);
    let document = lab.json(&["host", "show"]);
    assert_eq!(document["schema"], "bakeoff.host/1");
    assert!(document["cpu"]["threads"].as_u64().is_some_and(|n| n > 0), "{document}");
    for cache in document["cpu"]["caches"].as_array().into_iter().flatten() {
        assert!(cache["size_bytes"].as_u64().is_some_and(|n| n >= 1_024), "{document}");
    }
    assert!(document["memory_bytes"].as_u64().is_some_and(|n| n > 0), "{document}");

    let mut other = document.clone();
    other["facts"]["kernel.release"] = "9.9.9".into();
    let path = lab.path("other.json");
    std::fs::write(&path, other.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let compared = lab.run(&["host", "compare", "here", path]);
    assert!(compared.out.contains("1 of "), "{}", compared.out);
    assert!(compared.out.lines().nth(1).is_some_and(|l| l.contains("9.9.9")), "{}", compared.out);
    assert_eq!(lab.json(&["host", "compare", "here", path])["differing"][0], "kernel.release");

    let page = lab.path("hosts.html");
    lab.run(&["host", "compare", "here", path, "-o", page.to_str().unwrap()]);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("What differs") && html.contains("9.9.9"), "{html}");

    // The machine of a run.
    let load = lab.json(&["load", "null:", "--rate", "100", "--time", "100ms", "--warmup", "0"]);
    let shown = lab.run(&["host", "show", load["run"].as_str().unwrap()]);
    assert!(shown.out.contains("cpu.model"), "{}", shown.out);
}

#[test]
fn what_is_no_machine_is_told() {
    let lab = Lab::new();
    let path = lab.path("x.json");
    std::fs::write(&path, "{}").unwrap();
    let path = path.to_str().unwrap();
    for (words, code, word) in [
        (&["host", "show", path][..], 2, "bakeoff.host/1"),
        (&["host", "show", "no-such-thing"], 6, "no-such-thing"),
        (&["host", "compare", "here"], 2, "HOST"),
        (&["host", "show", "-o", "x.txt"], 2, ".html"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{words:?}: {}", ended.err);
    }
}
