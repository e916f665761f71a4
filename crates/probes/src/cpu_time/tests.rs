//! The probe on CPUs that come and go, with a source of known counters.

use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

use tempfile::TempDir;

use super::books::Books;
use super::*;

/// Counters that are busy for three quarters of the time, of CPUs that take no closing while they are
/// offline.
#[derive(Debug)]
struct Known {
    rung: Rung,
    /// State of each CPU at its last closing, and whether it was online since.
    cpus: Rc<RefCell<BTreeMap<u32, Books>>>,
}

impl Source for Known {
    fn rung(&self) -> Rung {
        self.rung
    }

    fn adopt(&mut self, _: Adopt) -> Maybe<()> {
        Ok(())
    }

    fn next_edge(&mut self) {}

    fn tasks(&mut self) -> Maybe<Vec<TaskSample>> {
        Ok(Vec::new())
    }

    fn close(&mut self, cpu: u32) -> Maybe<Edge> {
        let mut cpus = self.cpus.borrow_mut();
        let books =
            cpus.get_mut(&cpu).ok_or_else(|| Missing::because("its accounting could not be completed"))?;
        books.at_ns += 1_000_000_000;
        books.busy_ns += 750_000_000;
        books.idle_ns += 250_000_000;
        books.switches += 10;
        Ok(Edge { wall_ns: books.at_ns, books: books.clone() })
    }

    fn cost(&mut self, _: Option<&Ticks>) -> Maybe<[f64; 3]> {
        Err(Missing::because("it is no program"))
    }
}

/// Writes the files of a machine on which these CPUs are online.
fn machine(folder: &TempDir, online: &str) {
    let cpus = folder.path().join("sys/devices/system/cpu");
    fs::create_dir_all(&cpus).unwrap();
    fs::write(cpus.join("online"), online).unwrap();
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    let lines =
        cpu_list::parse(online).unwrap().into_iter().map(|cpu| format!("cpu{cpu} 1 0 1 1 0 0 0 0 0 0\n"));
    fs::write(folder.path().join("proc/stat"), lines.collect::<String>()).unwrap();
}

/// Makes the folder of a CPU that comes online: never the one that it had before.
fn comes_online(folder: &TempDir, cpu: u32) {
    let of = folder.path().join(format!("sys/devices/system/cpu/cpu{cpu}"));
    fs::create_dir_all(of.join("new")).unwrap();
    let _ = fs::remove_dir(of.join("topology"));
    fs::rename(of.join("new"), of.join("topology")).unwrap();
}

fn event(interval: &CpuInterval, cpu: u32) -> Maybe<f64> {
    interval.cpus.iter().find(|sample| sample.cpu == cpu).unwrap().event_ratio.clone()
}

#[test]
fn a_cpu_that_goes_and_comes_back_says_so_and_the_others_go_on() {
    let folder = TempDir::new().unwrap();
    machine(&folder, "0-2");
    let mut probe = open(&Options { root: folder.path().to_owned(), ..Options::of_this_machine() });
    let books = Rc::new(RefCell::new((0..3).map(|cpu| (cpu, Books::default())).collect::<BTreeMap<_, _>>()));
    probe.source = Some(Box::new(Known { rung: Rung::Bpf, cpus: Rc::clone(&books) }));
    probe.start();
    assert_eq!(probe.read().cpus.len(), 3);

    machine(&folder, "0,2");
    let went = probe.read();
    assert!(event(&went, 1).unwrap_err().reason.contains("went offline"), "{went:?}");
    let away = probe.read();
    assert!(away.cpus.iter().all(|sample| sample.cpu != 1), "{away:?}");
    machine(&folder, "0-2");
    let came = probe.read();
    assert!(event(&came, 1).unwrap_err().reason.contains("came online"), "{came:?}");
    let back = probe.read();
    for interval in [&went, &away, &came, &back] {
        for cpu in [0, 2] {
            assert_eq!(event(interval, cpu), Ok(0.75), "{interval:?}");
        }
    }
    assert_eq!(event(&back, 1), Ok(0.75));
    assert!(back.cpus.iter().all(|sample| sample.balance_ns.clone().unwrap() == 0), "{back:?}");

    // A CPU that goes offline between the list of CPUs and its closing.
    books.borrow_mut().remove(&2);
    let gone = probe.read();
    assert!(event(&gone, 2).unwrap_err().reason.contains("could not be completed"), "{gone:?}");
    assert_eq!(event(&gone, 0), Ok(0.75));
    assert!(probe.since_start().is_ok());
}

/// The CPU is off and on again between two looks: the lists of CPUs do not differ. Perf events
/// do not come back.
#[test]
fn a_cpu_that_was_away_between_two_looks_has_no_values_for_that_interval() {
    for rung in [Rung::Bpf, Rung::Perf] {
        let folder = TempDir::new().unwrap();
        machine(&folder, "0-1");
        (0..2).for_each(|cpu| comes_online(&folder, cpu));
        let mut probe = open(&Options { root: folder.path().to_owned(), ..Options::of_this_machine() });
        let books = (0..2).map(|cpu| (cpu, Books::default())).collect::<BTreeMap<_, _>>();
        probe.source = Some(Box::new(Known { rung, cpus: Rc::new(RefCell::new(books)) }));
        probe.start();
        assert_eq!(event(&probe.read(), 1), Ok(0.75));
        comes_online(&folder, 1);
        let away = probe.read();
        assert!(event(&away, 1).unwrap_err().reason.contains("was offline for a part"), "{away:?}");
        let back = probe.read();
        for interval in [&away, &back] {
            assert_eq!(event(interval, 0), Ok(0.75), "{interval:?}");
        }
        match event(&back, 1) {
            Ok(busy) => assert_eq!((rung, busy), (Rung::Bpf, 0.75)),
            Err(why) => {
                assert!(rung == Rung::Perf && why.reason.contains("ended its perf events"), "{why:?}");
            }
        }
        assert!(event(&probe.since_start().unwrap(), 1).is_err(), "the whole time has the gap");
    }
}
