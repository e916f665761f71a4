//! A plan as written: every key is one that `keys` declares and holds a value of its kind.
//!
//! The TOML tree is walked with the places of its parts, not deserialised: a deserialiser stops at the first thing it
//! does not like, and a plan's author wants to hear of all of them. What is wrong is noted and read as absent.

use std::collections::BTreeSet;
use std::time::Duration;

use record::bakeoff::{Metric, Plot};
use record::quantity;
use record::target::mask_text;
use toml::de::{DeTable, DeValue};

use crate::error::{Lines, Place, Problem, ProblemKind, meant};
use crate::keys::{self, Key, Kind, Need, Placeholders};
use crate::load::LoadKeys;
use crate::meant::{Command, GateRule, OnInconclusive, Ready, Resolved, Scheduler, StopSignal};
use crate::template::{Template, Templated};

/// A value and where it stands; where it is a default, the place of its table.
#[derive(Debug, Clone)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct FactorWritten {
    pub(crate) name: Written<String>,
    pub(crate) values: Vec<Written<String>>,
    pub(crate) reference: Option<Written<String>>,
    pub(crate) level: Option<Written<Plot>>,
}

#[derive(Debug)]
pub(crate) struct DesignWritten {
    pub(crate) blocks: Option<Written<u32>>,
    pub(crate) seed: Option<Written<u64>>,
    pub(crate) time_budget: Option<Written<Duration>>,
}

/// One variable of the server's environment.
#[derive(Debug)]
pub(crate) struct EnvWritten {
    /// The value of a factor that it is for; `None`: for every configuration.
    pub(crate) only: Option<Written<String>>,
    pub(crate) name: String,
    pub(crate) value: Templated<String>,
}

#[derive(Debug)]
pub(crate) struct ServerWritten {
    pub(crate) command: Option<Templated<Command>>,
    pub(crate) ready: Option<Templated<Ready>>,
    pub(crate) ready_timeout: Option<Written<Duration>>,
    pub(crate) stop: Option<Written<StopSignal>>,
    pub(crate) stop_timeout: Option<Written<Duration>>,
    pub(crate) instances: Option<Written<u32>>,
    pub(crate) cpus: Option<Written<Vec<String>>>,
    pub(crate) scheduler: Option<Written<Scheduler>>,
    pub(crate) env: Vec<EnvWritten>,
}

#[derive(Debug)]
pub(crate) struct RunWritten {
    pub(crate) run: Option<Templated<String>>,
    pub(crate) timeout: Option<Written<Duration>>,
    pub(crate) retries: Option<Written<u32>>,
}

/// A number of each trial, and the command that tells it.
#[derive(Debug)]
pub(crate) struct ValueWritten {
    pub(crate) name: Written<String>,
    pub(crate) run: RunWritten,
}

#[derive(Debug)]
pub(crate) enum PrepareWritten {
    Builtin,
    Nothing,
    Run(RunWritten),
}

#[derive(Debug)]
pub(crate) struct PhasesWritten {
    pub(crate) setup: Option<RunWritten>,
    pub(crate) prepare: Option<PrepareWritten>,
    pub(crate) warmup_min: Option<Written<Duration>>,
    pub(crate) warmup_max: Option<Written<Duration>>,
    pub(crate) warmup_judge: Option<Written<Vec<String>>>,
    pub(crate) measure: Option<Written<Duration>>,
    pub(crate) interval: Option<Written<Duration>>,
    pub(crate) cooldown: Option<Written<Duration>>,
}

#[derive(Debug)]
pub(crate) struct JudgeWritten {
    pub(crate) rope: Option<Written<f64>>,
    pub(crate) alpha: Option<Written<f64>>,
    pub(crate) family: Option<Written<String>>,
    pub(crate) metrics: Option<Written<Vec<String>>>,
}

#[derive(Debug)]
pub(crate) struct GateWritten {
    pub(crate) place: Place,
    pub(crate) metric: Option<Written<Metric>>,
    pub(crate) rule: Option<Written<GateRule>>,
    pub(crate) on_inconclusive: Option<Written<OnInconclusive>>,
}

