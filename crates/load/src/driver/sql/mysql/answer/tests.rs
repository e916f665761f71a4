use super::*;
use crate::driver::sql::mysql::format::kind;

fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        out.extend_from_slice(&[length[0], length[1], length[2], 1]);
        out.extend_from_slice(payload);
    }
    out
}

/// The end of an answer that arrives in pieces of `step` bytes; panics if the answer is incomplete.
fn end_of(input: &[u8], step: usize, mut wanted: Option<Wanted<'_>>) -> Result<Status, Broken> {
    let mut reader = Reader::new(64 << 20);
    let (mut left, mut come) = (Vec::new(), 0);
    for piece in input.chunks(step) {
        left.extend_from_slice(piece);
        come += piece.len();
        let (taken, end) = reader.hear(&left, &mut wanted);
        left.drain(..taken);
        if let Some(end) = end {
            assert!(end.is_err() || come == input.len() && left.is_empty(), "it ends at its last byte");
            return end;
        }
    }
    panic!("{} bytes are no whole answer", input.len());
}

const COLUMN: &[u8] = b"\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00";
const END: &[u8] = &[0xfe, 0, 0, 2, 0];

#[test]
fn an_answer_is_read_to_its_end_however_it_is_cut_and_its_last_row_kept() {
    let row = |n: u8| [0, 0, n, 0, 0, 0];
    let whole = packets(&[&[1], COLUMN, END, &row(5), &row(9), END]);
    for step in [1, 3, 4, 7, 1000] {
        let (mut kept, mut columns) = (ResultRow::default(), Vec::new());
        let wanted = Wanted { keep: Keep::Last(&mut kept), columns: &mut columns, form: Form::Binary };
        assert!(!end_of(&whole, step, Some(wanted)).unwrap().is_in_transaction());
        assert_eq!(
            (kept.rows, kept.names, kept.values),
            (2, vec!["n".to_owned()], vec![Some("9".to_owned())])
        );
        // The answer of MariaDB with columns that it described before; then an empty result.
        let more = [0xfe, 0, 0, 8, 0];
        let whole = packets(&[&[1, 0], END, &row(5), &more, &[0, 0, 0, 1, 0, 0, 0]]);
        assert!(end_of(&whole, step, None).unwrap().is_in_transaction());
    }
}

#[test]
fn a_row_of_several_packets_is_one_row() {
    let value = vec![b'x'; PAYLOAD_MAX + 10];
    let mut row = vec![0xfe];
    row.extend_from_slice(&(value.len() as u64).to_le_bytes());
    row.extend_from_slice(&value);
    let (first, second) = row.split_at(PAYLOAD_MAX);
    let whole = packets(&[&[1], COLUMN, END, first, second, END]);
    let (mut kept, mut columns) = (ResultRow::default(), Vec::new());
    let wanted = Wanted { keep: Keep::Last(&mut kept), columns: &mut columns, form: Form::Text };
    end_of(&whole, 1 << 20, Some(wanted)).unwrap();
    assert_eq!(kept.rows, 1);
    // A value that is too long for a variable is stored with one byte more than the limit.
    assert_eq!(kept.values[0].as_ref().unwrap().len(), crate::workload::statement::VALUE_BYTES_MAX + 1);
    // When skipped, it is the same answer, and its continuation is not an end, although it begins like
    // one.
    let whole = packets(&[&[1], COLUMN, END, first, &[0xfe, 0, 0], END]);
    end_of(&whole, 1 << 20, None).unwrap();
    // A row of the maximum packet length is followed by an empty packet.
    let whole = packets(&[&[1], COLUMN, END, first, &[], END]);
    end_of(&whole, 1 << 20, None).unwrap();
}

