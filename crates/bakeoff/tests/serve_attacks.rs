//! Attacks on `bakeoff serve`: none may reach a file, an account or a browser.

#![cfg(feature = "serve")]
#![expect(clippy::unwrap_used, reason = "this whole file is tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use house::{House, PLAN, Reply};
use lab::Lab;

mod house;
mod lab;
#[path = "attacks/masses.rs"]
mod masses;
#[path = "attacks/tls.rs"]
mod tls;

const READ: &str = "read-token-of-enough-letters";
const RUN: &str = "run-token-of-enough-letters";
/// A text that would run if it became a tag or left an attribute.
const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

fn token_file(lab: &Lab) -> String {
    let path = lab.path("tokens");
    std::fs::write(&path, format!("# tokens\nread ann {READ}\nrun bob {RUN}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn entries(lab: &Lab) -> usize {
    lab.json(&["queue", "list"])["entries"].as_array().unwrap().len()
}

/// Checks that no text of others is markup in a page.
fn assert_inert(page: &Reply, place: &str) {
    for part in ["<script>alert", "<img src=x", "onerror=alert(2)>"] {
        assert!(!page.body.contains(part), "{place} has {part}");
    }
    for part in [
        "content-security-policy: default-src 'none'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(part), "{place} lacks {part}: {}", page.head);
    }
}

#[test]
fn no_path_leaves_the_archive() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    std::fs::write(lab.path("archive/secret.txt"), "S3CR3T").unwrap();
    let house = House::open(&lab, &["--queue"]);
    for path in [
        "/../../../../etc/passwd",
        "/runs/../../secret.txt",
        "/runs/..%2f..%2fsecret.txt",
        "/runs/%2e%2e%2fsecret.txt",
        "/runs/....//....//etc/passwd",
        "/runs/%2Fetc%2Fpasswd",
        "/runs/%00",
        "/runs/..\\..\\secret.txt",
        "/runs/../secret.txt/about",
        "/assets/../secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/style.css/../../secret.txt",
        "/queue/..%2f..%2fsecret.txt",
        "/api/v1/runs/..%2f..%2fsecret.txt",
        "/api/v1/runs/..%2f..%2fsecret.txt/export",
        "/api/v1/runs/01/export?format=../../secret.txt",
        "/api/v1/queue/..%2f..%2fsecret.txt/plan",
        "/api/v1/queue/..%2f..%2fsecret.txt/output",
        "/secret.txt",
        "/queue.sqlite",
        "/audit.jsonl",
        "//etc/passwd",
        "file:///etc/passwd",
    ] {
        let reply = house.get(path);
        assert!((400..500).contains(&reply.status), "{path}: {}", reply.head);
        assert!(!reply.body.contains("S3CR3T") && !reply.body.contains("root:"), "{path}: {}", reply.body);
    }
    let compared = house.get("/compare?runs=../secret.txt,/etc/passwd");
    assert!(compared.status == 404 && !compared.body.contains("root:"), "{}", compared.body);
}

#[test]
fn no_text_of_others_becomes_markup() {
    let lab = Lab::new();
    let title = EVIL.replace('"', "\\\"");
    std::fs::write(lab.path("plan.toml"), PLAN.replace("two rates of nothing", &title)).unwrap();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms", "--label", &format!("evil={EVIL}")]);
    lab.run(&["run", lab.path("plan.toml").to_str().unwrap()]);
    lab.run(&["runs", "tag", "latest", "--note", EVIL]);
    // Its errors have the text of the command.
    std::fs::write(lab.path("evil.txt"), EVIL).unwrap();
    let fails = format!("exec:cat {} >&2; exit 1", lab.path("evil.txt").display());
    lab.run(&["load", &fails, "--rate", "20", "--time", "300ms"]);
    let house = House::open(&lab, &["--queue"]);
    let plan = lab.path("plan.toml");
    let submitted = lab.json(&[
        "queue",
        "submit",
        plan.to_str().unwrap(),
        "--not-before",
        "2099-01-01T00:00:00Z",
        "--by",
        EVIL,
    ]);
    let listed = lab.json(&["runs", "list"]);
    let ids: Vec<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "{listed}");
    let evil = "%3Cscript%3Ealert(1)%3C/script%3E%22'%3E%3Cimg%20src=x%20onerror=alert(2)%3E";
    let pages = [
        "/".to_owned(),
        "/runs".to_owned(),
        format!("/runs?text={evil}&label={evil}&since={evil}&kind={evil}&page={evil}"),
        format!("/runs/{}", ids[0]),
        format!("/runs/{}", ids[1]),
        format!("/runs/{}/about", ids[0]),
        format!("/runs/{}/about", ids[1]),
        format!("/runs/{evil}"),
        format!("/compare?runs={},{}", ids[0], ids[1]),
        format!("/compare?runs={evil},{evil}"),
        "/history".to_owned(),
        format!("/history?metric={evil}&of={evil}&label={evil}"),
        format!("/queue/{}", submitted["id"].as_str().unwrap()),
        format!("/queue/{evil}"),
        format!("/{evil}"),
    ];
    for path in &pages {
        assert_inert(&house.get(path), path);
    }
    assert!(
        house.get(&format!("/runs/{}", ids[0])).body.contains("alert(1)"),
        "the error of an event is shown"
    );
    let form = |plan: &str, by: &str| {
        let body = format!(
            "csrf={}&do=submit&plan={plan}&by={by}&priority={evil}&not_before={evil}",
            house.csrf(&[])
        );
        house.ask("POST", "/plans/new", &[("Content-Type", "application/x-www-form-urlencoded")], &body)
    };
    assert_inert(&form(evil, evil), "a plan with faults");
    let wrong_key = format!("schema+%3D+1%0A%22{evil}%22+%3D+1");
    assert_inert(&form(&wrong_key, evil), "a key with markup");
    // Documents are no pages, whatever a browser would like them to be.
    let document = house.get(&format!("/api/v1/runs/{evil}"));
    assert!(document.head.contains("content-type: application/json"), "{}", document.head);
    let streamed = house.ask("GET", "/api/v1/queue", &[("Accept", "text/html")], "");
    assert!(streamed.head.contains("content-type: application/json"), "{}", streamed.head);
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    let lab = Lab::new();
    std::fs::write(lab.path("plan.toml"), PLAN).unwrap();
    let house = House::open(&lab, &["--queue"]);
    let csrf = house.csrf(&[]);
    let own = format!("http://{}", house.address);
    let form = "application/x-www-form-urlencoded";
    let plan = "schema+%3D+1";
    let submit = |headers: &[(&str, &str)], csrf: &str| {
        let body = format!("csrf={csrf}&do=submit&plan={plan}");
        house.ask("POST", "/plans/new", headers, &body).status
    };
    // Our own page gets as far as the plan, which is wrong.
    assert_eq!(submit(&[("Content-Type", form), ("Origin", &own)], &csrf), 422);
    for (what, headers, csrf) in [
        ("no token", vec![("Content-Type", form)], ""),
        ("a wrong token", vec![("Content-Type", form)], "0123456789abcdef"),
        ("another origin", vec![("Content-Type", form), ("Origin", "http://evil.example")], csrf.as_str()),
        ("no origin to speak of", vec![("Content-Type", form), ("Origin", "null")], csrf.as_str()),
        (
            "the origin with another port",
            vec![("Content-Type", form), ("Origin", "http://127.0.0.1:1")],
            csrf.as_str(),
        ),
        (
            "a cross-site request",
            vec![("Content-Type", form), ("Sec-Fetch-Site", "cross-site")],
            csrf.as_str(),
        ),
        ("a same-site request", vec![("Content-Type", form), ("Sec-Fetch-Site", "same-site")], csrf.as_str()),
    ] {
        assert_eq!(submit(&headers, csrf), 403, "{what}");
    }
    // Types that a form can send are refused by the API.
    for kind in ["text/plain", form, "multipart/form-data; boundary=x", ""] {
        let reply = house.ask("POST", "/api/v1/queue", &[("Content-Type", kind)], PLAN);
        assert_eq!(reply.status, 415, "{kind}");
    }
    let crossed = house.ask(
        "POST",
        "/api/v1/queue",
        &[("Content-Type", "application/toml"), ("Origin", "http://evil.example")],
        PLAN,
    );
    assert_eq!(crossed.status, 403);
    // A name of another site that resolves to this machine.
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""] {
        assert_eq!(house.ask("GET", "/", &[("Host", host)], "").status, 421, "{host}");
    }
    let preflight = house.ask(
        "OPTIONS",
        "/api/v1/queue",
        &[("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")],
        "",
    );
    assert!(!preflight.head.contains("access-control-allow"), "{}", preflight.head);
    assert_eq!(entries(&lab), 0);
}

