//! Anything at all, in any order, through the whole worker: its books balance, and what it sends is well formed.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::packet::MacAddr;
use crate::scheduler::SchedulerKind;
use crate::service::{NoService, Protocol};
use crate::time::seconds;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A client's packet: to which service, from which of a few ports, with which flags and numbers.
    Client(u8, u8, u8, u32),
    /// A server's packet to a local endpoint that was seen.
    Server(u8, u8, u32),
    /// The packet before once more, with a byte changed.
    Mutant(u16, u8),
    /// Garbage at one of the ports, half the time with a link header that is for us.
    Garbage(bool, bool, Vec<u8>),
    /// ARP at one of the ports.
    Arp(bool, bool, u8, u8),
    /// All that has arrived is handled.
    Turn,
    /// Time passes, in ticks.
    Pass(u32),
    /// The configuration changes.
    Change(u8, u8),
    List,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![
        5 => Just(SYN),
        4 => Just(ACK),
        2 => Just(SYN | ACK),
        3 => Just(FIN | ACK),
        1 => Just(RST),
        1 => any::<u8>(),
    ];
    let number = prop_oneof![Just(1000), Just(u32::MAX - 2), any::<u32>()];
    let step = prop_oneof![
        12 => (any::<u8>(), any::<u8>(), flags.clone(), number.clone()).prop_map(|(a, b, c, d)| Step::Client(a, b, c, d)),
        8 => (any::<u8>(), flags, number).prop_map(|(a, b, c)| Step::Server(a, b, c)),
        4 => (0u16..80, any::<u8>()).prop_map(|(a, b)| Step::Mutant(a, b)),
        2 => (any::<bool>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..120))
            .prop_map(|(a, b, c)| Step::Garbage(a, b, c)),
        3 => (any::<bool>(), any::<bool>(), any::<u8>(), any::<u8>()).prop_map(|(a, b, c, d)| Step::Arp(a, b, c, d)),
        6 => Just(Step::Turn),
        3 => prop_oneof![0u32..200, 0u32..seconds(130), Just(seconds(700))].prop_map(Step::Pass),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Change(a, b)),
        1 => Just(Step::List),
    ];
    proptest::collection::vec(step, 1..150)
}

/// A gateway that is short of everything.
fn cramped(know_neighbours: bool) -> Gateway {
    let mut plan = Plan::empty();
    plan.sizes.connections = 24;
    plan.sizes.neighbours = 16;
    plan.settings.icmp_rate = 20;
    plan.use_locals(pool(1, 3000, 3007));
    plan.add(
        WEB,
        Protocol::Tcp,
        vec![
            server(1, Mode::Fullnat),
            server(2, Mode::Fullnat),
            server(3, Mode::Dr),
        ],
    );
    plan.add(
        DNS,
        Protocol::Udp,
        vec![server(4, Mode::Fullnat), server(5, Mode::Dr)],
    );
    plan.add(
        end(VIP2.octets(), 80),
        Protocol::Tcp,
        vec![crate::service::Server {
            slot: 6,
            upper_threshold: 3,
            ..server(1, Mode::Fullnat)
        }],
    );
    if !know_neighbours {
        plan.know_nobody();
    }
    Gateway::new(plan)
}

struct Run {
    gateway: Gateway,
    /// Where servers were seen to be talked to.
    seen: Vec<Sent>,
    last: Vec<u8>,
    waiting: usize,
}

