//! Reads declared keys or their defaults from a TOML tree, and notes problems.

use std::collections::BTreeSet;

use record::load::settings::Values;
use record::nearest::did_you_mean;
use toml::de::{DeTable, DeValue};

use crate::error::{Lines, Located, Position, Problem, ProblemKind, closest};
use crate::keys::{self, Key, Kind, Need, Placeholders};
use crate::matrix::Pattern;
use crate::places::Places;
use crate::server::cpu_list;
use crate::template::{Template, Templated};
use crate::value::{masked, scalar, shown, text_for};

/// Key with its value in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Path of the key: `load.rows`.
    pub key: String,
    /// Value, as TOML.
    pub value: String,
    /// Whether the plan gives the value; otherwise it is the default.
    pub written: bool,
}

/// Table during reading.
pub(crate) struct Section<'a> {
    pub(crate) declared: &'static keys::Table,
    /// Path of the table: `load`, `factors.allocator`; empty for the root.
    pub(crate) path: String,
    pub(crate) position: Position,
    pub(crate) entries: Option<&'a DeTable<'a>>,
    pub(crate) taken: BTreeSet<&'static str>,
}

impl Section<'_> {
    pub(crate) fn shown(&self) -> String {
        if self.path.is_empty() { "the plan".into() } else { format!("[{}]", self.path) }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// Found value, or its default.
pub(crate) struct Found<'a> {
    pub(crate) key: &'static Key,
    path: String,
    pub(crate) value: DeValue<'a>,
    pub(crate) position: Position,
    is_default: bool,
}

pub(crate) struct Reader<'a> {
    pub(crate) lines: &'a Lines<'a>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) resolved: Vec<Resolved>,
}

impl<'a> Reader<'a> {
    /// Tables below `family`, each with its name.
    pub(crate) fn named_tables(
        &mut self,
        top: &'a DeTable<'a>,
        family: &'static str,
        declared: &str,
        expected: &str,
    ) -> Vec<(Located<String>, Section<'a>)> {
        let Some((_, tables)) = entry(top, family) else { return Vec::new() };
        let position = self.lines.position(&tables.span());
        let Some(tables) = tables.get_ref().as_table() else {
            self.bad(position, family, tables.get_ref(), expected.into());
            return Vec::new();
        };
        // Order of the plan, which is the order of its configurations; the map is in alphabetical order.
        let mut named: Vec<_> = tables.iter().collect();
        named.sort_by_key(|(name, _)| name.span().start);
        named
            .into_iter()
            .map(|(name, value)| {
                let path = format!("{family}.{}", name.get_ref());
                let position = self.lines.position(&name.span());
                let section = self.section(declared, &path, position, Some(value));
                (Located { value: name.get_ref().to_string(), position }, section)
            })
            .collect()
    }