#[test]
fn a_request_that_is_too_large_or_malformed_is_refused() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &["--queue"]);
    let toml = ("Content-Type", "application/toml");
    let large = "#".repeat(2 << 20);
    assert_eq!(house.ask("POST", "/api/v1/queue", &[toml], &large).status, 413, "an announced length");
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let head = format!(
        "POST /api/v1/queue HTTP/1.1\r\nHost: {}\r\nContent-Type: application/toml\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        house.address
    );
    let answer = house.raw(&[head.as_bytes(), chunk.as_bytes()].concat());
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "a length that is not announced: {answer}"
    );
    let plan = format!("{PLAN}# {}", "x".repeat(300 << 10));
    assert_eq!(
        house.ask("POST", "/api/v1/queue", &[toml], &plan).status,
        422,
        "a plan is smaller than a body"
    );
    assert_eq!(house.get(&format!("/runs?text={}", "x".repeat(8 << 10))).status, 414);
    let long = "x".repeat(256 << 10);
    assert_eq!(house.ask("GET", "/", &[("X-Long", &long)], "").status, 431);
    let many: Vec<(String, String)> = (0..500).map(|n| (format!("X-{n}"), "y".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(house.ask("GET", "/", &many, "").status, 431);
    for body in [
        "\u{0}\u{0}",
        "{",
        "[]",
        "{\"plan\":1e999}",
        "{\"plan\":\"x\",\"shell\":\"y\"}",
        &"[".repeat(100_000),
    ] {
        let reply = house.ask("POST", "/api/v1/queue", &[("Content-Type", "application/json")], body);
        assert!(matches!(reply.status, 400 | 422), "{}: {}", &body[..body.len().min(20)], reply.status);
    }
    let not_text = [format!("POST /api/v1/queue HTTP/1.1\r\nHost: {}\r\nContent-Type: application/toml\r\nContent-Length: 2\r\nConnection: close\r\n\r\n", house.address).as_bytes(), &[0xff, 0xfe]].concat();
    assert!(house.raw(&not_text).starts_with("HTTP/1.1 400"));
    for method in ["TRACE", "PUT", "PATCH", "CONNECT", "POST"] {
        let status = house.ask(method, "/runs", &[], "").status;
        assert!((400..500).contains(&status), "{method}: {status}");
    }
    // Two lengths, or a length and chunks: two readers could disagree on where the request ends.
    for lines in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ] {
        let text = format!(
            "POST /api/v1/queue HTTP/1.1\r\nHost: {}\r\n{lines}Connection: close\r\n\r\nhello",
            house.address
        );
        let answer = house.raw(text.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // A line break in a path does not become a header.
    let split = house.ask(
        "POST",
        "/queue/x%0d%0aSet-Cookie:%20a=b/pause",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        &format!("csrf={}", house.csrf(&[])),
    );
    assert!(!split.head.contains("set-cookie"), "{}", split.head);
    assert_eq!(entries(&lab), 0);
    assert_eq!(house.get("/healthz").status, 200, "it still answers");
}

#[test]
fn a_slow_request_ends_and_others_are_answered_meanwhile() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &["--queue"]);
    let mut heads: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&house.address).unwrap()).collect();
    for stream in &mut heads {
        stream.write_all(b"GET / HT").unwrap();
    }
    let head = format!(
        "POST /api/v1/queue HTTP/1.1\r\nHost: {}\r\nContent-Type: application/toml\r\nContent-Length: 100\r\n\r\n#",
        house.address
    );
    let mut slow = TcpStream::connect(&house.address).unwrap();
    slow.write_all(head.as_bytes()).unwrap();
    assert_eq!(house.get("/healthz").status, 200);
    // Both end by the server's limits; a server without them would never answer.
    let mut answer = String::new();
    let _ = slow.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    for stream in &mut heads {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert_eq!(entries(&lab), 0);
}