/// A plan as written.
#[derive(Debug)]
pub(crate) struct PlanWritten {
    pub(crate) title: Option<Written<String>>,
    pub(crate) question: Option<Written<String>>,
    pub(crate) factors: Vec<FactorWritten>,
    pub(crate) design: DesignWritten,
    pub(crate) load: LoadKeys,
    pub(crate) server: Option<ServerWritten>,
    pub(crate) phases: PhasesWritten,
    pub(crate) instruments: Option<Written<Vec<String>>>,
    pub(crate) control_arm: Option<Written<bool>>,
    pub(crate) values: Vec<ValueWritten>,
    pub(crate) judge: JudgeWritten,
    pub(crate) gates: Vec<GateWritten>,
    pub(crate) sponsor: Option<Written<String>>,
    pub(crate) tuning: Option<Written<String>>,
    pub(crate) notes: Option<Written<String>>,
    /// Every key with the value it has, as written or by default.
    pub(crate) resolved: Vec<Resolved>,
}

/// Reads a plan as far as it can be read; `None` where the text is not TOML.
pub(crate) fn read(text: &str, lines: &Lines<'_>) -> (Option<PlanWritten>, Vec<Problem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| Problem {
            place: lines.place(&error.span().unwrap_or(0..0)),
            kind: ProblemKind::Syntax { message: error.message().to_owned() },
        };
        return (None, errors.iter().map(problem).collect());
    }
    let mut reader = Reader { lines, problems: Vec::new(), resolved: Vec::new() };
    let mut plan = reader.plan(document.get_ref());
    plan.resolved = reader.resolved;
    (Some(plan), reader.problems)
}

/// One table while it is read.
pub(crate) struct Section<'a> {
    declared: &'static keys::Table,
    /// `load`, `factors.allocator`; empty at the top.
    path: String,
    place: Place,
    entries: Option<&'a DeTable<'a>>,
    asked: BTreeSet<&'static str>,
}

impl Section<'_> {
    fn shown(&self) -> String {
        if self.path.is_empty() { "the plan".into() } else { format!("[{}]", self.path) }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// A value that was found, or its default.
pub(crate) struct Found<'a> {
    key: &'static Key,
    path: String,
    pub(crate) value: DeValue<'a>,
    pub(crate) place: Place,
    is_default: bool,
}

pub(crate) struct Reader<'a> {
    lines: &'a Lines<'a>,
    problems: Vec<Problem>,
    resolved: Vec<Resolved>,
}

