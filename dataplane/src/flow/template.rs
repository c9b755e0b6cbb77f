//! Templates: what remembers the server of a persistent client. A template lies in the connection table as a record
//! of its own kind, under a protocol number that no packet is looked up by; its keys are never those of packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::addresses::Addresses6;
use super::record::{Flags, Mode, Record};
use crate::packet::{AddressDigest, FlowKey};
use crate::time::seconds;

/// The protocol number of templates in the table: reserved by IANA, and none that services balance.
pub(super) const PROTOCOL: u8 = 255;
/// How long a template waits for the connections that it has given its server to, once its own time is over, in ticks.
pub const HELD: u32 = seconds(60);
/// The port that a template shows which is no longer asked.
const RETIRED_PORT: u16 = 65535;

/// In [`Record::state`]: a connection of the template has been established.
const ASSURED: u8 = 1;
/// In [`Record::state`]: it is not asked any more.
const RETIRED: u8 = 2;

/// What identifies a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// The IP protocol number; 0 for a firewall mark, whose packets may have any.
    pub protocol: u8,
    /// What counts of the client's address.
    pub client: IpAddr,
    /// The VIP; a mark as [`Template::address_of_mark`] shows it.
    pub virtual_address: IpAddr,
    /// The port in host order; 0 when the template holds for all of them.
    pub port: u16,
    /// What else makes the client, such as the digest of a Call-ID; 0 = nothing.
    pub token: u64,
}

