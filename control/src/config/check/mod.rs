//! From what each section says to a configuration that fits together: names that exist, addresses that do not
//! collide, servers that can be reached. All of it takes time in proportion to the file (times its logarithm).

mod addresses;
mod cover;
mod links;
mod local;
mod marks;
mod names;
mod network;
mod option;
mod ownership;
mod policy;
mod pool;
mod port;
mod queues;
mod server;
mod service;
mod snat;
mod vip;

use super::Config;
use super::read::Raw;
use super::report::Report;
use addresses::Addresses;
use links::Links;
use names::Names;

/// Checks the file as a whole. When the report has no errors after this, the configuration is valid.
pub(super) fn check(file: &str, raw: Raw, report: &mut Report) -> Config {
    let port_names = Names::collect(
        "port",
        "ports",
        raw.ports.iter().map(|port| port.name.as_ref()),
        report,
    );
    let group_names = Names::collect(
        "group",
        "local_addresses",
        raw.local_addresses.iter().map(|group| group.name.as_ref()),
        report,
    );
    let pool_names = Names::collect(
        "pool",
        "pools",
        raw.pools.iter().map(|pool| pool.name.as_ref()),
        report,
    );
    Names::collect(
        "service",
        "services",
        raw.services.iter().map(|service| service.name.as_ref()),
        report,
    );

    Names::collect(
        "rule",
        "snat",
        raw.snat.iter().map(|rule| rule.name.as_ref()),
        report,
    );

    let parents = port::check(&raw.ports, &port_names, report);
    let mut links = Links::new(&raw.ports);
    let (mut routes, unreachable) = network::routes(&raw.routes, &port_names, &mut links, report);
    let kernel_routes = network::kernel_routes(raw.kernel_routes.as_ref(), &raw.ports, &mut links, report);
    let mut neighbours = network::neighbours(&raw.neighbours, &port_names, &links, report);

    let mut addresses = Addresses::default();
    addresses.take_own(&raw.ports, report);
    addresses.take_vips(&raw.services, &raw.vips, &links, report);
    addresses.take_marked(&raw.marks, &links, report);
    addresses.take_remote(&raw.routes, &raw.neighbours, &raw.pools, &links, report);
    let mut local_addresses =
        local::local_addresses(&raw.local_addresses, &port_names, &addresses, &links, report);

    let servers = pool::pools(&raw.pools, &links, report);
    let services = service::services(&raw, &pool_names, &group_names, &servers, &links, report);
    let mut marks = marks::marks(&raw, &port_names, report);
    let snat = snat::rules(&raw, &group_names, &addresses, &links, report);
    let vips = vip::vips(&raw.vips, report);
    ownership::owners(&raw, report);
    ownership::announced(&raw, report);

    let numbers = port::numbers(&raw.ports);
    let places = routes.iter_mut().map(|route| &mut route.port);
    let places = places.chain(neighbours.iter_mut().map(|neighbour| &mut neighbour.port));
    let places = places.chain(marks.iter_mut().filter_map(|mark| mark.input.as_mut()));
    for port in places.chain(local_addresses.iter_mut().map(|group| &mut group.port)) {
        *port = numbers[*port];
    }
    Config {
        file: file.to_owned(),
        routes,
        unreachable,
        kernel_routes,
        announce: raw.announce,
        neighbours,
        local_addresses,
        services,
        marks,
        vips,
        snat,
        ports: port::ports(raw.ports, &parents),
        pools: raw.pools.into_iter().filter_map(pool::pool).collect(),
        node: raw.node,
        api: raw.api,
        metrics: raw.metrics,
        settings: raw.settings,
        warnings: Vec::new(),
    }
}
