//! Passwords in texts, in every spelling of the tables.

use super::*;

#[test]
fn a_text_loses_its_passwords_and_nothing_else() {
    for (written, shown) in [
        ("load mysql://app:secret@h/b --rate 5\n", "load mysql://app:***@h/b --rate 5\n"),
        ("target = \"mysql://app:secret@h/b?x=1\" # here\n", "target = \"mysql://app:***@h/b?x=1\" # here\n"),
        ("MYSQL_PWD = \"secret\"\n", "MYSQL_PWD = \"***\"\n"),
        ("server.env.PGPASSWORD = 'sec ret' # x", "server.env.PGPASSWORD = '***' # x"),
        ("mysql://app:secret@h/b?password=secret", "mysql://app:***@h/b?password=***"),
        ("mariadb --password=secret -e x", "mariadb --password=*** -e x"),
        ("{\"command\":\"load redis://:secret@h:1\"}", "{\"command\":\"load redis://:***@h:1\"}"),
        ("sqlite:x.db?password=secret", "sqlite:x.db?password=***"),
        ("{\"a\":\"password='x'\",\"b\":\"it's\"}", "{\"a\":\"password='***'\",\"b\":\"it's\"}"),
        ("header = [\"Authorization: Basic c2VjcmV0\"]\n", "header = [\"Authorization: ***\"]\n"),
        ("-H 'Cookie: a=secret; b=secret' x", "-H 'Cookie: ***' x"),
        (
            "{\"headers\":[\"X-Api-Key: secret\",\"Accept: */*\"]}",
            "{\"headers\":[\"X-Api-Key: ***\",\"Accept: */*\"]}",
        ),
        ("redis-server --requirepass secret --port 1", "redis-server --requirepass *** --port 1"),
        ("tool --api-key secret --token secret x", "tool --api-key *** --token *** x"),
        ("AWS_SECRET_ACCESS_KEY=secret aws s3", "AWS_SECRET_ACCESS_KEY=*** aws s3"),
        ("env = [\"GITHUB_TOKEN=secret\"]", "env = [\"GITHUB_TOKEN=***\"]"),
        ("AZURE_STORAGE_ACCOUNT_KEY = 'secret'", "AZURE_STORAGE_ACCOUNT_KEY = '***'"),
        ("curl -u app:secret http://h", "curl -u app:*** http://h"),
        ("rsync app:secret@h", "rsync app:***@h"),
        ("requirepass secret", "requirepass ***"),
        // A reference is not a secret.
        ("Authorization: Bearer {env:TOKEN}", "Authorization: Bearer {env:TOKEN}"),
        ("--password={file:/p} --token {env:T}", "--password={file:/p} --token {env:T}"),
        ("mysql://app:{env:PW}@h/b", "mysql://app:{env:PW}@h/b"),
        ("PGPASSWORD = \"{env:PW}\"", "PGPASSWORD = \"{env:PW}\""),
        // Text that is not a secret stays.
        ("arrivals = \"burst:100-1000@1s/10s\"", "arrivals = \"burst:100-1000@1s/10s\""),
        ("{\"kind\":\"sine:100-500@1m\"}", "{\"kind\":\"sine:100-500@1m\"}"),
        (
            "ready = \"tcp:127.0.0.1:3306\" at 12:30 me@example.org",
            "ready = \"tcp:127.0.0.1:3306\" at 12:30 me@example.org",
        ),
        ("taskset -u 1000 scp h:/path/x .", "taskset -u 1000 scp h:/path/x ."),
        ("a = b, c == d  \n\n  {\"x\": \"y\"}", "a = b, c == d  \n\n  {\"x\": \"y\"}"),
        ("", ""),
    ] {
        assert_eq!(mask_text(written), shown);
    }
}

