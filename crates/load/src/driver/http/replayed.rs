//! Requests of an access log, each once and in order.

use std::sync::Arc;

use record::replay::{Method, Replay, ReplaySource};

use super::requests::{Asked, Request};

/// Requests of an access log, as one connection sends them.
#[derive(Debug)]
pub(super) struct Replayed {
    source: Arc<dyn ReplaySource>,
    requests: u64,
    methods: Vec<Method>,
    /// Path of the request of the current event.
    path: Vec<u8>,
}

impl Replayed {
    /// The requests of a log; `None` if they are not there.
    pub(super) fn of(replay: &Replay) -> Option<Self> {
        let path = Vec::with_capacity(usize::try_from(replay.path_bytes_max).unwrap_or(0));
        let source = Arc::clone(replay.source.as_ref()?);
        let (requests, methods) = (replay.requests, replay.methods.clone());
        (requests > 0).then_some(Self { source, requests, methods, path })
    }

    /// Reads the request of an event. The events of a warm-up are those at the beginning of the log.
    pub(super) fn take(&mut self, event: u64) -> Result<Asked, String> {
        let logged = self.source.read(event % self.requests, &mut self.path)?;
        // Requests are in the order of their methods.
        let request = self.methods.iter().position(|method| *method == logged.method);
        let request = request.ok_or("the log contains a method that was absent when it was first read")?;
        Ok(Asked { request, logged_status: logged.status })
    }

    /// Writes the head of the request without its final empty line.
    ///
    /// - `request`: the request of the method, for the path `/`.
    pub(super) fn write(&self, request: &Request, out: &mut Vec<u8>) {
        let head = &request.bytes[..request.head_bytes()];
        let path = head.iter().position(|b| *b == b'/').expect("a request has a path");
        out.extend_from_slice(&head[..path]);
        out.extend_from_slice(&self.path);
        out.extend_from_slice(&head[path + 1..]);
    }
}

#[cfg(test)]
mod tests {
    use record::replay::Logged;

    use super::*;

    /// A log of three requests; the third cannot be read.
    #[derive(Debug)]
    struct Three;

    impl ReplaySource for Three {
        fn read(&self, number: u64, path: &mut Vec<u8>) -> Result<Logged, String> {
            let (method, text) = match number {
                0 => (Method::Get, "/first?x=1"),
                1 => (Method::Delete, "/second"),
                _ => return Err("the disk is gone".to_owned()),
            };
            path.clear();
            path.extend_from_slice(text.as_bytes());
            Ok(Logged { method, status: Some(404) })
        }
    }

    fn replayed(methods: &[Method]) -> Replayed {
        let replay = Replay {
            log: "access.log".to_owned(),
            speed: 1.0,
            requests: 3,
            methods: methods.to_vec(),
            left_out: 0,
            path_bytes_max: 10,
            source: Some(Arc::new(Three)),
        };
        Replayed::of(&replay).unwrap()
    }

    fn request(method: Method) -> Request {
        let authority = super::super::authority::Authority::read("h:1").unwrap();
        Request::of_method(&authority, &record::requests::HttpSettings::plain(), method)
    }

    #[test]
    fn an_event_has_the_request_of_its_number_however_often_it_is_tried() {
        let mut replayed = replayed(&[Method::Get, Method::Delete]);
        for (event, index, head) in [
            (1, 1, "DELETE /second HTTP/1.1\r\nHost: h:1\r\n"),
            (0, 0, "GET /first?x=1 HTTP/1.1\r\nHost: h:1\r\n"),
            (0, 0, "GET /first?x=1 HTTP/1.1\r\nHost: h:1\r\n"),
            // A warm-up that is longer than the log begins again.
            (4, 1, "DELETE /second HTTP/1.1\r\nHost: h:1\r\n"),
        ] {
            let asked = replayed.take(event).unwrap();
            assert_eq!((asked.request, asked.logged_status), (index, Some(404)), "{event}");
            let mut out = Vec::new();
            let method = [Method::Get, Method::Delete][asked.request];
            replayed.write(&request(method), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), head, "{event}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_read_is_an_error_of_its_event() {
        assert_eq!(replayed(&[Method::Get, Method::Delete]).take(2).unwrap_err(), "the disk is gone");
        assert!(replayed(&[Method::Get]).take(1).is_err(), "a method that was absent");
    }
}
