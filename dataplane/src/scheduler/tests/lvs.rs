//! Every algorithm against LVS's rule in its plainest form: a look at the list for each pick, and no trees, sums, places
//! or tables that are kept from one pick to the next.

use super::*;
use crate::scheduler::mh::{self, FIRST_KEY, SECOND_KEY};
use crate::scheduler::twos::mixed;
use crate::time::{Tick, seconds};
use std::collections::HashMap;
use std::net::IpAddr;

const DAY: u32 = seconds(86_400);

/// What happens to a service and its connections.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The server of that slot is added at the head, or removed when it is there.
    Toggle(u32, u32),
    Weigh(u32, u32),
    Overload(u32, bool),
    /// A client connects.
    Open(u8),
    /// A connection stops being active or, when it is not, ends.
    Close(usize),
    Pass(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let slot = || 0u32..14;
    let weight = || prop_oneof![4 => 0u32..5, 1 => Just(12u32)];
    let ticks = prop_oneof![Just(1u32), Just(DAY / 2), Just(DAY), Just(DAY + 1)];
    let event = prop_oneof![
        2 => (slot(), weight()).prop_map(|(slot, weight)| Event::Toggle(slot, weight)),
        2 => (slot(), weight()).prop_map(|(slot, weight)| Event::Weigh(slot, weight)),
        1 => (slot(), any::<bool>()).prop_map(|(slot, overloaded)| Event::Overload(slot, overloaded)),
        12 => any::<u8>().prop_map(Event::Open),
        5 => any::<usize>().prop_map(Event::Close),
        1 => ticks.prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..150)
}

/// A destination of `lblc`, which has one server, or of `lblcr`.
struct Destination {
    /// The one that joined last at the end.
    servers: Vec<u32>,
    used: Tick,
    changed: Tick,
}

/// What LVS remembers between picks.
#[derive(Default)]
struct Lvs {
    /// `rr`, `wrr`: the server picked last.
    last: Option<u32>,
    /// `wrr`: what a server has to weigh now.
    level: u32,
    destinations: HashMap<IpAddr, Destination>,
}

fn gcd(a: u32, b: u32) -> u32 {
    (1..=a.max(b))
        .rev()
        .find(|by| a.is_multiple_of(*by) && b.is_multiple_of(*by))
        .unwrap_or(0)
}

fn hash(address: IpAddr, port: u16) -> u32 {
    let IpAddr::V4(address) = address else {
        panic!("arrivals are IPv4")
    };
    let product = (u64::from(address.to_bits()) + u64::from(port)) % (1 << 32) * 0x61c8_8647;
    ((product >> 24) % (1 << 8)) as u32
}

/// For each bucket the server, dealt out in list order as many in a row as `turns` says, one at least.
fn dealt(servers: &[Server], turns: impl Fn(&Server) -> u32) -> Vec<u32> {
    let (mut buckets, mut at, mut had) = (Vec::new(), 0, 0);
    while buckets.len() < 256 && !servers.is_empty() {
        buckets.push(servers[at].slot);
        had += 1;
        if had >= turns(&servers[at]) {
            (at, had) = ((at + 1) % servers.len(), 0);
        }
    }
    buckets
}

/// The paper's table, with LVS's turns: each server in turn takes the first free ones of its preferences.
fn maglev(servers: &[Server]) -> Vec<u32> {
    const SIZE: u32 = 4093;
    let servers: Vec<&Server> = servers.iter().filter(|server| server.table_weight > 0).collect();
    let by = servers.iter().fold(0, |by, server| gcd(server.table_weight, by));
    let preferences: Vec<Vec<u32>> = servers
        .iter()
        .map(|server| {
            let hash = |key| mh::hash(server.address, server.port, 0, key);
            let (offset, skip) = (hash(FIRST_KEY) % SIZE, hash(SECOND_KEY) % (SIZE - 1) + 1);
            (0..SIZE).map(|j| (offset + j * skip) % SIZE).collect()
        })
        .collect();
    let mut table = HashMap::new();
    let mut next = vec![0; servers.len()];
    while !servers.is_empty() && table.len() < SIZE as usize {
        for (at, server) in servers.iter().enumerate() {
            for _ in 0..server.table_weight / by {
                while next[at] < SIZE as usize && table.contains_key(&preferences[at][next[at]]) {
                    next[at] += 1;
                }
                if let Some(place) = preferences[at].get(next[at]) {
                    table.insert(*place, server.slot);
                }
            }
        }
    }
    (0..table.len() as u32).map(|place| table[&place]).collect()
}

