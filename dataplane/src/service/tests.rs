use super::*;
use crate::neighbour::{AddressTable, RouteTable, Vip, VipArp};
use crate::packet::{MacAddr, PortId};
use crate::worker::shard::ShardMap;
use hashbrown::HashMap;
use proptest::prelude::*;
use std::net::Ipv6Addr;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(mac: [u8; 6], addresses: &[(&str, u8)]) -> PortSettings {
    PortSettings {
        mac: MacAddr(mac),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: addresses.iter().map(|(own, length)| (ip(own), *length)).collect(),
        check_partial: false,
        exception_rate: 0,
    }
}

fn key(address: &str, port: u16, protocol: Protocol) -> ServiceKey {
    ServiceKey::new(ip(address), port, protocol)
}

/// A one-packet service whose replies are translated, and its servers at slots of their own.
fn service(slot: u32, key: ServiceKey, servers: &[(u32, &str, u16, Mode)]) -> Service {
    let server = |&(slot, address, port, mode): &(u32, &str, u16, Mode)| Server {
        slot,
        address: ip(address),
        port,
        weight: 1,
        table_weight: 1,
        hash_share: 100,
        mode,
        tunnel: Tunnel::default(),
        upper_threshold: 0,
        lower_threshold: 0,
        overloaded: false,
    };
    Service {
        slot,
        key,
        scheduler: SchedulerKind::Rr,
        scheduler_flags: SchedulerFlags::NONE,
        tables: SchedulerTables::default(),
        persistence: None,
        engine: None,
        one_packet: true,
        translate_replies: true,
        hairpin_snat: false,
        mss_clamp: 0,
        client_address: ClientAddress::None,
        timeouts: None,
        policy: Policy::default(),
        local_pools: Vec::new(),
        servers: servers.iter().map(server).collect(),
        revision: 0,
    }
}

fn snapshot_network() -> Network {
    Network {
        shards: ShardMap::even(1),
        addresses: Arc::new(AddressTable::default()),
        routes: Arc::new(RouteTable::default()),
        neighbours: Arc::new([]),
        ports: Arc::new([]),
        vips: Arc::default(),
        snat: Arc::default(),
        marks: Arc::default(),
    }
}

fn snapshot(services: Vec<Service>, change: impl FnOnce(&mut Settings, &mut Network)) -> Snapshot {
    let (mut settings, mut network) = (Settings::default(), snapshot_network());
    change(&mut settings, &mut network);
    // A hole, as a deleted service leaves it.
    let services = services
        .into_iter()
        .map(|service| Some(Arc::new(service)))
        .chain([None]);
    Snapshot::new(1, settings, network, services.collect())
}

#[test]
fn a_service_is_written_as_operators_write_it() {
    assert_eq!(
        key("203.0.113.100", 80, Protocol::Tcp).to_string(),
        "203.0.113.100:80/tcp"
    );
    assert_eq!(
        key("2001:db8::1", 53, Protocol::Sctp).to_string(),
        "[2001:db8::1]:53/sctp"
    );
}

#[test]
fn the_source_is_near_the_neighbour_or_of_its_family() {
    let addresses = [
        ("10.0.0.1", 8),
        ("10.1.0.1", 16),
        ("fe80::5", 64),
        ("2001:db8:1::1", 64),
        ("2001:db8:2::1", 64),
    ];
    let port = port([2, 0, 0, 0, 0, 1], &addresses);
    for (neighbour, source) in [
        ("10.9.9.9", "10.0.0.1"),
        ("10.1.9.9", "10.1.0.1"),
        ("192.0.2.1", "10.0.0.1"),
        ("2001:db8:2::9", "2001:db8:2::1"),
        ("2001:db8:3::9", "2001:db8:1::1"),
        ("fe80::9", "fe80::5"),
    ] {
        assert_eq!(port.source_for(ip(neighbour)), Some(ip(source)), "{neighbour}");
    }
}

#[test]
fn a_port_without_addresses_of_a_family_has_no_source_in_it() {
    let four = port([2, 0, 0, 0, 0, 1], &[("10.0.0.1", 24)]);
    assert_eq!(four.source_for(ip("2001:db8::9")), None);
    assert_eq!(four.source_for(ip("fe80::9")), Some(four.link_local().into()));
    let six = port([2, 0, 0, 0, 0, 1], &[("fe80::5", 64)]);
    assert_eq!(six.source_for(ip("10.0.0.9")), None);
    assert_eq!(six.source_for(ip("2001:db8::9")), None);
}

