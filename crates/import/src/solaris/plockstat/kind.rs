//! The kinds of plockstat's sections, by their titles.

/// Kind of lock and event in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Mutexes, from acquisition to release.
    MutexHold,
    /// Mutexes, threads asleep.
    MutexBlock,
    /// Mutexes, threads spinning until they acquired the lock.
    MutexSpin,
    /// Mutexes, threads spinning until they gave up and slept.
    MutexVainSpin,
    /// Readers' locks, from acquisition to release.
    ReaderHold,
    /// Readers' locks, threads asleep.
    ReaderBlock,
    /// Writers' locks, from acquisition to release.
    WriterHold,
    /// Writers' locks, threads asleep.
    WriterBlock,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::MutexHold,
        Self::MutexBlock,
        Self::MutexSpin,
        Self::MutexVainSpin,
        Self::ReaderHold,
        Self::ReaderBlock,
        Self::WriterHold,
        Self::WriterBlock,
    ];

    /// Returns the section's title, as the tool prints it.
    pub fn title(self) -> &'static str {
        match self {
            Self::MutexHold => "Mutex hold",
            Self::MutexBlock => "Mutex block",
            Self::MutexSpin => "Mutex spin",
            Self::MutexVainSpin => "Mutex unsuccessful spin",
            Self::ReaderHold => "R/W reader hold",
            Self::ReaderBlock => "R/W reader block",
            Self::WriterHold => "R/W writer hold",
            Self::WriterBlock => "R/W writer block",
        }
    }

    /// Returns one word for the use of the time.
    pub fn name(self) -> &'static str {
        match self {
            Self::MutexHold | Self::ReaderHold | Self::WriterHold => "hold",
            Self::MutexBlock | Self::ReaderBlock | Self::WriterBlock => "block",
            Self::MutexSpin => "spin",
            Self::MutexVainSpin => "unsuccessful-spin",
        }
    }

    /// Whether the time is CPU time without progress.
    pub fn is_cpu(self) -> bool {
        matches!(self, Self::MutexSpin | Self::MutexVainSpin)
    }
}

/// Whether the line is a section's title.
pub(crate) fn is_section(line: &[u8]) -> bool {
    title(line).is_some()
}

pub(super) fn title(line: &[u8]) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.title().as_bytes() == line)
}
