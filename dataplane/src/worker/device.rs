//! How a device spreads frames over its receive queues, for ports in memory: a model of RSS, and of devices that do it
//! wrong. A worker never asks: whatever queue a packet arrives at, it finds the owner by itself.

/// Bytes of an RSS key.
pub const RSS_KEY: usize = 40;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
/// TCP, UDP and SCTP have their ports in the same place.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// Receive-side scaling: the Toeplitz hash of a packet's ends chooses an entry of a redirection table, and that a queue.
/// Of TCP, UDP and SCTP the ends are addresses and ports; of other protocols and of fragments the addresses alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rss {
    key: [u8; RSS_KEY],
    redirection: Vec<u16>,
}

impl Rss {
    /// A device with that key, and a redirection table of `entries` entries (rounded up to a power of two), each of
    /// which leads to the queue that `queue` names.
    #[must_use]
    pub fn new(key: [u8; RSS_KEY], entries: u16, queue: impl FnMut(u16) -> u16) -> Rss {
        let mut rss = Rss {
            key,
            redirection: vec![0; usize::from(entries).next_power_of_two()],
        };
        rss.set_redirection(queue);
        rss
    }

    /// Sets another key.
    pub fn set_key(&mut self, key: [u8; RSS_KEY]) {
        self.key = key;
    }

    /// Sets the whole redirection table, entry by entry.
    pub fn set_redirection(&mut self, queue: impl FnMut(u16) -> u16) {
        let entries = self.redirection.len() as u16;
        self.redirection = (0..entries).map(queue).collect();
    }

    /// The hash of a frame; none of what is not IP.
    #[must_use]
    pub fn hash(&self, frame: &[u8]) -> Option<u32> {
        let ends = ends(frame)?;
        Some(toeplitz(&self.key, &ends))
    }

    /// The queue of a hash. What has none arrives at queue 0.
    fn queue_of(&self, hash: Option<u32>) -> u16 {
        hash.map_or(0, |hash| {
            self.redirection[hash as usize & (self.redirection.len() - 1)]
        })
    }
}

/// How a device spreads frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// By RSS.
    Rss(Rss),
    /// By RSS, but of a wrong hash: one whose queue is that after the right one, so that nothing arrives at home.
    WrongHash(Rss),
    /// Each frame to any queue, two of a connection to different ones.
    Random {
        /// Queues that there are, at least 1.
        queues: u16,
        /// Where the random numbers stand; a seed at first.
        state: u64,
    },
}

impl Device {
    /// The queue that the next frame arrives at.
    pub fn queue(&mut self, frame: &[u8]) -> u16 {
        match self {
            Device::Rss(rss) => rss.queue_of(rss.hash(frame)),
            Device::WrongHash(rss) => {
                let queues = rss.redirection.iter().max().map_or(1, |highest| highest + 1);
                (rss.queue_of(rss.hash(frame)) + 1) % queues
            }
            Device::Random { queues, state } => {
                *state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                ((*state >> 33) % u64::from(*queues)) as u16
            }
        }
    }
}

/// What RSS hashes of a frame, in its order: source and destination address, then, if it has them, the ports.
fn ends(frame: &[u8]) -> Option<Vec<u8>> {
    let ethertype = |at: usize| frame.get(at..at + 2);
    let at = match ethertype(12) {
        Some(tag) if TAGS.iter().any(|known| known == tag) => 18,
        _ => 14,
    };
    let packet = frame.get(at..)?;
    let (addresses, ports) = match ethertype(at - 2) {
        Some(kind) if kind == IPV4 => {
            let is_fragment = packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0;
            let has_ports = !is_fragment && WITH_PORTS.contains(packet.get(9)?);
            (
                packet.get(12..20)?,
                has_ports.then_some(usize::from(packet[0] & 15) * 4),
            )
        }
        Some(kind) if kind == IPV6 => {
            let has_ports = WITH_PORTS.contains(packet.get(6)?);
            (packet.get(8..40)?, has_ports.then_some(40))
        }
        _ => return None,
    };
    let mut ends = addresses.to_vec();
    if let Some(at) = ports {
        ends.extend(packet.get(at..at + 4)?);
    }
    Some(ends)
}

/// The Toeplitz hash: the 32 bits of the key that begin at each set bit of the input, added up.
fn toeplitz(key: &[u8; RSS_KEY], input: &[u8]) -> u32 {
    let key_bit = |at: usize| key.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let mut window = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    let mut hash = 0;
    for at in 0..input.len() * 8 {
        if input[at / 8] >> (7 - at % 8) & 1 != 0 {
            hash ^= window;
        }
        window = window << 1 | u32::from(key_bit(at + 32));
    }
    hash
}

#[cfg(test)]
mod tests;