    /// Table at the root; an absent one is read as empty, so its required keys are missing and its defaults
    /// apply.
    pub(crate) fn child(&mut self, root: &Section<'a>, name: &'static str) -> Section<'a> {
        let declared = keys::table(name);
        match root.entries.and_then(|top| entry(top, name)) {
            Some((key, value)) => {
                let position = self.lines.position(&key.span());
                self.section(name, name, position, Some(value))
            }
            None => Section {
                declared,
                path: name.to_owned(),
                position: Position { line: 1, column: 1 },
                entries: None,
                taken: BTreeSet::new(),
            },
        }
    }

    /// Table in `[phases]`; `None` if it is absent or not a table.
    pub(crate) fn subtable(&mut self, parent: &mut Section<'a>, name: &'static str) -> Option<Section<'a>> {
        let found = self.find(parent, name)?;
        if !found.value.is_table() {
            self.bad_found(&found);
            return None;
        }
        let value = parent.entries.and_then(|t| entry(t, name)).map(|(_, value)| value);
        Some(self.section(&format!("phases.{name}"), &found.path, found.position, value))
    }

    pub(crate) fn subtable_or_empty(&mut self, parent: &mut Section<'a>, name: &'static str) -> Section<'a> {
        let position = parent.position;
        let path = parent.path_of(name);
        self.subtable(parent, name)
            .unwrap_or_else(|| self.section(&format!("phases.{name}"), &path, position, None))
    }

    pub(crate) fn section(
        &mut self,
        declared: &str,
        path: &str,
        position: Position,
        value: Option<&'a toml::Spanned<DeValue<'a>>>,
    ) -> Section<'a> {
        let entries = value.and_then(|value| {
            let table = value.get_ref().as_table();
            if table.is_none() {
                self.bad(position, path, value.get_ref(), "a table".into());
            }
            table
        });
        Section {
            declared: keys::table(declared),
            path: path.to_owned(),
            position,
            entries,
            taken: BTreeSet::new(),
        }
    }

    /// Value of a key, or its default; notes a missing one.
    pub(crate) fn find(&mut self, section: &mut Section<'a>, name: &'static str) -> Option<Found<'a>> {
        let key = section.declared.keys.iter().find(|k| k.name == name);
        let key = key.unwrap_or_else(|| panic!("{} is not declared in {}", name, section.shown()));
        section.taken.insert(key.name);
        let path = section.path_of(name);
        if let Some((_, value)) = section.entries.and_then(|table| entry(table, name)) {
            let position = self.lines.position(&value.span());
            self.resolve(&path, &shown(value.get_ref()), true);
            return Some(Found { key, path, value: value.get_ref().clone(), position, is_default: false });
        }
        match key.need {
            Need::Optional(_) => None,
            Need::Default(toml) => {
                let value = DeValue::parse(toml).expect("declared defaults are TOML").into_inner();
                self.resolve(&path, toml, false);
                Some(Found { key, path, value, position: section.position, is_default: true })
            }
            Need::Setting { default, is_listed } => {
                let value = if key.kind.is_bare() {
                    DeValue::parse(default).expect("declared defaults are TOML").into_inner()
                } else {
                    DeValue::String(default.into())
                };
                if is_listed {
                    self.resolve(&path, &shown(&value), false);
                }
                Some(Found { key, path, value, position: section.position, is_default: true })
            }
            Need::Required => {
                self.problems.push(Problem {
                    position: section.position,
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

    pub(crate) fn resolve(&mut self, key: &str, value: &str, written: bool) {
        // A key that may hold a word or a table is read twice.
        if self.resolved.iter().all(|r| r.key != key) {
            self.resolved.push(Resolved { key: key.to_owned(), value: masked(key, value), written });
        }
    }

    /// Value that is the same for every trial.
    pub(crate) fn take<T>(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
        read: fn(&str) -> Option<T>,
    ) -> Option<Located<T>> {
        let found = self.find(section, name)?;
        let value = text_for(found.key.kind, &found.value).filter(|t| found.key.kind.takes(t));
        let value = value.and_then(|text| read(&text));
        if value.is_none() {
            self.bad_found(&found);
        }
        value.map(|value| Located { value, position: found.position })
    }

    /// Value that may have placeholders.
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
            Some(text) => self.parse_template(found.position, &found.path, text)?,
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
            position: found.position,
            is_default: found.is_default,
            read,
        })
    }

    pub(crate) fn parse_template(&mut self, position: Position, path: &str, text: &str) -> Option<Template> {
        let template = Template::parse(text);
        if template.is_err() {
            let kind = ProblemKind::LoneBrace { key: path.to_owned() };
            self.problems.push(Problem { position, kind });
        }
        template.ok()
    }

    /// List of texts; if they are words, each at most once.
    pub(crate) fn list(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
    ) -> Option<Located<Vec<String>>> {
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
        texts.map(|value| Located { value, position: found.position })
    }

    /// Lists of numbers, one for each instance of the server; a text is one list that the instances share.
    pub(crate) fn places(&mut self, section: &mut Section<'a>, name: &'static str) -> Option<Places> {
        let found = self.find(section, name)?;
        let position = found.position;
        if !found.value.is_array() {
            let list = self.templated(found, cpu_list)?;
            return Some(Places { position, lists: vec![list], is_shared: true });
        }
        let of_item = |item: &toml::Spanned<DeValue<'a>>| Found {
            key: found.key,
            path: found.path.clone(),
            value: item.get_ref().clone(),
            position: self.lines.position(&item.span()),
            is_default: false,
        };
        let items: Vec<Found<'a>> = found.value.as_array().into_iter().flatten().map(of_item).collect();
        // Each bad one is a problem.
        let lists: Vec<Option<_>> = items.into_iter().map(|item| self.templated(item, cpu_list)).collect();
        Some(Places { position, lists: lists.into_iter().collect::<Option<_>>()?, is_shared: false })
    }

    /// Levels of factors: `{ allocator = "jemalloc", threads = [1, 2] }`.
    pub(crate) fn combination(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
    ) -> Option<Located<Pattern>> {
        let found = self.find(section, name)?;
        let value = pattern(&found.value);
        if value.is_none() {
            self.bad_found(&found);
        }
        value.map(|value| Located { value, position: found.position })
    }

    /// List of levels of factors, each at its position.
    pub(crate) fn combinations(
        &mut self,
        section: &mut Section<'a>,
        name: &'static str,
    ) -> Vec<Located<Pattern>> {
        let Some(found) = self.find(section, name) else { return Vec::new() };
        let items = found.value.as_array().into_iter().flatten();
        let each: Option<Vec<Located<Pattern>>> = items
            .map(|item| {
                let position = self.lines.position(&item.span());
                Some(Located { value: pattern(item.get_ref())?, position })
            })
            .collect();
        let each = each.filter(|_| found.value.is_array());
        if each.is_none() {
            self.bad_found(&found);
        }
        each.unwrap_or_default()
    }

    /// Notes every undeclared key of the table.
    pub(crate) fn finish(&mut self, section: &Section<'a>) {
        let declared: BTreeSet<_> = section.declared.keys.iter().map(|k| k.name).collect();
        assert_eq!(declared, section.taken, "every declared key of {} is read", section.shown());
        let mut known: Vec<&str> = section.declared.keys.iter().map(|k| k.name).collect();
        if section.path.is_empty() {
            known.extend([
                "factors",
                "design",
                "build",
                "admission",
                "load",
                "fleet",
                "client",
                "server",
                "phases",
                "observe",
                "values",
                "judge",
                "gate",
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
                closest: closest(found, known.iter().copied()),
                known: known.iter().map(|&k| k.to_owned()).collect(),
            };
            self.problems.push(Problem { position: self.lines.position(&name.span()), kind });
        }
    }

    pub(crate) fn bad_found(&mut self, found: &Found<'_>) {
        let known = match found.key.kind {
            Kind::Words(words) | Kind::Value(Values::Word(words)) => words(),
            _ => Vec::new(),
        };
        let items = found.value.as_array().into_iter().flatten().map(toml::Spanned::get_ref);
        let mut texts = items.chain([&found.value]).filter_map(DeValue::as_str);
        let unknown = texts.find(|text| !known.contains(text));
        let meant = unknown.map_or_else(String::new, |text| did_you_mean(text, known.iter().copied()));
        let expected = found.key.kind.expected() + &meant;
        self.bad(found.position, &found.path, &found.value, expected);
    }

    pub(crate) fn bad(&mut self, position: Position, path: &str, value: &DeValue<'_>, expected: String) {
        let found = masked(path, &shown(value));
        let kind = ProblemKind::BadValue { key: path.to_owned(), found, expected };
        self.problems.push(Problem { position, kind });
    }
}

/// Levels of factors; `None` if a value is not a level, or without any level.
fn pattern(value: &DeValue<'_>) -> Option<Pattern> {
    let levels = |value: &DeValue<'_>| -> Option<Vec<String>> {
        match value.as_array() {
            Some(items) => items.iter().map(|item| scalar(item.get_ref())).collect(),
            None => scalar(value).map(|level| vec![level]),
        }
    };
    let pairs = value.as_table()?.iter();
    let pattern: Option<Pattern> = pairs
        .map(|(name, value)| {
            let levels = levels(value.get_ref()).filter(|levels| !levels.is_empty())?;
            Some((name.get_ref().to_string(), levels))
        })
        .collect();
    pattern.filter(|pattern| !pattern.is_empty())
}

type Entry<'a> = (&'a toml::Spanned<toml::de::DeString<'a>>, &'a toml::Spanned<DeValue<'a>>);

pub(crate) fn entry<'a>(table: &'a DeTable<'a>, name: &str) -> Option<Entry<'a>> {
    table.get_key_value(name)
}
