//! No crate has a circle of files: files that import each other, directly or through others.
//!
//! A file imports another file if its code, without tests, names something that the other file defines: in a
//! `use` line or in a path such as `crate::stop::Stop` or `child::run()`. This holds for a parent and its
//! child, too: a parent may call its child, or a child may use what its parent defines, but not both. Three
//! things are not imports:
//!
//! - a `mod` line: a parent declares its children;
//! - a re-export (`pub use child::Name;`) of a name that the file itself does not use. A path through it
//!   leads to the file that defines the name;
//! - code under `#[cfg(test)]`, and files that only such code declares.
//!
//! `circles.txt` lists the circles that stood when this test was written, one a line. It may only get
//! shorter.
//!
//! The reader knows paths, not types: it does not see a call of a method, and a name inside a macro of
//! another crate is a name. Files that form a circle are understood, tested and moved only together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn no_crate_has_a_circle_of_files_but_the_old_ones() {
    let old: Vec<BTreeSet<String>> = include_str!("circles.txt")
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    let (mut new, mut seen) = (Vec::new(), BTreeSet::new());
    for entry in std::fs::read_dir(crates()).expect("crates/ can be read") {
        let folder = entry.expect("crates/ can be read").path();
        for root in ["src/lib.rs", "src/main.rs", "fuzz/src/lib.rs"] {
            let code = Crate::read(&folder.join(root), &|path| std::fs::read_to_string(path).ok());
            for circle in code.circles() {
                let files: BTreeSet<String> = circle.iter().map(|(from, _)| name(from)).collect();
                if !old.iter().any(|old| files.is_subset(old)) {
                    new.push(shown(&circle));
                }
                seen.extend(files);
            }
        }
    }
    new.sort();
    assert!(new.is_empty(), "{} new circles of files:\n{}", new.len(), new.join("\n\n"));
    let gone: Vec<&String> = old.iter().flatten().filter(|file| !seen.contains(*file)).collect();
    assert!(gone.is_empty(), "on no circle any more, so take them out of circles.txt: {gone:?}");
}

