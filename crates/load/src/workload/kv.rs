//! The key-value workload: the key and the operation of each event, and the check of each value.
//!
//! The content of a value is derived from its key, its version and the seed, and its length from its key
//! alone. So a value that was read can be verified by itself: a value of another key, a mix of two versions,
//! or a value of another writer is detected.

use record::requests::{KvSettings, SizeClass};

use crate::schedule::random::Random;
use crate::workload::rows::RowPicker;

/// Values are slices of this many random bytes.
const POOL_BYTES: usize = 1 << 20;
/// Shortest length of a value that begins with its version.
const VERSIONED_BYTES: usize = 16;
const VERSION_BYTES: usize = 8;
/// Separate the random streams of sizes and of contents from all others.
const SIZE_SALT: u64 = 0x6b76_2073_697a_6573;
const POOL_SALT: u64 = 0x6b76_2070_6f6f_6c00;
const BODY_SALT: u64 = 0x6b76_2062_6f64_7900;

/// Length of every key.
pub(crate) const KEY_BYTES: usize = 18;

/// Indices of the operations, as announced by drivers.
pub(crate) const GET: usize = 0;
pub(crate) const SET: usize = 1;
/// Outcomes of a get and of a set.
pub(crate) const OUTCOMES: [&str; 3] = ["hit", "miss", "stored"];
pub(crate) const HIT: usize = 0;
pub(crate) const MISS: usize = 1;
pub(crate) const STORED: usize = 2;

/// State that all connections of a load share.
#[derive(Debug)]
pub(crate) struct Kv {
    pub(crate) settings: KvSettings,
    picker: RowPicker,
    seed: u64,
    weights: f64,
    pool: Box<[u8]>,
    pub(crate) verify: bool,
}

/// The operation of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get {
        key: u64,
    },
    /// Reads [`KvSettings::multi_get`] keys.
    GetMany,
    Set {
        key: u64,
        version: u64,
    },
}

impl Kv {
    pub(crate) fn new(settings: &KvSettings, seed: u64, verify: bool) -> Self {
        let bytes_max = settings.sizes.iter().map(|c| c.bytes_max as usize).max().unwrap_or(0);
        let mut pool = Vec::with_capacity(POOL_BYTES + bytes_max + 8);
        let mut random = Random::of(seed, POOL_SALT);
        while pool.len() < POOL_BYTES + bytes_max {
            pool.extend_from_slice(&random.bits().to_le_bytes());
        }
        Self {
            picker: RowPicker::new(settings.distribution, settings.keys),
            seed,
            weights: settings.sizes.iter().map(|c| c.weight).sum(),
            settings: settings.clone(),
            pool: pool.into_boxed_slice(),
            verify,
        }
    }

    /// Draws the operation of an event.
    pub(crate) fn deed(&self, random: &mut Random) -> Operation {
        let is_get = random.unit() < self.settings.get_ratio;
        if is_get && self.settings.multi_get > 1 {
            return Operation::GetMany;
        }
        let key = self.pick(random);
        if is_get { Operation::Get { key } } else { Operation::Set { key, version: random.bits() } }
    }

    /// Draws a key from the distribution.
    pub(crate) fn pick(&self, random: &mut Random) -> u64 {
        self.picker.pick(random)
    }

    /// Time to live of a value in seconds; 0: unlimited.
    pub(crate) fn ttl_s(&self) -> u64 {
        self.settings.ttl.map_or(0, |ttl| ttl.as_secs())
    }

    /// Size class and length of a key's value.
    pub(crate) fn size_of(&self, key: u64) -> (usize, usize) {
        let mut random = Random::of(self.seed ^ SIZE_SALT, key);
        let mut left = random.unit() * self.weights;
        let mut classes = self.settings.sizes.iter().enumerate();
        let class = classes.find(|(_, class)| {
            left -= class.weight;
            left < 0.0
        });
        // Rounding may leave the upper edge of the last class open.
        let last = self.settings.sizes.len() - 1;
        let (number, class) = class.unwrap_or((last, &self.settings.sizes[last]));
        let SizeClass { bytes_min, bytes_max, .. } = *class;
        let bytes = u64::from(bytes_min) + random.below(u64::from(bytes_max - bytes_min) + 1);
        (number, usize::try_from(bytes).expect("a length of 32 bits"))
    }

    /// Length of a key's value, for every version.
    pub(crate) fn bytes_of(&self, key: u64) -> usize {
        self.size_of(key).1
    }

    /// Writes the value of a key.
    pub(crate) fn write_value(&self, key: u64, version: u64, out: &mut Vec<u8>) {
        let bytes = self.bytes_of(key);
        if bytes < VERSIONED_BYTES {
            out.extend_from_slice(&self.short_value(key)[..bytes]);
        } else {
            out.extend_from_slice(&version.to_le_bytes());
            out.extend_from_slice(self.body(key, version, bytes - VERSION_BYTES));
        }
    }

    /// Verifies a value that was read; the error describes the difference.
    pub(crate) fn check(&self, key: u64, value: &[u8]) -> Result<(), String> {
        if !self.verify {
            return Ok(());
        }
        let bytes = self.bytes_of(key);
        if value.len() != bytes {
            return Err(format!("the value of {} has {} bytes instead of {bytes}", Shown(key), value.len()));
        }
        let is_right = match value.split_first_chunk::<VERSION_BYTES>() {
            Some((version, body)) if bytes >= VERSIONED_BYTES => {
                self.body(key, u64::from_le_bytes(*version), body.len()) == body
            }
            _ => self.short_value(key)[..bytes] == *value,
        };
        if is_right {
            Ok(())
        } else {
            Err(format!("the value of {} was never written to that key", Shown(key)))
        }
    }

