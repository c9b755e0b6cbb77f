use super::*;
use proptest::prelude::*;

const WAN: PortId = PortId(0);
const LAN: PortId = PortId(1);

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn connected() -> [Connected; 2] {
    [
        Connected {
            port: WAN,
            prefix: prefix("203.0.113.0/24"),
        },
        Connected {
            port: LAN,
            prefix: prefix("10.0.0.0/24"),
        },
    ]
}

fn route(to: &str, via: &str) -> Route {
    Route {
        to: prefix(to),
        via: ip(via),
        port: None,
        weight: 1,
    }
}

fn hop(port: PortId, address: &str) -> Option<NextHop> {
    Some(NextHop {
        port,
        address: ip(address),
    })
}

#[test]
fn nothing_leads_to_what_is_unreachable_but_by_a_longer_prefix() {
    let routes = [
        route("0.0.0.0/0", "203.0.113.1"),
        route("10.1.2.3/32", "10.0.0.252"),
    ];
    let unreachable = ["10.0.0.11/32", "10.1.0.0/16"].map(prefix);
    let table = RouteTable::new(&connected(), &routes, &unreachable).unwrap();
    assert_eq!(table.next_hop(ip("10.0.0.11")), None);
    assert_eq!(table.next_hop(ip("10.0.0.12")), hop(LAN, "10.0.0.12"));
    assert_eq!(table.next_hop(ip("10.1.2.4")), None);
    assert_eq!(table.next_hop(ip("10.1.2.3")), hop(LAN, "10.0.0.252"));
    assert_eq!(table.next_hop(ip("10.2.0.1")), hop(WAN, "203.0.113.1"));
}

#[test]
fn the_longest_prefix_wins() {
    let routes = [
        route("0.0.0.0/0", "203.0.113.1"),
        route("10.0.0.0/8", "10.0.0.254"),
        route("10.1.0.0/16", "10.0.0.253"),
        route("10.1.2.3/32", "10.0.0.252"),
    ];
    let table = RouteTable::new(&connected(), &routes, &[]).unwrap();
    assert_eq!(table.next_hop(ip("8.8.8.8")), hop(WAN, "203.0.113.1"));
    assert_eq!(table.next_hop(ip("10.0.0.7")), hop(LAN, "10.0.0.7"));
    assert_eq!(table.next_hop(ip("10.0.1.7")), hop(LAN, "10.0.0.254"));
    assert_eq!(table.next_hop(ip("10.1.2.2")), hop(LAN, "10.0.0.253"));
    assert_eq!(table.next_hop(ip("10.1.2.3")), hop(LAN, "10.0.0.252"));
    assert_eq!(table.next_hop(ip("10.1.2.4")), hop(LAN, "10.0.0.253"));
    assert_eq!(table.next_hop(ip("10.255.255.255")), hop(LAN, "10.0.0.254"));
    assert_eq!(table.next_hop(ip("11.0.0.0")), hop(WAN, "203.0.113.1"));
    assert_eq!(table.on_link(ip("10.0.0.7")), Some(LAN));
    assert_eq!(table.on_link(ip("10.0.1.7")), None);
}

#[test]
fn without_a_default_gateway_the_rest_has_no_route() {
    let table = RouteTable::new(&connected(), &[], &[]).unwrap();
    assert_eq!(table.next_hop(ip("203.0.113.9")), hop(WAN, "203.0.113.9"));
    assert_eq!(table.next_hop(ip("203.0.114.9")), None);
    assert_eq!(RouteTable::default().next_hop(ip("203.0.113.1")), None);
}

#[test]
fn broadcasts_and_martians_have_no_next_hop() {
    let table = RouteTable::new(&connected(), &[route("0.0.0.0/0", "203.0.113.1")], &[]).unwrap();
    for text in [
        "10.0.0.0",
        "10.0.0.255",
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "224.0.0.1",
        "239.1.2.3",
        "255.255.255.255",
    ] {
        assert_eq!(table.next_hop(ip(text)), None, "{text}");
    }
    let link = [Connected {
        port: WAN,
        prefix: prefix("192.0.2.0/31"),
    }];
    let table = RouteTable::new(&link, &[], &[]).unwrap();
    assert_eq!(table.next_hop(ip("192.0.2.0")), hop(WAN, "192.0.2.0"));
    assert_eq!(table.next_hop(ip("192.0.2.1")), hop(WAN, "192.0.2.1"));
}

