//! The server of a queue, killed at any moment.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::clock::WallAnchor;
use record::run::RunId;

use super::house::{House, PLAN, SLICES, can_slice, processes};
use super::lab::Lab;
use super::{assert_each_ran_once, lab_with_plan, submit, text};

/// Pseudo-random numbers, so that a failure can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Kills of the processes of entries. The third in a row without a trial between them ends an entry, which is
/// another subject: a process is spared then.
#[derive(Default)]
struct Crashes {
    ended: usize,
    in_vain: u32,
}

impl Crashes {
    /// Whether the processes may be killed once more.
    fn may_follow(&mut self, lab: &Lab) -> bool {
        let journals = std::fs::read_dir(lab.path("archive/bakeoffs")).into_iter().flatten().flatten();
        let journals = journals.filter_map(|at| std::fs::read_to_string(at.path().join("events.jsonl")).ok());
        let is_end = |line: &&str| ["trial-sealed", "trial-invalid"].iter().any(|step| line.contains(step));
        let ended = journals.map(|journal| journal.lines().filter(is_end).count()).sum();
        self.in_vain = if ended > self.ended { 0 } else { self.in_vain + 1 };
        self.ended = ended;
        self.in_vain < 2
    }
}

/// A submission by a client that names its entry.
struct Submission {
    id: String,
    body: String,
}

impl Submission {
    fn new() -> Self {
        let id = RunId::fresh(WallAnchor::now()).to_string();
        let body = serde_json::json!({"plan": PLAN, "id": id}).to_string();
        Self { id, body }
    }

    /// Sends the request, and waits for nothing.
    fn send(&self, house: &House) -> TcpStream {
        let mut stream = TcpStream::connect(&house.address).unwrap();
        let (address, length) = (&house.address, self.body.len());
        let head = format!(
            "POST /api/v1/queue HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), self.body.as_bytes()].concat()).unwrap();
        stream
    }

    fn is_known(&self, house: &House) -> bool {
        house.get(&format!("/api/v1/queue/{}", self.id)).status == 200
    }

    /// Repeats the request, as a client does that has no answer.
    fn repeat(&self, house: &House) {
        let reply = house.ask("POST", "/api/v1/queue", &[("Content-Type", "application/json")], &self.body);
        assert!(matches!(reply.status, 200 | 201), "{} {}", reply.head, reply.body);
        assert_eq!(text(&reply.json(), "id"), self.id);
    }
}

/// Whether an answer had arrived when the server was killed.
fn is_answered(mut stream: TcpStream) -> bool {
    let mut answer = Vec::new();
    // A server that is killed resets the connection.
    let _ = stream.read_to_end(&mut answer);
    answer.starts_with(b"HTTP/1.1 20")
}

#[test]
fn a_queue_whose_server_is_killed_at_any_moment_runs_each_plan_once() {
    let set =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (kills, plans) = (set("BAKEOFF_KILLS", 10), set("BAKEOFF_PLANS", 4));
    let mut chance = Chance(set("BAKEOFF_KILL_SEED", 20_261_125));
    let lab = lab_with_plan();
    let mut house = House::open(&lab, &["--queue"]);
    // The other plans are submitted while the server is killed.
    let by_command = plans - (plans / 2).min(kills / 2);
    for _ in 1..by_command {
        submit(&lab, &[]);
    }
    if can_slice() {
        std::fs::write(lab.path("plan.toml"), SLICES).unwrap();
    }
    submit(&lab, &["--priority", "1"]);
    let (mut in_flight, mut unanswered, mut all_known) = (plans - by_command, 0, 0);
    let mut crashes = Crashes::default();
    for n in 0..kills {
        // The moment of the kill is the experiment: nothing is waited for.
        std::thread::sleep(Duration::from_millis(chance.below(1_200)));
        let children = [processes(&lab, "run"), processes(&lab, "resume")].concat();
        let sent = (n % 2 == 0 && in_flight > 0).then(|| {
            let submission = Submission::new();
            let stream = submission.send(&house);
            if in_flight % 2 == 0 {
                // The kill follows the answer at once.
                assert!(stream.peek(&mut [0]).unwrap() > 0, "the server closed the connection");
            } else {
                std::thread::sleep(Duration::from_micros(chance.below(50_000)));
            }
            (submission, stream)
        });
        house.kill();
        // Every other time the machine goes down, and takes what the server started with it.
        if n % 2 == 1 && crashes.may_follow(&lab) {
            for pid in children {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        house = House::open(&lab, &["--queue"]);
        if let Some((submission, stream)) = sent {
            in_flight -= 1;
            let (answered, known) = (is_answered(stream), submission.is_known(&house));
            assert!(known || !answered, "the entry {} was acknowledged, and is lost", submission.id);
            unanswered += u32::from(!answered);
            all_known += u32::from(known);
            submission.repeat(&house);
        }
    }
    let of = plans - by_command;
    println!(
        "of {of} submissions {unanswered} had no answer at the kill, and the next server knew {all_known}"
    );
    assert!(of < 2 || u64::from(unanswered) < of, "the kill of every other one follows its answer");
    for entry in lab.json(&["queue", "list"])["entries"].as_array().unwrap() {
        let waited = lab.run(&["queue", "wait", text(entry, "id")]);
        assert!(matches!(waited.code, Some(0 | 3)), "{:?} {} {}", waited.code, waited.out, waited.err);
    }
    assert_each_ran_once(&lab, usize::try_from(plans).unwrap());
    drop(house);
}
