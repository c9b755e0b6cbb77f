//! The Prometheus metrics: built anew at each scrape from what workers and devices count, so that nothing is
//! counted twice and no series outlives what it is about. Called by the API, on a thread that may block.

mod about;
mod family;
mod gateway;
mod local;
mod services;
mod snat;

pub use about::{ALL, About, Kind};

use crate::gateway::{Counted, Gateway};
use crate::view::{self, Table};
use family::Text;
use serde::{Deserialize, Serialize};

/// The content type of what [`render`] gives.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// What a scrape may leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether to tell of each server; services and local addresses are always told of. With many servers most series
    /// are theirs.
    pub servers: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { servers: true }
    }
}

/// All metrics in Prometheus's text format. What a worker that does not answer would have to tell is left out, and
/// `tidegate_scrape_complete` says so. Blocks: it asks workers for their neighbours and local ports.
#[must_use]
pub fn render(gateway: &Gateway, options: Options) -> Vec<u8> {
    let (neighbours, pools) = (
        view::neighbours(gateway),
        view::local_pools(gateway, options.servers),
    );
    let mut text = Text::default();
    gateway::general(&mut text, gateway, neighbours.is_ok() && pools.is_ok());
    services::services(&mut text, &tables(gateway, options));
    snat::rules(&mut text, &view::snat(gateway, Counted::Ever));
    gateway::workers(&mut text, gateway);
    local::ports(&mut text, &pools.unwrap_or_default());
    gateway::ports(&mut text, &view::ports(gateway));
    let neighbours = neighbours.unwrap_or_default();
    gateway::neighbours(&mut text, &neighbours);
    gateway::routes(&mut text, &view::routes_with(gateway, neighbours));
    text.into_bytes()
}

fn tables(gateway: &Gateway, options: Options) -> Vec<Table> {
    if options.servers {
        return view::table(gateway, Counted::Ever);
    }
    let alone = |service| Table {
        service,
        servers: Vec::new(),
    };
    view::services(gateway, Counted::Ever)
        .into_iter()
        .map(alone)
        .collect()
}
