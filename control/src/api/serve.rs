//! Serves HTTP/1.1 connections, so many at a time, until told to stop.

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Connections at a time on each listener; more wait in the system's queue.
const CONNECTIONS: usize = 64;
/// How long a client may take to send its request's head.
const HEAD: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// How long what is under way may go on after the end.
const GRACE: Duration = Duration::from_secs(2);

/// Serves `router` on `listener` until `stopped` says so. `lifetime` bounds each connection.
pub(super) async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    lifetime: Option<Duration>,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let under_way = GracefulShutdown::new();
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, (io, _)) = tokio::select! {
            accepted = accept => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(HEAD_BYTES)
            // A request is rare, and a connection that idles would hold a place.
            .keep_alive(false)
            .serve_connection(TokioIo::new(io), TowerToHyperService::new(router.clone()));
        let connection = under_way.watch(connection);
        tokio::spawn(async move {
            // A client that goes away is no concern of ours.
            let _ = match lifetime {
                Some(lifetime) => tokio::time::timeout(lifetime, connection).await.unwrap_or(Ok(())),
                None => connection.await,
            };
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, under_way.shutdown()).await;
}
