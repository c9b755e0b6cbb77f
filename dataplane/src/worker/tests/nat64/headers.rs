//! The PROXY protocol between families: a server of the other family is told of its client in the client's own.

use super::super::locals_both::{numbers, segment};
use super::*;
use crate::forward::proxy::{Header, Transport, header};
use crate::service::ClientAddress;

fn header_of(client: SocketAddr, virtual_address: SocketAddr, protocol: Transport) -> Vec<u8> {
    let mut bytes = [0; header::MOST];
    let header = Header {
        client,
        virtual_address,
        protocol,
    };
    let len = header.write(&mut bytes);
    bytes[..len].to_vec()
}

fn gateway() -> Gateway {
    let mut plan = plan(1);
    for slot in 0..plan.services.len() {
        plan.edit(slot, |service| {
            if service.key.protocol() != Some(Protocol::Sctp) {
                service.client_address = ClientAddress::ProxyV2;
            }
        });
    }
    Gateway::new(plan)
}

fn data(packet: &Wire) -> &[u8] {
    match &packet.load {
        Load::Tcp { data, .. } => data,
        other => panic!("no TCP: {other:?}"),
    }
}

#[test]
fn a_stream_begins_with_a_header_of_the_clients_family() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(0x10, 54321), family.vip(80));
        let syn = there(&mut gateway, &segment(client, vip, SYN, (999, 0), b""));
        let (local, server) = (syn.from, syn.to);
        gateway.towards_client(&segment(server, local, SYN | ACK, (7000, 1000), b""));
        let seen = gateway.exchange(WAN, &segment(client, vip, ACK, (1000, 7001), b""));
        let seen: Vec<Wire> = seen.iter().map(Out::wire).collect();
        let header = header_of(client, vip, Transport::Stream);
        let end = 1000 + header.len() as u32;
        assert_eq!(seen.len(), 2, "{seen:#?}");
        assert!(seen.iter().all(|seen| (seen.from, seen.to) == (local, server)));
        assert_eq!(
            (numbers(&seen[0]), data(&seen[0])),
            ((1000, 7001, &[][..]), &header[..])
        );
        assert_eq!(
            (numbers(&seen[1]), data(&seen[1])),
            ((end, 7001, &[][..]), &[][..])
        );
        // The server speaks first, and has not read all of the header yet.
        for acknowledged in [1010, end] {
            let banner = segment(server, local, PSH | ACK, (7001, acknowledged), b"220");
            assert_eq!(numbers(&gateway.towards_client(&banner)).1, 1000);
        }
    }
}

#[test]
fn a_datagram_has_a_header_of_the_clients_family() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(0x10, 54321), family.vip(80));
        let header = header_of(client, vip, Transport::Datagram);
        for payload in [&b""[..], b"query", &[7; 1000]] {
            let seen = gateway.towards_server(&Wire::udp(client, vip, payload));
            let whole = Wire::udp(client, vip, &[&header, payload].concat());
            assert_eq!(seen, across(&whole, seen.from, seen.to, &seen));
            let answer = Wire::udp(seen.to, seen.from, b"answer");
            back(&mut gateway, &answer, vip, client);
        }
    }
}
