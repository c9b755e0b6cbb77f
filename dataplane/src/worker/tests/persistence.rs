//! Persistence: clients stay on their server, by templates that nothing counts, whichever worker their connections are of.

use super::cluster::*;
use super::frames::*;
use super::plan::*;
use super::wire::Wire;
use crate::drops::DropReason;
use crate::flow::{Connection, Mode};
use crate::service::{Persistence, PersistenceEngine, Protocol, Service};
use crate::time::seconds;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A service of that mode whose clients are kept for 300 seconds.
fn kept(mode: Mode, servers: u32) -> Plan {
    let mut plan = Plan::web(mode, servers);
    plan.edit(0, |service| {
        service.persistence = Some(Persistence::new(seconds(300)))
    });
    plan
}

/// The number of the server that a client's next connection goes to.
fn connect(gateway: &mut Cluster, from: SocketAddrV4, to: SocketAddrV4) -> u32 {
    let seen = gateway.forward(&Sent::tcp(from, to, SYN));
    number_of(&seen)
}

fn number_of(seen: &Seen) -> u32 {
    (1..=8).find(|number| seen.to_mac == server_mac(*number)).unwrap()
}

fn templates(gateway: &mut Cluster) -> Vec<Connection> {
    let all = gateway.connections().into_iter();
    all.filter(|connection| connection.template).collect()
}

fn listed(template: &Connection) -> String {
    format!(
        "{} {} {} {} {}",
        template.protocol_name(),
        template.client,
        template.virtual_address,
        template.server,
        template.state
    )
}

#[test]
fn a_client_stays_on_its_server_in_every_mode() {
    for (mode, workers) in [Mode::Nat, Mode::Dr, Mode::Fullnat]
        .into_iter()
        .flat_map(|mode| WORKERS.map(|workers| (mode, workers)))
    {
        let mut gateway = Cluster::new(kept(mode, 3), workers);
        let first = connect(&mut gateway, client(1, 40_000), WEB);
        // Each worker schedules the clients whose templates it has.
        let mut clients = (2..30).map(|number| connect(&mut gateway, client(number, 40_000), WEB));
        assert!(clients.any(|other| other != first));
        let (known, before) = (gateway.templates(), gateway.counts(first as usize));
        assert_eq!(gateway.connections_now(), known, "a connection of each client");
        for port in 40_001..40_010 {
            assert_eq!(
                connect(&mut gateway, client(1, port), WEB),
                first,
                "{mode:?} {workers}"
            );
        }
        let counted = gateway.counts(first as usize);
        assert_eq!(counted, (before.0 + 9, 0), "a template is no connection");
        assert_eq!(gateway.templates(), known);
        assert_eq!(gateway.connections_now(), known + 9);
        let templates = gateway.of_server(first as usize, |server| server.templates.get());
        assert_eq!(templates, before.0);
    }
}

/// A packet from port 0 has the key that LVS gives templates.
#[test]
fn no_packet_finds_a_template() {
    for workers in WORKERS {
        let mut gateway = Cluster::new(kept(Mode::Dr, 2), workers);
        let server = connect(&mut gateway, client(1, 40_000), WEB);
        let (dropped, _) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 0), WEB, ACK)));
        assert_eq!(dropped, Some((DropReason::NotSyn, 1)));
        assert_eq!(connect(&mut gateway, client(1, 0), WEB), server);
        assert_eq!(gateway.connections_now(), 2);
    }
}

#[test]
fn a_template_is_assured_by_an_established_connection_or_an_answer() {
    for workers in WORKERS {
        let mut gateway = Cluster::new(kept(Mode::Nat, 1), workers);
        connect(&mut gateway, client(1, 40_000), WEB);
        assert_eq!(templates(&mut gateway)[0].state, "NONE");
        gateway.establish(client(1, 40_001), WEB);
        assert_eq!(templates(&mut gateway)[0].state, "ASSURED");

        let mut plan = Plan::dns(Mode::Nat, 1);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(300)))
        });
        let mut gateway = Cluster::new(plan, workers);
        let asked = gateway.forward(&Sent::udp(client(1, 40_000), DNS, b"?"));
        assert_eq!(templates(&mut gateway)[0].state, "NONE");
        gateway.answer(&Sent::udp(asked.to, asked.from, b"!"));
        assert_eq!(templates(&mut gateway)[0].state, "ASSURED");
    }
}

