//! SCTP through the pipeline: associations in both families, address lists, packets out of the blue.

use super::exchange::*;
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{NoService, Protocol};
use std::net::{IpAddr, SocketAddr};

const CLIENT_TAG: u32 = 0x1111_2222;
const SERVER_TAG: u32 = 0x3333_4444;

/// A chunk, padded to whole words.
pub(super) fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend((4 + value.len() as u16).to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// INIT, with parameters.
pub(super) fn init(parameters: &[u8]) -> Vec<u8> {
    let fixed = [
        &CLIENT_TAG.to_be_bytes()[..],
        &[0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 1],
    ]
    .concat();
    chunk(1, 0, &[&fixed, parameters].concat())
}

/// INIT ACK, with parameters behind the cookie.
fn init_ack(parameters: &[u8]) -> Vec<u8> {
    let fixed = [
        &SERVER_TAG.to_be_bytes()[..],
        &[0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 1],
        &[0, 7, 0, 8, 1, 2, 3, 4],
    ];
    chunk(2, 0, &[&fixed.concat(), parameters].concat())
}

/// DATA: TSN, stream, sequence and protocol before the user's bytes.
pub(super) fn data(user: &[u8]) -> Vec<u8> {
    chunk(0, 3, &[&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], user].concat())
}

/// An address parameter.
fn listed(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => [&[0, 5, 0, 8][..], &address.octets()].concat(),
        IpAddr::V6(address) => [&[0, 6, 0, 20][..], &address.octets()].concat(),
    }
}

/// Opens an association; what the server takes for its client, and the server.
fn associate(gateway: &mut Gateway, client: SocketAddr, vip: SocketAddr) -> (SocketAddr, SocketAddr) {
    let shown = gateway.towards_server(&Wire::sctp(client, vip, 0, &init(&[])));
    let (local, server) = (shown.from, shown.to);
    for (from_client, tag, chunks) in [
        (false, CLIENT_TAG, init_ack(&[])),
        (true, SERVER_TAG, chunk(10, 0, &[1, 2, 3, 4])),
        (false, CLIENT_TAG, chunk(11, 0, &[])),
    ] {
        if from_client {
            gateway.towards_server(&Wire::sctp(client, vip, tag, &chunks));
        } else {
            let seen = gateway.towards_client(&Wire::sctp(server, local, tag, &chunks));
            assert_eq!((seen.from, seen.to), (vip, client));
        }
    }
    assert_eq!(gateway.states(), ["ESTABLISHED"]);
    (local, server)
}

fn modes() -> [(Family, Mode); 4] {
    [
        (Family::V4, Mode::Nat),
        (Family::V6, Mode::Nat),
        (Family::V4, Mode::Fullnat),
        (Family::V6, Mode::Fullnat),
    ]
}

fn gateway(family: Family, mode: Mode) -> Gateway {
    let mut plan = Plan::dual();
    plan.add(family.vip(80), Protocol::Sctp, vec![family.real(1, mode, 8080)]);
    Gateway::new(plan)
}

/// CSUM-06: the CRC is computed over exactly the packet that is sent, whatever its length. Reading verifies it.
#[test]
fn every_length_of_data_has_its_crc_both_ways() {
    for (family, mode) in modes() {
        let mut gateway = gateway(family, mode);
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let (local, server) = associate(&mut gateway, client, vip);
        let most = if family == Family::V4 { 1452 } else { 1432 };
        for length in (1..=most).step_by(47).chain([most]) {
            let there = Wire::sctp(client, vip, SERVER_TAG, &data(&vec![length as u8; length]));
            assert_eq!(
                gateway.towards_server(&there),
                there.between(local, server).later()
            );
            let back = Wire::sctp(server, local, CLIENT_TAG, &data(&vec![length as u8; length]));
            assert_eq!(gateway.towards_client(&back), back.between(vip, client).later());
        }
        assert_eq!(gateway.states(), ["ESTABLISHED"]);
    }
}

/// A wrong CRC would be hidden by a new one: such a packet ends here where it would get one, and goes on where not.
#[test]
fn a_wrong_crc_is_not_mended() {
    for (mode, family) in [Mode::Nat, Mode::Dr]
        .into_iter()
        .flat_map(|mode| Family::BOTH.map(|f| (mode, f)))
    {
        let mut plan = Plan::dual();
        plan.add(family.vip(80), Protocol::Sctp, vec![family.real(1, mode, 80)]);
        let mut gateway = Gateway::new(plan);
        let mut packet = Wire::sctp(family.client(1, 40000), family.vip(80), 0, &init(&[])).packet();
        *packet.last_mut().unwrap() ^= 1;
        gateway.come(WAN, &packet);
        let (dropped, sent) = gateway.dropped_by(Gateway::turn_raw);
        match mode {
            Mode::Nat => assert_eq!((dropped, sent.len()), (Some((DropReason::BadL4Checksum, 1)), 0)),
            _ => assert_eq!((dropped, sent.len()), (None, 1)),
        }
    }
}

