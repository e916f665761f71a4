//! The rows of the log of events, as a load sends them.

use std::sync::mpsc;

use load::Attachments;
use record::event::{EventRow, Fate};

use super::support::fake::serve;
use super::*;

fn rows_of(settings: &LoadSettings) -> Vec<EventRow> {
    let (sender, receiver) = mpsc::sync_channel(64);
    let attachments = Attachments { log: Some(sender), ..Attachments::default() };
    let record = load::run_with(settings, &attachments, &Stop::new(), &mut |_| {}).unwrap();
    drop(attachments);
    let rows: Vec<_> = receiver.iter().flatten().collect();
    assert_eq!(rows.len() as u64, record.counts.planned);
    rows
}

#[test]
fn an_event_in_flight_at_the_end_has_its_known_stamps() {
    // Answers the look before the load, and nothing else.
    let port = serve(|peer| {
        while let Some(said) = peer.hear() {
            if said.starts_with(b"HEAD") {
                peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    let time = Duration::from_millis(500);
    let open = LoadSettings {
        threads: 2,
        time,
        drain: Duration::from_millis(100),
        pace: Loop::Open(OpenLoop::plain(20.0)),
        ..settings(format!("http://127.0.0.1:{port}/"))
    };
    let (begun, waits): (Vec<_>, Vec<_>) = rows_of(&open).into_iter().partition(|row| row.start_ns.is_some());
    assert_eq!((begun.len(), waits.len()), (2, 8), "two threads of ten events");
    for row in &begun {
        let (claim_ns, start_ns) = (row.claim_ns.unwrap().get(), row.start_ns.unwrap().get());
        assert!(row.fate == Fate::Unfinished && row.end_ns.is_none(), "{row:?}");
        assert!(start_ns >= row.due_ns && start_ns >= claim_ns, "{row:?}");
        assert!(start_ns < row.due_ns + 500_000_000, "{row:?}");
    }
    assert!(waits.iter().all(|row| row.claim_ns.is_none() && row.fate == Fate::Unfinished), "{waits:?}");
    let closed = LoadSettings { pace: Loop::CLOSED, ..open };
    let rows = rows_of(&closed);
    assert_eq!(rows.len(), 2);
    for row in rows {
        let stamps = (row.claim_ns.unwrap().get(), row.start_ns.unwrap().get());
        assert_eq!(stamps, (row.due_ns, row.due_ns), "{row:?}");
    }
}
