//! An HTTP client that reads a bounded part of an error's text and of a list of objects: its library collects
//! the whole answer, which a hostile server never ends.

use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};

/// Longest text of an error, in bytes.
const ERROR_BYTES_MAX: usize = 4 << 10;
/// Longest list of objects, in bytes. A server lists at most 1,000 names at once.
const LIST_BYTES_MAX: usize = 4 << 20;

/// Connector for bounded clients.
#[derive(Debug)]
pub(crate) struct Bounded;

impl HttpConnector for Bounded {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(BoundedService(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct BoundedService(HttpClient);

impl HttpService for BoundedService {
    fn call<'client, 'call>(
        &'client self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'client: 'call,
        Self: 'call,
    {
        Box::pin(async move {
            // A list of objects in S3 and in Azure, and Azure's answer to several deletions.
            let lists = ["list-type=", "comp=list", "comp=batch"];
            let is_list =
                request.uri().query().is_some_and(|query| lists.iter().any(|part| query.contains(part)));
            let (head, body) = self.0.execute(request).await?.into_parts();
            let most = match (head.status.is_success(), is_list) {
                // Content has a length that the store compares; it is not collected.
                (true, false) => return Ok(HttpResponse::from_parts(head, body)),
                // A list that is cut is unreadable.
                (true, true) => LIST_BYTES_MAX,
                (false, _) => ERROR_BYTES_MAX,
            };
            let (mut text, mut pieces) = (Vec::new(), body.bytes_stream());
            while let Some(piece) = pieces.next().await {
                let piece = piece?;
                let room = most - text.len();
                text.extend_from_slice(&piece[..piece.len().min(room)]);
                if piece.len() >= room {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(HttpResponse::from_parts(head, HttpResponseBody::from(text)))
        })
    }
}
