//! Devices that spread packets well, badly and at random: what comes out of the gateway is the same, and a device that
//! does what it is told saves the way from worker to worker.

use super::carried::*;
use super::errors::{error, least_quote};
use super::frames::{ACK, SYN};
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::Protocol;
use crate::time::Tick;
use crate::worker::shard::{SHARDS, Shard, ShardKey, ShardMap};
use crate::worker::{Device, MemoryCrew, Rss, SentBy};
use proptest::prelude::*;
use std::net::SocketAddr;

/// How the devices of a gateway spread packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    OneQueue,
    Rss,
    WrongHash,
    Random(u64),
}

struct Gateway {
    crew: MemoryCrew,
}

impl Gateway {
    /// Both families, TCP and UDP, by FULLNAT and NAT.
    fn new(workers: u8, kind: Kind) -> Gateway {
        let mut plan = Plan::dual();
        for family in Family::BOTH {
            for (port, protocol) in [(80, Protocol::Tcp), (53, Protocol::Udp)] {
                let servers = |mode| (1..=2).map(|number| family.real(number, mode, 8080)).collect();
                plan.add(family.vip(port), protocol, servers(Mode::Fullnat));
                plan.add(family.vip(port + 1000), protocol, servers(Mode::Nat));
            }
        }
        plan.workers = workers;
        let mut crew = MemoryCrew::new(2, &plan.snapshot(), plan.sizes, usize::MAX).unwrap();
        let (client_facing, server_facing) = ShardKey::from_seed(plan.sizes.seed).rss_keys();
        for (port, key) in [(WAN, client_facing), (LAN, server_facing)] {
            let map = ShardMap::even(workers);
            let queue = |entry: u16| map.owner(Shard::from_low_bits(entry.into())).into();
            let rss = Rss::new(key, SHARDS as u16, queue);
            match kind {
                Kind::OneQueue => {}
                Kind::Rss => crew.set_device(port, Device::Rss(rss)),
                Kind::WrongHash => crew.set_device(port, Device::WrongHash(rss)),
                Kind::Random(seed) => {
                    let (queues, state) = (workers.into(), seed + u64::from(port.0));
                    crew.set_device(port, Device::Random { queues, state });
                }
            }
        }
        let mut gateway = Gateway { crew };
        // What is announced at the start is out of the way: some of it with each turn.
        for _ in 0..20 {
            gateway.settle();
        }
        gateway
    }

    /// Lets all turn until everything is through; what comes out.
    fn settle(&mut self) -> Vec<SentBy> {
        let mut rounds = 0;
        loop {
            self.crew.turn(Tick(0));
            rounds += 1;
            assert!(rounds < 10, "it never comes to an end");
            if !self.crew.is_waiting() {
                break;
            }
        }
        assert!(self.crew.stats().iter().all(|stats| stats.conserves()));
        self.crew.take_sent()
    }

    /// What becomes of a packet, or of its fragments: who sent what, and how often something was handed over.
    fn pass(&mut self, port: PortId, pieces: &[Vec<u8>]) -> (Vec<SentBy>, usize) {
        let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
        for piece in pieces {
            self.crew.arrive(port, &link(mac, piece));
        }
        let sent = self.settle();
        (sent, self.crew.take_handed().len())
    }
}

/// What a client does, and what its server answers.
#[derive(Clone, Copy, Debug)]
struct Talk {
    family: Family,
    client: (u8, u16),
    is_tcp: bool,
    is_nat: bool,
    is_cut: bool,
    /// The server's answer is followed by an ICMP error of its own.
    has_error: bool,
}

impl Talk {
    fn request(self) -> Wire {
        let port = if self.is_tcp { 80 } else { 53 } + if self.is_nat { 1000 } else { 0 };
        let (from, to) = (
            self.family.client(self.client.0, self.client.1),
            self.family.vip(port),
        );
        let data = if self.is_cut { vec![7; 2000] } else { Vec::new() };
        let wire = if self.is_tcp {
            Wire::tcp(from, to, SYN, &data)
        } else {
            Wire::udp(from, to, &data)
        };
        if self.is_cut { wire.may_be_cut() } else { wire }
    }

