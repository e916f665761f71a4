//! Paths of logged requests: without hosts, without secrets, and with no byte that a request line excludes.

use std::io::Write as _;

use record::target::is_secret_parameter;

use super::reason::Reason;

/// Replacement of a secret.
const HIDDEN: &[u8] = b"***";

/// Removes the host, and encodes the bytes that a request line excludes.
pub(super) fn clean(path: &mut Vec<u8>) -> Result<(), Reason> {
    for scheme in [&b"http://"[..], b"https://"] {
        if path.len() > scheme.len() && path[..scheme.len()].eq_ignore_ascii_case(scheme) {
            let host = &path[scheme.len()..];
            let end = host.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(host.len());
            path.drain(..scheme.len() + end);
            if path.first() != Some(&b'/') {
                path.insert(0, b'/');
            }
            break;
        }
    }
    if path.first() != Some(&b'/') || path.contains(&b' ') {
        return Err(Reason::NoPath);
    }
    // Also the characters that a URL excludes: HTTP/2 refuses them.
    let is_excluded = |b: &u8| *b <= b' ' || *b >= 0x7f || b"#\"<>`".contains(b);
    if path.iter().any(is_excluded) {
        let mut encoded = Vec::with_capacity(path.len() + 16);
        for byte in &*path {
            if is_excluded(byte) {
                // Writing into memory does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            } else {
                encoded.push(*byte);
            }
        }
        *path = encoded;
    }
    Ok(())
}

/// Replaces values that look like credentials; their number.
pub(super) fn hide_secrets(path: &mut Vec<u8>) -> u64 {
    // Most paths have neither parameters nor a login nor a token.
    if !path.iter().any(|b| matches!(b, b'=' | b'%' | b'@')) && !path.windows(3).any(|w| w == b"eyJ") {
        return 0;
    }
    hide(path, DECODED_MAX)
}

/// Times that text with `%XX` is decoded: a URL in a parameter of a URL in a parameter.
const DECODED_MAX: u32 = 3;

/// - `decodes`: times that text with `%XX` is decoded and read once more.
fn hide(path: &mut Vec<u8>, decodes: u32) -> u64 {
    let (mut hidden, mut out, mut is_query) = (0, Vec::with_capacity(path.len()), false);
    let mut rest = &path[..];
    // The code of a login by OAuth.
    let is_oauth = path.windows(6).any(|text| text == b"state=");
    // The bytes before the part.
    let mut before = &path[..0];
    loop {
        if before.ends_with(b"//")
            && let Some(length) = login(rest)
        {
            out.extend_from_slice(HIDDEN);
            hidden += 1;
            rest = &rest[length..];
        }
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'&' | b';')).unwrap_or(rest.len());
        let (part, after) = (&rest[..end], &rest[end..]);
        let value_from = part.iter().position(|b| *b == b'=').map_or(0, |at| at + 1);
        let (name, value) = (&part[..value_from.saturating_sub(1)], &part[value_from..]);
        if value_from > 0 && (is_secret_name(name) || is_oauth && name == b"code") {
            // A value of the query may contain a slash, as base64 does.
            let ends = |b: &u8| matches!(b, b'&' | b';') || !is_query && matches!(b, b'/' | b'?');
            let value = &rest[value_from..];
            let value = &value[..value.iter().position(ends).unwrap_or(value.len())];
            out.extend_from_slice(&part[..value_from]);
            if !value.is_empty() {
                out.extend_from_slice(HIDDEN);
                hidden += 1;
            }
            rest = &rest[value_from + value.len()..];
        } else {
            let is_hidden = has_token(value)
                || decodes > 0 && part.contains(&b'%') && hide(&mut decoded(part), decodes - 1) > 0;
            out.extend_from_slice(&part[..value_from]);
            out.extend_from_slice(if is_hidden { HIDDEN } else { value });
            hidden += u64::from(is_hidden);
            rest = after;
        }
        let Some((separator, after)) = rest.split_first() else { break };
        is_query |= *separator == b'?';
        out.push(*separator);
        before = &path[..path.len() - after.len()];
        rest = after;
    }
    if hidden > 0 {
        *path = out;
    }
    hidden
}

/// Whether a parameter of this name holds a credential.
fn is_secret_name(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(&decoded(name)).into_owned();
    // `user[password]`
    let last = name.trim_end_matches(']').rsplit('[').next().unwrap_or(&name).to_owned();
    let lower = last.to_ascii_lowercase();
    let ends = [
        "key",
        "session",
        "sessid",
        "sessionid",
        "otp",
        "pin",
        "passcode",
        "ticket",
        "pass",
        "nonce",
        "csrf",
        "assertion",
        "samlresponse",
        "samlrequest",
    ];
    is_secret_parameter(&last) || ends.iter().any(|end| is_last_word(&lower, end))
}

/// Whether a name ends with this word: `api_key`, `api-key`, `key`, and `phpsessid`, but not `monkey`.
fn is_last_word(name: &str, word: &str) -> bool {
    let before = name.strip_suffix(word);
    before.is_some_and(|before| {
        before.is_empty() || before.ends_with(['_', '-', '.']) || word.starts_with("sess")
    })
}

/// Whether a word of a text is a signed token: three parts of base64, the first of which begins an object.
/// `Bearer` may stand before it, with a blank in one of its forms.
fn has_token(text: &[u8]) -> bool {
    let is_token = |word: &[u8]| word.starts_with(b"eyJ") && word.len() > 20 && word.contains(&b'.');
    is_token(text) || text.split(|b| matches!(b, b' ' | b'+' | b':' | b',')).any(is_token)
}

