//! Agents and users of this machine that are hostile, against a real NATS server.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test binary; clippy only knows its test functions"
)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bakeoff_fleet::{self as fleet, Fleet, Seen, conduct, survey};
use futures_util::{FutureExt as _, StreamExt as _};
use load::Stop;
use nix::unistd::{Uid, geteuid, setfsuid};
use record::agents::FleetSettings;
use serde_json::{Value, json};
use support::{Member, Nats, read, words};

/// The agents that answer, once the expected number does.
fn answering(server: &fleet::Server, number: usize) -> Vec<Seen> {
    loop {
        let seen = survey(server, Duration::from_secs(1), &Stop::new()).unwrap_or_default();
        if seen.len() == number {
            return seen;
        }
    }
}

/// Another user's program at the server's port: it says what a server says, and notes what it hears.
struct Stranger {
    is_over: Arc<AtomicBool>,
    connections: Arc<AtomicU32>,
    heard: JoinHandle<Vec<u8>>,
}

impl Stranger {
    fn listen(port: u16) -> Self {
        let (is_over, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&connections));
        let heard = thread::spawn(move || {
            // A socket belongs to the user for files of the thread that makes or accepts it.
            setfsuid(Uid::from_raw(65_534));
            let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
            listener.set_nonblocking(true).unwrap();
            let mut heard = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let Ok((mut stream, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                let info = json!({"server_id": "x", "version": "2.10.0", "max_payload": 1 << 20, "proto": 1,
                                  "headers": true, "auth_required": true, "nonce": "of-a-stranger"});
                // A client that leaves early is a good one.
                let _ = stream.write_all(format!("INFO {info}\r\n").as_bytes());
                let _ = stream.read_to_end(&mut heard);
                count.fetch_add(1, Ordering::SeqCst);
            }
            heard
        });
        Self { is_over, connections, heard }
    }

