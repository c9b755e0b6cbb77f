//! PROXY v2 in UDP through the pipeline: each datagram of the client has the header, whatever its length.

use super::carried::*;
use super::errors::{error, least_quote, on_the_way, too_big};
use super::exchange::*;
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{ClientAddress, Protocol};
use std::net::{IpAddr, SocketAddr};

/// A gateway with one service with headers in its datagrams, and the ends of one client's connection.
struct Headed {
    gateway: Gateway,
    family: Family,
    client: SocketAddr,
    vip: SocketAddr,
    server: SocketAddr,
}

impl Headed {
    fn new(family: Family) -> Headed {
        Headed::with(family, |_| {})
    }

    fn with(family: Family, change: impl FnOnce(&mut Plan)) -> Headed {
        let mut plan = Plan::dual();
        let servers = vec![family.real(1, Mode::Fullnat, 5353)];
        let slot = plan.add(family.vip(53), Protocol::Udp, servers);
        plan.edit(slot, |service| service.client_address = ClientAddress::ProxyV2);
        change(&mut plan);
        Headed {
            gateway: Gateway::new(plan),
            family,
            client: family.client(1, 40000),
            vip: family.vip(53),
            server: family.server(1, 5353),
        }
    }

    fn says(&self, data: &[u8]) -> Wire {
        Wire::udp(self.client, self.vip, data)
    }

    /// The header, written by hand.
    fn header(&self) -> Vec<u8> {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        let octets = |end: SocketAddr| match end.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        header.extend(match self.family {
            Family::V4 => [0x21, 0x12, 0, 12],
            Family::V6 => [0x21, 0x22, 0, 36],
        });
        header.extend([octets(self.client), octets(self.vip)].concat());
        header.extend([self.client.port().to_be_bytes(), self.vip.port().to_be_bytes()].concat());
        header
    }

    fn len(&self) -> usize {
        self.header().len()
    }

    /// Bytes of the IP and the UDP header.
    fn before(&self) -> usize {
        if self.family == Family::V4 { 28 } else { 48 }
    }

    /// What the server is to get of that datagram, from `local`.
    fn headed(&self, sent: &Wire, local: SocketAddr) -> Wire {
        let mut wire = sent.between(local, self.server).later();
        if let Load::Udp { data, .. } = &mut wire.load {
            *data = [self.header(), std::mem::take(data)].concat();
        }
        wire
    }

    /// Opens the connection; the local end that the server sees.
    fn opened(&mut self) -> SocketAddr {
        let sent = self.says(b"first");
        self.gateway.towards_server(&sent).from
    }
}

/// Every datagram has it, and no answer; without a checksum it has none either.
#[test]
fn each_datagram_carries_the_header() {
    for family in Family::BOTH {
        let mut headed = Headed::new(family);
        let local = headed.opened();
        for data in [&b""[..], b"odd", b"even", &[7; 1200]] {
            let sent = headed.says(data);
            let seen = headed.gateway.towards_server(&sent);
            assert_eq!(seen, headed.headed(&sent, local));
            let answer = Wire::udp(headed.server, local, data);
            let expected = answer.between(headed.vip, headed.client).later();
            assert_eq!(headed.gateway.towards_client(&answer), expected);
        }
        if family == Family::V4 {
            let mut sent = headed.says(b"unsummed");
            if let Load::Udp { summed, .. } = &mut sent.load {
                *summed = false;
            }
            let seen = headed.gateway.towards_server(&sent);
            assert_eq!(seen, headed.headed(&sent, local));
        }
        let sent = headed.says(b"options").with_between(match family {
            Family::V4 => &[1; 8],
            Family::V6 => &[60, 0, 1, 4, 0, 0, 0, 0],
        });
        let seen = headed.gateway.towards_server(&sent);
        assert_eq!(seen, headed.headed(&sent, local));
    }
}

/// Over all values of one word, so that the checksum takes all of them as well.
#[test]
fn no_right_checksum_turns_into_none() {
    let mut headed = Headed::new(Family::V4);
    for value in (0..=u16::MAX).step_by(5) {
        let sent = headed.says(&value.to_be_bytes());
        let seen = headed.gateway.towards_server(&sent);
        assert!(matches!(seen.load, Load::Udp { summed: true, .. }), "{value}");
    }
}

