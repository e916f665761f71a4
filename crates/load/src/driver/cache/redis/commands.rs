//! User-defined commands in place of the key-value workload: `--command 'ZADD board ${random(1, 100)} ann'`.
//!
//! A text is split into words as in a shell. A word may contain `${...}`: an expression of the script
//! language, without variables. An event sends one command, drawn by weight, and ends with its answer.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;

use record::command_line;
use record::missing::Missing;
use record::requests::CacheCommand;

use super::dialect::Dialect;
use super::resp::{LINE_MAX, class_of, first_line, number};
use crate::connection::Answer;
use crate::connection::{Failure, FailureClass, OperationShare};
use crate::driver::Exchange;
use crate::driver::Look;
use crate::driver::cache::caching::hear_greeting;
use crate::driver::cache::codec::counters;
use crate::net::tls::Plan;
use crate::net::tls::Secured;
use crate::net::too_long_text;
use crate::net::{Dialogue, Endpoint, Parsed, Talk};
use crate::schedule::random::Random;
use crate::workload::tables::Cache;
use crate::workload::values::{Data, Part, Template};

/// Outcomes of an answer.
const OUTCOMES: [&str; 2] = ["answer", "nil"];
const ANSWER: usize = 0;
const NIL: usize = 1;

/// Commands that end the connection or the server, break the one-to-one order of requests and answers, or
/// change what later commands on the connection do.
const REFUSED: [&str; 24] = [
    "ASKING",
    "AUTH",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "RESET",
    "SELECT",
    "SHUTDOWN",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WATCH",
];

/// Subcommands that do.
const REFUSED_SUB: [(&str, &str); 5] = [
    ("CLIENT", "CACHING"),
    ("CLIENT", "KILL"),
    ("CLIENT", "REPLY"),
    // The server would announce changes of keys between answers.
    ("CLIENT", "TRACKING"),
    ("SCRIPT", "DEBUG"),
];

/// A server that receives these commands.
pub(super) struct Commands {
    pub(super) words: Dialect,
    pub(super) place: Endpoint,
    pub(super) tls: Option<Plan>,
    pub(super) list: List,
    /// Length of the longest accepted answer.
    pub(super) bytes_max: usize,
}

/// The parsed commands.
#[derive(Debug, Clone)]
pub(super) struct List {
    each: Arc<[Command]>,
    weights: u64,
    /// Data rows; an event draws one for the `${name}` of its command.
    data: Option<Arc<Data>>,
}

#[derive(Debug)]
struct Command {
    /// Name of the command in records.
    name: String,
    weight: u32,
    words: Vec<Template>,
}

impl List {
    /// # Errors
    ///
    /// The command that cannot be sent, and the reason.
    pub(super) fn read(commands: &[CacheCommand], data: Option<Arc<Data>>) -> Result<Self, String> {
        let mut each: Vec<Command> = Vec::new();
        for CacheCommand { text, weight } in commands {
            let of_command = |problem: String| format!("command `{text}`: {problem}");
            let words =
                command_line::split(text).ok_or_else(|| of_command("a quote is not closed".to_owned()))?;
            let Some(first) = words.first().filter(|word| !word.is_empty()) else {
                return Err(of_command("it is empty".to_owned()));
            };
            if first.contains("${") {
                return Err(of_command(
                    "its first word, the name of the command, cannot contain `${...}`".to_owned(),
                ));
            }
            let is_of = |(command, sub): &(&str, &str)| {
                let is_sub = |word: &String| word.eq_ignore_ascii_case(sub);
                first.eq_ignore_ascii_case(command) && words.get(1).is_some_and(is_sub)
            };
            if REFUSED.iter().any(|word| word.eq_ignore_ascii_case(first)) || REFUSED_SUB.iter().any(is_of) {
                let why = "not supported: a command must have one answer and leave the connection's state unchanged";
                return Err(of_command(why.to_owned()));
            }
            let name = free_name(&each, &first.to_ascii_lowercase());
            let words = words.iter().map(|word| Template::read(word, Part::Body, data.as_deref()));
            let words = words.collect::<Result<_, _>>().map_err(of_command)?;
            each.push(Command { name, weight: *weight, words });
        }
        let weights = each.iter().map(|command| u64::from(command.weight)).sum();
        if weights == 0 {
            return Err("every command has a weight of 0: none would be sent".to_owned());
        }
        Ok(Self { each: each.into(), weights, data })
    }

