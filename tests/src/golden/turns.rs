//! What several workers do otherwise than a lone one. `rr`, `wrr`, `lblc` and `lblcr` go by what they have picked before,
//! and each worker knows of its own picks alone. So a connection may go to another server than in the recording, and what
//! comes after it is judged by where it went:
//!
//! - it goes to a server that takes connections, and is refused when the recorded one is; only where servers have
//!   thresholds may other servers be full;
//! - all of its packets go there, until that server is removed;
//! - the counts of each server are those of the connections that went there;
//! - by `rr` and `wrr`, no server gets more or less than in the recording by more than its turns in one cycle for each
//!   worker, and after each edit once more.
//!
//! All that goes by the clients, the servers' weights, or their connections is the same to the letter and not judged here.

use super::facts::Facts;
use super::frames;
use super::recording::{Counted, SchedEvent};
use super::rules::Packet;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use tidegate::ipvsadm::{self, Command};

/// What the recording has, and what the gateway does.
#[derive(Clone, Default)]
struct Both<T> {
    recorded: T,
    seen: T,
}

/// A connection by its ends: the client's, and what it asked for.
type Flow = (SocketAddr, SocketAddr);

struct Connection {
    server: Both<String>,
    is_active: bool,
}

/// A server of the table.
#[derive(Clone, Copy)]
struct Server {
    weight: u32,
    has_threshold: bool,
}

/// Judges a scheduler scenario by the rules above.
pub(super) struct Turns {
    workers: u32,
    one_packet: bool,
    /// Whether picks go by turns alone, so that they are even.
    is_even: bool,
    table: BTreeMap<IpAddr, Server>,
    addresses: BTreeMap<String, IpAddr>,
    /// The most turns that each server has had in a cycle.
    turns: BTreeMap<String, u32>,
    connections: HashMap<Flow, Connection>,
    opened: BTreeMap<String, Both<u32>>,
    edits: u32,
}

impl Turns {
    /// For a gateway of so many workers.
    pub(super) fn new(workers: u8, facts: &Facts) -> Turns {
        Turns {
            workers: workers.into(),
            one_packet: facts.one_packet,
            is_even: facts
                .schedulers
                .iter()
                .all(|name| ["rr", "wrr"].contains(&&**name)),
            table: BTreeMap::new(),
            addresses: BTreeMap::new(),
            turns: BTreeMap::new(),
            connections: HashMap::new(),
            opened: BTreeMap::new(),
            edits: 0,
        }
    }

    /// Takes note of a command, and of the servers that the scenario has named.
    pub(super) fn command(&mut self, line: &str, addresses: &BTreeMap<String, IpAddr>) {
        self.addresses.clone_from(addresses);
        match ipvsadm::parse_line(line) {
            Ok(Command::AddServer(_, server) | Command::EditServer(_, server)) => {
                let row = Server {
                    weight: server.weight,
                    has_threshold: server.upper_threshold != 0,
                };
                self.table.insert(server.endpoint.address, row);
            }
            Ok(Command::DeleteServer(_, endpoint)) => {
                self.table.remove(&endpoint.address);
            }
            Ok(Command::Clear) => self.table.clear(),
            _ => {}
        }
        if !self.connections.is_empty() {
            self.edits += 1;
        }
        let divisor = self
            .table
            .values()
            .fold(0, |all, server| gcd(all, server.weight))
            .max(1);
        for (name, address) in &self.addresses {
            if let Some(server) = self.table.get(address) {
                let most = self.turns.entry(name.clone()).or_insert(1);
                *most = (*most).max(server.weight / divisor);
            }
        }
    }

    /// Connections may end by themselves from here on.
    pub(super) fn time_passes(&mut self) {
        self.connections.clear();
    }

    fn row(&self, name: &str) -> Option<&Server> {
        self.table.get(self.addresses.get(name)?)
    }

    /// Judges where packets of a connection went.
    pub(super) fn went(
        &mut self,
        event: &SchedEvent,
        flow: Flow,
        expected: &str,
        seen: &str,
    ) -> Result<(), String> {
        if let Some(known) = self.connections.get(&flow).filter(|_| !self.one_packet) {
            // One that has been refused in one of them is unknown there.
            let goes = |home: &str, is: &str| match self.row(home) {
                Some(_) => is == home,
                None if self.addresses.contains_key(home) => is == "drop",
                None => !self.addresses.contains_key(is),
            };
            if goes(&known.server.recorded, expected) {
                if !goes(&known.server.seen, seen) {
                    return Err(format!("its connection has gone to {}", known.server.seen));
                }
                self.lives_on(&event.op, flow);
                return Ok(());
            }
        }
        self.begins(event, flow, expected, seen)
    }

    fn lives_on(&mut self, op: &str, flow: Flow) {
        if let Some(connection) = self.connections.get_mut(&flow) {
            match op {
                "fin" | "rst" => connection.is_active = false,
                _ => {}
            }
        }
    }

