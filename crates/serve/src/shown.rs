//! A state of a moment with its forms, each rendered once for all viewers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;

use crate::monitor::{Now, With};
use crate::view_now::Part;

/// A state of a moment, with its forms.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) now: Now,
    /// Whether viewers have it already: it only says that the server is alive.
    pub(crate) is_repeated: bool,
    /// Parts of the page by role.
    pages: [OnceLock<Parts>; 2],
    events: [OnceLock<Bytes>; 4],
    /// Whether a stream has asked for each event. The next state has these events before it is sent.
    is_asked: [AtomicBool; 4],
}

type Parts = [Arc<str>; Part::ALL.len()];

/// Form of an event of a stream, for a client that may run plans or not.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form<'a> {
    /// Part of a page.
    Page { may_run: bool, csrf: &'a str },
    /// Document in one line.
    Document { may_run: bool },
}

impl Form<'_> {
    fn place(self) -> usize {
        match self {
            Self::Page { may_run, .. } => usize::from(may_run),
            Self::Document { may_run } => 2 + usize::from(may_run),
        }
    }
}

impl Shown {
    pub(crate) fn new(now: Now) -> Self {
        Self { now, ..Self::default() }
    }

    /// The state that follows `before`, with the events that streams have asked for. What has not changed is
    /// not rendered again.
    ///
    /// - `rest`: called between two pieces of work.
    pub(crate) fn after(before: &Self, now: Now, csrf: &str, rest: &dyn Fn()) -> Self {
        let new = Self::new(now);
        let same = Part::ALL.map(|part| part.is_same(&new.now, &before.now));
        for may_run in [false, true] {
            let form = Form::Page { may_run, csrf };
            let (place, old) = (usize::from(may_run), before.pages[usize::from(may_run)].get());
            let Some(old) = old.filter(|_| before.is_asked(form)) else { continue };
            if same.iter().all(|same| *same)
                && let Some(event) = before.events[form.place()].get()
            {
                let _ = new.events[form.place()].set(event.clone());
            }
            let part = |at: usize| {
                if same[at] {
                    return old[at].clone();
                }
                rest();
                Part::ALL[at].html(&new.now, may_run, csrf).into()
            };
            let _ = new.pages[place].set(std::array::from_fn(part));
        }
        for form in [false, true].map(|may_run| Form::Page { may_run, csrf }).into_iter().chain(DOCUMENTS) {
            if before.is_asked(form) {
                rest();
                new.render(form);
            }
        }
        new
    }

    /// Whether viewers of this state need no newer one than `now`.
    pub(crate) fn is_same(&self, now: &Now) -> bool {
        let is_same_second = || self.now.at_unix_ns / 1_000_000_000 == now.at_unix_ns / 1_000_000_000;
        // A document has the second that it is of.
        Part::ALL.iter().all(|part| part.is_same(now, &self.now))
            && (is_same_second() || !DOCUMENTS.iter().any(|form| self.is_asked(*form)))
    }

    /// Part of a page.
    pub(crate) fn html(&self, may_run: bool, csrf: &str) -> String {
        let render = || Part::ALL.map(|part| part.html(&self.now, may_run, csrf).into());
        self.pages[usize::from(may_run)].get_or_init(render).join("\n")
    }

    /// Document in one line.
    pub(crate) fn document(&self, may_run: bool) -> String {
        self.now.document(may_run, With::Present).to_string()
    }

    /// Event of a stream.
    pub(crate) fn event(&self, form: Form<'_>) -> Bytes {
        self.is_asked[form.place()].store(true, Ordering::Relaxed);
        self.render(form)
    }

    fn render(&self, form: Form<'_>) -> Bytes {
        let render = || {
            let data = match form {
                Form::Page { may_run, csrf } => {
                    serde_json::json!({"html": self.html(may_run, csrf)}).to_string()
                }
                Form::Document { may_run } => self.document(may_run),
            };
            format!("event: now\ndata: {data}\n\n").into()
        };
        self.events[form.place()].get_or_init(render).clone()
    }

    fn is_asked(&self, form: Form<'_>) -> bool {
        self.is_asked[form.place()].load(Ordering::Relaxed)
    }
}

const DOCUMENTS: [Form<'_>; 2] = [Form::Document { may_run: false }, Form::Document { may_run: true }];
