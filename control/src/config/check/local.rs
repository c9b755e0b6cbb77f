//! Local addresses: free ones, each in one group, where servers find them.

use super::addresses::Addresses;
use super::links::{Links, Reach};
use super::names::Names;
use super::pool::KnownServer;
use crate::config::Place;
use crate::config::read::Raw;
use crate::config::read::network::RawLocalAddresses;
use crate::config::read::port::RawPort;
use crate::config::report::{Fault, Report};
use crate::config::types::{AddressRange, LocalAddresses, Service};
use dataplane::flow::Mode;

/// Addresses in one group: 4 billion connections to each server.
const MOST_LOCAL_ADDRESSES: u128 = 65_536;

/// Groups of local addresses: free addresses, each in one group, where servers find them.
pub(crate) fn local_addresses(
    raw: &[RawLocalAddresses],
    ports: &Names<'_>,
    addresses: &Addresses,
    links: &Links,
    report: &mut Report,
) -> Vec<LocalAddresses> {
    let mut all: Vec<(AddressRange, usize, String)> = Vec::new();
    let mut groups = Vec::new();
    for (index, group) in raw.iter().enumerate() {
        let path = format!("local_addresses[{index}]");
        let port = group
            .port
            .as_ref()
            .and_then(|name| ports.find(name, format!("{path}.port"), report));
        let path = format!("{path}.addresses");
        let counts = group.ranges.iter().map(|(_, range)| range.count());
        let count = counts.fold(0, u128::saturating_add);
        if count > MOST_LOCAL_ADDRESSES {
            let problem = format!("{count} local addresses in one group");
            let remedy = format!(
                "write at most {MOST_LOCAL_ADDRESSES}: each gives about 60,000 connections to each server"
            );
            report.error(group.place, &path, Fault::new(problem, remedy));
            continue;
        }
        for (item, range) in group.ranges.iter() {
            let path = group.ranges.path(&path, item);
            addresses.check_local(*range, &path, links, report);
            if let Some(port) = port.filter(|_| !group.routed && links.is_complete()) {
                on_link(*range, port, &path, links, report);
            }
            all.push((*range, index, path));
        }
        if let (Some(name), Some(port)) = (&group.name, port) {
            groups.push(LocalAddresses {
                name: name.value.clone(),
                port,
                ranges: group.ranges.iter().map(|(_, range)| *range).collect(),
                ports: group.ports,
                routed: group.routed,
                owner: group.owner,
                place: group.place,
            });
        }
    }
    shared(all, report);
    groups
}

/// Refuses groups of local addresses on another port than a server that is reached from them: the server's answers
/// would look for them where nobody says that they are.
pub(crate) fn usable(
    service: &Service,
    servers: &[KnownServer],
    raw: &Raw,
    place: Place,
    path: &str,
    report: &mut Report,
) {
    let reached_by = |known: &KnownServer| match (service.mode_of(&known.server), known.reach) {
        (Mode::Fullnat, Reach::OnLink(port) | Reach::Routed(port)) => Some(port),
        // A hairpin is on the server's own link.
        (Mode::Nat, Reach::OnLink(port)) if service.hairpin_snat => Some(port),
        _ => None,
    };
    for &index in &service.local_addresses {
        let group = raw.local_addresses.get(index).filter(|group| !group.routed);
        let Some((group, name)) = group.and_then(|group| Some((group, group.port.as_ref()?))) else {
            continue;
        };
        let is_named = |port: &RawPort| port.name.as_ref().is_some_and(|at| at.value == name.value);
        let Some(port) = raw.ports.iter().position(is_named) else {
            continue;
        };
        // Only addresses of its own family are shown to a server.
        let is_shown = |known: &&KnownServer| {
            let ipv6 = known.server.address.is_ipv6();
            group
                .ranges
                .iter()
                .any(|(_, range)| range.first.is_ipv6() == ipv6)
        };
        let elsewhere = servers
            .iter()
            .filter(is_shown)
            .find_map(|known| Some((known, reached_by(known).filter(|found| *found != port)?)));
        let Some((known, found)) = elsewhere else { continue };
        let name_of = |port: Option<&RawPort>| port.and_then(|port| Some(port.name.as_ref()?.value.clone()));
        let (server, found) = (
            known.server.address,
            name_of(raw.ports.get(found)).unwrap_or_default(),
        );
        let group = group.name.as_ref().map_or("", |name| &*name.value);
        let problem = format!(
            "server {server} is behind port `{found}`, and the addresses of `{group}` are on port `{}`: its answers \
             would not come back",
            name.value
        );
        let remedy = format!(
            "name a group with `port: {found}`, or write `routed: true` in the group if the server has a route to it"
        );
        report.error(place, path, Fault::new(problem, remedy));
    }
}