    fn draw(&self, random: &mut Random) -> usize {
        if self.each.len() == 1 {
            return 0;
        }
        let mut left = random.below(self.weights);
        let found = self.each.iter().position(|command| {
            let is_it = left < command.weight.into();
            left = left.saturating_sub(command.weight.into());
            is_it
        });
        found.expect("the draw is below the sum of the weights")
    }
}

/// A name for a command that no other has: `get`, `get-2`. Names of modules' commands may have a `-` too.
fn free_name(each: &[Command], name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| each.iter().all(|command| command.name != *name)).expect("numbers do not end")
}

impl Exchange for Commands {
    fn endpoint(&self) -> &Endpoint {
        &self.place
    }

    fn dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        let asker: Box<dyn Dialogue> =
            Box::new(CommandDialogue::new(self.words.clone(), self.list.clone(), self.bytes_max));
        match &self.tls {
            None => Ok(asker),
            Some(plan) => Ok(Box::new(Secured::new(plan, Box::new(move |_| Ok(asker)))?)),
        }
    }

    fn operations(&self) -> Vec<OperationShare> {
        let weights = self.list.weights as f64;
        let share = |command: &Command| OperationShare {
            name: command.name.clone().into(),
            per_event: Some(f64::from(command.weight) / weights),
            per_event_max: 1,
        };
        self.list.each.iter().map(share).collect()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        &OUTCOMES
    }

    fn look(&self, talk: &mut Talk) -> Result<Look, Failure> {
        let version = counters(&self.words, talk)?.version;
        let version = version.map(|version| format!("Redis {version}{}", talk.spoken_version()));
        let version = version.ok_or_else(|| Missing::because("the server does not report its version"));
        Ok(Look { version, store: None })
    }

    fn cache(&self, _: Talk) -> Option<Box<dyn Cache>> {
        None
    }

    fn closes_idle(&self) -> bool {
        false
    }
}

/// Dialogue of one connection.
struct CommandDialogue {
    codec: Dialect,
    list: List,
    /// Unanswered requests, in the order of sending.
    pending: VecDeque<PendingCommand>,
    reply: Reply,
    /// Number of the next request.
    asks: usize,
    /// Number of the last request that was answered.
    answered: usize,
    greetings_left: usize,
    bytes_max: usize,
    /// Buffer for a word.
    word: Vec<u8>,
}

struct PendingCommand {
    request: usize,
    command: usize,
    /// Reason if the command could not be written; a PING was sent in its place.
    problem: Option<String>,
}

impl CommandDialogue {
    fn new(codec: Dialect, list: List, bytes_max: usize) -> Self {
        Self {
            codec,
            list,
            pending: VecDeque::new(),
            reply: Reply::default(),
            asks: 0,
            answered: 0,
            greetings_left: 0,
            bytes_max,
            word: Vec::new(),
        }
    }

