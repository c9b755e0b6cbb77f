//! TCP through both modes: states, timeouts, reuse, servers that go away.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::time::seconds;

#[test]
fn fullnat_translates_both_directions() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = client(1, 40000);
    let syn = gateway.forward(&Sent::tcp(from, WEB, SYN).at(1000, 0).options(&[2, 4, 5, 0xb4]));
    assert_eq!((syn.port, syn.to_mac, syn.from_mac), (1, server_mac(1), LAN_MAC));
    assert_eq!((*syn.to.ip(), syn.to.port()), (server_ip(1), SERVER_PORT));
    assert!(gateway.plan.locals.addresses().contains(&(*syn.from.ip()).into()) && syn.from.port() >= 1024);
    assert_eq!((syn.ttl, syn.sequence, syn.flags), (63, 1000, SYN));
    assert_eq!(syn.options, [2, 4, 5, 0xb4]);

    let reply = gateway.answer(&Sent::tcp(syn.to, syn.from, SYN | ACK).at(7000, 1001));
    assert_eq!(
        (reply.port, reply.to_mac, reply.from_mac),
        (0, ROUTER_MAC, WAN_MAC)
    );
    assert_eq!((reply.from, reply.to, reply.ttl), (WEB, from, 63));
    assert_eq!((reply.sequence, reply.acknowledgement), (7000, 1001));

    let data = gateway.forward(&Sent::tcp(from, WEB, PSH | ACK).at(1001, 7001).data(b"GET / HTTP"));
    assert_eq!(
        (data.from, data.to, &data.data[..]),
        (syn.from, syn.to, &b"GET / HTTP"[..])
    );
    let page = gateway.answer(&Sent::tcp(syn.to, syn.from, PSH | ACK).at(7001, 1011).data(b"odd"));
    assert_eq!((page.to, &page.data[..]), (from, &b"odd"[..]));
    let counted = gateway.server(1);
    assert_eq!(
        (counted.inbound_packets.get(), counted.outbound_packets.get()),
        (2, 2)
    );
    assert_eq!(
        (counted.inbound_bytes.get(), counted.outbound_bytes.get()),
        (44 + 50, 40 + 43)
    );
    assert_eq!(counted.connections.get(), 1);
}

#[test]
fn dr_changes_nothing_but_the_ttl_and_the_mac() {
    let mut gateway = Gateway::new(Plan::web(Mode::Dr, 1));
    let from = client(1, 40000);
    for packet in [
        Sent::tcp(from, WEB, SYN),
        Sent::tcp(from, WEB, ACK).data(b"abc"),
        Sent::tcp(from, WEB, FIN | ACK),
    ] {
        let sent = gateway.forward(&packet);
        assert_eq!(
            (sent.port, sent.to_mac, sent.from_mac),
            (1, server_mac(1), LAN_MAC)
        );
        assert_eq!(sent.packet, packet.ttl(63).packet());
    }
    assert_eq!(gateway.state(), ("FIN_WAIT", 120));
    assert_eq!(gateway.connections()[0].local, None);
}

