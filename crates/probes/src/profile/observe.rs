//! A profile beside a command or a load: of the server's processes if they have a control group, otherwise of
//! all threads of the machine.
//!
//! A thread reads the stacks ten times a second, so functions are named while their process lives, and the
//! thread that follows the load never waits for a name.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use record::instruments::Instruments;
use record::missing::{Maybe, Missing};
use record::profile::{Profile, ProfileKind, RunProfile};
use record::resources::UsedBy;

use super::Options;
use crate::cgroups::Cgroup;
use crate::instrument::{Instrument, Kind, Problems, Reading};
use crate::locks::Refused;

/// Entry in the list of instruments: functions by CPU time.
pub(crate) const ON_CPU: Kind =
    Kind { name: ProfileKind::OnCpu.instrument(), open: on_cpu, open_for_server: None };
/// Entry in the list of instruments: functions by time off the CPU.
pub(crate) const OFF_CPU: Kind =
    Kind { name: ProfileKind::OffCpu.instrument(), open: off_cpu, open_for_server: None };

/// Interval between reads of the kernel's sums.
const GATHER_EVERY: Duration = Duration::from_millis(100);

fn on_cpu() -> Box<dyn Instrument> {
    Box::new(Observer::open(Options::of_everyone(ProfileKind::OnCpu)))
}

fn off_cpu() -> Box<dyn Instrument> {
    Box::new(Observer::open(Options::of_everyone(ProfileKind::OffCpu)))
}

#[derive(Debug)]
struct Observer {
    /// Filters; the control group is that of the server under test, if that is known.
    options: Options,
    reader: Result<Reader, Refused>,
    state: State,
    ended: Problems,
    /// The profile of the observation that has ended.
    taken: Option<RunProfile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// The reader has the order to end, and names the last stacks.
    Ending,
}

impl Observer {
    fn open(options: Options) -> Self {
        let reader = Reader::open(&options);
        Self { options, reader, state: State::Idle, ended: Problems::default(), taken: None }
    }

    /// Waits for the profile of an observation that has ended.
    fn receive(&mut self) {
        if self.state != State::Ending {
            return;
        }
        self.state = State::Idle;
        let Ok(reader) = &self.reader else { return };
        let profile = self.ended.take(reader.profile(), |profile| &profile.lost);
        let of = if self.options.cgroup.is_some() { UsedBy::Server } else { UsedBy::Machine };
        self.taken = profile.map(|profile| RunProfile::bounded(of, profile));
    }
}

impl Instrument for Observer {
    fn notes(&self) -> Vec<String> {
        self.ended.notes(self.options.kind.instrument(), self.reader.as_ref().err())
    }

    fn is_able(&self) -> Maybe<()> {
        self.reader.as_ref().map(|_| ()).map_err(|why| Missing::because(why.to_string()))
    }

    fn is_of_intervals(&self) -> bool {
        false
    }

    fn follow_server(&mut self, group: Option<&Cgroup>) {
        if self.options.cgroup.as_ref() == group {
            return;
        }
        self.end();
        self.receive();
        let options = Options { cgroup: group.cloned(), ..self.options.clone() };
        // The programs of the old reader are detached before those of the new one are attached.
        let replaced = std::mem::replace(&mut self.reader, Err(Refused::because(String::new())));
        drop(replaced);
        *self = Self::open(options);
    }

    fn start(&mut self) {
        self.end();
        self.receive();
        (self.ended, self.taken) = (Problems::default(), None);
        if let Ok(reader) = &self.reader {
            reader.tell(Order::Start);
            self.state = State::Running;
        }
    }

    fn read(&mut self) -> Vec<Reading> {
        Vec::new()
    }

    fn end(&mut self) {
        if let (Ok(reader), State::Running) = (&self.reader, self.state) {
            reader.tell(Order::End);
            self.state = State::Ending;
        }
    }

    fn hand_over_whole(&mut self, seen: &mut Instruments) {
        self.receive();
        seen.profiles.extend(self.taken.take());
        self.ended.tell_missing(self.options.kind.instrument(), self.reader.as_ref().err(), seen);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Start,
    End,
}

/// The thread that reads the stacks. Its programs are detached when this is dropped.
#[derive(Debug)]
struct Reader {
    /// `None` while it is dropped.
    orders: Option<Sender<Order>>,
    profiles: Receiver<Maybe<Profile>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn open(options: &Options) -> Result<Self, Refused> {
        let (orders, taken_orders) = mpsc::channel();
        let (told_opened, opened) = mpsc::channel();
        let (told_profiles, profiles) = mpsc::channel();
        let options = options.clone();
        let work = move || read_stacks(&options, &taken_orders, &told_opened, &told_profiles);
        let thread = thread::Builder::new().name("profile".into()).spawn(work);
        let thread = thread
            .map_err(|why| Refused::because(format!("cannot profile: no thread can be started ({why})")))?;
        let died = || Refused::because("cannot profile: the thread that reads the stacks has ended".into());
        opened.recv().map_err(|_| died())??;
        Ok(Self { orders: Some(orders), profiles, thread: Some(thread) })
    }

    fn tell(&self, order: Order) {
        // A thread that has ended is reported when its profile is asked for.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }

    /// Waits for the profile after [`Order::End`].
    fn profile(&self) -> Maybe<Profile> {
        let died = |_| Err(Missing::because("the thread that reads the stacks has ended"));
        self.profiles.recv().unwrap_or_else(died)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.orders = None;
        // If it panicked, it has printed why.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn read_stacks(
    options: &Options,
    orders: &Receiver<Order>,
    opened: &Sender<Result<(), Refused>>,
    profiles: &Sender<Maybe<Profile>>,
) {
    let profiler = super::open(options);
    // It reads files that other users choose.
    confine::capabilities::after_setup();
    let mut profiler = match profiler {
        Ok(profiler) => profiler,
        Err(refused) => {
            let _ = opened.send(Err(refused));
            return;
        }
    };
    if opened.send(Ok(())).is_err() {
        return;
    }
    while orders.recv() == Ok(Order::Start) {
        profiler.start();
        let mut read = Ok(());
        let order = loop {
            match orders.recv_timeout(GATHER_EVERY) {
                Err(RecvTimeoutError::Timeout) => read = read.and_then(|()| profiler.gather()),
                order => break order,
            }
        };
        let profile = profiler.finish();
        if order != Ok(Order::End) || profiles.send(read.and(profile)).is_err() {
            return;
        }
    }
}
