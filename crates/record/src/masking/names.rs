//! Names that announce a secret.

/// Headers with secret values and names that do not show it, in lower case.
const HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "authentication",
    "cookie",
    "set-cookie",
    "apikey",
    "x-registry-config",
];

/// Whether a header of that name authenticates its sender: `X-Api-Key`, `PRIVATE-TOKEN`.
pub(super) fn is_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HEADERS.contains(&name.as_str()) || (name.contains('-') && is_secret(&name))
}

/// Words of server configurations that precede a secret.
const WORDS: [&str; 4] = ["requirepass", "masterauth", "primaryauth", "bearer"];

/// Words that precede a secret, but only after one of these programs.
const OF_PROGRAMS: [(&[&str], &str); 16] = [
    (&["redis-cli", "valkey-cli", "redis-benchmark", "valkey-benchmark", "memtier_benchmark"], "-a"),
    (&["sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "cqlsh", "cypher-shell"], "-p"),
    (&["login", "useradd", "usermod", "rabbitmqadmin"], "-p"),
    (&["sqlcmd", "bcp", "zip", "unzip", "mosquitto_pub", "mosquitto_sub", "ipmitool"], "-P"),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami", "ldapdelete"], "-w"),
    (&["openssl"], "-k"),
    (&["plink", "pscp", "psftp", "putty"], "-pw"),
    (&["kadmin", "kadmin.local"], "-w"),
    (&["kadmin", "kadmin.local"], "-pw"),
    (&["ssh-keygen"], "-N"),
    (&["slappasswd", "ldappasswd"], "-s"),
    (&["influx"], "-t"),
    (&["vault"], "login"),
    (&["machine", "login"], "password"),
    (&["consul"], "-token"),
    (&["natscli", "nats"], "-creds"),
];

/// Whether the word after `word` is a secret.
///
/// - `before`: the line up to the word.
pub(super) fn announces_secret(before: &str, word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_option = || {
        let name = lower.trim_start_matches('-');
        // The programs decide about `-p` and similar options.
        word.starts_with('-')
            && name.len() > 2
            && !name.contains('=')
            && is_secret(word.trim_start_matches('-'))
    };
    let of_program = || {
        let has = |programs: &[&str]| is_behind(before, programs);
        OF_PROGRAMS.iter().any(|(programs, option)| *option == word && has(programs))
    };
    WORDS.contains(&lower.trim_start_matches('-'))
        || word == "AUTH"
        || is_option()
        || wants_quotes(before, word)
        || of_program()
        || is_set(before, word)
}

/// `set -x GITHUB_TOKEN SECRET`, `setenv NAME SECRET`, `aws configure set NAME SECRET`.
fn is_set(before: &str, word: &str) -> bool {
    let mut last = words(near(before)).rev().filter(|word| !word.starts_with('-'));
    word.contains(['_', '-', '.'])
        && matches!(last.next(), Some("set" | "SET" | "setenv"))
        && is_secret(word.rsplit(['.', ':', '/']).next().unwrap_or(word))
}

/// Largest distance in bytes between a program and its option.
const NEAR: usize = 200;

fn near(before: &str) -> &str {
    &before[before.ceil_char_boundary(before.len().saturating_sub(NEAR))..]
}

fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`\\,[(".contains(c)).filter(|word| !word.is_empty())
}

/// Whether the last command of `before` contains one of the programs.
pub(super) fn is_behind(before: &str, programs: &[&str]) -> bool {
    let command = near(before).rsplit(['|', ';', '&']).next().unwrap_or_default();
    words(command).any(|word| programs.contains(&word.rsplit('/').next().unwrap_or(word)))
}

/// Words of SQL that precede a quoted text: `PASSWORD 's'`, `IDENTIFIED WITH plugin BY 's'`.
pub(super) fn wants_quotes(before: &str, word: &str) -> bool {
    if word.eq_ignore_ascii_case("password") {
        return !is_behind(before, &["machine"]);
    }
    let is_identified =
        || words(near(before)).rev().take(4).any(|word| word.eq_ignore_ascii_case("identified"));
    ["by", "as"].iter().any(|by| word.eq_ignore_ascii_case(by)) && is_identified()
}

/// Programs with an option that has its value attached: `mysql -pSECRET`.
const ATTACHED: [(&[&str], char); 5] = [
    (
        &[
            "mysql",
            "mysqladmin",
            "mysqldump",
            "mysqlsh",
            "mysqlslap",
            "mysqlimport",
            "mysqlcheck",
            "mysqlbinlog",
        ],
        'p',
    ),
    (&["mariadb", "mariadb-admin", "mariadb-dump", "mariadb-slap", "mariadb-import", "mariadb-check"], 'p'),
    (&["sshpass", "7z", "7za", "7zz", "7zr", "rar", "unrar", "mongo", "mongosh"], 'p'),
    (&["sqlcmd", "bcp", "unzip"], 'P'),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami", "ldapdelete"], 'w'),
];

/// Whether the value in `-OPTIONvalue` is a secret in the last command of `before`.
pub(super) fn takes_attached(before: &str, option: char) -> bool {
    ATTACHED.iter().any(|(programs, of)| *of == option && is_behind(before, programs))
}

/// Options with the value `user:password`.
const LOGINS: [&str; 12] = [
    "-u",
    "-U",
    "--user",
    "--username",
    "--proxy-user",
    "--userpwd",
    "--user-pass",
    "--http-user",
    "--basic",
    "--basic-auth",
    "--login",
    "--account",
];

/// Options with the value `user:password` of certain programs only.
const LOGINS_OF_PROGRAMS: [(&[&str], &str); 2] = [(&["ab"], "-A"), (&["hey", "wrk2", "bombardier"], "-a")];

/// Whether the value of `option` is `user:password`.
pub(super) fn takes_login(before: &str, option: &str) -> bool {
    let of_program = |(programs, of): &(&[&str], &str)| *of == option && is_behind(before, programs);
    LOGINS.contains(&option) || LOGINS_OF_PROGRAMS.iter().any(of_program)
}

/// Whether the value in an unquoted `name: value` is a secret: the shorter names are also words of sentences.
pub(super) fn is_secret_field(name: &str) -> bool {
    let name = plain(name);
    let ends = ["password", "passwd", "passphrase", "secret", "_key", "_token"];
    is_secret(&name) && ends.iter().any(|end| name.ends_with(end))
}

/// Whether a URL parameter of that name holds a secret; signatures of URLs count too.
pub fn is_secret_parameter(name: &str) -> bool {
    let name = plain(name);
    let ends = ["sig", "signature", "hmac", "sessionid", "session_id", "sid"];
    is_secret(&name) || ends.iter().any(|end| is_last_word(&name, end))
}

/// Whether a variable, a parameter or an option of that name holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = plain(name);
    LAST_WORDS.iter().any(|end| is_last_word(&name, end))
        || ENDS.iter().any(|end| name.ends_with(end))
        || NAMES.contains(&name.as_str())
        || (name.ends_with("pass") && !NOT_PASSWORDS.iter().any(|end| name.ends_with(end)))
}

/// Name in lower case with `_` between its words: `access_key` for `accessKey` and `Access-Key`.
fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 4);
    let mut is_after_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && is_after_lower {
            plain.push('_');
        }
        is_after_lower = c.is_ascii_lowercase();
        plain.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
    }
    plain
}

fn is_last_word(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('_'))
}

/// Suffixes of names of secrets.
const ENDS: [&str; 8] =
    ["password", "passwd", "passphrase", "rootpw", "bindpw", "authtoken", "accesstoken", "_pat"];

/// Words with the suffix `pass` that are not passwords.
const NOT_PASSWORDS: [&str; 6] = ["bypass", "compass", "_two_pass", "_one_pass", "multipass", "encompass"];

/// Last words of names of secrets: `AWS_SECRET_ACCESS_KEY`, `db_pwd`, `api-key`.
const LAST_WORDS: [&str; 37] = [
    "pw",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "creds",
    "bearer",
    "jwt",
    "auth",
    "authenticate",
    "apikey",
    "api_key",
    "access_key",
    "secret_key",
    "private_key",
    "account_key",
    "encryption_key",
    "signing_key",
    "master_key",
    "shared_key",
    "session_key",
    "deploy_key",
    "ssh_key",
    "auth_key",
    "app_key",
    "application_key",
    "hmac_key",
    "jwt_key",
    "storage_key",
    "service_key",
    "license_key",
    "subscription_key",
    "functions_key",
    "registration_key",
    "secret_key_base",
    "webhook_url",
];
/// Complete names of secrets that no suffix matches.
const NAMES: [&str; 10] = [
    "requirepass",
    "masterauth",
    "pgpass",
    "authorization",
    "cookie",
    "redisclient_auth",
    "accesskey",
    "secretkey",
    "accountkey",
    "storepasswd",
];

/// Whether a value is `{env:NAME}` or `{file:PATH}`, a reference to a secret; one word may precede it.
pub(crate) fn is_reference(value: &str) -> bool {
    let at = ["{env:", "{file:"].iter().find_map(|start| value.find(start));
    at.is_some_and(|at| {
        let (before, reference) = value.split_at(at);
        before.split_ascii_whitespace().count() <= 1 && reference.find('}') == Some(reference.len() - 1)
    })
}
