//! Replay of an access log: the requests of a load, in the order in which a server wrote them down.

use std::fmt;
use std::sync::Arc;

/// Requests of an access log, by name; the requests themselves are passed separately.
#[derive(Debug, Clone)]
pub struct Replay {
    /// File, as the user wrote it.
    pub log: String,
    /// Speed as a multiple of the log's.
    pub speed: f64,
    /// Number of requests.
    pub requests: u64,
    /// Methods of the requests, each once and in order.
    pub methods: Vec<Method>,
    /// Number of lines that are not requests, or not to be sent again.
    pub left_out: u64,
    /// Longest path, in bytes.
    pub path_bytes_max: u64,
    /// The requests; `None` in a record that was read from an archive.
    pub source: Option<Arc<dyn ReplaySource>>,
}

/// Requests by number. Reading one allocates nothing once the buffer is large enough.
pub trait ReplaySource: fmt::Debug + Send + Sync {
    /// Replaces `path` by the path and query of request `number`, and yields the rest of it.
    ///
    /// # Errors
    ///
    /// The reason, if the stored requests cannot be read.
    fn read(&self, number: u64, path: &mut Vec<u8>) -> Result<Logged, String>;
}

/// A logged request without its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    /// Method.
    pub method: Method,
    /// Status that the server answered when the log was written.
    pub status: Option<u16>,
}

/// Methods that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    /// All methods, in the order of their numbers.
    pub const ALL: [Self; 8] =
        [Self::Get, Self::Head, Self::Options, Self::Trace, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// Method of this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name().as_bytes() == name)
    }

    /// Name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the method asks for nothing but an answer.
    ///
    /// # Source
    ///
    /// RFC 9110, HTTP semantics, section 9.2.1.
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }
}

/// Compares what is recorded; the source of the requests is not.
impl PartialEq for Replay {
    fn eq(&self, other: &Self) -> bool {
        let Self { log, speed, requests, methods, left_out, path_bytes_max, source: _ } = self;
        *log == other.log
            && *methods == other.methods
            && speed.to_bits() == other.speed.to_bits()
            && (*requests, *left_out, *path_bytes_max)
                == (other.requests, other.left_out, other.path_bytes_max)
    }
}

impl Eq for Replay {}