/// Each secret is `s3` and `cr3t` with something in between; no part of it may remain.
#[test]
fn a_quoted_secret_is_masked_to_the_quote_that_closes_it() {
    for written in [
        "load http://h --header 'Authorization: Bearer s3 cr3t' --rate 5",
        "load http://h '--header=Authorization: Bearer s3 cr3t' --rate 5",
        "load http://h --header=\"Authorization: Digest username=\\\"s3\\\", response=\\\"cr3t\\\"\"",
        "curl -H 'X-Vault-Token: s3 cr3t' h",
        "curl -H \"X-Amz-Security-Token: s3'cr3t\" h",
        "PGPASSWORD=\"s3 cr3t\" psql -c x",
        "PGPASSWORD='s3 cr3t' psql -c x",
        "PGPASSWORD=s3\\ cr3t psql -c x",
        "PGPASSWORD='s3'\\''s cr3t' psql",
        "PGPASSWORD=\"s3\"' 'cr3t psql",
        "export MYSQL_PWD=\"s3 \\\"x\\\" cr3t\"; mysql",
        "env = [\"PGPASSWORD=s3 cr3t\", \"A=b\"]",
        "env = { PGPASSWORD = \"s3 cr3t\", A = \"b\" }",
        "server.env = { \"MYSQL_PWD\" = 's3 cr3t' }",
        "PGPASSWORD = \"\"\"s3 cr3t\"\"\"",
        "PGPASSWORD = \"\"\"\ns3\ncr3t\"\"\" # end",
        "args = [\"--password\", \"s3 cr3t\", \"--port\", \"1\"]",
        "args = ['--requirepass', 's3 cr3t']",
        "redis-server --requirepass \"s3 cr3t\" --port 1",
        "redis-cli -a 's3 cr3t' ping",
        "redis-cli -h x AUTH s3cr3t",
        "mysql -u root -ps3cr3t -e 'select 1'",
        "/usr/bin/mariadb-admin '-ps3 cr3t' status",
        "sshpass -p 's3 cr3t' ssh h",
        "docker login -u me -p s3cr3t registry",
        "curl -u 'app:s3cr3t' h",
        "curl -uapp:s3cr3t h",
        "openssl rsa -passin pass:s3cr3t",
        "run --token=s3,cr3t x",
        "run --db-password 's3;cr3t' x",
        "--connection \"Server=h;User Id=sa;Password=s3 cr3t;\"",
        "host=h user=u password='s3 cr3t' dbname=d",
        "host = h password = s3cr3t",
        "root:s3=cr3t@tcp(127.0.0.1:3306)/db?parseTime=true",
        "--dsn=root:s3cr3t@tcp(127.0.0.1:3306)/db",
        "create user a identified by 's3 cr3t'",
        "ALTER USER a WITH PASSWORD 's3 cr3t'",
        "SET PASSWORD = PASSWORD('s3 cr3t')",
        "{\"password\":\"s3 cr3t\",\"port\":1}",
        "{\"command\":\"sh -c \\\"PGPASSWORD=\\\\\\\"s3 cr3t\\\\\\\" psql\\\"\",\"b\":1}",
        "{\"command\":\"load --header 'Authorization: Bearer s3 cr3t' --rate 5\",\"b\":1}",
        "{\"title\":\"it's Authorization: Bearer s3 cr3t\",\"b\":1}",
        "'client_secret': 's3 cr3t'",
        "password: s3cr3t\n",
        "client-secret: \"s3 cr3t\"\n",
        "aws_secret_access_key = s3cr3t",
        "AccountName=a;AccountKey=s3cr3t==;EndpointSuffix=x",
        "with bearer s3cr3t in it",
        "-----BEGIN RSA PRIVATE KEY-----\ns3\ncr3t\n-----END RSA PRIVATE KEY-----\n",
        "KEY='-----BEGIN PRIVATE KEY-----\\ns3\\ncr3t\\n-----END PRIVATE KEY-----'",
        "password=s3\u{fc}\\cr3t",
        "mysql://a:s3cr3t@h/b?x=1&ssl-password=s3cr3t",
    ] {
        let masked = mask_text(written);
        assert!(!masked.contains("s3") && !masked.contains("cr3t"), "{written}\n  became {masked}");
        assert!(masked.contains("***"), "{written}\n  became {masked}");
        assert_eq!(mask_text(&masked), masked, "masking twice does no more");
        if written.starts_with('{') && !written.contains("\\\\") {
            assert_eq!(masked.matches('{').count(), masked.matches('}').count(), "{masked}");
            assert!(masked.ends_with(":1}"), "the document goes on: {masked}");
        }
    }
}

