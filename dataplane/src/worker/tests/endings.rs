//! How connections end when their server is removed or nothing comes any more, and what their ends are told.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::{Flags, Mode, TcpState, Timeouts};
use crate::service::{OnRemove, Policy};
use crate::time::seconds;
use std::net::SocketAddrV4;
use std::sync::Arc;

/// Those whose packets arrive as they are, without another around them.
const PLAIN: [Mode; 3] = [Mode::Nat, Mode::Dr, Mode::Fullnat];

fn with(mut plan: Plan, policy: Policy) -> Plan {
    plan.edit(0, |service| service.policy = policy);
    plan
}

fn on_remove(on_remove: OnRemove) -> Policy {
    Policy {
        on_remove,
        ..Policy::default()
    }
}

fn remove(plan: &mut Plan, slot: u32) {
    plan.edit(0, |service| service.servers.retain(|server| server.slot != slot));
}

fn add(plan: &mut Plan, number: u32, mode: Mode) {
    plan.edit(0, |service| service.servers.insert(0, server(number, mode)));
}

/// Sequence number and acknowledgement number of a reset.
type Numbers = (u32, u32);

/// Resets to the client, and to the server as it sees them.
fn resets(sent: &[Seen], from: SocketAddrV4) -> (Vec<Numbers>, Vec<Numbers>) {
    let resets = sent.iter().filter(|seen| seen.protocol == TCP);
    let (client, server): (Vec<_>, Vec<_>) = resets.partition(|seen| seen.port == WAN.0);
    let numbers = |seen: Vec<&Seen>| -> Vec<Numbers> {
        let number = |seen: &Seen| {
            assert_eq!(seen.flags, RST | ACK);
            (seen.sequence, seen.acknowledgement)
        };
        seen.into_iter().map(number).collect()
    };
    assert!(client.iter().all(|seen| (seen.from, seen.to) == (WEB, from)));
    (numbers(client), numbers(server))
}

/// TCP-05: a server that comes back gets its connections back, whatever was lost meanwhile.
#[test]
fn kept_connections_go_on_when_their_server_comes_back() {
    for mode in PLAIN {
        let mut gateway = Gateway::new(Plan::web(mode, 2));
        let from = client(1, 40000);
        gateway.establish(from, WEB);
        gateway.change(|plan| remove(plan, 1));
        let data = Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"data");
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&data));
        assert_eq!((dropped, sent.len()), (Some((DropReason::ServerGone, 1)), 0));
        gateway.change(|plan| add(plan, 1, mode));
        assert_eq!(gateway.forward(&data).to_mac, server_mac(1));
    }
}

#[test]
fn draining_connections_go_on_and_new_ones_go_elsewhere() {
    for mode in PLAIN {
        let mut gateway = Gateway::new(with(Plan::web(mode, 2), on_remove(OnRemove::Drain)));
        let from = client(1, 40000);
        gateway.establish(from, WEB);
        gateway.change(|plan| remove(plan, 1));
        for n in 0..4 {
            let syn = gateway.forward(&Sent::tcp(client(2, 1024 + n), WEB, SYN));
            assert_eq!(syn.to_mac, server_mac(2));
        }
        let data = Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"data");
        assert_eq!(gateway.forward(&data).to_mac, server_mac(1));
        gateway.pass(seconds(600));
        assert_eq!(gateway.forward(&data).to_mac, server_mac(1), "no deadline");
        assert_eq!(gateway.server(1).now(), 1, "still to be seen");
        gateway.pass(seconds(901));
        assert_eq!(gateway.server(1).now(), 0);
    }
}

