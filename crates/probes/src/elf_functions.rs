//! Functions of a file that another user can change: its symbol tables, parsed as untrusted input.
//!
//! `blazesym` maps a file into memory, follows its links to debug information, and unpacks what it finds
//! there. The owner of a file can cut it off meanwhile (SIGBUS), let a link lead to a pipe that is never
//! written (a wait without end), and announce any size. So the files of others are read here: by calls that
//! return, up to a limit, without debug information.
//!
//! # Source
//!
//! elf(5)

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Maximum number of sections; larger programs have some dozens.
const SECTIONS_MAX: u64 = 1 << 16;
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const SECTION_HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHF_COMPRESSED: u64 = 1 << 11;
/// Longer names are ignored: in a table without ends, each lookup would otherwise read all of it.
const NAME_BYTES_MAX: usize = 16 << 10;
/// Kinds of symbols: function, and function by choice at run time.
const CODE: [u8; 2] = [2, 10];

/// The functions of one file.
#[derive(Debug)]
pub(crate) struct Functions {
    loads: Vec<Load>,
    /// The table for static linking first, then the one for dynamic linking.
    tables: Vec<Table>,
    /// Memory of the tables.
    pub(crate) bytes: u64,
}

/// A mapped part of the file.
#[derive(Debug)]
struct Load {
    offset: u64,
    bytes: u64,
    address: u64,
}

#[derive(Debug)]
struct Table {
    /// Sorted by address.
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Symbol {
    address: u64,
    bytes: u64,
    name: u32,
}

impl Functions {
    /// Reads the tables; `None`: not an ELF file, damaged, or larger than `bytes_max` in memory.
    pub(crate) fn read(file: &File, bytes_max: u64) -> Option<Self> {
        let mut left = bytes_max;
        let mut part = |offset: u64, bytes: u64| -> Option<Vec<u8>> {
            left = left.checked_sub(bytes)?;
            let mut part = vec![0; usize::try_from(bytes).ok()?];
            file.read_exact_at(&mut part, offset).ok()?;
            Some(part)
        };
        let header = part(0, HEADER_BYTES as u64)?;
        // 64 bits, little-endian.
        if header[..6] != *b"\x7fELF\x02\x01" {
            return None;
        }
        let programs = u64::from(u16_at(&header, 56)?);
        let programs = part(u64_at(&header, 32)?, programs * PROGRAM_HEADER_BYTES as u64)?;
        let loads = programs.chunks_exact(PROGRAM_HEADER_BYTES).filter_map(Load::read).collect();
        let sections = u64::from(u16_at(&header, 60)?);
        let sections = part(u64_at(&header, 40)?, sections.min(SECTIONS_MAX) * SECTION_HEADER_BYTES as u64)?;
        let sections: Vec<&[u8]> = sections.chunks_exact(SECTION_HEADER_BYTES).collect();
        let mut tables = Vec::new();
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            let Some(section) = sections.iter().find(|section| u32_at(section, 4) == Some(kind)) else {
                continue;
            };
            let names = sections.get(u32_at(section, 40)? as usize)?;
            if (u64_at(section, 8)? | u64_at(names, 8)?) & SHF_COMPRESSED != 0 {
                continue;
            }
            let symbols = part(u64_at(section, 24)?, u64_at(section, 32)?)?;
            let names = part(u64_at(names, 24)?, u64_at(names, 32)?)?;
            let mut symbols: Vec<Symbol> =
                symbols.chunks_exact(SYMBOL_BYTES).filter_map(Symbol::read).collect();
            // Of two at one address, the lookup finds the longer one.
            symbols.sort_by_key(|symbol| (symbol.address, symbol.bytes));
            tables.push(Table { symbols, names });
        }
        Some(Self { loads, tables, bytes: bytes_max - left })
    }

    /// Name of the function at an offset in the file.
    pub(crate) fn at(&self, offset: u64) -> Option<&str> {
        let load =
            self.loads.iter().find(|load| (load.offset..load.offset + load.bytes).contains(&offset))?;
        let address = load.address + (offset - load.offset);
        self.tables.iter().find_map(|table| table.at(address))
    }
}

impl Load {
    /// `None`: not mapped, or at an impossible address.
    fn read(header: &[u8]) -> Option<Self> {
        let load =
            Self { offset: u64_at(header, 8)?, address: u64_at(header, 16)?, bytes: u64_at(header, 32)? };
        load.offset.checked_add(load.bytes)?;
        load.address.checked_add(load.bytes)?;
        (u32_at(header, 0)? == PT_LOAD).then_some(load)
    }
}