impl Lvs {
    /// The list or a weight has changed.
    fn edited(&mut self, kind: SchedulerKind, rig: &Rig) {
        if kind != SchedulerKind::Wrr {
            return;
        }
        let (top, step) = ladder(rig);
        self.last = None;
        if self.level > top || self.level == 0 {
            self.level = top;
        } else if step > 1 {
            self.level = self.level / step * step + 1;
        }
    }

    /// A server is about to be removed: `rr` goes on from the one before it.
    fn removes(&mut self, kind: SchedulerKind, rig: &Rig, slot: u32) {
        let servers = &rig.service.servers;
        if kind == SchedulerKind::Rr && self.last == Some(slot) {
            let at = servers.iter().position(|server| server.slot == slot).unwrap();
            self.last = at.checked_sub(1).map(|before| servers[before].slot);
        }
    }

    fn pick(&mut self, rig: &Rig, arrival: &Arrival) -> Option<u32> {
        let servers = &rig.service.servers;
        let is_usable = |slot: &u32| {
            let server = servers.iter().find(|server| server.slot == *slot);
            server.is_some_and(|server| rig.loads.usable(server))
        };
        match rig.service.scheduler {
            SchedulerKind::Rr => {
                let mut slots: Vec<u32> = servers.iter().map(|server| server.slot).collect();
                let passed = slots.iter().position(|slot| Some(*slot) == self.last);
                slots.rotate_left(passed.map_or(0, |at| at + 1));
                let found = slots.into_iter().find(is_usable);
                self.last = found.or(self.last);
                found
            }
            SchedulerKind::Wrr => self.wrr(rig),
            SchedulerKind::Sh => hashed(rig, &dealt(servers, |server| server.weight), arrival),
            SchedulerKind::Mh => hashed(rig, &maglev(servers), arrival),
            SchedulerKind::Dh => {
                let buckets = dealt(servers, |_| 1);
                let bucket = buckets.get(hash(arrival.destination, 0) as usize).copied();
                bucket.filter(is_usable)
            }
            SchedulerKind::Twos => twos(rig, arrival.random),
            SchedulerKind::Lblc => self.lblc(rig, arrival),
            SchedulerKind::Lblcr => self.lblcr(rig, arrival),
            ranked => naive(ranked, rig),
        }
    }

    fn wrr(&mut self, rig: &Rig) -> Option<u32> {
        let servers = &rig.service.servers;
        servers.iter().find(|server| rig.loads.usable(server))?;
        let (top, step) = ladder(rig);
        loop {
            let passed = servers.iter().position(|server| Some(server.slot) == self.last);
            let mut rest = servers[passed.map_or(0, |at| at + 1)..].iter();
            let found = rest.find(|server| server.weight >= self.level && rig.loads.usable(server));
            self.last = found.map(|server| server.slot);
            if self.last.is_some() {
                return self.last;
            }
            self.level = match self.level.saturating_sub(step) {
                0 => top,
                below => below,
            };
        }
    }

    /// What is known of a destination, which is asked for now.
    fn known(&mut self, arrival: &Arrival) -> Option<&mut Destination> {
        let expired = |known: &Destination| arrival.now.since(known.used) > DAY;
        if self.destinations.get(&arrival.destination).is_some_and(expired) {
            self.destinations.remove(&arrival.destination);
        }
        let known = self.destinations.get_mut(&arrival.destination)?;
        known.used = arrival.now;
        Some(known)
    }

