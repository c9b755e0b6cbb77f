//! What servers were shown last on the local ports that are free again: the end of the client's sequence numbers.
//!
//! A server remembers a connection in TIME_WAIT for a minute or two (RFC 9293 3.4.3), and takes a new one between the
//! same ends only above the old one's sequence numbers. The gateway's record of it may be gone by then: its port was
//! recycled, its client has taken its own port again, or the timeouts are short. So each worker remembers so many local
//! ports as it has room for connections, wherever they are free; of those that would lie in one cache line the oldest
//! is forgotten. Called by [`LocalPorts`] when a connection has ended and when a port is handed out.

use std::io;

use bytemuck::{Pod, Zeroable};

use super::{LocalPorts, Pair};
use crate::arch::prefetch;
use crate::memory::Slab;
use crate::time::{TICKS_PER_SECOND, Tick};

/// How long a server may remember a connection, in seconds: two minutes is the longest that any is known to do.
const SERVERS_REMEMBER: u16 = 120;

/// Local ports in a line of the memory.
const ENTRIES: usize = 8;
/// Lines of the smallest memory.
const LEAST_LINES: usize = 1024;

/// One local port towards one server. Two that look the same cost the second one a shift that it did not need.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    /// Which it is: bits of the hash, never 0 in an entry that is used.
    tag: u16,
    /// When its last packet was seen, in seconds.
    seen: u16,
    /// The sequence number behind the last one that the server was shown.
    last: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([Entry; ENTRIES]);

const _: () = assert!(size_of::<Line>() == 64);

/// The memory of one worker.
pub(super) struct Shown(Slab<Line>);

fn seconds_of(tick: Tick) -> u16 {
    (tick.0 / TICKS_PER_SECOND) as u16
}

impl Shown {
    /// For as many ports as there may be connections.
    pub(super) fn new(connections: u32, hugepages: bool) -> io::Result<Shown> {
        let lines = (connections as usize / ENTRIES).max(LEAST_LINES);
        Ok(Shown(Slab::new(lines, hugepages)?))
    }

    /// Takes all memory from the system now.
    pub(super) fn touch(&mut self) {
        self.0.touch();
    }

    /// The line of a hash, and what it is known by there.
    fn place(&self, hash: u64) -> (usize, u16) {
        let line = (u128::from(hash) * self.0.len() as u128) >> 64;
        (line as usize, hash as u16 | 1)
    }

    fn announce(&self, hash: u64) {
        prefetch(&self.0, self.place(hash).0);
    }

    fn note(&mut self, hash: u64, last: u32, seen: Tick) {
        let (line, tag) = self.place(hash);
        let seen = seconds_of(seen);
        let rank = |entry: &Entry| match entry.tag {
            own if own == tag => u32::MAX,
            0 => u32::MAX - 1,
            _ => u32::from(seen.wrapping_sub(entry.seen)),
        };
        let line = &mut self.0[line].0;
        if let Some(place) = (0..ENTRIES).max_by_key(|at| rank(&line[*at])) {
            line[place] = Entry { tag, seen, last };
        }
    }

    fn recall(&self, hash: u64, now: Tick) -> Option<u32> {
        let (line, tag) = self.place(hash);
        let entry = self.0[line].0.iter().find(|entry| entry.tag == tag)?;
        let age = seconds_of(now).wrapping_sub(entry.seen);
        (age <= SERVERS_REMEMBER).then_some(entry.last)
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.0.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl LocalPorts {
    /// Notes that a connection on `port` of `pair` is over, that `last` is the sequence number behind the last one that
    /// the server was shown of its client, and when its last packet was seen.
    pub fn note_shown(&mut self, pair: &Pair, port: u16, last: u32, seen: Tick) {
        let hash = self.hasher.port(pair, port);
        self.shown.note(hash, last, seen);
    }

    /// Asks the cache for what [`LocalPorts::last_shown`] and [`LocalPorts::note_shown`] look at.
    pub fn announce_shown(&self, pair: &Pair, port: u16) {
        self.shown.announce(self.hasher.port(pair, port));
    }

    /// The sequence number behind the last one that the server was shown on `port` of `pair`, while it may remember
    /// that.
    #[must_use]
    pub fn last_shown(&self, pair: &Pair, port: u16, now: Tick) -> Option<u32> {
        self.shown.recall(self.hasher.port(pair, port), now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::tests::{LIP, LIP6, ports_of, small};
    use super::*;
    use crate::time::seconds;

    fn pair(server: &str) -> Pair {
        let server: IpAddr = server.parse().unwrap();
        Pair {
            local: if server.is_ipv4() { LIP } else { LIP6 },
            server,
            server_port: 80,
            protocol: 6,
        }
    }

    #[test]
    fn each_port_towards_each_server_is_remembered_for_two_minutes() {
        let mut ports = ports_of(&small());
        let pairs = ["10.0.0.11", "10.0.0.12", "fd00::11"].map(pair);
        // Across the wrap of the clock too.
        for start in [Tick(700), Tick(u32::MAX - 5_000)] {
            for (n, pair) in pairs.iter().enumerate() {
                for port in 1000..1100 {
                    ports.note_shown(pair, port, 1_000_000 * n as u32 + u32::from(port), start);
                }
            }
            for (n, pair) in pairs.iter().enumerate() {
                for port in 1000..1100 {
                    let last = Some(1_000_000 * n as u32 + u32::from(port));
                    assert_eq!(ports.last_shown(pair, port, start), last);
                    assert_eq!(ports.last_shown(pair, port, start.after(seconds(30))), last);
                }
                assert_eq!(ports.last_shown(pair, 1100, start), None);
            }
        }
        let start = Tick(700);
        ports.note_shown(&pairs[0], 1000, 5, start);
        ports.note_shown(&pairs[0], 1000, 6, start.after(seconds(100)));
        assert_eq!(
            ports.last_shown(&pairs[0], 1000, start.after(seconds(220))),
            Some(6)
        );
        assert_eq!(ports.last_shown(&pairs[0], 1000, start.after(seconds(222))), None);
    }

    #[test]
    fn the_oldest_of_a_full_line_is_forgotten() {
        let mut shown = Shown::new(1, false).unwrap();
        let hash = |n: u64| n * 2 + 1;
        for n in 0..9 {
            shown.note(hash(n), n as u32, Tick(seconds(10 + n as u32)));
        }
        let now = Tick(seconds(20));
        assert_eq!(shown.recall(hash(0), now), None);
        for n in 1..9 {
            assert_eq!(shown.recall(hash(n), now), Some(n as u32));
        }
    }
}
