//! The paths of the API, and what each answers.

use super::{ApiError, connections, operate, signals};
use crate::gateway::{Counted, Gateway};
use crate::metrics;
use crate::view::{self, ConnectionFilter};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a request's body: no request has one that matters.
const BODY: usize = 64 << 10;
/// How long a request may take until its answer begins. A reload waits for workers at most 20 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// The paths of the API, for who asks for another one.
const PATHS: &str = "/v1/status, /v1/services, /v1/servers, /v1/connections, /v1/ports, /v1/workers, /v1/neighbours, \
                     /v1/routes, /v1/drops, /v1/local-addresses, /v1/snat, /v1/rates, /v1/draining, /v1/reload (POST), \
                     /v1/overload (POST), /v1/zero (POST) and /metrics";
/// Those that change something.
const POSTS: [&str; 3] = ["/v1/reload", "/v1/overload", "/v1/zero"];

pub(super) type Asked<T> = Result<Query<T>, QueryRejection>;
pub(super) type Answer<T> = Result<Json<T>, ApiError>;
pub(super) type Shared = State<Arc<Gateway>>;

/// The whole API.
pub(super) fn api(gateway: Arc<Gateway>) -> Router {
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/services", get(services))
        .route("/v1/servers", get(servers))
        .route("/v1/connections", get(all_connections))
        .route("/v1/ports", get(ports))
        .route("/v1/workers", get(workers))
        .route("/v1/neighbours", get(neighbours))
        .route("/v1/routes", get(all_routes))
        .route("/v1/drops", get(drops))
        .route("/v1/local-addresses", get(local_addresses))
        .route("/v1/snat", get(snat))
        .route("/v1/rates", get(operate::rates))
        .route("/v1/draining", get(operate::draining))
        .route("/v1/reload", post(reload))
        .route("/v1/overload", post(operate::overload))
        .route("/v1/zero", post(operate::zero))
        .route("/metrics", get(scrape));
    bounded(router, PATHS, gateway)
}

/// The metrics alone.
pub(super) fn metrics(gateway: Arc<Gateway>) -> Router {
    bounded(Router::new().route("/metrics", get(scrape)), "/metrics", gateway)
}

/// What holds for all paths; `paths` names them.
fn bounded(router: Router<Arc<Gateway>>, paths: &'static str, gateway: Arc<Gateway>) -> Router {
    router
        .with_state(gateway)
        .fallback_service(any(no_path).with_state(paths))
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(from_fn(in_time))
}

async fn in_time(request: Request, next: Next) -> Response {
    let late = |_| {
        ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "the gateway is too busy to answer; try again",
        )
    };
    tokio::time::timeout(PATIENCE, next.run(request))
        .await
        .map_err(late)
        .into_response()
}

async fn no_path(State(paths): State<&'static str>, request: Request) -> ApiError {
    let path = request.uri().path();
    ApiError::new(
        StatusCode::NOT_FOUND,
        format!("nothing is at {path}; the paths here are {paths}"),
    )
}

async fn wrong_method(request: Request) -> ApiError {
    let (method, path) = (request.method(), request.uri().path());
    let right = if POSTS.contains(&path) { "POST" } else { "GET" };
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path} does not take {method}; use {right}"),
    )
}

/// Runs what may block on a thread that may.
pub(super) async fn blocking<T: Send + 'static>(
    gateway: Arc<Gateway>,
    work: impl FnOnce(&Gateway) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let broken = |_| {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer broke off; see the log",
        )
    };
    tokio::task::spawn_blocking(move || work(&gateway))
        .await
        .map_err(broken)
}

async fn status(State(gateway): Shared) -> Answer<view::Status> {
    blocking(gateway, view::status).await.map(Json)
}

async fn services(State(gateway): Shared) -> Answer<Vec<view::Service>> {
    let told = |gateway: &Gateway| view::services(gateway, Counted::SinceZero);
    blocking(gateway, told).await.map(Json)
}