#[test]
fn a_wrong_token_gets_nothing_and_guessing_is_slowed_down() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let tokens = token_file(&lab);
    let house = House::open(&lab, &["--queue", "--token-file", &tokens]);
    let get = |headers: &[(&str, &str)]| house.ask("GET", "/api/v1/runs", headers, "");
    assert_eq!(get(&[("Authorization", &bearer(READ))]).status, 200);
    let near = &READ[..READ.len() - 1];
    for (what, headers) in [
        ("none", vec![]),
        ("a cookie with a token", vec![("Cookie", format!("__Host-bakeoff={RUN}"))]),
        ("a short one", vec![("Authorization", bearer(near))]),
        ("another scheme", vec![("Authorization", format!("Basic {RUN}"))]),
        ("an empty one", vec![("Authorization", bearer(""))]),
    ] {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let reply = get(&headers);
        assert_eq!(reply.status, 401, "{what}");
        assert!(!reply.body.contains("runs\":"), "{what}: {}", reply.body);
    }
    assert_eq!(
        house.get(&format!("/api/v1/runs?token={RUN}")).status,
        401,
        "a token in an address lands in logs"
    );
    for path in ["/", "/runs", "/events", "/hosts", "/plans/new"] {
        let reply = house.get(path);
        assert!(reply.status == 303 && reply.head.contains("location: /login"), "{path}: {}", reply.head);
    }
    for path in ["/metrics", "/api/v1/queue", "/api/v1/events", "/api/v1/hosts"] {
        assert_eq!(house.get(path).status, 401, "{path}");
    }
    let statuses: Vec<u16> =
        (0..30).map(|n| get(&[("Authorization", &bearer(&format!("guess-{n}")))]).status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let login = house.ask(
        "POST",
        "/login",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        &format!("token={RUN}"),
    );
    assert_eq!(login.status, 429, "the form is slowed down too: {}", login.head);
}

