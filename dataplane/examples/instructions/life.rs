//! The row of whole lives: what a TCP connection takes from its SYN until its record is free again. A figure is for a
//! connection here, and not for a packet.

use super::carried::Out;
use super::frames::{ACK, FIN, SYN};
use super::plan::{LAN, Plan, WAN, both_pool};
use super::rows::{Rig, Row, counted_turn, web};
use super::wire::Wire;
use dataplane::flow::Mode;
use dataplane::service::Protocol;
use dataplane::time::seconds;
use dataplane::worker::BURST;

/// Connections that live at once.
const AT_ONCE: usize = 512;
/// How often as many live and end before any is counted: then each local port has been used, and they come round.
const BEFORE: usize = 10;
/// How often they do while they are counted.
const COUNTED: usize = 4;
/// How long the last timeout takes, and a little more.
const UNTIL_ALL_ENDED: u32 = seconds(125);

/// Few local ports, so that they are used again and again.
pub(crate) fn plan() -> Plan {
    let mut plan = web(Mode::Fullnat, Protocol::Tcp);
    plan.use_locals(both_pool(4, 1024, 1151));
    plan
}

/// Counts; returns how many connections that are.
pub(crate) fn count(rig: &mut Rig, row: &Row) -> usize {
    let mut next = 0;
    for _ in 0..BEFORE {
        generation(rig, row, &mut next, |rig| {
            rig.worker.turn(rig.now);
        });
    }
    for _ in 0..COUNTED {
        generation(rig, row, &mut next, |rig| {
            counted_turn(&mut rig.worker, rig.now);
        });
    }
    COUNTED * AT_ONCE
}

/// Connections from here on live, all of them, and end.
fn generation(rig: &mut Rig, row: &Row, next: &mut u16, mut turn: impl FnMut(&mut Rig)) {
    for _ in 0..AT_ONCE / BURST {
        let numbers = *next..*next + BURST as u16;
        *next = numbers.end % 32_768;
        let from_clients = |flags| numbers.clone().map(move |number| row.request(number, flags));
        let seen = pass(rig, WAN, from_clients(SYN), &mut turn);
        let from_servers = |flags| seen.iter().map(move |seen| row.reply(seen, flags));
        pass(rig, LAN, from_servers(SYN | ACK), &mut turn);
        pass(rig, WAN, from_clients(ACK), &mut turn);
        pass(rig, LAN, from_servers(ACK), &mut turn);
        pass(rig, WAN, from_clients(FIN | ACK), &mut turn);
        pass(rig, LAN, from_servers(FIN | ACK), &mut turn);
        pass(rig, WAN, from_clients(ACK), &mut turn);
        rig.now = rig.now.after(1);
    }
    assert_eq!(rig.stats.connections.get(), AT_ONCE as u64);
    let end = rig.now.after(UNTIL_ALL_ENDED);
    while !rig.now.reached(end) {
        rig.now = rig.now.after(seconds(1));
        turn(rig);
        rig.worker.io_mut().recycle();
    }
    // A turn ends so many and no more.
    while rig.stats.connections.get() > 0 {
        turn(rig);
    }
}

/// A burst arrives at a port; what goes out for it, which has to be as much.
fn pass(
    rig: &mut Rig,
    port: dataplane::packet::PortId,
    packets: impl Iterator<Item = Wire>,
    turn: &mut impl FnMut(&mut Rig),
) -> Vec<Wire> {
    for packet in packets {
        let frame = rig.frame(port, &packet);
        rig.worker.io_mut().arrive(port, &frame);
    }
    turn(rig);
    let sent = rig.worker.io_mut().take_sent().into_iter().map(Out::read);
    let sent: Vec<Wire> = sent.filter(|out| !out.arp).map(|out| out.wire()).collect();
    assert_eq!(sent.len(), BURST, "packets ended in the gateway");
    sent
}
