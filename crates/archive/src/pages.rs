//! Announced sizes of a Parquet file's pages, checked before a reader allocates that much memory.
//!
//! The Parquet reader trusts the header of a page: a file of a kilobyte can announce two gigabytes. So each
//! header is read here first. Headers are Thrift structures in the compact protocol.
//!
//! # Source
//!
//! `parquet.thrift` (`PageHeader`) of the Parquet format, and `thrift-compact-protocol.md` of Apache Thrift.

use parquet::file::metadata::ColumnChunkMetaData;

use crate::schema::Wrong;

/// Largest page, unpacked, in bytes. Ours have about 1 MiB.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// Largest footer, in bytes, and the share of a larger file that it may have. Ours have a kilobyte for each
/// group of rows.
const FOOTER_BYTES_MIN: u64 = 1 << 20;
const FOOTER_SHARE: u64 = 64;
/// Deepest structure within a page's header; the format needs three.
const DEPTH_MAX: u32 = 8;

/// Refuses a file with a footer larger than any of ours: its reader believes the lengths of its lists.
pub(crate) fn check_footer(file: &[u8]) -> Result<(), Wrong> {
    // The length of the footer, and a mark of 4 bytes.
    let Some((length, _)) = file.last_chunk::<8>().and_then(|end| end.split_first_chunk::<4>()) else {
        return Err(Wrong("it is too short".to_owned()));
    };
    let bytes = u64::from(u32::from_le_bytes(*length));
    let max = FOOTER_BYTES_MIN.max(file.len() as u64 / FOOTER_SHARE);
    if bytes > max {
        return Err(Wrong(format!("its footer states {bytes} bytes, limit {max}")));
    }
    Ok(())
}

/// Refuses columns with a page that is larger than any of ours, or that leads out of the file.
pub(crate) fn check(file: &[u8], columns: &[ColumnChunkMetaData]) -> Result<(), Wrong> {
    for column in columns {
        let start = match column.dictionary_page_offset() {
            Some(dictionary) => dictionary.min(column.data_page_offset()),
            None => column.data_page_offset(),
        };
        let bounds = usize::try_from(start).ok().zip(usize::try_from(column.compressed_size()).ok());
        let chunk = bounds.and_then(|(start, bytes)| file.get(start..start.checked_add(bytes)?));
        check_chunk(chunk.ok_or_else(|| Wrong("a column lies outside of the file".to_owned()))?)?;
    }
    Ok(())
}

fn check_chunk(mut chunk: &[u8]) -> Result<(), Wrong> {
    while !chunk.is_empty() {
        let mut head = CompactReader { rest: chunk };
        let page = head.page().ok_or_else(|| Wrong("a page header is unreadable".to_owned()))?;
        if page.unpacked_bytes > PAGE_BYTES_MAX {
            return Err(Wrong(format!(
                "a page header states {} bytes, limit {PAGE_BYTES_MAX}",
                page.unpacked_bytes
            )));
        }
        // Each value of a dictionary takes at least the 4 bytes of its length.
        if page.dictionary_values.is_some_and(|values| values > page.unpacked_bytes / 4) {
            return Err(Wrong("a dictionary states more values than fit in it".to_owned()));
        }
        if page.encoding.is_some_and(|encoding| !ENCODINGS.contains(&encoding)) {
            return Err(Wrong("a page has an encoding that bakeoff does not write".to_owned()));
        }
        let rest = usize::try_from(page.packed_bytes).ok().and_then(|bytes| head.rest.get(bytes..));
        chunk = rest.ok_or_else(|| Wrong("a page is longer than its column".to_owned()))?;
    }
    Ok(())
}

/// Types of fields.
const STOP: u8 = 0;
const I32: u8 = 5;
const STRUCTURE: u8 = 12;
/// Encodings of ours: plain, dictionary (two names), run lengths, differences. The reader of lengths of texts
/// believes their count.
const ENCODINGS: [i64; 5] = [0, 2, 3, 5, 8];

struct Page {
    unpacked_bytes: u64,
    packed_bytes: u64,
    /// Values of a dictionary.
    dictionary_values: Option<u64>,
    /// Encoding of a page of data.
    encoding: Option<i64>,
}

/// A reader of the compact protocol; its methods return `None` if the bytes do not follow it.
struct CompactReader<'a> {
    rest: &'a [u8],
}

