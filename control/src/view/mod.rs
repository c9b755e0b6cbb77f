//! What the gateway shows of itself: one struct for each line of each listing, which the API serialises and the
//! command line reads back. Built from the [`Gateway`](crate::gateway::Gateway) for the API and the metrics. Those
//! that ask workers block, and are not for an async task; nothing here changes anything.

mod connections;
mod draining;
mod drops;
mod local;
mod neighbours;
mod overload;
mod ports;
mod rates;
mod routes;
mod services;
mod snat;
mod status;
mod workers;

pub use connections::{Connection, ConnectionFilter, End, FilterError, Selection, connections};
pub use draining::{Draining, draining};
pub use drops::{Drop, drops};
pub use local::{LocalAddress, LocalPool, LocalServer, local_pools};
pub use neighbours::{Neighbour, neighbours};
pub use overload::{MarkedServer, Overload, Zeroed};
pub use ports::{Port, ports};
pub use rates::{ServerRates, ServiceRates, rates};
pub(crate) use routes::routes_with;
pub use routes::{Route, routes};
pub use services::{Persistence, Server, Service, Table, services, table};
pub use snat::{SnatRule, snat};
pub use status::{Reload, Status, status};
pub use workers::{Steered, Worker, workers};

/// A worker did not answer: it stands still, or its CPU is overloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a worker does not answer; it is stuck, or its CPU is overloaded: see show workers")]
pub struct Silent;
