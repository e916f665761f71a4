//! Parses a plan: every key is declared in `keys` and holds a value of its kind.
//!
//! This walks the TOML tree with its positions instead of deserializing it: a deserializer stops at the first
//! problem, but a plan's author wants all of them. An invalid value is noted and treated as absent.

use std::collections::BTreeSet;
use std::time::Duration;

use record::agents::OnLoss;
use record::bakeoff::{Metric, Plot};
use record::gate::{GateRule, OnInconclusive};
use toml::de::{DeTable, DeValue};

use crate::admission::Otherwise;
use crate::error::{Lines, Located, Position, Problem, ProblemKind};
use crate::keys::{self, Key};
use crate::load::LoadKeys;
use crate::parsed::{
    Mode, ParsedAdmission, ParsedBuild, ParsedClient, ParsedDesign, ParsedFactor, ParsedFile, ParsedFleet,
    ParsedGate, ParsedJudge, ParsedPhases, ParsedPlan, ParsedPrepare, ParsedRun, ParsedServer, ParsedValue,
    ParsedVariable,
};
use crate::phases::When;
use crate::reader::{Reader, Section, entry};
use crate::server::{AddressSpace, Command, HugePages, Ready, Scheduler, StopSignal, cpu_list};
use crate::slices::Slices;
use crate::template::Templated;
use crate::value::{boolean, bytes, duration, number, percent, quoted, scalar, text, whole};

/// Parses as much of a plan as possible; `None` if the text is not TOML.
pub(crate) fn read(text: &str, lines: &Lines<'_>) -> (Option<ParsedPlan>, Vec<Problem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| Problem {
            position: lines.position(&error.span().unwrap_or(0..0)),
            kind: ProblemKind::Syntax { message: error.message().to_owned() },
        };
        return (None, errors.iter().map(problem).collect());
    }
    let mut reader = Reader { lines, problems: Vec::new(), resolved: Vec::new() };
    let mut plan = reader.plan(document.get_ref());
    plan.resolved = reader.resolved;
    (Some(plan), reader.problems)
}

impl<'a> Reader<'a> {
    fn plan(&mut self, top: &'a DeTable<'a>) -> ParsedPlan {
        let mut root = Section {
            declared: keys::table(""),
            path: String::new(),
            position: Position { line: 1, column: 1 },
            entries: Some(top),
            taken: BTreeSet::new(),
        };
        let _: Option<Located<u32>> = self.take(&mut root, "schema", whole);
        let title = self.take(&mut root, "title", text);
        let question = self.take(&mut root, "question", text);
        self.finish(&root);

        let observe = self.child(&root, "observe");
        let (instruments, control_arm) = self.observe(observe);
        let report = self.child(&root, "report");
        let (sponsor, tuning, notes) = self.report(report);
        ParsedPlan {
            title,
            question,
            factors: self.factors(top),
            design: {
                let section = self.child(&root, "design");
                self.design(section)
            },
            build: {
                let section = self.child(&root, "build");
                section.entries.is_some().then(|| self.build(section))
            },
            admission: {
                let section = self.child(&root, "admission");
                section.entries.is_some().then(|| self.admission(section))
            },
            load: {
                let section = self.child(&root, "load");
                self.load(section)
            },
            fleet: {
                let mut section = self.child(&root, "fleet");
                section.entries.is_some().then(|| self.fleet(&mut section)).flatten()
            },
            client: {
                let mut section = self.child(&root, "client");
                section.entries.is_some().then(|| self.client(&mut section)).flatten()
            },
            server: {
                let section = self.child(&root, "server");
                section.entries.is_some().then(|| self.server(section))
            },
            phases: {
                let section = self.child(&root, "phases");
                self.phases(section)
            },
            instruments,
            control_arm,
            values: self.values(top),
            judge: {
                let section = self.child(&root, "judge");
                self.judge(section)
            },
            gates: self.gates(top),
            sponsor,
            tuning,
            notes,
            resolved: Vec::new(),
        }
    }

