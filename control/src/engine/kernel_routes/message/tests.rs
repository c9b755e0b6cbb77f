//! Answers of Linux 6.x to RTM_GETROUTE with NLM_F_DUMP, byte for byte, in a namespace whose wan0 was device 3 and whose
//! lan0 was device 5, each in the words of `ip route` that made it.

use super::*;

const WAN: PortId = PortId(0);
const LAN: PortId = PortId(1);

/// `default via 10.0.0.254 metric 50`, by lan0.
const DEFAULT_50: &str =
    "02000000fe0300010000000008000f00fe0000000800060032000000080005000a0000fe0800040005000000";
/// `default via 203.0.113.1 metric 100`, by wan0.
const DEFAULT_100: &str =
    "02000000fe0300010000000008000f00fe000000080006006400000008000500cb0071010800040003000000";
/// `198.51.100.0/24 metric 20 nexthop via 203.0.113.11 weight 1 nexthop via 203.0.113.12 weight 3 nexthop via
/// 10.0.0.254`.
const THREE: &str = "02180000fe0300010000000008000f00fe00000008000100c63364000800060014000000340009001000000003000000080005\
                     00cb00710b100000020300000008000500cb00710c1000000005000000080005000a0000fe";
/// `10.7.0.0/16 dev wan0`.
const ON_LINK: &str = "02100000fe03fd010000000008000f00fe000000080001000a0700000800040003000000";
/// `10.9.0.0/16 via 203.0.113.9 table 100`.
const TABLE_100: &str =
    "02100000640300010000000008000f0064000000080001000a09000008000500cb0071090800040003000000";
/// `10.6.0.0/16 via 203.0.113.9 tos 0x10`.
const TOS: &str = "02100010fe0300010000000008000f00fe000000080001000a06000008000500cb0071090800040003000000";
/// `10.8.0.0/16 via inet6 fe80::8 dev wan0`.
const VIA_INET6: &str = "02100000fe0300010000000008000f00fe000000080001000a080000160012000a00fe800000000000000000000000000008\
                         00000800040003000000";
/// `blackhole 192.0.2.0/24`.
const BLACKHOLE: &str = "02180000fe0300060000000008000f00fe00000008000100c0000200";
/// `2001:db8:c::/48 nexthop via fe80::11 dev wan0 nexthop via fe80::12 dev wan0 weight 4`.
const SIX: &str = "0a300000fe0300010000000008000f00fe0000001400010020010db8000c0000000000000000000008000600000400003c0009001c\
                   0000000300000014000500fe8000000000000000000000000000111c0000030300000014000500fe8000000000000000000000\
                   0000001224000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000";
/// `fe80::/64 dev wan0`, of the kernel.
const LINK_LOCAL: &str = "0a400000fe0200010000000008000f00fe00000014000100fe800000000000000000000000000000080006000001000008000400\
                          0300000024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn collector(table: u32, ports: &[(u32, PortId)]) -> Collector {
    Collector::new(table, ports.iter().copied().collect())
}

fn ours() -> Collector {
    collector(254, &[(3, WAN), (5, LAN)])
}

/// What remains of these messages, as text.
fn taken(mut collector: Collector, messages: &[Vec<u8>]) -> Vec<String> {
    for message in messages {
        collector.take(NEW_ROUTE, message);
    }
    let hop = |hop: LearntHop| {
        let via = hop.via.map_or_else(|| "link".to_owned(), |via| via.to_string());
        format!("{via} port {} weight {}", hop.port.0, hop.weight)
    };
    let routes = collector.routes().into_iter();
    routes
        .map(|route| {
            let hops: Vec<String> = route.hops.into_iter().map(hop).collect();
            format!("{}: {}", route.to, hops.join(", "))
        })
        .collect()
}

#[test]
fn routes_are_read_with_all_their_next_hops() {
    let messages = [SIX, THREE, ON_LINK, DEFAULT_100].map(bytes);
    assert_eq!(
        taken(ours(), &messages),
        [
            "0.0.0.0/0: 203.0.113.1 port 0 weight 1",
            "10.7.0.0/16: link port 0 weight 1",
            "198.51.100.0/24: 203.0.113.11 port 0 weight 1, 203.0.113.12 port 0 weight 3, 10.0.0.254 port 1 weight 1",
            "2001:db8:c::/48: fe80::11 port 0 weight 1, fe80::12 port 0 weight 4",
        ]
    );
}

#[test]
fn the_lowest_metric_counts_in_whatever_order_they_come() {
    for messages in [[DEFAULT_50, DEFAULT_100], [DEFAULT_100, DEFAULT_50]] {
        let found = taken(ours(), &messages.map(bytes));
        assert_eq!(found, ["0.0.0.0/0: 10.0.0.254 port 1 weight 1"]);
    }
    // A better one that leaves by a device that is none of ours does not count at all.
    let found = taken(
        collector(254, &[(3, WAN)]),
        &[DEFAULT_50, DEFAULT_100, THREE].map(bytes),
    );
    let three = "198.51.100.0/24: 203.0.113.11 port 0 weight 1, 203.0.113.12 port 0 weight 3";
    assert_eq!(found, ["0.0.0.0/0: 203.0.113.1 port 0 weight 1", three]);
}

#[test]
fn what_is_no_plain_unicast_route_of_the_table_is_left_out() {
    let strange = [TABLE_100, TOS, VIA_INET6, BLACKHOLE, LINK_LOCAL].map(bytes);
    assert_eq!(taken(ours(), &strange), Vec::<String>::new());
    let other = collector(100, &[(3, WAN)]);
    assert_eq!(
        taken(other, &strange),
        ["10.9.0.0/16: 203.0.113.9 port 0 weight 1"]
    );
    let mut collector = ours();
    collector.take(NEW_ROUTE + 1, &bytes(ON_LINK));
    assert_eq!(collector.routes(), []);
}

#[test]
fn a_dead_next_hop_is_left_out() {
    for dead in [1, 16] {
        let mut three = bytes(THREE);
        // The flags of the first next hop, behind header, table, destination, metric, and the head of the list.
        let at = HEADER + 3 * 8 + 4 + 2;
        three[at] = dead;
        let found = taken(ours(), &[three]);
        let left = "198.51.100.0/24: 203.0.113.12 port 0 weight 3, 10.0.0.254 port 1 weight 1";
        assert_eq!(found, [left]);
        let mut one = bytes(DEFAULT_50);
        one[8] = dead;
        assert_eq!(taken(ours(), &[one]), Vec::<String>::new());
    }
}

#[test]
fn messages_cut_short_are_no_routes_and_do_no_harm() {
    for whole in [DEFAULT_50, THREE, SIX, VIA_INET6].map(bytes) {
        for len in 0..whole.len() {
            for route in taken(ours(), &[whole[..len].to_vec()]) {
                assert!(route.contains(" port "), "{route}");
            }
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            taken(ours(), &[changed]);
        }
    }
}