#[test]
fn the_folders_of_load_have_no_circle() {
    let code = Crate::read(&crates().join("load/src/lib.rs"), &|path| std::fs::read_to_string(path).ok());
    let found: Vec<String> = code.circles_of_folders().iter().map(|circle| shown(circle)).collect();
    assert!(found.is_empty(), "a folder stands above another one, or below it:\n{}", found.join("\n\n"));
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file's name, starting at `crates/`.
fn name(path: &Path) -> String {
    path.strip_prefix(crates()).unwrap_or(path).display().to_string()
}

fn shown(circle: &[(&Path, &Path)]) -> String {
    let lines = circle.iter().map(|(from, to)| format!("  {} -> {}", name(from), name(to)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Longest chain of re-exports. The chain of `use name::name;` of another crate would be endless.
const RE_EXPORTS_MAX: u32 = 10;

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// The files of one crate, each a module.
struct Crate {
    files: BTreeMap<Module, File>,
}

/// A file: its module's children, imports and names.
struct File {
    path: PathBuf,
    children: BTreeSet<String>,
    /// Names that `use` lines bring in.
    uses: Vec<Use>,
    /// Paths of two names or more in the code outside of `use` lines.
    paths: Vec<Module>,
    /// Every single name in that code.
    names: BTreeSet<String>,
}

/// One name that a `use` line brings in.
struct Use {
    path: Module,
    /// The name here: the last of the path, or the one after `as`; `*` for all of them.
    name: String,
    is_public: bool,
}

impl Crate {
    /// Reads the file at `root` and every file that it declares; no files if `root` cannot be read.
    fn read(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut files = BTreeMap::new();
        let folder = root.parent().expect("a file is in a folder").to_owned();
        let mut todo = vec![(Module::new(), root.to_owned(), folder)];
        while let Some((module, path, folder)) = todo.pop() {
            let Some(text) = read(&path) else { continue };
            let file = File::of(path, &text);
            for child in &file.children {
                let (beside, inside) = (folder.join(format!("{child}.rs")), folder.join(child));
                let path = if read(&beside).is_some() { beside } else { inside.join("mod.rs") };
                todo.push(([module.clone(), vec![child.clone()]].concat(), path, inside));
            }
            files.insert(module, file);
        }
        Self { files }
    }

    /// The imports on circles, one list for each group of files that reach each other.
    fn circles(&self) -> Vec<Vec<(&Path, &Path)>> {
        self.circles_of(Module::clone)
    }

    /// The same for the folders at the top of the crate: `x.rs` and everything in `x/` are one unit.
    fn circles_of_folders(&self) -> Vec<Vec<(&Path, &Path)>> {
        self.circles_of(|module| module.iter().take(1).cloned().collect())
    }

    /// - `unit`: the module that represents a module.
    fn circles_of(&self, unit: impl Fn(&Module) -> Module) -> Vec<Vec<(&Path, &Path)>> {
        let mut imports: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for module in self.files.keys() {
            let from = unit(module);
            let to = self.imports(module).into_iter().map(&unit).filter(|to| *to != from);
            imports.entry(from.clone()).or_default().extend(to);
        }
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = imports
            .keys()
            .map(|from| {
                let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
                while let Some(module) = todo.pop() {
                    todo.extend(imports[module].iter().filter(|&to| reached.insert(to)));
                }
                (from, reached)
            })
            .collect();
        let mut circles: BTreeMap<&Module, Vec<(&Path, &Path)>> = BTreeMap::new();
        for (from, to) in imports.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
            if reached[to].contains(from) {
                // Both reach each other, so the first module that either reaches and that reaches it back is
                // the same for the whole group.
                let group = reached[from].iter().find(|m| reached[*m].contains(from));
                let group = group.expect("what is on a circle reaches itself");
                circles.entry(group).or_default().push((&self.files[from].path, &self.files[to].path));
            }
        }
        circles.into_values().collect()
    }

    /// The other modules with definitions that the code of `module` names.
    fn imports(&self, module: &Module) -> BTreeSet<&Module> {
        let file = &self.files[module];
        let uses = file.uses.iter().filter(|u| !u.is_public || file.names.contains(&u.name));
        let paths = uses.map(|u| &u.path).chain(&file.paths);
        let found = paths.filter_map(|path| self.home(module, path, 0));
        found.filter(|&home| home != module).collect()
    }

    /// The module of the file that defines the name `path`, for code in `from`; `None` if another crate
    /// defines it, or if it is a module.
    fn home(&self, from: &Module, path: &[String], depth: u32) -> Option<&Module> {
        if depth > RE_EXPORTS_MAX {
            return None;
        }
        let (mut module, mut rest) = (from.clone(), path);
        let mut is_local = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                _ => break,
            }
            (rest, is_local) = (others, true);
        }
        for (i, name) in rest.iter().enumerate() {
            let file = self.files.get(&module)?;
            if file.children.contains(name) {
                module.push(name.clone());
                is_local = true;
                continue;
            }
            let renamed = file.uses.iter().find(|u| u.name == *name && u.path != path);
            if let Some(renamed) = renamed {
                let whole = [&renamed.path[..], &rest[i + 1..]].concat();
                return self.home(&module, &whole, depth + 1);
            }
            // The first name of a path is a crate, a type or a function here, unless one of the above holds.
            return if is_local { self.files.get_key_value(&module).map(|(home, _)| home) } else { None };
        }
        None
    }
}

impl File {
    fn of(path: PathBuf, text: &str) -> Self {
        let tokens = without_tests(&tokens(text));
        let mut file = Self {
            path,
            children: BTreeSet::new(),
            uses: Vec::new(),
            paths: Vec::new(),
            names: BTreeSet::new(),
        };
        let (mut at, mut nested, mut is_public) = (0, Nested::default(), false);
        while at < tokens.len() {
            let next = |n: usize| tokens.get(at + n).map_or("", String::as_str);
            match next(0) {
                "mod" if next(2) == ";" => {
                    file.children.insert(next(1).to_owned());
                    at += 3;
                }
                "mod" if next(2) == "{" => {
                    nested.enter();
                    at += 3;
                }
                "use" => {
                    at += 1;
                    let from = file.uses.len();
                    at = use_tree(&tokens, at, &[], &mut file.uses);
                    for used in &mut file.uses[from..] {
                        used.is_public = is_public;
                        nested.correct(&mut used.path);
                    }
                    file.uses.retain(|used| used.path != ["super"]);
                }
                "pub" => {
                    is_public = true;
                    let is_limited = next(1) == "(";
                    at += 1;
                    if is_limited {
                        at += tokens[at..].iter().position(|t| t == ")").map_or(0, |n| n + 1);
                    }
                    continue;
                }
                word if is_name(word) => {
                    let mut path = vec![word.to_owned()];
                    let is_field = at > 0 && tokens[at - 1] == ".";
                    at += 1;
                    while tokens.get(at).is_some_and(|t| t == "::")
                        && tokens.get(at + 1).is_some_and(|t| is_name(t))
                    {
                        path.push(tokens[at + 1].clone());
                        at += 2;
                    }
                    if !is_field {
                        file.names.insert(path[0].clone());
                    }
                    if path.len() > 1 {
                        nested.correct(&mut path);
                        file.paths.push(path);
                    }
                }
                other => {
                    nested.follow(other);
                    at += 1;
                }
            }
            is_public = false;
        }
        file
    }
}

/// The modules inside a file that are open at a position: `super` there means this file.
#[derive(Default)]
struct Nested {
    braces: u32,
    opened_at: Vec<u32>,
}

impl Nested {
    fn enter(&mut self) {
        self.opened_at.push(self.braces);
        self.braces += 1;
    }

    fn follow(&mut self, token: &str) {
        match token {
            "{" => self.braces += 1,
            "}" => {
                self.braces = self.braces.saturating_sub(1);
                if self.opened_at.last() == Some(&self.braces) {
                    self.opened_at.pop();
                }
            }
            _ => {}
        }
    }

    fn correct(&self, path: &mut Module) {
        for _ in &self.opened_at {
            if path[0] == "super" {
                "self".clone_into(&mut path[0]);
            }
        }
    }
}

/// Reads the tree between `use` and its semicolon, from `at` on; returns the index after it.
fn use_tree(tokens: &[String], mut at: usize, before: &[String], uses: &mut Vec<Use>) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            None => return at,
            Some("::") => at += 1,
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|t| t != "}") {
                    at = use_tree(tokens, at, &path, uses);
                    at += usize::from(tokens.get(at).is_some_and(|t| t == ","));
                }
                at += 1;
                // The list ends its branch.
                return at + usize::from(before.is_empty());
            }
            Some("as") => {
                let name = tokens[at + 1].clone();
                uses.push(Use { path, name, is_public: false });
                return at + 2 + usize::from(before.is_empty());
            }
            Some("self") if !path.is_empty() => at += 1,
            Some(end @ ("," | "}" | ";")) => {
                if let Some(name) = path.last().cloned() {
                    uses.push(Use { path, name, is_public: false });
                }
                return at + usize::from(end == ";");
            }
            Some(name) => {
                path.push(name.to_owned());
                at += 1;
            }
        }
    }
}

