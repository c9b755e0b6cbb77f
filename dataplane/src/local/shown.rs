//! What servers were shown last on the local ports that are free again: the end of the client's sequence numbers.
//!
//! A server remembers a connection in TIME_WAIT for a minute or two (RFC 9293 3.4.3), and takes a new one between the
//! same ends only above the old one's sequence numbers. The gateway's record of it may be gone by then: its port was
//! recycled, its client has taken its own port again, or the timeouts are short. So each worker remembers so many local
//! ports as it has room for connections, wherever they are free; of those that would lie in one cache line the oldest
//! is forgotten. Called by [`LocalPorts`] when a connection has ended and when a port is handed out.

use std::io;

use bytemuck::{Pod, Zeroable};

use super::{LocalPorts, Pair, PortPlace};
use crate::arch::{equal_lanes, prefetch};
use crate::flow::RecordId;
use crate::memory::Slab;
use crate::time::{TICKS_PER_SECOND, Tick};

/// How long a server may remember a connection, in seconds: two minutes is the longest that any is known to do.
const SERVERS_REMEMBER: u16 = 120;

/// Local ports in a line of the memory.
const ENTRIES: usize = 8;
/// Lines of the smallest memory.
const LEAST_LINES: usize = 1024;

/// Some local ports towards one server each. Two that look the same cost the second one a shift that it did not need.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line {
    /// Which they are: bits of their hashes, 0 where there is none.
    tags: [u16; ENTRIES],
    /// When their last packets were seen, in seconds.
    seen: [u16; ENTRIES],
    /// The sequence numbers behind the last ones that the servers were shown.
    last: [u32; ENTRIES],
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// Where this tag stands; 0 stands where there is room.
    #[inline]
    fn place_of(&self, tag: u16) -> Option<usize> {
        let mask = equal_lanes(&self.tags, tag);
        (mask != 0).then(|| mask.trailing_zeros() as usize % ENTRIES)
    }

    /// Where that stands which was seen longest before `now`.
    fn oldest(&self, now: u16) -> usize {
        let age = |place: &usize| now.wrapping_sub(self.seen[*place]);
        (0..ENTRIES).max_by_key(age).unwrap_or(0)
    }
}

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
        let line = &mut self.0[line];
        let own = line.place_of(tag).or_else(|| line.place_of(0));
        let place = own.unwrap_or_else(|| line.oldest(seen));
        line.tags[place] = tag;
        line.seen[place] = seen;
        line.last[place] = last;
    }

    fn recall(&self, hash: u64, now: Tick) -> Option<u32> {
        let (line, tag) = self.place(hash);
        let line = &self.0[line];
        let place = line.place_of(tag)?;
        let age = seconds_of(now).wrapping_sub(line.seen[place]);
        (age <= SERVERS_REMEMBER).then_some(line.last[place])
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.0.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl LocalPorts {
    /// As [`LocalPorts::release`], at the end of a TCP connection: `last` is the sequence number behind the last one that
    /// the server was shown of its client, and `seen` is when its last packet was seen.
    pub fn release_shown(&mut self, pair: &Pair, port: u16, record: RecordId, last: u32, seen: Tick) -> bool {
        let sought = self.hasher.seek(pair);
        self.shown.note(self.hasher.port(sought.hash, port), last, seen);
        self.release_sought(&sought, port, record)
    }

    /// Where what was shown on `port` of `pair` is remembered.
    #[must_use]
    pub fn place_of(&self, pair: &Pair, port: u16) -> PortPlace {
        PortPlace(self.hasher.port(self.hasher.pair(pair), port))
    }

    /// Asks the cache for what [`LocalPorts::last_shown`] looks at.
    #[inline]
    pub fn announce_shown(&self, place: PortPlace) {
        self.shown.announce(place.0);
    }

    /// The sequence number behind the last one that the server was shown on a port, while it may remember that.
    #[inline]
    #[must_use]
    pub fn last_shown(&self, place: PortPlace, now: Tick) -> Option<u32> {
        self.shown.recall(place.0, now)
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

    fn note(ports: &mut LocalPorts, pair: &Pair, port: u16, last: u32, seen: Tick) {
        let place = ports.place_of(pair, port);
        ports.shown.note(place.0, last, seen);
    }

    fn shown(ports: &LocalPorts, pair: &Pair, port: u16, now: Tick) -> Option<u32> {
        ports.last_shown(ports.place_of(pair, port), now)
    }

    #[test]
    fn each_port_towards_each_server_is_remembered_for_two_minutes() {
        let mut ports = ports_of(&small());
        let pairs = ["10.0.0.11", "10.0.0.12", "fd00::11"].map(pair);
        // Across the wrap of the clock too.
        for start in [Tick(700), Tick(u32::MAX - 5_000)] {
            for (n, pair) in pairs.iter().enumerate() {
                for port in 1000..1100 {
                    note(
                        &mut ports,
                        pair,
                        port,
                        1_000_000 * n as u32 + u32::from(port),
                        start,
                    );
                }
            }
            for (n, pair) in pairs.iter().enumerate() {
                for port in 1000..1100 {
                    let last = Some(1_000_000 * n as u32 + u32::from(port));
                    assert_eq!(shown(&ports, pair, port, start), last);
                    assert_eq!(shown(&ports, pair, port, start.after(seconds(30))), last);
                }
                assert_eq!(shown(&ports, pair, 1100, start), None);
            }
        }
        let start = Tick(700);
        note(&mut ports, &pairs[0], 1000, 5, start);
        note(&mut ports, &pairs[0], 1000, 6, start.after(seconds(100)));
        assert_eq!(shown(&ports, &pairs[0], 1000, start.after(seconds(220))), Some(6));
        assert_eq!(shown(&ports, &pairs[0], 1000, start.after(seconds(222))), None);
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
