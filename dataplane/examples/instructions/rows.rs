//! What is counted: a row is a gateway, the packets of 1,024 connections or of new ones, and some hundred turns of its
//! worker. Seeds, clients and the clock are fixed, so that each run executes the same instructions.

use super::carried::{Out, link};
use super::frames::{ACK, SYN};
use super::life;
use super::plan::{Family, LAN, Plan, WAN};
use super::ports::Ports;
use super::wire::Wire;
use dataplane::flow::{Mode, TagIndex};
use dataplane::packet::{Packet, PortId};
use dataplane::service::Protocol;
use dataplane::time::{Tick, seconds};
use dataplane::worker::{BURST, Io, Mailbox, PacketBurst, Worker, WorkerStats};
use std::sync::Arc;

/// Connections of a row.
const FLOWS: u16 = 1024;
/// Turns that are counted: twice what housekeeping takes to come round.
const TURNS: usize = 512;
/// Turns within a tick of the clock.
const TURNS_OF_A_TICK: usize = 64;
/// What each packet carries: IPv4 and UDP with it make 60 bytes, the smallest frame of Ethernet.
const DATA: &[u8] = &[7; 18];

/// What the packets of a row are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packets {
    /// Of connections that are there: half of them requests, half of them replies.
    BothWays,
    /// The same, and replies take another way.
    OneWay,
    /// Each is the first one of its connection.
    First,
    /// All that a connection has, and its end.
    Life,
}

/// One row.
pub(crate) struct Row {
    /// What the file of expected figures calls it.
    pub(crate) name: &'static str,
    plan: fn() -> Plan,
    protocol: Protocol,
    family: Family,
    packets: Packets,
}

macro_rules! row {
    ($name:literal, $plan:expr, $protocol:ident, $family:ident, $packets:ident) => {
        Row {
            name: $name,
            plan: || $plan,
            protocol: Protocol::$protocol,
            family: Family::$family,
            packets: Packets::$packets,
        }
    };
}

/// The plain forwarder, which needs no gateway: what the ports themselves take.
pub(crate) const MAC_SWAP: &str = "mac-swap";

/// All rows but [`MAC_SWAP`]. The family is that of the clients.
pub(crate) const ROWS: [Row; 16] = [
    row!(
        "fullnat-udp-v4",
        web(Mode::Fullnat, Protocol::Udp),
        Udp,
        V4,
        BothWays
    ),
    row!(
        "fullnat-udp-v6",
        web(Mode::Fullnat, Protocol::Udp),
        Udp,
        V6,
        BothWays
    ),
    row!("fullnat-udp-v6-to-v4", across(), Udp, V6, BothWays),
    row!(
        "fullnat-tcp-v4",
        web(Mode::Fullnat, Protocol::Tcp),
        Tcp,
        V4,
        BothWays
    ),
    row!(
        "fullnat-tcp-v6",
        web(Mode::Fullnat, Protocol::Tcp),
        Tcp,
        V6,
        BothWays
    ),
    row!("nat-udp-v4", web(Mode::Nat, Protocol::Udp), Udp, V4, BothWays),
    row!("nat-udp-v6", web(Mode::Nat, Protocol::Udp), Udp, V6, BothWays),
    row!("dr-udp-v4", web(Mode::Dr, Protocol::Udp), Udp, V4, OneWay),
    row!("dr-udp-v6", web(Mode::Dr, Protocol::Udp), Udp, V6, OneWay),
    row!("tun-udp-v4", web(Mode::Tun, Protocol::Udp), Udp, V4, OneWay),
    row!("tun-udp-v6", web(Mode::Tun, Protocol::Udp), Udp, V6, OneWay),
    row!("snat-udp-v4", Plan::behind_snat(1024, 65535), Udp, V4, BothWays),
    row!(
        "new-fullnat-udp-v4",
        web(Mode::Fullnat, Protocol::Udp),
        Udp,
        V4,
        First
    ),
    row!(
        "new-fullnat-tcp-v4",
        web(Mode::Fullnat, Protocol::Tcp),
        Tcp,
        V4,
        First
    ),
    row!("new-dr-udp-v4", web(Mode::Dr, Protocol::Udp), Udp, V4, First),
    row!("life-fullnat-tcp-v4", life::plan(), Tcp, V4, Life),
];

/// Eight servers of each family, all at the port that clients ask for.
pub(crate) fn web(mode: Mode, protocol: Protocol) -> Plan {
    Plan::dual_web(mode, protocol, 8, 80)
}