// RFC 4291, appendix A: the MAC with ff:fe in its middle, its universal bit inverted.
#[test]
fn a_link_local_address_is_made_of_the_mac() {
    let universal = port([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde], &[("2001:db8::1", 64)]);
    assert_eq!(universal.link_local().to_string(), "fe80::3656:78ff:fe9a:bcde");
    let local = port([0x02, 0, 0, 0, 0, 0x01], &[]);
    assert_eq!(local.link_local().to_string(), "fe80::ff:fe00:1");
    let chosen = port(
        [0x02, 0, 0, 0, 0, 0x01],
        &[("2001:db8::1", 64), ("fe80::1", 64), ("fe80::2", 64)],
    );
    let own = |text: &str| chosen.has_link_local(text.parse::<Ipv6Addr>().unwrap());
    assert_eq!(chosen.link_local().to_string(), "fe80::1");
    assert!(own("fe80::1") && own("fe80::2"));
    assert!(!own("fe80::ff:fe00:1") && !own("2001:db8::1"));
}

#[test]
fn a_port_answers_for_its_addresses_and_its_link_local_one() {
    let snapshot = snapshot(Vec::new(), |_, network| {
        // Two VLANs of one device have the same MAC.
        network.ports = Arc::new([port([2, 0, 0, 0, 0, 1], &[]), port([2, 0, 0, 0, 0, 1], &[])]);
        let vip = Vip {
            address: ip("2001:db8::100"),
            arp: VipArp::On(PortId(1)),
        };
        network.addresses = Arc::new(AddressTable::new(&[], &[vip], &[], &[]).unwrap());
    });
    let answers = |port, address| snapshot.answers_for(PortId(port), ip(address));
    assert!(answers(0, "fe80::ff:fe00:1") && answers(1, "fe80::ff:fe00:1"));
    assert!(!answers(2, "fe80::ff:fe00:1") && !answers(0, "fe80::ff:fe00:2"));
    assert!(answers(1, "2001:db8::100") && !answers(0, "2001:db8::100"));
    assert!(!answers(0, "0.0.0.0"));
}

#[test]
fn a_reply_without_a_connection_finds_its_service() {
    let server = |slot, port| (slot, "10.0.0.11", port, Mode::Nat);
    let first = service(
        0,
        key("203.0.113.101", 53, Protocol::Udp),
        &[server(0, 53), server(1, 54)],
    );
    let second = service(1, key("203.0.113.100", 53, Protocol::Udp), &[server(2, 53)]);
    let tcp = service(2, key("203.0.113.99", 53, Protocol::Tcp), &[server(3, 53)]);
    let six = service(
        3,
        key("2001:db8::100", 53, Protocol::Udp),
        &[(4, "2001:db8:2::11", 53, Mode::Nat)],
    );
    let direct = service(
        4,
        key("203.0.113.98", 53, Protocol::Udp),
        &[(5, "10.0.0.12", 53, Mode::Dr)],
    );
    let mut kept = service(
        5,
        key("203.0.113.97", 53, Protocol::Udp),
        &[(6, "10.0.0.13", 53, Mode::Nat)],
    );
    kept.one_packet = false;
    let mut plain = service(
        6,
        key("203.0.113.96", 53, Protocol::Udp),
        &[(7, "10.0.0.14", 53, Mode::Nat)],
    );
    plain.translate_replies = false;
    let snapshot = snapshot(vec![first, second, tcp, six, direct, kept, plain], |_, _| {});
    let reply = |server, port| snapshot.reply_to(ip(server), port, Protocol::Udp);
    // The first by key, although its slot is not the first.
    assert_eq!(reply("10.0.0.11", 53), Some((ip("203.0.113.100"), 53)));
    assert_eq!(reply("10.0.0.11", 54), Some((ip("203.0.113.101"), 53)));
    assert_eq!(reply("10.0.0.11", 55), None);
    assert_eq!(reply("2001:db8:2::11", 53), Some((ip("2001:db8::100"), 53)));
    for server in ["10.0.0.12", "10.0.0.13", "10.0.0.14"] {
        assert_eq!(reply(server, 53), None, "{server}");
    }
    let tcp = snapshot.reply_to(ip("10.0.0.11"), 53, Protocol::Tcp);
    assert_eq!(tcp, Some((ip("203.0.113.99"), 53)));
}

#[test]
fn nat_is_known_by_its_servers() {
    let of = |mode| {
        let service = service(
            0,
            key("203.0.113.1", 80, Protocol::Tcp),
            &[(0, "10.0.0.11", 80, mode)],
        );
        snapshot(vec![service], |_, _| {}).has_nat()
    };
    assert!(of(Mode::Nat));
    assert!(!of(Mode::Dr) && !of(Mode::Tun) && !of(Mode::Fullnat));
    assert!(!snapshot(Vec::new(), |_, _| {}).has_nat());
}

