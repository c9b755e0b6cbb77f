use super::*;
use proptest::prelude::*;

const WAN: PortId = PortId(0);
const LAN: PortId = PortId(1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn ip(text: &str) -> Ipv4Addr {
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
    }
}

fn hop(port: PortId, address: &str) -> Option<NextHop> {
    Some(NextHop {
        port,
        address: ip(address),
    })
}

#[test]
fn the_longest_prefix_wins() {
    let routes = [
        route("0.0.0.0/0", "203.0.113.1"),
        route("10.0.0.0/8", "10.0.0.254"),
        route("10.1.0.0/16", "10.0.0.253"),
        route("10.1.2.3/32", "10.0.0.252"),
    ];
    let table = RouteTable::new(&connected(), &routes).unwrap();
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
    let table = RouteTable::new(&connected(), &[]).unwrap();
    assert_eq!(table.next_hop(ip("203.0.113.9")), hop(WAN, "203.0.113.9"));
    assert_eq!(table.next_hop(ip("203.0.114.9")), None);
    assert_eq!(RouteTable::default().next_hop(GATEWAY), None);
}

#[test]
fn broadcasts_and_martians_have_no_next_hop() {
    let table = RouteTable::new(&connected(), &[route("0.0.0.0/0", "203.0.113.1")]).unwrap();
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
    let table = RouteTable::new(&link, &[]).unwrap();
    assert_eq!(table.next_hop(ip("192.0.2.0")), hop(WAN, "192.0.2.0"));
    assert_eq!(table.next_hop(ip("192.0.2.1")), hop(WAN, "192.0.2.1"));
}

#[test]
fn connected_goes_before_static() {
    let table = RouteTable::new(&connected(), &[route("10.0.0.0/24", "203.0.113.1")]).unwrap();
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
        route("2.0.0.0/8", "10.0.0.8"),
        route("3.0.0.0/8", "10.0.0.255"),
    ];
    let errors = RouteTable::new(&ports, &routes).unwrap_err();
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
                to: prefix("2.0.0.0/8")
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
    let table = |routes: &[Route]| RouteTable::new(&connected(), routes).unwrap();
    assert_eq!(table(&[a, b]), table(&[b, a]));
    assert_ne!(table(&[a, b]), table(&[a]));
    // A route that says what a wider one says changes nothing.
    assert_eq!(table(&[a]), table(&[a, route("8.0.0.0/8", "203.0.113.1")]));
}

/// The longest prefix by looking at all of them.
fn naive(ports: &[Connected], routes: &[Route], to: Ipv4Addr) -> Option<NextHop> {
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

proptest! {
    // All in few bits, so that prefixes nest, touch and share edges.
    #[test]
    fn agrees_with_looking_at_all(
        nets in prop::collection::btree_set((0u32..256, 24u8..=32), 0..24),
        high in any::<bool>(),
    ) {
        let base = if high { 0xdfff_ff00 } else { 0x0a00_0000 };
        let ports = [
            Connected { port: PortId(0), prefix: prefix("192.0.2.0/24") },
            Connected { port: PortId(1), prefix: Prefix::around(Ipv4Addr::from_bits(base | 0x40), 27) },
        ];
        let mut routes: Vec<Route> = vec![];
        for (i, (bits, length)) in nets.into_iter().enumerate() {
            let to = Prefix::around(Ipv4Addr::from_bits(base | bits), length);
            if routes.iter().all(|r| r.to != to) {
                routes.push(Route { to, via: Ipv4Addr::new(192, 0, 2, i as u8 + 1) });
            }
        }
        let table = RouteTable::new(&ports, &routes).unwrap();
        for offset in -2i64..258 {
            let to = Ipv4Addr::from_bits((i64::from(base) + offset) as u32);
            prop_assert_eq!(table.next_hop(to), naive(&ports, &routes, to), "{}", to);
        }
    }
}
