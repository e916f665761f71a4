//! The cookies of one connection.
//!
//! A connection is a separate user agent: it starts without cookies, sends those that it received, and
//! forgets them when it reconnects. A cookie is sent to the paths below its own. `Domain` is ignored, because
//! a load has one target.
//!
//! # Source
//!
//! RFC 6265, HTTP state management, sections 5.1.4, 5.2 and 5.4.

/// Most cookies per connection; the oldest is dropped.
const COOKIES_MAX: usize = 64;
/// Length limit of a cookie; a longer one is dropped.
const COOKIE_BYTES_MAX: usize = 4_096;
/// Length limit of a path; a cookie with a longer one is dropped.
const PATH_BYTES_MAX: usize = 1_024;

/// The cookies, sorted by length of the path, longest first, then by age, oldest first.
#[derive(Debug, Default)]
pub(super) struct Jar {
    cookies: Vec<Cookie>,
    /// Number of cookies received so far, and so the number of the next one.
    taken: u64,
    is_secure: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    /// Sequence number: a newer cookie has a larger one.
    number: u64,
}

impl Jar {
    /// - `is_secure`: requests are sent over TLS.
    pub(super) fn new(is_secure: bool) -> Self {
        Self { cookies: Vec::new(), taken: 0, is_secure }
    }

    /// Stores the cookie of a `Set-Cookie` header in the answer to a request for `asked`.
    pub(super) fn take(&mut self, header: &[u8], asked: &[u8]) {
        let mut parts = header.split(|b| *b == b';');
        let pair = parts.next().unwrap_or_default();
        let Some(equals) = pair.iter().position(|b| *b == b'=') else { return };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        // A control character could end the request's header, or begin another.
        let is_unsafe = name.iter().chain(value).any(u8::is_ascii_control);
        if name.is_empty() || is_unsafe || name.len() + value.len() > COOKIE_BYTES_MAX {
            return;
        }
        let (mut path, mut is_gone, mut has_age) = (folder_of(asked), false, false);
        for part in parts {
            let equals = part.iter().position(|b| *b == b'=').unwrap_or(part.len());
            let (word, said) = (part[..equals].trim_ascii(), part.get(equals + 1..).unwrap_or_default());
            let said = said.trim_ascii();
            if word.eq_ignore_ascii_case(b"path") && said.starts_with(b"/") {
                path = said;
            } else if word.eq_ignore_ascii_case(b"max-age") {
                (is_gone, has_age) = (said == b"0" || said.starts_with(b"-"), true);
            } else if word.eq_ignore_ascii_case(b"expires") && !has_age {
                is_gone = is_long_ago(said);
            } else if word.eq_ignore_ascii_case(b"secure") && !self.is_secure {
                return;
            }
        }
        if path.len() > PATH_BYTES_MAX {
            return;
        }
        let is_same = |cookie: &Cookie| cookie.name == name && cookie.path == path;
        let known = self.cookies.iter().position(is_same);
        if is_gone {
            if let Some(place) = known {
                self.cookies.remove(place);
            }
            return;
        }
        if let Some(place) = known {
            self.cookies[place].value = value.to_vec();
            return;
        }
        if self.cookies.len() == COOKIES_MAX
            && let Some((oldest, _)) = self.cookies.iter().enumerate().min_by_key(|(_, c)| c.number)
        {
            self.cookies.remove(oldest);
        }
        let place = self.cookies.partition_point(|cookie| cookie.path.len() >= path.len());
        let (name, value, path) = (name.to_vec(), value.to_vec(), path.to_vec());
        self.cookies.insert(place, Cookie { name, value, path, number: self.taken });
        self.taken += 1;
    }

    /// Writes the cookies for a request for `asked`: `a=1; b=2`, the longest path first; nothing if no cookie
    /// matches.
    pub(super) fn write(&self, asked: &[u8], out: &mut Vec<u8>) {
        let asked = without_query(asked);
        let start = out.len();
        for cookie in self.cookies.iter().filter(|c| is_below(asked, &c.path)) {
            if out.len() > start {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
        }
    }
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|b| *b == b'?').next().unwrap_or_default()
}

