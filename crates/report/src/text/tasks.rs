//! Threads at a terminal: the CPU time of each, and how much of it was on a shared core.

use std::io::{self, Write};

use record::cpu::{CgroupSample, TaskSample};
use record::missing::Maybe;

use super::table::{Align, Table};
use super::{Style, paragraph};
use crate::number::count;

/// Writes the `rows` threads with the most CPU time, then a line for the rest.
///
/// - `tasks`: most time first.
/// - `cores_shared`: whether any core has several CPUs; if not, the columns of sharing are left out.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn tasks(
    out: &mut dyn Write,
    tasks: &[TaskSample],
    rows: usize,
    cores_shared: bool,
    style: Style,
) -> io::Result<()> {
    let mut table = Table::default().column("thread", Align::Elastic, 0).column("on CPU s", Align::Right, 0);
    if cores_shared {
        table = table.column("alone s", Align::Right, 3).column("sibling busy s", Align::Right, 2).column(
            "core share s",
            Align::Right,
            1,
        );
    }
    let interrupted = tasks.iter().any(|t| t.interrupted_ns > 0);
    let waited = tasks.iter().any(|t| t.wait_ns.is_ok());
    if interrupted {
        table = table.column("interrupts s", Align::Right, 4);
    }
    if waited {
        table = table.column("waited or held s", Align::Right, 1);
    }
    table = table.column("stints", Align::Right, 4).column("user s", Align::Right, 5).column(
        "system s",
        Align::Right,
        5,
    );
    let seconds = |ns: u64| format!("{:.6}", ns as f64 * 1e-9);
    let maybe =
        |ns: &Maybe<u64>| ns.as_ref().map_or("-".to_owned(), |ns| format!("{:.3}", *ns as f64 * 1e-9));
    for task in tasks.iter().take(rows) {
        let mut row = vec![(name(task), None), (seconds(task.on_cpu_ns), None)];
        if cores_shared {
            row.extend(
                [task.alone_ns, task.sibling_busy_ns, task.core_share_ns].map(|ns| (seconds(ns), None)),
            );
        }
        row.extend(interrupted.then(|| (seconds(task.interrupted_ns), None)));
        row.extend(waited.then(|| (maybe(&task.wait_ns), None)));
        row.extend([
            (count(task.stints), None),
            (maybe(&task.user_ns), None),
            (maybe(&task.system_ns), None),
        ]);
        table.row(row);
    }
    table.write(out, style)?;
    let rest = tasks.get(rows..).unwrap_or_default();
    if !rest.is_empty() {
        let ns: u64 = rest.iter().map(|t| t.on_cpu_ns).sum();
        paragraph(
            out,
            &format!("{} more threads: {} s together", count(rest.len() as u64), seconds(ns)),
            2,
            style,
        )?;
    }
    Ok(())
}

/// Writes `rows` control groups by CPU time, then one row for the rest.
///
/// - `seconds`: length of the interval.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn cgroups(
    out: &mut dyn Write,
    groups: &[CgroupSample],
    rows: usize,
    seconds: f64,
    style: Style,
) -> io::Result<()> {
    let mut table = Table::default()
        .column("control group", Align::Elastic, 0)
        .column("threads", Align::Right, 4)
        .column("CPUs", Align::Right, 0)
        .column("on CPU s", Align::Right, 1)
        .column("waited or held s", Align::Right, 2)
        .column("interrupts s", Align::Right, 5)
        .column("stints", Align::Right, 6);
    let of_ns = |ns: u64| format!("{:.6}", ns as f64 * 1e-9);
    let mut add = |name: String, group: &CgroupSample| {
        let waited = group.wait_ns.as_ref().map_or("-".to_owned(), |ns| format!("{:.3}", *ns as f64 * 1e-9));
        let cells = [
            name,
            count(group.threads),
            format!("{:.3}", group.on_cpu_ns as f64 * 1e-9 / seconds),
            of_ns(group.on_cpu_ns),
            waited,
            of_ns(group.interrupted_ns),
            count(group.stints),
        ];
        table.row(cells.map(|cell| (cell, None)).to_vec());
    };
    for group in groups.iter().take(rows) {
        add(group.cgroup.as_deref().map_or("(not known)".to_owned(), cgroup_name), group);
    }
    let rest = groups.get(rows..).unwrap_or_default();
    if let Some((first, others)) = rest.split_first() {
        let mut all = first.clone();
        for group in others {
            all.add(group);
        }
        add(format!("({} more)", rest.len()), &all);
    }
    table.write(out, style)
}

/// The path of a control group, preceded by its container if the path contains one.
pub(super) fn cgroup_name(path: &str) -> String {
    record::cgroup::container(path).map_or_else(|| path.to_owned(), |name| format!("{name} {path}"))
}

/// `mariadbd/4711`, with `(ended)` for a thread that ended.
fn name(task: &TaskSample) -> String {
    format!("{}/{}{}", task.comm, task.tid, if task.ended { " (ended)" } else { "" })
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    fn task(tid: u32, on_cpu_ns: u64) -> TaskSample {
        TaskSample {
            cgroup: Ok("/".into()),
            pid: 1,
            tid,
            comm: "hog".into(),
            on_cpu_ns,
            alone_ns: on_cpu_ns / 4,
            sibling_busy_ns: on_cpu_ns - on_cpu_ns / 4,
            core_share_ns: on_cpu_ns / 2,
            interrupted_ns: 0,
            wait_ns: Err(Missing::because("not measured")),
            stints: 3,
            user_ns: Ok(on_cpu_ns),
            system_ns: Err(Missing::because("no tick found the thread running")),
            ended: tid == 2,
        }
    }

    #[test]
    fn sharing_shows_where_cores_are_shared_and_the_rest_is_summed() {
        let all = [task(1, 800_000_000), task(2, 400_000_000), task(3, 100_000_000), task(4, 50_000_000)];
        let written = |rows, shared, width| {
            let mut out = Vec::new();
            tasks(&mut out, &all, rows, shared, Style { width, color: false }).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = written(2, true, 120);
        assert!(text.contains("core share s") && text.contains("0.400000"), "{text}");
        assert!(
            text.contains("hog/2 (ended)") && text.contains("2 more threads: 0.150000 s together"),
            "{text}"
        );
        assert!(!written(4, false, 120).contains("core share"));
        for line in written(4, true, 40).lines() {
            assert!(line.chars().count() <= 40, "{line}");
        }
    }
}