/// Names and marks of Rust code, without comments, lifetimes and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = string_length(rest) {
            length
        } else if first == '\'' {
            quote_length(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(rest[..length].to_owned());
            }
            length
        };
        rest = &rest[length..];
    }
    tokens
}

/// Length of the string that `text` begins with, raw or not; `None` if it begins with none.
fn string_length(text: &str) -> Option<usize> {
    let prefix = text.find(|c| !matches!(c, 'b' | 'c' | 'r'))?;
    let is_raw = text[..prefix].contains('r');
    let hashes = text[prefix..].find(|c| c != '#')?;
    if prefix > 2 || !text[prefix + hashes..].starts_with('"') || (hashes > 0 && !is_raw) {
        return None;
    }
    let begin = prefix + hashes + 1;
    if is_raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len()));
    }
    let mut is_escaped = false;
    let end = text[begin..].find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    Some(end.map_or(text.len(), |at| begin + at + 1))
}

/// Length of the character or the lifetime that `text` begins with.
fn quote_length(text: &str) -> usize {
    let mut inside = text[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escaped)) => {
            let begin = 2 + escaped.len_utf8();
            text[begin..].find('\'').map_or(text.len(), |at| begin + at + 1)
        }
        (Some(character), Some('\'')) => 2 + character.len_utf8(),
        _ => 1,
    }
}

/// The same code without attributes, and without the items that are compiled only for tests.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = attribute_end(tokens, at) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let is_for_tests = tokens[at..end].join("").starts_with("#[cfg(test)");
        at = end;
        if is_for_tests {
            while let Some(end) = attribute_end(tokens, at) {
                at = end;
            }
            at = item_end(tokens, at);
        }
    }
    kept
}

/// End of the attribute that begins at `at`; `None` if none begins there.
fn attribute_end(tokens: &[String], at: usize) -> Option<usize> {
    let open = match (tokens.get(at)?.as_str(), tokens.get(at + 1)?.as_str()) {
        ("#", "[") => at + 1,
        ("#", "!") if tokens.get(at + 2)? == "[" => at + 2,
        _ => return None,
    };
    Some(block_end(tokens, open))
}