    fn factors(&mut self, top: &'a DeTable<'a>) -> Vec<ParsedFactor> {
        let sections = self.named_tables(top, "factors", "factors.*", "tables such as [factors.threads]");
        sections
            .into_iter()
            .map(|(name, mut section)| {
                let values = self.levels(&mut section);
                let reference = self.take(&mut section, "reference", text);
                let level = self.take(&mut section, "level", Plot::from_word);
                let only = self.combination(&mut section, "only");
                self.finish(&section);
                ParsedFactor { name, values, reference, level, only }
            })
            .collect()
    }

    fn values(&mut self, top: &'a DeTable<'a>) -> Vec<ParsedValue> {
        let sections = self.named_tables(top, "values", "values.*", "tables such as [values.size_bytes]");
        let value = |(name, mut section): (Located<String>, Section<'a>)| {
            let when = self.take(&mut section, "when", When::read);
            let keep = self.list(&mut section, "keep");
            ParsedValue { name, run: self.run(section), when, keep }
        };
        sections.into_iter().map(value).collect()
    }

    fn levels(&mut self, section: &mut Section<'a>) -> Vec<Located<String>> {
        let Some(found) = self.find(section, "values") else { return Vec::new() };
        let items = found.value.as_array().into_iter().flatten();
        let values: Option<Vec<_>> = items
            .map(|item| {
                let value = scalar(item.get_ref()).filter(|text| !text.is_empty())?;
                Some(Located { value, position: self.lines.position(&item.span()) })
            })
            .collect();
        match values {
            Some(values) if !values.is_empty() => values,
            _ => {
                self.bad_found(&found);
                Vec::new()
            }
        }
    }

    fn design(&mut self, mut section: Section<'a>) -> ParsedDesign {
        let design = ParsedDesign {
            blocks: self.take(&mut section, "blocks", whole),
            seed: self.take(&mut section, "seed", whole),
            time_budget: self.take(&mut section, "time_budget", duration),
            sequential: self.take(&mut section, "sequential", boolean),
            mode: self.take(&mut section, "mode", Mode::read),
            slice: self.take(&mut section, "slice", slice),
            exclude: self.combinations(&mut section, "exclude"),
            include: self.combinations(&mut section, "include"),
        };
        self.finish(&section);
        design
    }

    fn build(&mut self, mut section: Section<'a>) -> ParsedBuild {
        let s = &mut section;
        let source = self.take(s, "source", text);
        let revision = self.template(s, "revision", text);
        let env = self.list(s, "env");
        ParsedBuild { source, revision, env, run: self.run(section) }
    }

    fn admission(&mut self, mut section: Section<'a>) -> ParsedAdmission {
        let s = &mut section;
        let admission = ParsedAdmission {
            busy: self.take(s, "busy", percent),
            free: self.take(s, "free", bytes),
            wait: self.take(s, "wait", duration),
            otherwise: self.take(s, "otherwise", Otherwise::read),
        };
        self.finish(s);
        admission
    }

    fn load(&mut self, mut section: Section<'a>) -> LoadKeys {
        let load = LoadKeys::read(self, &mut section);
        self.finish(&section);
        load
    }

    fn fleet(&mut self, section: &mut Section<'a>) -> Option<ParsedFleet> {
        let agents = self.take(section, "agents", whole);
        let on_loss = self.take(section, "on_loss", OnLoss::from_word);
        let place = self.list(section, "place");
        let observers = self.take(section, "observers", whole);
        let probe = self.take(section, "probe", number);
        self.finish(section);
        Some(ParsedFleet { agents: agents?, on_loss, place, observers, probe })
    }

    fn client(&mut self, section: &mut Section<'a>) -> Option<ParsedClient> {
        let cpus = self.take(section, "cpus", cpu_list);
        let pin = self.take(section, "pin", boolean);
        self.finish(section);
        Some(ParsedClient { cpus: cpus?, pin })
    }