    fn await_connections(&self, number: u32) {
        while self.connections.load(Ordering::SeqCst) < number {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) -> String {
        self.is_over.store(true, Ordering::SeqCst);
        String::from_utf8_lossy(&self.heard.join().unwrap()).into_owned()
    }
}

#[test]
fn another_user_who_takes_the_port_of_a_server_that_is_down_gets_no_password_and_no_signature() {
    if !geteuid().is_root() {
        return println!("skipped: only root can be another user too");
    }
    let key = nkeys::KeyPair::new_user();
    let seed = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(seed.path(), format!("{}\n", key.seed().unwrap())).unwrap();
    let users = format!(
        "authorization {{ users: [ {{ user: fleet, password: fleet-secret }}, {{ nkey: {} }} ] }}",
        key.public_key()
    );
    let Some(mut nats) = Nats::start_with_users(&users) else { return };
    let by_key = format!("nats://127.0.0.1:{}", nats.port());
    let by_key = fleet::Server::new(&by_key, Some(seed.path()), None).unwrap();
    let _members = [Member::start(nats.server_of("fleet"), "a1"), Member::start(by_key.clone(), "a2")];
    answering(&by_key, 2);
    nats.kill();
    let stranger = Stranger::listen(nats.port());
    // Both agents try to return, again and again.
    stranger.await_connections(6);
    for server in [nats.server_of("fleet"), by_key.clone()] {
        let told = survey(&server, Duration::from_secs(1), &Stop::new()).unwrap_err().to_string();
        assert!(told.contains("belongs to another user") && !told.contains("AuthError"), "{told}");
    }
    assert_eq!(stranger.end(), "", "the stranger heard something");
    nats.restart(false);
    let names: Vec<String> = answering(&by_key, 2).into_iter().map(|seen| seen.agent).collect();
    assert_eq!(names, ["a1", "a2"], "they return to their own server");
}

/// The permissions that the documentation recommends, for these agents; `lead` may do everything.
fn users(agents: &[&str]) -> String {
    let page = include_str!("../../../docs/fleet.md");
    let begin = page.find("  { nkey: UAGENT1...").expect("the page has an example");
    let end = begin + page[begin..].find("} }").expect("which ends") + 3;
    let of = |agent: &&str| {
        let user = format!("user: {agent}, password: {agent}-secret");
        page[begin..end].replace("nkey: UAGENT1...", &user).replace("gen1", agent)
    };
    let agents: Vec<String> = agents.iter().map(of).collect();
    format!(
        "authorization {{ users: [\n{}\n{{ user: lead, password: lead-secret }}\n] }}\n",
        agents.join("\n")
    )
}

#[test]
fn with_the_documented_permissions_an_agent_plays_its_share() {
    let Some(nats) = Nats::start_with_users(&users(&["gen1", "gen2", "p1"])) else { return };
    let members = ["gen1", "gen2"].map(|id| Member::start(nats.server_of(id), id));
    let prober = Member::probing(nats.server_of("p1"), "p1");
    let (stop, words) = (Stop::new(), words("400 period 2 600 all"));
    let fleet = Fleet {
        server: &nats.server_of("lead"),
        asked: FleetSettings { probe_per_s: Some(20.0), ..FleetSettings::of(2) },
        run: "permitted".to_owned(),
        meant: read(&words).unwrap(),
        words,
        patience: Duration::from_secs(10),
        lead: Duration::from_millis(500),
        stop: &stop,
    };
    let (record, spools) = conduct(&fleet, &mut |_| {}).unwrap();
    assert_eq!(record.counts.planned, 240);
    for name in ["agents", "slices", "slice-sums"] {
        let check = record.verdict.checks.iter().find(|check| check.name == name).unwrap();
        assert!(check.ok, "{check:?}");
    }
    assert!(record.probe.unwrap().record.is_ok());
    spools.release();
    assert!(members.iter().chain([&prober]).all(|member| member.kept().is_empty()));
}

async fn connected(url: &str, user: &str) -> async_nats::Client {
    let options = async_nats::ConnectOptions::with_user_and_password(user.into(), format!("{user}-secret"));
    options.custom_inbox_prefix(format!("_INBOX.{user}")).connect(url).await.unwrap()
}

/// An agent's key in other hands: it answers for gen1, and listens to all that it may not hear.
fn impostor(
    url: String,
    is_over: Arc<AtomicBool>,
) -> (std::sync::mpsc::Receiver<()>, JoinHandle<Vec<String>>) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connected(&url, "gen2").await;
            let mut overheard = Vec::new();
            for subject in
                ["_INBOX.>", "_INBOX.conductor.>", "_INBOX.gen1.>", "bakeoff.agent.gen1", "bakeoff.>"]
            {
                overheard.push(client.subscribe(subject).await.unwrap());
            }
            let mut hellos = client.subscribe("bakeoff.hello").await.unwrap();
            let mut last = client.subscribe("_INBOX.gen2.last").await.unwrap();
            client.flush().await.unwrap();
            ready.send(()).unwrap();
            let hello = |agent: &str| {
                let hello = json!({"agent": agent, "host": "of the impostor", "version": "x", "cpus": 4242,
                                   "busy": null, "epoch": "ee"});
                bytes::Bytes::from(hello.to_string())
            };
            while !is_over.load(Ordering::SeqCst) {
                let next = tokio::time::timeout(Duration::from_millis(20), hellos.next()).await;
                let Ok(Some(question)) = next else { continue };
                let reply = question.reply.unwrap();
                for (to, agent) in [
                    (reply.to_string(), "gen1"),
                    (format!("{reply}.gen1"), "gen1"),
                    (format!("{reply}.gen2"), "gen1"),
                    (format!("{reply}.gen2"), "gen2"),
                ] {
                    client.publish(to, hello(agent)).await.unwrap();
                }
                client.flush().await.unwrap();
            }
            // Everything that the server had for this connection has come before this.
            last.next().await.unwrap();
            let heard =
                overheard.iter_mut().filter_map(|subscriber| subscriber.next().now_or_never().flatten());
            heard.map(|message| format!("{}: {:?}", message.subject, message.payload)).collect()
        })
    });
    (is_ready, thread)
}