/// Length of the host with a login with which the text after `//` begins: `ann:geheim@host`. A password may
/// contain what separates parts elsewhere.
fn login(text: &[u8]) -> Option<usize> {
    let host = &text[..text.iter().position(|b| *b == b'/').unwrap_or(text.len())];
    let user = &host[..host.iter().rposition(|b| *b == b'@')?];
    let separator = user.iter().position(|b| matches!(b, b'?' | b'&' | b';' | b'='));
    let is_login = separator.is_none_or(|at| user[..at].contains(&b':'));
    is_login.then_some(host.len())
}

/// A name with `%XX` decoded: `pass%77ord` is `password`.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(path: &str) -> Result<String, Reason> {
        let mut path = path.as_bytes().to_vec();
        clean(&mut path)?;
        hide_secrets(&mut path);
        Ok(String::from_utf8(path).unwrap())
    }

    #[test]
    fn hosts_and_secrets_are_left_out() {
        for (path, expected) in [
            ("/", "/"),
            ("/a/b?c=d&e", "/a/b?c=d&e"),
            ("http://user:pw@h.example:8080/x?y", "/x?y"),
            ("HTTPS://h", "/"),
            ("http://h?q=1", "/?q=1"),
            ("/login?user=ann&password=geheim&x=1", "/login?user=ann&password=***&x=1"),
            ("/a?api_key=1;b=2&token=3", "/a?api_key=***;b=2&token=***"),
            ("/a?key=AIza1&monkey=2", "/a?key=***&monkey=2"),
            ("/a?X-Amz-Signature=ff&accessToken=q", "/a?X-Amz-Signature=***&accessToken=***"),
            ("/a?pass%77ord=geheim", "/a?pass%77ord=***"),
            ("/a?user[password]=geheim", "/a?user[password]=***"),
            ("/a?user%5Bpassword%5D=geheim", "/a?user%5Bpassword%5D=***"),
            ("/a;jsessionid=AB12?x=1", "/a;jsessionid=***?x=1"),
            ("/a?PHPSESSID=ab&session=cd&sid=ef", "/a?PHPSESSID=***&session=***&sid=***"),
            ("/v/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln/x", "/v/***/x"),
            ("/a?q=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "/a?q=***"),
            // Base64, and a password with what separates parts elsewhere.
            ("/a?token=AAAA/BBBB==", "/a?token=***"),
            ("/a?token=AAAA/BBBB==&x=1/2;key=a/b?c&y", "/a?token=***&x=1/2;key=***&y"),
            ("/a?token=/AAAA", "/a?token=***"),
            ("/a?password=ge?heim&x", "/a?password=***&x"),
            ("/a;key=geheim/b?x=1", "/a;key=***/b?x=1"),
            // A URL in a parameter, as it is and encoded.
            ("/a?next=/b?token=AAAA/BBBB&x=1", "/a?next=/b?token=***&x=1"),
            ("/a?next=/v/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "/a?next=/v/***"),
            ("/a?next=%2Fb%3Ftoken%3Dgeheim&x=1", "/a?next=***&x=1"),
            ("/token%3Dgeheim/b", "/***/b"),
            ("/cb?code=geheim&state=x", "/cb?code=***&state=x"),
            ("/zip?code=12345", "/zip?code=12345"),
            ("/slo?SAMLResponse=geheim&csrf=g&nonce=h", "/slo?SAMLResponse=***&csrf=***&nonce=***"),
            ("/a?next=%252Fb%253Ftoken%253Dgeheim&x=1", "/a?next=***&x=1"),
            ("/a?next=%25252Fb%25253Ftoken%25253Dgeheim&x=1", "/a?next=***&x=1"),
            // A login in a URL, and a token after a word.
            ("/hook?repo=https://ann:ghp_abc@git.example/x", "/hook?repo=https://***/x"),
            ("/proxy/https://ann:ghp_abc@git.example/x", "/proxy/https://***/x"),
            ("/hook?repo=https://ann:p;w@h/x&y=1", "/hook?repo=https://***/x&y=1"),
            ("/hook?repo=https://ann:ge=heim@h", "/hook?repo=https://***"),
            ("/hook?repo=https://ann:ge?he&im@h/x", "/hook?repo=https://***/x"),
            ("/hook?repo=https://h&mail=ann@example.org", "/hook?repo=https://h&mail=ann@example.org"),
            ("/@ann/x", "/@ann/x"),
            ("/hook?repo=https%3A%2F%2Fann%3Aghp_abc%40git.example%2Fx", "/hook?repo=***"),
            ("/a?h=Bearer%20eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "/a?h=***"),
            ("/a?h=Bearer+eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "/a?h=***"),
            ("/a?mail=ann@example.org//b@c", "/a?mail=ann@example.org//***"),
            ("/a?q=50%25&r=%C3%A4%3D1", "/a?q=50%25&r=%C3%A4%3D1"),
            ("/a?token=", "/a?token="),
            ("/a?token", "/a?token"),
            ("/\u{e4}#x\t", "/%C3%A4%23x%09"),
            ("/<a>`\"?q={b}|c", "/%3Ca%3E%60%22?q={b}|c"),
        ] {
            assert_eq!(cleaned(path).as_deref(), Ok(expected), "{path}");
        }
        for path in ["", "*", "host:443", "a/b", "/a b", "ftp://h/x"] {
            assert_eq!(cleaned(path), Err(Reason::NoPath), "{path}");
        }
    }
}
