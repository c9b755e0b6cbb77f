//! From the tree to what each section says: types, ranges and spelling of each value by itself. What needs two
//! values at once (a name and its use, an address and a prefix) is for [`check`](super::check). A value that is
//! wrong is reported and replaced by none or the default, so that reading goes on to the next mistake.

pub(super) mod address;
mod bond;
mod field;
pub(super) mod marks;
pub(super) mod network;
mod node;
pub(super) mod policy;
pub(super) mod port;
pub(super) mod queue;
mod scheduler;
pub(super) mod service;
mod settings;
pub(super) mod snat;
mod timeout;
mod tunnel;
mod typed;
mod value;
pub(super) mod vip;

use dataplane::service::Settings;

use super::report::Report;
use super::types::{Api, Metrics, Node};
use super::yaml;
use super::{Place, schema};
pub(crate) use field::OneOrMore;
use field::{Field, Fields};
use marks::RawMark;
use network::{RawLocalAddresses, RawNeighbour, RawRoute};
use port::RawPort;
use service::{RawPool, RawService};
use snat::RawSnat;
use vip::RawVip;

/// A value and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// The file as it was written, section by section. Lists keep an element for each one of the file, so that an
/// index here is an index there.
pub(super) struct Raw {
    pub(super) node: Node,
    pub(super) api: Api,
    pub(super) metrics: Metrics,
    pub(super) ports: Vec<RawPort>,
    pub(super) routes: Vec<RawRoute>,
    pub(super) kernel_routes: Option<At<u32>>,
    pub(super) announce: bool,
    pub(super) neighbours: Vec<RawNeighbour>,
    pub(super) local_addresses: Vec<RawLocalAddresses>,
    pub(super) pools: Vec<RawPool>,
    pub(super) services: Vec<RawService>,
    pub(super) marks: Vec<RawMark>,
    pub(super) vips: Vec<RawVip>,
    pub(super) snat: Vec<RawSnat>,
    pub(super) settings: Settings,
}

/// Reads the whole document.
pub(super) fn read(document: &yaml::Node, report: &mut Report) -> Raw {
    let root = Field::root(document);
    let fields = Fields::open(root, &schema::DOCUMENT, report);
    let node = node::node(fields.get("node"), report);
    let with_drivers = !node.drivers.is_empty();
    let settings = settings::settings(fields.get("timeouts"), fields.get("settings"), report);
    Raw {
        api: settings::api(fields.get("api"), report),
        metrics: settings::metrics(fields.get("metrics"), report),
        ports: fields.required_list(
            "ports",
            "`ports: [ ... ]` with a port for each side",
            report,
            |field, report| port::port(field, with_drivers, report),
        ),
        routes: fields.list("routes", report, network::route),
        kernel_routes: network::kernel_routes(&fields, report),
        announce: network::announce(&fields, report).unwrap_or_default(),
        neighbours: fields.list("neighbours", report, network::neighbour),
        local_addresses: fields.list("local_addresses", report, network::local_addresses),
        pools: fields.list("pools", report, service::pool),
        services: fields.list("services", report, |field, report| {
            service::service(field, &settings.timeouts, report)
        }),
        marks: fields.list("marks", report, marks::mark),
        vips: fields.list("vips", report, vip::vip),
        snat: fields.list("snat", report, |field, report| {
            snat::rule(field, &settings.timeouts, report)
        }),
        settings,
        node,
    }
}
