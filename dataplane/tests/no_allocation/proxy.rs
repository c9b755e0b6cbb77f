//! The same for the header of the PROXY protocol: sent, sent again by the timer and because it is missing, given up.

use super::carried::*;
use super::frames::{ACK, FIN, PSH, RST, SYN};
use super::plan::*;
use super::wire::*;
use super::{ALLOCATED, FREED, Rig};
use dataplane::flow::Mode;
use dataplane::packet::PortId;
use dataplane::service::{ClientAddress, Protocol};
use dataplane::time::seconds;
use std::net::SocketAddr;

fn plan() -> Plan {
    let mut plan = Plan::dual_web(Mode::Fullnat, Protocol::Tcp, 1, 8080);
    plan.sizes.connections = 500;
    for slot in 0..2 {
        plan.edit(slot, |service| service.client_address = ClientAddress::ProxyV2);
    }
    plan
}

fn say(
    rig: &mut Rig,
    port: PortId,
    ends: (SocketAddr, SocketAddr),
    flags: u8,
    numbers: (u32, u32),
    data: &[u8],
) {
    let mut wire = Wire::tcp(ends.0, ends.1, flags, data);
    if let Load::Tcp {
        sequence,
        acknowledgement,
        ..
    } = &mut wire.load
    {
        (*sequence, *acknowledgement) = numbers;
    }
    let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
    rig.arrive(port, &link(mac, &wire.packet()));
}

/// A turn, and what the server says to it: it answers each SYN, and of the headers it acknowledges some, misses some,
/// and leaves some.
fn turn(rig: &mut Rig) {
    for out in rig.turn_raw().into_iter().map(Out::read) {
        if out.port != LAN || out.arp {
            continue;
        }
        let seen = out.wire();
        let Load::Tcp { flags, sequence, .. } = seen.load else {
            continue;
        };
        let ends = (seen.to, seen.from);
        let end = sequence.wrapping_add(seen.data().len() as u32);
        if flags & SYN != 0 {
            say(rig, LAN, ends, SYN | ACK, (4999, sequence.wrapping_add(1)), b"");
        } else if seen.data().len() >= 28 {
            match seen.from.port() % 4 {
                0 => say(rig, LAN, ends, ACK, (5000, end), b""),
                1 => say(rig, LAN, ends, ACK, (5000, sequence), b""),
                2 => say(rig, LAN, ends, PSH | ACK, (5000, sequence), b"greeting"),
                _ => {}
            }
        }
    }
}

#[test]
fn no_header_allocates_or_frees() {
    let mut plan = plan();
    let mut rig = Rig::new(&mut plan);
    for round in 0..400u16 {
        for family in Family::BOTH {
            let ends = (
                family.client(1 + (round % 200) as u8, 1024 + round),
                family.vip(80),
            );
            say(&mut rig, WAN, ends, SYN, (999, 0), b"fast open");
            turn(&mut rig);
            turn(&mut rig);
            say(&mut rig, WAN, ends, ACK, (1000, 5000), b"");
            say(&mut rig, WAN, ends, PSH | ACK, (1000, 5000), b"data");
            match round % 5 {
                0 => say(&mut rig, WAN, ends, RST, (1004, 0), b""),
                1 => say(&mut rig, WAN, ends, FIN | ACK, (1004, 5000), b""),
                2 => say(&mut rig, WAN, ends, PSH | ACK, (1000, 5000), b"data"),
                _ => {}
            }
            turn(&mut rig);
        }
        rig.now = rig.now.after(40);
        turn(&mut rig);
    }
    for _ in 0..150 {
        rig.now = rig.now.after(seconds(1));
        (0..4).for_each(|_| turn(&mut rig));
    }
    assert_eq!((ALLOCATED.get(), FREED.get()), (0, 0));
    assert!(rig.stats.conserves());
    assert!(rig.stats.proxy_headers_sent.get() > 400, "{:?}", rig.stats);
    assert!(rig.stats.proxy_headers_resent.get() > 400, "{:?}", rig.stats);
    assert!(
        rig.stats.proxy_headers_unacknowledged.get() > 50,
        "{:?}",
        rig.stats
    );
}
