//! Parts of the target's URL.

use super::draft::{Draft, encoded};
use super::error::LikeError;

/// Host, or address of IPv6 in brackets.
pub(super) fn host(text: &str) -> String {
    if text.contains(':') { format!("[{text}]") } else { encoded(text) }
}

/// Checks a port.
pub(super) fn port(draft: &Draft, text: &str) -> Result<u16, LikeError> {
    let port = text.parse().ok().filter(|port: &u16| *port > 0);
    port.ok_or_else(|| draft.malformed(format!("port `{text}`: expected a number from 1 to 65535")))
}

/// User and password before a host, with `@`; empty without any.
pub(super) fn login(user: Option<&str>, password: Option<&str>) -> String {
    match (user, password) {
        (None, None) => String::new(),
        (user, None) => format!("{}@", encoded(user.unwrap_or_default())),
        (user, Some(password)) => format!("{}:{}@", encoded(user.unwrap_or_default()), encoded(password)),
    }
}

/// Path in a URL: only the characters that separate parameters are encoded.
pub(super) fn path_of(path: &str) -> String {
    path.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

/// Query of a URL; empty without parameters.
pub(super) fn query(parameters: &[String]) -> String {
    if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) }
}

/// Remarks that a client of libpq may use TLS, and bakeoff does not.
///
/// - `mode`: part of the line that names the mode, and the mode.
pub(super) fn tls_of_libpq(draft: &mut Draft, host: &str, mode: Option<(&str, &str)>) {
    let (part, mode) = mode.unwrap_or(("sslmode", "prefer"));
    if host.starts_with('/') || host.starts_with("%2F") || !matches!(mode, "prefer" | "allow") {
        return;
    }
    let text = "libpq uses TLS if the server offers it (prefer, the default) or demands it (allow); bakeoff uses \
                none: for TLS, write ?sslmode=require into the target";
    draft.differs(part, text);
}
