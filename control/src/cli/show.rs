//! `tidegate show` and `tidegate reload`: what the API answers, as tables.

use super::check::count;
use super::client::{ClientError, ask};
use super::table::Table;
use super::{Failure, What, connections, operate, warn};
use crate::gateway::{PortCounters, Spread, WorkerTotals};
use crate::view::{Drop, Neighbour, Persistence, Port, Reload, Server, Service, Status, Steered, Worker};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Shows what was asked for.
pub(super) fn show(socket: &Path, what: &What, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let mut page = Page { socket, json, out };
    match what {
        What::Status => page.show("/v1/status", |status: Status| status_lines(&status)),
        What::Services => page.table("/v1/services", services),
        What::Servers { service: None } => page.table("/v1/servers", servers),
        What::Servers { service: Some(name) } => {
            page.table(&operate::query("/v1/servers", &[("service", name)])?, servers)
        }
        What::Rates { service } => {
            let pairs = service.as_ref().map(|name| ("service", &**name));
            let path = operate::query("/v1/rates", pairs.as_slice())?;
            page.table(&path, operate::rates)
        }
        What::Draining => page.table("/v1/draining", operate::draining),
        What::Connections(filter) => connections::show(socket, filter, json, page.out),
        What::Ports => page.table("/v1/ports", ports),
        What::Workers => page.table("/v1/workers", workers),
        What::Neighbours => page.table("/v1/neighbours", neighbours),
        What::Routes => page.table("/v1/routes", super::routes::routes),
        What::Drops { all } => page.table(&format!("/v1/drops?all={all}"), drops),
        What::Snat => page.table("/v1/snat", super::snat::rules),
        What::LocalAddresses { servers } => page.table(
            &format!("/v1/local-addresses?servers={servers}"),
            super::local::pools,
        ),
    }
}

/// Makes the gateway read its configuration again.
pub(super) fn reload(socket: &Path, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let done: Reload = ask(socket, Method::POST, "/v1/reload").inspect_err(|error| {
        if let ClientError::Refused(refused) = error {
            warn(&refused.warnings);
        }
    })?;
    warn(&done.warnings);
    if json {
        return print_json(&done, out);
    }
    writeln!(out, "epoch {}: {}", done.epoch, done.summary)?;
    Ok(())
}

struct Page<'a, W> {
    socket: &'a Path,
    json: bool,
    out: &'a mut W,
}

impl<W: Write> Page<'_, W> {
    fn table<T: DeserializeOwned + Serialize>(
        &mut self,
        path: &str,
        table: impl FnOnce(Vec<T>) -> Table,
    ) -> Result<(), Failure> {
        self.show(path, table)
    }

    fn show<T: DeserializeOwned + Serialize>(
        &mut self,
        path: &str,
        table: impl FnOnce(T) -> Table,
    ) -> Result<(), Failure> {
        let answer: T = ask(self.socket, Method::GET, path)?;
        if self.json {
            return print_json(&answer, self.out);
        }
        Ok(table(answer).print(self.out)?)
    }
}

pub(super) fn print_json(answer: &impl Serialize, out: &mut impl Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, answer).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Cells from things that print.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}

fn status_lines(status: &Status) -> Table {
    let mut table = Table::new(&["GATEWAY", &status.name]);
    let mut line = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    line("version", status.version.clone());
    line("configuration", status.config.clone());
    line("epoch", status.epoch.to_string());
    line("uptime", duration(status.uptime));
    let counts = [
        (status.workers, "worker"),
        (status.ports, "port"),
        (status.services, "service"),
        (status.servers, "server"),
    ];
    line("has", counts.map(|(number, what)| count(number, what)).join(", "));
    let reloads = &status.reloads;
    let last = if reloads.last_succeeded {
        ""
    } else {
        "; the last one failed, see the log"
    };
    line(
        "reloads",
        format!("{} succeeded, {} failed{last}", reloads.succeeded, reloads.failed),
    );
    for warning in &status.warnings {
        line("warning", warning.clone());
    }
    table
}

fn services(services: Vec<Service>) -> Table {
    let mut table = Table::new(&[
        "NAME",
        "LISTEN",
        "SCHED",
        ">SERVERS",
        ">ACTIVE",
        ">INACTIVE",
        ">CONNS",
        ">IN-PKTS",
        ">IN-BYTES",
        ">OUT-PKTS",
        ">OUT-BYTES",
        "FLAGS",
        "WARNING",
    ]);
    for service in services {
        let totals = service.totals;
        table.row(cells![
            or_dash(&service.name),
            service.listen,
            service.scheduler,
            service.servers,
            totals.active,
            totals.inactive,
            totals.connections,
            totals.inbound_packets,
            totals.inbound_bytes,
            totals.outbound_packets,
            totals.outbound_bytes,
            flags(&service),
            warnings(&service),
        ]);
    }
    table
}