/// Checks that `groups`, all that the service at `path` names at `place`, have addresses of each family that it needs:
/// its `servers` see local addresses of their own, whatever its clients have.
pub(crate) fn families(
    groups: &[&RawLocalAddresses],
    service: &Service,
    servers: &[KnownServer],
    (place, path): (Place, &str),
    report: &mut Report,
) {
    let mut ranges = groups.iter().map(|group| &group.ranges);
    if ranges.any(|ranges| ranges.items.is_empty()) {
        // Said already, or not to be known.
        return;
    }
    let sees_some = |known: &&KnownServer| match service.mode_of(&known.server) {
        Mode::Fullnat => true,
        Mode::Nat => service.hairpin_snat,
        Mode::Dr | Mode::Tun => false,
    };
    for ipv6 in [false, true] {
        let of_family = |known: &&KnownServer| known.server.address.is_ipv6() == ipv6;
        let Some(known) = servers.iter().filter(sees_some).find(of_family) else {
            continue;
        };
        let mut ranges = groups.iter().flat_map(|group| group.ranges.iter());
        if ranges.any(|(_, range)| range.first.is_ipv6() == ipv6) {
            continue;
        }
        let family = if ipv6 { "IPv6" } else { "IPv4" };
        let server = known.server.address;
        let problem =
            format!("no {family} address among them, and server {server} is {family}: it cannot be reached");
        let remedy = format!("add {family} addresses to the group, or name a group that has some too");
        report.error(
            place,
            format!("{path}.local_addresses"),
            Fault::new(problem, remedy),
        );
    }
}

/// Warns of local addresses that nobody asks for by ARP or neighbour discovery.
fn on_link(range: AddressRange, port: usize, path: &str, links: &Links, report: &mut Report) {
    if let Some(outside) = [range.first, range.last]
        .into_iter()
        .find(|address| !links.is_on(*address, port))
    {
        let problem = format!(
            "{outside} is in no network of its port, so servers answer it only through a route of theirs"
        );
        let remedy = "write addresses of that network, or `routed: true` when servers have such a route";
        report.warn(range.place, path, Fault::new(problem, remedy));
    }
}

/// Refuses addresses that are in two ranges: whose ports they are could not be told. Services share a group.
fn shared(mut all: Vec<(AddressRange, usize, String)>, report: &mut Report) {
    all.sort_by_key(|(range, ..)| (range.first, range.place));
    let mut widest: Option<(AddressRange, usize)> = None;
    for (range, group, path) in all {
        if let Some((before, other)) = widest.filter(|(before, _)| before.contains(range.first)) {
            let problem = format!(
                "{} is in local_addresses[{other}] too, on line {}",
                range.first, before.place.line
            );
            let remedy = match group == other {
                true => "write each address once",
                false => "write each address in one group: services may share a group",
            };
            report.error(range.place, path, Fault::new(problem, remedy));
        }
        if widest.is_none_or(|(before, _)| before.last < range.last) {
            widest = Some((range, group));
        }
    }
}
