//! A program that gets slower with threads, because of one lock: `one_lock pipe|mutex shared|own THREADS
//! SECONDS`.
//!
//! `pipe`: threads write a page into a pipe and read one, which takes a mutex of the kernel. `mutex`: threads
//! count words in a map behind a mutex of the program. `shared`: all of them use one; `own`: each has its
//! own, as they should.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use record::clock::{Clock, Monotonic};

type Work = Box<dyn Fn(u64) + Send>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [what, whose, threads, seconds] = words.as_slice() else {
        return Err("usage: one_lock pipe|mutex shared|own THREADS SECONDS".into());
    };
    let (threads, seconds): (usize, u64) = (threads.parse()?, seconds.parse()?);
    let kinds = if whose == "own" { threads } else { 1 };
    let makers: Vec<Box<dyn Fn() -> Work>> = (0..kinds)
        .map(|_| if what == "pipe" { pipe_passer() } else { Ok(word_counter()) })
        .collect::<io::Result<_>>()?;
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let until_ns = Monotonic.now_ns() + seconds * 1_000_000_000;
    let workers: Vec<_> = (0..threads)
        .map(|i| {
            let work = makers[i % kinds]();
            let cpu = cpus[i % cpus.len()];
            thread::spawn(move || {
                let mut set = CpuSet::new();
                // Threads on one CPU would take turns, and hardly meet at the lock.
                set.set(cpu)
                    .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
                    .expect("it may be used");
                let mut done = 0;
                while Monotonic.now_ns() < until_ns {
                    work(done);
                    done += 1;
                }
                done
            })
        })
        .collect();
    let done: u64 = workers.into_iter().map(|w| w.join().expect("it does not panic")).sum();
    #[expect(clippy::print_stdout, reason = "this is a program")]
    {
        println!("{what} {whose}, {threads} threads: {:.0} thousand/s", done as f64 / seconds as f64 / 1e3);
    }
    Ok(())
}

fn pipe_passer() -> io::Result<Box<dyn Fn() -> Work>> {
    let (reader, writer) = pipe()?;
    let both = Arc::new((reader, writer));
    Ok(Box::new(move || {
        let both = Arc::clone(&both);
        Box::new(move |_| pass_page(&both.0, &both.1))
    }))
}

/// A pipe holds sixteen pages, so fewer threads never wait for room.
fn pass_page(mut reader: &PipeReader, mut writer: &PipeWriter) {
    let mut page = [0; 4096];
    writer.write_all(&page).expect("its other end is open");
    reader.read_exact(&mut page).expect("its other end is open");
}

fn word_counter() -> Box<dyn Fn() -> Work> {
    let words = Arc::new(Mutex::new(BTreeMap::<u64, u64>::new()));
    Box::new(move || {
        let words = Arc::clone(&words);
        Box::new(move |done| count_word(&words, done % 1024))
    })
}

#[inline(never)]
fn count_word(words: &Mutex<BTreeMap<u64, u64>>, word: u64) {
    *words.lock().expect("nobody panics").entry(word).or_default() += 1;
}