#[test]
fn draining_ends_at_its_deadline_even_under_traffic() {
    let policy = Policy {
        drain_deadline: seconds(30),
        ..on_remove(OnRemove::Drain)
    };
    for servers in [2, 3] {
        let mut gateway = Gateway::new(with(Plan::web(Mode::Nat, servers), policy));
        let clients = [client(1, 40000), client(2, 40000)];
        for from in clients {
            gateway.establish(from, WEB);
        }
        gateway.change(|plan| remove(plan, 1));
        gateway.pass(seconds(10));
        // The second one, ten seconds later, has a deadline of its own.
        let second = servers == 3;
        if second {
            gateway.change(|plan| remove(plan, 2));
        }
        let data = |n: usize| Sent::tcp(clients[n], WEB, ACK).at(1001, 5001).data(b"data");
        gateway.pass(seconds(20) - 1);
        assert_eq!(gateway.forward(&data(0)).to_mac, server_mac(1));
        gateway.pass(2);
        assert_eq!(gateway.server(1).now(), 0, "in the background");
        let told = one(gateway.inbound(&data(0)));
        assert_eq!((told.flags, told.sequence), (RST, 5001), "by what it sends next");
        assert_eq!(gateway.forward(&data(1)).to_mac, server_mac(2));
        gateway.pass(seconds(10));
        assert_eq!(gateway.server(2).now(), u64::from(!second));
    }
}

/// TCP-06, UDP-01, UDP-03: the connections of a removed server end in the background, and what comes next from any
/// client goes to another server, with nothing lost.
#[test]
fn rescheduled_connections_lose_nothing() {
    for mode in PLAIN {
        let mut gateway = Gateway::new(with(Plan::dns(mode, 2), on_remove(OnRemove::Reschedule)));
        let from = |n: u16| client(1, 1024 + n);
        for n in 0..1000 {
            gateway.forward(&Sent::udp(from(n), DNS, b"one"));
        }
        gateway.change(|plan| remove(plan, 1));
        assert_eq!(
            gateway.forward(&Sent::udp(from(0), DNS, b"at once")).to_mac,
            server_mac(2)
        );
        // A slice of the table at a time.
        for _ in 0..40 {
            gateway.pass(1);
        }
        assert_eq!(gateway.server(1).now(), 0, "without a packet");
        for n in 0..1000 {
            let sent = gateway.forward(&Sent::udp(from(n), DNS, b"two"));
            assert_eq!(sent.to_mac, server_mac(2));
        }
        assert_eq!(gateway.stats.dropped(), 0);
    }
}

#[test]
fn a_rescheduled_tcp_connection_is_refused_and_its_next_syn_is_not() {
    let mut gateway = Gateway::new(with(Plan::web(Mode::Fullnat, 2), on_remove(OnRemove::Reschedule)));
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    gateway.change(|plan| remove(plan, 1));
    let told = one(gateway.inbound(&Sent::tcp(from, WEB, ACK).at(1001, 5001)));
    assert_eq!((told.flags, told.sequence, told.from), (RST, 5001, WEB));
    assert_eq!(gateway.forward(&Sent::tcp(from, WEB, SYN)).to_mac, server_mac(2));
}

/// TCP-05: nothing waits for a client to send: both ends are told, by numbers that they accept (RFC 5961 3.2).
#[test]
fn both_ends_of_a_removed_servers_connections_are_reset() {
    for mode in PLAIN {
        let mut gateway = Gateway::new(with(Plan::web(mode, 2), on_remove(OnRemove::Reset)));
        let from = client(1, 40000);
        let local = gateway.establish(from, WEB);
        let data = gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"request"));
        let end = data.sequence.wrapping_add(7);
        let both = matches!(mode, Mode::Nat | Mode::Fullnat);
        if both {
            let reply = Sent::tcp(data.to, local, ACK).at(5001, end).data(b"response");
            gateway.answer(&reply);
        }
        let mut sent = gateway.change(|plan| remove(plan, 1));
        sent.extend(gateway.pass(seconds(1)));
        let (to_client, to_server) = resets(&sent, from);
        if both {
            assert_eq!(
                to_client,
                [(5001, 1008), (5009, 1008)],
                "as far as it was seen to be, or is by now"
            );
            assert_eq!(to_server, [(end, 5009)]);
            let to = sent.iter().find(|seen| seen.port == LAN.0).unwrap();
            assert_eq!((to.from, to.to), (data.from, data.to));
        } else {
            assert_eq!(
                (to_client.as_slice(), to_server.len()),
                (&[(5001, 1008)][..], usize::from(mode == Mode::Dr))
            );
            if mode == Mode::Dr {
                assert_eq!(to_server, [(1008, 5001)]);
            }
        }
        let to_lan = sent.iter().filter(|seen| seen.port == LAN.0);
        assert!(to_lan.clone().all(|seen| seen.to_mac == server_mac(1)));
        assert_eq!((to_lan.count(), gateway.server(1).now()), (1, 0));
    }
}