/// End of the item that begins at `at`: after its semicolon or its block.
fn item_end(tokens: &[String], mut at: usize) -> usize {
    let is_use = tokens[at..].iter().take(5).any(|t| t == "use");
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            ";" => return at + 1,
            "{" if !is_use => return block_end(tokens, at),
            "(" | "[" | "{" => at = block_end(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// End of the brackets that open at `open`.
fn block_end(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The circles of a crate with these files, each a path and its text, as lines `from -> to`.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let read = |path: &Path| {
        files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
    };
    let code = Crate::read(Path::new("lib.rs"), &read);
    let lines = code.circles().into_iter().flatten();
    lines.map(|(from, to)| format!("{} -> {}", from.display(), to.display())).collect()
}

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    let both = ["a.rs -> b.rs", "b.rs -> a.rs"];
    let root = ("lib.rs", "mod a; mod b;");
    let a = ("a.rs", "use crate::b::{self, B}; pub(crate) struct A(B);");
    assert_eq!(circles_of(&[root, a, ("b.rs", "pub(crate) struct B; fn f(_: super::a::A) {}")]), both);
    assert_eq!(
        circles_of(&[root, a, ("b.rs", "use super::a; pub(crate) struct B; fn f() { a::run() }")]),
        both
    );
    assert!(circles_of(&[root, a, ("b.rs", "pub(crate) struct B;")]).is_empty());
}

#[test]
fn a_parent_and_its_child_are_a_circle_if_both_use_the_other() {
    let uses_parent = ("p/c.rs", "use super::P; pub(super) struct C(P);");
    let both = ["p.rs -> p/c.rs", "p/c.rs -> p.rs"];
    let p = ("p.rs", "mod c; pub(crate) struct P; fn f(_: c::C) {}");
    assert_eq!(circles_of(&[("lib.rs", "mod p;"), p, uses_parent]), both);
    let p = ("p.rs", "mod c; pub(crate) use c::C; pub(crate) struct P; fn f(_: C) {}");
    assert_eq!(circles_of(&[("lib.rs", "mod p;"), p, uses_parent]), both, "it uses what it re-exports");
    let p = ("p.rs", "mod c; pub(crate) use c::C; pub(crate) struct P;");
    assert!(circles_of(&[("lib.rs", "mod p;"), p, uses_parent]).is_empty());
    assert!(circles_of(&[("lib.rs", "mod p;"), ("p/mod.rs", p.1), uses_parent]).is_empty());
}

#[test]
fn a_path_through_a_re_export_leads_to_the_file_that_defines_the_name() {
    let (root, p) = (("lib.rs", "mod p;"), ("p.rs", "mod a; mod b; pub use a::A; pub use b::B as Other;"));
    let a = ("p/a.rs", "pub struct A; fn f(_: super::Other) {}");
    let b = ("p/b.rs", "use crate::p::A; pub struct B(A);");
    assert_eq!(circles_of(&[root, p, a, b]), ["p/a.rs -> p/b.rs", "p/b.rs -> p/a.rs"]);
}

#[test]
fn tests_comments_and_texts_import_nothing() {
    let root = ("lib.rs", "mod a; mod b;");
    let a = ("a.rs", "pub struct A; fn f() -> crate::b::B { crate::b::B }");
    for b in [
        "pub struct B; // crate::a::A",
        "pub struct B; /* crate::a::A */",
        "pub struct B; const TEXT: &str = r#\"crate::a::A \" crate::a::A\"#;",
        "pub struct B; const TEXT: (&str, char, &'static str) = (\"\\\" crate::a::A\", '\"', \"crate::a::A\");",
        "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        "pub struct B; #[cfg(test)] #[expect(unused)] use crate::a::{A};",
    ] {
        assert!(circles_of(&[root, a, ("b.rs", b)]).is_empty(), "{b}");
    }
    assert_eq!(
        circles_of(&[root, a, ("b.rs", "pub struct B; const C: char = '\"'; fn f(_: crate::a::A) {}")]).len(),
        2
    );
}

#[test]
fn super_inside_a_module_of_a_file_is_the_file() {
    let root = ("lib.rs", "mod a; struct Root; fn f(_: a::A) {}");
    let a = ("a.rs", "pub struct A; mod inner { pub fn f(_: super::A) {} }");
    assert!(circles_of(&[root, a]).is_empty());
    let a = ("a.rs", "pub struct A; mod inner { pub fn f(_: super::A) {} } fn f(_: super::Root) {}");
    assert_eq!(circles_of(&[root, a]).len(), 2);
}