impl Symbol {
    /// `None`: not code, or defined elsewhere.
    fn read(entry: &[u8]) -> Option<Self> {
        let is_here = u16_at(entry, 6)? != 0;
        let symbol = Self { name: u32_at(entry, 0)?, address: u64_at(entry, 8)?, bytes: u64_at(entry, 16)? };
        (is_here && CODE.contains(&(entry[4] & 0xf))).then_some(symbol)
    }

    /// A symbol of unknown length reaches up to the next.
    fn holds(&self, address: u64) -> bool {
        self.bytes == 0 || address - self.address < self.bytes
    }
}

impl Table {
    fn at(&self, address: u64) -> Option<&str> {
        /// Symbols that begin at the same address, or lie inside of a longer one.
        const BEFORE_MAX: usize = 16;
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let before = self.symbols[..after].iter().rev().take(BEFORE_MAX);
        before.filter(|symbol| symbol.holds(address)).find_map(|symbol| self.name(symbol.name))
    }

    fn name(&self, at: u32) -> Option<&str> {
        let name = self.names.get(at as usize..)?;
        let end = name.iter().take(NAME_BYTES_MAX).position(|byte| *byte == 0)?;
        std::str::from_utf8(&name[..end]).ok().filter(|name| !name.is_empty())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: u64 = 1 << 30;

    /// Our own program, truncated to its first `bytes`.
    fn own(bytes: Option<u64>) -> File {
        let mut copy = tempfile::tempfile().unwrap();
        std::io::copy(&mut File::open("/proc/self/exe").unwrap(), &mut copy).unwrap();
        if let Some(bytes) = bytes {
            copy.set_len(bytes).unwrap();
        }
        copy
    }

    /// Offset in the file of a function of ours.
    fn place(address: u64) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut places = maps.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (from, until) = words.next()?.split_once('-')?;
            let offset = words.nth(1)?;
            let hex = |text| u64::from_str_radix(text, 16).unwrap();
            (hex(from)..hex(until)).contains(&address).then(|| address - hex(from) + hex(offset))
        });
        places.next_back().unwrap()
    }

    #[test]
    fn a_function_of_a_program_has_the_name_that_its_table_gives() {
        let functions = Functions::read(&own(None), ENOUGH).unwrap();
        let name = functions.at(place(place as *const () as u64 + 1)).unwrap();
        assert!(name.contains("elf_functions") && name.contains("place"), "{name}");
        assert_eq!(functions.at(u64::MAX), None);
        assert_eq!(functions.at(0), None, "no function is at the head of a file");
    }

    #[test]
    fn a_file_that_announces_too_much_or_is_cut_off_has_no_functions() {
        let whole = own(None).metadata().unwrap().len();
        assert!(Functions::read(&own(None), 1 << 10).is_none());
        for bytes in [0, 1, 63, 64, 1_000, whole / 2, whole - 1] {
            assert!(Functions::read(&own(Some(bytes)), ENOUGH).is_none(), "{bytes}");
        }
    }

    #[test]
    fn a_name_without_an_end_is_not_looked_for_through_the_whole_table() {
        let symbols = vec![Symbol { address: 0, bytes: 8, name: 0 }];
        let named = |length: usize| {
            let mut names = vec![b'a'; length];
            names.push(0);
            Table { symbols: symbols.clone(), names }.at(4).map(str::len)
        };
        assert_eq!(named(NAME_BYTES_MAX - 1), Some(NAME_BYTES_MAX - 1));
        assert_eq!(named(NAME_BYTES_MAX), None);
    }

    #[test]
    fn no_damage_of_a_head_or_a_table_ends_the_reader() {
        let mut random = 1_u64;
        let mut draw = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        let file = own(None);
        let header = {
            let mut header = [0; HEADER_BYTES];
            file.read_exact_at(&mut header, 0).unwrap();
            header
        };
        let sections = u64_at(&header, 40).unwrap();
        for round in 0..400_u64 {
            let (from, bytes) = [(0, 64), (64, 700), (sections, 2_500)][(round % 3) as usize];
            let at = from + draw() % bytes;
            let mut before = [0; 8];
            file.read_exact_at(&mut before, at).unwrap();
            let value = [0, u64::MAX, draw(), 1 << 63, draw() << 31][(round % 5) as usize];
            file.write_all_at(&value.to_le_bytes(), at).unwrap();
            if let Some(functions) = Functions::read(&file, 64 << 20) {
                for place in [0, 64, 4_096, 1 << 20, draw(), u64::MAX] {
                    let _ = functions.at(place);
                }
            }
            file.write_all_at(&before, at).unwrap();
        }
    }
}