/// IPv6 clients of IPv4 servers.
fn across() -> Plan {
    let mut plan = Plan::dual();
    let servers = (1..=8).map(|number| Family::V4.real(number, Mode::Fullnat, 80));
    plan.add(Family::V6.vip(80), Protocol::Udp, servers.collect());
    plan
}

impl Row {
    /// Counts this row; returns how many packets that are, or lives.
    pub(crate) fn count(&self) -> usize {
        let mut rig = Rig::new(self);
        if self.packets == Packets::Life {
            return life::count(&mut rig, self);
        }
        let flows = rig.open(self);
        if self.packets == Packets::First {
            return rig.count_first(self);
        }
        // Once round, so that states and caches of neighbours are as they stay.
        for _ in 0..usize::from(FLOWS) / BURST {
            rig.bring(&flows);
            rig.worker.turn(rig.now);
            rig.worker.io_mut().recycle();
        }
        let mut packets = 0;
        for turn in 0..TURNS {
            rig.bring(&flows);
            rig.pass(turn);
            packets += counted_turn(&mut rig.worker, rig.now);
            rig.finish_turn(packets);
        }
        packets
    }

    /// The port that connections come in by.
    fn near(&self) -> PortId {
        if self.is_snat() { LAN } else { WAN }
    }

    fn is_snat(&self) -> bool {
        self.name.starts_with("snat")
    }

    /// The first packet of the connection of that number; `flags` are TCP's.
    pub(crate) fn request(&self, number: u16, flags: u8) -> Wire {
        let mut from = self.family.client(1 + (number % 200) as u8, 1024 + number);
        let mut to = self.family.vip(80);
        if self.is_snat() {
            to = self.family.client(1 + (number % 200) as u8, 80);
            from = self.family.server(1 + u32::from(number % 8), 1024 + number);
        }
        match self.protocol {
            Protocol::Tcp if flags & SYN != 0 => Wire::tcp(from, to, flags, &[]),
            Protocol::Tcp => Wire::tcp(from, to, flags, DATA),
            _ => Wire::udp(from, to, DATA),
        }
    }

    /// What a server answers to that.
    pub(crate) fn reply(&self, seen: &Wire, flags: u8) -> Wire {
        match self.protocol {
            Protocol::Tcp if flags & SYN != 0 => Wire::tcp(seen.to, seen.from, flags, &[]),
            Protocol::Tcp => Wire::tcp(seen.to, seen.from, flags, DATA),
            _ => Wire::udp(seen.to, seen.from, DATA),
        }
    }
}

/// The frames of a row's connections, those of either port.
struct Flows {
    ports: [PortId; 2],
    requests: Vec<Vec<u8>>,
    replies: Vec<Vec<u8>>,
}

pub(crate) struct Rig {
    pub(crate) worker: Worker<Ports, TagIndex>,
    pub(crate) stats: Arc<WorkerStats>,
    macs: [dataplane::packet::MacAddr; 2],
    pub(crate) now: Tick,
    next: usize,
    forwarded: usize,
}

impl Rig {
    /// The gateway of that row, all of its addresses announced.
    fn new(row: &Row) -> Rig {
        let mut plan = (row.plan)();
        plan.sizes.connections = 16_384;
        let mut ports = plan.ports.to_vec();
        for port in &mut ports {
            // As a network card's; a veth's peer is asked more.
            port.check_partial = false;
        }
        plan.ports = ports.into();
        let macs = [plan.ports[0].mac, plan.ports[1].mac];
        let stats = Arc::new(WorkerStats::new(2, plan.sizes.servers as usize));
        let index = TagIndex::new(2 * plan.sizes.connections as usize, false).unwrap();
        let (told, post) = (Arc::clone(&stats), Arc::new(Mailbox::default()));
        let io = Ports::default();
        let worker = Worker::new(0, io, index, plan.sizes, plan.snapshot(), told, post).unwrap();
        let mut rig = Rig {
            worker,
            stats,
            macs,
            now: Tick(0),
            next: 0,
            forwarded: 0,
        };
        for _ in 0..8 {
            rig.now = rig.now.after(seconds(1));
            (0..64).for_each(|_| drop(rig.turn()));
        }
        rig
    }

    fn turn(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.worker.turn(self.now);
        self.worker.io_mut().take_sent()
    }

    /// Lets a packet arrive; what is sent, and by which port.
    fn exchange(&mut self, port: PortId, packet: &Wire) -> Option<Out> {
        let frame = self.frame(port, packet);
        self.worker.io_mut().arrive(port, &frame);
        self.turn().into_iter().map(Out::read).next()
    }

