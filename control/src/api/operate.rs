//! What an operator does, and watches while it is done: marks, counters at zero, rates, what drains.

use super::ApiError;
use super::routes::{Answer, Asked, ServerFilter, Shared, blocking};
use crate::view::{self, End};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

/// Which servers to mark, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    /// A service's name, or where one listens.
    service: String,
    /// A server's address, with or without its port.
    server: String,
    /// Whether to set the mark, or to take it.
    overloaded: bool,
}

pub(super) async fn overload(State(gateway): Shared, mark: Asked<Mark>) -> Answer<view::Overload> {
    let Query(Mark {
        service,
        server,
        overloaded,
    }) = mark?;
    let Some(end) = End::parse("server", Some(&server))? else {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "server is missing"));
    };
    let marked = blocking(gateway, move |gateway| {
        gateway.overload(&service, |server| end.is(&server), overloaded)
    });
    let (epoch, servers) = marked.await??;
    Ok(Json(view::Overload {
        epoch,
        overloaded,
        servers: servers.into_iter().map(view::MarkedServer::from).collect(),
    }))
}

pub(super) async fn zero(State(gateway): Shared, filter: Asked<ServerFilter>) -> Answer<view::Zeroed> {
    let Query(ServerFilter { service }) = filter?;
    let services = blocking(gateway, move |gateway| gateway.zero(service.as_deref())).await??;
    Ok(Json(view::Zeroed { services }))
}

pub(super) async fn rates(
    State(gateway): Shared,
    filter: Asked<ServerFilter>,
) -> Answer<Vec<view::ServiceRates>> {
    let Query(ServerFilter { service }) = filter?;
    let wanted = service.clone();
    let rates = blocking(gateway, move |gateway| view::rates(gateway, wanted.as_deref())).await?;
    match service {
        Some(name) if rates.is_empty() => Err(view::FilterError::NoService(name).into()),
        _ => Ok(Json(rates)),
    }
}

pub(super) async fn draining(State(gateway): Shared) -> Answer<Vec<view::Draining>> {
    Ok(Json(blocking(gateway, view::draining).await??))
}
