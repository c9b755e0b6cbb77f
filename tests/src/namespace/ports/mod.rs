//! Local ports that come back while a real server still remembers them: nothing stalls, nothing fails, and what is told
//! of them is right.

mod exhaustion;
mod reuse;
mod server;
mod wire;
mod wrap;

use crate::lab::{Gateway, Lab, PATIENCE, authority, number, until};
use crate::modes::NETWORK;
use std::net::{IpAddr, SocketAddr};

/// What differs between the families.
#[derive(Clone, Copy)]
struct Family {
    vip: &'static str,
    local: &'static str,
    servers: [&'static str; 2],
    /// Where clients are that the client's kernel does not have.
    foreign: &'static str,
    /// More addresses of the client's kernel, with their length.
    own: [&'static str; 3],
}

const V4: Family = Family {
    vip: "203.0.113.100",
    local: "10.0.0.200",
    servers: ["10.0.0.11", "10.0.0.12"],
    foreign: "198.51.100.",
    own: ["198.51.100.201/32", "198.51.100.202/32", "198.51.100.203/32"],
};

const V6: Family = Family {
    vip: "2001:db8:1::100",
    local: "fd00::200",
    servers: ["fd00::11", "fd00::12"],
    foreign: "2001:db8:9::",
    own: [
        "2001:db8:9::201/128",
        "2001:db8:9::202/128",
        "2001:db8:9::203/128",
    ],
};

/// The port that servers listen on.
const PORT: u16 = 8080;

/// Ports are given from here on.
const FIRST: u16 = 20_000;

impl Family {
    fn vip(&self) -> SocketAddr {
        SocketAddr::new(self.vip.parse().unwrap(), 80)
    }

    fn server(&self, number: usize) -> SocketAddr {
        SocketAddr::new(self.servers[number - 1].parse().unwrap(), PORT)
    }

    /// A client whose kernel knows nothing of it.
    fn client(&self, host: u8, port: u16) -> SocketAddr {
        let address = format!("{}{host}", self.foreign);
        SocketAddr::new(address.parse().unwrap(), port)
    }

    fn local(&self) -> IpAddr {
        self.local.parse().unwrap()
    }

    /// A service in FULLNAT with so many servers, and one local address with so many ports; `more` are lines of their
    /// own.
    fn yaml(&self, servers: usize, ports: u16, more: &str) -> String {
        let servers: Vec<_> = self.servers[..servers]
            .iter()
            .map(|address| format!("{{ address: \"{address}\", port: {PORT} }}"))
            .collect();
        format!(
            "{NETWORK}local_addresses: [{{ name: dip, port: lan, addresses: [\"{}\"], ports: {FIRST}-{} }}]\n\
             pools: [{{ name: web, servers: [{}] }}]\n\
             services: [{{ name: web, listen: \"{}:80/tcp\", pool: web, mode: fullnat, scheduler: rr, local_addresses: dip }}]\n\
             {more}",
            self.local,
            FIRST + ports - 1,
            servers.join(", "),
            authority(self.vip),
        )
    }

    /// The lab with the client's further addresses.
    fn lab(&self) -> Lab {
        let lab = Lab::dual();
        for address in self.own {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            lab.client()
                .run(&format!("ip address add {address} dev wan0{nodad}"));
        }
        lab
    }
}

/// A number of the only local address.
fn of_address(gateway: &Gateway, key: &str) -> u64 {
    let pool = gateway.named("local-addresses", "dip");
    let addresses = pool["addresses"].as_array().unwrap();
    addresses.iter().map(|address| number(address, key)).sum()
}

/// Waits until so many local ports are in use.
fn until_used(gateway: &Gateway, used: u64) {
    until(&format!("{used} local ports in use"), PATIENCE, || {
        (of_address(gateway, "used") == used).then_some(())
    });
}
