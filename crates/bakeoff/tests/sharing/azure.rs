//! A container of Azure as a store.

use std::fs;

use crate::lab::{Ended, Lab};
use crate::servers::Postgres;
use crate::servers::azurite::{Azurite, KEY};
use crate::{measure, tree};

#[test]
fn a_container_of_azure_holds_the_same_bytes() {
    let (Some(server), Some(azure)) = (Postgres::start(&[]), Azurite::start()) else { return };
    let (here, there) = (Lab::new(), Lab::new());
    let place = server.place("az://lab/team/one");
    fs::write(here.path("key"), format!("{KEY}\n")).unwrap();
    let run_with = |lab: &Lab, words: &[&str], url: &str| {
        let mut command = lab.command(&[&["archive", words[0], &place], &words[1..]].concat());
        command.env("AZURE_STORAGE_ACCOUNT_NAME", "lab").env("AZURE_STORAGE_ENDPOINT", url);
        command.env("AZURE_STORAGE_ACCOUNT_KEY", format!("{{file:{}}}", here.path("key").display()));
        Ended::of(command.output().unwrap())
    };
    let run = |lab: &Lab, verb: &str| run_with(lab, &[verb], &azure.url);
    let (first, second) = (measure(&here), measure(&here));
    let planted = format!("lab/team/one/runs/{first}/hist.parquet");
    azure.ask("PUT", &planted, "", "other");
    assert_eq!(run(&here, "migrate").code, Some(0));
    let ended = run(&here, "push");
    assert_eq!(
        (ended.code, ended.out.contains("it is not replaced")),
        (Some(1), true),
        "{}{}",
        ended.out,
        ended.err
    );
    assert_eq!(azure.ask("GET", &planted, "", ""), "other");
    assert_eq!(server.sql("SELECT id FROM run"), second);
    azure.ask("DELETE", &planted, "", "");
    let pushed = run(&here, "push");
    assert_eq!(pushed.code, Some(0), "{}{}", pushed.out, pushed.err);
    assert_eq!(run(&there, "pull").code, Some(0));
    assert_eq!(tree(&here.path("archive/runs")), tree(&there.path("archive/runs")));
    assert_eq!(there.run(&["runs", "verify"]).code, Some(0));

    server.sql("UPDATE run SET pushed_at = now() - interval '100 days'");
    let pruned = run_with(&here, &["prune", "--older-than", "90d", "--yes"], &azure.url);
    assert_eq!(pruned.code, Some(0), "{}{}", pruned.out, pruned.err);
    let left = azure.ask("GET", "lab", "restype=container&comp=list", "");
    assert!(left.contains("team/one/archive-id") && !left.contains("/runs/"), "{left}");

    measure(&here);
    let plain = run_with(&here, &["push"], "http://192.0.2.1:10000/lab");
    assert_eq!(plain.code, Some(6), "plain HTTP off this machine: {}", plain.err);
    assert!(!plain.err.contains(KEY), "{}", plain.err);
}

/// Without credentials, the machine's are asked for: here, of an address at which nothing listens.
#[test]
fn a_container_without_account_or_credentials_is_refused_and_the_variables_are_named() {
    let Some(server) = Postgres::start(&[]) else { return };
    let lab = Lab::new();
    let place = server.place("az://lab/team/one");
    let push = |account: Option<&str>| {
        let mut command = lab.command(&["archive", "push", &place]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AZURE_")) {
            command.env_remove(name);
        }
        command.env("AZURE_MSI_ENDPOINT", "http://127.0.0.1:9/token");
        command.envs(account.map(|account| ("AZURE_STORAGE_ACCOUNT_NAME", account)));
        Ended::of(command.output().unwrap())
    };
    measure(&lab);
    assert_eq!(lab.run(&["archive", "migrate", &server.place("file:///tmp")]).code, Some(0));
    let ended = push(None);
    assert_eq!(
        (ended.code, ended.err.contains("set AZURE_STORAGE_ACCOUNT_NAME")),
        (Some(2), true),
        "{}",
        ended.err
    );
    let ended = push(Some("lab"));
    let words = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ended.code, Some(6), "{words}");
    assert!(words.contains("no credentials") && words.contains("AZURE_STORAGE_ACCOUNT_KEY"), "{words}");
}
