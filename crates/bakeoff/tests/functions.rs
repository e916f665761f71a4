//! The functions behind a difference, as a user sees them: a server that takes 20 % more time in one of its
//! functions. They need root, BTF, control groups of version 2 and a C compiler; without one, they name it.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod lab;

use std::path::Path;
use std::process::Command;

use lab::Lab;
use serde_json::Value;

/// Answers each request after a fixed number of steps in `parse`, and in `encode` as many as its second
/// argument says.
const SERVER: &str = r#"
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static volatile unsigned long x;

__attribute__((noinline)) static void parse(long n) { for (long i = 0; i < n; i++) x = x * 3 + 1; x++; }
__attribute__((noinline)) static void encode(long n) { for (long i = 0; i < n; i++) x = x * 5 + 1; x++; }

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct pollfd polled[64];
	int n = 1;

	if (argc != 3)
		return 2;
	strncpy(address.sun_path, argv[1], sizeof(address.sun_path) - 1);
	polled[0].fd = socket(AF_UNIX, SOCK_STREAM, 0);
	polled[0].events = POLLIN;
	if (bind(polled[0].fd, (struct sockaddr *)&address, sizeof(address)) || listen(polled[0].fd, 16))
		return 1;
	for (;;) {
		poll(polled, n, -1);
		for (int i = n - 1; i > 0; i--) {
			char request[4096];

			if (!polled[i].revents)
				continue;
			if (read(polled[i].fd, request, sizeof(request)) <= 0) {
				close(polled[i].fd);
				polled[i] = polled[--n];
				continue;
			}
			parse(20000);
			encode(atol(argv[2]));
			if (write(polled[i].fd, answer, sizeof(answer) - 1) < 0)
				return 3;
		}
		if (polled[0].revents && n < 64) {
			polled[n].fd = accept(polled[0].fd, NULL, NULL);
			polled[n].events = POLLIN;
			polled[n++].revents = 0;
		}
	}
}
"#;

/// - `observe`: lines of `[observe]`.
fn plan(server: &Path, observe: &str) -> String {
    format!(
        r#"
schema = 1
title  = "A function with 20 % more to do"

[factors.steps]
values    = [60000, 72000]
reference = 60000
level     = "whole-plot"

[design]
blocks = 6

[load]
target      = "http://localhost/"
unix_socket = "{{scratch}}/s"
threads     = 1

[server]
command = "{} {{scratch}}/s {{steps}}"
ready   = "socket:{{scratch}}/s"
user    = "root"

[phases]
warm-up = {{ min = "100ms" }}
measure = {{ time = "2s", interval = "500ms" }}

[observe]
{observe}
"#,
        server.display()
    )
}

/// The server, compiled; `None` if the test is impossible here.
fn server(lab: &Lab) -> Option<std::path::PathBuf> {
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|f| Path::new(f).join("cgroup.procs"));
    let can = nix::unistd::geteuid().is_root()
        && Path::new("/sys/kernel/btf/vmlinux").exists()
        && groups.iter().any(|file| file.exists());
    let (source, program) = (lab.path("server.c"), lab.path("server"));
    std::fs::write(&source, SERVER).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-omit-frame-pointer", "-o"]).arg(&program).arg(&source);
    if let (true, Ok(status)) = (can, cc.status()) {
        assert!(status.success());
        return Some(program);
    }
    eprintln!("skipped: needs root, BTF, control groups of version 2 and a C compiler");
    None
}

fn function<'a>(pair: &'a Value, name: &str) -> &'a Value {
    let all = pair["functions"].as_array().unwrap();
    all.iter().find(|f| f["function"] == name).unwrap_or_else(|| panic!("{name}: {pair}"))
}

#[test]
fn root_a_function_with_a_fifth_more_to_do_is_named_on_the_page_and_nothing_else_is() {
    let lab = Lab::new();
    let Some(server) = server(&lab) else { return };
    let file = lab.path("plan.toml");
    std::fs::write(&file, plan(&server, "instruments = [\"profile\"]")).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap(), "--beside-others"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    assert!(
        ended.out.contains("CPU time of the server's processes: steps=72000 against steps=60000"),
        "{}",
        ended.out
    );
    let document = lab.json(&["runs", "show", "latest"]);
    let pair = &document["profiles"]["pairs"][0];
    assert_eq!((&pair["of"], &pair["blocks"]), (&"server".into(), &6.into()), "{pair}");
    let encode = function(pair, "encode");
    // The truth is a ratio of steps: 72,000 of 60,000.
    let ns = |name: &str| encode[name].as_f64().unwrap();
    // With other work on the CPUs, samples are lost and blocks differ: the interval says so, and holds the
    // truth.
    if ended.out.contains("Disturbed, other-work") && encode["time"] == "unclear" {
        println!("skipped: the claim about `encode`: other work kept the CPUs busy");
    } else {
        assert_eq!(encode["time"], "more", "{encode}");
        assert!(ended.out.contains("More time in `encode`"), "{}", ended.out);
        let ratio = ns("a_ns_per_event") / ns("b_ns_per_event");
        assert!((1.13..1.27).contains(&ratio), "{ratio}: {encode}");
    }
    assert_ne!(function(pair, "parse")["time"], "more", "{pair}");
    let truth = 0.2 * ns("b_ns_per_event") / pair["whole"]["b_ns_per_event"].as_f64().unwrap();
    let [low, high] =
        ["low_adjusted_ratio", "high_adjusted_ratio"].map(|name| encode[name].as_f64().unwrap());
    assert!(low < truth && truth < high, "{truth}: {encode}");

    let page = lab.path("page.html");
    let ended = lab.run(&["report", "latest", "-o", page.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("id=\"functions\"") && html.contains("an event, reference"),
        "the page has no picture"
    );
    assert!(html.len() < 1_500_000, "{}", html.len());
    let verified = lab.run(&["report", "--verify", page.to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    damaged_profiles_are_left_out(&lab);
}

/// A profile that does not match its checksum: the verdicts stay, and the section has the reason.
fn damaged_profiles_are_left_out(lab: &Lab) {
    let archived = lab.archived_bytes();
    let (path, mut bytes) = archived.into_iter().find(|(p, _)| p.ends_with("profile.jsonl.zst")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();
    let document = lab.json(&["runs", "show", "latest"]);
    assert_eq!(document["profiles"]["left_out"]["its file is damaged"], 1, "{}", document["profiles"]);
    let pair = &document["profiles"]["pairs"][0];
    assert!(pair["blocks"] == 5 && pair["refused"].as_str().unwrap().contains("unevenly lost"), "{pair}");
    assert_eq!(function(pair, "encode")["time"], "unclear", "{pair}");
    assert_ne!(document["comparisons"].as_array().unwrap().len(), 0);
}

#[test]
fn root_the_control_arm_has_no_profiles_and_the_rest_is_too_few_for_a_claim() {
    let lab = Lab::new();
    let Some(server) = server(&lab) else { return };
    let file = lab.path("plan.toml");
    let text =
        plan(&server, "instruments = [\"profile\"]\ncontrol_arm = true").replace("\"2s\"", "\"500ms\"");
    std::fs::write(&file, text).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap(), "--beside-others", "--json"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
    let pair = &document["profiles"]["pairs"][0];
    assert_eq!(pair["blocks"], 3, "{pair}");
    let all = pair["functions"].as_array().unwrap();
    assert!(!all.is_empty() && all.iter().all(|f| f["time"] == "unclear"), "{pair}");
    assert_eq!(document["observing"].as_array().unwrap().len(), 3, "{}", document["observing"]);
}