/// Path of a cookie without a `Path` attribute.
fn folder_of(asked: &[u8]) -> &[u8] {
    let path = without_query(asked);
    match path.iter().rposition(|b| *b == b'/') {
        None | Some(0) => b"/",
        Some(end) => &path[..end],
    }
}

fn is_below(asked: &[u8], path: &[u8]) -> bool {
    match asked.strip_prefix(path) {
        Some(rest) => rest.is_empty() || path.ends_with(b"/") || rest.starts_with(b"/"),
        None => false,
    }
}

/// Whether an expiry date is one by which servers delete a cookie, such as 1 January 1970. No other date
/// passes during a load.
fn is_long_ago(date: &[u8]) -> bool {
    let mut words = date.split(|b| matches!(b, b' ' | b'-'));
    words.any(|word| matches!(word, b"1970" | b"1969" | b"0001" | b"70"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(jar: &Jar, path: &str) -> String {
        let mut out = Vec::new();
        jar.write(path.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cookie_goes_where_its_path_says_until_it_is_taken_back() {
        let mut jar = Jar::new(false);
        jar.take(b"id = 1 ; Path=/; HttpOnly", b"/login?x=/y/z");
        jar.take(b"cart=a=b", b"/shop/cart");
        jar.take(b"key=secret; Secure", b"/");
        jar.take(b"no pair", b"/");
        jar.take(b"admin=1; path=/admin", b"/");
        for control in ["\0", "\t", "\r", "\x1b", "\x1f", "\x7f"] {
            jar.take(format!("a=b{control}c").as_bytes(), b"/");
            jar.take(format!("a{control}b=c; path=/").as_bytes(), b"/");
        }
        assert_eq!(sent(&jar, "/"), "id=1");
        assert_eq!(sent(&jar, "/shop/cart?x"), "cart=a=b; id=1");
        assert_eq!(sent(&jar, "/shopping"), "id=1");
        assert_eq!(sent(&jar, "/admin/x"), "admin=1; id=1");
        jar.take(b"id=2; path=/; expires=Fri, 31 Dec 9999 23:59:59 GMT", b"/");
        assert_eq!(sent(&jar, "/"), "id=2");
        jar.take(b"id=; path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", b"/");
        jar.take(b"cart=; Max-Age=0", b"/shop/x");
        assert_eq!(sent(&jar, "/shop/cart"), "");
        let mut secure = Jar::new(true);
        secure.take(b"key=secret; Secure", b"/");
        assert_eq!(sent(&secure, "/x"), "key=secret");
    }

    #[test]
    fn a_server_that_gives_cookies_without_end_is_not_remembered_without_end() {
        let mut jar = Jar::new(false);
        for number in 0..10_000 {
            jar.take(format!("c{number}=1").as_bytes(), b"/");
        }
        jar.take(&[b"long=".as_slice(), &[b'x'; 5_000]].concat(), b"/");
        assert_eq!(jar.cookies.len(), COOKIES_MAX);
        assert!(sent(&jar, "/").ends_with("; c9999=1"));
    }

    #[test]
    fn a_path_without_end_is_not_kept_and_the_oldest_cookie_goes_wherever_its_path_puts_it() {
        let mut jar = Jar::new(false);
        let long = format!("/{}", "x".repeat(60_000));
        jar.take(format!("said=1; Path={long}").as_bytes(), b"/");
        jar.take(b"asked=1", format!("{long}/y").as_bytes());
        assert_eq!(jar.cookies.iter().map(|c| c.path.len()).sum::<usize>(), 0);
        jar.take(b"first=1; Path=/a/b", b"/");
        for number in 1..COOKIES_MAX {
            jar.take(format!("c{number}=1").as_bytes(), b"/");
        }
        assert!(sent(&jar, "/a/b").starts_with("first=1; c1=1; c2=1"));
        jar.take(b"last=1", b"/");
        assert!(sent(&jar, "/a/b").starts_with("c1=1; c2=1") && sent(&jar, "/").ends_with("; last=1"));
    }
}