fn servers(servers: Vec<Server>) -> Table {
    let mut table = Table::new(&[
        "LISTEN",
        "SERVER",
        "MODE",
        ">WEIGHT",
        ">ACTIVE",
        ">INACTIVE",
        ">CONNS",
        ">IN-PKTS",
        ">IN-BYTES",
        ">OUT-PKTS",
        ">OUT-BYTES",
        ">LIMIT",
        "WARNING",
    ]);
    for server in servers {
        let totals = server.totals;
        table.row(cells![
            server.listen,
            SocketAddr::new(server.address, server.port),
            mode(&server),
            server.weight,
            totals.active,
            totals.inactive,
            totals.connections,
            totals.inbound_packets,
            totals.inbound_bytes,
            totals.outbound_packets,
            totals.outbound_bytes,
            limit(&server),
            server.warning.unwrap_or_default(),
        ]);
    }
    table
}

/// What the operator should know about a service.
fn warnings(service: &Service) -> String {
    let servers = Some(service.servers_with_warnings).filter(|number| *number > 0);
    let servers = servers.map(|number| format!("{}: see show servers", count(number, "server")));
    let departing = Some(service.departing).filter(|number| *number > 0);
    let departing =
        departing.map(|number| format!("{} of removed servers", count(number as usize, "connection")));
    let warnings: Vec<String> = servers.into_iter().chain(departing).collect();
    warnings.join("; ")
}

/// What is not as usual about a service.
fn flags(service: &Service) -> String {
    let mut flags = service.scheduler_flags.clone();
    let set = [
        (service.one_packet, "one-packet"),
        (service.translate_replies, "translate-replies"),
        (service.hairpin_snat, "hairpin-snat"),
        (service.own_timeouts, "own-timeouts"),
        (service.reset_idle, "reset-idle"),
        (service.expire_quiescent, "expire-quiescent"),
    ];
    flags.extend(
        set.iter()
            .filter(|(set, _)| *set)
            .map(|(_, flag)| (*flag).to_owned()),
    );
    flags.extend(service.queue_of.as_ref().map(|name| format!("queue-of={name}")));
    flags.extend(service.persistence.as_ref().map(persistence));
    flags.extend(service.mss_clamp.map(|mss| format!("mss-clamp={mss}")));
    let told = service.client_address.as_str();
    flags.extend((told != "none").then(|| format!("client-address={told}")));
    let removed = service.on_remove.as_str();
    flags.extend((!matches!(removed, "" | "keep")).then(|| format!("on-remove={removed}")));
    let limits = &service.limits;
    let limits = [
        ("connections", limits.connections),
        ("rate", limits.rate),
        ("client-connections", limits.client_connections),
        ("client-rate", limits.client_rate),
    ];
    flags.extend(
        limits
            .iter()
            .filter_map(|(name, limit)| Some(format!("{name}={}", (*limit)?))),
    );
    flags.join(",")
}

/// How clients are kept, as ipvsadm says it: `persistent 300 mask 255.255.255.0 pe sip`; a bound, which it does not
/// know, at the end.
fn persistence(persistence: &Persistence) -> String {
    let mut text = format!("persistent {}", persistence.timeout);
    if !matches!(&*persistence.mask, "255.255.255.255" | "128") {
        text += &format!(" mask {}", persistence.mask);
    }
    if let Some(engine) = &persistence.engine {
        text += &format!(" pe {engine}");
    }
    if let Some(bound) = persistence.bound {
        text += &format!(" bound {}.{:02}", bound / 100, bound % 100);
    }
    text
}

/// The forwarding mode, and how a tunnel wraps: `tun gue:6080 remote`.
fn mode(server: &Server) -> String {
    let Some(tunnel) = &server.tunnel else {
        return server.mode.clone();
    };
    let port = tunnel.port.map_or_else(String::new, |port| format!(":{port}"));
    let checksum = match tunnel.checksum.as_str() {
        "none" => String::new(),
        other => format!(" {other}"),
    };
    format!("{} {}{port}{checksum}", server.mode, tunnel.kind)
}

/// Lower and upper threshold, as far as there are any.
fn limit(server: &Server) -> String {
    match (server.lower_threshold, server.upper_threshold) {
        (_, 0) => "-".to_owned(),
        (0, upper) => upper.to_string(),
        (lower, upper) => format!("{lower}/{upper}"),
    }
}

fn ports(ports: Vec<Port>) -> Table {
    let mut table = Table::new(&[
        "NAME",
        "LINK",
        "MAC",
        ">MTU",
        ">RX-PKTS",
        ">RX-BYTES",
        ">TX-PKTS",
        ">TX-BYTES",
        ">MISSED",
        ">RX-ERR",
        ">TX-ERR",
        ">NO-BUF",
        ">QUEUES",
        "SPREAD",
        "DRIVER",
        "ADDRESSES",
        "DEVICE",
    ]);
    for port in ports {
        let bond = (!port.members.is_empty()).then(|| of_bond(&port));
        let of_vlan = port.vlan.map(|id| {
            let parent = port.parent.unwrap_or_default();
            format!("VLAN {id} of {parent}")
        });
        // The device counts for all of its VLANs.
        let count = |count: fn(&PortCounters) -> u64| {
            let counted = port.counters.as_ref().map(|counters| count(counters).to_string());
            counted.unwrap_or_else(|| "-".to_owned())
        };
        table.row(cells![
            port.name,
            if port.link_up { "up" } else { "down" },
            port.mac,
            port.mtu,
            count(|counters| counters.received_packets),
            count(|counters| counters.received_bytes),
            count(|counters| counters.sent_packets),
            count(|counters| counters.sent_bytes),
            count(|counters| counters.missed),
            count(|counters| counters.receive_errors),
            count(|counters| counters.transmit_errors),
            count(|counters| counters.no_buffer),
            port.queues
                .map_or_else(|| "-".to_owned(), |queues| queues.to_string()),
            port.spread.map_or("-", Spread::name),
            port.driver.as_deref().unwrap_or("-"),
            or_dash(&port.addresses.join(",")),
            bond.or(port.device).or(of_vlan).unwrap_or_default(),
        ]);
    }
    table
}