    fn write(&mut self, command: usize, random: &mut Random, out: &mut Vec<u8>) -> Result<(), String> {
        let List { each, data, .. } = &self.list;
        let Command { words, name, .. } = &each[command];
        let row = data.as_ref().map_or(&[][..], |data| data.draw(random));
        // A write into memory cannot fail.
        let _ = write!(out, "*{}\r\n", words.len());
        for word in words {
            self.word.clear();
            word.write(Part::Body, row, random, &mut self.word).map_err(|text| format!("{name}: {text}"))?;
            let _ = write!(out, "${}\r\n", self.word.len());
            out.extend_from_slice(&self.word);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}

impl Dialogue for CommandDialogue {
    fn greet(&mut self, out: &mut Vec<u8>) {
        self.greetings_left = crate::driver::cache::caching::greet(&self.codec, out);
    }

    fn hear_greeting(&mut self, input: &[u8]) -> Parsed {
        hear_greeting(&self.codec, &mut self.greetings_left, input)
    }

    fn ask(&mut self, mut random: Random, out: &mut Vec<u8>) {
        let (command, start) = (self.list.draw(&mut random), out.len());
        let problem = self.write(command, &mut random, out).err();
        if problem.is_some() {
            out.truncate(start);
            super::resp::command(&["PING"], out);
        }
        self.pending.push_back(PendingCommand { request: self.asks, command, problem });
    }

    fn hear(&mut self, input: &[u8], _: bool) -> Parsed {
        let Some(asked) = self.pending.front_mut() else { return Parsed::garbage(input) };
        let operation = asked.command;
        let (taken, answer) = match self.reply.take(input, self.bytes_max) {
            Step::More { taken } => return Parsed { taken, answer: None },
            Step::Garbage => return Parsed::garbage(input),
            Step::TooLong { bytes } => {
                let text = too_long_text(bytes, self.bytes_max);
                return Parsed::failure(0, FailureClass::Connection, text);
            }
            Step::Whole { taken, answer } => (taken, answer),
        };
        let failure = |class, text| Failure { operation: Some(operation), ..Failure::new(class, text) };
        let answer = match (asked.problem.take(), answer) {
            (Some(problem), _) => Err(failure(FailureClass::Application, problem)),
            (None, Whole::Refused { class, text }) => Err(failure(class, text)),
            (None, Whole::Answer) => Ok(Answer { operation, outcome: Some(ANSWER), keys: None }),
            (None, Whole::Nil) => Ok(Answer { operation, outcome: Some(NIL), keys: None }),
        };
        self.answered = asked.request;
        self.pending.pop_front();
        Parsed { taken, answer: Some(answer) }
    }

    fn turn_to(&mut self, request: usize) {
        self.asks = request;
    }

    fn answered(&self) -> usize {
        self.answered
    }

    /// Always false: commands such as INCR are not idempotent.
    fn may_repeat(&self) -> bool {
        false
    }
}

/// A partial answer. Bytes that were read once are not read again.
#[derive(Debug, Default)]
struct Reply {
    /// `None` before the first line.
    whole: Option<Whole>,
    /// Members still expected, at any depth of nesting.
    members_left: usize,
    /// Bytes of a text still expected, without the line end.
    text_left: usize,
    /// Whether the line end of that text is still expected.
    ends_text: bool,
    /// Bytes read.
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whole {
    Answer,
    Nil,
    /// The server refuses the request; the connection remains usable.
    Refused {
        class: FailureClass,
        text: String,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    More {
        taken: usize,
    },
    Whole {
        taken: usize,
        answer: Whole,
    },
    /// Announced length above the limit: at least this many bytes.
    TooLong {
        bytes: usize,
    },
    Garbage,
}

impl Reply {
    /// Smallest length of a member.
    const MEMBER_BYTES_MIN: usize = 3;

    /// Reads the next part of the answer.
    ///
    /// - `input`: the bytes that arrived and are not consumed yet.
    fn take(&mut self, input: &[u8], bytes_max: usize) -> Step {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let took = if self.text_left > 0 {
                let took = self.text_left.min(rest.len());
                self.text_left -= took;
                took
            } else if self.ends_text {
                if !b"\r\n".starts_with(&rest[..rest.len().min(2)]) {
                    return Step::Garbage;
                }
                self.ends_text = rest.len() < 2;
                if self.ends_text { 0 } else { 2 }
            } else if let Some(answer) = self.whole.take_if(|_| self.members_left == 0) {
                self.bytes = 0;
                return Step::Whole { taken: at, answer };
            } else {
                match first_line(rest) {
                    None if rest.len() < LINE_MAX => 0,
                    Some((kind, line, took)) if self.begin_member(kind, line).is_some() => took,
                    None | Some(_) => return Step::Garbage,
                }
            };
            (at, self.bytes) = (at + took, self.bytes + took);
            let least = self.members_left.saturating_mul(Self::MEMBER_BYTES_MIN);
            let bytes = self.bytes.saturating_add(self.text_left).saturating_add(least);
            if bytes > bytes_max {
                return Step::TooLong { bytes };
            }
            if took == 0 {
                return Step::More { taken: at };
            }
        }
    }

    /// Reads the first line of the answer or of a member; `None` if the line is invalid.
    fn begin_member(&mut self, kind: u8, line: &[u8]) -> Option<()> {
        let is_nil = matches!((kind, line), (b'_', b"") | (b'$' | b'*', b"-1"));
        let count = match kind {
            _ if is_nil => 0,
            b'+' | b'-' | b':' | b',' | b'#' | b'(' => 0,
            b'$' | b'=' | b'*' | b'~' | b'%' => number(line)?,
            _ => return None,
        };
        match &self.whole {
            Some(_) => self.members_left -= 1,
            None if is_nil => self.whole = Some(Whole::Nil),
            None if kind == b'-' => {
                let text = String::from_utf8_lossy(line).into_owned();
                self.whole = Some(Whole::Refused { class: class_of(&text), text });
            }
            None => self.whole = Some(Whole::Answer),
        }
        match kind {
            b'$' | b'=' if !is_nil => (self.text_left, self.ends_text) = (count, true),
            b'*' | b'~' => self.members_left += count,
            b'%' => self.members_left += 2 * count,
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Result<List, String> {
        let commands: Vec<_> = texts.iter().map(|text| CacheCommand::parse(text)).collect();
        List::read(&commands, None)
    }

    fn asker(texts: &[&str]) -> CommandDialogue {
        let words = Dialect { user: None, password: None, db: 0, is_resp3: false };
        CommandDialogue::new(words, list(texts).unwrap(), 1 << 20)
    }

    fn asked(asker: &mut CommandDialogue, event: u64) -> String {
        let mut out = Vec::new();
        asker.ask(Random::of(1, event), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_differ_from_event_to_event_and_follow_from_its_number() {
        let mut asker = asker(&["ZADD board ${random(10, 99)} \"p ${7}\""]);
        let texts: Vec<_> = (0..20).map(|event| asked(&mut asker, event)).collect();
        assert!(texts.iter().all(|text| text.starts_with("*4\r\n$4\r\nZADD\r\n$5\r\nboard\r\n$2\r\n")));
        assert!(texts.iter().all(|text| text.ends_with("\r\n$3\r\np 7\r\n")), "{texts:?}");
        assert!(texts.iter().any(|text| *text != texts[0]), "values differ from event to event");
        assert_eq!(asked(&mut asker, 3), texts[3], "and follow from its number");
    }

    #[test]
    fn commands_are_drawn_by_their_weights() {
        let mut asker = asker(&["GET a@9", "INCR n", "GET b@0"]);
        let names: Vec<_> = asker.list.each.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["get", "incr", "get-2"]);
        let texts: Vec<_> = (0..10_000).map(|event| asked(&mut asker, event)).collect();
        let incr = texts.iter().filter(|text| text.contains("INCR")).count();
        assert!((900..1_100).contains(&incr), "{incr} of 10,000, a tenth was asked for");
        assert!(!texts.iter().any(|text| text.contains("\r\nb\r\n")));
    }

    #[test]
    fn each_command_has_a_record_of_its_own() {
        let names = |texts: &[&str]| -> Vec<String> {
            list(texts).unwrap().each.iter().map(|command| command.name.clone()).collect()
        };
        assert_eq!(names(&["X-ADD a", "x-add b", "X a", "x b"]), ["x-add", "x-add-2", "x", "x-2"]);
        assert_eq!(names(&["GET a", "GET-2 b", "GET c", "get d"]), ["get", "get-2", "get-3", "get-4"]);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_before_it_is() {
        for (texts, says) in [
            (&[""][..], "it is empty"),
            (&["''"], "it is empty"),
            (&["${1} a"], "cannot contain `${...}`"),
            (&["GET ${nobody}"], "--data"),
            (&["GET ${random(5, 1)}"], "random"),
            (&["GET ${1"], "not closed"),
            (&["subscribe c"], "one answer"),
            (&["client REPLY off"], "one answer"),
            (&["CLIENT Tracking ON"], "one answer"),
            (&["client caching yes"], "one answer"),
            (&["CLIENT KILL ID 7"], "one answer"),
            (&["script debug YES"], "one answer"),
            (&["select 1"], "one answer"),
            (&["READONLY"], "one answer"),
            (&["readwrite"], "one answer"),
            (&["asking"], "one answer"),
            (&["REPLCONF GETACK *"], "one answer"),
            (&["GET a@0"], "weight of 0"),
        ] {
            let problem = list(texts).unwrap_err();
            assert!(problem.contains(says), "{texts:?}: {problem}");
        }
    }

    #[test]
    fn answers_of_every_kind_are_read_once_however_they_are_cut() {
        let refused = |class, text: &str| Whole::Refused { class, text: text.into() };
        for (input, expected) in [
            (&b"+OK\r\n"[..], Whole::Answer),
            (b":-7\r\n", Whole::Answer),
            (b"$4\r\na\r\nb\r\n", Whole::Answer),
            (b"$0\r\n\r\n", Whole::Answer),
            (b"$-1\r\n", Whole::Nil),
            (b"*-1\r\n", Whole::Nil),
            (b"_\r\n", Whole::Nil),
            (b",3.14\r\n", Whole::Answer),
            (b"#t\r\n", Whole::Answer),
            (b"(349999\r\n", Whole::Answer),
            (b"=7\r\ntxt:abc\r\n", Whole::Answer),
            (b"*0\r\n", Whole::Answer),
            (b"*3\r\n$1\r\na\r\n$-1\r\n*2\r\n:1\r\n-ERR x\r\n", Whole::Answer),
            (b"%1\r\n+k\r\n~2\r\n+a\r\n+b\r\n", Whole::Answer),
            (b"-ERR no\r\n", refused(FailureClass::Application, "ERR no")),
            (b"-LOADING soon\r\n", refused(FailureClass::Transient, "LOADING soon")),
        ] {
            let both = [input, b"+next\r\n"].concat();
            let taken = input.len();
            let whole = Step::Whole { taken, answer: expected.clone() };
            assert_eq!(Reply::default().take(&both, 1 << 20), whole, "{}", input.escape_ascii());
            for cut in 0..input.len() {
                let mut reply = Reply::default();
                let Step::More { taken: first } = reply.take(&input[..cut], 1 << 20) else {
                    panic!("{cut} bytes of {} are not all", input.escape_ascii());
                };
                let rest = Step::Whole { taken: taken - first, answer: expected.clone() };
                assert_eq!(
                    reply.take(&both[first..], 1 << 20),
                    rest,
                    "{} cut at {cut}",
                    input.escape_ascii()
                );
                assert_eq!(reply.take(b"+OK\r\n", 1 << 20), Step::Whole { taken: 5, answer: Whole::Answer });
            }
        }
    }

    #[test]
    fn what_is_no_answer_or_too_long_is_not_waited_for() {
        for garbage in [
            &b"HTTP/1.1 400\r\n"[..],
            b"$x\r\n",
            b"$1\r\nabc\r\n",
            b"*1\r\n?\r\n",
            b">1\r\n+a\r\n",
            b"*-2\r\n",
        ] {
            assert_eq!(Reply::default().take(garbage, 1 << 20), Step::Garbage, "{}", garbage.escape_ascii());
        }
        let long = |input: &[u8]| matches!(Reply::default().take(input, 1 << 20), Step::TooLong { .. });
        assert!(long(b"$4294967295\r\n") && long(b"*4294967295\r\n") && long(b"*1\r\n%4294967295\r\n"));
        let deep = "*2\r\n".repeat(1_000_000);
        assert!(long(deep.as_bytes()));
        let many = "*3\r\n$1000\r\n".to_owned() + &"x".repeat(1_000) + "\r\n$1048576\r\n";
        assert!(long(many.as_bytes()), "members together");
        assert_eq!(Reply::default().take(&[b'+'; LINE_MAX], 1 << 20), Step::Garbage);
    }

    #[test]
    fn answers_belong_to_requests_in_the_order_of_asking() {
        let mut asker = asker(&["GET a", "INCR n"]);
        for request in 0..4 {
            asker.turn_to(request);
            asked(&mut asker, request as u64);
        }
        let commands: Vec<_> = asker.pending.iter().map(|asked| asked.command).collect();
        for (request, command) in commands.into_iter().enumerate() {
            let heard = asker.hear(b"$-1\r\n", false);
            assert_eq!(heard, Parsed::well(5, command, Some(NIL)));
            assert_eq!(asker.answered(), request);
        }
        assert!(asker.hear(b"+OK\r\n", false).answer.unwrap().is_err(), "nobody asked");
    }
}