/// What is half open, or over, is told as little as it needs.
#[test]
fn only_ends_that_may_wait_are_reset() {
    let mut gateway = Gateway::new(with(Plan::web(Mode::Nat, 2), on_remove(OnRemove::Reset)));
    let [open, over] = [client(1, 40000), client(2, 40000)];
    gateway.forward(&Sent::tcp(open, WEB, SYN).at(1000, 0));
    gateway.change(|plan| plan.edit(0, |service| service.servers[1].weight = 0));
    gateway.establish(over, WEB);
    gateway.finish(over, WEB);
    let mut sent = gateway.change(|plan| remove(plan, 1));
    sent.extend(gateway.pass(seconds(1)));
    let (to_client, to_server) = resets(&sent, open);
    assert_eq!(
        (&to_client[..], &to_server[..]),
        (&[(0, 1001)][..], &[(1001, 0)][..])
    );
    assert_eq!(gateway.stats.connections.get(), 0);
}

/// A sequence shift, as on a recycled local port: the server is reset in the numbers that it was shown.
#[test]
fn a_server_is_reset_in_its_own_numbers() {
    let mut plan = with(Plan::web(Mode::Fullnat, 2), on_remove(OnRemove::Reset));
    plan.edit(0, |service| service.servers.truncate(1));
    plan.use_locals(pool(1, 2000, 2000));
    let mut gateway = Gateway::new(plan);
    let first = client(1, 40000);
    gateway.forward(&Sent::tcp(first, WEB, SYN).at(2_000_000_000, 0));
    gateway.forward(&Sent::tcp(first, WEB, ACK).at(2_000_000_001, 5001));
    gateway.forward(&Sent::tcp(first, WEB, RST).at(2_000_000_001, 0));
    let from = client(2, 40000);
    gateway.establish(from, WEB);
    let data = gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"data"));
    assert_ne!(data.sequence, 1001, "shifted");
    let mut sent = gateway.change(|plan| remove(plan, 1));
    sent.extend(gateway.pass(seconds(1)));
    let (to_client, to_server) = resets(&sent, from);
    assert_eq!(to_client, [(5001, 1005)]);
    let end = data.sequence.wrapping_add(4);
    assert_eq!(to_server, [(data.sequence, 5001), (end, 5001)]);
}

#[test]
fn a_connection_that_times_out_is_reset_where_that_is_asked_for() {
    for (mode, reset_idle) in [
        (Mode::Fullnat, true),
        (Mode::Dr, true),
        (Mode::Nat, true),
        (Mode::Nat, false),
    ] {
        let policy = Policy {
            reset_idle,
            ..Policy::default()
        };
        let mut gateway = Gateway::new(with(Plan::web(mode, 1), policy));
        let from = client(1, 40000);
        gateway.establish(from, WEB);
        assert_eq!(gateway.pass(seconds(899)), []);
        let sent = gateway.pass(seconds(2));
        let (to_client, to_server) = resets(&sent, from);
        assert_eq!(gateway.stats.connections.get(), 0);
        if reset_idle {
            assert_eq!(to_client, [(5001, 1001)]);
            assert_eq!(to_server.len(), 1);
            assert_eq!(to_server[0].1, 5001);
        } else {
            assert_eq!((to_client.len(), to_server.len()), (0, 0));
        }
    }
}