/// A bond's mode, and how its members do.
fn of_bond(port: &Port) -> String {
    let mode = port.device.as_deref().unwrap_or_default();
    let mode = mode.split(" of ").next().unwrap_or_default();
    let members = port.members.iter().map(|member| {
        let state = match (member.link_up, member.active) {
            (false, _) => "down",
            (true, true) => "active",
            (true, false) => "up",
        };
        format!("{} ({state})", member.device)
    });
    format!("{mode} of {}", members.collect::<Vec<_>>().join("; "))
}

fn workers(workers: Vec<Worker>) -> Table {
    let mut table = Table::new(&[
        ">NO",
        ">CPU",
        ">EPOCH",
        ">BUSY",
        ">CONNS",
        ">OPENED",
        ">RECEIVED",
        ">TAKEN",
        ">MADE",
        ">SENT",
        ">HANDED",
        ">HOP",
        ">DROPPED",
        ">CONSUMED",
        ">HELD",
        "ACCOUNTED",
        "HANDED-TO",
    ]);
    for worker in workers {
        let totals = worker.totals;
        table.row(cells![
            worker.number,
            worker.cpu,
            totals.epoch,
            format!("{:.1}%", 100.0 * totals.busy),
            totals.connections,
            totals.opened,
            totals.received,
            totals.taken_over,
            totals.made,
            totals.sent,
            totals.handed_over,
            hop(&totals),
            totals.dropped,
            totals.consumed,
            totals.held,
            if worker.unaccounted == 0 {
                "all".to_owned()
            } else {
                format!("off by {}", worker.unaccounted)
            },
            handed_to(&worker.steered),
        ]);
    }
    table
}

/// The share of what a worker received that it had to hand to its owner.
fn hop(totals: &WorkerTotals) -> String {
    let received = totals.received.max(1);
    format!("{:.1}%", 100.0 * totals.handed_over as f64 / received as f64)
}

/// Packets by the worker that they were handed to, and how many of them were lost.
fn handed_to(steered: &[Steered]) -> String {
    let pairs = steered.iter().filter(|pair| pair.handed_over + pair.full > 0);
    let words: Vec<String> = pairs
        .map(|pair| match pair.full {
            0 => format!("{}:{}", pair.to, pair.handed_over),
            full => format!("{}:{} (lost {full})", pair.to, pair.handed_over),
        })
        .collect();
    or_dash(&words.join(" ")).to_owned()
}

fn neighbours(neighbours: Vec<Neighbour>) -> Table {
    let mut table = Table::new(&["ADDRESS", "PORT", "MAC", "STATE", ">AGE", ">WAITING"]);
    for neighbour in neighbours {
        table.row(cells![
            neighbour.address,
            neighbour.port,
            neighbour.mac.unwrap_or_else(|| "-".to_owned()),
            neighbour.state,
            neighbour.age,
            neighbour.waiting,
        ]);
    }
    table
}

fn drops(drops: Vec<Drop>) -> Table {
    let workers = drops.first().map_or(0, |drop| drop.workers.len());
    let names: Vec<String> = (0..workers).map(|number| format!(">WORKER{number}")).collect();
    // With one worker, its share is all there is.
    let names = if workers == 1 { &[][..] } else { &names[..] };
    let mut titles = vec!["REASON", ">PACKETS"];
    titles.extend(names.iter().map(String::as_str));
    titles.push("MEANING");
    let mut table = Table::new(&titles);
    for drop in drops {
        let mut cells = cells![drop.reason, drop.total];
        cells.extend(drop.workers.iter().take(names.len()).map(ToString::to_string));
        cells.push(drop.text);
        table.row(cells);
    }
    table
}

pub(super) fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// Seconds as people say them: `3d 4h 5m 6s`.
pub(super) fn duration(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, 'd'),
        (seconds / 3600 % 24, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    let first = parts
        .iter()
        .position(|(count, _)| *count > 0)
        .unwrap_or(parts.len() - 1);
    parts[first..]
        .iter()
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_begin_with_what_is_not_zero() {
        assert_eq!(duration(0), "0s");
        assert_eq!(duration(60), "1m 0s");
        assert_eq!(duration(90_061), "1d 1h 1m 1s");
    }
}