#[test]
fn of_a_long_answer_nothing_is_held_but_the_beginning_of_a_row() {
    let row = [&[40][..], &[b'x'; 40]].concat();
    let mut whole = packets(&[&[1], COLUMN, END]);
    for _ in 0..200_000 {
        whole.extend_from_slice(&packets(&[&row]));
    }
    whole.extend_from_slice(&packets(&[END]));
    let (mut reader, mut left, mut ended) = (Reader::new(1 << 20), Vec::new(), false);
    for piece in whole.chunks(64 << 10) {
        left.extend_from_slice(piece);
        let (taken, end) = reader.hear(&left, &mut None);
        left.drain(..taken);
        // No byte is parsed twice.
        assert!(left.len() <= HEADER_BYTES, "{} bytes are held", left.len());
        ended = end.is_some();
    }
    assert!(ended);
}

#[test]
fn an_error_may_come_at_once_or_among_the_rows() {
    let refused = b"\xff\xbd\x04#40001Deadlock found";
    for payloads in [&[&refused[..]][..], &[&[1], COLUMN, END, &[0, 0, 1, 0, 0, 0], &refused[..]]] {
        for step in [1, 5, 1000] {
            let Err(Broken::Refused { code, message, state }) = end_of(&packets(payloads), step, None) else {
                panic!()
            };
            assert_eq!((code, message.as_str(), &state), (1213, "Deadlock found", b"40001"));
        }
    }
}

#[test]
fn what_no_server_announces_is_refused_before_it_has_come() {
    let refused = |input: &[u8], bytes_max| {
        let (_, end) = Reader::new(bytes_max).hear(input, &mut None);
        end.unwrap().unwrap_err()
    };
    let columns = packets(&[&[0xfe, 0, 0, 0, 0, 0, 0, 0, 0x40]]);
    assert!(matches!(refused(&columns, 1 << 20), Broken::Garbled(_)));
    assert!(matches!(refused(&[0xff, 0xff, 0xff, 0], 1 << 20), Broken::TooLong { .. }));
    // Nor may many small descriptions exceed the limit together.
    let mut many = packets(&[&[0xfc, 0xff, 0xff]]);
    for _ in 0..1_000 {
        many.extend_from_slice(&packets(&[COLUMN]));
    }
    assert!(matches!(refused(&many, 4_000), Broken::TooLong { .. }));
}

#[test]
fn what_was_prepared_is_read_however_it_is_cut() {
    let head = [0, 7, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
    let whole = packets(&[&head, COLUMN, COLUMN, END, COLUMN, END]);
    for step in [1, 5, 1_000] {
        let (mut reader, mut left, mut found) = (PreparedReader::new(1 << 20), Vec::new(), None);
        for piece in whole.chunks(step) {
            assert!(found.is_none(), "it ends at its last byte");
            left.extend_from_slice(piece);
            let (taken, end) = reader.hear(&left);
            left.drain(..taken);
            found = end;
        }
        let (id, columns) = found.unwrap().unwrap();
        assert_eq!((id, columns.len(), columns[0].name.as_str()), (7, 1, "n"));
    }
    let (_, end) = PreparedReader::new(1 << 20).hear(&packets(&[&[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]));
    assert_eq!(end.unwrap().unwrap(), (7, Vec::new()));
}

#[test]
fn binary_values_read_as_text() {
    let of = |kind, is_unsigned, bytes: &[u8]| {
        Cursor(bytes).value(&Column { name: String::new(), kind, is_unsigned }).unwrap()
    };
    assert_eq!(of(kind::TINY, false, &[0xff]), "-1");
    assert_eq!(of(kind::LONGLONG, true, &[0xff; 8]), u64::MAX.to_string());
    assert_eq!(of(kind::DOUBLE, false, &1.5f64.to_le_bytes()), "1.5");
    assert_eq!(of(kind::DATE, false, &[4, 0xea, 7, 11, 21]), "2026-11-21");
    assert_eq!(of(kind::DATETIME, false, &[7, 0xea, 7, 11, 21, 9, 5, 0]), "2026-11-21 09:05:00");
    assert_eq!(of(kind::TIME, false, &[8, 1, 1, 0, 0, 0, 2, 3, 4]), "-26:03:04");
    assert_eq!(of(kind::VAR_STRING, false, &[2, b'h', b'i']), "hi");
}
