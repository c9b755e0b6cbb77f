//! What senders are told whose packets find no service or no server: by policy, VIP, protocol and family.

use super::exchange::*;
use super::frames::{ACK, FIN, RST, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{NoServer, NoService, Protocol, VipPolicy};
use std::net::SocketAddr;

const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The packet that opens a connection.
fn opening(protocol: Protocol, client: SocketAddr, vip: SocketAddr) -> Wire {
    match protocol {
        Protocol::Tcp => Wire::tcp(client, vip, SYN, b""),
        Protocol::Udp => Wire::udp(client, vip, b"query"),
        Protocol::Sctp => Wire::sctp(client, vip, 0, &super::sctp::init(&[])),
    }
}

/// Type and code of "port unreachable".
fn unreachable(family: Family) -> (u8, u8, u32) {
    match family {
        Family::V4 => (3, 3, 0),
        Family::V6 => (1, 4, 0),
    }
}

/// Says whether the answer is what a host says where nothing listens.
fn check_refusal(answer: &Wire, sent: &Wire, family: Family) {
    assert_eq!((answer.from.ip(), answer.to.ip()), (sent.to.ip(), sent.from.ip()));
    match &sent.load {
        Load::Tcp {
            flags,
            sequence,
            data,
            acknowledgement,
            ..
        } => {
            let Load::Tcp {
                flags: told,
                sequence: at,
                acknowledgement: heard,
                ..
            } = &answer.load
            else {
                panic!("no TCP: {answer:?}");
            };
            assert_eq!((answer.from, answer.to), (sent.to, sent.from));
            // RFC 9293 3.10.7.1.
            if flags & ACK != 0 {
                assert_eq!((*told, *at, *heard), (RST, *acknowledgement, 0));
            } else {
                let length = data.len() as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
                assert_eq!((*told, *at, *heard), (RST | ACK, 0, sequence + length));
            }
        }
        Load::Udp { .. } => check_unreachable(answer, sent, family),
        Load::Sctp { .. } => {
            // ABORT with the tag that the INIT asked for (RFC 9260 8.4).
            let abort = Wire::sctp(sent.to, sent.from, 0x1111_2222, &super::sctp::chunk(6, 0, &[]));
            assert_eq!(
                (answer.from, answer.to, &answer.load),
                (abort.from, abort.to, &abort.load)
            );
        }
        Load::Icmp { .. } => panic!("nobody refuses ICMP"),
    }
}

fn check_unreachable(answer: &Wire, sent: &Wire, family: Family) {
    assert_eq!((answer.from.ip(), answer.to.ip()), (sent.to.ip(), sent.from.ip()));
    assert_eq!(answer.message(), unreachable(family));
    assert_eq!(answer.data(), sent.packet(), "quoted as the client sent it");
}

/// RST-01: a port without a service, by the policy of the gateway or of the VIP.
#[test]
fn a_port_without_a_service_is_refused_or_silent() {
    for family in Family::BOTH {
        for (general, own) in [
            (NoService::Reject, None),
            (NoService::Drop, None),
            (NoService::Reject, Some(NoService::Drop)),
            (NoService::Drop, Some(NoService::Reject)),
        ] {
            let mut plan = Plan::dual_web(Mode::Nat, Protocol::Tcp, 1, 80);
            plan.settings.no_service = general;
            let policy = VipPolicy {
                no_service: own,
                no_server: None,
            };
            plan.vips.insert(family.vip(0).ip(), policy);
            let mut gateway = Gateway::new(plan);
            let client = family.client(1, 40000);
            for protocol in PROTOCOLS {
                let packet = opening(protocol, client, family.vip(81));
                let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet));
                assert_eq!(dropped, Some((DropReason::NoService, 1)));
                match own.unwrap_or(general) {
                    NoService::Reject => check_refusal(&only(sent).wire(), &packet, family),
                    NoService::Drop => assert_eq!(sent, []),
                }
            }
            assert_eq!(gateway.connections(), []);
        }
    }
}