#[test]
fn connected_goes_before_static() {
    let table = RouteTable::new(&connected(), &[route("10.0.0.0/24", "203.0.113.1")], &[]).unwrap();
    assert_eq!(table.next_hop(ip("10.0.0.7")), hop(LAN, "10.0.0.7"));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let mut ports = connected().to_vec();
    ports.push(Connected {
        port: PortId(2),
        prefix: prefix("10.0.0.0/24"),
    });
    let routes = [
        route("1.0.0.0/8", "192.0.2.1"),
        route("2.0.0.0/8", "10.0.0.9"),
        route("2.0.0.0/8", "10.0.0.9"),
        route("3.0.0.0/8", "10.0.0.255"),
    ];
    let errors = RouteTable::new(&ports, &routes, &[]).unwrap_err();
    assert_eq!(
        errors,
        [
            RouteError::SharedNetwork {
                prefix: prefix("10.0.0.0/24"),
                first: LAN,
                second: PortId(2)
            },
            RouteError::GatewayOffLink {
                to: prefix("1.0.0.0/8"),
                via: ip("192.0.2.1")
            },
            RouteError::Duplicate {
                to: prefix("2.0.0.0/8"),
                via: ip("10.0.0.9")
            },
            RouteError::GatewayOffLink {
                to: prefix("3.0.0.0/8"),
                via: ip("10.0.0.255")
            },
        ]
    );
}

#[test]
fn equality_tells_whether_routes_changed() {
    let (a, b) = (
        route("0.0.0.0/0", "203.0.113.1"),
        route("172.16.0.0/12", "10.0.0.9"),
    );
    let table = |routes: &[Route]| RouteTable::new(&connected(), routes, &[]).unwrap();
    assert_eq!(table(&[a, b]), table(&[b, a]));
    assert_ne!(table(&[a, b]), table(&[a]));
    // A route that says what a wider one says changes nothing.
    assert_eq!(table(&[a]), table(&[a, route("8.0.0.0/8", "203.0.113.1")]));
}

/// What leads to an address: the gateways of several next hops with their weights, in the table's order.
fn several(table: &RouteTable, to: &str) -> Vec<(String, u16)> {
    match table.hops(ip(to)) {
        Some(Hops::Several(hops)) => hops
            .iter()
            .map(|weighted| (weighted.hop.address.to_string(), weighted.weight))
            .collect(),
        _ => vec![],
    }
}

#[test]
fn several_routes_to_one_prefix_share_it() {
    let heavy = |to, via| Route {
        weight: 3,
        ..route(to, via)
    };
    let routes = [
        heavy("0.0.0.0/0", "203.0.113.2"),
        route("0.0.0.0/0", "203.0.113.1"),
        route("8.0.0.0/8", "203.0.113.2"),
        route("9.0.0.0/8", "10.0.0.9"),
        route("9.0.0.0/8", "203.0.113.1"),
        route("9.9.0.0/16", "203.0.113.1"),
        heavy("9.9.0.0/16", "203.0.113.2"),
    ];
    let table = RouteTable::new(&connected(), &routes, &[]).unwrap();
    let both = [("203.0.113.1".to_owned(), 1), ("203.0.113.2".to_owned(), 3)];
    assert_eq!(several(&table, "1.1.1.1"), both);
    assert_eq!(several(&table, "9.9.1.1"), both);
    assert_eq!(several(&table, "8.8.8.8"), []);
    assert_eq!(table.next_hop(ip("8.8.8.8")), hop(WAN, "203.0.113.2"));
    // Over both ports, and nobody there is on the link.
    assert_eq!(several(&table, "9.0.0.1").len(), 2);
    assert_eq!(table.on_link(ip("9.0.0.1")), None);
    assert_eq!(several(&table, "10.0.0.7"), []);
    // Each once, whatever it shares.
    assert_eq!(table.shared_hops().len(), 3);
    let mut turned = routes;
    turned.reverse();
    assert_eq!(RouteTable::new(&connected(), &turned, &[]).unwrap(), table);
}

fn dual_stack() -> Vec<Connected> {
    let networks = ["2001:db8:1::/64", "2001:db8:2::/64"].map(prefix);
    let six = [WAN, LAN].into_iter().zip(networks);
    let six = six.map(|(port, prefix)| Connected { port, prefix });
    connected().into_iter().chain(six).collect()
}

