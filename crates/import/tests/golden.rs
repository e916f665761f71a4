//! Every sample reads as recorded. The name of a sample states its peculiarity.

mod read;

use bakeoff_import::render::{LockstatView, MpstatView, PlockstatView};
use bakeoff_import::solaris::lockstat::{By, Machine};
use bakeoff_import::vmstat_s::Clockwork;
use read::{
    As, LOCKSTAT, MPSTAT, PLOCKSTAT, by_kind, show_lockstat, show_mpstat, show_plockstat, show_vmstat,
};

fn settings(folder: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("golden/{folder}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

#[test]
fn every_mpstat_sample_reads_as_recorded() {
    insta::glob!("../testdata/mpstat", "*.txt", |path| {
        let bytes = std::fs::read(path).unwrap();
        let view = MpstatView { name_full: true, mean: true, ..MPSTAT };
        settings("mpstat").bind(|| insta::assert_snapshot!("text", show_mpstat(&bytes, As::Text, view)));
    });
}

#[test]
fn every_lockstat_sample_reads_as_recorded() {
    insta::glob!("../testdata/lockstat", "*.txt", |path| {
        let bytes = std::fs::read(path).unwrap();
        let view = LockstatView { histograms: true, stacks: true, ..LOCKSTAT };
        let all = show_lockstat(&bytes, As::Text, view) + "\n" + &show_lockstat(&bytes, As::Text, by_kind());
        settings("lockstat").bind(|| insta::assert_snapshot!("text", all));
    });
}

#[test]
fn every_plockstat_sample_reads_as_recorded() {
    insta::glob!("../testdata/plockstat", "*.txt", |path| {
        let bytes = std::fs::read(path).unwrap();
        let view = PlockstatView { histograms: true, stacks: true, ..PLOCKSTAT };
        settings("plockstat")
            .bind(|| insta::assert_snapshot!("text", show_plockstat(&bytes, As::Text, view)));
    });
}

const CLOCKWORK: Clockwork = Clockwork { hz: 100.0, cpus: Some(2), elapsed_s: None };

#[test]
fn every_vmstat_sample_reads_as_recorded() {
    insta::glob!("../testdata/vmstat_s", "*.txt", |path| {
        let bytes = std::fs::read(path).unwrap();
        settings("vmstat_s")
            .bind(|| insta::assert_snapshot!("text", show_vmstat(&bytes, As::Text, CLOCKWORK)));
    });
}

#[test]
fn every_form_prints_as_recorded() {
    let data = |path: &str| std::fs::read(format!("{}/testdata/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let check = |name: &str, text: String| settings("forms").bind(|| insta::assert_snapshot!(name, text));
    let mpstat = MpstatView { errors: true, times: true, by_set: true, ..MPSTAT };
    let dated = data("mpstat/ap-sets-state-changes.txt");
    check("mpstat-all-options.text", show_mpstat(&dated, As::Text, mpstat));
    check("mpstat-all-options.csv", show_mpstat(&dated, As::Csv, mpstat));
    check("mpstat-all-options.json", show_mpstat(&dated, As::Json, mpstat));
    let prefixed = data("mpstat/ctime-before-every-line.txt");
    let sums = MpstatView { rates: bakeoff_import::solaris::mpstat::Rates::Sum, boot: true, ..mpstat };
    check("mpstat-sum-rates.text", show_mpstat(&prefixed, As::Text, sums));
    check("mpstat-sum-rates.json", show_mpstat(&prefixed, As::Json, sums));
    check("mpstat-full.csv", show_mpstat(&prefixed, As::Csv, MpstatView { name_full: true, ..MPSTAT }));
    check(
        "mpstat-columns-left-out.json",
        show_mpstat(&data("mpstat/columns-left-out.txt"), As::Json, MPSTAT),
    );
    check("mpstat-cut.json", show_mpstat(&data("mpstat/cut-in-mid-row.txt"), As::Json, MPSTAT));
    check("mpstat-empty.json", show_mpstat(b"", As::Json, MPSTAT));

    let unknown =
        LockstatView { machine: Machine { cpus: None, elapsed_s: None, spin_ns: None }, ..LOCKSTAT };
    let calibrated = LockstatView { machine: Machine { spin_ns: Some(5.0), ..LOCKSTAT.machine }, ..LOCKSTAT };
    for (sample, view, mark) in [
        ("illumos", LOCKSTAT, ""),
        ("solaris-10-n10-records-lost", LOCKSTAT, ""),
        ("solaris-10-sRP", LOCKSTAT, ""),
        ("illumos-p", unknown, "-unknown-machine"),
        ("illumos", unknown, "-unknown-machine"),
        ("solaris-10", calibrated, "-calibrated"),
        ("solaris-10-D0", LOCKSTAT, ""),
        ("illumos-cut-in-a-row", LOCKSTAT, ""),
    ] {
        let bytes = data(&format!("lockstat/{sample}.txt"));
        check(&format!("lockstat-{sample}{mark}.json"), show_lockstat(&bytes, As::Json, view));
        check(&format!("lockstat-{sample}{mark}.csv"), show_lockstat(&bytes, As::Csv, view));
        check(&format!("lockstat-{sample}{mark}.text"), show_lockstat(&bytes, As::Text, view));
    }
    for (sample, by) in [("illumos", By::Caller), ("illumos-RP", By::Lock), ("solaris-10-D0", By::Kind)] {
        let bytes = data(&format!("lockstat/{sample}.txt"));
        let view = LockstatView { by: Some(by), ..LOCKSTAT };
        check(&format!("lockstat-{sample}-by.csv"), show_lockstat(&bytes, As::Csv, view));
        check(&format!("lockstat-{sample}-by.json"), show_lockstat(&bytes, As::Json, view));
    }
    let stacks = data("plockstat/As5-stacks.txt");
    check("plockstat.json", show_plockstat(&stacks, As::Json, PLOCKSTAT));
    check("plockstat.csv", show_plockstat(&stacks, As::Csv, PLOCKSTAT));
    let unknown = PlockstatView { cpus: None, elapsed_s: None, ..PLOCKSTAT };
    check("plockstat-unknown-machine.json", show_plockstat(&stacks, As::Json, unknown));
    check("plockstat-unknown-machine.text", show_plockstat(&stacks, As::Text, unknown));
    for sample in ["solaris-dated-series", "solaris-wrong-order", "linux-pair"] {
        let bytes = data(&format!("vmstat_s/{sample}.txt"));
        check(&format!("vmstat-{sample}.json"), show_vmstat(&bytes, As::Json, CLOCKWORK));
        check(&format!("vmstat-{sample}.csv"), show_vmstat(&bytes, As::Csv, CLOCKWORK));
    }
}

#[test]
fn the_famous_sample_prints_to_the_letter() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/lockstat/solaris-10-kWP-512-cpus");
    let bytes = std::fs::read(format!("{folder}.txt")).unwrap();
    let expected = std::fs::read_to_string(format!("{folder}.expected")).unwrap();
    let view =
        LockstatView { machine: Machine { cpus: Some(512), elapsed_s: None, spin_ns: None }, ..LOCKSTAT };
    let printed = show_lockstat(&bytes, As::Text, view);
    let table: String =
        printed.lines().take(expected.lines().count()).fold(String::new(), |all, line| all + line + "\n");
    assert_eq!(table, expected);
    let rest: Vec<&str> = printed.lines().skip(expected.lines().count()).collect();
    assert!(
        rest.len() == 1
            && rest[0].starts_with("note: 1: Adaptive mutex spin: the rows hold 1635208 of 1713116"),
        "{rest:?}"
    );
}
