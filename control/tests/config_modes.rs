//! Both families, all forwarding modes, VLANs: from the file into what workers read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::flow::{Mode, TcpState};
use dataplane::neighbour::AddressClass;
use dataplane::packet::{MacAddr, PortId};
use dataplane::service::{
    Limits, NoServer, NoService, OnRemove, Policy, PortSettings, Protocol, ServiceKey, Snapshot, Tunnel,
    TunnelChecksum, TunnelKind, VipPolicy,
};
use dataplane::time::seconds;
use std::net::IpAddr;
use std::sync::Arc;
use tidegate::config::{self, Config, Link};
use tidegate::model::{Model, with_vlans};

const FILE: &str = r#"
node: { limits: { fragments: 1000 } }
ports:
  - { name: dmz, parent: lan, vlan: 20, addresses: [10.20.0.1/24, 2001:db8:20::1/64] }
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24, 2001:db8:1::1/64, fe80::1/64] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24, 2001:db8:2::1/64, fe80::1/64], mtu: 1400 }
routes:
  - { to: default, via: 203.0.113.1 }
  - { to: default6, via: fe80::fe, port: wan }
  - { to: 10.30.0.0/16, via: 10.20.0.254 }
  - { to: 2001:db8:40::/48, port: dmz }
  - { to: 10.30.9.0/24, unreachable: true }
neighbours:
  - { address: fe80::fe, mac: "02:00:00:00:00:fe", port: wan }
  - { address: 2001:db8:20::11, mac: "02:00:00:00:00:11" }
local_addresses: [{ name: dip, port: dmz, addresses: [10.20.0.200-201] }]
pools:
  - name: mixed
    servers:
      - { address: 10.0.0.11, mode: dr }
      - { address: 10.30.0.12, port: 8080 }
      - { address: 10.30.0.13, mode: tun }
      - { address: "2001:db8:20::14", mode: tun, tunnel: { type: gue, checksum: remote } }
      - { address: 2001:db8:40::15, mode: tun, tunnel: { type: gre, checksum: outer } }
      - { address: 10.30.0.16, mode: fullnat }
  - { name: six, servers: [{ address: 2001:db8:20::11, port: 8080 }] }
services:
  - name: web
    listen: "203.0.113.100:80/tcp"
    pool: mixed
    mode: nat
    tunnel: { type: gue, port: 6081 }
    local_addresses: dip
    hairpin_snat: true
    mss_clamp: 1400
    on_remove: drain
    drain_deadline: 90
    on_idle: reset
    limits: { connections: 1000, rate: 50, client_connections: 10, client_rate: 5 }
    timeouts: { tcp: { established: 60 } }
  - { name: six, listen: ["[2001:db8:1::100]:80/tcp", "[2001:db8:1::100]:80/sctp"], pool: six, mode: nat }
  - { name: dns, listen: "[2001:db8:1::100]:53/udp", pool: six, mode: nat, one_packet: true, translate_replies: true,
      expire_quiescent: true }
vips:
  - { address: 2001:db8:1::100, no_service: drop, no_server: reset }
  - { address: 203.0.113.100, no_server: drop }
  - { address: 203.0.113.101 }
settings:
  no_server: reset
  no_local_port: icmp
  sloppy_sctp: true
  schedule_icmp: true
  nat_icmp_send: true
  pmtu_disc: false
  transit: true
  tunnel_source: [10.99.0.0/24, "2001:db8:99::/64"]
  fragment_timeout: 5
  secure_tcp: true
  embryonic_limit: 40
timeouts: { tcp: { established: 300, close: 3 }, udp: 30 }
"#;

