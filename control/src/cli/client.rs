//! Asks a running gateway through its UNIX socket.

use crate::api::ApiError;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::net::UnixStream;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum ClientError {
    /// Nobody answers.
    #[error("cannot reach the gateway at {}: {reason}; {}", .path.display(), remedy(.reason))]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The answer broke off.
    #[error("the gateway's answer broke off: {0}; see its log, and show workers")]
    BrokeOff(String),
    /// The answer cannot be read.
    #[error("the gateway's answer is not understood: {0}; is it of the same version as this program?")]
    NotUnderstood(#[from] serde_json::Error),
    /// The gateway refuses.
    #[error("{}", .0.error)]
    Refused(Box<ApiError>),
    /// Whatever was to be done with the answer failed.
    #[error("{0}")]
    Local(#[from] io::Error),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run as root, or join the group of the socket (api.group)",
        _ => "is tidegate running? Start it with tidegate run, or name its socket with --socket",
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> ClientError {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        ClientError::BrokeOff(format!("{error}{cause}"))
    }
}

/// Asks for `path` (with its query), and reads the answer.
pub(super) fn ask<T: DeserializeOwned>(socket: &Path, method: Method, path: &str) -> Result<T, ClientError> {
    let answer = runtime()?.block_on(async {
        let response = send(socket, method, path).await?;
        Ok::<_, ClientError>(response.into_body().collect().await?.to_bytes())
    })?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Asks for `path`, and gives the answer to `line`, line by line as it comes.
pub(super) fn lines<E: From<ClientError>>(
    socket: &Path,
    path: &str,
    mut line: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let runtime = runtime().map_err(ClientError::from)?;
    runtime.block_on(async {
        let mut body = send(socket, Method::GET, path).await?.into_body();
        let mut pending = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(ClientError::from)?.into_data() else {
                continue;
            };
            pending.extend_from_slice(&data);
            let mut done = 0;
            while let Some(end) = pending[done..].iter().position(|byte| *byte == b'\n') {
                line(&pending[done..done + end])?;
                done += end + 1;
            }
            pending.drain(..done);
        }
        Ok(())
    })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn send(socket: &Path, method: Method, path: &str) -> Result<Response<Incoming>, ClientError> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|reason| ClientError::Unreachable {
        path: socket.to_owned(),
        reason,
    })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the runtime; what goes wrong on it, the request says too.
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::HOST, "tidegate");
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| ClientError::BrokeOff(error.to_string()))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text = response.into_body().collect().await?.to_bytes();
    let refused: ApiError = serde_json::from_slice(&text)?;
    Err(ClientError::Refused(Box::new(ApiError {
        status: status.as_u16(),
        ..refused
    })))
}