#[test]
fn a_session_cookie_is_out_of_reach_of_scripts_and_other_sites() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let tokens = token_file(&lab);
    let house = House::open(&lab, &["--queue", "--token-file", &tokens]);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(house.ask("POST", "/login", &[form], "token=wrong").status, 401);
    let login = house.ask("POST", "/login", &[form], &format!("token={READ}"));
    assert_eq!(login.status, 303);
    for part in ["httponly", "secure", "samesite=strict", "path=/", "__host-bakeoff="] {
        assert!(login.head.contains(part), "{part}: {}", login.head);
    }
    assert!(!login.head.contains(&READ.to_lowercase()), "the cookie is not the token");
}

#[test]
fn a_role_that_reads_runs_and_removes_nothing() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let run = lab.json(&["runs", "list"])["runs"][0]["run"].as_str().unwrap().to_owned();
    let tokens = token_file(&lab);
    let house = House::open(&lab, &["--queue", "--token-file", &tokens]);
    let (reader, runner) = (bearer(READ), bearer(RUN));
    let toml = ("Content-Type", "application/toml");
    let ask = |token: &str, method: &str, path: &str, body: &str| {
        house.ask(method, path, &[("Authorization", token), toml], body)
    };
    assert_eq!(ask(&reader, "POST", "/api/v1/queue", PLAN).status, 403);
    let later = format!("{{\"plan\":{},\"not_before\":\"2099-01-01T00:00:00Z\"}}", serde_json::json!(PLAN));
    let json = ("Content-Type", "application/json");
    let made = house.ask("POST", "/api/v1/queue", &[("Authorization", &runner), json], &later);
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["by"], "bob");
    let entry = made.json()["id"].as_str().unwrap().to_owned();
    for action in ["pause", "resume", "cancel", "prioritize"] {
        let path = format!("/api/v1/queue/{entry}/{action}");
        assert_eq!(
            house.ask("POST", &path, &[("Authorization", &reader), json], "{}").status,
            403,
            "{action}"
        );
    }
    assert_eq!(ask(&reader, "DELETE", &format!("/api/v1/runs/{run}"), "").status, 403);
    assert_eq!(ask(&reader, "GET", &format!("/api/v1/queue/{entry}/output"), "").status, 403);
    let csrf = house.csrf(&[("Authorization", &reader)]);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let page =
        |path: &str, body: &str| house.ask("POST", path, &[("Authorization", &reader), form], body).status;
    assert_eq!(page("/plans/new", &format!("csrf={csrf}&do=submit&plan=x")), 403);
    assert_eq!(page(&format!("/queue/{entry}/cancel"), &format!("csrf={csrf}")), 403);
    assert_eq!(page(&format!("/runs/{run}/delete"), &format!("csrf={csrf}&confirm={run}")), 403);
    assert_eq!(page(&format!("/runs/{run}/note"), &format!("csrf={csrf}&tags=x")), 403);
    let put = |token: &str| {
        let headers = [("Authorization", token), json];
        house.ask("PUT", &format!("/api/v1/runs/{run}/note"), &headers, "{\"tags\":[\"x\"]}").status
    };
    assert_eq!(put(&reader), 403);
    assert!(!ask(&reader, "GET", "/", "").body.contains("<button"), "its pages offer no actions");
    // The audit log has the changes that were made, each with a name.
    assert_eq!(ask(&runner, "DELETE", &format!("/api/v1/runs/{run}"), "").status, 200);
    let audit = std::fs::read_to_string(lab.path("archive/audit.jsonl")).unwrap();
    assert!(audit.matches("\"action\"").count() == 2 && !audit.contains("ann"), "{audit}");
    assert!(audit.contains("\"who\":\"bob\"") && audit.contains("\"action\":\"remove\""), "{audit}");
    assert!(!audit.contains(RUN), "an audit log holds no token");
}

