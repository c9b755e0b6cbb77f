//! The HTTP/JSON API: on a UNIX socket everything, on a TCP address (where configured) only `/metrics`. The engine
//! binds it while it may still do so, and runs it beside the workers; the command line is its first client.
//! Nothing here touches a packet; what has to ask workers runs on threads that may block.

mod connections;
mod error;
mod operate;
mod routes;
mod serve;
mod signals;
mod socket;

pub use error::ApiError;
pub use signals::{reload_on_hangup, stop};
pub use socket::BindError;

use crate::config::{Api, Metrics};
use crate::gateway::Gateway;
use socket::Socket;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection to the metrics address may last: a client that reads slowly must not hold a place.
const SCRAPE_LIMIT: Duration = Duration::from_secs(60);

/// The bound endpoints, before anybody is served.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
    metrics: Option<std::net::TcpListener>,
}

impl Server {
    /// Binds the UNIX socket, with its mode and group, and the metrics address. A socket that a dead process left
    /// is replaced.
    ///
    /// # Errors
    /// What cannot be bound, why, and the remedy.
    pub fn bind(api: &Api, metrics: &Metrics) -> Result<Server, BindError> {
        let metrics = metrics.listen.map(socket::bind_metrics).transpose()?;
        Ok(Server {
            socket: Socket::bind(api)?,
            metrics,
        })
    }

    /// The metrics address that was bound: with a real port where port 0 was asked for.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// Serves until `shutdown` resolves; then lets what is under way end, and removes the socket.
    ///
    /// # Errors
    /// The system refuses to watch the sockets.
    pub async fn run(self, gateway: Arc<Gateway>, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let listener = self.socket.listener()?;
        let api = serve::serve(listener, routes::api(Arc::clone(&gateway)), None, stopped.clone());
        let metrics = self.metrics.map(tokio::net::TcpListener::from_std).transpose()?;
        let metrics = async {
            if let Some(listener) = metrics {
                serve::serve(listener, routes::metrics(gateway), Some(SCRAPE_LIMIT), stopped).await;
            }
        };
        let shutdown = async {
            shutdown.await;
            stop.send_replace(true);
        };
        tokio::join!(api, metrics, shutdown);
        Ok(())
    }
}

/// Binds what the gateway's configuration asks for, and serves until `shutdown` resolves.
///
/// # Errors
/// What cannot be bound, why, and the remedy.
pub async fn serve(gateway: Arc<Gateway>, shutdown: impl Future<Output = ()>) -> Result<(), BindError> {
    let (api, metrics) = {
        let state = gateway.state();
        (state.config.api.clone(), state.config.metrics.clone())
    };
    let server = Server::bind(&api, &metrics)?;
    server
        .run(gateway, shutdown)
        .await
        .map_err(|reason| BindError::Watch { reason })
}
