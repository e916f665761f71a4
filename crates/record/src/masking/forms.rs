//! Secrets with a recognizable form: tokens with a fixed prefix that their issuer chose.

/// Characters of a token after its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Letters, digits, `-`, `_` and `.`.
    Any,
    /// Letters and digits, at least one digit: plain names begin with the prefix too.
    Alphanumeric,
    /// The characters of [`Tail::Any`], at least one dot: without a dot it may be any base64 text, such as a
    /// histogram.
    Dotted,
    /// Capital letters and digits.
    Capitals,
}

/// Prefix of a token, least length of the rest, and the characters of the rest.
const TOKENS: [(&str, usize, Tail); 36] = [
    // GitHub, GitLab
    ("ghp_", 16, Tail::Any),
    ("gho_", 16, Tail::Any),
    ("ghu_", 16, Tail::Any),
    ("ghs_", 16, Tail::Any),
    ("ghr_", 16, Tail::Any),
    ("github_pat_", 16, Tail::Any),
    ("glpat-", 16, Tail::Any),
    // AWS: key ids
    ("AKIA", 16, Tail::Capitals),
    ("ASIA", 16, Tail::Capitals),
    // Google
    ("AIza", 30, Tail::Any),
    ("ya29.", 16, Tail::Any),
    ("GOCSPX-", 16, Tail::Any),
    // JSON web tokens: base64 parts separated by dots
    ("eyJ", 16, Tail::Dotted),
    // Stripe
    ("sk_live_", 8, Tail::Any),
    ("sk_test_", 8, Tail::Any),
    ("rk_live_", 8, Tail::Any),
    ("rk_test_", 8, Tail::Any),
    ("whsec_", 16, Tail::Any),
    // Slack
    ("xoxb-", 8, Tail::Any),
    ("xoxp-", 8, Tail::Any),
    ("xoxa-", 8, Tail::Any),
    ("xoxr-", 8, Tail::Any),
    ("xoxs-", 8, Tail::Any),
    ("xapp-", 8, Tail::Any),
    // Others
    ("sk-ant-", 16, Tail::Any),
    ("sk-proj-", 16, Tail::Any),
    ("sk-", 20, Tail::Alphanumeric),
    ("hf_", 30, Tail::Alphanumeric),
    ("npm_", 30, Tail::Alphanumeric),
    ("pypi-", 30, Tail::Any),
    ("dop_v1_", 16, Tail::Any),
    ("SG.", 30, Tail::Any),
    ("hvs.", 16, Tail::Any),
    ("shpat_", 16, Tail::Any),
    ("dckr_pat_", 16, Tail::Any),
    ("tskey-", 16, Tail::Any),
];

/// Paths of URLs that give access to anyone that has the URL.
const PATHS: [&str; 3] = ["hooks.slack.com/services/", "/api/webhooks/", "api.telegram.org/bot"];

/// Masks tokens and secret paths in a line.
pub(super) fn mask_forms(line: &str) -> String {
    let line = PATHS.iter().fold(line.to_owned(), |line, path| mask_path(&line, path));
    let in_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut masked = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(at) = rest.find(in_token) {
        let end = rest[at..].find(|c| !in_token(c)).map_or(rest.len(), |length| at + length);
        masked.push_str(&rest[..at]);
        // In JSON, the letter of an escape such as `\n` directly precedes the token.
        let word = &rest[at..end];
        let escape = usize::from(rest[..at].ends_with('\\') && word.starts_with(['n', 'r', 't']));
        let (before, word) = word.split_at(escape);
        masked.push_str(before);
        // Part of a base64 text may begin like a token.
        let in_base64 = rest[..at].ends_with(['+', '/']) && rest[end..].starts_with(['+', '/', '=']);
        let is_secret = is_token(word) && !(in_base64 && word.bytes().all(|b| b.is_ascii_alphanumeric()));
        masked.push_str(if is_secret { "***" } else { word });
        rest = &rest[end..];
    }
    masked.push_str(rest);
    masked
}

fn is_token(word: &str) -> bool {
    TOKENS.iter().any(|(begin, least, tail)| {
        word.strip_prefix(begin).is_some_and(|rest| {
            rest.len() >= *least
                && match tail {
                    Tail::Any => true,
                    Tail::Dotted => rest.contains('.'),
                    Tail::Alphanumeric => {
                        rest.bytes().all(|b| b.is_ascii_alphanumeric())
                            && rest.bytes().any(|b| b.is_ascii_digit())
                    }
                    Tail::Capitals => rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()),
                }
        })
    })
}

fn mask_path(line: &str, path: &str) -> String {
    let mut masked = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(path) {
        let start = at + path.len();
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | '<' | '>' | '?');
        let end = rest[start..].find(ends).map_or(rest.len(), |length| start + length);
        masked.push_str(&rest[..start]);
        if end > start {
            masked.push_str("***");
        }
        rest = &rest[end..];
    }
    masked.push_str(rest);
    masked
}
