//! `bakeoff memory` as a user runs it; root is not needed.

mod lab;

use std::io::Read as _;
use std::process::{Command, Stdio};

use lab::Lab;
use serde_json::Value;

#[test]
fn growth_is_the_slope_of_the_resident_set_since_the_start() {
    let lab = Lab::new();
    // A mebibyte every 50 ms, at absolute deadlines, during the whole measurement.
    let program = "import time\nk, t = [], time.monotonic()\nprint(flush=True)\nwhile True:\n t += 0.05\n \
                   time.sleep(max(0, t - time.monotonic()))\n k.append(b'x' * (1 << 20))";
    let python = Command::new("python3").args(["-c", program]).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else { return eprintln!("skipped: there is no python3") };
    python.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let ended = lab.run(&["memory", "200ms", "12", "--json", "--pid", &python.id().to_string()]);
    python.kill().unwrap();
    python.wait().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let intervals: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(intervals.len(), 12);
    assert!(
        intervals.iter().all(|i| i["schema"] == "bakeoff.memory/1" && !i["machine"].is_null()),
        "{}",
        ended.out
    );
    let growth = |i: &Value| i["processes"][0]["growth_bytes_per_s"].clone();
    assert!(growth(&intervals[4]).is_null());
    // After a late interval, growth begins again, with too few intervals.
    if intervals.iter().any(|i| i["missed_deadline"] == true) {
        return assert!(
            intervals.iter().all(|i| growth(i).is_null() || growth(i)["per_s"].is_number()),
            "{}",
            ended.out
        );
    }
    assert!(growth(&intervals[5])["per_s"].is_number(), "six intervals are enough: {}", ended.out);
    let found = growth(&intervals[11]);
    let number = |name: &str| found[name].as_f64().unwrap();
    let change = |i: &Value| i["processes"][0]["rss_change_bytes"].as_f64().unwrap();
    let slope = intervals.iter().map(change).sum::<f64>() / (12.0 * 0.2);
    assert!((number("per_s") - slope).abs() < 1.0, "{found} {slope}");
    // However rarely it gets a CPU, it allocates some of its 20 MiB per second, and frees nothing.
    assert!(
        slope > 1_048_576.0 && number("low") < slope + 1.0 && slope < number("high") + 1.0,
        "{found} {slope}"
    );
}

#[test]
fn the_table_has_a_line_for_the_machine_and_one_for_each_process() {
    let lab = Lab::new();
    let ended = lab.run(&["memory", "100ms", "2", "--top", "3"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out.matches("available").count(), 2, "{}", ended.out);
    assert!(ended.out.contains("RSS") && ended.out.contains("more process"), "{}", ended.out);
    assert!(ended.err.contains("watching cost"), "{}", ended.err);
}

#[test]
fn a_thread_of_the_kernel_is_refused_in_one_line() {
    let lab = Lab::new();
    // The parent of kernel threads, which only the machine's own PID namespace shows.
    if std::fs::read_to_string("/proc/2/comm").unwrap_or_default().trim() != "kthreadd" {
        return eprintln!("skipped: no thread of the kernel is shown here");
    }
    for words in
        [&["memory", "100ms", "1", "--pid", "2"][..], &["memory", "100ms", "1", "--json", "--pid", "2"]]
    {
        let ended = lab.run(words);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
        let line = "2 (kthreadd) is a kernel thread: it has no memory of its own";
        assert!(ended.err.contains(line) && ended.err.lines().count() <= 3, "{}", ended.err);
    }
}
