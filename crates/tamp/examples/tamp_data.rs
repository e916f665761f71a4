//! Data as databases have it, the same bytes on every machine: `tamp_data KIND MEBIBYTES > file`.
//!
//! - `app`: 16 KiB pages of wide order rows, a quarter of them index pages, each partly empty; LZ alone
//!   takes about 67 % off, as it took off the application database of the first tamp's measurements.
//! - `ibd`: `InnoDB` leaf pages of sysbench rows; checked against a real sysbench table, which lz4 and
//!   zstd reduce to within 3 and 1.2 points of this one.
//! - `sql`, `csv`: an export of orders. `hi`: web server log. `rand`: noise. `zero`: zeros.

use std::io::{self, BufWriter, Write};

const PAGE_BYTES: usize = 16384;

const FIRST: [&str; 32] = [
    "James",
    "Mary",
    "Robert",
    "Patricia",
    "John",
    "Jennifer",
    "Michael",
    "Linda",
    "David",
    "Elizabeth",
    "William",
    "Barbara",
    "Richard",
    "Susan",
    "Joseph",
    "Jessica",
    "Thomas",
    "Sarah",
    "Charles",
    "Karen",
    "Chidi",
    "Aoife",
    "Yuki",
    "Mohamed",
    "Svetlana",
    "Lucia",
    "Mateo",
    "Ingrid",
    "Wei",
    "Fatima",
    "Olu",
    "Anika",
];
const LAST: [&str; 36] = [
    "Smith",
    "Johnson",
    "Williams",
    "Brown",
    "Jones",
    "Garcia",
    "Miller",
    "Davis",
    "Rodriguez",
    "Martinez",
    "Hernandez",
    "Lopez",
    "Gonzalez",
    "Wilson",
    "Anderson",
    "Thomas",
    "Taylor",
    "Moore",
    "Jackson",
    "Martin",
    "Lee",
    "Perez",
    "Thompson",
    "White",
    "Harris",
    "Sanchez",
    "Clark",
    "Ramirez",
    "Lewis",
    "Robinson",
    "Walker",
    "Okafor",
    "Murphy",
    "Tanaka",
    "Ivanova",
    "Kowalski",
];
const CITY: [&str; 20] = [
    "Dublin",
    "Cork",
    "Galway",
    "London",
    "Paris",
    "Berlin",
    "Madrid",
    "Rome",
    "Lisbon",
    "Vienna",
    "Prague",
    "Warsaw",
    "Oslo",
    "Stockholm",
    "Helsinki",
    "Copenhagen",
    "Amsterdam",
    "Brussels",
    "Zurich",
    "Athens",
];
const STATUS: [&str; 6] = ["NEW", "PAID", "SHIPPED", "DELIVERED", "RETURNED", "CANCELLED"];
const ITEM: [&str; 15] = [
    "widget", "gadget", "bracket", "flange", "gasket", "bearing", "spindle", "coupling", "valve", "manifold",
    "sprocket", "rivet", "washer", "bushing", "piston",
];

/// Splitmix64, the only source of randomness.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform below `end`.
    fn below(&mut self, end: u64) -> u64 {
        u64::try_from((u128::from(self.roll()) * u128::from(end)) >> 64).expect("below end")
    }

    /// Returns a number below `end`, small ones more often: close to sysbench's special distribution.
    fn skewed(&mut self, end: u64) -> u64 {
        let uniform = self.below(1 << 20);
        ((uniform * uniform / (1 << 20)) * end) >> 20
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words[at(self.skewed(words.len() as u64))]
    }
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// The lowest N bytes of a number, big-endian.
fn low<const N: usize>(number: u64) -> [u8; N] {
    number.to_be_bytes()[8 - N..].try_into().expect("N bytes")
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (kind, mebibytes) =
        (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse().ok()));
    let mebibytes: usize = mebibytes.ok_or_else(|| io::Error::other("usage: tamp_data KIND MEBIBYTES"))?;
    let total = mebibytes << 20;
    let (mut dice, mut out) = (Dice(1), BufWriter::with_capacity(1 << 20, io::stdout().lock()));
    match kind.as_str() {
        "app" => app(&mut dice, total, &mut out)?,
        "ibd" => ibd(&mut dice, total, &mut out)?,
        "sql" | "csv" => export(&mut dice, total, kind == "sql", &mut out)?,
        "hi" => log(&mut dice, total, &mut out)?,
        "rand" => pieces(total, &mut out, |piece| {
            (0..131_072).for_each(|_| piece.extend(dice.roll().to_le_bytes()));
        })?,
        "zero" => pieces(total, &mut out, |piece| piece.resize(1 << 20, 0))?,
        _ => return Err(io::Error::other("KIND is app, ibd, sql, csv, hi, rand or zero")),
    }
    out.flush()
}

