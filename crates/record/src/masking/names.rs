//! Names that announce a secret.

/// Headers of requests whose values are secrets, in lower case.
const HEADERS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
];

/// Whether a header of that name lets its sender in.
pub(super) fn is_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HEADERS.contains(&name.as_str()) || (name.starts_with("x-") && is_secret(&name))
}

/// Options of servers and of their clients whose next word is a secret.
const OPTIONS: [&str; 12] = [
    "--requirepass",
    "requirepass",
    "--masterauth",
    "masterauth",
    "--pass",
    "--password",
    "--passwd",
    "--secret",
    "--token",
    "--auth",
    "--api-key",
    "--secret-key",
];

/// Words whose next word is a secret behind these programs.
const OF_PROGRAMS: [(&str, &str); 6] = [
    ("redis-cli", "-a"),
    ("valkey-cli", "-a"),
    ("redis-cli", "AUTH"),
    ("valkey-cli", "AUTH"),
    ("sshpass", "-p"),
    ("login", "-p"),
];

/// Whether the word after `word` is a secret.
///
/// - `before`: the line up to the word.
pub(super) fn announces_secret(before: &str, word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let last = || before.trim_end().rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
    let of_program =
        || OF_PROGRAMS.iter().any(|(program, option)| *option == word && near(before).contains(program));
    OPTIONS.contains(&lower.as_str())
        || (lower.starts_with("--") && !lower.contains('=') && is_secret(&lower[2..]))
        || lower == "bearer"
        || (wants_quotes(word) && (lower == "password" || last().eq_ignore_ascii_case("identified")))
        || of_program()
}

/// A program stands so many bytes before its option at most.
const NEAR: usize = 200;

fn near(before: &str) -> &str {
    &before[before.ceil_char_boundary(before.len().saturating_sub(NEAR))..]
}

/// Words of SQL that a text in quotes follows.
pub(super) fn wants_quotes(word: &str) -> bool {
    word.eq_ignore_ascii_case("by") || word.eq_ignore_ascii_case("password")
}

/// Clients of databases, which take `-pSECRET`.
const CLIENTS: [&str; 8] =
    ["mysql", "mariadb", "mysqladmin", "mysqldump", "mysqlsh", "mysqlslap", "mysqlimport", "mysqlcheck"];

/// Whether the last command of `before` is one of [`CLIENTS`].
pub(super) fn is_behind_client(before: &str) -> bool {
    let command = near(before).rsplit(['|', ';', '&']).next().unwrap_or_default();
    let is_client = |word: &str| {
        let program = word.rsplit('/').next().unwrap_or(word);
        CLIENTS.contains(&program) || program.starts_with("mariadb-")
    };
    command.split(|c: char| c.is_whitespace() || "\"'`\\".contains(c)).any(is_client)
}

/// Whether `name: value`, without quotes, shows a secret: the shorter names are words of sentences too.
pub(super) fn is_secret_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let ends = ["password", "passwd", "passphrase", "secret", "_key", "_token"];
    is_secret(&name) && ends.iter().any(|end| name.ends_with(end))
}

/// Whether a variable, a parameter or an option of that name holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    name.ends_with("password")
        || ENDS.iter().any(|end| {
            name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('_'))
        })
        || NAMES.contains(&name.as_str())
}

/// How names of secrets end: `AWS_SECRET_ACCESS_KEY`, `db_pwd`, `api-key`.
const ENDS: [&str; 17] = [
    "passwd",
    "pass",
    "passphrase",
    "pw",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "access_key",
    "secret_key",
    "private_key",
    "account_key",
    "encryption_key",
    "api_key",
    "apikey",
    "auth",
];
/// Names of secrets that end like no other.
const NAMES: [&str; 9] = [
    "requirepass",
    "masterauth",
    "pgpass",
    "authorization",
    "cookie",
    "redisclient_auth",
    "accesskey",
    "secretkey",
    "accountkey",
];