/// SCTP-01: an INIT on an open association is translated as the first one was, and neither side is shown the
/// addresses that the other has listed.
#[test]
fn a_new_init_on_an_open_association_is_translated_and_lists_nobody() {
    for (family, mode) in modes() {
        let mut gateway = gateway(family, mode);
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let (local, server) = associate(&mut gateway, client, vip);
        let secret = [
            family.client(77, 0).ip(),
            family.server(1, 0).ip(),
            family.server(8, 0).ip(),
        ];
        let parameters = secret.map(listed).concat();
        let holds = |chunks: &[u8]| {
            secret.iter().any(|address| {
                let parameter = listed(*address);
                chunks.windows(parameter.len()).any(|window| window == parameter)
            })
        };

        let again = Wire::sctp(client, vip, 0, &init(&parameters));
        assert!(holds(again.data()));
        let seen = gateway.towards_server(&again);
        assert_eq!((seen.from, seen.to), (local, server));
        assert!(!holds(seen.data()), "{seen:02x?}");
        assert_eq!(
            (seen.data().len(), &seen.data()[..20]),
            (again.data().len(), &again.data()[..20])
        );

        let answer = Wire::sctp(server, local, CLIENT_TAG, &init_ack(&parameters));
        let seen = gateway.towards_client(&answer);
        assert_eq!((seen.from, seen.to), (vip, client));
        assert!(!holds(seen.data()), "{seen:02x?}");
        // The cookie is the server's own, and comes back as it is.
        assert_eq!(seen.data()[..28], answer.data()[..28]);
        assert_eq!(gateway.connections().len(), 1);

        gateway.towards_server(&Wire::sctp(client, vip, SERVER_TAG, &chunk(10, 0, &[1, 2, 3, 4])));
        gateway.towards_client(&Wire::sctp(server, local, CLIENT_TAG, &chunk(11, 0, &[])));
        assert_eq!(gateway.states(), ["ESTABLISHED"]);
    }
}

/// SCTP-03: only INIT opens an association. What comes out of the blue is answered by ABORT with the tag that it
/// carried, or not at all where that is the policy.
#[test]
fn nothing_but_init_opens_an_association() {
    let out_of_the_blue = [data(b"data"), chunk(4, 0, &[0, 1, 0, 4]), chunk(3, 0, &[0; 12])];
    for (family, mode) in modes() {
        for policy in [NoService::Reject, NoService::Drop] {
            let mut gateway = gateway(family, mode);
            gateway.change_raw(|plan| plan.settings.no_service = policy);
            let (client, vip) = (family.client(1, 40000), family.vip(80));
            for (number, chunks) in (0..).zip(&out_of_the_blue) {
                let tag = 0xabcd_0000 + number;
                let packet = Wire::sctp(client, vip, tag, chunks);
                let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet));
                assert_eq!(dropped, Some((DropReason::NotInit, 1)));
                match policy {
                    NoService::Drop => assert_eq!(sent, []),
                    NoService::Reject => {
                        let abort = only(sent).wire();
                        let expected = Wire::sctp(vip, client, tag, &chunk(6, 1, &[]));
                        assert_eq!((abort.from, abort.to, abort.load), (vip, client, expected.load));
                    }
                }
            }
            let abort = Wire::sctp(client, vip, 7, &chunk(6, 0, &[]));
            assert_eq!(gateway.exchange(WAN, &abort), [], "an ABORT is never answered");
            assert_eq!(gateway.connections(), []);
        }
    }
}

/// An association ends as it began: SHUTDOWN, SHUTDOWN ACK, SHUTDOWN COMPLETE.
#[test]
fn an_association_is_shut_down() {
    for (family, mode) in modes() {
        let mut gateway = gateway(family, mode);
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let (local, server) = associate(&mut gateway, client, vip);
        gateway.towards_server(&Wire::sctp(client, vip, SERVER_TAG, &chunk(7, 0, &[0, 0, 0, 1])));
        gateway.towards_client(&Wire::sctp(server, local, CLIENT_TAG, &chunk(8, 0, &[])));
        gateway.towards_server(&Wire::sctp(client, vip, SERVER_TAG, &chunk(14, 0, &[])));
        assert_eq!(gateway.states(), ["CLOSED"]);
    }
}