    fn begins(&mut self, event: &SchedEvent, flow: Flow, expected: &str, seen: &str) -> Result<(), String> {
        let is_server = |name: &str| self.addresses.contains_key(name);
        let full = |name: &str| self.row(name).is_some_and(|server| server.has_threshold);
        match (is_server(expected), is_server(seen)) {
            (false, false) if expected == seen => return Ok(()),
            (true, true) => {}
            // Another worker's connections have filled other servers.
            (false, true) if expected.starts_with("icmp") && full(seen) => {}
            (true, false) if seen.starts_with("icmp") && full(expected) => {}
            _ => return Err("it is no question of turns".to_owned()),
        }
        if is_server(seen) && self.row(seen).is_none_or(|server| server.weight == 0) {
            return Err("it takes no connections".to_owned());
        }
        self.opened.entry(expected.to_owned()).or_default().recorded += 1;
        self.opened.entry(seen.to_owned()).or_default().seen += 1;
        let connection = Connection {
            server: Both {
                recorded: expected.to_owned(),
                seen: seen.to_owned(),
            },
            is_active: event.op != "udp",
        };
        if !self.one_packet {
            self.connections.insert(flow, connection);
        }
        Ok(())
    }

    /// The counts of a server by the connections that have gone there.
    fn count(&self, of: impl Fn(&Connection) -> bool) -> (u32, u32) {
        let mine = self.connections.values().filter(|connection| of(connection));
        mine.fold((0, 0), |(active, inactive), connection| {
            (
                active + u32::from(connection.is_active),
                inactive + u32::from(!connection.is_active),
            )
        })
    }

    /// Judges all counts at once: where the rules above give those of the recording, they have to give the gateway's, and
    /// else the sums have to agree.
    pub(super) fn counts(
        &self,
        recorded: &Counted,
        seen: &BTreeMap<String, Option<(u32, u32)>>,
    ) -> Result<(), String> {
        let is_right = recorded
            .iter()
            .all(|(name, counts)| self.count(|one| one.server.recorded == *name) == *counts);
        let mut sums = Both::<u32>::default();
        for (name, counts) in seen {
            if counts.is_some() != recorded.contains_key(name) {
                return Err(format!("{name} is a server in one of them only"));
            }
            let Some((active, inactive)) = *counts else {
                continue;
            };
            let due = self.count(|one| one.server.seen == *name);
            if is_right && due != (active, inactive) {
                return Err(format!("{name} has {due:?} by the connections that went there"));
            }
            sums.seen += active + inactive;
        }
        sums.recorded = recorded
            .values()
            .map(|(active, inactive)| active + inactive)
            .sum();
        if !is_right && sums.recorded != sums.seen {
            return Err(format!("{} connections instead of {}", sums.seen, sums.recorded));
        }
        Ok(())
    }

    /// Judges how even it all was.
    pub(super) fn shares(&self) -> Result<(), String> {
        for (name, opened) in self
            .opened
            .iter()
            .filter(|(name, _)| self.is_even && self.addresses.contains_key(*name))
        {
            let cycle = self.turns.get(name).copied().unwrap_or(1);
            let bound = self.workers * cycle * (1 + self.edits);
            if opened.recorded.abs_diff(opened.seen) > bound {
                return Err(format!(
                    "{name} got {} connections instead of {}, which is more than {bound} apart",
                    opened.seen, opened.recorded
                ));
            }
        }
        Ok(())
    }
}