/// What is sent, by whom (true: the client), then the state and its timeout.
type Step = (bool, u8, &'static str, u32);

fn walk(mode: Mode, steps: &[Step]) {
    let mut gateway = Gateway::new(Plan::web(mode, 1));
    let from = client(1, 40000);
    let mut local = from;
    for &(by_client, flags, state, timeout) in steps {
        if by_client {
            let sent = gateway.forward(&Sent::tcp(from, WEB, flags));
            local = sent.from;
        } else {
            let server = end(server_ip(1).octets(), SERVER_PORT);
            gateway.answer(&Sent::tcp(server, local, flags));
        }
        assert_eq!(gateway.state(), (state, timeout), "after {flags:#x} in {steps:?}");
        let active = matches!(state, "SYN_RECV" | "ESTABLISHED" | "SYN_SENT");
        assert_eq!(gateway.counts(1), (u32::from(active), u32::from(!active)));
    }
    let (state, timeout) = (steps[steps.len() - 1].2, steps[steps.len() - 1].3);
    gateway.pass(seconds(timeout) - 1);
    assert_eq!(gateway.state(), (state, 0));
    gateway.pass(9);
    assert_eq!((gateway.stats.connections.get(), gateway.ports_in_use()), (0, 0));
    assert_eq!(gateway.counts(1), (0, 0));
}

#[test]
fn fullnat_states_and_their_timeouts() {
    let open: [Step; 3] = [
        (true, SYN, "SYN_RECV", 60),
        (false, SYN | ACK, "SYN_RECV", 60),
        (true, ACK, "ESTABLISHED", 900),
    ];
    let with = |more: &[Step]| [&open[..], more].concat();
    walk(Mode::Fullnat, &open[..1]);
    walk(Mode::Fullnat, &open);
    walk(Mode::Fullnat, &with(&[(true, FIN | ACK, "CLOSE_WAIT", 60)]));
    walk(Mode::Fullnat, &with(&[(false, FIN | ACK, "FIN_WAIT", 120)]));
    walk(
        Mode::Fullnat,
        &with(&[
            (false, FIN | ACK, "FIN_WAIT", 120),
            (true, FIN | ACK, "TIME_WAIT", 120),
            (false, ACK, "TIME_WAIT", 120),
        ]),
    );
    walk(
        Mode::Fullnat,
        &with(&[
            (true, FIN | ACK, "CLOSE_WAIT", 60),
            (false, FIN | ACK, "TIME_WAIT", 120),
        ]),
    );
    walk(Mode::Fullnat, &with(&[(true, RST, "CLOSE", 10)]));
    walk(Mode::Fullnat, &with(&[(false, RST | ACK, "CLOSE", 10)]));
    // A reset of the client does not end what is half open; no flag at all ends everything.
    walk(
        Mode::Fullnat,
        &[(true, SYN, "SYN_RECV", 60), (true, RST, "SYN_RECV", 60)],
    );
    walk(Mode::Fullnat, &with(&[(true, PSH, "CLOSE", 10)]));
}

#[test]
fn dr_states_and_their_timeouts() {
    let open: [Step; 2] = [(true, SYN, "SYN_RECV", 60), (true, ACK, "ESTABLISHED", 900)];
    let with = |more: &[Step]| [&open[..], more].concat();
    walk(Mode::Dr, &open);
    walk(
        Mode::Dr,
        &with(&[(true, FIN | ACK, "FIN_WAIT", 120), (true, ACK, "FIN_WAIT", 120)]),
    );
    walk(Mode::Dr, &with(&[(true, RST, "CLOSE", 10)]));
    walk(
        Mode::Dr,
        &[(true, SYN, "SYN_RECV", 60), (true, FIN, "TIME_WAIT", 120)],
    );
}

/// TIME-01: whatever the timeout and the phase at which it starts, it is exact to a slot of the wheel.
#[test]
fn long_timeouts_are_exact_from_any_phase() {
    for timeout in [1, 523, 524, 525, 600, 900, 1048, 86_400] {
        for phase in [0, 7, 20_479, 52_429] {
            let mut plan = Plan::web(Mode::Dr, 1);
            plan.settings.timeouts.set(timeout, 0, 0);
            let mut gateway = Gateway::starting(plan);
            gateway.now = gateway.now.after(phase);
            gateway.turn();
            let from = client(1, 40000);
            gateway.inbound(&Sent::tcp(from, WEB, SYN));
            gateway.inbound(&Sent::tcp(from, WEB, ACK));
            let opened = gateway.now;
            while gateway.stats.connections.get() == 1 {
                let due = gateway.worker.next_timer().unwrap();
                gateway.now = gateway.now.after(due.since(gateway.now).max(1));
                gateway.turn();
            }
            let lived = gateway.now.since(opened);
            assert!(
                (seconds(timeout)..=seconds(timeout) + 8).contains(&lived),
                "{timeout} s from {phase}: {lived} ticks"
            );
        }
    }
}

/// Timeouts that become shorter count for connections that there are, idle ones too.
#[test]
fn shorter_timeouts_count_at_once() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    for n in 0..300 {
        gateway.establish(client(1, 1024 + n), WEB);
    }
    gateway.pass(seconds(10));
    gateway.change(|plan| plan.settings.timeouts.set(60, 0, 0));
    gateway.pass(seconds(50) - 1);
    assert_eq!(gateway.stats.connections.get(), 300);
    gateway.pass(20);
    assert_eq!(gateway.stats.connections.get(), 0);
}