impl CompactReader<'_> {
    fn page(&mut self) -> Option<Page> {
        let (mut unpacked_bytes, mut packed_bytes) = (None, None);
        let (mut dictionary_values, mut encoding) = (None, None);
        let mut id = 0;
        loop {
            match (self.field(&mut id)?, id) {
                (STOP, _) => break,
                (I32, 2) => unpacked_bytes = Some(self.whole()?),
                (I32, 3) => packed_bytes = Some(self.whole()?),
                (STRUCTURE, 5) => self.number_in_structure(2, &mut encoding)?,
                (STRUCTURE, 7) => self.number_in_structure(1, &mut dictionary_values)?,
                (STRUCTURE, 8) => self.number_in_structure(4, &mut encoding)?,
                (kind, _) => self.skip(kind, DEPTH_MAX)?,
            }
        }
        Some(Page {
            unpacked_bytes: u64::try_from(unpacked_bytes?).ok()?,
            packed_bytes: u64::try_from(packed_bytes?).ok()?,
            dictionary_values: dictionary_values.map(u64::try_from).transpose().ok()?,
            encoding,
        })
    }

    /// Stores the number in field `wanted` of a structure, which is read to its end.
    fn number_in_structure(&mut self, wanted: i64, number: &mut Option<i64>) -> Option<()> {
        let mut id = 0;
        loop {
            match (self.field(&mut id)?, id) {
                (STOP, _) => return Some(()),
                (I32, of) if of == wanted => *number = Some(self.whole()?),
                (kind, _) => self.skip(kind, DEPTH_MAX)?,
            }
        }
    }

    /// Type of the next field; its number is stored in `id`. [`STOP`] at the end of the structure.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let head = self.byte()?;
        if head == STOP {
            return Some(STOP);
        }
        *id = match head >> 4 {
            0 => self.whole()?,
            step => id.checked_add(i64::from(step))?,
        };
        // Another reader may cut a number that does not fit in 16 bits.
        if !(1..=i64::from(i16::MAX)).contains(id) {
            return None;
        }
        // A field of this type would look like the end.
        (head & 15 != STOP).then_some(head & 15)
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The type of a boolean field is its value.
            1 | 2 => Some(()),
            3 => self.advance(1),
            4..=6 => self.varint().map(drop),
            7 => self.advance(8),
            8 => {
                let bytes = self.varint()?;
                self.advance(usize::try_from(bytes).ok()?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                (0..count).try_for_each(|_| match head & 15 {
                    // In a list, a boolean takes a byte.
                    1 | 2 => self.advance(1),
                    of => self.skip(of, depth),
                })
            }
            STRUCTURE => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        STOP => return Some(()),
                        kind => self.skip(kind, depth)?,
                    }
                }
            }
            _ => None,
        }
    }

    fn whole(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn advance(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header of a page: type 0, unpacked and packed bytes, then an empty structure in field 5.
    fn head(unpacked_bytes: u64, packed_bytes: u64) -> Vec<u8> {
        let mut bytes = vec![0x15, 0];
        for value in [unpacked_bytes, packed_bytes] {
            bytes.push(0x15);
            let mut zigzag = value << 1;
            while zigzag >= 0x80 {
                bytes.push(zigzag.to_le_bytes()[0] | 0x80);
                zigzag >>= 7;
            }
            bytes.push(zigzag.to_le_bytes()[0]);
        }
        bytes.extend([0x2c, 0, 0]);
        bytes
    }

    #[test]
    fn a_page_that_announces_gigabytes_is_refused_and_a_usual_one_is_not() {
        let chunk = |unpacked, packed: u64| {
            let mut bytes = head(unpacked, packed);
            bytes.extend(vec![7; usize::try_from(packed).unwrap()]);
            bytes
        };
        assert_eq!(check_chunk(&[chunk(1 << 20, 300), chunk(10, 0)].concat()), Ok(()));
        assert!(check_chunk(&chunk(2 << 30, 300)).is_err());
        assert!(check_chunk(&head(10, 1)).is_err(), "the page's content is not there");
    }

    /// Head of a page with a structure of numbers in the field `id`: of a dictionary 7, of data 5.
    fn head_with(id: u8, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 0, 0x15, 200, 1, 0x15, 0];
        bytes.push(((id - 3) << 4) | STRUCTURE);
        bytes.extend(numbers.iter().flat_map(|number| [0x15, number << 1]));
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn a_dictionary_of_more_values_than_bytes_and_an_encoding_of_lengths_are_refused() {
        // 100 bytes, unpacked.
        assert_eq!(check_chunk(&head_with(7, &[25, 0])), Ok(()));
        assert!(check_chunk(&head_with(7, &[26, 0])).is_err());
        for (encoding, is_ours) in [(0, true), (8, true), (5, true), (6, false), (7, false), (9, false)] {
            assert_eq!(check_chunk(&head_with(5, &[1, encoding])).is_ok(), is_ours, "{encoding}");
        }
    }

    #[test]
    fn a_footer_that_announces_megabytes_is_refused() {
        let file = |footer: u32| [&footer.to_le_bytes()[..], b"PAR1"].concat();
        assert_eq!(check_footer(&file(1 << 20)), Ok(()));
        assert!(check_footer(&file((1 << 20) + 1)).is_err() && check_footer(b"PAR1").is_err());
    }

    #[test]
    fn a_head_that_is_no_structure_is_refused() {
        let list_without_end = [0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        for bytes in [&[0xff; 40][..], &[0x15], &[0], &[0x1c; 100], &list_without_end] {
            assert!(check_chunk(bytes).is_err(), "{bytes:?}");
        }
    }
}
