use super::*;
use crate::worker::shard::{SHARDS, Shard, ShardKey, ShardMap};
use crate::worker::tests::carried::{cut, link, tagged};
use crate::worker::tests::frames::SYN;
use crate::worker::tests::plan::WAN_MAC;
use crate::worker::tests::wire::Wire;
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::SocketAddr;

/// The key of the RSS specification's verification suite.
const KEY: [u8; RSS_KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Its vectors: source, destination, the hash of the addresses, that with ports.
const VECTORS: [(&str, &str, u32, u32); 8] = [
    (
        "66.9.149.187:2794",
        "161.142.100.80:1766",
        0x323e_8fc2,
        0x51cc_c178,
    ),
    (
        "199.92.111.2:14230",
        "65.69.140.83:4739",
        0xd718_262a,
        0xc626_b0ea,
    ),
    (
        "24.19.198.95:12898",
        "12.22.207.184:38024",
        0xd2d0_a5de,
        0x5c2b_394a,
    ),
    (
        "38.27.205.30:48228",
        "209.142.163.6:2217",
        0x8298_9176,
        0xafc7_327f,
    ),
    (
        "153.39.163.191:44251",
        "202.188.127.2:1303",
        0x5d18_09c5,
        0x10e8_28a2,
    ),
    (
        "[3ffe:2501:200:1fff::7]:2794",
        "[3ffe:2501:200:3::1]:1766",
        0x2cc1_8cd5,
        0x4020_7d3d,
    ),
    (
        "[3ffe:501:8::260:97ff:fe40:efab]:14230",
        "[ff02::1]:4739",
        0x0f0c_461c,
        0xdde5_1bbf,
    ),
    (
        "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
        "[fe80::200:f8ff:fe21:67cf]:38024",
        0x4b61_e985,
        0x02d1_feef,
    ),
];

fn frame(wire: &Wire) -> Vec<u8> {
    link(WAN_MAC, &wire.packet())
}

/// A device whose table of so many entries leads to as many queues.
fn device(key: [u8; RSS_KEY], entries: u16) -> Rss {
    Rss::new(key, entries, |entry| entry)
}

#[test]
fn the_hash_is_that_of_the_published_vectors() {
    let rss = device(KEY, 128);
    for (source, destination, addresses, with_ports) in VECTORS {
        let ends: [SocketAddr; 2] = [source, destination].map(|end| end.parse().unwrap());
        let [from, to] = ends;
        let tcp = Wire::tcp(from, to, SYN, b"");
        for wire in [
            &tcp,
            &Wire::udp(from, to, b"x"),
            &Wire::sctp(from, to, 1, &[0; 16]),
        ] {
            assert_eq!(rss.hash(&frame(wire)), Some(with_ports), "{source}");
            assert_eq!(
                rss.hash(&tagged(5, &frame(wire))),
                Some(with_ports),
                "{source}, tagged"
            );
        }
        let ping = Wire::ping(from.ip(), to.ip(), b"ping");
        assert_eq!(rss.hash(&frame(&ping)), Some(addresses), "{source}");
        // The first fragment has ports, and is hashed like the rest all the same.
        let datagram = Wire::udp(from, to, &[1; 3000]).may_be_cut();
        for piece in cut(&datagram.packet(), 1000) {
            assert_eq!(
                rss.hash(&link(WAN_MAC, &piece)),
                Some(addresses),
                "{source}, a fragment"
            );
        }
    }
}

#[test]
fn what_is_not_ip_or_too_short_arrives_at_the_first_queue() {
    let mut device = Device::Rss(Rss::new(KEY, 128, |_| 3));
    let ends = ["66.9.149.187:2794", "161.142.100.80:1766"].map(|end| end.parse().unwrap());
    let whole = link(WAN_MAC, &Wire::tcp(ends[0], ends[1], SYN, b"").packet());
    assert_eq!(device.queue(&whole), 3);
    for end in 0..38 {
        assert_eq!(device.queue(&whole[..end]), 0, "{end} bytes");
    }
    let mut arp = whole.clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(device.queue(&arp), 0);
}

#[test]
fn key_and_table_can_be_set() {
    let [from, to] = [VECTORS[0].0, VECTORS[0].1].map(|end| end.parse().unwrap());
    let frame = frame(&Wire::tcp(from, to, SYN, b""));
    let hash = VECTORS[0].3;
    for entries in [1u16, 2, 64, 128, 512, 500] {
        let entry = hash % u32::from(entries.next_power_of_two());
        assert_eq!(u32::from(Device::Rss(device(KEY, entries)).queue(&frame)), entry);
    }
    let mut rss = device(KEY, 128);
    rss.set_redirection(|entry| u16::from(u32::from(entry) == hash % 128));
    assert_eq!(Device::Rss(rss.clone()).queue(&frame), 1);
    rss.set_key([0; RSS_KEY]);
    assert_eq!((rss.hash(&frame), Device::Rss(rss).queue(&frame)), (Some(0), 0));
}

#[test]
fn a_random_device_uses_all_queues_and_repeats_itself() {
    let queues = |state| {
        let mut device = Device::Random { queues: 4, state };
        (0..200).map(|_| device.queue(&[])).collect::<Vec<_>>()
    };
    assert_eq!(queues(1), queues(1));
    assert_ne!(queues(1), queues(2));
    assert_eq!(queues(1).into_iter().collect::<HashSet<_>>(), (0..4).collect());
}

proptest! {
    /// With the gateway's keys packets of IPv4 arrive at home, by either end; with a wrong hash at no time.
    #[test]
    fn devices_with_our_keys_bring_packets_home(
        seed in 0u64..4, workers in 2u8..9, ours: (u32, u16), other: (u32, u16), protocol in 0u8..3,
    ) {
        let key = ShardKey::from_seed(seed);
        let map = ShardMap::even(workers);
        let owner_of = |entry: u16| u16::from(map.owner(Shard::from_low_bits(entry.into())));
        let end = |(address, port): (u32, u16)| SocketAddr::new(std::net::Ipv4Addr::from(address).into(), port);
        let (ours, other) = (end(ours), end(other));
        let owner = u16::from(map.owner(key.shard_of(ours.ip(), ours.port())));
        let packet = |from, to| match protocol {
            0 => Wire::tcp(from, to, SYN, b""),
            1 => Wire::udp(from, to, b"x"),
            _ => Wire::sctp(from, to, 1, &[0; 16]),
        };
        let (client_facing, server_facing) = key.rss_keys();
        for (key, packet) in [(client_facing, packet(ours, other)), (server_facing, packet(other, ours))] {
            let rss = Rss::new(key, SHARDS as u16, owner_of);
            prop_assert_eq!(Device::Rss(rss.clone()).queue(&frame(&packet)), owner);
            prop_assert_ne!(Device::WrongHash(rss).queue(&frame(&packet)), owner);
        }
    }
}
