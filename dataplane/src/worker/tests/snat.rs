//! SNAT: hosts inside reach servers outside from local addresses, and nobody outside gets in.

mod connections;
mod echo;
mod hosts;
mod life;
mod workers;

use super::carried::*;
use super::exchange::*;
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use std::net::{IpAddr, SocketAddr};

/// The rule's slot in [`Plan::behind_snat`].
fn slot(family: Family) -> usize {
    match family {
        Family::V4 => 40,
        Family::V6 => 41,
    }
}

/// A host inside.
fn inside(family: Family, number: u32, port: u16) -> SocketAddr {
    family.server(number, port)
}

/// A server outside.
fn outside(family: Family, number: u8, port: u16) -> SocketAddr {
    family.client(number, port)
}

impl Gateway {
    /// A packet from inside that goes out by the router; what the server outside gets.
    fn goes_out(&mut self, packet: &Wire) -> Wire {
        let out = self.pass_on(LAN, packet);
        assert_eq!((out.port, out.to_mac, out.from_mac), (WAN, ROUTER_MAC, WAN_MAC));
        out.wire()
    }

    /// A packet from outside that goes in to host `number`; what that gets.
    fn comes_in(&mut self, number: u32, packet: &Wire) -> Wire {
        let out = self.pass_on(WAN, packet);
        assert_eq!(
            (out.port, out.to_mac, out.from_mac),
            (LAN, server_mac(number), LAN_MAC)
        );
        out.wire()
    }

    /// Whether this packet from inside gets out, from which address.
    fn source_of(&mut self, packet: &Wire) -> Option<IpAddr> {
        let out = self.exchange(LAN, packet);
        out.first().map(|out| only(vec![out.clone()]).wire().from.ip())
    }
}
