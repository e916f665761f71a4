//! An HTTP client that reads a bounded part of an error's text: its library collects the whole text, which a
//! hostile server never ends.

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
            let (head, body) = self.0.execute(request).await?.into_parts();
            // Content has a length that the store compares; only an error's text is collected.
            if head.status.is_success() {
                return Ok(HttpResponse::from_parts(head, body));
            }
            let (mut text, mut pieces) = (Vec::new(), body.bytes_stream());
            while let Some(piece) = pieces.next().await {
                let piece = piece?;
                let room = ERROR_BYTES_MAX - text.len();
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