impl<'a> Reader<'a> {
    fn plan(&mut self, top: &'a DeTable<'a>) -> PlanWritten {
        let mut root = Section {
            declared: keys::table(""),
            path: String::new(),
            place: Place { line: 1, column: 1 },
            entries: Some(top),
            asked: BTreeSet::new(),
        };
        let _: Option<Written<u32>> = self.take(&mut root, "schema", whole);
        let title = self.take(&mut root, "title", text);
        let question = self.take(&mut root, "question", text);
        self.finish(&root);

        let observe = self.child(&root, "observe");
        let (instruments, control_arm) = self.observe(observe);
        let report = self.child(&root, "report");
        let (sponsor, tuning, notes) = self.report(report);
        PlanWritten {
            title,
            question,
            factors: self.factors(top),
            design: {
                let section = self.child(&root, "design");
                self.design(section)
            },
            load: {
                let section = self.child(&root, "load");
                self.load(section)
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

    fn factors(&mut self, top: &'a DeTable<'a>) -> Vec<FactorWritten> {
        let sections = self.named_tables(top, "factors", "factors.*", "tables such as [factors.threads]");
        sections
            .into_iter()
            .map(|(name, mut section)| {
                let values = self.levels(&mut section);
                let reference = self.take(&mut section, "reference", text);
                let level = self.take(&mut section, "level", Plot::from_word);
                self.finish(&section);
                FactorWritten { name, values, reference, level }
            })
            .collect()
    }

    fn values(&mut self, top: &'a DeTable<'a>) -> Vec<ValueWritten> {
        let sections = self.named_tables(top, "values", "values.*", "tables such as [values.size_bytes]");
        let value = |(name, section)| ValueWritten { name, run: self.run(section) };
        sections.into_iter().map(value).collect()
    }

    /// The tables below `family`, each with its name.
    fn named_tables(
        &mut self,
        top: &'a DeTable<'a>,
        family: &'static str,
        declared: &str,
        expected: &str,
    ) -> Vec<(Written<String>, Section<'a>)> {
        let Some((_, tables)) = entry(top, family) else { return Vec::new() };
        let place = self.lines.place(&tables.span());
        let Some(tables) = tables.get_ref().as_table() else {
            self.bad(place, family, tables.get_ref(), expected.into());
            return Vec::new();
        };
        // The plan's own order, which is that of its configurations; the map's is alphabetical.
        let mut named: Vec<_> = tables.iter().collect();
        named.sort_by_key(|(name, _)| name.span().start);
        named
            .into_iter()
            .map(|(name, value)| {
                let path = format!("{family}.{}", name.get_ref());
                let place = self.lines.place(&name.span());
                let section = self.section(declared, &path, place, Some(value));
                (Written { value: name.get_ref().to_string(), place }, section)
            })
            .collect()
    }

    fn levels(&mut self, section: &mut Section<'a>) -> Vec<Written<String>> {
        let Some(found) = self.find(section, "values") else { return Vec::new() };
        let items = found.value.as_array().into_iter().flatten();
        let values: Option<Vec<_>> = items
            .map(|item| {
                let value = scalar(item.get_ref()).filter(|text| !text.is_empty())?;
                Some(Written { value, place: self.lines.place(&item.span()) })
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

    fn design(&mut self, mut section: Section<'a>) -> DesignWritten {
        let design = DesignWritten {
            blocks: self.take(&mut section, "blocks", whole),
            seed: self.take(&mut section, "seed", whole),
            time_budget: self.take(&mut section, "time_budget", duration),
        };
        self.finish(&section);
        design
    }

    fn load(&mut self, mut section: Section<'a>) -> LoadKeys {
        let load = LoadKeys::read(self, &mut section);
        self.finish(&section);
        load
    }

    fn server(&mut self, mut section: Section<'a>) -> ServerWritten {
        let s = &mut section;
        let server = ServerWritten {
            command: self.template(s, "command", Command::read),
            ready: self.template(s, "ready", Ready::read),
            ready_timeout: self.take(s, "ready_timeout", duration),
            stop: self.take(s, "stop", StopSignal::read),
            stop_timeout: self.take(s, "stop_timeout", duration),
            instances: self.take(s, "instances", whole),
            cpus: self.list(s, "cpus"),
            scheduler: self.take(s, "scheduler", Scheduler::read),
            env: self.environment(s),
        };
        self.finish(s);
        server
    }

    fn environment(&mut self, section: &mut Section<'a>) -> Vec<EnvWritten> {
        let Some(found) = self.find(section, "env") else { return Vec::new() };
        let Some(table) =
            section.entries.and_then(|t| entry(t, "env")).and_then(|(_, v)| v.get_ref().as_table())
        else {
            self.bad_found(&found);
            return Vec::new();
        };
        let mut variables = Vec::new();
        for (name, value) in table {
            let place = self.lines.place(&name.span());
            match value.get_ref().as_table() {
                None => variables.extend(self.variable(found.key, None, name.get_ref(), value)),
                Some(inner) => {
                    let only = Written { value: name.get_ref().to_string(), place };
                    for (name, value) in inner {
                        variables.extend(self.variable(found.key, Some(only.clone()), name.get_ref(), value));
                    }
                }
            }
        }
        variables
    }

    fn variable(
        &mut self,
        key: &'static Key,
        only: Option<Written<String>>,
        name: &str,
        value: &toml::Spanned<DeValue<'a>>,
    ) -> Option<EnvWritten> {
        let place = self.lines.place(&value.span());
        let path = match &only {
            Some(only) => format!("server.env.{}.{name}", only.value),
            None => format!("server.env.{name}"),
        };
        let Some(written) = value.get_ref().as_str() else {
            self.bad(place, &path, value.get_ref(), "a text".into());
            return None;
        };
        self.resolve(&path, &quoted(written), true);
        let template = self.parse_template(place, &path, written)?;
        let value = Templated { template, key, path, place, is_default: false, read: text };
        Some(EnvWritten { only, name: name.to_owned(), value })
    }

    fn phases(&mut self, mut section: Section<'a>) -> PhasesWritten {
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
        let cooldown = self.take(&mut section, "cooldown", duration);
        self.finish(&section);
        PhasesWritten { setup, prepare, warmup_min, warmup_max, warmup_judge, measure, interval, cooldown }
    }

    #[expect(clippy::type_complexity, reason = "three keys of one table, taken apart by the only caller")]
    fn warmup(
        &mut self,
        mut section: Section<'a>,
    ) -> (Option<Written<Duration>>, Option<Written<Duration>>, Option<Written<Vec<String>>>) {
        let s = &mut section;
        let all = (self.take(s, "min", duration), self.take(s, "max", duration), self.list(s, "judge"));
        self.finish(s);
        all
    }

    fn run(&mut self, mut section: Section<'a>) -> RunWritten {
        let s = &mut section;
        let run = RunWritten {
            run: self.template(s, "run", text),
            timeout: self.take(s, "timeout", duration),
            retries: self.take(s, "retries", whole),
        };
        self.finish(s);
        run
    }

    fn prepare(&mut self, section: &mut Section<'a>) -> Option<PrepareWritten> {
        let found = self.find(section, "prepare")?;
        match found.value.as_str() {
            Some("builtin") => Some(PrepareWritten::Builtin),
            Some("none") => Some(PrepareWritten::Nothing),
            Some(_) => {
                self.bad_found(&found);
                None
            }
            None => self.subtable(section, "prepare").map(|s| PrepareWritten::Run(self.run(s))),
        }
    }

    fn observe(&mut self, mut section: Section<'a>) -> (Option<Written<Vec<String>>>, Option<Written<bool>>) {
        let both = (self.list(&mut section, "instruments"), self.take(&mut section, "control_arm", boolean));
        self.finish(&section);
        both
    }

    fn judge(&mut self, mut section: Section<'a>) -> JudgeWritten {
        let s = &mut section;
        let judge = JudgeWritten {
            rope: self.take(s, "rope", percent),
            alpha: self.take(s, "alpha", number),
            family: self.take(s, "family", text),
            metrics: self.list(s, "metrics"),
        };
        let _: Option<Written<String>> = self.take(s, "adjust", text);
        self.finish(s);
        judge
    }

    fn gates(&mut self, top: &'a DeTable<'a>) -> Vec<GateWritten> {
        let Some((_, gates)) = entry(top, "gate") else { return Vec::new() };
        let place = self.lines.place(&gates.span());
        let Some(gates) = gates.get_ref().as_array() else {
            self.bad(place, "gate", gates.get_ref(), "tables, each headed by [[gate]]".into());
            return Vec::new();
        };
        gates
            .iter()
            .enumerate()
            .map(|(i, gate)| {
                let place = self.lines.place(&gate.span());
                let mut s = self.section("gate[]", &format!("gate.{}", i + 1), place, Some(gate));
                let gate = GateWritten {
                    place,
                    metric: self.take(&mut s, "metric", Metric::from_word),
                    rule: self.take(&mut s, "rule", GateRule::read),
                    on_inconclusive: self.take(&mut s, "on_inconclusive", OnInconclusive::read),
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
    ) -> (Option<Written<String>>, Option<Written<String>>, Option<Written<String>>) {
        let s = &mut section;
        let _: Option<Written<String>> = self.take(s, "form", text);
        let all = (self.take(s, "sponsor", text), self.take(s, "tuning", text), self.take(s, "notes", text));
        self.finish(s);
        all
    }

    /// A table at the top; absent, it is read as empty, so that its required keys are missed and its defaults apply.
    fn child(&mut self, root: &Section<'a>, name: &'static str) -> Section<'a> {
        let declared = keys::table(name);
        match root.entries.and_then(|top| entry(top, name)) {
            Some((key, value)) => {
                let place = self.lines.place(&key.span());
                self.section(name, name, place, Some(value))
            }
            None => Section {
                declared,
                path: name.to_owned(),
                place: Place { line: 1, column: 1 },
                entries: None,
                asked: BTreeSet::new(),
            },
        }
    }

    /// A table in [phases]; `None` where it is not there or not a table.
    fn subtable(&mut self, parent: &mut Section<'a>, name: &'static str) -> Option<Section<'a>> {
        let found = self.find(parent, name)?;
        if !found.value.is_table() {
            self.bad_found(&found);
            return None;
        }
        let value = parent.entries.and_then(|t| entry(t, name)).map(|(_, value)| value);
        Some(self.section(&format!("phases.{name}"), &found.path, found.place, value))
    }

    fn subtable_or_empty(&mut self, parent: &mut Section<'a>, name: &'static str) -> Section<'a> {
        let place = parent.place;
        let path = parent.path_of(name);
        self.subtable(parent, name)
            .unwrap_or_else(|| self.section(&format!("phases.{name}"), &path, place, None))
    }

    fn section(
        &mut self,
        declared: &str,
        path: &str,
        place: Place,
        value: Option<&'a toml::Spanned<DeValue<'a>>>,
    ) -> Section<'a> {
        let entries = value.and_then(|value| {
            let table = value.get_ref().as_table();
            if table.is_none() {
                self.bad(place, path, value.get_ref(), "a table".into());
            }
            table
        });
        Section {
            declared: keys::table(declared),
            path: path.to_owned(),
            place,
            entries,
            asked: BTreeSet::new(),
        }
    }

    /// What stands at a key, or its default; notes a missing one.
    pub(crate) fn find(&mut self, section: &mut Section<'a>, name: &'static str) -> Option<Found<'a>> {
        let key = section.declared.keys.iter().find(|k| k.name == name);
        let key = key.unwrap_or_else(|| panic!("{} is not declared in {}", name, section.shown()));
        section.asked.insert(key.name);
        let path = section.path_of(name);
        if let Some((_, value)) = section.entries.and_then(|table| entry(table, name)) {
            let place = self.lines.place(&value.span());
            self.resolve(&path, &shown(value.get_ref()), true);
            return Some(Found { key, path, value: value.get_ref().clone(), place, is_default: false });
        }
        match key.need {
            Need::Optional(_) => None,
            Need::Default(toml) => {
                let value = DeValue::parse(toml).expect("declared defaults are TOML").into_inner();
                self.resolve(&path, toml, false);
                Some(Found { key, path, value, place: section.place, is_default: true })
            }
            Need::Required => {
                self.problems.push(Problem {
                    place: section.place,
                    kind: ProblemKind::MissingKey {
                        key: name.to_owned(),
                        table: section.shown(),
                        expected: key.kind.expected(),
                        example: key.example.to_owned(),
                    },
                });
                None
            }
        }
    }

    fn resolve(&mut self, key: &str, value: &str, written: bool) {
        // A key that may hold a word or a table is looked at twice.
        if self.resolved.iter().all(|r| r.key != key) {
            self.resolved.push(Resolved { key: key.to_owned(), value: masked(key, value), written });
        }
    }

    /// A value that is the same for every trial.
    pub(crate) fn take<T>(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
        read: fn(&str) -> Option<T>,
    ) -> Option<Written<T>> {
        let found = self.find(section, name)?;
        let value = text_for(found.key.kind, &found.value).filter(|t| found.key.kind.takes(t));
        let value = value.and_then(|text| read(&text));
        if value.is_none() {
            self.bad_found(&found);
        }
        value.map(|value| Written { value, place: found.place })
    }

    /// A value that may have placeholders.
    pub(crate) fn template<T>(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
        read: fn(&str) -> Option<T>,
    ) -> Option<Templated<T>> {
        let found = self.find(section, name)?;
        self.templated(found, read)
    }

    pub(crate) fn templated<T>(
        &mut self,
        found: Found<'a>,
        read: fn(&str) -> Option<T>,
    ) -> Option<Templated<T>> {
        assert!(found.key.placeholders != Placeholders::None, "{} takes no placeholders", found.path);
        let template = match found.value.as_str().filter(|text| text.contains(['{', '}'])) {
            Some(text) => self.parse_template(found.place, &found.path, text)?,
            None => match text_for(found.key.kind, &found.value) {
                Some(text) if found.key.kind.takes(&text) && read(&text).is_some() => Template::plain(&text),
                _ => {
                    self.bad_found(&found);
                    return None;
                }
            },
        };
        Some(Templated {
            template,
            key: found.key,
            path: found.path,
            place: found.place,
            is_default: found.is_default,
            read,
        })
    }

    fn parse_template(&mut self, place: Place, path: &str, text: &str) -> Option<Template> {
        let template = Template::parse(text);
        if template.is_err() {
            let kind = ProblemKind::LoneBrace { key: path.to_owned() };
            self.problems.push(Problem { place, kind });
        }
        template.ok()
    }

    /// A list of texts; of words, each at most once.
    pub(crate) fn list(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
    ) -> Option<Written<Vec<String>>> {
        let found = self.find(section, name)?;
        let items = found.value.as_array();
        let texts: Option<Vec<String>> = items.and_then(|items| {
            items
                .iter()
                .map(|item| item.get_ref().as_str().filter(|t| found.key.kind.takes(t)).map(str::to_owned))
                .collect()
        });
        let once = |texts: &Vec<String>| {
            let different: BTreeSet<_> = texts.iter().collect();
            !matches!(found.key.kind, Kind::Words(_)) || different.len() == texts.len()
        };
        let texts = texts.filter(once);
        if texts.is_none() {
            self.bad_found(&found);
        }
        texts.map(|value| Written { value, place: found.place })
    }

    /// Notes every key that the table should not have.
    fn finish(&mut self, section: &Section<'a>) {
        let declared: BTreeSet<_> = section.declared.keys.iter().map(|k| k.name).collect();
        assert_eq!(declared, section.asked, "every declared key of {} is read", section.shown());
        let mut known: Vec<&str> = section.declared.keys.iter().map(|k| k.name).collect();
        if section.path.is_empty() {
            known.extend([
                "factors", "design", "load", "server", "phases", "observe", "values", "judge", "gate",
                "report",
            ]);
        }
        for (name, _) in section.entries.into_iter().flatten() {
            let found = name.get_ref().as_ref();
            if known.contains(&found) {
                continue;
            }
            let kind = ProblemKind::UnknownKey {
                key: found.to_owned(),
                table: section.shown(),
                meant: meant(found, known.iter().copied()),
                known: known.iter().map(|&k| k.to_owned()).collect(),
            };
            self.problems.push(Problem { place: self.lines.place(&name.span()), kind });
        }
    }

    pub(crate) fn bad_found(&mut self, found: &Found<'_>) {
        self.bad(found.place, &found.path, &found.value, found.key.kind.expected());
    }

    fn bad(&mut self, place: Place, path: &str, value: &DeValue<'_>, expected: String) {
        let found = masked(path, &shown(value));
        let kind = ProblemKind::BadValue { key: path.to_owned(), found, expected };
        self.problems.push(Problem { place, kind });
    }
}

type Entry<'a> = (&'a toml::Spanned<toml::de::DeString<'a>>, &'a toml::Spanned<DeValue<'a>>);

fn entry<'a>(table: &'a DeTable<'a>, name: &str) -> Option<Entry<'a>> {
    table.get_key_value(name)
}

/// The text of a value whose TOML type fits the kind.
fn text_for(kind: Kind, value: &DeValue<'_>) -> Option<String> {
    let fits = match kind {
        Kind::Text | Kind::Word(_) | Kind::Words(_) | Kind::Form(_) | Kind::Percent { .. } => value.is_str(),
        Kind::Duration { .. } => value.is_str() || scalar(value).as_deref() == Some("0"),
        Kind::Integer { .. } => value.is_integer(),
        Kind::Between { .. } => value.is_integer() || value.is_float(),
        Kind::Bool => value.is_bool(),
        Kind::Rate => value.is_str() || value.is_integer() || value.is_float(),
        Kind::Scalar => true,
        Kind::Values | Kind::Texts | Kind::Table { .. } => false,
    };
    if fits { scalar(value) } else { None }
}

/// Text, number or boolean as text; numbers as TOML writes them in decimal.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(x) => Some(x.as_str().to_owned()),
        DeValue::Boolean(b) => Some(b.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A value in a message.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(items) => {
            format!("[{}]", items.iter().map(|i| shown(i.get_ref())).collect::<Vec<_>>().join(", "))
        }
        DeValue::Table(table) => {
            let pairs: Vec<_> =
                table.iter().map(|(k, v)| format!("{} = {}", k.get_ref(), shown(v.get_ref()))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.as_str().to_owned(),
        DeValue::Boolean(b) => b.to_string(),
    }
}

/// A value without the passwords in it: it is going to be printed.
pub(crate) fn masked(key: &str, value: &str) -> String {
    let assignment = format!("{key} = ");
    let line = mask_text(&format!("{assignment}{value}"));
    line.strip_prefix(&assignment).unwrap_or(&line).to_owned()
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for all readers of values")]
pub(crate) fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub(crate) fn whole<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

pub(crate) fn percent(text: &str) -> Option<f64> {
    quantity::ratio(text).ok()
}

pub(crate) fn duration(text: &str) -> Option<Duration> {
    quantity::duration(text).ok()
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    text.parse().ok()
}
