//! What the fragments of one datagram have in common.

use super::{FRAGMENT_HEADER_LEN, L3, word};
use crate::packet::{AddressDigest, Headers, Kind, PortId};

const SOURCE4: usize = L3 + 12;
const IDENTIFICATION4: usize = L3 + 4;
const PROTOCOL4: usize = L3 + 9;
const SOURCE6: usize = L3 + 8;

/// The name of a datagram that arrives in fragments. Fragments with equal keys belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramKey {
    /// Source and destination as they stand in the IP header; an IPv4 pair is padded by zeroes.
    addresses: [u8; 32],
    identification: u32,
    /// The protocol of IPv4. 0 for IPv6, whose fragments may differ in their next header (RFC 8200 4.5).
    protocol: u8,
    is_v6: bool,
    port: PortId,
}

impl DatagramKey {
    /// The key of a parsed fragment that arrived at `port`; none when it is no fragment. `frame` begins with its
    /// Ethernet header.
    #[must_use]
    pub fn of(frame: &[u8], headers: &Headers, port: PortId) -> Option<DatagramKey> {
        let mut addresses = [0; 32];
        match headers.kind {
            Kind::Fragment => {
                addresses[..8].copy_from_slice(frame.get(SOURCE4..SOURCE4 + 8)?);
                Some(DatagramKey {
                    addresses,
                    identification: u32::from(word(frame, IDENTIFICATION4)),
                    protocol: *frame.get(PROTOCOL4)?,
                    is_v6: false,
                    port,
                })
            }
            Kind::Fragment6 => {
                addresses.copy_from_slice(frame.get(SOURCE6..SOURCE6 + 32)?);
                let l4 = usize::from(headers.l4);
                let header = frame.get(l4..)?.first_chunk::<FRAGMENT_HEADER_LEN>()?;
                let [_, _, _, _, a, b, c, d] = *header;
                Some(DatagramKey {
                    addresses,
                    identification: u32::from_be_bytes([a, b, c, d]),
                    protocol: 0,
                    is_v6: true,
                    port,
                })
            }
            _ => None,
        }
    }

    /// Whether it is an IPv6 datagram.
    #[must_use]
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Where its fragments arrive.
    #[must_use]
    pub fn port(&self) -> PortId {
        self.port
    }

    /// The identification, host order: 16 bits of IPv4, 32 of IPv6.
    #[must_use]
    pub fn identification(&self) -> u32 {
        self.identification
    }

    /// A keyed hash: where the datagram stands in the table, and what names the worker that puts it together. It
    /// depends on everything but the port.
    #[must_use]
    pub fn hash(&self, digest: &AddressDigest) -> u64 {
        let mut rest = [0; 32];
        rest[..8].copy_from_slice(&digest.of(&self.addresses).to_ne_bytes());
        rest[8..12].copy_from_slice(&self.identification.to_ne_bytes());
        rest[12] = self.protocol;
        rest[13] = u8::from(self.is_v6);
        digest.of(&rest)
    }
}
