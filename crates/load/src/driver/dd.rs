//! The reader of `bakeoff dder`: reads with one buffer size repeatedly for about a millisecond.
//!
//! It is not the target of a load: a sweep has a hundred thousand sizes, and each is measured in a closed
//! loop on the caller's thread, into one warm buffer. A point consists of eight batches of calls, of which
//! the third fastest counts: a short disturbance spoils a batch, not the point. Reads advance through the
//! file and start over at its end, so a large file is read as a large file.
//!
//! The position of a call within a page affects the copy. Consecutive calls start at multiples of their size:
//! sizes just below a page's would start at few positions only, other sizes at all of them, and the curve
//! would show artifacts of this sequence. Therefore the position within the page changes every few calls and
//! whenever the file starts over. Every size then starts equally often at each position that an endless
//! sequence would reach, the multiples of gcd(size, page).
//!
//! The position of the buffer matters too: if one of its pages falls on the same cache sets as others, every
//! size that reaches this page is slow, and the curve would show a step there. So each point places its
//! buffer at different pages of a larger block of memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::ptr;
use std::time::Duration;

use nix::libc;
use record::clock::{Clock as _, Monotonic};

/// System call or mapping that fills the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `read(2)`.
    Read,
    /// `pread(2)`.
    Pread,
    /// A copy out of a mapping.
    Mmap,
    /// `pread(2)` with `O_DIRECT`.
    Direct,
}

/// Batches per point.
const BATCHES: usize = 8;
/// Rank of the batch that counts; the fastest has rank 0.
const COUNTS: usize = 2;
/// Alignment that satisfies every device and page.
const ALIGNMENT: usize = 4_096;
/// Calls in a row before the position within the page changes; more if this many calls of a size cover less
/// than a page.
const STRETCH_CALLS: u64 = 8;

/// Pages, beyond the buffer's own, by which the buffer may move.
const SPARE_PAGES: usize = 64;

/// Result of one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Time per call in the batch that counts.
    pub call_ns: f64,
    /// Number of calls in all batches.
    pub calls: u64,
}

/// A file, a buffer and a position in the file.
#[derive(Debug)]
pub struct Reader {
    call: Call,
    file: File,
    map: Option<Map>,
    buffer: Buffer,
    bytes: u64,
    offset: u64,
    place: Offsets,
    /// Calls left before the position changes.
    stretch_left: u64,
}

impl Reader {
    /// Opens a reader of the first `bytes` of `file`, with a buffer of `size_max`, and touches both once.
    ///
    /// # Errors
    ///
    /// The system's error; `EINVAL` if the file system does not support [`Call::Direct`].
    pub fn open(file: &File, call: Call, bytes: u64, size_max: u64) -> io::Result<Self> {
        assert!(size_max > 0 && size_max <= bytes, "a buffer holds something, and the file fills it");
        // A new description of the same file, with its own offset and flags, even if the file's name was
        // removed.
        let mut options = OpenOptions::new();
        options.read(true);
        if call == Call::Direct {
            options.custom_flags(libc::O_DIRECT);
        }
        let file = options.open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let map = if call == Call::Mmap { Some(Map::of(&file, bytes)?) } else { None };
        let buffer = Buffer::of(usize::try_from(size_max).map_err(|_| io::ErrorKind::OutOfMemory)?);
        let place = Offsets { state: 0, mask: 0 };
        let mut reader = Self { call, file, map, buffer, bytes, offset: 0, place, stretch_left: 0 };
        reader.batch(size_max, bytes / size_max)?;
        Ok(reader)
    }