    fn server(&mut self, mut section: Section<'a>) -> ParsedServer {
        let s = &mut section;
        let server = ParsedServer {
            command: self.template(s, "command", Command::read),
            ready: self.template(s, "ready", Ready::read),
            ready_timeout: self.take(s, "ready_timeout", duration),
            stop: self.take(s, "stop", StopSignal::read),
            stop_timeout: self.take(s, "stop_timeout", duration),
            instances: self.template(s, "instances", whole),
            cpus: self.places(s, "cpus"),
            mem: self.places(s, "mem"),
            scheduler: self.template(s, "scheduler", Scheduler::read),
            user: self.take(s, "user", text),
            inherit_env: self.take(s, "inherit_env", boolean),
            nice: self.template(s, "nice", whole),
            address_space: self.take(s, "address_space", AddressSpace::read),
            huge_pages: self.take(s, "huge_pages", HugePages::read),
            cpu_max: self.take(s, "cpu_max", number),
            memory_max: self.take(s, "memory_max", bytes),
            env: self.environment(s),
            files: self.files(s),
        };
        self.finish(s);
        server
    }

    fn environment(&mut self, section: &mut Section<'a>) -> Vec<ParsedVariable> {
        let Some(found) = self.find(section, "env") else { return Vec::new() };
        let Some(table) =
            section.entries.and_then(|t| entry(t, "env")).and_then(|(_, v)| v.get_ref().as_table())
        else {
            self.bad_found(&found);
            return Vec::new();
        };
        let mut variables = Vec::new();
        for (name, value) in table {
            let position = self.lines.position(&name.span());
            match value.get_ref().as_table() {
                None => variables.extend(self.variable(found.key, None, name.get_ref(), value)),
                Some(inner) => {
                    let only = Located { value: name.get_ref().to_string(), position };
                    for (name, value) in inner {
                        variables.extend(self.variable(found.key, Some(only.clone()), name.get_ref(), value));
                    }
                }
            }
        }
        variables
    }

    /// Files of the server: their texts by name.
    fn files(&mut self, section: &mut Section<'a>) -> Vec<ParsedFile> {
        let Some(found) = self.find(section, "files") else { return Vec::new() };
        let Some(table) =
            section.entries.and_then(|t| entry(t, "files")).and_then(|(_, v)| v.get_ref().as_table())
        else {
            self.bad_found(&found);
            return Vec::new();
        };
        let mut files = Vec::new();
        for (name, value) in table {
            let name =
                Located { value: name.get_ref().to_string(), position: self.lines.position(&name.span()) };
            let (position, path) =
                (self.lines.position(&value.span()), format!("server.files.{}", name.value));
            let Some(written) = value.get_ref().as_str() else {
                self.bad(position, &path, value.get_ref(), "the text of the file".into());
                continue;
            };
            self.resolve(&path, &quoted(written), true);
            if let Some(template) = self.parse_template(position, &path, written) {
                let text =
                    Templated { template, key: found.key, path, position, is_default: false, read: text };
                files.push(ParsedFile { name, text });
            }
        }
        files
    }

    fn variable(
        &mut self,
        key: &'static Key,
        only: Option<Located<String>>,
        name: &str,
        value: &toml::Spanned<DeValue<'a>>,
    ) -> Option<ParsedVariable> {
        let position = self.lines.position(&value.span());
        let path = match &only {
            Some(only) => format!("server.env.{}.{name}", only.value),
            None => format!("server.env.{name}"),
        };
        let Some(written) = value.get_ref().as_str() else {
            self.bad(position, &path, value.get_ref(), "a string".into());
            return None;
        };
        self.resolve(&path, &quoted(written), true);
        let template = self.parse_template(position, &path, written)?;
        let value = Templated { template, key, path, position, is_default: false, read: text };
        Some(ParsedVariable { only, name: name.to_owned(), value })
    }

    fn phases(&mut self, mut section: Section<'a>) -> ParsedPhases {
        let setup = self.subtable(&mut section, "setup").map(|s| self.run(s));
        let prepare = self.prepare(&mut section);
        let warmup = self.subtable_or_empty(&mut section, "warm-up");
        let (warmup_min, warmup_max, warmup_judge) = self.warmup(warmup);
        let (measure, interval) = match self.subtable(&mut section, "measure") {
            Some(mut s) => {
                let both = (self.take(&mut s, "time", duration), self.take(&mut s, "interval", duration));
                self.finish(&s);
                both
            }
            None => (None, None),
        };
        let verify = self.subtable(&mut section, "verify").map(|s| self.run(s));
        let cooldown = self.take(&mut section, "cooldown", duration);
        self.finish(&section);
        ParsedPhases {
            setup,
            prepare,
            warmup_min,
            warmup_max,
            warmup_judge,
            measure,
            interval,
            verify,
            cooldown,
        }
    }