    /// Value that is too short for a version: every write stores the same.
    fn short_value(&self, key: u64) -> [u8; VERSIONED_BYTES] {
        let mut random = Random::of(self.seed ^ BODY_SALT, key);
        let mut value = [0; VERSIONED_BYTES];
        value[..8].copy_from_slice(&random.bits().to_le_bytes());
        value[8..].copy_from_slice(&random.bits().to_le_bytes());
        value
    }

    fn body(&self, key: u64, version: u64, bytes: usize) -> &[u8] {
        let place = Random::of(self.seed ^ BODY_SALT ^ version, key).below(POOL_BYTES as u64);
        let place = usize::try_from(place).expect("within the pool");
        &self.pool[place..place + bytes]
    }

    /// Description of the values in the cache: equal for two loads that can share them.
    pub(crate) fn spec(&self) -> String {
        let KvSettings { keys, .. } = self.settings;
        let lives = self.settings.ttl.map_or(String::new(), |ttl| format!(" ttl {ttl:?}"));
        format!("seed {} keys {keys} sizes {}{lives}", self.seed, self.settings.sizes_text())
    }
}

/// Writes a key.
pub(crate) fn write_key(key: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&key_bytes(key));
}

/// A key as sent to the server: of fixed length, with bakeoff's prefix. Hand-written for speed: every event
/// encodes one.
pub(crate) fn key_bytes(key: u64) -> [u8; KEY_BYTES] {
    let mut bytes = *b"bakeoff:0000000000";
    fill_digits(key, &mut bytes[8..]);
    bytes
}

/// Writes a number in decimal digits.
pub(crate) fn write_number(number: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let first = fill_digits(number as u64, &mut digits).min(digits.len() - 1);
    out.extend_from_slice(&digits[first..]);
}

/// Fills a buffer with the last digits of a number, from the end; returns the position of the first digit
/// that is not 0.
fn fill_digits(number: u64, room: &mut [u8]) -> usize {
    let (mut left, mut at) = (number, room.len());
    while left > 0 && at > 0 {
        at -= 1;
        room[at] = b'0' + u8::try_from(left % 10).expect("a digit");
        left /= 10;
    }
    at
}

/// Displays a key as sent to the server.
pub(crate) struct Shown(pub(crate) u64);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&key_bytes(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use record::load::Distribution;

    use super::*;

    fn kv() -> Kv {
        let settings = KvSettings {
            keys: 1_000,
            get_ratio: 0.9,
            sizes: KvSettings::parse_sizes("4-100:6,1024-2048:3,5120-20480:1").unwrap(),
            distribution: Distribution::Uniform,
            pipeline: 1,
            multi_get: 1,
            ttl: None,
            commands: Vec::new(),
        };
        Kv::new(&settings, 7, true)
    }

    fn value(kv: &Kv, key: u64, version: u64) -> Vec<u8> {
        let mut out = Vec::new();
        kv.write_value(key, version, &mut out);
        out
    }

    #[test]
    fn a_value_that_is_wrong_torn_or_foreign_is_found() {
        let kv = kv();
        for key in 1..=1_000 {
            let (one, other) = (value(&kv, key, 1), value(&kv, key, 2));
            assert_eq!((kv.check(key, &one), kv.check(key, &other)), (Ok(()), Ok(())));
            let mut flipped = one.clone();
            *flipped.last_mut().unwrap() ^= 1;
            assert!(kv.check(key, &flipped).is_err(), "one bit of {key}");
            assert!(kv.check(key, &one[1..]).is_err(), "{key} cut short");
            let foreign = value(&kv, key % 1_000 + 1, 1);
            assert!(kv.check(key, &foreign).is_err(), "another key's value in {key}");
            if one.len() >= VERSIONED_BYTES + 4 {
                let half = one.len() / 2;
                let torn = [&one[..half], &other[half..]].concat();
                assert!(kv.check(key, &torn).is_err(), "two versions in {key}");
            }
        }
    }

    #[test]
    fn the_sizes_come_in_the_weights_asked_for() {
        let kv = kv();
        let mut counts = [0.0f64; 3];
        for key in 1..=100_000 {
            let (class, bytes) = kv.size_of(key);
            counts[class] += 1.0;
            let c = kv.settings.sizes[class];
            assert!((c.bytes_min as usize..=c.bytes_max as usize).contains(&bytes));
        }
        for (count, share) in counts.iter().zip([0.6, 0.3, 0.1]) {
            // 100,000 draws: five standard deviations are below 0.008.
            assert!((count / 100_000.0 - share).abs() < 0.008, "{counts:?}");
        }
    }

    #[test]
    fn keys_and_numbers_are_written_as_the_standard_library_would() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, 4_294_967_295, 9_999_999_999u64] {
            let mut written = Vec::new();
            write_number(usize::try_from(number).unwrap(), &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), number.to_string());
            assert_eq!(Shown(number).to_string(), format!("bakeoff:{number:010}"));
        }
    }

    #[test]
    fn nine_of_ten_events_read() {
        let kv = kv();
        let gets =
            (0..100_000).filter(|n| matches!(kv.deed(&mut Random::of(1, *n)), Operation::Get { .. })).count();
        assert!((89_500..90_500).contains(&gets), "{gets}");
    }
}