    fn give(&mut self, arrival: &Arrival, slot: u32) {
        let new = Destination {
            servers: vec![slot],
            used: arrival.now,
            changed: arrival.now,
        };
        self.destinations.insert(arrival.destination, new);
    }

    fn lblc(&mut self, rig: &Rig, arrival: &Arrival) -> Option<u32> {
        if let Some(known) = self.known(arrival) {
            let slot = known.servers[0];
            let server = rig.service.servers.iter().find(|server| server.slot == slot);
            if server.is_some_and(|server| server.weight > 0 && !is_crowded(rig, server)) {
                return Some(slot);
            }
        }
        let slot = naive(SchedulerKind::Wlc, rig)?;
        self.give(arrival, slot);
        Some(slot)
    }

    fn lblcr(&mut self, rig: &Rig, arrival: &Arrival) -> Option<u32> {
        let Some(known) = self.known(arrival) else {
            let slot = naive(SchedulerKind::Wlc, rig)?;
            self.give(arrival, slot);
            return Some(slot);
        };
        let server = |slot: u32| rig.service.servers.iter().find(move |server| server.slot == slot);
        // Less is better; none is worst.
        let rank = |slot: u32| {
            let server = server(slot).filter(|server| rig.loads.usable(server));
            server.map(|server| (rig.loads.load(server), server.weight))
        };
        let is_less = |first: u32, second: u32| match (rank(first), rank(second)) {
            (Some(first), Some(second)) => is_better(SchedulerKind::Wlc, first, second),
            (first, second) => first.is_some() && second.is_none(),
        };
        let usable = known
            .servers
            .iter()
            .rev()
            .copied()
            .filter(|slot| rank(*slot).is_some());
        let least = usable.reduce(|best, slot| if is_less(slot, best) { slot } else { best });
        if known.servers.len() > 1 && arrival.now.since(known.changed) > DAY {
            let most = known.servers.iter().copied();
            let most = most.reduce(|worst, slot| if is_less(slot, worst) { worst } else { slot });
            known.servers.retain(|slot| Some(*slot) != most);
            known.changed = arrival.now;
        }
        if let Some(slot) = least.filter(|slot| !is_crowded(rig, server(*slot).unwrap())) {
            return Some(slot);
        }
        let slot = naive(SchedulerKind::Wlc, rig)?;
        if !known.servers.contains(&slot) {
            known.servers.push(slot);
            known.changed = arrival.now;
        }
        Some(slot)
    }
}

/// `wrr`: where the levels begin, and how far apart they are.
fn ladder(rig: &Rig) -> (u32, u32) {
    let weights = || rig.service.servers.iter().map(|server| server.weight);
    let step = weights().fold(0, gcd).max(1);
    let heaviest = weights().max().unwrap_or(0);
    (heaviest.saturating_sub(step - 1), step)
}

fn is_crowded(rig: &Rig, server: &Server) -> bool {
    let active = |server: &Server| rig.loads.load(server).active;
    let mut all = rig.service.servers.iter();
    active(server) > server.weight && all.any(|other| active(other) * 2 < other.weight)
}

fn hashed(rig: &Rig, table: &[u32], arrival: &Arrival) -> Option<u32> {
    let flags = rig.service.scheduler_flags;
    let with_port = flags.has(SchedulerFlags::PORT);
    let port = if with_port { arrival.source_port } else { 0 };
    let place = |offset: u32| match rig.service.scheduler {
        SchedulerKind::Mh => mh::hash(arrival.source, port, offset, FIRST_KEY) as usize % table.len(),
        _ => (hash(arrival.source, port) + offset) as usize % table.len(),
    };
    let usable = |offset: u32| {
        let slot = table[place(offset)];
        let server = rig.service.servers.iter().find(|server| server.slot == slot);
        server
            .filter(|server| rig.loads.usable(server))
            .map(|server| server.slot)
    };
    if table.is_empty() {
        return None;
    }
    if let Some(own) = usable(0) {
        return Some(own);
    }
    let first = place(0) as u32;
    let size = table.len() as u32;
    let mut offsets = (first..size).chain(0..first);
    flags
        .has(SchedulerFlags::FALLBACK)
        .then(|| offsets.find_map(usable))?
}

