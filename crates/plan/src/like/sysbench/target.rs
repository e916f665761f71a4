//! The target of a sysbench command line.

use crate::like::address::{self, path_of, query};
use crate::like::draft::{Draft, Given, encoded};
use crate::like::error::LikeError;
use crate::like::translation::RemarkKind;

/// Name of the driver. Without an option for it, sysbench takes the first that it was built with: MySQL.
pub(super) fn driver<'a>(given: &Given<'a>) -> &'a str {
    given.value("db_driver").unwrap_or_else(|| {
        let is_pgsql =
            ["pgsql_host", "pgsql_user", "pgsql_db", "pgsql_port"].iter().any(|name| given.has(name));
        if is_pgsql { "pgsql" } else { "mysql" }
    })
}

/// Writes the target that the options of the driver name.
pub(super) fn put(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    match driver(given) {
        "mysql" => mysql(given, draft),
        "pgsql" => pgsql(given, draft),
        other => Err(draft.malformed(format!("--db-driver={other}: expected mysql or pgsql"))),
    }
}

fn mysql(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let host = given.value("mysql_host");
    let socket = given.value("mysql_socket");
    let mut parameters = Vec::new();
    if let Some(path) = socket {
        if path.contains(',') {
            given.remark(draft, RemarkKind::Missing, &["mysql_socket"], "bakeoff uses one socket");
        }
        parameters.push(format!("socket={}", path_of(path)));
    } else if host.is_none_or(|host| host == "localhost") {
        let text = "for `localhost`, MySQL's client library uses its socket; bakeoff uses TCP, or \
             ?socket=PATH in the target";
        draft.differs("localhost", text);
    }
    match given.value("mysql_ssl").map(str::to_ascii_lowercase).as_deref() {
        None | Some("off" | "disabled" | "false" | "0") => {}
        Some("verify_ca") => parameters.push("tls=verify-ca".to_owned()),
        Some("verify_identity") => parameters.push("tls=verify-full".to_owned()),
        Some("on" | "required" | "true" | "1") => parameters.push("tls=require".to_owned()),
        Some(_) => {
            let text = "bakeoff either requires TLS (?tls=require in the target) or does not use it; it has \
                 no fallback";
            given.remark(draft, RemarkKind::Missing, &["mysql_ssl"], text);
        }
    }
    for (option, name) in [("mysql_ssl_ca", "ca"), ("mysql_ssl_cert", "cert"), ("mysql_ssl_key", "key")] {
        if let Some(path) = given.value(option) {
            parameters.push(format!("{name}={}", path_of(path)));
        }
    }
    let unless_off = |name: &str| given.value(name).is_some_and(|text| !matches!(text, "off" | ""));
    for name in ["mysql_ssl_cipher", "mysql_compression"] {
        if unless_off(name) {
            given.remark(draft, RemarkKind::Missing, &[name], "");
        }
    }
    let hosts =
        hosts(&list(host.unwrap_or("localhost")), &list(given.value("mysql_port").unwrap_or("")), draft)?;
    if hosts.contains(',') {
        let text = "to bakeoff each host is a server with its own data: `prepare` and `cleanup` run on each. For hosts \
                    of one database (a cluster), run these two with a single host";
        draft.differs("hosts", text);
    }
    let login = login(given, "mysql_user", "mysql_password");
    let database = encoded(given.value("mysql_db").unwrap_or("sbtest"));
    draft.target(format!("mysql://{login}{hosts}/{database}{}", query(&parameters)));
    Ok(())
}

fn pgsql(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let mut parameters = Vec::new();
    // libpq's names are valid in the target.
    for (option, name) in [
        ("pgsql_sslmode", "sslmode"),
        ("pgsql_sslrootcert", "sslrootcert"),
        ("pgsql_sslcert", "sslcert"),
        ("pgsql_sslkey", "sslkey"),
    ] {
        if let Some(value) = given.value(option) {
            parameters.push(format!("{name}={}", path_of(value)));
        }
    }
    let host = list(given.value("pgsql_host").unwrap_or("localhost"));
    if host.len() > 1 {
        let text = "libpq takes the first host that answers; bakeoff spreads its connections over all";
        given.remark(draft, RemarkKind::Missing, &["pgsql_host"], text);
    }
    let mode = given.last("pgsql_sslmode").map(|(mode, written)| (written, mode));
    address::tls_of_libpq(draft, host.first().unwrap_or(&""), mode);
    let port: Vec<&str> = given.value("pgsql_port").into_iter().collect();
    let hosts = hosts(&host, &port, draft)?;
    let login = login(given, "pgsql_user", "pgsql_password");
    let database = encoded(given.value("pgsql_db").unwrap_or("sbtest"));
    draft.target(format!("postgres://{login}{hosts}/{database}{}", query(&parameters)));
    Ok(())
}

/// The elements of a list, without empty ones.
fn list(text: &str) -> Vec<&str> {
    text.split(',').filter(|part| !part.is_empty()).collect()
}

/// Each host with each of the ports, in the order in which sysbench gives them to its threads.
fn hosts(hosts: &[&str], ports: &[&str], draft: &Draft) -> Result<String, LikeError> {
    for port in ports {
        address::port(draft, port)?;
    }
    let hosts = hosts.iter().map(|host| address::host(host));
    let all: Vec<String> = match ports {
        [] => hosts.collect(),
        _ => hosts.flat_map(|host| ports.iter().map(move |port| format!("{host}:{port}"))).collect(),
    };
    Ok(all.join(","))
}

fn login(given: &Given<'_>, user: &str, password: &str) -> String {
    let password = given.value(password).filter(|password| !password.is_empty());
    address::login(Some(given.value(user).unwrap_or("sbtest")), password)
}
