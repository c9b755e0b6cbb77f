//! Firewall marks: services for packets to many addresses and ports.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{MarkRule, Persistence, Protocol, Server, Service, ServiceKey};
use crate::time::seconds;
use std::net::SocketAddrV4;
use std::ops::RangeInclusive;

const MARK: u32 = 6666;

fn rule(destination: &str, ports: &[RangeInclusive<u16>]) -> MarkRule {
    MarkRule {
        mark: MARK,
        destination: destination.parse().unwrap(),
        source: None,
        protocol: None,
        ports: ports.to_vec(),
        input: None,
    }
}

/// A service for the mark over three servers, which keep the port of a packet, beside the service [`WEB`] over two.
fn marked(mode: Mode, rules: Vec<MarkRule>) -> Plan {
    let mut plan = Plan::empty();
    let keep = |number| Server {
        port: 0,
        ..server(number, mode)
    };
    let slot = plan.add(WEB, Protocol::Tcp, (1..=3).map(keep).collect());
    plan.edit(slot, |service| {
        service.key = ServiceKey::Mark {
            mark: MARK,
            ipv6: false,
        };
    });
    plan.add(
        WEB,
        Protocol::Tcp,
        (4..=5).map(|number| server(number, mode)).collect(),
    );
    plan.marks = rules;
    plan
}

fn persist(service: &mut Service) {
    service.persistence = Some(Persistence::new(seconds(300)));
}

fn number_of(seen: &Seen) -> u32 {
    (1..=8).find(|number| seen.to_mac == server_mac(*number)).unwrap()
}

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(VIP, port)
}

#[test]
fn a_mark_comes_before_the_service_of_the_endpoint() {
    let vip = format!("{VIP}/32");
    for mode in [Mode::Nat, Mode::Dr, Mode::Fullnat] {
        let mut gateway = Gateway::new(marked(mode, vec![rule(&vip, &[443..=443, 80..=80])]));
        for port in [80, 443, 80] {
            let seen = gateway.forward(&Sent::tcp(client(1, 40_000 + port), at(port), SYN));
            assert!(number_of(&seen) <= 3, "{mode:?}");
            assert_eq!(seen.to.port(), port, "as it came");
            gateway.change(|_| {});
            if port == 80 {
                gateway.pass(seconds(61));
            }
        }
        let (dropped, sent) =
            gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 1), at(81), SYN)));
        assert_eq!(
            (dropped, sent[0].flags & RST),
            (Some((DropReason::NoService, 1)), RST)
        );
        // The rules are taken away: the endpoint's own service is there still.
        gateway.change(|plan| plan.marks.clear());
        let seen = gateway.forward(&Sent::tcp(client(2, 40_000), WEB, SYN));
        assert!(number_of(&seen) >= 4);
    }
}

/// FTP-03: control and data of one client by a mark for both, also over UDP, and on one template.
#[test]
fn ftp_03_one_mark_keeps_control_and_data_together() {
    let vip = format!("{VIP}/32");
    let mut plan = marked(Mode::Dr, vec![rule(&vip, &[21..=21, 10_000..=20_000])]);
    plan.edit(0, persist);
    let mut gateway = Gateway::new(plan);
    for number in 1..=4 {
        let to = |gateway: &mut Gateway, own, port| {
            number_of(&gateway.forward(&Sent::tcp(client(number, own), at(port), SYN)))
        };
        let control = to(&mut gateway, 40_000, 21);
        assert_eq!(to(&mut gateway, 40_001, 12_345), control);
        assert_eq!(to(&mut gateway, 40_002, 20_000), control);
        let datagram = gateway.forward(&Sent::udp(client(number, 40_003), at(10_000), b"x"));
        assert_eq!(number_of(&datagram), control);
    }
    assert_eq!(gateway.stats.templates.get(), 4);
    let shown = gateway.connections();
    let template = shown
        .iter()
        .find(|one| one.template && one.client.ip() == *client(1, 0).ip());
    let template = template.unwrap();
    assert_eq!(template.protocol_name(), "IP");
    assert_eq!(template.virtual_address.to_string(), "0.0.26.10:0");
    assert_eq!(template.server.port(), 0);
}

#[test]
fn a_prefix_is_served_without_being_the_gateways() {
    let mut gateway = Gateway::new(marked(Mode::Nat, vec![rule("198.18.0.0/16", &[])]));
    let to = SocketAddrV4::new([198, 18, 3, 4].into(), 8443);
    let syn = gateway.forward(&Sent::tcp(client(1, 40_000), to, SYN));
    assert_eq!(syn.to.port(), 8443);
    let reply = gateway.answer(&Sent::tcp(syn.to, client(1, 40_000), SYN | ACK));
    assert_eq!((reply.from, reply.to), (to, client(1, 40_000)));
    // What opens nothing is none of the gateway's business, and a refusal is silent.
    let elsewhere = SocketAddrV4::new(*to.ip(), 1);
    let (dropped, sent) =
        gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 1), elsewhere, ACK)));
    assert_eq!((dropped, sent.len()), (Some((DropReason::NotForUs, 1)), 0));
    gateway.change(|plan| {
        plan.edit(0, |service| {
            service.servers.iter_mut().for_each(|server| server.weight = 0)
        });
    });
    let (dropped, sent) =
        gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 1), elsewhere, SYN)));
    assert_eq!((dropped, sent.len()), (Some((DropReason::NoServer, 1)), 0));
}

/// Only UDP is scheduled packet by packet, whatever else has the mark.
#[test]
fn one_packet_scheduling_of_a_mark_is_for_datagrams() {
    let vip = format!("{VIP}/32");
    let mut plan = marked(Mode::Dr, vec![rule(&vip, &[])]);
    plan.edit(0, |service| service.one_packet = true);
    let mut gateway = Gateway::new(plan);
    gateway.forward(&Sent::udp(client(1, 40_000), at(53), b"x"));
    assert_eq!(gateway.worker.table.len(), 0);
    gateway.forward(&Sent::tcp(client(1, 40_000), at(53), SYN));
    assert_eq!(gateway.worker.table.len(), 1);
}

/// A server with a port gets the packets of a mark there, as in LVS, unless clients are kept.
#[test]
fn a_port_of_a_marks_server_counts_without_persistence() {
    let vip = format!("{VIP}/32");
    let mut plan = marked(Mode::Nat, vec![rule(&vip, &[])]);
    plan.edit(0, |service| {
        service.servers.iter_mut().for_each(|server| server.port = 8080)
    });
    let mut gateway = Gateway::new(plan);
    let syn = gateway.forward(&Sent::tcp(client(1, 40_000), at(443), SYN));
    assert_eq!(syn.to.port(), 8080);
    gateway.change(|plan| plan.edit(0, persist));
    let syn = gateway.forward(&Sent::tcp(client(1, 40_001), at(443), SYN));
    assert_eq!(syn.to.port(), 443);
}