/// UDP-01: a sender that never pauses leaves a quiesced server, where that is asked for; what the server still has to
/// say passes until then.
#[test]
fn datagrams_leave_a_quiesced_server() {
    for expire_quiescent in [false, true] {
        let policy = Policy {
            expire_quiescent,
            ..Policy::default()
        };
        let mut gateway = Gateway::new(with(Plan::dns(Mode::Nat, 2), policy));
        let from = client(1, 5353);
        let first = gateway.forward(&Sent::udp(from, DNS, b"query"));
        assert_eq!(first.to_mac, server_mac(1));
        gateway.change(|plan| plan.edit(0, |service| service.servers[0].weight = 0));
        gateway.answer(&Sent::udp(first.to, first.from, b"answer"));
        let next = gateway.forward(&Sent::udp(from, DNS, b"query"));
        let expected = if expire_quiescent { 2 } else { 1 };
        assert_eq!(next.to_mac, server_mac(expected));
        assert_eq!(gateway.connections().len(), 1);
        // TCP keeps what it has.
        let mut gateway = Gateway::new(with(Plan::web(Mode::Nat, 2), policy));
        gateway.establish(from, WEB);
        gateway.change(|plan| plan.edit(0, |service| service.servers[0].weight = 0));
        let data = gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001));
        assert_eq!(data.to_mac, server_mac(1));
    }
}

/// Connections go by their own service's timeouts, at once when those become shorter.
#[test]
fn a_service_has_its_own_timeouts() {
    let mut gateway = Gateway::new(Plan::web(Mode::Nat, 1));
    let established = |seconds_: u32| {
        let mut timeouts = Timeouts::default();
        timeouts.tcp[TcpState::Established as usize] = seconds(seconds_);
        Some(Arc::new(timeouts))
    };
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    assert_eq!(gateway.state().1, 900);
    gateway.change(|plan| plan.edit(0, |service| service.timeouts = established(20)));
    assert_eq!(gateway.state().1, 20);
    gateway.pass(seconds(19));
    assert_eq!(gateway.stats.connections.get(), 1);
    gateway.pass(seconds(2));
    assert_eq!(gateway.stats.connections.get(), 0, "re-armed by the edit");
    gateway.establish(from, WEB);
    gateway.change(|plan| plan.edit(0, |service| service.timeouts = established(3000)));
    gateway.pass(seconds(2999));
    assert_eq!(gateway.stats.connections.get(), 1);
    gateway.pass(seconds(2));
    assert_eq!(gateway.stats.connections.get(), 0);
}

/// A removed service: what it said last holds for what its servers have.
#[test]
fn a_removed_service_ends_its_connections_as_it_said() {
    let mut plan = with(Plan::web(Mode::Nat, 1), on_remove(OnRemove::Reset));
    plan.vips.insert(VIP.into(), crate::service::VipPolicy::default());
    plan.add(DNS, crate::service::Protocol::Udp, vec![server(2, Mode::Nat)]);
    let mut gateway = Gateway::new(plan);
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    let mut sent = gateway.change(|plan| plan.services[0] = None);
    sent.extend(gateway.pass(seconds(1)));
    let (to_client, to_server) = resets(&sent, from);
    assert_eq!(
        (&to_client[..], &to_server[..]),
        (&[(5001, 1001)][..], &[(1001, 5001)][..])
    );
}

/// Sequence numbers are kept only where a service may want them.
#[test]
fn nothing_is_kept_beside_a_connection_that_is_never_reset() {
    for (policy, kept) in [
        (Policy::default(), 0),
        (on_remove(OnRemove::Drain), 0),
        (on_remove(OnRemove::Reset), 1),
    ] {
        let mut gateway = Gateway::new(with(Plan::web(Mode::Nat, 1), policy));
        gateway.establish(client(1, 40000), WEB);
        let mut extended = 0;
        gateway.worker.table.scan(0, usize::MAX, |_, record| {
            extended += usize::from(record.flags.has(Flags::EXTENDED));
        });
        assert_eq!(extended, kept);
    }
}