fn parse() -> Config {
    config::parse("gateway.yaml", FILE).unwrap_or_else(|errors| panic!("{errors}"))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn snapshot() -> Arc<Snapshot> {
    let config = parse();
    let device = |number| PortSettings {
        mac: MacAddr([2, 0, 0, 0, 0, number]),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: Vec::new(),
        check_partial: false,
        exception_rate: 0,
    };
    let ports = with_vlans(&config, vec![device(1), device(2)]);
    let mut model = Model::new(ports, 1, 64, 64);
    model.apply_file(&config).unwrap();
    model.snapshot()
}

#[test]
fn ports_with_devices_come_first_whatever_the_order_of_the_file() {
    let config = parse();
    assert_eq!(config.warnings, []);
    let names: Vec<&str> = config.ports.iter().map(|port| &*port.name).collect();
    assert_eq!((names, config.devices()), (vec!["wan", "lan", "dmz"], 2));
    assert_eq!(config.ports[2].link, Link::Vlan { parent: 1, id: 20 });
    // The VLAN has what its parent has, when it says nothing else.
    assert_eq!(
        config.ports.iter().map(|port| port.mtu).collect::<Vec<_>>(),
        [1500, 1400, 1400]
    );
    // What names a port means the same one.
    assert_eq!(
        config.routes.iter().map(|route| route.port).collect::<Vec<_>>(),
        [0, 0, 2, 2]
    );
    assert_eq!(
        config.neighbours.iter().map(|it| it.port).collect::<Vec<_>>(),
        [0, 2]
    );
    assert_eq!(config.local_addresses[0].port, 2);
    assert_eq!(config.node.limits.sizes(1, false, 1).fragments, 1000);
}

#[test]
fn routes_lead_to_both_families_and_into_vlans() {
    let snapshot = snapshot();
    let hop = |to| {
        let hop = snapshot.routes.next_hop(address(to)).unwrap();
        (hop.port, hop.address.to_string())
    };
    assert_eq!(hop("198.51.100.1"), (PortId(0), "203.0.113.1".to_owned()));
    assert_eq!(hop("2001:db8:ffff::1"), (PortId(0), "fe80::fe".to_owned()));
    assert_eq!(hop("10.30.0.12"), (PortId(2), "10.20.0.254".to_owned()));
    assert_eq!(hop("2001:db8:40::15"), (PortId(2), "2001:db8:40::15".to_owned()));
    assert_eq!(hop("2001:db8:2::15"), (PortId(1), "2001:db8:2::15".to_owned()));
    let vlan = snapshot.ports[2].vlan.unwrap();
    assert_eq!((vlan.parent, vlan.id), (PortId(1), 20));
    assert_eq!(snapshot.ports[2].mac, snapshot.ports[1].mac);
}

#[test]
fn each_server_has_its_mode_port_and_tunnel() {
    let snapshot = snapshot();
    let key = |text, port, protocol| ServiceKey::new(address(text), port, protocol);
    let web = snapshot.find(&key("203.0.113.100", 80, Protocol::Tcp)).unwrap();
    let gue = |port, checksum| Tunnel {
        kind: TunnelKind::Gue { port },
        checksum,
    };
    let gre = Tunnel {
        kind: TunnelKind::Gre,
        checksum: TunnelChecksum::Outer,
    };
    // The one that was added last comes first.
    let told: Vec<_> = web
        .servers
        .iter()
        .rev()
        .map(|server| (server.address.to_string(), server.port, server.mode))
        .collect();
    let expected = [
        ("10.0.0.11", 80, Mode::Dr),
        ("10.30.0.12", 8080, Mode::Nat),
        ("10.30.0.13", 80, Mode::Tun),
        ("2001:db8:20::14", 80, Mode::Tun),
        ("2001:db8:40::15", 80, Mode::Tun),
        ("10.30.0.16", 80, Mode::Fullnat),
    ];
    assert_eq!(
        told,
        expected.map(|(address, port, mode)| (address.to_owned(), port, mode))
    );
    let tunnels: Vec<Tunnel> = web.servers.iter().rev().map(|server| server.tunnel).collect();
    assert_eq!(
        tunnels[2..5],
        [
            gue(6081, TunnelChecksum::None),
            gue(6080, TunnelChecksum::Remote),
            gre
        ]
    );
    assert_eq!(
        (web.mss_clamp, web.hairpin_snat, web.translate_replies),
        (1400, true, false)
    );
    assert_eq!(web.local_pools.len(), 1);
    let six = "2001:db8:1::100";
    let dns = snapshot.find(&key(six, 53, Protocol::Udp)).unwrap();
    assert_eq!(
        (
            dns.one_packet,
            dns.translate_replies,
            dns.hairpin_snat,
            dns.mss_clamp
        ),
        (true, true, false, 0)
    );
    for protocol in [Protocol::Tcp, Protocol::Sctp] {
        let service = snapshot.find(&key(six, 80, protocol)).unwrap();
        assert_eq!(service.servers[0].address, address("2001:db8:20::11"));
    }
}

#[test]
fn lives_of_connections_reach_the_workers() {
    let snapshot = snapshot();
    let of = |text, port, protocol| {
        let key = ServiceKey::new(address(text), port, protocol);
        snapshot.find(&key).unwrap()
    };
    let web = of("203.0.113.100", 80, Protocol::Tcp);
    let expected = Policy {
        on_remove: OnRemove::Drain,
        drain_deadline: seconds(90),
        reset_idle: true,
        expire_quiescent: false,
        limits: Limits {
            connections: 1000,
            rate: 50,
            client_connections: 10,
            client_rate: 5,
        },
        ..Policy::default()
    };
    assert_eq!(web.policy, expected);
    // What the service does not say is as in the file, and what that does not say as in LVS.
    let timeouts = web.timeouts.as_deref().unwrap();
    let of_state = |state: TcpState| timeouts.tcp[state as usize];
    assert_eq!(
        [TcpState::Established, TcpState::Close, TcpState::FinWait].map(of_state),
        [60, 3, 120].map(seconds)
    );
    assert_eq!(timeouts.udp, seconds(30));
    let dns = of("2001:db8:1::100", 53, Protocol::Udp);
    assert!(dns.timeouts.is_none() && dns.policy.expire_quiescent);
    assert_eq!(of("2001:db8:1::100", 80, Protocol::Tcp).policy, Policy::default());
    let settings = &snapshot.settings;
    assert_eq!((settings.secure_tcp, settings.embryonic_limit), (3, 40));
}

#[test]
fn a_listed_vip_needs_no_service_and_nothing_leads_to_the_unreachable() {
    let snapshot = snapshot();
    let class = |text| snapshot.addresses.class_of(address(text));
    assert_eq!(class("203.0.113.101"), AddressClass::Vip);
    assert_eq!(class("203.0.113.102"), AddressClass::None);
    assert_eq!(
        snapshot.addresses.owner(address("203.0.113.101")),
        Some(PortId(0))
    );
    assert!(snapshot.routes.next_hop(address("10.30.8.1")).is_some());
    assert_eq!(snapshot.routes.next_hop(address("10.30.9.1")), None);
}

#[test]
fn settings_reach_the_workers_and_single_vips_differ() {
    let snapshot = snapshot();
    let settings = &snapshot.settings;
    assert_eq!(
        (
            settings.sloppy_sctp,
            settings.schedule_icmp,
            settings.nat_icmp_send
        ),
        (true, true, true)
    );
    assert_eq!((settings.pmtu_disc, settings.transit), (false, true));
    assert_eq!(
        (
            settings.no_server,
            settings.no_local_port,
            settings.fragment_timeout
        ),
        (NoServer::Reset, NoServer::Icmp, seconds(5))
    );
    let sources = [settings.tunnel_source, settings.tunnel_source6].map(|source| source.unwrap().to_string());
    assert_eq!(sources, ["10.99.0.0/24", "2001:db8:99::/64"]);
    let policy = |text| snapshot.vips.get(&address(text)).copied();
    assert_eq!(
        policy("2001:db8:1::100"),
        Some(VipPolicy {
            no_service: Some(NoService::Drop),
            no_server: Some(NoServer::Reset)
        })
    );
    assert_eq!(
        policy("203.0.113.100"),
        Some(VipPolicy {
            no_service: None,
            no_server: Some(NoServer::Drop)
        })
    );
}

/// A client without a local port tries again: silence is what it gets unless the file says something else.
#[test]
fn a_client_without_a_local_port_hears_nothing_by_default() {
    let file = FILE.replace("  no_local_port: icmp\n", "");
    let config = config::parse("gateway.yaml", &file).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.settings.no_local_port, NoServer::Drop);
    assert_eq!(parse().settings.no_local_port, NoServer::Icmp);
}