/// A connection keeps what it began with, and other services have no headers.
#[test]
fn a_changed_setting_is_for_new_connections() {
    for family in Family::BOTH {
        let mut headed = Headed::new(family);
        let local = headed.opened();
        headed
            .gateway
            .change_raw(|plan| plan.edit(0, |service| service.client_address = ClientAddress::None));
        let sent = headed.says(b"known");
        let seen = headed.gateway.towards_server(&sent);
        assert_eq!(seen, headed.headed(&sent, local));
        let other = Wire::udp(family.client(2, 40000), headed.vip, b"new");
        let seen = headed.gateway.towards_server(&other);
        assert_eq!(seen.data(), b"new");
    }
}

/// Servers of the other modes see their client anyway, and get no header.
#[test]
fn other_modes_have_no_header() {
    for mode in [Mode::Nat, Mode::Dr] {
        let mut headed = Headed::with(Family::V4, |plan| {
            plan.edit(0, |service| service.servers[0].mode = mode);
        });
        let sent = headed.says(b"plain");
        let seen = headed.gateway.pass_on(WAN, &sent).wire();
        assert_eq!(seen.data(), b"plain");
    }
}

/// The longest datagram that fits with its header goes; of one byte more the sender hears how much would have gone, about
/// the datagram that it has sent.
#[test]
fn what_must_stay_whole_is_told_of_an_mtu_with_room() {
    for family in Family::BOTH {
        for mtu in [1400, 1500] {
            let mut headed = Headed::with(family, |plan| plan.set_mtu(LAN, mtu));
            let room = usize::from(mtu) - headed.len();
            let fits = headed.says(&vec![7; room - headed.before()]);
            let seen = headed.gateway.towards_server(&fits);
            assert_eq!(seen.packet().len(), usize::from(mtu));
            assert_eq!(seen, headed.headed(&fits, seen.from));

            let longer = headed.says(&vec![7; room + 1 - headed.before()]);
            let dropped = headed.gateway.drops(DropReason::ExceedsMtu);
            let told = headed.gateway.told(&longer);
            assert_eq!(told.message(), too_big(family, room as u32));
            assert_eq!(quoted(told.data()), (headed.client, headed.vip));
            let own = longer.later().packet();
            assert!(own.starts_with(told.data()) || own[..500] == told.data()[..500]);
            assert_eq!(headed.gateway.drops(DropReason::ExceedsMtu), dropped + 1);
        }
    }
}

/// Over IPv4 without DF it goes in fragments. So does what IPv6 may not be told to make smaller.
#[test]
fn what_may_be_cut_is_cut() {
    let four = (Family::V4, 1500, 1500 - 28);
    let least = (Family::V6, 1280, 1280 - 48);
    for (family, mtu, len) in [four, least] {
        let mut headed = Headed::with(family, |plan| plan.set_mtu(LAN, mtu));
        let sent = headed.says(&vec![7; len]).may_be_cut();
        let out = headed.gateway.exchange(WAN, &sent);
        assert_eq!(out.len(), 2);
        let packets: Vec<_> = out.into_iter().map(|out| out.packet).collect();
        assert!(packets.iter().all(|packet| packet.len() <= usize::from(mtu)));
        let mut seen = Wire::read(&assemble(&packets));
        if family == Family::V4 {
            // Fragments from a shared address have an identification of the gateway's.
            seen.label = sent.label;
        }
        assert_eq!(seen, headed.headed(&sent, seen.from));
    }
}

/// What came in fragments goes in fragments no longer than they were, with one header in the first; also where the
/// datagram itself would fit the link.
#[test]
fn a_datagram_in_fragments_carries_one_header() {
    for family in Family::BOTH {
        for (len, step) in [(3000, 1400), (3000, 1448), (1300, 1240)] {
            let mut headed = Headed::new(family);
            let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let sent = headed.says(&data).may_be_cut();
            let pieces = cut(&sent.packet(), step);
            let mut out = Vec::new();
            for piece in &pieces {
                headed.gateway.come(WAN, piece);
                out.extend(headed.gateway.out());
            }
            let packets: Vec<_> = out.into_iter().map(|out| out.packet).collect();
            let longest = packets.iter().map(Vec::len).max().unwrap();
            assert!(packets.len() > 1 && longest <= pieces[0].len(), "{longest}");
            let mut seen = Wire::read(&assemble(&packets));
            if family == Family::V4 {
                seen.label = sent.label;
            }
            assert_eq!(seen, headed.headed(&sent, seen.from));
        }
    }
}

