//! Data that identifies the machine, left out of pages for others unless the author asks for it.
//!
//! Two steps. First, the facts with such data (host name, the command lines of the kernel and of bakeoff) are
//! removed from the record before it becomes a page. Then the page's text is searched for the same data in
//! other places: the host name, home directories, and the names of their users.

use std::collections::BTreeSet;

use record::bakeoff::Bakeoff;
use record::environment::Environment;
use record::missing::Missing;
use record::run::Run;
use record::series::SharedText;

/// Facts of an environment that name the machine.
const FACTS: [&str; 3] = ["host.name", "kernel.cmdline", "import.host"];
/// The word for the machine of a run on a page without its name.
pub(crate) const OWN_HOST: &str = "host";
const LEFT_OUT: &str = "left out; report --identify shows it";
/// Directories that hold users' homes, plain and percent-encoded.
const HOMES: [&str; 4] = ["/home/", "/Users/", "%2Fhome%2F", "%2fhome%2f"];
/// Names that do not identify a machine, and words that a page of bakeoff needs.
const NO_NAMES: [&str; 8] =
    ["localhost", "unknown", "localdomain", "bakeoff", "bench", "test", "host", "(none)"];
/// Least length of a name that is replaced; shorter ones are parts of other words.
const NAME_CHARS_MIN: usize = 3;

/// The names that were removed from a record and must not appear on its page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hidden {
    hosts: BTreeSet<String>,
}

/// Removes the facts that name the machine from its environment.
pub fn hide_in_environment(environment: &mut Environment) {
    Hidden::default().take(environment);
}

/// Whether a value is replaced because it names the machine.
pub(crate) fn is_left_out(value: &str) -> bool {
    value == LEFT_OUT
}

impl Hidden {
    /// Removes names of the machine from a bake-off and its runs.
    pub fn in_bakeoff(bakeoff: &mut Bakeoff) -> Self {
        let mut hidden = Self::default();
        hidden.take(&mut bakeoff.environment);
        LEFT_OUT.clone_into(&mut bakeoff.header.command);
        for run in bakeoff.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
            hidden.also(Self::in_run(run));
        }
        hidden
    }

    /// Removes names of the machine from a run.
    pub fn in_run(run: &mut Run) -> Self {
        let mut hidden = Self::default();
        // Its series stay different from those of other machines.
        if let Some(own) = run.environment.fact("host.name").map(str::to_owned) {
            let word = SharedText::from(OWN_HOST);
            for sample in run.series.iter_mut().filter(|sample| sample.host == *own) {
                sample.host = word.clone();
            }
        }
        hidden.take(&mut run.environment);
        LEFT_OUT.clone_into(&mut run.header.command);
        hidden
    }

    /// Adds the names of another record.
    pub fn also(&mut self, other: Self) {
        self.hosts.extend(other.hosts);
    }

    fn take(&mut self, environment: &mut Environment) {
        for name in FACTS {
            let Some(fact) = environment.facts.get_mut(name) else { continue };
            if let Ok(value) = fact
                && name != "kernel.cmdline"
            {
                let short = value.split('.').next().unwrap_or_default();
                let names = [value.as_str(), short].into_iter();
                let known = |name: &&str| {
                    name.chars().count() >= NAME_CHARS_MIN
                        && !NO_NAMES.contains(name)
                        && !name.chars().all(|c| c.is_ascii_digit())
                };
                self.hosts.extend(names.filter(known).map(str::to_owned));
            }
            if fact.is_ok() {
                *fact = Err(Missing::because(LEFT_OUT));
            }
        }
    }

    /// Replaces the names in a page: a host becomes `host`, a home directory `~`, its user's name `user`.
    pub fn from_page(&self, page: &str) -> String {
        let mut page = page.to_owned();
        // The longest first, because one name may be the prefix of another.
        for host in self.hosts.iter().rev() {
            page = replace_words(&page, host, "host");
        }
        let (mut page, users) = shorten_homes(&page);
        for user in users.iter().filter(|user| user.chars().count() >= NAME_CHARS_MIN) {
            for (before, after) in [("/", "/"), ("/", "@"), ("/", ":"), (" ", "@"), ("\n", "@")] {
                let (found, instead) = (format!("{before}{user}{after}"), format!("{before}user{after}"));
                page = page.replace(&found, &instead);
            }
        }
        page
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_')
}

/// Replaces `word` unless it is a part of a longer name.
fn replace_words(text: &str, word: &str, instead: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let is_part = before.chars().next_back().or(out.chars().next_back()).is_some_and(is_of_name)
            || after.chars().next().is_some_and(is_of_name);
        out.push_str(before);
        out.push_str(if is_part { word } else { instead });
        rest = after;
    }
    out + rest
}

/// Replaces home directories by `~`; returns the text and the names of their users.
fn shorten_homes(text: &str) -> (String, BTreeSet<String>) {
    let mut users = BTreeSet::new();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let next = HOMES.iter().filter_map(|home| Some((rest.find(home)?, home.len()))).min();
        let Some((at, length)) = next else { break };
        let (before, after) = (&rest[..at], &rest[at + length..]);
        let end = after.find(|c| !is_of_name(c) && c != '.').unwrap_or(after.len());
        out.push_str(before);
        if end == 0 {
            out.push_str(&rest[at..at + length]);
        } else {
            out.push('~');
            users.insert(after[..end].to_owned());
        }
        rest = &after[end..];
    }
    out.push_str(rest);
    (replace_words(&out, "/root", "~"), users)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let facts =
            [("host.name", "db-7.example.net"), ("kernel.cmdline", "root=UUID=17"), ("cpu.model", "a CPU")];
        Environment {
            facts: facts.map(|(name, fact)| (name.to_owned(), Ok(fact.to_owned()))).into(),
            calibration: Vec::new(),
        }
    }

    #[test]
    fn facts_that_name_the_machine_are_missing_and_others_stay() {
        let mut environment = environment();
        hide_in_environment(&mut environment);
        assert_eq!(environment.fact("cpu.model"), Some("a CPU"));
        for name in ["host.name", "kernel.cmdline"] {
            assert_eq!(environment.facts[name].as_ref().unwrap_err().reason, LEFT_OUT);
        }
    }

    #[test]
    fn names_go_wherever_they_stand_and_other_words_stay() {
        let mut hidden = Hidden::default();
        hidden.take(&mut environment());
        let page = |text: &str| hidden.from_page(text);
        assert_eq!(
            page("mysql://app@db-7.example.net/bench on db-7, not db-77"),
            "mysql://app@host/bench on host, not db-77"
        );
        assert_eq!(page("sqlite:/home/alice/x.db; -I/home/alice/inc"), "sqlite:~/x.db; -I~/inc");
        assert_eq!(
            page("/home/alice/x and /tmp/alice/y, alice@h, ssh alice@h"),
            "~/x and /tmp/user/y, user@h, ssh user@h"
        );
        assert_eq!(page("%2Fhome%2Fbob.b%2Fsock /Users/carl /root/x /rootfs"), "~%2Fsock ~ ~/x /rootfs");
        assert_eq!(page("/home/ and malice"), "/home/ and malice");
    }

    #[test]
    fn names_that_say_nothing_are_no_words_to_hide() {
        let mut hidden = Hidden::default();
        for host in ["localhost", "vm", "17", "test"] {
            let mut environment = environment();
            environment.facts.insert("host.name".into(), Ok(host.into()));
            hidden.take(&mut environment);
        }
        assert_eq!(hidden, Hidden::default());
    }
}