/// Writes the output of `make` until `total` bytes are written.
fn pieces(total: usize, out: &mut impl Write, mut make: impl FnMut(&mut Vec<u8>)) -> io::Result<()> {
    let (mut done, mut piece) = (0, Vec::new());
    while done < total {
        piece.clear();
        make(&mut piece);
        let bytes = piece.len().min(total - done);
        out.write_all(&piece[..bytes])?;
        done += bytes;
    }
    Ok(())
}

/// Header fields of both kinds of page.
fn new_page(number: u32, log_sequence: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    page[4..8].copy_from_slice(&number.to_be_bytes());
    page[8..12].copy_from_slice(&(number - 1).to_be_bytes());
    page[12..16].copy_from_slice(&(number + 1).to_be_bytes());
    page[16..24].copy_from_slice(&log_sequence.to_be_bytes());
    page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
    page[94..107].copy_from_slice(b"\x01\x00\x02\x00\x1dinfimum\x00");
    page[107..120].copy_from_slice(b"\x04\x00\x0b\x00\x00supremum");
    page
}

/// Directory, checksum and trailer.
fn close_page(page: &mut [u8], directory: &[u16], checksum: u64, log_sequence: u64) {
    for (slot, entry) in directory.iter().enumerate() {
        let from = PAGE_BYTES - 8 - 2 * (slot + 1);
        page[from..from + 2].copy_from_slice(&entry.to_be_bytes());
    }
    let checksum: [u8; 4] = low(checksum);
    page[0..4].copy_from_slice(&checksum);
    page[PAGE_BYTES - 8..PAGE_BYTES - 4].copy_from_slice(&checksum);
    page[PAGE_BYTES - 4..].copy_from_slice(&low::<4>(log_sequence));
}

/// Groups of eleven digits, as in sysbench's `c` and `pad` columns.
fn digit_groups(dice: &mut Dice, groups: usize, out: &mut Vec<u8>) {
    for group in 0..groups {
        if group > 0 {
            out.push(b'-');
        }
        out.extend_from_slice(format!("{:011}", dice.below(100_000_000_000)).as_bytes());
    }
}

fn ibd(dice: &mut Dice, total: usize, out: &mut impl Write) -> io::Result<()> {
    let (mut id, mut log_sequence, mut number) = (1_u32, 0x1234_5678_u64, 4_u32);
    for _ in 0..total / PAGE_BYTES {
        let mut page = new_page(number, log_sequence);
        page[34..38].copy_from_slice(&5_u32.to_be_bytes());
        let (mut end, mut rows, mut directory) = (120, 0_u16, vec![99_u16]);
        // About one page in twelve is partly empty, as after splits and deletes.
        let limit = if dice.below(12) == 0 {
            PAGE_BYTES / 2 + at(dice.below(PAGE_BYTES as u64 / 3))
        } else {
            PAGE_BYTES * 15 / 16
        };
        let transaction = 0x0512 + u64::from(id) / 2700;
        while end + 250 < limit {
            let mut row = vec![60, 120, 0, 0];
            row.extend_from_slice(&((rows + 2) << 3).to_be_bytes());
            row.extend_from_slice(&0xda_u16.to_be_bytes());
            row.extend_from_slice(&(id | 0x8000_0000).to_be_bytes());
            row.extend_from_slice(&low::<6>(transaction));
            row.extend_from_slice(&low::<7>(
                0x0082_0000_0000_0000 + u64::from(number) * 0x10000 + end as u64,
            ));
            row.extend_from_slice(&low::<4>(dice.skewed(1_000_000) | 0x8000_0000));
            digit_groups(dice, 10, &mut row);
            row.push(b' ');
            digit_groups(dice, 5, &mut row);
            row.push(b' ');
            page[end..end + row.len()].copy_from_slice(&row);
            if rows % 4 == 3 {
                directory.push(u16::try_from(end).expect("in a page") + 8);
            }
            end += row.len();
            rows += 1;
            id += 1;
        }
        let slots = u16::try_from(directory.len()).expect("in a page") + 1;
        page[38..40].copy_from_slice(&slots.to_be_bytes());
        page[40..42].copy_from_slice(&u16::try_from(end).expect("in a page").to_be_bytes());
        page[42..44].copy_from_slice(&(0x8000 | (rows + 2)).to_be_bytes());
        page[54..56].copy_from_slice(&rows.to_be_bytes());
        close_page(&mut page, &directory, dice.roll(), log_sequence);
        log_sequence += 9000 + dice.below(9000);
        number += 1;
        out.write_all(&page)?;
    }
    Ok(())
}