/// A packet to a server as it would be to any other: without its name and its address, and without checksums, which have
/// the address in them.
pub(super) fn to_any_server(mut packet: Packet) -> Packet {
    let Some(mut bytes) = frames::unhex(&packet.hex)
        .ok()
        .filter(|_| packet.to.starts_with("rs"))
    else {
        return packet;
    };
    let (address, prefix): (_, &[u8]) = match bytes.first().map_or(0, |byte| byte >> 4) {
        4 => (16..20, &[192, 168, 1]),
        _ => (24..40, &[0xfd, 0x01]),
    };
    "rs".clone_into(&mut packet.to);
    let is_server = bytes
        .get(address.clone())
        .is_some_and(|bytes| bytes.starts_with(prefix));
    if let Some((protocol, at)) = frames::transport(&bytes).filter(|_| is_server) {
        let checksum = match protocol {
            frames::TCP => Some(at + 16..at + 18),
            frames::UDP => Some(at + 6..at + 8),
            _ => None,
        };
        let header = (address.start == 16).then_some(10..12);
        for range in [Some(address), checksum, header].into_iter().flatten() {
            if let Some(range) = bytes.get_mut(range) {
                range.fill(0);
            }
        }
    }
    packet.hex = frames::hex(&bytes);
    packet
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A judge of two workers over rs1 and rs2 of weight 1 and rs3 of weight 0.
    fn judge() -> Turns {
        let facts = Facts {
            schedulers: ["rr".to_owned()].into(),
            ..super::super::facts::none()
        };
        let mut turns = Turns::new(2, &facts);
        let names = [("rs1", "10.0.0.1"), ("rs2", "10.0.0.2"), ("rs3", "10.0.0.3")];
        let addresses = names.map(|(name, address)| (name.to_owned(), address.parse().unwrap()));
        for (address, weight) in [(1, 1), (2, 1), (3, 0)] {
            let line = format!("-a -t 10.9.9.9:80 -r 10.0.0.{address}:80 -g -w {weight}");
            turns.command(&line, &addresses.clone().into());
        }
        turns
    }

    fn went(turns: &mut Turns, op: &str, client: u16, expected: &str, seen: &str) -> Result<(), String> {
        let event = serde_json::from_str(&format!("{{\"op\": \"{op}\"}}")).unwrap();
        let flow = (
            SocketAddr::from(([10, 1, 0, 1], client)),
            SocketAddr::from(([10, 9, 9, 9], 80)),
        );
        turns.went(&event, flow, expected, seen)
    }

    #[test]
    fn a_packet_to_a_server_is_one_to_any_server_and_the_same_else() {
        let to = |name: &str, address: &str, flags| {
            let ends = ["10.1.0.1:1024".parse().unwrap(), address.parse().unwrap()];
            to_any_server(Packet {
                side: "rs".to_owned(),
                to: name.to_owned(),
                hex: frames::hex(&frames::tcp(ends[0], ends[1], flags, 1, 2)),
            })
        };
        let first = to("rs1", "192.168.1.11:80", frames::ACK);
        assert_eq!(first, to("rs2", "192.168.1.12:80", frames::ACK));
        assert_ne!(first, to("rs2", "192.168.1.12:81", frames::ACK));
        assert_ne!(first, to("rs2", "192.168.1.12:80", frames::SYN));
        // In DR the address is the VIP, which has to be right.
        assert_ne!(to("rs1", "10.0.0.100:80", 2), to("rs2", "10.0.0.101:80", 2));
    }

    #[test]
    fn a_connection_may_begin_at_any_server_that_takes_connections_and_stays_there() {
        let mut turns = judge();
        assert_eq!(went(&mut turns, "syn", 1, "rs1", "rs2"), Ok(()));
        assert_eq!(went(&mut turns, "data", 1, "rs1", "rs2"), Ok(()));
        assert!(went(&mut turns, "data", 1, "rs1", "rs1").is_err(), "it has moved");
        assert!(went(&mut turns, "syn", 2, "rs1", "rs3").is_err(), "weight 0");
        assert!(went(&mut turns, "syn", 3, "rs1", "icmp:3/3").is_err(), "refused");
        assert!(went(&mut turns, "syn", 4, "icmp:3/3", "rs1").is_err(), "let in");
        assert!(went(&mut turns, "syn", 5, "rs1", "rs1+rst").is_err());
        // Its server goes away, the recorded one does not.
        let addresses = turns.addresses.clone();
        turns.command("-d -t 10.9.9.9:80 -r 10.0.0.2:80", &addresses);
        assert!(went(&mut turns, "data", 1, "rs1", "rs2").is_err());
        assert_eq!(went(&mut turns, "data", 1, "rs1", "drop"), Ok(()));
    }

    #[test]
    fn counts_are_those_of_the_connections_that_went_there() {
        let mut turns = judge();
        for (client, expected, seen) in [(1, "rs1", "rs2"), (2, "rs2", "rs2"), (3, "rs1", "rs1")] {
            assert_eq!(went(&mut turns, "syn", client, expected, seen), Ok(()));
        }
        assert_eq!(went(&mut turns, "rst", 2, "rs2", "rs2"), Ok(()));
        let recorded: Counted = [("rs1", (2, 0)), ("rs2", (0, 1))]
            .map(|(name, counts)| (name.to_owned(), counts))
            .into();
        let seen = |rs1, rs2| [("rs1".to_owned(), rs1), ("rs2".to_owned(), rs2)].into();
        assert_eq!(turns.counts(&recorded, &seen(Some((1, 0)), Some((1, 1)))), Ok(()));
        for (rs1, rs2) in [
            (Some((2, 0)), Some((0, 1))),
            (Some((1, 0)), Some((2, 0))),
            (Some((1, 0)), None),
        ] {
            assert!(
                turns.counts(&recorded, &seen(rs1, rs2)).is_err(),
                "{rs1:?} {rs2:?}"
            );
        }
    }

    #[test]
    fn no_server_gets_much_more_than_in_the_recording() {
        let mut turns = judge();
        for client in 0..8 {
            let expected = if client % 2 == 0 { "rs1" } else { "rs2" };
            let seen = if client < 4 { "rs1" } else { expected };
            assert_eq!(went(&mut turns, "syn", client, expected, seen), Ok(()));
            // Two workers: as many more than recorded.
            assert_eq!(turns.shares(), Ok(()));
        }
        assert_eq!(went(&mut turns, "syn", 8, "rs2", "rs1"), Ok(()));
        assert!(turns.shares().is_err());
    }
}