#[test]
fn packets_keep_a_connection_alive() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = client(1, 40000);
    let local = gateway.establish(from, WEB);
    for _ in 0..5 {
        gateway.pass(seconds(899));
        gateway.answer(&Sent::tcp(end(server_ip(1).octets(), SERVER_PORT), local, ACK));
        assert_eq!(gateway.state(), ("ESTABLISHED", 900));
    }
}

/// TCP-01: a SYN on a connection in TIME_WAIT goes on at once, as a new connection.
#[test]
fn one_port_a_thousand_times() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = Gateway::new(Plan::web(mode, 2));
        let from = client(1, 40000);
        let mut sequence = 1000u32;
        for round in 0..1000u64 {
            let syn = gateway.forward(&Sent::tcp(from, WEB, SYN).at(sequence, 0));
            assert_eq!(syn.flags, SYN);
            if mode == Mode::Fullnat {
                gateway.answer(&Sent::tcp(syn.to, syn.from, SYN | ACK));
                gateway.forward(&Sent::tcp(from, WEB, ACK));
                gateway.answer(&Sent::tcp(syn.to, syn.from, FIN | ACK));
                gateway.forward(&Sent::tcp(from, WEB, FIN | ACK));
                gateway.answer(&Sent::tcp(syn.to, syn.from, ACK));
            } else {
                // Half open, then a FIN: DR's way into TIME_WAIT.
                gateway.forward(&Sent::tcp(from, WEB, FIN | ACK));
            }
            assert_eq!(gateway.state().0, "TIME_WAIT");
            assert_eq!(gateway.stats.opened.get(), round + 1);
            sequence = sequence.wrapping_add(64_000_000);
            gateway.pass(1);
        }
        assert_eq!(gateway.server(1).connections.get(), 500, "both servers in turn");
        assert_eq!(gateway.stats.dropped(), 0);
    }
}

/// DR's FIN may be the second one: with bit 1 of the mode a SYN then starts anew, else it stays.
#[test]
fn reuse_modes() {
    for (reuse_mode, opened) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
        let mut plan = Plan::web(Mode::Dr, 2);
        plan.settings.conn_reuse_mode = reuse_mode;
        let mut gateway = Gateway::new(plan);
        let from = client(1, 40000);
        gateway.establish(from, WEB);
        gateway.finish(from, WEB);
        assert_eq!(gateway.state().0, "FIN_WAIT");
        let syn = gateway.forward(&Sent::tcp(from, WEB, SYN));
        assert_eq!(syn.to_mac, server_mac(opened), "mode {reuse_mode}");
        assert_eq!(gateway.state().0, "SYN_RECV");
        assert_eq!(gateway.stats.opened.get(), u64::from(opened));
    }
}

/// TCP-03.
#[test]
fn a_syn_on_an_established_connection_goes_to_its_server() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = Gateway::new(Plan::web(mode, 2));
        let from = client(1, 40000);
        let local = gateway.establish(from, WEB);
        for _ in 0..3 {
            let syn = gateway.forward(&Sent::tcp(from, WEB, SYN).at(77_777_777, 0));
            assert_eq!(
                (syn.to_mac, syn.from, syn.sequence),
                (server_mac(1), local, 77_777_777)
            );
        }
        let data = gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"on"));
        assert_eq!((data.to_mac, data.from), (server_mac(1), local));
        assert_eq!(
            (gateway.state(), gateway.counts(2)),
            (("ESTABLISHED", 900), (0, 0))
        );
    }
}

