//! Sequence numbers and client addresses: what FULLNAT does to TCP holds between families too.

use super::super::locals_both::{numbers, segment};
use super::*;
use crate::flow::{Flags, RecordId};
use crate::service::ClientAddress;
use proptest::prelude::*;

/// A connection on a recycled port is shown to the server above the old one's numbers and without timestamps; its client
/// sees its own.
#[test]
fn a_recycled_port_is_a_new_connection_to_the_server() {
    for family in CLIENTS {
        let mut plan = plan(1);
        plan.use_locals(both_pool(1, 10_000, 10_000));
        let mut gateway = Gateway::new(plan);
        let (old, new, vip) = (family.client(1, 1024), family.client(2, 1024), family.vip(80));
        let first = gateway.towards_server(&segment(old, vip, SYN, (899_999_994, 0), b""));
        let (local, server) = (first.from, first.to);
        gateway.towards_client(&segment(server, local, SYN | ACK, (1, 899_999_995), b""));
        gateway.towards_server(&segment(old, vip, PSH | ACK, (899_999_995, 2), b"data"));
        gateway.towards_client(&segment(server, local, FIN | ACK, (2, 899_999_999), b""));
        gateway.towards_server(&segment(old, vip, FIN | ACK, (899_999_999, 3), b""));

        let initial = 5;
        let timestamps = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1];
        let syn = segment(new, vip, SYN, (initial, 0), b"").with_options(&timestamps);
        let shown = gateway.towards_server(&syn);
        assert_eq!((shown.from, shown.to), (local, server));
        let (sequence, _, options) = numbers(&shown);
        assert_eq!(options, [1; 12]);
        assert!((1..0x8000_0000).contains(&sequence.wrapping_sub(900_000_000)));
        let shift = sequence - initial;
        let reply = segment(server, local, SYN | ACK, (70, sequence + 1), b"");
        let reply = gateway.towards_client(&reply);
        assert_eq!((reply.from, reply.to), (vip, new));
        assert_eq!(numbers(&reply), (70, initial + 1, &[][..]));
        let data = gateway.towards_server(&segment(new, vip, PSH | ACK, (initial + 1, 71), b"get"));
        assert_eq!(numbers(&data), (sequence + 1, 71, &[][..]));
        let sack = |by: u32| {
            let edge = |at: u32| (initial + at + by).to_be_bytes();
            [&[1, 1, 5, 10][..], &edge(100), &edge(200)].concat()
        };
        let reply = segment(server, local, ACK, (71, sequence + 4), b"").with_options(&sack(shift));
        let reply = gateway.towards_client(&reply);
        assert_eq!(numbers(&reply), (71, initial + 4, &sack(0)[..]));
        let recycled = gateway.worker.locals.addresses().map(|address| address.recycled);
        assert_eq!((recycled.sum::<u64>(), gateway.connections().len()), (1, 1));
    }
}

/// A gateway that tells servers of clients, and a connection whose client has not acknowledged the SYN-ACK yet.
fn told(family: Family, mtu: u16) -> (Gateway, [SocketAddr; 4], Wire) {
    let mut plan = plan(1);
    plan.set_mtu(WAN, 9000);
    plan.set_mtu(LAN, mtu);
    for slot in 0..plan.services.len() {
        plan.edit(slot, |service| service.client_address = ClientAddress::Toa);
    }
    let mut gateway = Gateway::new(plan);
    let (client, vip) = (family.client(0x10, 54321), family.vip(80));
    let syn = there(&mut gateway, &segment(client, vip, SYN, (999, 0), b""));
    let (local, server) = (syn.from, syn.to);
    let answer = segment(server, local, SYN | ACK, (7000, 1000), b"").with_options(&[2, 4, 5, 0xa0]);
    let answer = gateway.towards_client(&answer);
    (gateway, [client, vip, local, server], answer)
}

fn option_of(client: SocketAddr) -> Vec<u8> {
    let port = client.port().to_be_bytes();
    match client.ip() {
        std::net::IpAddr::V4(address) => [&[254, 8], &port[..], &address.octets()].concat(),
        std::net::IpAddr::V6(address) => [&[254, 20], &port[..], &address.octets()].concat(),
    }
}

/// NAT64-01: the server is told the client's own address and port, of the client's family, in network order; once.
#[test]
fn nat64_01_the_option_has_the_clients_own_family() {
    for family in CLIENTS {
        let (mut gateway, [client, vip, local, server], answer) = told(family, 1500);
        let option = option_of(client);
        assert_eq!(option[2..4], [0xd4, 0x31]);
        let mss = 1440 - option.len() as u16;
        assert_eq!(numbers(&answer).2, [&[2, 4][..], &mss.to_be_bytes()].concat());
        let ack = segment(client, vip, ACK, (1000, 7001), b"");
        let seen = gateway.towards_server(&ack);
        assert_eq!(seen, across(&ack, local, server, &seen).with_options(&option));
        back(
            &mut gateway,
            &segment(server, local, PSH | ACK, (7001, 1000), b"page"),
            vip,
            client,
        );
        there(&mut gateway, &segment(client, vip, ACK, (1000, 7005), b""));
        assert_eq!(
            (gateway.stats.toa_added.get(), gateway.stats.toa_no_room.get()),
            (1, 0)
        );
    }
}

/// The longest segment that has room for the option on the other side gets it, and one byte more does not.
#[test]
fn the_option_fits_the_link_of_the_other_family() {
    for family in CLIENTS {
        for mtu in [1400, 1500] {
            let (mut gateway, [client, vip, local, server], _) = told(family, mtu);
            let option = option_of(client);
            let headers = if family == Family::V4 { 60 } else { 40 };
            let room = usize::from(mtu) - headers - option.len();
            for (length, fits) in [(room, true), (room + 1, false)] {
                let data = segment(client, vip, ACK, (1000, 7001), &vec![7; length]);
                let seen = gateway.towards_server(&data);
                let mut expected = across(&data, local, server, &seen);
                if fits {
                    expected = expected.with_options(&option);
                }
                assert_eq!(seen, expected, "{family:?} {mtu} {length}");
            }
            let counts = (gateway.stats.toa_added.get(), gateway.stats.toa_no_room.get());
            assert_eq!(counts, (1, 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A shift and its checksums, whatever stands around them.
    #[test]
    fn shifted_segments_go_on_as_the_model_says(
        v6: bool, inbound: bool, flags in 8u8..32, at: (u32, u32), shift: u32, strip: bool,
        data in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let mut gateway = gateway();
        let (client, vip) = (family.client(1, 1024), family.vip(80));
        let (local, server) = gateway.open_both(client, vip);
        let record = gateway.worker.table.get_mut(RecordId(1));
        record.sequence_shift = shift;
        record.flags.set(Flags::STRIP_TIMESTAMPS, strip);
        let (seen, expected) = if inbound {
            let seen = gateway.towards_server(&segment(client, vip, flags, at, &data));
            let expected = segment(client, vip, flags, (at.0.wrapping_add(shift), at.1), &data);
            (seen.clone(), across(&expected, local, server, &seen))
        } else {
            let by = if flags & ACK != 0 { shift } else { 0 };
            let seen = gateway.towards_client(&segment(server, local, flags, at, &data));
            let expected = segment(server, local, flags, (at.0, at.1.wrapping_sub(by)), &data);
            (seen.clone(), across(&expected, vip, client, &seen))
        };
        prop_assert_eq!(seen, expected);
    }
}