/// A template outlives its time by its connections, and by 60 seconds at a time.
#[test]
fn a_template_waits_for_its_connections() {
    for workers in WORKERS {
        let mut plan = kept(Mode::Dr, 2);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(2)))
        });
        let mut gateway = Cluster::new(plan, workers);
        gateway.establish(client(1, 40_000), WEB);
        assert_eq!(templates(&mut gateway)[0].remaining, 2);
        gateway.pass(seconds(3));
        assert!((58..=60).contains(&templates(&mut gateway)[0].remaining));
        gateway.pass(seconds(600));
        assert_eq!(templates(&mut gateway).len(), 1);
        gateway.pass(seconds(400));
        assert_eq!(gateway.records(), 0, "the connection was over after 900 seconds");
        // One without a connection that holds it goes at its own time.
        gateway.inbound(&Sent::tcp(client(1, 40_001), WEB, SYN));
        gateway.pass(seconds(61));
        assert_eq!(gateway.connections_now(), 0);
        gateway.pass(seconds(61));
        assert_eq!(gateway.records(), 0);
    }
}

/// PER-01: weight 0 keeps known clients, unless `expire_quiescent_template` says otherwise.
#[test]
fn per_01_a_quiesced_server_keeps_its_clients_unless_they_are_to_leave() {
    for workers in WORKERS {
        for leave in [false, true] {
            let mut gateway = Cluster::new(kept(Mode::Nat, 2), workers);
            let from = client(1, 40_000);
            gateway.establish(from, WEB);
            let home = if gateway.counts(1) == (1, 0) { 1 } else { 2 };
            let other = 3 - home;
            gateway.change(|plan| {
                plan.settings.expire_quiescent_template = leave;
                plan.edit(0, |service| service.servers[home as usize - 1].weight = 0);
            });
            let next = connect(&mut gateway, client(1, 40_001), WEB);
            assert_eq!(next, if leave { other } else { home });
            assert_eq!(
                connect(&mut gateway, client(2, 40_000), WEB),
                other,
                "a new client"
            );
            let data = gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"on"));
            assert_eq!(number_of(&data), home, "a connection goes on");
            let mut shown: Vec<_> = templates(&mut gateway).iter().map(listed).collect();
            shown.sort();
            let retired = shown.iter().filter(|template| template.contains(":65535"));
            assert_eq!(retired.count(), usize::from(leave), "{shown:?}");
        }
    }
}

/// PER-02 and PER-08: a template of a deleted server catches nobody, and ends in its time, also after its service.
#[test]
fn per_02_and_per_08_the_template_of_a_deleted_server_is_retired_and_ends() {
    for workers in WORKERS {
        for whole_service in [false, true] {
            let mut gateway = Cluster::new(kept(Mode::Dr, 2), workers);
            let first = connect(&mut gateway, client(1, 40_000), WEB);
            gateway
                .change(|plan| plan.edit(0, |service| service.servers.retain(|server| server.slot != first)));
            let next = connect(&mut gateway, client(1, 40_001), WEB);
            assert_ne!(next, first);
            assert_eq!(connect(&mut gateway, client(1, 40_002), WEB), next);
            let mut shown: Vec<_> = templates(&mut gateway).iter().map(listed).collect();
            shown.sort();
            let server = |number: u32, port: u16| SocketAddrV4::new(server_ip(number), port);
            assert_eq!(
                shown,
                [
                    format!("TCP {} {VIP}:65535 {} NONE", client(1, 0), server(first, 65535)),
                    format!("TCP {} {WEB} {} NONE", client(1, 0), server(next, 80)),
                ]
            );
            if whole_service {
                gateway.change(|plan| plan.services[0] = None);
            }
            gateway.pass(seconds(1000));
            assert_eq!(gateway.records(), 0);
            let held = (0..64).map(|slot| gateway.of_server(slot, |server| server.templates.get()));
            assert_eq!(held.sum::<u32>(), 0);
        }
    }
}