/// TCP-05, UDP-03: with the flag off, packets to a server that is away are lost, and flow again once it is back. What
/// it still says itself goes to the client, as through IPVS.
#[test]
fn a_server_removed_and_added_again_has_its_connections() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = Gateway::new(Plan::web(mode, 2));
        let from = client(1, 40000);
        let local = gateway.establish(from, WEB);
        let data = Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"data");
        let server = gateway.plan.services[0].as_ref().unwrap().servers[0].clone();
        gateway.change(|plan| plan.edit(0, |service| service.servers.remove(0)));
        for _ in 0..3 {
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&data));
            assert_eq!((dropped, sent.len()), (Some((DropReason::ServerGone, 1)), 0));
        }
        if mode == Mode::Fullnat {
            let reply = Sent::tcp(end(server_ip(1).octets(), SERVER_PORT), local, ACK);
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.outbound(&reply));
            assert_eq!((dropped, sent.len()), (None, 1));
        }
        assert_eq!(gateway.connections().len(), 1);
        gateway.pass(seconds(3));
        gateway.change(|plan| plan.edit(0, |service| service.servers.insert(0, server)));
        let sent = gateway.forward(&data);
        assert_eq!((sent.to_mac, sent.from), (server_mac(1), local));
        assert_eq!(gateway.stats.opened.get(), 1);
    }
}

/// TCP-05 with the flag on: the entries go by themselves, and a packet that comes first is answered at once.
#[test]
fn connections_of_a_gone_server_end_where_that_is_wanted() {
    let mut plan = Plan::web(Mode::Fullnat, 2);
    plan.settings.expire_nodest_conn = true;
    let mut gateway = Gateway::new(plan);
    // More than one turn sweeps.
    let clients: Vec<_> = (0..200).map(|n| client(1, 40_000 + n)).collect();
    let locals: Vec<_> = clients.iter().map(|from| gateway.establish(*from, WEB)).collect();
    let _ = gateway.plan.snapshot();
    gateway.plan.edit(0, |service| service.servers.remove(0));
    let snapshot = gateway.plan.snapshot();
    gateway
        .mailbox
        .orders
        .push(crate::worker::Order::Publish(snapshot))
        .unwrap();
    gateway.turn();

    let last = clients[198];
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(last, WEB, ACK).at(9, 33)));
    assert_eq!(dropped, Some((DropReason::NotSyn, 1)));
    let reset = one(sent);
    assert_eq!(
        (reset.from, reset.to, reset.flags, reset.sequence),
        (WEB, last, RST, 33)
    );
    let syn = gateway.forward(&Sent::tcp(clients[196], WEB, SYN));
    assert_eq!(syn.to_mac, server_mac(2), "a SYN is scheduled afresh");
    let late = Sent::tcp(end(server_ip(1).octets(), SERVER_PORT), locals[194], ACK);
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.outbound(&late));
    assert_eq!(dropped, Some((DropReason::NoConnection, 1)));
    gateway.pass(seconds(4));
    assert_eq!(gateway.counts(1), (0, 0));
    assert_eq!(gateway.connections().len(), 101);
}

/// A FIN that completes the close, and the SYN of the next connection, in one burst; then what belongs to that.
#[test]
fn close_and_reuse_within_one_burst() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 2));
    let from = client(1, 40000);
    let local = gateway.establish(from, WEB);
    gateway.answer(&Sent::tcp(
        end(server_ip(1).octets(), SERVER_PORT),
        local,
        FIN | ACK,
    ));
    for packet in [
        Sent::tcp(from, WEB, FIN | ACK),
        Sent::tcp(from, WEB, SYN).at(900_000_000, 0),
        Sent::tcp(from, WEB, ACK).at(900_000_001, 1),
        Sent::tcp(from, WEB, ACK).at(900_000_001, 1).data(b"x"),
    ] {
        gateway.arrive(WAN, &packet.frame(WAN_MAC));
    }
    let sent = gateway.turn();
    let servers: Vec<_> = sent.iter().map(|seen| *seen.to.ip()).collect();
    assert_eq!(servers, [1, 2, 2, 2].map(server_ip));
    assert!(sent[0].from == local && sent[1].from != local);
    assert!(sent[1..].iter().all(|seen| seen.from == sent[1].from));
    assert_eq!(gateway.state(), ("ESTABLISHED", 900));
}