    /// Measures one size for about `at_least`.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn point(&mut self, size: u64, at_least: Duration) -> io::Result<Point> {
        assert!(size > 0 && size <= self.buffer.bytes() as u64, "the buffer holds the size");
        self.place.mask = places_mask(size);
        self.buffer.move_to_page(self.place.another_page());
        // The first calls load code and data into the caches, and give the number of calls per batch.
        let once_ns = self.batch(size, 1)?.min(self.batch(size, 1)?).max(1);
        let batch_ns = u64::try_from(at_least.as_nanos()).unwrap_or(u64::MAX) / BATCHES as u64;
        let calls = (batch_ns / once_ns).max(1);
        let mut batches = [0; BATCHES];
        for batch in &mut batches {
            *batch = self.batch(size, calls)?;
        }
        batches.sort_unstable();
        Ok(Point { call_ns: batches[COUNTS] as f64 / calls as f64, calls: calls * BATCHES as u64 })
    }

    /// Time of `calls` consecutive calls.
    fn batch(&mut self, size: u64, calls: u64) -> io::Result<u64> {
        self.go_on(size)?;
        let began_ns = Monotonic.now_ns();
        for _ in 0..calls {
            let is_over = self.bytes - self.offset < size;
            // `read(2)` uses the file's offset and needs another call to move it, so it changes its position
            // less often.
            if is_over || (self.stretch_left == 0 && self.call != Call::Read) {
                self.go_on(size)?;
            }
            self.once(size)?;
            self.offset += size;
            self.stretch_left = self.stretch_left.saturating_sub(1);
        }
        Ok(Monotonic.now_ns() - began_ns)
    }

    /// Moves to another position within the page where the last call ended.
    ///
    /// At the end of the file it moves to one of the pages of the first call, a different one each time. The
    /// next pass then reads the bytes that the last pass did not reach, and every size reads the whole file,
    /// however often it fits into the file.
    fn go_on(&mut self, size: u64) -> io::Result<()> {
        let page_of = |offset: u64| offset & !(ALIGNMENT as u64 - 1);
        let place = self.place.next();
        let next = page_of(self.offset) + place;
        let slack = self.bytes - size;
        let offset = if next <= slack {
            next
        } else {
            let first = page_of(self.place.below(size.min(slack) + 1)) + place;
            if first <= slack { first } else { 0 }
        };
        self.stretch_left = STRETCH_CALLS.max(ALIGNMENT as u64 / size);
        self.seek(offset)
    }

    fn once(&mut self, size: u64) -> io::Result<()> {
        #[expect(clippy::cast_possible_truncation, reason = "no larger than the buffer, which is in memory")]
        let into = self.buffer.first(size as usize);
        let done = match self.call {
            Call::Read => io::Read::read(&mut self.file, into)?,
            Call::Pread | Call::Direct => self.file.read_at(into, self.offset)?,
            Call::Mmap => self.map.as_ref().expect("made when it was opened").copy(self.offset, into),
        };
        black_box(into);
        if done as u64 == size {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("a call of {size} bytes yielded {done}")))
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.offset = offset;
        if self.call == Call::Read {
            self.file.seek(SeekFrom::Start(offset))?;
        }
        Ok(())
    }
}

/// Positions within a page, equally frequent in the long run: steps of the golden ratio.
#[derive(Debug)]
struct Offsets {
    state: u64,
    /// Bits that an offset may have set.
    mask: u64,
}

impl Offsets {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (self.state >> 52) & self.mask
    }

    /// Picks one of the pages at which the buffer may begin.
    fn another_page(&mut self) -> usize {
        self.next();
        usize::try_from(self.below(SPARE_PAGES as u64 + 1)).expect("a small number")
    }

    /// A number below `n`, from the bits that the position does not use.
    fn below(&self, n: u64) -> u64 {
        let middle = u128::from(self.state << 12);
        ((middle * u128::from(n)) >> 64) as u64
    }
}

/// Multiples of the greatest power of two in `size`, within a page.
fn places_mask(size: u64) -> u64 {
    let page = ALIGNMENT as u64;
    (page - 1) & !((1 << size.trailing_zeros().min(page.trailing_zeros())) - 1)
}

/// A buffer that starts on a page boundary, at one of several pages of a block of memory.
#[derive(Debug)]
struct Buffer {
    memory: *mut u8,
    layout: Layout,
    /// Offset of the buffer in the memory.
    begins: usize,
}

impl Buffer {
    fn of(bytes: usize) -> Self {
        assert!(bytes > 0, "a layout without bytes is not allocated");
        let room = bytes.checked_add(SPARE_PAGES * ALIGNMENT);
        let layout = room.and_then(|room| Layout::from_size_align(room, ALIGNMENT).ok());
        let layout = layout.expect("a buffer is smaller than memory");
        // SAFETY: the layout has a nonzero size.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        // A page is mapped only after a write to it.
        // SAFETY: this many bytes were allocated just above.
        unsafe { ptr::write_bytes(memory, 1, layout.size()) };
        Self { memory, layout, begins: 0 }
    }

    fn bytes(&self) -> usize {
        self.layout.size() - SPARE_PAGES * ALIGNMENT
    }

    fn move_to_page(&mut self, page: usize) {
        assert!(page <= SPARE_PAGES, "a page of the spare ones, or the one behind them");
        self.begins = page * ALIGNMENT;
    }