/// RST-01: what the fields of a reset are, for every kind of segment; a reset itself is never answered.
#[test]
fn resets_answer_what_they_were_asked() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::dual_web(Mode::Nat, Protocol::Tcp, 1, 80));
        let client = family.client(1, 40000);
        for port in [80, 81] {
            let vip = family.vip(port);
            for (flags, data) in [(ACK, &b""[..]), (FIN | ACK, b"bye"), (FIN, b"bye"), (0, b"xyz")] {
                let packet = Wire::tcp(client, vip, flags, data);
                check_refusal(&gateway.told(&packet), &packet, family);
            }
            assert_eq!(gateway.exchange(WAN, &Wire::tcp(client, vip, RST, b"")), []);
        }
        let syn = Wire::tcp(client, family.vip(81), SYN, b"early data");
        check_refusal(&gateway.told(&syn), &syn, family);
        assert_eq!(gateway.connections(), []);
    }
}

/// RST-02: a service without a usable server: none at all, all of weight 0, all overloaded.
#[test]
fn a_service_without_a_server_is_refused_by_policy() {
    for (family, protocol) in Family::BOTH
        .into_iter()
        .flat_map(|family| PROTOCOLS.map(|p| (family, p)))
    {
        for (general, own) in [
            (NoServer::Icmp, None),
            (NoServer::Reset, None),
            (NoServer::Drop, None),
            (NoServer::Icmp, Some(NoServer::Drop)),
            (NoServer::Drop, Some(NoServer::Reset)),
            (NoServer::Reset, Some(NoServer::Icmp)),
        ] {
            let mut plan = Plan::dual();
            plan.settings.no_server = general;
            let policy = VipPolicy {
                no_service: None,
                no_server: own,
            };
            plan.vips.insert(family.vip(0).ip(), policy);
            let mut quiesced = family.real(1, Mode::Nat, 80);
            quiesced.weight = 0;
            plan.add(family.vip(80), protocol, vec![]);
            plan.add(family.vip(8080), protocol, vec![quiesced]);
            let mut gateway = Gateway::new(plan);
            for port in [80, 8080] {
                let packet = opening(protocol, family.client(1, 40000), family.vip(port));
                let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet));
                assert_eq!(dropped, Some((DropReason::NoServer, 1)));
                match own.unwrap_or(general) {
                    NoServer::Icmp => check_unreachable(&only(sent).wire(), &packet, family),
                    NoServer::Reset => check_refusal(&only(sent).wire(), &packet, family),
                    NoServer::Drop => assert_eq!(sent, []),
                }
            }
            assert_eq!(gateway.connections(), []);
        }
    }
}

/// RST-02: the server is there, but full.
#[test]
fn an_overloaded_server_is_none() {
    for family in Family::BOTH {
        let mut plan = Plan::dual();
        let mut server = family.real(1, Mode::Nat, 80);
        server.upper_threshold = 1;
        plan.add(family.vip(80), Protocol::Udp, vec![server]);
        let mut gateway = Gateway::new(plan);
        gateway.towards_server(&Wire::udp(family.client(1, 1), family.vip(80), b""));
        let second = Wire::udp(family.client(1, 2), family.vip(80), b"");
        check_unreachable(&gateway.told(&second), &second, family);
    }
}

/// What the gateway says itself stays within the rate, silently beyond it; the next second has its own.
#[test]
fn refusals_are_limited_to_so_many_a_second() {
    for family in Family::BOTH {
        let mut plan = Plan::dual_web(Mode::Nat, Protocol::Tcp, 1, 80);
        plan.settings.icmp_rate = 7;
        let mut gateway = Gateway::new(plan);
        for _ in 0..2 {
            gateway.pass_raw(crate::time::seconds(1));
            let mut answers = 0;
            for port in 0..10 {
                let client = family.client(1, 40000 + port);
                for protocol in PROTOCOLS {
                    answers += gateway
                        .exchange(WAN, &opening(protocol, client, family.vip(81)))
                        .len();
                }
            }
            assert_eq!(answers, 7);
        }
        assert_eq!(gateway.drops(DropReason::NoService), 60);
    }
}
