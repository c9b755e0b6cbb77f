//! Anything at all between families, in any order: the books balance, what is sent is well formed, nothing leaks.

use super::*;
use crate::service::ClientAddress;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A client's packet: family, number, what, and bytes of data.
    Client(bool, u8, u8, u16),
    /// A packet of the server of a connection to its client.
    Server(u8, u8, u16),
    /// An ICMP error about a connection: which, from the server's side, which kind.
    Error(u8, bool, u8),
    /// The packet before once more, with a byte changed.
    Mutant(u16, u8),
    Pass(u32),
    Mtu(bool, u16),
    Ports(u16),
    Toa(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![3 => 0u16..60, 1 => 1200u16..1460, 1 => 1500u16..4000];
    let step = prop_oneof![
        10 => (any::<bool>(), 0u8..12, any::<u8>(), length.clone()).prop_map(|(a, b, c, d)| Step::Client(a, b, c, d)),
        8 => (any::<u8>(), any::<u8>(), length).prop_map(|(a, b, c)| Step::Server(a, b, c)),
        3 => (any::<u8>(), any::<bool>(), any::<u8>()).prop_map(|(a, b, c)| Step::Error(a, b, c)),
        2 => (0u16..80, 1u8..).prop_map(|(a, b)| Step::Mutant(a, b)),
        2 => (1u32..seconds(200)).prop_map(Step::Pass),
        1 => (any::<bool>(), 1280u16..1600).prop_map(|(a, b)| Step::Mtu(a, b)),
        1 => (1u16..9).prop_map(Step::Ports),
        1 => any::<bool>().prop_map(Step::Toa),
    ];
    proptest::collection::vec(step, 1..80)
}

struct Run {
    gateway: Gateway,
    last: (PortId, Vec<u8>),
    spoilt: bool,
}

impl Run {
    /// A packet arrives, in fragments where it is long; everything that comes out is read.
    fn arrive(&mut self, port: PortId, packet: Vec<u8>) {
        let pieces = if packet.len() > 1280 && !is_fragment(&packet) {
            cut(&packet, 1200)
        } else {
            vec![packet]
        };
        let out = through(&mut self.gateway, port, &pieces);
        self.last = (port, pieces.into_iter().next().unwrap());
        self.read(&out);
    }

    fn read(&self, out: &[Out]) {
        let mut pieces = Vec::new();
        for out in out.iter().filter(|out| !out.arp) {
            let mtu = self.gateway.plan.ports[usize::from(out.port.0)].mtu;
            assert!(
                out.packet.len() <= usize::from(mtu),
                "{} by {mtu}",
                out.packet.len()
            );
            if is_fragment(&out.packet) {
                pieces.push(out.packet.clone());
            } else if !self.spoilt {
                out.wire();
            }
        }
        if !pieces.is_empty() && !self.spoilt {
            Wire::read(&assemble(&pieces));
        }
    }

    /// The ends of one of the connections, as its server and its client see them.
    fn ends(&mut self, which: u8) -> Option<(u8, [SocketAddr; 4])> {
        let mut all = self.gateway.connections();
        let at = usize::from(which).checked_rem(all.len())?;
        let one = all.remove(at);
        Some((
            one.protocol,
            [one.client, one.virtual_address, one.local?, one.server],
        ))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Client(v6, number, what, length) => {
                let family = if v6 { Family::V6 } else { Family::V4 };
                let (from, to) = (family.client(number, 1024), family.vip(80));
                self.arrive(WAN, packet(from, to, what % 3, what / 3, length).packet());
            }
            Step::Server(which, what, length) => {
                if let Some((protocol, [_, _, local, server])) = self.ends(which) {
                    let kind = [6, 17, 132].iter().position(|known| *known == protocol).unwrap() as u8;
                    self.arrive(LAN, packet(server, local, kind, what, length).packet());
                }
            }
            Step::Error(which, inside, kind) => {
                let Some((protocol, [client, vip, local, server])) = self.ends(which) else {
                    return;
                };
                let transport = [6, 17, 132].iter().position(|known| *known == protocol).unwrap() as u8;
                let (port, from, to) = if inside {
                    (LAN, local, server)
                } else {
                    (WAN, vip, client)
                };
                let quote = packet(from, to, transport, kind, 100).packet();
                let kinds: &[(u8, u8, u32)] = match from {
                    SocketAddr::V4(_) => &[(3, 1, 0), (3, 4, 1300), (3, 4, 0), (11, 0, 0), (3, 3, 0)],
                    SocketAddr::V6(_) => &[(1, 0, 0), (2, 0, 1300), (2, 0, 0), (3, 0, 0), (4, 1, 6)],
                };
                let (kind, code, rest) = kinds[usize::from(kind) % kinds.len()];
                let error = Wire::icmp(to.ip(), from.ip(), kind, code, rest, &quote);
                self.arrive(port, error.packet());
            }
            Step::Mutant(at, byte) => {
                let (port, mut packet) = self.last.clone();
                if let Some(place) = packet.get_mut(usize::from(at)).filter(|_| at > 0) {
                    *place ^= byte;
                }
                self.spoilt = true;
                self.arrive(port, packet);
            }
            Step::Pass(ticks) => drop(self.gateway.pass_raw(ticks)),
            Step::Mtu(lan, mtu) => {
                self.gateway
                    .change_raw(|plan| plan.set_mtu(if lan { LAN } else { WAN }, mtu));
            }
            Step::Ports(count) => {
                self.gateway
                    .change_raw(|plan| plan.use_locals(both_pool(1, 10_000, 9_999 + count)));
            }
            Step::Toa(on) => {
                let told = if on {
                    ClientAddress::Toa
                } else {
                    ClientAddress::None
                };
                self.gateway.change_raw(|plan| {
                    for slot in [0, 3] {
                        plan.edit(slot, |service| service.client_address = told);
                    }
                });
            }
        }
        self.gateway.check();
    }
}

fn packet(from: SocketAddr, to: SocketAddr, transport: u8, what: u8, length: u16) -> Wire {
    let data = vec![what; usize::from(length)];
    let flags = [SYN, ACK, SYN | ACK, FIN | ACK, PSH | ACK, 4][usize::from(what) % 6];
    let packet = match transport {
        0 => Wire::tcp(from, to, flags, &data),
        1 => Wire::udp(from, to, &data),
        _ if what.is_multiple_of(2) => Wire::sctp(from, to, 0, &super::super::sctp::init(&[])),
        _ => Wire::sctp(from, to, 7, &super::super::sctp::data(&data)),
    };
    if what & 64 != 0 {
        packet.may_be_cut()
    } else {
        packet
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_books_always_balance(steps in steps(), spoils: bool) {
        let mut plan = plan(1);
        plan.sizes.connections = 24;
        plan.settings.icmp_rate = 1000;
        plan.use_locals(both_pool(1, 10_000, 10_007));
        let mut run = Run { gateway: Gateway::new(plan), last: (WAN, vec![0x45]), spoilt: false };
        for step in &steps {
            if spoils || !matches!(step, Step::Mutant(..)) {
                run.step(step);
            }
        }
        run.gateway.pass_raw(seconds(920));
        prop_assert_eq!((run.gateway.ports_in_use(), run.gateway.stats.connections.get()), (0, 0));
        prop_assert_eq!(run.gateway.stats.held.get(), 0);
    }
}