#[test]
fn the_longest_ipv6_prefix_wins() {
    let routes = [
        route("0.0.0.0/0", "203.0.113.1"),
        route("::/0", "2001:db8:1::1"),
        route("2001:db8::/32", "2001:db8:2::fe"),
        route("2001:db8:7::9/128", "2001:db8:2::fd"),
    ];
    let table = RouteTable::new(&dual_stack(), &routes, &[]).unwrap();
    assert_eq!(table.next_hop(ip("2606:4700::1")), hop(WAN, "2001:db8:1::1"));
    assert_eq!(table.next_hop(ip("2001:db8:2::7")), hop(LAN, "2001:db8:2::7"));
    assert_eq!(table.next_hop(ip("2001:db8:7::8")), hop(LAN, "2001:db8:2::fe"));
    assert_eq!(table.next_hop(ip("2001:db8:7::9")), hop(LAN, "2001:db8:2::fd"));
    assert_eq!(table.next_hop(ip("8.8.8.8")), hop(WAN, "203.0.113.1"));
    // Neither end of an IPv6 network is a broadcast address.
    for edge in ["2001:db8:2::", "2001:db8:2::ffff:ffff:ffff:ffff"] {
        assert_eq!(table.next_hop(ip(edge)), hop(LAN, edge));
    }
    assert_eq!(table.next_hop(ip("feff:ffff::")), hop(WAN, "2001:db8:1::1"));
    assert_eq!(table.on_link(ip("2001:db8:2::7")), Some(LAN));
    assert!(table.is_on_link(LAN, ip("2001:db8:2::7")) && !table.is_on_link(WAN, ip("2001:db8:2::7")));
}

#[test]
fn ipv6_martians_have_no_next_hop() {
    let table = RouteTable::new(&dual_stack(), &[route("::/0", "2001:db8:1::1")], &[]).unwrap();
    for text in [
        "::",
        "::1",
        "::ffff:10.0.0.7",
        "ff00::",
        "ff02::1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ] {
        assert_eq!(table.next_hop(ip(text)), None, "{text}");
    }
    assert_eq!(table.next_hop(ip("::2")), hop(WAN, "2001:db8:1::1"));
}

// A default route does not lead to link-local addresses: only the port on which one was heard tells where it is.
#[test]
fn link_local_addresses_are_on_every_link_and_never_routed() {
    let mut ports = dual_stack();
    ports.extend([WAN, LAN].map(|port| Connected {
        port,
        prefix: prefix("fe80::/64"),
    }));
    let neighbour = ip("fe80::7");
    let table = RouteTable::new(&ports, &[route("::/0", "2001:db8:1::1")], &[]).unwrap();
    assert_eq!(
        (table.next_hop(neighbour), table.on_link(neighbour)),
        (None, None)
    );
    assert_eq!(table.next_hop(ip("febf:ffff::1")), None);
    assert!(table.is_on_link(WAN, neighbour) && table.is_on_link(LAN, neighbour));
    assert_eq!(table.next_hop_back(LAN, neighbour), hop(LAN, "fe80::7"));
    assert_eq!(
        table.next_hop_back(LAN, ip("2606:4700::1")),
        hop(WAN, "2001:db8:1::1")
    );
    // 169.254.0.0/16 means nothing of that kind.
    assert!(!table.is_on_link(WAN, ip("169.254.0.1")));
}

#[test]
fn a_link_local_gateway_needs_its_port() {
    let without = route("::/0", "fe80::1");
    let with = Route {
        port: Some(LAN),
        ..without
    };
    let table = RouteTable::new(&dual_stack(), &[with], &[]).unwrap();
    assert_eq!(table.next_hop(ip("2606:4700::1")), hop(LAN, "fe80::1"));
    let (to, via) = (prefix("::/0"), ip("fe80::1"));
    assert_eq!(
        RouteTable::new(&dual_stack(), &[without], &[]),
        Err(vec![RouteError::GatewayWithoutPort { to, via }])
    );
    // A port that is named has to be the right one.
    let wrong = Route {
        port: Some(LAN),
        ..route("::/0", "2001:db8:1::1")
    };
    let via = wrong.via;
    assert_eq!(
        RouteTable::new(&dual_stack(), &[wrong], &[]),
        Err(vec![RouteError::GatewayOffLink { to, via }])
    );
}

#[test]
fn a_route_stays_in_its_family_and_off_the_link() {
    let routes = [
        route("::/0", "203.0.113.1"),
        route("9.0.0.0/8", "2001:db8:1::1"),
        route("fe80::/64", "2001:db8:1::1"),
    ];
    let errors = RouteTable::new(&dual_stack(), &routes, &[]).unwrap_err();
    let [a, b, c] = routes;
    assert_eq!(
        errors,
        [
            RouteError::TwoFamilies { to: a.to, via: a.via },
            RouteError::TwoFamilies { to: b.to, via: b.via },
            RouteError::LinkLocal { to: c.to },
        ]
    );
}

