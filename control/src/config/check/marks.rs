//! Firewall marks: rules whose parts fit together, services that are for a mark that packets get, and what persistence
//! and services on all ports need.

use dataplane::scheduler::{SchedulerFlags, SchedulerKind};
use dataplane::service::{Protocol, ServiceKey};

use super::names::Names;
use crate::config::read::Raw;
use crate::config::read::marks::RawMark;
use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::config::types::{Listener, Mark, Service};

/// Checks the section `marks`. Ports are by their index in the file.
pub(crate) fn marks(raw: &Raw, port_names: &Names<'_>, report: &mut Report) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (index, mark) in raw.marks.iter().enumerate() {
        let path = format!("marks[{index}]");
        families(mark, &path, report);
        let input = mark.input.as_ref();
        let input = input.and_then(|name| port_names.find(name, format!("{path}.input"), report));
        let Some(number) = mark.mark else { continue };
        if !raw
            .services
            .iter()
            .any(|service| service.names_mark(number.value))
            && !report.has_errors()
        {
            let problem = format!("no service is for mark {}: the rule has no effect", number.value);
            let fault = Fault::new(
                problem,
                "write a service with `mark:`, or add it by ipvsadm's `-f`",
            );
            report.warn(number.place, format!("{path}.mark"), fault);
        }
        marks.push(Mark {
            mark: number.value,
            destinations: mark.destinations.iter().map(|(_, at)| at.value).collect(),
            sources: mark.sources.iter().map(|(_, at)| at.value).collect(),
            protocol: mark.protocol,
            ports: mark.ports.iter().map(|(_, ports)| *ports).collect(),
            input,
            place: mark.place,
        });
    }
    marks
}

/// A source of a family that no destination has is that of no packet.
fn families(mark: &RawMark, path: &str, report: &mut Report) {
    if mark.destinations.incomplete() || mark.destinations.items.is_empty() {
        return;
    }
    for (item, source) in mark.sources.iter() {
        let ipv6 = source.value.address().is_ipv6();
        let mut destinations = mark.destinations.iter();
        if !destinations.any(|(_, destination)| destination.value.address().is_ipv6() == ipv6) {
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            let problem = format!("{} is {family}, and no destination of the rule is", source.value);
            let path = mark.sources.path(&format!("{path}.source"), item);
            report.error(
                source.place,
                path,
                Fault::new(problem, "write both in one family"),
            );
        }
    }
}

/// Where a service listens: on its endpoints, or for its mark in each family that the rules have.
pub(crate) fn listeners(raw: &Raw, service: &RawService, path: &str, report: &mut Report) -> Vec<Listener> {
    let Some(mark) = service.mark else {
        return service.listeners.iter().map(|(_, listener)| *listener).collect();
    };
    let path = format!("{path}.mark");
    if service.listens {
        let problem = "a service listens somewhere, or is for a firewall mark, and not both";
        let remedy = "remove `listen` or `mark`, or write two services with one pool";
        report.error(mark.place, &path, Fault::new(problem, remedy));
    }
    let rules = raw.marks.iter().filter(|rule| {
        let number = rule.mark;
        number.is_none_or(|number| number.value == mark.value)
    });
    let destinations = || rules.clone().flat_map(|rule| rule.destinations.iter());
    let listener = |ipv6| Listener {
        key: ServiceKey::Mark {
            mark: mark.value,
            ipv6,
        },
        place: mark.place,
    };
    let has = |ipv6| destinations().any(|(_, at)| at.value.address().is_ipv6() == ipv6);
    let found: Vec<Listener> = [false, true]
        .into_iter()
        .filter(|ipv6| has(*ipv6))
        .map(listener)
        .collect();
    if found.is_empty()
        && !rules
            .clone()
            .any(|rule| rule.destinations.incomplete() || rule.mark.is_none())
    {
        let problem = format!("no rule under `marks` gives mark {}", mark.value);
        let remedy = format!(
            "write `marks: [ {{ mark: {}, destination: 203.0.113.100 }} ]`, say",
            mark.value
        );
        report.error(mark.place, path, Fault::new(problem, remedy));
    }
    found
}

/// Checks what a service says of persistence, and what needs it.
pub(crate) fn persistence(raw: &RawService, service: &Service, path: &str, report: &mut Report) {
    let all_ports = raw
        .listeners
        .iter()
        .find(|(_, listener)| listener.key.port() == 0);
    let Some(persistence) = &raw.persistence else {
        if let Some((item, listener)) = all_ports {
            let problem = format!(
                "{listener} stands for all ports, which needs `persistence`: connections of a client that belong \
                 together would go to different servers"
            );
            let remedy = "write `persistence: { timeout: 300 }`, say, or the port, 1 to 65535";
            report.error(
                listener.place,
                raw.listeners.path(&format!("{path}.listen"), item),
                Fault::new(problem, remedy),
            );
        }
        return;
    };
    let path = format!("{path}.persistence");
    for (ipv6, key, place) in [
        (false, "netmask", persistence.netmask),
        (true, "prefix", persistence.prefix),
    ] {
        let mut listeners = service.listeners.iter();
        if let Some(place) = place
            && !service.listeners.is_empty()
            && !listeners.any(|listener| listener.key.is_ipv6() == ipv6)
        {
            let (own, other) = if ipv6 {
                ("IPv6", "netmask")
            } else {
                ("IPv4", "prefix")
            };
            let problem = format!("`{key}` is for clients with {own}, and this service has none");
            let fault = Fault::new(problem, format!("write `{other}`"));
            report.error(place, format!("{path}.{key}"), fault);
        }
    }
    let other = service.listeners.iter().find(|listener| {
        let protocol = listener.key.protocol();
        protocol.is_some_and(|protocol| protocol != Protocol::Udp)
    });
    if let Some((engine, listener)) = persistence.engine.zip(other) {
        let problem = format!(
            "`{}` reads SIP over UDP, and {listener} is not UDP: all of its packets would be dropped",
            engine.value.name()
        );
        let remedy = "remove `engine`, or put the UDP listeners into a service of their own";
        report.error(
            engine.place,
            format!("{path}.engine"),
            Fault::new(problem, remedy),
        );
    }
    if let Some(place) = persistence.bound
        && let Some((problem, remedy)) = unbounded(raw, service)
    {
        report.error(place, format!("{path}.bound"), Fault::new(problem, remedy));
    }
}

/// Why a bound could not spread a client's connections, if it could not, and what to write instead.
fn unbounded(raw: &RawService, service: &Service) -> Option<(String, &'static str)> {
    if service.engine.is_some() {
        let problem = "`bound` with `engine`: what belongs to one call goes to one server";
        return Some((problem.to_owned(), "remove one of them"));
    }
    if service.one_packet {
        let problem = "`bound` with `one_packet`: a client has no connections to count";
        return Some((problem.to_owned(), "remove `bound`"));
    }
    let ports = service.scheduler_flags.has(SchedulerFlags::PORT);
    let remedy = match service.scheduler {
        SchedulerKind::Sh if !ports => "remove it, add `scheduler_flags: sh-port`, or use another scheduler",
        SchedulerKind::Mh if !ports && raw.policy.bound.is_none() => {
            "remove it, add `scheduler_flags: mh-port` or the `bound` of the service, or use another scheduler"
        }
        SchedulerKind::Dh | SchedulerKind::Fo => "remove it, or use another scheduler",
        _ => return None,
    };
    let name = service.scheduler.name();
    let problem = format!("`bound` with `{name}`, which sends all connections of a client to one server");
    Some((problem, remedy))
}