/// Two draws of a ticket each, by weight.
fn twos(rig: &Rig, mut random: u64) -> Option<u32> {
    let servers = &rig.service.servers;
    let holder = |usable_alone: bool, random: u64| {
        let mut list = Vec::new();
        for server in servers
            .iter()
            .filter(|server| !usable_alone || rig.loads.usable(server))
        {
            list.extend((0..server.weight).map(|_| server));
        }
        let ticket = (list.len() as u128 * u128::from(random)) >> 64;
        list.get(ticket as usize).copied()
    };
    let mut draw = || {
        for _ in 0..16 {
            random = mixed(random);
            let drawn = holder(false, random);
            if drawn.is_some_and(|server| rig.loads.usable(server)) {
                return drawn;
            }
        }
        holder(true, mixed(random))
    };
    let (first, second) = (draw()?, draw()?);
    let rank = |server: &Server| (rig.loads.load(server), server.weight);
    let better = is_better(SchedulerKind::Wlc, rank(second), rank(first));
    Some(if better { second.slot } else { first.slot })
}

proptest! {
    #[test]
    fn every_algorithm_follows_the_rule_of_lvs(
        which in 0..SchedulerKind::ALL.len(), flags in 0u8..4, first in 0u32..8, events in events(),
    ) {
        let kind = SchedulerKind::ALL[which];
        let servers = (0..first).map(|slot| server(slot, 1 + slot % 3)).collect();
        let mut rig = Rig::with_flags(kind, SchedulerFlags::from_bits(flags), servers);
        let (mut lvs, mut now, mut open) = (Lvs::default(), Tick(0), Vec::new());
        lvs.edited(kind, &rig);
        for (step, event) in events.into_iter().enumerate() {
            match event {
                Event::Toggle(slot, weight) => {
                    let is_there = rig.service.servers.iter().any(|server| server.slot == slot);
                    if is_there {
                        lvs.removes(kind, &rig, slot);
                        rig.edit(|servers| servers.retain(|server| server.slot != slot));
                    } else {
                        rig.edit(|servers| servers.insert(0, server(slot, weight)));
                    }
                    lvs.edited(kind, &rig);
                }
                Event::Weigh(slot, weight) => {
                    rig.edit(|servers| {
                        for server in servers.iter_mut().filter(|server| server.slot == slot) {
                            server.weight = weight;
                            server.table_weight = if weight > 0 { weight } else { server.table_weight };
                        }
                    });
                    lvs.edited(kind, &rig);
                }
                Event::Overload(slot, overloaded) => rig.overload(slot, overloaded),
                Event::Pass(ticks) => now = now.after(ticks),
                Event::Close(which) if !open.is_empty() => {
                    let at = which % open.len();
                    let (slot, active): &mut (u32, bool) = &mut open[at];
                    let (slot, was_active) = (*slot, std::mem::replace(active, false));
                    if was_active {
                        rig.shift(slot, -1, 1);
                    } else {
                        rig.shift(slot, 0, -1);
                        open.swap_remove(at);
                    }
                }
                Event::Close(_) => {}
                Event::Open(number) => {
                    let arrival = Arrival {
                        now,
                        random: mixed(u64::from(number) << 32 | step as u64),
                        ..arrival(number)
                    };
                    let expected = lvs.pick(&rig, &arrival);
                    prop_assert_eq!(rig.open_for(&arrival), expected, "{} at {}", kind.name(), step);
                    open.extend(expected.map(|slot| (slot, true)));
                }
            }
        }
    }
}