fn app(dice: &mut Dice, total: usize, out: &mut impl Write) -> io::Result<()> {
    let (mut id, mut log_sequence, mut row) = (1_u64, 0x7_1234_5678_u64, Vec::new());
    for number in (4_u32..).take(total / PAGE_BYTES) {
        let mut page = new_page(number, log_sequence);
        let limit = PAGE_BYTES * at(55 + dice.below(36)) / 100;
        let is_index = dice.below(4) == 0;
        let (mut end, mut rows, mut directory) = (120, 0_u16, vec![99_u16]);
        let base = dice.below(1 << 30);
        loop {
            row.clear();
            if is_index {
                row.extend_from_slice(&[0, 0, 0, low::<1>(u64::from(rows) + 2)[0], 0x0e, 0x80]);
                row.extend_from_slice(&low::<4>(base + u64::from(rows) * 3 + dice.below(3)));
                row.extend_from_slice(&low::<4>(dice.below(1 << 24) | 0x8000_0000));
            } else {
                order(dice, id, number, rows, &mut row)?;
                id += 1;
            }
            if end + row.len() > limit {
                break;
            }
            page[end..end + row.len()].copy_from_slice(&row);
            if rows % 4 == 3 {
                directory.push(u16::try_from(end).expect("in a page") + 8);
            }
            end += row.len();
            rows += 1;
        }
        page[40..42].copy_from_slice(&u16::try_from(end).expect("in a page").to_be_bytes());
        page[54..56].copy_from_slice(&rows.to_be_bytes());
        close_page(&mut page, &directory, dice.roll(), log_sequence);
        log_sequence += 9000 + dice.below(9000);
        out.write_all(&page)?;
    }
    Ok(())
}

/// One order in a compact binary form.
fn order(dice: &mut Dice, id: u64, page: u32, rows: u16, row: &mut Vec<u8>) -> io::Result<()> {
    let customer = dice.skewed(900_000);
    let (first, last) = (FIRST[at(dice.skewed(32))], LAST[at(dice.skewed(36))]);
    let time = 1_600_000_000 + id * 7 + dice.below(7);
    let heap = low::<1>(u64::from(rows) + 2)[0];
    let sizes = (low::<1>(last.len() as u64)[0], low::<1>(first.len() as u64)[0]);
    row.extend_from_slice(&[0, 0, 0, sizes.0, sizes.1, 0, heap, 0, 0xda]);
    row.extend_from_slice(&(id | 1 << 63).to_be_bytes());
    let [_, _, page_high, page_low] = page.to_be_bytes();
    let row_low = low::<1>(u64::from(rows))[0];
    row.extend_from_slice(&[
        0,
        0,
        0,
        5,
        low::<1>(id >> 12)[0],
        0x11,
        0x82,
        0,
        0,
        1,
        page_high,
        page_low,
        row_low,
    ]);
    row.extend_from_slice(&low::<4>(customer | 0x8000_0000));
    write!(row, "{first} {last}")?;
    if dice.below(3) > 0 {
        write!(row, "{}.{}@example.com", first.to_lowercase(), last.to_lowercase())?;
    }
    row.extend_from_slice(&low::<6>(0x99A0_0000_0000 + time * 3));
    let (quantity, shop, cents) = (1 + dice.skewed(9), dice.skewed(20), dice.below(100));
    row.extend_from_slice(&[
        0x80,
        0,
        0,
        low::<1>(quantity)[0],
        0x80,
        0,
        low::<1>(shop)[0],
        low::<1>(cents)[0],
    ]);
    write!(row, "{:<20}{:<12}{:<10}", dice.pick(&CITY), dice.pick(&ITEM), dice.pick(&STATUS))?;
    if dice.below(5) == 0 {
        write!(row, "Leave with neighbour at number {}, ring bell twice.", 1 + dice.skewed(99))?;
    }
    Ok(())
}