    pub(crate) fn frame(&self, port: PortId, packet: &Wire) -> Vec<u8> {
        link(self.macs[usize::from(port.0)], &packet.packet())
    }

    /// Opens the row's connections; the frames that they go on with.
    fn open(&mut self, row: &Row) -> Flows {
        let near = row.near();
        let far = if near == WAN { LAN } else { WAN };
        let mut flows = Flows {
            ports: [near, far],
            requests: Vec::new(),
            replies: Vec::new(),
        };
        let known = if row.packets == Packets::First { 0 } else { FLOWS };
        for number in 0..known {
            let first = self.exchange(near, &row.request(number, SYN)).unwrap();
            assert_eq!(first.port, far, "{}: a first packet was answered", row.name);
            flows.requests.push(self.frame(near, &row.request(number, ACK)));
            if row.packets == Packets::BothWays {
                let seen = first.wire();
                self.exchange(far, &row.reply(&seen, SYN | ACK)).unwrap();
                self.exchange(near, &row.request(number, ACK)).unwrap();
                flows.replies.push(self.frame(far, &row.reply(&seen, ACK)));
            }
        }
        flows
    }

    /// A burst arrives at each port, as far as the row has packets for both.
    fn bring(&mut self, flows: &Flows) {
        let io = self.worker.io_mut();
        for number in self.next..self.next + BURST {
            let number = number % flows.requests.len();
            io.arrive(flows.ports[0], &flows.requests[number]);
            if let Some(reply) = flows.replies.get(number) {
                io.arrive(flows.ports[1], reply);
            }
        }
        self.next += BURST;
    }

    fn pass(&mut self, turn: usize) {
        if turn.is_multiple_of(TURNS_OF_A_TICK) {
            self.now = self.now.after(1);
        }
    }

    /// What came in has gone out, or the figures are of something else.
    fn finish_turn(&mut self, received: usize) {
        self.forwarded += self.worker.io_mut().recycle();
        assert_eq!(self.forwarded, received, "packets ended in the gateway");
    }

    /// New connections only, for as many turns.
    fn count_first(&mut self, row: &Row) -> usize {
        let mut packets = 0;
        // The first ones are not counted: they find tables that nobody has touched yet.
        for turn in 0..(TURNS / 2 + 16) {
            for place in 0..BURST {
                let number = (turn * BURST + place) as u16;
                let frame = self.frame(WAN, &row.request(number, SYN));
                self.worker.io_mut().arrive(WAN, &frame);
            }
            self.pass(turn);
            if turn < 16 {
                self.worker.turn(self.now);
                self.worker.io_mut().recycle();
            } else {
                packets += counted_turn(&mut self.worker, self.now);
                self.finish_turn(packets);
            }
        }
        assert_eq!(self.stats.opened.get(), (packets + 16 * BURST) as u64);
        packets
    }
}

/// A turn that is counted: callgrind collects within functions of this name.
#[inline(never)]
pub(crate) fn counted_turn(worker: &mut Worker<Ports, TagIndex>, now: Tick) -> usize {
    worker.turn(now)
}

/// Counts the plain forwarder: receives at each port, swaps the MAC addresses, sends by the other one.
pub(crate) fn count_mac_swap() -> usize {
    let mut ports = Ports::default();
    let frame = [7; 60];
    let mut packets = 0;
    for turn in 0..TURNS + 1 {
        for _ in 0..BURST {
            ports.arrive(WAN, &frame);
            ports.arrive(LAN, &frame);
        }
        // The first one takes memory, and is not counted.
        if turn == 0 {
            swap_turn(&mut ports);
        } else {
            packets += counted_swap(&mut ports);
        }
        assert_eq!(ports.recycle(), 2 * BURST);
    }
    packets
}

#[inline(never)]
fn counted_swap(ports: &mut Ports) -> usize {
    swap_turn(ports)
}

fn swap_turn(ports: &mut Ports) -> usize {
    let mut packets = 0;
    for (from, to) in [(WAN, LAN), (LAN, WAN)] {
        let mut burst = PacketBurst::new();
        ports.receive(from, &mut burst);
        packets += burst.len();
        for packet in &mut burst {
            if let Some((macs, _)) = packet.bytes_mut().split_first_chunk_mut::<12>() {
                let (destination, source) = macs.split_at_mut(6);
                destination.swap_with_slice(source);
            }
        }
        ports.transmit(to, &mut burst);
    }
    packets
}
