//! The connections, as JSON lines in a body that grows while workers tell them: there may be millions, and neither
//! side holds them all.

use super::{ApiError, routes};
use crate::gateway::Gateway;
use crate::view::{self, Connection, ConnectionFilter, Selection};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Bytes that are sent at a time.
const CHUNK: usize = 32 << 10;
/// Chunks under way to the client.
const CHUNKS: usize = 4;
/// How long a client may read nothing: as long as it does, nobody else can list connections.
const STALL: Duration = Duration::from_secs(10);

/// Answers with every connection that passes `filter`, one line each.
///
/// # Errors
/// The filter names what does not exist. A worker that falls silent later breaks the body off.
pub(super) async fn stream(gateway: Arc<Gateway>, filter: ConnectionFilter) -> Result<Response, ApiError> {
    let selection = routes::blocking(Arc::clone(&gateway), move |gateway| filter.resolve(gateway)).await??;
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let lines = Lines {
        pending: Vec::new(),
        sender,
        runtime: Handle::current(),
    };
    tokio::task::spawn_blocking(move || lines.tell(&gateway, &selection));
    Ok((
        [(header::CONTENT_TYPE, "application/jsonl")],
        Body::new(Chunks(chunks)),
    )
        .into_response())
}

/// Lines on their way to the client.
struct Lines {
    pending: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl Lines {
    fn tell(mut self, gateway: &Gateway, selection: &Selection) {
        let told = view::connections(gateway, selection, |connection| self.line(&connection));
        let last = match told {
            Ok(()) => Ok(std::mem::take(&mut self.pending).into()),
            Err(silent) => Err(io::Error::other(silent)),
        };
        let _ = self.send(last);
    }

    fn line(&mut self, connection: &Connection) -> ControlFlow<()> {
        if serde_json::to_writer(&mut self.pending, connection).is_err() {
            return ControlFlow::Break(());
        }
        self.pending.push(b'\n');
        if self.pending.len() < CHUNK {
            return ControlFlow::Continue(());
        }
        let chunk = std::mem::take(&mut self.pending);
        self.send(Ok(chunk.into()))
    }

    /// Breaks off when the client has gone, or reads nothing.
    fn send(&self, chunk: io::Result<Bytes>) -> ControlFlow<()> {
        match self
            .runtime
            .block_on(tokio::time::timeout(STALL, self.sender.send(chunk)))
        {
            Ok(Ok(())) => ControlFlow::Continue(()),
            Ok(Err(_)) | Err(_) => ControlFlow::Break(()),
        }
    }
}

/// The body: chunks as they come.
struct Chunks(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0
            .poll_recv(context)
            .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
