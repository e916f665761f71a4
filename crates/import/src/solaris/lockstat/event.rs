//! The kinds of event, their numbers in `-e`, `-p` and `-T`, and the use of their time.

use std::borrow::Cow;

/// A kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Number, 0 to 63; `None` for a name that no known lockstat prints.
    pub number: Option<u8>,
    /// Name, as the tool prints it.
    pub name: Cow<'static, str>,
    /// Use of the time.
    pub class: Class,
}

/// Use of an event's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Spinning: the CPU does nothing else.
    Spin,
    /// Spinning on a thread lock. These locks are many and short, so they are a separate class, but the time
    /// is CPU time like that of any spin.
    Thread,
    /// Sleeping: uses no CPU.
    Block,
    /// Holding a lock: the holder works or sleeps.
    Hold,
    /// A profiling interrupt (`-I`), which has no lock.
    Interrupt,
    /// Errors of lockstat.
    Error,
    /// Unknown.
    Other,
}

impl Class {
    /// Whether the time is CPU time without progress.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Spin | Self::Thread)
    }

    /// Returns the name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Thread => "thread",
            Self::Block => "block",
            Self::Hold => "hold",
            Self::Interrupt => "interrupt",
            Self::Error => "error",
            Self::Other => "other",
        }
    }
}

/// Numbers 8 to 15, 36 and 37 belong to FreeBSD.
const KNOWN: [(u8, &str, Class); 27] = [
    (0, "Adaptive mutex spin", Class::Spin),
    (1, "Adaptive mutex block", Class::Block),
    (2, "Spin lock spin", Class::Spin),
    (3, "Thread lock spin", Class::Thread),
    (4, "R/W writer blocked by writer", Class::Block),
    (5, "R/W writer blocked by readers", Class::Block),
    (6, "R/W reader blocked by writer", Class::Block),
    (7, "R/W reader blocked by write wanted", Class::Block),
    (8, "R/W writer spin on writer", Class::Spin),
    (9, "R/W writer spin on readers", Class::Spin),
    (10, "R/W reader spin on writer", Class::Spin),
    (11, "R/W reader spin on write wanted", Class::Spin),
    (12, "SX exclusive block", Class::Block),
    (13, "SX shared block", Class::Block),
    (14, "SX exclusive spin", Class::Spin),
    (15, "SX shared spin", Class::Spin),
    (32, "Adaptive mutex hold", Class::Hold),
    (33, "Spin lock hold", Class::Hold),
    (34, "R/W writer hold", Class::Hold),
    (35, "R/W reader hold", Class::Hold),
    (36, "SX shared hold", Class::Hold),
    (37, "SX exclusive hold", Class::Hold),
    (56, "Profiling interrupt", Class::Interrupt),
    (60, "Recursive lock entry detected", Class::Error),
    (61, "Lockstat enter failure", Class::Error),
    (62, "Lockstat exit failure", Class::Error),
    (63, "Lockstat record failure", Class::Error),
];

impl Event {
    /// Returns the event with the name `name`, known or not.
    pub fn named(name: &str) -> Self {
        if let Some(event) = Self::known(name) {
            return event;
        }
        let number = name.strip_prefix("Unknown event (type ").and_then(|rest| rest.strip_suffix(')'));
        let number = number.and_then(|number| number.parse().ok()).filter(|&number| number < 64);
        Self { number, name: Cow::Owned(name.to_owned()), class: Class::Other }
    }

    /// Returns the event with the name `name`, if it is known.
    pub fn known(name: &str) -> Option<Self> {
        let &(number, name, class) = KNOWN.iter().find(|(_, known, _)| *known == name)?;
        Some(Self { number: Some(number), name: Cow::Borrowed(name), class })
    }

    /// Returns event `number`, as `-p` and `-T` print it; `None` from 64 on.
    pub fn numbered(number: u64) -> Option<Self> {
        let number = u8::try_from(number).ok().filter(|&number| number < 64)?;
        let known = KNOWN.iter().find(|(known, ..)| *known == number);
        Some(known.map_or_else(
            || Self {
                number: Some(number),
                name: Cow::Owned(format!("Unknown event (type {number})")),
                class: Class::Other,
            },
            |&(_, name, class)| Self { number: Some(number), name: Cow::Borrowed(name), class },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_two_ways_to_the_same_event() {
        for (number, name, _) in KNOWN {
            assert_eq!(Event::named(name), Event::numbered(number.into()).unwrap());
        }
        assert_eq!(Event::named("Unknown event (type 57)"), Event::numbered(57).unwrap());
        assert_eq!(Event::numbered(64), None);
        assert_eq!(Event::named("Lockd spin").number, None);
    }

    #[test]
    fn spinning_is_cpu_and_sleeping_is_not() {
        let cpu: Vec<u8> = KNOWN.iter().filter(|known| known.2.is_cpu()).map(|known| known.0).collect();
        assert_eq!(cpu, [0, 2, 3, 8, 9, 10, 11, 14, 15]);
    }
}