    fn first(&mut self, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.bytes(), "the buffer holds it");
        // SAFETY: the memory holds the spare pages and the buffer's bytes behind any position of `begins`; it
        // was initialized at its allocation, and is borrowed through `self` only.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(self.begins), bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory, self.layout) }
    }
}

/// A read-only mapping of a file.
#[derive(Debug)]
struct Map {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Map {
    fn of(file: &File, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address that the kernel chooses; the result is checked.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start, bytes })
    }

    fn copy(&self, offset: u64, into: &mut [u8]) -> usize {
        let offset = usize::try_from(offset).expect("an offset within the mapping");
        assert!(into.len() <= self.bytes - offset, "a copy ends within the mapping");
        // SAFETY: both ranges are valid for the length, and a mapping never overlaps a buffer of ours. The
        // file has no name by which others could truncate it.
        unsafe {
            ptr::copy_nonoverlapping(self.start.cast::<u8>().add(offset), into.as_mut_ptr(), into.len());
        };
        into.len()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and unmapped once. A failure has no remedy.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file
    }

    #[test]
    fn every_call_reads_every_size() {
        let file = file(1 << 16);
        for call in [Call::Read, Call::Pread, Call::Mmap] {
            let mut reader = Reader::open(&file, call, 1 << 16, 5_000).unwrap();
            for size in [1, 511, 4_096, 4_097, 5_000] {
                let point = reader.point(size, Duration::from_micros(100)).unwrap();
                assert!(point.call_ns > 0.0 && point.calls >= 8, "{call:?} {size}: {point:?}");
                assert!(reader.buffer.first(5_000)[..usize::try_from(size).unwrap()].iter().all(|b| *b == 7));
            }
        }
    }

    #[test]
    fn the_places_of_a_size_are_the_multiples_of_its_divisor_each_met_alike() {
        for (size, step) in [(1, 1), (4_095, 1), (512, 512), (6_144, 2_048), (4_096, 4_096), (12_288, 4_096)]
        {
            let mut place = Offsets { state: 0, mask: places_mask(size) };
            let mut met = std::collections::BTreeMap::new();
            for _ in 0..8 * 4_096 / step {
                *met.entry(place.next()).or_insert(0_u32) += 1;
            }
            let wanted: Vec<u64> = (0..4_096 / step).map(|k| k * step).collect();
            assert_eq!(met.keys().copied().collect::<Vec<_>>(), wanted, "{size}");
            assert!(met.values().all(|n| (6..=10).contains(n)), "{size}: {met:?}");
        }
    }

    #[test]
    fn points_have_their_buffer_at_other_pages() {
        let file = file(1 << 16);
        let mut reader = Reader::open(&file, Call::Pread, 1 << 16, 5_000).unwrap();
        let mut begins = std::collections::BTreeSet::new();
        for _ in 0..64 {
            reader.point(5_000, Duration::from_nanos(1)).unwrap();
            begins.insert(reader.buffer.begins);
            assert!(reader.buffer.first(5_000).iter().all(|b| *b == 7));
        }
        assert!(begins.iter().all(|b| b % ALIGNMENT == 0 && *b <= SPARE_PAGES * ALIGNMENT), "{begins:?}");
        assert!(begins.len() > 20, "{begins:?}");
    }

    #[test]
    fn every_size_reads_the_whole_file() {
        let bytes = 1_u64 << 16;
        let file = file(1 << 16);
        for size in [3_000, 20_000, 30_000, 40_000, 65_536] {
            let mut reader = Reader::open(&file, Call::Pread, bytes, size).unwrap();
            reader.place.mask = places_mask(size);
            let mut read = vec![false; 1 << 16];
            for _ in 0..2_000 {
                reader.batch(size, 1).unwrap();
                let end = usize::try_from(reader.offset).unwrap();
                read[end - usize::try_from(size).unwrap()..end].fill(true);
            }
            let share = read.iter().filter(|r| **r).count() as f64 / bytes as f64;
            assert!(share > 0.97, "{size}: {share}");
        }
    }

    #[test]
    fn past_the_page_cache_it_reads_or_says_that_it_cannot() {
        let file = file(1 << 16);
        match Reader::open(&file, Call::Direct, 1 << 16, 8_192) {
            Ok(mut reader) => assert!(reader.point(512, Duration::from_micros(50)).unwrap().call_ns > 0.0),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EINVAL)),
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error_and_no_endless_loop() {
        let file = file(1_000);
        assert!(Reader::open(&file, Call::Pread, 4_096, 4_096).is_err());
    }
}