/// The longest prefix by looking at all of them.
fn naive(ports: &[Connected], routes: &[Route], to: IpAddr) -> Option<NextHop> {
    let mut best: Option<(u8, Option<NextHop>)> = None;
    let mut offer = |prefix: Prefix, hop| {
        if prefix.contains(to) && best.is_none_or(|(length, _)| prefix.length() > length) {
            best = Some((prefix.length(), hop));
        }
    };
    for c in ports {
        offer(
            c.prefix,
            Some(NextHop {
                port: c.port,
                address: to,
            }),
        );
        if c.prefix.contains(to) && !c.prefix.has_host(to) {
            offer(Prefix::around(to, 32), None);
        }
    }
    for r in routes {
        offer(
            r.to,
            Some(NextHop {
                port: PortId(0),
                address: r.via,
            }),
        );
    }
    for m in MARTIANS {
        offer(m, None);
    }
    best.and_then(|(_, hop)| hop)
}

/// Addresses in a row, near an edge of what is routed at all or amid it.
#[derive(Clone, Copy, Debug)]
enum Place {
    Amid4,
    /// Up to the first multicast address.
    High4,
    Amid6,
    /// Around a host's bits that carry into the network's.
    Carry6,
    /// Up to the first multicast address.
    High6,
    /// From `::` on.
    Low6,
}

impl Place {
    fn at(self, offset: i128) -> IpAddr {
        let four = |base: u32| IpAddr::V4(Ipv4Addr::from_bits((i128::from(base) + offset) as u32));
        let six = |base: u128| IpAddr::V6(Ipv6Addr::from_bits(base.wrapping_add_signed(offset)));
        match self {
            Place::Amid4 => four(0x0a00_0000),
            Place::High4 => four(0xdfff_ff00),
            Place::Amid6 => six(0x2001_0db8 << 96),
            Place::Carry6 => six((0x2001_0db8 << 96) + 0xffff_ffff_ffff_ff00),
            Place::High6 => six((0xff << 120) - 0x100),
            Place::Low6 => six(0),
        }
    }
}

fn place() -> impl Strategy<Value = Place> {
    use Place::*;
    prop_oneof![
        Just(Amid4),
        Just(High4),
        Just(Amid6),
        Just(Carry6),
        Just(High6),
        Just(Low6)
    ]
}

proptest! {
    // All in few bits, so that prefixes nest, touch and share edges.
    #[test]
    fn agrees_with_looking_at_all(
        nets in prop::collection::btree_set((0u8..=255, 0u8..=8), 0..24),
        place in place(),
    ) {
        let width = if place.at(0).is_ipv4() { 32 } else { 128 };
        let ports = [
            Connected { port: PortId(0), prefix: prefix("192.0.2.0/24") },
            Connected { port: PortId(0), prefix: prefix("2001:db8:ffff::/64") },
            Connected { port: PortId(1), prefix: Prefix::around(place.at(0x40), width - 5) },
        ];
        let mut routes: Vec<Route> = vec![];
        for (i, (offset, shorter)) in nets.into_iter().enumerate() {
            let to = Prefix::around(place.at(offset.into()), width - shorter);
            if routes.iter().all(|r| r.to != to) {
                let via = match width {
                    32 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, i as u8 + 1)),
                    _ => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, i as u16 + 1)),
                };
                routes.push(Route { to, via, port: None, weight: 1 });
            }
        }
        let table = RouteTable::new(&ports, &routes, &[]).unwrap();
        for offset in -2i128..258 {
            let to = place.at(offset);
            prop_assert_eq!(table.next_hop(to), naive(&ports, &routes, to), "{}", to);
        }
    }

    // Prefixes of any length anywhere: the default route, halves of everything, single addresses.
    #[test]
    fn agrees_with_looking_at_all_over_random_prefixes(
        nets in prop::collection::vec((any::<u128>(), 0u8..=128, any::<bool>()), 0..24),
        strangers in prop::collection::vec(any::<u128>(), 0..50),
    ) {
        let address = |bits: u128, six: bool| match six {
            true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            false => IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32)),
        };
        let ports = dual_stack();
        let mut routes: Vec<Route> = vec![];
        for (bits, length, six) in nets {
            let to = Prefix::around(address(bits, six), if six { length } else { length / 4 });
            let via = ip(if six { "2001:db8:1::1" } else { "203.0.113.1" });
            if routes.iter().all(|r| r.to != to) && !LINK_LOCAL.covers(to) {
                routes.push(Route { to, via, port: None, weight: 1 });
            }
        }
        let table = RouteTable::new(&ports, &routes, &[]).unwrap();
        let edges = routes.iter().map(|r| r.to).chain(MARTIANS).flat_map(|p| [p.address(), p.last()]);
        let strangers = strangers.iter().flat_map(|bits| [address(*bits, false), address(*bits, true)]);
        for to in edges.chain(strangers) {
            prop_assert_eq!(table.next_hop(to), naive(&ports, &routes, to), "{}", to);
        }
    }
}
