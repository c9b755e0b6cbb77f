//! Whose each address is: an address has one use, since a packet to it can only go one way.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::links::Links;
use crate::config::Place;
use crate::config::read::address::is_link_local;
use crate::config::read::marks::RawMark;
use crate::config::read::network::{RawNeighbour, RawRoute};
use crate::config::read::port::RawPort;
use crate::config::read::service::{RawPool, RawService};
use crate::config::read::vip::RawVip;
use crate::config::report::{Fault, Report};
use crate::config::types::{AddressRange, Prefix};

/// What an address is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// The gateway's own, on a port.
    Own,
    /// A VIP.
    Vip,
    /// Another host's.
    Server,
    Gateway,
    Neighbour,
}

impl Use {
    fn words(self) -> &'static str {
        match self {
            Use::Own => "the gateway's own address",
            Use::Vip => "a VIP",
            Use::Server => "a server",
            Use::Gateway => "the gateway of a route",
            Use::Neighbour => "a static neighbour",
        }
    }

    /// What to do about an address that should be this, and is something else.
    fn remedy(self) -> &'static str {
        match self {
            Use::Own => "write each address once",
            Use::Vip => "give the service an address that nothing else has",
            Use::Server => "write the address that the server itself has on its network",
            Use::Gateway => "write the address of a router",
            Use::Neighbour => "write the address of another host",
        }
    }
}

/// Every address in use, with where it is first written.
#[derive(Default)]
pub(crate) struct Addresses {
    uses: BTreeMap<IpAddr, (Use, Place)>,
}

impl Addresses {
    /// Enters the ports' own addresses.
    pub(crate) fn take_own(&mut self, ports: &[RawPort], report: &mut Report) {
        for (index, port) in ports.iter().enumerate() {
            for (item, address) in port.addresses.iter() {
                let path = || port.addresses.path(&format!("ports[{index}].addresses"), item);
                self.take(address.address, Use::Own, address.place, path, report);
            }
        }
    }

    /// Enters the VIPs.
    pub(crate) fn take_vips(
        &mut self,
        services: &[RawService],
        vips: &[RawVip],
        links: &Links,
        report: &mut Report,
    ) {
        for (index, service) in services.iter().enumerate() {
            for (item, listener) in service.listeners.iter() {
                let path = || service.listeners.path(&format!("services[{index}].listen"), item);
                let Some(address) = listener.key.address() else {
                    continue;
                };
                refuse_reserved(address, listener.place, path, links, report);
                self.take(address, Use::Vip, listener.place, path, report);
            }
        }
        for (index, vip) in vips.iter().enumerate() {
            let path = || format!("vips[{index}].address");
            if let Some(address) = vip.address {
                refuse_reserved(address.value, address.place, path, links, report);
                self.take(address.value, Use::Vip, address.place, path, report);
            }
        }
    }

    /// Enters the single addresses whose packets get a firewall mark: they are VIPs. Prefixes are none.
    pub(crate) fn take_marked(&mut self, marks: &[RawMark], links: &Links, report: &mut Report) {
        for (index, mark) in marks.iter().enumerate() {
            for (item, destination) in mark.destinations.iter() {
                if !destination.value.is_host() {
                    continue;
                }
                let address = destination.value.address();
                let path = || {
                    mark.destinations
                        .path(&format!("marks[{index}].destination"), item)
                };
                refuse_reserved(address, destination.place, path, links, report);
                self.take(address, Use::Vip, destination.place, path, report);
            }
        }
    }

    /// Enters the addresses of other hosts.
    pub(crate) fn take_remote(
        &mut self,
        routes: &[RawRoute],
        neighbours: &[RawNeighbour],
        pools: &[RawPool],
        links: &Links,
        report: &mut Report,
    ) {
        for (index, route) in routes.iter().enumerate() {
            for (item, hop) in route.via.iter() {
                let via = hop.address;
                let path = || route.via.path(&format!("routes[{index}].via"), item);
                self.take(via.value, Use::Gateway, via.place, path, report);
            }
        }
        for (index, neighbour) in neighbours.iter().enumerate() {
            let path = || format!("neighbours[{index}].address");
            if let Some(address) = neighbour.address {
                refuse_reserved(address.value, address.place, path, links, report);
                self.take(address.value, Use::Neighbour, address.place, path, report);
            }
        }
        for (pool_index, pool) in pools.iter().enumerate() {
            for (index, server) in pool.servers.iter().enumerate() {
                let path = || format!("pools[{pool_index}].servers[{index}].address");
                if let Some(address) = server.address {
                    refuse_reserved(address.value, address.place, path, links, report);
                    self.take(address.value, Use::Server, address.place, path, report);
                }
            }
        }
    }

    /// The gateway's own addresses and the VIPs inside a prefix, with what each is.
    pub(crate) fn ours(&self, prefix: Prefix) -> impl Iterator<Item = (IpAddr, &'static str)> {
        let inside = self.uses.range(prefix.address()..=prefix.last());
        let ours = inside.filter(|(_, (what, _))| matches!(what, Use::Own | Use::Vip));
        ours.map(|(address, (what, _))| (*address, what.words()))
    }

    /// Enters one address, unless its present use excludes `new`. The gateway's own addresses are entered first,
    /// VIPs second.
    fn take(
        &mut self,
        address: IpAddr,
        new: Use,
        place: Place,
        path: impl Fn() -> String,
        report: &mut Report,
    ) {
        // One on each link, which are different hosts.
        if is_link_local(address) {
            return;
        }
        let Some(&(present, first)) = self.uses.get(&address) else {
            self.uses.insert(address, (new, place));
            return;
        };
        let excluded = match present {
            Use::Own => true,
            Use::Vip => new != Use::Vip,
            Use::Server | Use::Gateway | Use::Neighbour => false,
        };
        if excluded {
            let problem = format!("{address} is {} already, on line {}", present.words(), first.line);
            report.error(place, path(), Fault::new(problem, new.remedy()));
        }
    }

    /// Refuses a range of local addresses in which an address is something else.
    pub(crate) fn check_local(&self, range: AddressRange, path: &str, links: &Links, report: &mut Report) {
        let (first, last) = (range.first, range.last);
        if let Some((address, (present, place))) = self.uses.range(first..=last).next() {
            let problem = format!("{address} is {} already, on line {}", present.words(), place.line);
            let remedy = "write addresses that nothing else has, and leave this one out";
            report.error(range.place, path, Fault::new(problem, remedy));
        }
        for address in [first, last] {
            refuse_reserved(address, range.place, || path.to_owned(), links, report);
        }
    }
}

/// Refuses the network and broadcast address of a connected prefix.
fn refuse_reserved(
    address: IpAddr,
    place: Place,
    path: impl Fn() -> String,
    links: &Links,
    report: &mut Report,
) {
    if let Some((prefix, _)) = links
        .connected(address)
        .filter(|(prefix, _)| !prefix.has_host(address))
    {
        let kind = if address == prefix.last() {
            "broadcast"
        } else {
            "network"
        };
        let problem = format!("{address} is the {kind} address of {prefix}");
        report.error(place, path(), Fault::new(problem, "write the address of a host"));
    }
}