#[test]
fn with_the_documented_permissions_one_agent_can_neither_be_another_nor_hear_it() {
    let Some(nats) = Nats::start_with_users(&users(&["gen1", "gen2"])) else { return };
    let _member = Member::start(nats.server_of("gen1"), "gen1");
    let lead = nats.server_of("lead");
    answering(&lead, 1);
    let is_over = Arc::new(AtomicBool::new(false));
    let (ready, thread) = impostor(nats.url(), Arc::clone(&is_over));
    ready.recv().unwrap();
    // gen2 is there too: as itself.
    let seen = answering(&lead, 2);
    let told: Vec<(&str, bool)> = seen.iter().map(|seen| (seen.agent.as_str(), seen.cpus == 4242)).collect();
    assert_eq!(told, [("gen1", false), ("gen2", true)]);
    assert!(seen[0].clock.is_some() && seen[0].left.is_ok(), "{seen:?}");
    is_over.store(true, Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    while !thread.is_finished() {
        runtime.block_on(async {
            let client = connected(&nats.url(), "lead").await;
            client.publish("_INBOX.gen2.last", "x".into()).await.unwrap();
            client.flush().await.unwrap();
        });
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(thread.join().unwrap(), [""; 0], "it overheard another's messages");
}

#[test]
fn answers_without_end_do_not_hold_up_a_conductor() {
    let Some(nats) = Nats::start() else { return };
    let _member = Member::start(nats.server(), "a1");
    answering(&nats.server(), 1);
    let is_over = Arc::new(AtomicBool::new(false));
    let (url, over) = (nats.url(), Arc::clone(&is_over));
    let (ready, is_ready) = std::sync::mpsc::channel();
    let flood = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(url).await.unwrap();
            let mut hellos = client.subscribe("bakeoff.hello").await.unwrap();
            client.flush().await.unwrap();
            ready.send(()).unwrap();
            let reply = hellos.next().await.unwrap().reply.unwrap();
            let until = tokio::time::Instant::now() + Duration::from_secs(30);
            for number in 0_u64.. {
                let hello = json!({"agent": "flood", "host": "h", "version": "x", "cpus": 1, "busy": null,
                                   "epoch": number.to_string()});
                for to in [reply.to_string(), format!("{reply}.flood")] {
                    client.publish(to, hello.to_string().into()).await.unwrap();
                }
                if over.load(Ordering::SeqCst) || tokio::time::Instant::now() > until {
                    break;
                }
            }
            over.load(Ordering::SeqCst)
        })
    });
    is_ready.recv().unwrap();
    let seen = survey(&nats.server(), Duration::from_secs(1), &Stop::new()).unwrap();
    is_over.store(true, Ordering::SeqCst);
    assert!(flood.join().unwrap(), "the survey waited for the end of the flood");
    let of_flood = seen.iter().filter(|seen| seen.agent == "flood").count();
    assert!((1..=2).contains(&of_flood) && seen.len() - of_flood <= 1, "{seen:?}");
}

/// A spool with a byte at a time, and without an end.
#[test]
fn an_observer_whose_file_does_not_end_costs_its_numbers() {
    let Some(nats) = Nats::start() else { return };
    let _member = Member::start(nats.server(), "a1");
    answering(&nats.server(), 1);
    let url = nats.url();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(url).await.unwrap();
            let mut asked = client.subscribe("bakeoff.agent.o1").await.unwrap();
            let mut hellos = client.subscribe("bakeoff.hello").await.unwrap();
            client.flush().await.unwrap();
            ready.send(()).unwrap();
            let clock = || {
                let ns = record::clock::Clock::now_ns(&record::clock::Monotonic);
                json!({"answer": "clock", "received_ns": ns, "sent_ns": ns}).to_string()
            };
            loop {
                tokio::select! {
                    Some(hello) = hellos.next() => {
                        let answer = json!({"agent": "o1", "host": "h", "version": format!("{}/7", env!("CARGO_PKG_VERSION")),
                                            "cpus": 1, "busy": null, "epoch": "e", "observes": true});
                        let to = format!("{}.o1", hello.reply.unwrap());
                        client.publish(to, answer.to_string().into()).await.unwrap();
                    }
                    Some(message) = asked.next() => {
                        let order: Value = serde_json::from_slice(&message.payload).unwrap();
                        let answer = match order["order"].as_str().unwrap() {
                            "clock" => clock(),
                            "read" => "{".to_owned(),
                            "taken" => return order["run"].to_string(),
                            _ => json!({"answer": "done"}).to_string(),
                        };
                        client.publish(message.reply.unwrap(), answer.into()).await.unwrap();
                    }
                }
            }
        })
    });
    is_ready.recv().unwrap();
    let (stop, words) = (Stop::new(), words("400 period 1 400 all"));
    let fleet = Fleet {
        server: &nats.server(),
        asked: FleetSettings { observers: 1, ..FleetSettings::of(1) },
        run: "endless".to_owned(),
        meant: read(&words).unwrap(),
        words,
        patience: Duration::from_secs(10),
        lead: Duration::from_millis(500),
        stop: &stop,
    };
    let mut seen = Vec::new();
    let (record, spools) = conduct(&fleet, &mut |told| {
        if let fleet::Told::Watched(watched) = told {
            seen.push(watched.seen.clone());
        }
    })
    .unwrap();
    assert_eq!(record.counts.planned, 160);
    assert!(matches!(&seen[..], [Err(why)] if why.reason == "its numbers cannot be read"), "{seen:?}");
    spools.release();
    assert!(thread.join().unwrap().contains("endless-observed"));
}