    #[expect(clippy::type_complexity, reason = "three keys of one table, taken apart by the only caller")]
    fn warmup(
        &mut self,
        mut section: Section<'a>,
    ) -> (Option<Located<Duration>>, Option<Located<Duration>>, Option<Located<Vec<String>>>) {
        let s = &mut section;
        let all = (self.take(s, "min", duration), self.take(s, "max", duration), self.list(s, "judge"));
        self.finish(s);
        all
    }

    fn run(&mut self, mut section: Section<'a>) -> ParsedRun {
        let s = &mut section;
        let run = ParsedRun {
            run: self.template(s, "run", text),
            timeout: self.take(s, "timeout", duration),
            retries: self.take(s, "retries", whole),
        };
        self.finish(s);
        run
    }

    fn prepare(&mut self, section: &mut Section<'a>) -> Option<ParsedPrepare> {
        let found = self.find(section, "prepare")?;
        match found.value.as_str() {
            Some("builtin") => Some(ParsedPrepare::Builtin),
            Some("none") => Some(ParsedPrepare::Nothing),
            Some(_) => {
                self.bad_found(&found);
                None
            }
            None => self.subtable(section, "prepare").map(|s| ParsedPrepare::Run(self.run(s))),
        }
    }

    fn observe(&mut self, mut section: Section<'a>) -> (Option<Located<Vec<String>>>, Option<Located<bool>>) {
        let both = (self.list(&mut section, "instruments"), self.take(&mut section, "control_arm", boolean));
        self.finish(&section);
        both
    }

    fn judge(&mut self, mut section: Section<'a>) -> ParsedJudge {
        let s = &mut section;
        let judge = ParsedJudge {
            rope: self.take(s, "rope", percent),
            alpha: self.take(s, "alpha", number),
            family: self.take(s, "family", text),
            metrics: self.list(s, "metrics"),
        };
        let _: Option<Located<String>> = self.take(s, "adjust", text);
        self.finish(s);
        judge
    }

    fn gates(&mut self, top: &'a DeTable<'a>) -> Vec<ParsedGate> {
        let Some((_, gates)) = entry(top, "gate") else { return Vec::new() };
        let position = self.lines.position(&gates.span());
        let Some(gates) = gates.get_ref().as_array() else {
            self.bad(position, "gate", gates.get_ref(), "tables, each headed by [[gate]]".into());
            return Vec::new();
        };
        gates
            .iter()
            .enumerate()
            .map(|(i, gate)| {
                let position = self.lines.position(&gate.span());
                let mut s = self.section("gate[]", &format!("gate.{}", i + 1), position, Some(gate));
                let gate = ParsedGate {
                    metric: self.take(&mut s, "metric", Metric::of_load),
                    rule: self.take(&mut s, "rule", GateRule::read),
                    on_inconclusive: self.take(&mut s, "on_inconclusive", OnInconclusive::from_word),
                };
                self.finish(&s);
                gate
            })
            .collect()
    }

    #[expect(clippy::type_complexity, reason = "three keys of one table, taken apart by the only caller")]
    fn report(
        &mut self,
        mut section: Section<'a>,
    ) -> (Option<Located<String>>, Option<Located<String>>, Option<Located<String>>) {
        let s = &mut section;
        let _: Option<Located<String>> = self.take(s, "form", text);
        let all = (self.take(s, "sponsor", text), self.take(s, "tuning", text), self.take(s, "notes", text));
        self.finish(s);
        all
    }
}

/// Length of a slice, within its bounds.
fn slice(written: &str) -> Option<Duration> {
    let [shortest, longest] = Slices::BOUNDS;
    duration(written).filter(|length| (shortest..=longest).contains(length))
}