/// Which servers to tell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerFilter {
    /// A service's name, or where one listens.
    pub(super) service: Option<String>,
}

async fn servers(State(gateway): Shared, filter: Asked<ServerFilter>) -> Answer<Vec<view::Server>> {
    let Query(ServerFilter { service }) = filter?;
    let tables = blocking(gateway, |gateway| view::table(gateway, Counted::SinceZero)).await?;
    let Some(name) = service else {
        return Ok(Json(tables.into_iter().flat_map(|table| table.servers).collect()));
    };
    let mut named = tables
        .into_iter()
        .filter(|table| table.service.is_called(&name))
        .peekable();
    if named.peek().is_none() {
        return Err(view::FilterError::NoService(name).into());
    }
    Ok(Json(named.flat_map(|table| table.servers).collect()))
}

async fn all_connections(
    State(gateway): Shared,
    filter: Asked<ConnectionFilter>,
) -> Result<Response, ApiError> {
    let Query(filter) = filter?;
    connections::stream(gateway, filter).await
}

async fn ports(State(gateway): Shared) -> Answer<Vec<view::Port>> {
    blocking(gateway, view::ports).await.map(Json)
}

async fn workers(State(gateway): Shared) -> Answer<Vec<view::Worker>> {
    blocking(gateway, view::workers).await.map(Json)
}

async fn neighbours(State(gateway): Shared) -> Answer<Vec<view::Neighbour>> {
    Ok(Json(blocking(gateway, view::neighbours).await??))
}

async fn all_routes(State(gateway): Shared) -> Answer<Vec<view::Route>> {
    Ok(Json(blocking(gateway, view::routes).await??))
}

/// How much to tell of local addresses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocalFilter {
    /// Also how far each is used towards each server.
    #[serde(default)]
    servers: bool,
}

async fn local_addresses(State(gateway): Shared, filter: Asked<LocalFilter>) -> Answer<Vec<view::LocalPool>> {
    let Query(LocalFilter { servers }) = filter?;
    let pools = blocking(gateway, move |gateway| view::local_pools(gateway, servers));
    Ok(Json(pools.await??))
}

async fn snat(State(gateway): Shared) -> Answer<Vec<view::SnatRule>> {
    let told = |gateway: &Gateway| view::snat(gateway, Counted::SinceZero);
    blocking(gateway, told).await.map(Json)
}

/// Which drop reasons to tell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DropFilter {
    /// Also those that have not occurred.
    #[serde(default)]
    all: bool,
}

async fn drops(State(gateway): Shared, filter: Asked<DropFilter>) -> Answer<Vec<view::Drop>> {
    let Query(DropFilter { all }) = filter?;
    blocking(gateway, move |gateway| view::drops(gateway, all))
        .await
        .map(Json)
}

async fn reload(State(gateway): Shared) -> Answer<view::Reload> {
    let reloaded = blocking(gateway, signals::reload).await??;
    Ok(Json(view::Reload::from(&reloaded)))
}

async fn scrape(State(gateway): Shared, options: Asked<metrics::Options>) -> Result<Response, ApiError> {
    let Query(options) = options?;
    let text = blocking(gateway, move |gateway| metrics::render(gateway, options)).await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

#[cfg(test)]
mod tests {
    /// What is served and what is written down are the same paths.
    #[test]
    fn every_path_is_documented_and_nothing_else_is() {
        let paths = |text: &str, before: &str, after: char| -> Vec<String> {
            let parts = text.split(before).skip(1);
            parts
                .filter_map(|part| part.split(after).next())
                .map(str::to_owned)
                .collect()
        };
        let source = include_str!("routes.rs")
            .split("fn metrics(")
            .next()
            .unwrap_or_default();
        let mut served = paths(source, ".route(\"", '"');
        let document = include_str!("../../../docs/api.md");
        let mut written = paths(document, "| `GET ", '`');
        written.extend(paths(document, "| `POST ", '`'));
        served.sort();
        written.sort();
        assert!(served.len() > 5);
        assert_eq!(served, written);
    }
}