#[test]
fn a_read_only_server_runs_nothing() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let run = lab.json(&["runs", "list"])["runs"][0]["run"].as_str().unwrap().to_owned();
    let house = House::open(&lab, &[]);
    assert_eq!(house.ask("POST", "/api/v1/queue", &[("Content-Type", "application/toml")], PLAN).status, 403);
    assert_eq!(house.ask("DELETE", &format!("/api/v1/runs/{run}"), &[], "").status, 403);
    assert!(!lab.path("archive/serve.sock").exists() && !lab.path("archive/queue.sqlite").exists());
}

#[test]
fn an_address_that_others_reach_needs_encryption_and_a_credential() {
    let lab = Lab::new();
    let tokens = token_file(&lab);
    let refused = |words: &[&str]| {
        let ended = lab.run(&[&["serve"], words].concat());
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.err);
        ended.err
    };
    let why = refused(&["--listen", "0.0.0.0:0"]);
    assert!(why.contains("--tls-cert") && why.contains("--token-file"), "{why}");
    refused(&["--listen", "0.0.0.0:0", "--token-file", &tokens]);
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&["--token-file", &tokens]).contains("chmod 600"));
    let Some((cert, key)) = tls::certificate(&lab) else { return };
    let tls = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    refused(&[&["--listen", "0.0.0.0:0"][..], &tls].concat());
    refused(&["--tls-cert", cert.to_str().unwrap(), "--tls-key", &tokens]);
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    let house = House::open(&lab, &[&["--queue", "--token-file", &tokens][..], &tls].concat());
    assert_eq!(house.scheme, "https");
    assert!(house.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").find("HTTP/1.1 200").is_none(), "no plain text");
    let url = format!("https://{}", house.address);
    let own = std::fs::write(lab.path("token"), RUN);
    own.unwrap();
    let token = lab.path("token");
    let with = ["--server", &url, "--ca", cert.to_str().unwrap(), "--token-file", token.to_str().unwrap()];
    assert_eq!(lab.json(&[&["queue", "list"][..], &with].concat())["entries"].as_array().unwrap().len(), 0);
    let unknown = lab.run(&["queue", "list", "--server", &url, "--token-file", token.to_str().unwrap()]);
    assert!(unknown.code == Some(6) && !unknown.err.contains(RUN), "an unknown authority: {}", unknown.err);
}