#[test]
fn a_vip_may_differ_from_the_settings() {
    let snapshot = snapshot(Vec::new(), |settings, network| {
        settings.no_server = NoServer::Reset;
        let silent = VipPolicy {
            no_service: Some(NoService::Drop),
            no_server: Some(NoServer::Drop),
        };
        let half = VipPolicy {
            no_service: Some(NoService::Drop),
            no_server: None,
        };
        network.vips = Arc::new(HashMap::from_iter([
            (ip("203.0.113.1"), silent),
            (ip("2001:db8::1"), half),
        ]));
    });
    let policy = |vip| snapshot.vip_policy(ip(vip));
    assert_eq!(policy("203.0.113.1"), (NoService::Drop, NoServer::Drop));
    assert_eq!(policy("2001:db8::1"), (NoService::Drop, NoServer::Reset));
    assert_eq!(policy("203.0.113.2"), (NoService::Reject, NoServer::Reset));
}

/// Services at five slots. One whose replies are translated makes all others matter.
fn random_services() -> impl Strategy<Value = Vec<Option<Service>>> {
    let one = (0u16..3, 0u32..4, 0usize..4, any::<bool>(), 0u32..2);
    let made = |slot: u32, (port, first, mode, translates, weight): (u16, u32, usize, bool, u32)| {
        let mode = [Mode::Nat, Mode::Dr, Mode::Tun, Mode::Fullnat][mode];
        let port = 10 * port + slot as u16;
        let mut service = service(
            slot,
            key("203.0.113.1", port, Protocol::Udp),
            &[
                (4 * slot + first, "10.0.0.11", 80, mode),
                (20 + 4 * slot + first, "10.0.0.12", 80, Mode::Dr),
            ],
        );
        service.translate_replies = translates && port == 0;
        service.policy.expire_quiescent = true;
        service.servers[0].weight = weight;
        service
    };
    let slots = proptest::collection::vec(proptest::option::weighted(0.7, one), 5);
    slots.prop_map(move |slots| {
        let slots = slots.into_iter().zip(0..);
        slots.map(|(one, slot)| one.map(|one| made(slot, one))).collect()
    })
}

/// A key, and the slot of a server, may go to another service within one snapshot.
#[test]
fn a_successor_finds_what_has_moved() {
    let (a, b) = (
        key("203.0.113.1", 80, Protocol::Tcp),
        key("203.0.113.1", 81, Protocol::Tcp),
    );
    let plain = |slot, key, server: u32| {
        let mut service = service(slot, key, &[(server, "10.0.0.11", 80, Mode::Nat)]);
        service.translate_replies = false;
        service
    };
    let first = snapshot(vec![plain(0, a, 1), plain(1, b, 2)], |_, _| {});
    let network = snapshot_network();
    let moved = vec![Some(Arc::new(plain(0, b, 2))), Some(Arc::new(plain(1, a, 3)))];
    let network = Network {
        snat: Arc::clone(&first.snat),
        ..network
    };
    let next = first.next(2, Settings::default(), network.clone(), moved);
    let slot = |snapshot: &Snapshot, key| snapshot.find(&key).map(|service| service.slot);
    assert_eq!((slot(&next, a), slot(&next, b)), (Some(1), Some(0)));
    let present = [1, 2, 3].map(|slot| next.server_present(slot));
    assert_eq!((present, next.has_nat()), ([false, true, true], true));
    let none = next.next(3, Settings::default(), network, vec![None, None]);
    assert_eq!(
        (slot(&none, a), none.has_nat(), none.is_empty()),
        (None, false, true)
    );
}

proptest! {
    #[test]
    fn a_successor_knows_what_one_made_anew_knows(
        steps in proptest::collection::vec((random_services(), proptest::collection::vec(any::<bool>(), 5), 0u8..8), 1..12),
    ) {
        let mut present: Vec<Option<Arc<Service>>> = vec![None; 5];
        let mut last = snapshot(Vec::new(), |_, _| {});
        for (services, changes, setting) in steps {
            for (slot, service) in services.into_iter().enumerate().filter(|(slot, _)| changes[*slot]) {
                present[slot] = service.map(Arc::new);
            }
            let settings = Settings { nat_icmp_send: setting == 0, ..Settings::default() };
            let mut network = snapshot_network();
            if setting != 1 {
                network.snat = Arc::clone(&last.snat);
            }
            let next = last.next(2, settings.clone(), network.clone(), present.clone());
            let anew = Snapshot::new(2, settings, network, present.clone());
            prop_assert!(next.knows_as(&anew), "{next:?}\n{anew:?}");
            for service in present.iter().flatten() {
                prop_assert_eq!(next.find(&service.key).map(|found| found.slot), Some(service.slot));
            }
            last = next;
        }
    }
}