fn export(dice: &mut Dice, total: usize, is_sql: bool, out: &mut impl Write) -> io::Result<()> {
    const INSERT: &[u8] = b"INSERT INTO `orders` (`id`,`name`,`email`,`customer_id`,`city`,`item`,`qty`,`price`,`status`,`created_at`,`token`,`gift`) VALUES ";
    let mut id = 1;
    pieces(total, out, |piece| {
        if is_sql {
            piece.extend_from_slice(INSERT);
        }
        for number in 0..4000 {
            if is_sql && number > 0 {
                piece.push(b',');
            }
            export_row(dice, id, is_sql, piece).expect("memory takes all");
            if !is_sql {
                piece.push(b'\n');
            }
            id += 1;
        }
        if is_sql {
            piece.extend_from_slice(b";\n");
        }
    })
}

fn export_row(dice: &mut Dice, id: u64, is_sql: bool, out: &mut Vec<u8>) -> io::Result<()> {
    let (first, last) = (dice.pick(&FIRST), dice.pick(&LAST));
    let time = 1_600_000_000 + id * 7 + dice.below(7);
    let (quote, open, close) = if is_sql { ("'", "(", ")") } else { ("", "", "") };
    let number = dice.skewed(10000);
    let domain = ["com", "org", "net"][at(dice.below(3))];
    let customer = 100_000 + dice.skewed(900_000);
    let city = CITY[at(dice.skewed(20))];
    let (item, kind) = (ITEM[at(dice.skewed(15))], dice.skewed(60));
    let (quantity, price, cents) = (1 + dice.skewed(9), 5 + dice.skewed(995), dice.below(100));
    let status = dice.pick(&STATUS);
    let (date, second) = (civil_date(time / 86400), time % 86400);
    let token = dice.roll();
    let gift = if dice.below(4) == 0 {
        if is_sql { "NULL" } else { "\\N" }
    } else if dice.below(2) == 0 {
        "0"
    } else {
        "1"
    };
    write!(out, "{open}{id},{quote}{first} {last}{quote},")?;
    write!(out, "{quote}{}.{}{number}@example.{domain}{quote},", first.to_lowercase(), last.to_lowercase())?;
    write!(
        out,
        "{customer},{quote}{city}{quote},{quote}{item}-{kind:02}{quote},{quantity},{price}.{cents:02},"
    )?;
    write!(out, "{quote}{status}{quote},{quote}{date} ")?;
    write!(out, "{:02}:{:02}:{:02}{quote},", second / 3600, second / 60 % 60, second % 60)?;
    write!(out, "{quote}{token:016x}{quote},{gift}{close}")
}

/// Year, month and day, by Howard Hinnant's `civil_from_days`.
fn civil_date(days: u64) -> String {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

fn log(dice: &mut Dice, total: usize, out: &mut impl Write) -> io::Result<()> {
    let mut id = 1;
    pieces(total, out, |piece| {
        for _ in 0..4000 {
            id += 1;
            let (time, bytes, server) = (1_700_000_000 + id / 50, 4096 + 64 * dice.skewed(4), dice.skewed(8));
            writeln!(
                piece,
                "{time} GET /static/app.js HTTP/1.1 200 {bytes} \"Mozilla/5.0 (X11; Linux x86_64) \
                 AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\" \
                 upstream=10.0.0.{server} cache=HIT"
            )
            .expect("memory takes all");
        }
    })
}