/// A datagram of nearly all that can be put together has room for a header.
#[test]
fn the_longest_datagrams_have_room() {
    for family in Family::BOTH {
        let mut headed = Headed::new(family);
        let sent = headed.says(&[7; 65_000]).may_be_cut();
        let mut out = Vec::new();
        for piece in cut(&sent.packet(), 1400) {
            headed.gateway.come(WAN, &piece);
            out.extend(headed.gateway.out());
        }
        let packets: Vec<_> = out.into_iter().map(|out| out.packet).collect();
        let mut seen = Wire::read(&assemble(&packets));
        if family == Family::V4 {
            seen.label = sent.label;
        }
        assert!(
            seen == headed.headed(&sent, seen.from),
            "{} bytes",
            seen.data().len()
        );
    }
}

/// A router behind the gateway, or the server itself, says how much it takes: the client hears of the header's length
/// less, and is shown the datagram that it has sent.
#[test]
fn errors_from_the_servers_side_speak_of_what_the_client_sent() {
    for family in Family::BOTH {
        let mut headed = Headed::new(family);
        let local = headed.opened();
        let sent = headed.says(&[7; 1300]);
        let grown = headed.headed(&sent, local);
        let own = sent.later().packet();
        let len = headed.len();
        let unreachable = if family == Family::V4 {
            (3, 3, 0)
        } else {
            (1, 4, 0)
        };
        let less = (1400 - len) as u32;
        for (message, told) in [
            (unreachable, unreachable),
            (too_big(family, 1400), too_big(family, less)),
        ] {
            for quote in [8, 20, 8 + len, 8 + len + 1, 500, 1308 + len] {
                let quote = &grown.packet()[..headed.before() - 8 + quote];
                let from = family.server(7, 0).ip();
                let seen = headed
                    .gateway
                    .towards_client(&error(from, local.ip(), message, quote));
                assert_eq!(
                    (seen.from.ip(), seen.to.ip()),
                    (headed.vip.ip(), headed.client.ip())
                );
                assert_eq!(seen.message(), told);
                assert_eq!(quoted(seen.data()), (headed.client, headed.vip));
                // Its own, up to where the quote reaches: lengths, checksums, data.
                let reach = headed.before() + quote.len().saturating_sub(headed.before() + len);
                assert_eq!(seen.data(), &own[..reach], "{} quoted", quote.len());
            }
        }
    }
}

/// What stands behind a quote (RFC 4884) stays where it is, and a quote without a header stays as it is.
#[test]
fn quotes_with_extensions_and_quotes_of_strangers_keep_their_length() {
    for family in Family::BOTH {
        let mut headed = Headed::new(family);
        let local = headed.opened();
        let sent = headed.says(&[7; 300]);
        let grown = headed.headed(&sent, local).packet();
        let from = family.server(7, 0).ip();
        let (message, own) = match family {
            Family::V4 => ((3, 3, 32 << 16), sent.later().packet()),
            Family::V6 => ((1, 4, 16 << 24), sent.later().packet()),
        };
        let extension = [0x20, 0, 0, 0, 0, 8, 1, 1, 0, 1, 2, 3];
        let quote = [&grown[..128], &extension].concat();
        let seen = headed
            .gateway
            .towards_client(&error(from, local.ip(), message, &quote));
        let kept = 128 - headed.len();
        assert_eq!(seen.data()[..kept], own[..kept]);
        assert_eq!(seen.data()[kept..128], vec![0; headed.len()]);
        assert_eq!(seen.data()[128..], extension);

        let stranger = Wire::udp(local, headed.server, &[7; 100]).packet();
        let seen =
            headed
                .gateway
                .towards_client(&error(from, local.ip(), (message.0, message.1, 0), &stranger));
        assert_eq!(seen.data().len(), stranger.len());
    }
}

/// An answer that is too big for the client's path: the server has sent it without a header, and hears so.
#[test]
fn errors_from_the_clients_side_stay_as_they_are() {
    for family in Family::BOTH {
        let mut headed = Headed::new(family);
        let local = headed.opened();
        let about = Wire::udp(headed.vip, headed.client, &[7; 1400]);
        let message = too_big(family, 1400);
        let sent = error(on_the_way(family), headed.vip.ip(), message, &least_quote(&about));
        let seen = headed.gateway.towards_server(&sent);
        assert_eq!(seen.message(), message);
        assert_eq!(quoted(seen.data()), (headed.server, local));
    }
}