#[test]
fn other_users_of_the_machine_get_no_answer() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &["--queue"]);
    let socket = lab.path("archive/serve.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let (host, port) = house.address.rsplit_once(':').unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port}; printf 'GET /api/v1/runs HTTP/1.1\\r\\nHost: {}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
        house.address
    );
    let as_nobody = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c", &script])
        .output();
    match as_nobody {
        Ok(ended) if ended.status.success() => {
            let text = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert!(text.starts_with("HTTP/1.1 403"), "{text}");
        }
        _ => println!("skipped: only root can act as another user"),
    }
    assert_eq!(house.get("/api/v1/runs").status, 200, "this user does");
}

#[test]
fn a_user_who_closes_the_connection_at_once_is_not_taken_for_root() {
    let lab = Lab::new();
    let house = House::open(&lab, &["--queue"]);
    let (host, port) = house.address.rsplit_once(':').unwrap();
    let request = format!(
        "POST /api/v1/queue HTTP/1.1\\r\\nHost: {}\\r\\nContent-Type: application/toml\\r\\nContent-Length: {}\\r\\n\\r\\n",
        house.address,
        PLAN.len()
    );
    let plan = lab.path("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    std::fs::set_permissions(&plan, std::fs::Permissions::from_mode(0o644)).unwrap();
    // Each request is whole when its socket is closed; the kernel's table then shows uid 0 for it.
    let script = format!(
        "plan=$(cat; echo x); plan=${{plan%x}}; for n in $(seq 200); do exec 3<>/dev/tcp/{host}/{port}; printf '{request}%s' \"$plan\" >&3; exec 3>&-; done"
    );
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c", &script]);
    let ended = command.stdin(std::fs::File::open(&plan).unwrap()).output();
    if !ended.is_ok_and(|ended| ended.status.success()) {
        println!("skipped: only root can act as another user");
        return;
    }
    assert_eq!(house.get("/healthz").status, 200);
    assert_eq!(entries(&lab), 0, "no plan of another user is in the queue");
    let audit = std::fs::read_to_string(lab.path("archive/audit.jsonl")).unwrap_or_default();
    assert_eq!(audit, "");
}

#[test]
fn a_page_of_another_site_takes_no_time_and_no_place() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &[]);
    let from = |site: &str, mode: &str, path: &str| {
        house.ask("GET", path, &[("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)], "").status
    };
    for path in ["/events", "/api/v1/events", "/hosts", "/metrics"] {
        assert_eq!(
            [from("cross-site", "no-cors", path), from("same-site", "cors", path)],
            [403, 403],
            "{path}"
        );
    }
    assert_eq!(from("cross-site", "navigate", "/runs"), 200, "a reader may follow a link");
    assert_eq!([from("same-origin", "cors", "/metrics"), from("none", "navigate", "/")], [200, 200]);
}
