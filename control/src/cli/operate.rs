//! `tidegate overload` and `tidegate zero`, and the tables of `show rates` and `show draining`.

use super::check::count;
use super::client::ask;
use super::show::{duration, or_dash, print_json};
use super::table::Table;
use super::{Failure, Switch};
use crate::gateway::Rates;
use crate::view::{Draining, Overload, ServiceRates, Zeroed};
use hyper::Method;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// A path with its query.
pub(super) fn query(path: &str, pairs: &[(&str, &str)]) -> Result<String, Failure> {
    let query = serde_urlencoded::to_string(pairs).map_err(|error| Failure::Other(error.to_string()))?;
    Ok(if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    })
}

/// Marks a server of a service, or takes the mark.
pub(super) fn overload(
    socket: &Path,
    [service, server]: [&str; 2],
    state: Switch,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let on = state == Switch::On;
    let pairs = [
        ("service", service),
        ("server", server),
        ("overloaded", if on { "true" } else { "false" }),
    ];
    let done: Overload = ask(socket, Method::POST, &query("/v1/overload", &pairs)?)?;
    if json {
        return print_json(&done, out);
    }
    let what = if on {
        "is overloaded: it gets no new connections"
    } else {
        "is not overloaded"
    };
    for marked in &done.servers {
        writeln!(
            out,
            "epoch {}: {} of {} ({}) {what}",
            done.epoch,
            marked.server,
            or_dash(&marked.service),
            marked.listen
        )?;
    }
    Ok(())
}

/// Sets counters to zero.
pub(super) fn zero(
    socket: &Path,
    service: Option<&str>,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let pairs = service.map(|service| ("service", service));
    let path = query("/v1/zero", pairs.as_slice())?;
    let done: Zeroed = ask(socket, Method::POST, &path)?;
    if json {
        return print_json(&done, out);
    }
    let all = if service.is_none() {
        "and all SNAT rules "
    } else {
        ""
    };
    writeln!(out, "{} {all}count from zero", count(done.services, "service"))?;
    Ok(())
}

/// Rates: a line for each service, and one for each of its servers.
pub(super) fn rates(services: Vec<ServiceRates>) -> Table {
    let mut table = Table::new(&[
        "NAME", "LISTEN", "SERVER", ">CPS", ">INPPS", ">OUTPPS", ">INBPS", ">OUTBPS",
    ]);
    let mut row = |name: &str, listen: &str, server: String, rates: Rates| {
        let mut cells = vec![or_dash(name).to_owned(), listen.to_owned(), server];
        let rates = [rates.cps, rates.inpps, rates.outpps, rates.inbps, rates.outbps];
        cells.extend(rates.map(|rate| rate.to_string()));
        table.row(cells);
    };
    for service in &services {
        row(&service.name, &service.listen, "all".to_owned(), service.rates);
        for server in &service.servers {
            let end = SocketAddr::new(server.address, server.port);
            row(&service.name, &service.listen, end.to_string(), server.rates);
        }
    }
    table
}

/// What drains.
pub(super) fn draining(all: Vec<Draining>) -> Table {
    let mut table = Table::new(&[
        "KIND",
        "ADDRESS",
        "OF",
        "LISTEN",
        "ON-REMOVE",
        ">CONNS",
        ">SINCE",
        ">DEADLINE",
    ]);
    for draining in all {
        let deadline = draining.deadline.map_or_else(|| "-".to_owned(), duration);
        table.row(vec![
            draining.kind.replace('_', " "),
            draining.address,
            or_dash(&draining.of).to_owned(),
            draining.listen.unwrap_or_else(|| "-".to_owned()),
            draining.on_remove.unwrap_or_else(|| "-".to_owned()),
            draining.connections.to_string(),
            duration(draining.since),
            deadline,
        ]);
    }
    table
}