#[test]
fn one_flow_many_times_in_one_burst_is_one_connection() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = Gateway::new(Plan::web(mode, 2));
        for n in 0..32 {
            let flags = if n < 2 { SYN } else { ACK };
            gateway.arrive(WAN, &Sent::tcp(client(1, 40000), WEB, flags).frame(WAN_MAC));
        }
        let sent = gateway.turn();
        assert_eq!(sent.len(), 32);
        assert!(
            sent.iter()
                .all(|seen| (seen.from, seen.to_mac) == (sent[0].from, sent[0].to_mac))
        );
        assert_eq!(gateway.stats.opened.get(), 1);
    }
}

/// HAIR-01: a server that asks its own VIP, and is picked for it, talks to itself by way of the gateway.
#[test]
fn a_server_is_a_client_of_its_own_vip() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = end(server_ip(1).octets(), 40000);
    let syn = one(gateway.send(LAN, &Sent::tcp(from, WEB, SYN)));
    assert_eq!(
        (*syn.to.ip(), syn.port, syn.to_mac),
        (server_ip(1), 1, server_mac(1))
    );
    assert!(gateway.plan.locals.addresses().contains(&(*syn.from.ip()).into()));
    let reply = one(gateway.send(LAN, &Sent::tcp(syn.to, syn.from, SYN | ACK)));
    assert_eq!((reply.from, reply.to, reply.port), (WEB, from, 1));
    let ack = one(gateway.send(LAN, &Sent::tcp(from, WEB, ACK)));
    assert_eq!((ack.from, ack.to), (syn.from, syn.to));
}

/// MULTI-01: the same client port towards two VIPs with the same server stays two connections.
#[test]
fn two_vips_with_one_server_are_told_apart() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    let other = end(VIP2.octets(), 80);
    plan.add(
        other,
        crate::service::Protocol::Tcp,
        vec![crate::service::Server {
            slot: 2,
            ..server(1, Mode::Fullnat)
        }],
    );
    let mut gateway = Gateway::new(plan);
    let from = client(1, 40000);
    let first = gateway.establish(from, WEB);
    let second = gateway.establish(from, other);
    assert_ne!(first, second);
    let server = end(server_ip(1).octets(), SERVER_PORT);
    let answer = gateway.answer(&Sent::tcp(server, second, ACK));
    assert_eq!((answer.from, answer.to), (other, from));
    let answer = gateway.answer(&Sent::tcp(server, first, ACK));
    assert_eq!((answer.from, answer.to), (WEB, from));
}

#[test]
fn sloppy_tcp_opens_by_any_segment_but_a_reset() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.settings.sloppy_tcp = true;
    let mut gateway = Gateway::new(plan);
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 1), WEB, RST)));
    assert_eq!((dropped, sent.len()), (Some((DropReason::NotSyn, 1)), 0));
    let high = 0xf000_0000;
    gateway.forward(&Sent::tcp(client(1, 2), WEB, ACK).at(high, 1).data(b"abc"));
    assert_eq!(gateway.state().0, "ESTABLISHED");
    let mut shown = 0;
    gateway
        .worker
        .table
        .scan(0, usize::MAX, |_, record| shown = record.sequence);
    assert_eq!(
        shown,
        high + 3,
        "what the server was shown is known without a SYN too"
    );
}

#[test]
fn what_is_for_another_port_of_ours_is_not_forwarded() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    for to in [WAN_IP, LAN_IP, "192.0.2.1".parse().unwrap()] {
        let packet = Sent::tcp(client(1, 1), end(to.octets(), 80), SYN);
        for port in [0, 1].map(PortId) {
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.send(port, &packet));
            assert_eq!((dropped, sent.len()), (Some((DropReason::NotForUs, 1)), 0));
        }
    }
}