impl Run {
    fn arrive(&mut self, lan: bool, frame: Vec<u8>) {
        self.gateway.arrive(if lan { LAN } else { WAN }, &frame);
        self.last = frame;
        self.waiting += 1;
        if self.waiting == 40 {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.waiting = 0;
        // A burst a port at each turn.
        for _ in 0..2 {
            let sent = self.gateway.turn();
            self.note(sent);
        }
    }

    fn note(&mut self, sent: Vec<Seen>) {
        for seen in sent.into_iter().filter(|seen| *seen.from.ip() == LIP) {
            self.seen.push(Sent {
                protocol: seen.protocol,
                ..Sent::tcp(seen.to, seen.from, 0)
            });
        }
        self.gateway.check();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Client(service, port, flags, sequence) => {
                let from = client(1, 1024 + u16::from(port % 40));
                let packet = match service % 8 {
                    0 => Sent::udp(from, DNS, &[port; 5]),
                    1 => Sent::tcp(from, end(VIP2.octets(), 80), flags),
                    2 => Sent::tcp(from, end(VIP.octets(), 81), flags),
                    3 => Sent::tcp(from, WEB, flags).ttl(service / 64),
                    4 => Sent::echo(*from.ip(), [VIP, LIP, WAN_IP][usize::from(port) % 3], &[port; 9]),
                    5 => Sent::tcp(from, WEB, flags)
                        .data(&[port; 1480])
                        .ip_options(&[1, 1, 1, 1]),
                    _ => Sent::tcp(from, WEB, flags)
                        .data(&[port; 3])
                        .options(&[8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]),
                };
                self.arrive(false, packet.at(sequence, !sequence).frame(WAN_MAC));
            }
            Step::Server(which, flags, sequence) => {
                let Some(known) = self.seen.len().checked_sub(1 + usize::from(which) % 16) else {
                    return;
                };
                let packet = Sent {
                    flags,
                    ..self.seen[known].clone()
                }
                .at(sequence, sequence ^ 0x5555);
                self.arrive(
                    true,
                    packet
                        .options(&[1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 12])
                        .frame(LAN_MAC),
                );
            }
            Step::Mutant(at, byte) => {
                let mut frame = self.last.clone();
                match frame.get_mut(usize::from(at)) {
                    Some(place) => *place ^= byte,
                    None => frame.truncate(usize::from(byte)),
                }
                self.arrive(byte % 2 == 0, frame);
            }
            Step::Garbage(lan, for_us, bytes) => {
                let mac = if lan { LAN_MAC } else { WAN_MAC };
                let frame = if for_us {
                    framed(mac, 0x0800, &bytes)
                } else {
                    bytes
                };
                self.arrive(lan, frame);
            }
            Step::Arp(lan, reply, who, mac) => {
                let (sender, ours, our_mac) = if lan {
                    (server_ip(u32::from(who % 8)), LAN_IP, LAN_MAC)
                } else {
                    (
                        [ROUTER, VIP, client(1, 1).ip().to_owned()][usize::from(who) % 3],
                        VIP,
                        WAN_MAC,
                    )
                };
                let mac = MacAddr([2, 0, 0, 0, 7, mac % 3]);
                self.arrive(lan, arp(1 + u8::from(reply), mac, sender, our_mac, ours));
            }
            Step::Turn => self.turn(),
            Step::Pass(ticks) => {
                let sent = self.gateway.pass(ticks);
                self.note(sent);
            }
            Step::Change(what, value) => {
                let sent = self.gateway.change(|plan| change(plan, what, value));
                self.note(sent);
            }
            Step::List => {
                let listed = self.gateway.connections().len() as u64;
                assert!(listed <= 24);
            }
        }
    }
}

fn change(plan: &mut Plan, what: u8, value: u8) {
    let slot = usize::from(value) % 3;
    match what % 9 {
        0 => plan.edit(slot, |service| service.servers.reverse()),
        1 => plan.edit(slot, |service| service.servers.pop()),
        2 => plan.edit(1, |service| {
            let number = u32::from(value % 2) + 4;
            if service.servers.iter().all(|server| server.slot != number) {
                service.servers.insert(
                    0,
                    server(number, if number == 4 { Mode::Fullnat } else { Mode::Dr }),
                );
            }
        }),
        3 => plan.edit(slot, |service| {
            for server in &mut service.servers {
                server.weight = u32::from(value % 3);
                server.upper_threshold = u32::from(value % 4);
            }
            service.scheduler = SchedulerKind::ALL[usize::from(value) % 14];
        }),
        4 => plan.settings.expire_nodest_conn = value.is_multiple_of(2),
        5 => plan.route_by([ROUTER, "203.0.113.3".parse().unwrap()][usize::from(value) % 2]),
        6 => match value % 2 {
            0 => plan.know_neighbours(),
            _ => plan.know_nobody(),
        },
        7 => plan.use_locals(pool(1 + value % 2, 3000, 3007 + u16::from(value % 8))),
        _ => {
            plan.settings.sloppy_tcp = value & 1 != 0;
            plan.settings.conn_reuse_mode = value >> 1 & 3;
            plan.settings.no_service = if value & 8 != 0 {
                NoService::Drop
            } else {
                NoService::Reject
            };
            plan.edit(1, |service| service.one_packet = value & 16 != 0);
            plan.set_mtu(LAN, if value & 32 != 0 { 600 } else { 1500 });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_books_always_balance(known: bool, spoilt: bool, steps in steps()) {
        let mut run = Run { gateway: cramped(known), seen: Vec::new(), last: Vec::new(), waiting: 0 };
        for step in steps {
            let spoils = matches!(step, Step::Mutant(..) | Step::Garbage(..));
            if spoils && !spoilt {
                // Without these every single checksum has to be right.
                continue;
            }
            run.gateway.may_be_wrong += usize::from(spoils);
            run.step(step);
        }
        run.turn();
        // In the end everything times out, and every port is free again.
        run.gateway.pass(seconds(920));
        prop_assert_eq!(run.gateway.stats.connections.get(), 0);
        prop_assert_eq!(run.gateway.ports_in_use(), 0);
        prop_assert_eq!(run.gateway.stats.held.get(), 0);
    }
}