/// PER-07: a client that finds no server leaves nothing behind, however often it tries.
#[test]
fn per_07_failed_scheduling_leaves_no_state() {
    for workers in WORKERS {
        let mut gateway = Cluster::new(kept(Mode::Dr, 1), workers);
        connect(&mut gateway, client(1, 40_000), WEB);
        gateway.change(|plan| {
            plan.settings.expire_quiescent_template = true;
            plan.edit(0, |service| service.servers[0].weight = 0);
        });
        let tries = 10_000 / u16::from(workers).pow(2);
        for n in 0..tries {
            gateway.inbound(&Sent::tcp(client(1, 10_000 + n), WEB, SYN));
            assert_eq!(gateway.records(), 2);
        }
        assert_eq!(gateway.drops(DropReason::NoServer), u64::from(tries));
        gateway.pass(seconds(400));
        assert_eq!(gateway.records(), 0);
    }
}

#[test]
fn without_room_for_a_template_there_is_no_connection_either() {
    let mut plan = kept(Mode::Fullnat, 2);
    plan.sizes.connections = 3;
    let mut gateway = Cluster::new(plan, 1);
    connect(&mut gateway, client(1, 40_000), WEB);
    let syn = Sent::tcp(client(2, 40_000), WEB, SYN);
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&syn));
    assert_eq!((dropped, sent.len()), (Some((DropReason::TableFull, 1)), 0));
    assert_eq!(gateway.records(), 2);
}

/// PER-04: any mask of IPv4, a prefix of IPv6.
#[test]
fn per_04_masks_make_clients_one() {
    for workers in WORKERS {
        let servers_of = |netmask: [u8; 4], clients: [[u8; 4]; 3]| {
            let mut plan = kept(Mode::Dr, 3);
            plan.edit(0, |service| {
                service.persistence = Some(Persistence {
                    netmask: netmask.into(),
                    ..Persistence::new(seconds(60))
                });
            });
            let mut gateway = Cluster::new(plan, workers);
            clients.map(|from| connect(&mut gateway, SocketAddrV4::new(from.into(), 40_000), WEB))
        };
        let far = [[198, 51, 100, 10], [198, 51, 100, 99], [192, 0, 2, 77]];
        let [one, same, other] = servers_of([255, 255, 255, 0], far);
        assert_eq!(one, same);
        assert!(workers > 1 || one != other);
        let [one, same, last] = servers_of([0; 4], far);
        assert_eq!((one, one), (same, last));
        let odd = [[198, 51, 100, 10], [198, 99, 100, 99], [198, 51, 101, 10]];
        let [one, same, other] = servers_of([255, 0, 255, 0], odd);
        assert_eq!(one, same);
        assert!(workers > 1 || one != other);

        let mut plan = Plan::dual_web(Mode::Dr, Protocol::Udp, 3, 80);
        plan.edit(1, |service| {
            service.persistence = Some(Persistence {
                prefix: 64,
                ..Persistence::new(seconds(60))
            });
        });
        let mut gateway = Cluster::new(plan, workers);
        for port in 1..10 {
            let from = Family::V6.client(port as u8, 40_000 + port);
            assert_eq!(
                gateway
                    .exchange(WAN, &Wire::udp(from, Family::V6.vip(80), b"x"))
                    .len(),
                1
            );
        }
        let used =
            (1..64).filter(|slot| gateway.of_server(*slot, |server| server.connections.get() as u32) > 0);
        assert_eq!(used.count(), 1);
        assert_eq!(gateway.templates(), 1);
    }
}