#[test]
fn what_is_behind_a_secret_and_what_only_reads_like_one_stays() {
    for (written, shown) in [
        ("PGPASSWORD=\"a b\" psql -c 'select 1'", "PGPASSWORD=\"***\" psql -c 'select 1'"),
        ("--password 'a b' --port 1", "--password '***' --port 1"),
        ("{\"password\":\"a b\",\"port\":1}", "{\"password\":\"***\",\"port\":1}"),
        ("(using password: YES)", "(using password: YES)"),
        ("the password is wrong, the token too", "the password is wrong, the token too"),
        ("pass: 3, fail: 0", "pass: 3, fail: 0"),
        ("mkdir -p /x && memcached -p 11211 -p11211", "mkdir -p /x && memcached -p 11211 -p11211"),
        ("mysql -P 3306 -p", "mysql -P 3306 -p"),
        ("--password-file /run/x --token-ttl 5", "--password-file /run/x --token-ttl 5"),
        ("order by 'name'", "order by 'name'"),
        ("if password == 'x'", "if password == 'x'"),
        ("-----BEGIN CERTIFICATE-----\nabc\n", "-----BEGIN CERTIFICATE-----\nabc\n"),
        ("--header 'Authorization: {env:T}' x", "--header 'Authorization: {env:T}' x"),
        ("PGPASSWORD='{file:/a b}' psql", "PGPASSWORD='{file:/a b}' psql"),
    ] {
        assert_eq!(mask_text(written), shown);
    }
}

/// One spelling per line: `S3CR3T` stands for the secret, `\t` and `\n` for a tab and a line end.
#[test]
fn every_spelling_of_the_table_is_masked_in_a_text_in_a_document_and_twice() {
    let table =
        include_str!("../../testdata/secrets.txt").lines().filter(|l| !l.is_empty() && !l.starts_with("# "));
    let mut left = Vec::new();
    for line in table {
        let written = line.replace("\\t", "\t").replace("\\n", "\n");
        // Letters and digits, so that no part of it is masked for its form.
        let secret = if line.contains("S3CR3T") { "S3CR3T" } else { secret_by_form(line) };
        let document = format!("{{\"a\":\"{}\",\"b\":1}}", in_json(&written));
        for text in [&written, &format!("command = {written} # end"), &document] {
            let masked = mask_text(text);
            if masked.contains(secret) || !masked.contains("***") {
                left.push(format!("{text}\n  became {masked}"));
            }
            if mask_text(&masked) != masked {
                left.push(format!("{text}\n  twice became {}", mask_text(&masked)));
            }
        }
        if !mask_text(&document).ends_with("\"b\":1}") {
            left.push(format!("{document}\n  lost its end: {}", mask_text(&document)));
        }
    }
    assert!(left.is_empty(), "{} left:\n{}", left.len(), left.join("\n"));
}

/// Longest word of a line with a secret that has a recognizable form.
fn secret_by_form(line: &str) -> &str {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    words.max_by_key(|word| word.len()).expect("a line has a word")
}

fn in_json(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = match c {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\t' => "\\t".to_owned(),
                c => c.to_string(),
            };
            escaped.chars().collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn no_line_of_the_other_table_is_changed() {
    for line in include_str!("../../testdata/not-secrets.txt").lines().filter(|l| !l.starts_with("# ")) {
        assert_eq!(mask_text(line), line);
        let document = format!("{{\"a\":\"{}\",\"b\":1}}", in_json(line));
        assert_eq!(mask_text(&document), document);
    }
}

#[test]
fn lines_that_go_on_are_one() {
    let of = |text: &'static str| whole_lines(text).collect::<Vec<_>>();
    assert_eq!(of("a\nb"), ["a\n", "b"]);
    assert_eq!(of("a \\\n b\nc\n"), ["a \\\n b\n", "c\n"]);
    assert_eq!(of("t = \"x --token\"\n[design]\n"), ["t = \"x --token\"\n", "[design]\n"]);
    assert_eq!(of("  \"--token\",\n  \"x\",\n]\n"), ["  \"--token\",\n  \"x\",\n", "]\n"]);
    assert_eq!(of(""), [""; 0]);
}

#[test]
fn any_line_is_masked_without_a_panic() {
    let parts = [
        "password=",
        "\"",
        "'",
        "\\",
        "\\\"",
        "`",
        "Authorization: ",
        " ",
        "\u{1f511}",
        "a",
        "--token",
        ":",
        "@",
        "?",
        "=",
        ",",
        "\n",
    ];
    // All sequences of four parts.
    for index in 0..parts.len().pow(4) {
        let row: String =
            (0..4_u32).map(|place| parts[index / parts.len().pow(place) % parts.len()]).collect();
        let masked = mask_text(&row);
        assert!(masked.len() <= row.len() + 12, "{row:?} {masked:?}");
    }
}
