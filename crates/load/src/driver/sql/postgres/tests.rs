use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use record::target::Target;

use super::login::Credentials;
use super::*;

fn read(written: &str) -> Result<PostgresTarget, String> {
    PostgresTarget::read(&Target::new(written))
}

#[test]
fn a_target_reads_as_it_is_written() {
    let place = read("postgres://app:s%40c@%2Frun%2Fpostgresql/bench").unwrap();
    assert_eq!((place.user.as_str(), place.password.as_deref()), ("app", Some("s@c")));
    assert_eq!(place.address.to_string(), "/run/postgresql/.s.PGSQL.5432");
    let place = read("postgres://app@db:6543/bench?sslmode=prefer").unwrap();
    assert_eq!((place.address.to_string().as_str(), place.database.as_str()), ("db:6543", "bench"));
    let place = read("postgres:///bench?host=/tmp&port=99&options=-c%20work_mem%3D1MB").unwrap();
    assert_eq!((place.address.to_string().as_str(), place.user.as_str()), ("/tmp/.s.PGSQL.99", "postgres"));
    assert_eq!(place.options.as_deref(), Some("-c work_mem=1MB"));
}

#[test]
fn a_wrong_target_is_refused_without_its_password() {
    for (wrong, says) in [
        ("postgres:bench", "write postgres://"),
        ("postgres://app:secret@db", "the database name is missing"),
        ("postgres://app:secret@db:x/bench", "the text after the colon is not a valid port"),
        ("postgres://app:secret@db/bench?sslrootcert=/x", "add tls=verify-full"),
        ("postgres://app:secret@db/bench?sslmode=on", "expected disable, allow, prefer"),
        ("postgres://app:secret@db/bench?hots=/x", "expected one of host, port"),
        ("postgres://app:secret%2@db/bench", "a literal `%` as `%25`"),
    ] {
        let problem = read(wrong).err().unwrap();
        assert!(problem.contains(says) && !problem.contains("secret"), "{problem}");
    }
}

#[test]
fn notices_without_end_are_no_answer_and_a_login_has_one_hashing() {
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    let talks = std::thread::spawn(move || while theirs.write_all(b"N\0\0\0\x05\0").is_ok() {});
    let mut wire = Wire::new(OwnedFd::from(ours).into());
    let failure = ask(&mut wire, Ok(()), &[], None).err().unwrap();
    assert!(failure.text.contains("does not end"), "{}", failure.text);
    drop(wire);
    talks.join().unwrap();

    let (mut theirs, ours) = UnixStream::pair().unwrap();
    theirs.write_all(&b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0".repeat(2)).unwrap();
    let who = Credentials {
        user: "app",
        password: Some("secret"),
        database: "bench",
        options: None,
        may_be_cleartext: false,
    };
    let refused = login::log_in(&mut Wire::new(OwnedFd::from(ours).into()), &who).unwrap_err();
    assert!(refused.text.contains("second"), "{}", refused.text);
}