    fn answer(self, (server, local): (SocketAddr, SocketAddr)) -> Wire {
        if self.is_tcp {
            Wire::tcp(server, local, SYN | ACK, b"")
        } else {
            Wire::udp(server, local, b"answer")
        }
    }

    /// Everything that comes out of a gateway, and how often something was handed over.
    fn through(self, gateway: &mut Gateway) -> (Vec<SentBy>, usize) {
        let request = self.request().packet();
        let pieces = if self.is_cut {
            cut(&request, 1000)
        } else {
            vec![request]
        };
        let (mut out, mut handed) = gateway.pass(WAN, &pieces);
        let packets: Vec<_> = out.iter().map(|(_, _, frame)| frame[14..].to_vec()).collect();
        let arrived = Wire::read(&if self.is_cut {
            assemble(&packets)
        } else {
            packets[0].clone()
        });
        let answer = self.answer((arrived.to, arrived.from));
        let mut answers = vec![answer.packet()];
        if self.has_error {
            let message = if self.family == Family::V4 {
                (3, 3, 0)
            } else {
                (1, 4, 0)
            };
            let about = least_quote(&arrived);
            answers.push(error(arrived.to.ip(), arrived.from.ip(), message, &about).packet());
        }
        for answer in answers {
            let (more, again) = gateway.pass(LAN, &[answer]);
            out.extend(more);
            handed += again;
        }
        (out, handed)
    }
}

fn talks() -> impl Strategy<Value = Vec<Talk>> {
    let family = prop_oneof![Just(Family::V4), Just(Family::V6)];
    let talk = (family, (1u8..200, 1024u16..), any::<[bool; 4]>());
    let talk = talk.prop_map(|(family, client, [is_tcp, is_nat, is_cut, has_error])| Talk {
        family,
        client,
        is_tcp,
        is_nat,
        is_cut,
        has_error,
    });
    proptest::collection::vec(talk, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// The same worker sends the same frames, byte for byte, whatever queues packets arrive at.
    #[test]
    fn what_comes_out_does_not_depend_on_the_device(workers in 1u8..5, seed: u64, talks in talks()) {
        let kinds = [Kind::OneQueue, Kind::Rss, Kind::WrongHash, Kind::Random(seed >> 1)];
        let mut gateways = kinds.map(|kind| Gateway::new(workers, kind));
        for talk in talks {
            let outs = gateways.each_mut().map(|gateway| talk.through(gateway).0);
            prop_assert!(!outs[0].is_empty());
            for (kind, out) in kinds.iter().zip(&outs) {
                prop_assert_eq!(out, &outs[0], "{:?}, {:?}", kind, talk);
            }
        }
    }
}

/// With our keys no packet of IPv4 with ports is handed over, in either direction; with a wrong hash each is, once.
#[test]
fn a_device_that_does_what_it_is_told_saves_the_hop() {
    for workers in 2..=4 {
        for (kind, each) in [(Kind::Rss, 0), (Kind::WrongHash, 1)] {
            let mut gateway = Gateway::new(workers, kind);
            for n in 0..60u16 {
                let talk = Talk {
                    family: Family::V4,
                    client: ((n % 7) as u8 + 1, 1024 + 37 * n),
                    is_tcp: n % 2 == 0,
                    is_nat: n % 3 == 0,
                    is_cut: false,
                    has_error: false,
                };
                let (out, handed) = talk.through(&mut gateway);
                assert_eq!((out.len(), handed), (2, 2 * each), "{kind:?}, {talk:?}");
            }
            let opened: Vec<_> = gateway
                .crew
                .stats()
                .iter()
                .map(|stats| stats.opened.get())
                .collect();
            assert!(opened.iter().all(|count| *count >= 5), "{opened:?}");
        }
    }
}