impl Template {
    /// A mark where the VIP stands, as LVS lists it: in the first four bytes of an address.
    #[must_use]
    pub const fn address_of_mark(mark: u32, ipv6: bool) -> IpAddr {
        if ipv6 {
            IpAddr::V6(Ipv6Addr::from_bits((mark as u128) << 96))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(mark))
        }
    }

    /// What stands beside the record: it is compared, and it tells both families apart.
    pub(super) fn addresses(&self) -> Addresses6 {
        let mut outbound = [0; 32];
        outbound[..8].copy_from_slice(&self.token.to_ne_bytes());
        let inbound = super::addresses::pair(mapped(self.client), mapped(self.virtual_address));
        Addresses6 { inbound, outbound }
    }

    /// The key that it is found by.
    #[must_use]
    pub fn key(&self, digest: &AddressDigest) -> FlowKey {
        let Addresses6 { inbound, outbound } = self.addresses();
        let token = if self.token == 0 { 0 } else { digest.of(&outbound) };
        FlowKey::of_v6(digest.of(&inbound) ^ token, ports(self.protocol, self.port))
    }

    /// The template of a record that is one, with what stands beside it.
    #[must_use]
    pub(super) fn of(record: &Record, addresses: &Addresses6) -> Template {
        let mut token = [0; 8];
        token.copy_from_slice(&addresses.outbound[..8]);
        Template {
            protocol: (record.inbound.source_port() >> 8) as u8,
            client: IpAddr::V6(addresses.client()).to_canonical(),
            virtual_address: IpAddr::V6(addresses.virtual_address()).to_canonical(),
            port: record.inbound.destination_port(),
            token: u64::from_ne_bytes(token),
        }
    }

    /// Its ends, as LVS lists them. `server` has the port that is configured.
    pub(super) fn ends(&self, server: SocketAddr) -> [SocketAddr; 3] {
        let port = match self.port {
            0 | RETIRED_PORT => self.port,
            _ => server.port(),
        };
        [
            SocketAddr::new(self.client, 0),
            SocketAddr::new(self.virtual_address, self.port),
            SocketAddr::new(server.ip(), port),
        ]
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// What stands in place of a key's ports.
fn ports(protocol: u8, port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [protocol, 0, high, low]
}

/// Templates use fields that only connections need otherwise.
impl Record {
    /// A template under this key: it remembers the server for so many ticks after a connection was opened by it last.
    #[must_use]
    pub fn template(key: FlowKey, mode: Mode, timeout: u32) -> Record {
        let mut record = Record::new(PROTOCOL, mode, key, FlowKey::default());
        record.flags.set(Flags::TEMPLATE, true);
        record.sequence_shift = timeout;
        record
    }

    /// Whether this is a template and no connection.
    #[inline]
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.flags.has(Flags::TEMPLATE)
    }

    /// A template: how long it lives after it was used last, in ticks.
    #[must_use]
    pub fn template_timeout(&self) -> u32 {
        self.sequence_shift
    }

    /// A template: how many connections it holds on their server.
    #[must_use]
    pub fn controlled(&self) -> u32 {
        self.sequence
    }

    /// A template: it has one connection more, or one less.
    pub fn control(&mut self, one_more: bool) {
        self.sequence = if one_more {
            self.sequence.saturating_add(1)
        } else {
            self.sequence.saturating_sub(1)
        };
    }

    /// A template whose time is over while connections hold it: from now on it lives as long as they do, see [`HELD`].
    pub fn hold(&mut self) {
        self.sequence_shift = HELD;
    }

    /// A template: one of its connections has been established.
    pub fn assure(&mut self) {
        self.state |= ASSURED;
    }

    /// A template's state as LVS lists it.
    pub(super) const fn template_state(&self) -> &'static str {
        if self.state & ASSURED != 0 {
            "ASSURED"
        } else {
            "NONE"
        }
    }

    /// A template: it will not be asked any more. It keeps a key that nobody looks for.
    pub(super) fn retire(&mut self) {
        self.state |= RETIRED;
        let [first, second, last] = self.inbound.words();
        let [protocol, ..] = last.to_ne_bytes();
        let last = u32::from_ne_bytes(ports(protocol, RETIRED_PORT));
        self.inbound = FlowKey::from_words([first, second, last]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        Template {
            protocol: 6,
            client: [10, 1, 0, 0].into(),
            virtual_address: [10, 0, 0, 100].into(),
            port: 80,
            token: 0,
        }
    }

    #[test]
    fn each_part_makes_another_key() {
        let digest = AddressDigest::from_seed(1);
        let one = template();
        let v6 = |text: &str| text.parse().unwrap();
        let others = [
            Template { protocol: 17, ..one },
            Template {
                client: [0; 4].into(),
                ..one
            },
            Template {
                virtual_address: [10, 0, 0, 101].into(),
                ..one
            },
            Template { port: 0, ..one },
            Template { token: 1, ..one },
            Template {
                client: v6("2001:db8::"),
                virtual_address: v6("fd00::100"),
                ..one
            },
        ];
        let mut keys: Vec<_> = others.iter().map(|other| other.key(&digest).words()).collect();
        keys.push(one.key(&digest).words());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
        for template in others {
            let record = Record::template(template.key(&digest), Mode::Dr, 5);
            assert!(record.inbound.is_v6(), "its addresses stand beside it");
            assert_eq!(Template::of(&record, &template.addresses()), template);
        }
    }

    #[test]
    fn ends_are_shown_as_lvs_does() {
        let server: SocketAddr = "192.168.1.13:8080".parse().unwrap();
        let shown = |template: &Template| template.ends(server).map(|end| end.to_string());
        let one = template();
        assert_eq!(shown(&one), ["10.1.0.0:0", "10.0.0.100:80", "192.168.1.13:8080"]);
        let mark = Template {
            virtual_address: Template::address_of_mark(1, false),
            port: 0,
            ..one
        };
        assert_eq!(shown(&mark), ["10.1.0.0:0", "0.0.0.1:0", "192.168.1.13:0"]);
        assert_eq!(Template::address_of_mark(1, true).to_string(), "0:1::");
        let mut record = Record::template(one.key(&AddressDigest::from_seed(1)), Mode::Nat, 5);
        record.retire();
        let retired = Template::of(&record, &one.addresses());
        assert_eq!(
            shown(&retired),
            ["10.1.0.0:0", "10.0.0.100:65535", "192.168.1.13:65535"]
        );
        assert_eq!((retired.protocol, record.template_state()), (6, "NONE"));
        record.assure();
        assert_eq!(record.template_state(), "ASSURED");
    }
}
