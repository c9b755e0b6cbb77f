//! The table against a naive model: connection records that cache ids, a map of who has which MAC, and a count of
//! where each packet is.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::Ipv6Addr;

/// Half of them IPv4 hosts, half IPv6 ones.
const HOSTS: u8 = 8;

#[derive(Clone, Debug)]
enum Op {
    /// A packet of record `.0`, whose next hop is host `.0 % HOSTS`.
    Send(u8),
    /// Host `.0` is heard with MAC `.1`, or none for 0.
    Learn(u8, u8, Means),
    SetStatic(u8, u8),
    ClearStatic(u8),
    /// Time passes, then a tick with that budget.
    Tick(u32, usize),
    BeginSweep,
    /// The next records are swept.
    Sweep(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let means = prop_oneof![
        Just(Means::Reply),
        Just(Means::Request),
        Just(Means::Overheard),
        (any::<bool>(), any::<bool>())
            .prop_map(|(solicited, overrides)| Means::Advertisement { solicited, overrides }),
    ];
    prop_oneof![
        8 => (0u8..32).prop_map(Op::Send),
        4 => (0..HOSTS, 0u8..4, means).prop_map(|(h, m, means)| Op::Learn(h, m, means)),
        1 => (0..HOSTS, 1u8..4).prop_map(|(h, m)| Op::SetStatic(h, m)),
        2 => (0..HOSTS).prop_map(Op::ClearStatic),
        8 => (0u32..300, 1usize..6).prop_map(|(d, b)| Op::Tick(d, b)),
        2 => Just(Op::BeginSweep),
        4 => (1usize..20).prop_map(Op::Sweep),
    ]
}

struct Model {
    table: Table,
    now: Tick,
    /// The id that each record caches.
    records: [NeighbourId; 32],
    /// The record to be swept next, while a sweep is under way.
    sweep: Option<usize>,
    macs: HashMap<IpAddr, MacAddr>,
    asked: HashMap<IpAddr, Tick>,
    given: u32,
    ended: u32,
    /// The last packet released or dropped of each host: order is kept.
    last: HashMap<IpAddr, u32>,
}

fn host(n: u8) -> IpAddr {
    let n = n % HOSTS;
    if n < HOSTS / 2 {
        host4(1 + n)
    } else {
        // The low half looks like the IPv4 hosts.
        IpAddr::V6(Ipv6Addr::new(
            0x2001,
            0xdb8,
            0,
            0,
            0,
            0,
            0x0a00,
            u16::from(1 + n - HOSTS / 2),
        ))
    }
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

/// A packet's number tells its host, so that order can be checked host by host.
fn host_of(packet: u32) -> IpAddr {
    host((packet % u32::from(HOSTS)) as u8)
}

impl Model {
    fn new() -> Model {
        let settings = Settings {
            capacity: 5,
            waiting_each: 3,
            waiting: 6,
            reachable: 500,
            idle: 1500,
            seed: 1,
        };
        Model {
            table: Table::new(settings),
            now: T0,
            records: [NeighbourId::NONE; 32],
            sweep: None,
            macs: HashMap::new(),
            asked: HashMap::new(),
            given: 0,
            ended: 0,
            last: HashMap::new(),
        }
    }

    fn requested(&mut self, request: Request) {
        assert_eq!(request.port, PORT);
        if let Ask::Unicast(mac) = request.ask {
            assert_eq!(self.macs.get(&request.address), Some(&mac));
        }
        if let Some(last) = self.asked.insert(request.address, self.now) {
            assert!(
                self.now.since(last) >= REQUEST_INTERVAL,
                "more than one request a second"
            );
        }
    }

    /// A packet left the queue.
    fn left(&mut self, packet: u32) {
        self.ended += 1;
        if let Some(earlier) = self.last.insert(host_of(packet), packet) {
            assert!(earlier < packet, "out of order");
        }
    }

    fn send(&mut self, record: u8) {
        let address = host(record);
        let cached = self.records[usize::from(record)];
        if let Some(found) = self.table.resolved(cached) {
            assert_eq!(Some(&found.1), self.macs.get(&address), "sent to another's MAC");
            return;
        }
        let Ok(id) = self.table.find_or_create(PORT, address, self.now) else {
            return;
        };
        self.records[usize::from(record)] = id;
        self.given += 1;
        let packet = self.given * u32::from(HOSTS) + u32::from(record % HOSTS);
        match self.table.hold(id, packet, self.now) {
            Hold::Waits { request, gave_way } => {
                request.into_iter().for_each(|r| self.requested(r));
                gave_way.into_iter().for_each(|p| self.left(p));
            }
            // Overtakes none: what is refused had nowhere to wait.
            Hold::Failed(_) => self.ended += 1,
            Hold::Resolved(_, port, mac) => {
                assert_eq!((port, Some(&mac)), (PORT, self.macs.get(&address)));
                self.ended += 1;
            }
        }
    }

    fn learn(&mut self, heard: Heard) {
        let before = self.table.find(PORT, heard.address);
        let known = before.and_then(|id| self.table.resolved(id)).map(|(_, mac)| mac);
        let mut released = vec![];
        let learnt = self.table.learn(&heard, self.now, |packet, port, mac| {
            assert_eq!((port, Some(mac)), (PORT, heard.mac));
            released.push(packet);
        });
        released.into_iter().for_each(|p| self.left(p));
        if let Learnt::Nothing | Learnt::NoRoom = learnt {
            let after = before.and_then(|id| self.table.resolved(id)).map(|(_, mac)| mac);
            assert_eq!(after, known, "nothing was learnt, and yet the MAC is another");
            return;
        }
        // RFC 4861 7.2.5: without the flag, another MAC teaches nothing.
        if let (Means::Advertisement { overrides: false, .. }, Some(known)) = (heard.means, known) {
            assert!(heard.mac.is_none_or(|mac| mac == known), "overridden");
        }
        let mac = heard.mac.or(known).unwrap();
        self.macs.insert(heard.address, mac);
        let id = self.table.find(PORT, heard.address).unwrap();
        assert_eq!(self.table.resolved(id), Some((PORT, mac)));
    }

    fn set_static(&mut self, address: IpAddr, mac: MacAddr) {
        let mut released = vec![];
        if let Ok(id) = self
            .table
            .set_static(PORT, address, mac, self.now, |p, _, _| released.push(p))
        {
            self.macs.insert(address, mac);
            assert_eq!(self.table.resolved(id), Some((PORT, mac)));
        }
        released.into_iter().for_each(|p| self.left(p));
    }

    fn sweep(&mut self, count: usize) {
        let words = self.table.words();
        let Some(from) = self.sweep else { return };
        let to = (from + count).min(self.records.len());
        for id in &mut self.records[from..to] {
            if words.leaving(*id) {
                *id = NeighbourId::NONE;
            }
        }
        self.sweep = Some(to);
        if to == self.records.len() {
            self.table.retired_done();
            self.sweep = None;
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Send(record) => self.send(record),
            Op::Learn(h, m, means) => self.learn(Heard {
                port: PORT,
                address: host(h),
                mac: (m > 0).then_some(mac(m)),
                means,
            }),
            Op::SetStatic(h, m) => self.set_static(host(h), mac(m)),
            Op::ClearStatic(h) => drop(self.table.clear_static(PORT, host(h), self.now)),
            Op::Tick(ticks, budget) => {
                self.now = self.now.after(ticks);
                let mut events = vec![];
                self.table.tick(self.now, budget, |e| events.push(e));
                for event in events {
                    match event {
                        Event::Ask(request) => self.requested(request),
                        Event::Drop(packet, reason) => {
                            assert_eq!(reason, DropReason::NeighbourFailed);
                            self.left(packet);
                        }
                        Event::Failed { .. } => panic!("nobody is watched"),
                    }
                }
            }
            Op::BeginSweep if self.sweep.is_none() => {
                self.table.begin_sweep();
                self.sweep = Some(0);
            }
            Op::BeginSweep => {}
            Op::Sweep(count) => self.sweep(count),
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(
            self.given,
            self.ended + self.table.held() as u32,
            "a packet was lost"
        );
        let mut waiting = 0;
        let mut ids = std::collections::HashSet::new();
        for view in self.table.iter(self.now) {
            waiting += usize::from(view.waiting);
            let id = self.table.find(view.port, view.address).unwrap();
            assert!(ids.insert(id), "two addresses have one id");
            assert!(view.waiting == 0 || view.mac.is_none(), "waits for a known MAC");
            if let Some(mac) = view.mac {
                assert_eq!(Some(&mac), self.macs.get(&view.address));
            }
        }
        assert_eq!(waiting, self.table.held());
        assert!(ids.len() <= 5 && waiting <= 6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_packet_is_lost_or_misdirected_and_nobody_is_asked_too_often(ops in prop::collection::vec(op(), 1..300)) {
        let mut model = Model::new();
        for op in ops {
            model.apply(op);
        }
    }
}