/// PER-05: the service on all ports leaves the port as it is; one on the very port comes first.
#[test]
fn per_05_all_ports_of_a_vip_and_precedence() {
    for workers in WORKERS {
        for mode in [Mode::Nat, Mode::Fullnat, Mode::Dr] {
            let mut plan = Plan::empty();
            let servers = |port| {
                (1..=2)
                    .map(|number| crate::service::Server {
                        port,
                        ..server(number, mode)
                    })
                    .collect()
            };
            plan.add(SocketAddrV4::new(VIP, 0), Protocol::Tcp, servers(0));
            let web = (3..=4).map(|number| server(number, mode)).collect();
            plan.add(WEB, Protocol::Tcp, web);
            plan.edit(0, |service| {
                service.persistence = Some(Persistence::new(seconds(300)))
            });
            let mut gateway = Cluster::new(plan, workers);
            let at = |port| SocketAddrV4::new(VIP, port);
            let first = gateway.forward(&Sent::tcp(client(1, 40_000), at(5001), SYN));
            let second = gateway.forward(&Sent::tcp(client(1, 40_001), at(6001), SYN));
            assert_eq!(number_of(&first), number_of(&second), "{mode:?}");
            assert_eq!((first.to.port(), second.to.port()), (5001, 6001));
            let exact: Vec<_> = (0..4)
                .map(|n| connect(&mut gateway, client(1, 41_000 + n), WEB))
                .collect();
            assert!(
                exact.iter().all(|number| *number > 2),
                "scheduled by the other service"
            );
            assert!(workers > 1 || exact == [3, 4, 3, 4]);
            let shown = listed(&templates(&mut gateway)[0]);
            let server = SocketAddrV4::new(server_ip(number_of(&first)), 0);
            assert_eq!(shown, format!("TCP {} {VIP}:0 {server} NONE", client(1, 0)));
            if mode == Mode::Nat {
                let reply = gateway.answer(&Sent::tcp(first.to, client(1, 40_000), SYN | ACK));
                assert_eq!(reply.from, at(5001));
            }
        }
    }
}

/// As in LVS, a persistent service on FTP's port gets what may be data of FTP, on the client's server.
#[test]
fn ftp_data_follows_its_control_connection() {
    for workers in WORKERS {
        let mut plan = Plan::empty();
        let servers = (1..=3).map(|number| server(number, Mode::Dr)).collect();
        plan.add(SocketAddrV4::new(VIP, 21), Protocol::Tcp, servers);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(300)))
        });
        let mut gateway = Cluster::new(plan, workers);
        let at = |port| SocketAddrV4::new(VIP, port);
        for number in 1..=5 {
            let control = connect(&mut gateway, client(number, 40_000), at(21));
            assert_eq!(connect(&mut gateway, client(number, 40_001), at(12_345)), control);
        }
        let (dropped, _) =
            gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 1), at(80), SYN)));
        assert_eq!(dropped, Some((DropReason::NoService, 1)));
    }
}

#[test]
fn datagrams_of_one_packet_services_stay_too_and_hold_nothing() {
    for workers in WORKERS {
        let mut plan = Plan::dns(Mode::Dr, 3);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(60)));
            service.one_packet = true;
        });
        let mut gateway = Cluster::new(plan, workers);
        let ask = |gateway: &mut Cluster, number, port| {
            number_of(&gateway.forward(&Sent::udp(client(number, port), DNS, b"?")))
        };
        let first = ask(&mut gateway, 1, 40_000);
        assert_eq!(ask(&mut gateway, 1, 40_001), first);
        let other = ask(&mut gateway, 2, 40_000);
        assert!(workers > 1 || other != first);
        assert_eq!((gateway.records(), gateway.templates()), (2, 2));
        gateway.pass(seconds(61));
        assert_eq!(gateway.records(), 0);
    }
}

#[test]
fn calls_stay_by_their_call_id() {
    for workers in WORKERS {
        let mut plan = Plan::dns(Mode::Dr, 3);
        plan.edit(0, |service: &mut Service| {
            service.engine = Some(PersistenceEngine::Sip);
            service.persistence = Some(Persistence {
                netmask: Ipv4Addr::UNSPECIFIED,
                ..Persistence::new(seconds(60))
            });
        });
        let mut gateway = Cluster::new(plan, workers);
        let call = |gateway: &mut Cluster, from: SocketAddrV4, id: &str| {
            let message = format!("INVITE sip:a@b SIP/2.0\r\nCall-ID: {id}\r\n\r\n");
            number_of(&gateway.forward(&Sent::udp(from, DNS, message.as_bytes())))
        };
        let first = call(&mut gateway, client(1, 5060), "abc@h");
        let other = call(&mut gateway, client(1, 5061), "def@h");
        assert!(workers > 1 || first != other);
        assert_eq!(
            call(&mut gateway, client(2, 5060), "abc@h"),
            first,
            "whoever calls"
        );
        assert_eq!(call(&mut gateway, client(3, 5060), "def@h"), other);
        let (dropped, sent) =
            gateway.dropped_by(|gateway| gateway.inbound(&Sent::udp(client(4, 5060), DNS, b"hello")));
        assert_eq!((dropped, sent.len()), (Some((DropReason::NoCallId, 1)), 0));
    }
}
