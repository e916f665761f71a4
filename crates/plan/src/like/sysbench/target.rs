//! The target of a sysbench command line.

use crate::like::address::{self, path_of, query};
use crate::like::draft::{Draft, Given, encoded};
use crate::like::error::LikeError;
use crate::like::translation::RemarkKind;

/// Writes the target that the options of the driver name.
pub(super) fn put(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let driver = given.value("db_driver").unwrap_or_else(|| {
        // Without a driver, sysbench takes the first that it was built with: MySQL.
        let is_pgsql =
            ["pgsql_host", "pgsql_user", "pgsql_db", "pgsql_port"].iter().any(|name| given.has(name));
        if is_pgsql { "pgsql" } else { "mysql" }
    });
    match driver {
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
    let hosts = hosts(host.unwrap_or("localhost"), given.value("mysql_port"), draft)?;
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
    let host = given.value("pgsql_host").unwrap_or("localhost");
    let hosts = hosts(host, given.value("pgsql_port"), draft)?;
    let login = login(given, "pgsql_user", "pgsql_password");
    let database = encoded(given.value("pgsql_db").unwrap_or("sbtest"));
    draft.target(format!("postgres://{login}{hosts}/{database}{}", query(&parameters)));
    Ok(())
}

/// Hosts with their ports: of one port and several hosts, each host has this port.
fn hosts(hosts: &str, ports: Option<&str>, draft: &Draft) -> Result<String, LikeError> {
    let hosts: Vec<&str> = hosts.split(',').filter(|host| !host.is_empty()).collect();
    let ports: Vec<&str> = ports.map_or_else(Vec::new, |ports| ports.split(',').collect());
    for port in &ports {
        address::port(draft, port)?;
    }
    let port_of = |index: usize| ports.get(index).or(ports.last()).map(|port| format!(":{port}"));
    let host = |(index, host): (usize, &&str)| {
        format!("{}{}", address::host(host), port_of(index).unwrap_or_default())
    };
    // Several ports at one host are several servers.
    let repeated: Vec<&str> = if hosts.len() == 1 { vec![hosts[0]; ports.len().max(1)] } else { hosts };
    Ok(repeated.iter().enumerate().map(host).collect::<Vec<_>>().join(","))
}

fn login(given: &Given<'_>, user: &str, password: &str) -> String {
    let password = given.value(password).filter(|password| !password.is_empty());
    address::login(Some(given.value(user).unwrap_or("sbtest")), password)
}
