//! One datagram that is being put together: the buffer, and what is known of it so far. Each piece is copied to its
//! place at once, the header of the first one right before the payload.

use super::L3;
use super::piece::Piece;
use super::runs::{Fit, Runs};
use crate::drops::DropReason;
use crate::packet::{Packet, ipv4, ipv6};
use crate::time::Tick;
use crate::worker::LARGE;

/// Bytes at the front of the buffer for all headers up to the payload: Ethernet, and IPv4 with all options, or IPv6
/// with 138 bytes of extension headers.
pub(super) const HEAD: usize = 192;
/// The longest payload that is put together, in bytes.
pub(super) const PAYLOAD: usize = LARGE - HEAD;

// Offsets in the payload, and lengths of whole packets, are 16-bit numbers.
const _: () = assert!(LARGE <= u16::MAX as usize);

/// The bit of "not capable of ECN" in a set of codepoints, and that of "congestion experienced".
const NOT_ECT: u8 = 1 << 0;
const CONGESTED: u8 = 1 << 3;

/// A datagram of which some fragments are here.
pub(super) struct Datagram<P> {
    packet: P,
    runs: Runs,
    /// The length of the first fragment's header, Ethernet included, in bytes; 0 = it is not here yet.
    header_len: u16,
    /// The length of the payload in bytes, once the last fragment has told it.
    total: Option<u16>,
    /// The highest end of the fragments that say that more follow.
    reach: u16,
    /// The ECN codepoints of all fragments: bit n stands for codepoint n.
    codepoints: u8,
    /// The length of the largest fragment in bytes, its IP header included.
    pub(super) largest: u16,
    /// Fragments that are held in here.
    pub(super) fragments: u32,
    /// When it is given up.
    pub(super) deadline: Tick,
}

impl<P: Packet> Datagram<P> {
    /// A datagram without any fragment, in an empty buffer or in that of a datagram that was given up.
    pub(super) fn new(packet: P, deadline: Tick) -> Datagram<P> {
        Datagram {
            packet,
            runs: Runs::default(),
            header_len: 0,
            total: None,
            reach: 0,
            codepoints: 0,
            largest: 0,
            fragments: 0,
            deadline,
        }
    }

    /// Gives the buffer back.
    pub(super) fn into_packet(self) -> P {
        self.packet
    }

    /// Whether a fragment can be part of any datagram that is put together here.
    pub(super) fn admits(piece: &Piece) -> bool {
        piece.end() <= PAYLOAD && (piece.start > 0 || piece.header.len() <= HEAD)
    }

    /// Takes a fragment in. True when the datagram is whole by it.
    ///
    /// # Errors
    /// [`DropReason::FragmentDuplicate`]: its bytes are here already; nothing has changed. Any other reason: the
    /// datagram is beyond help.
    pub(super) fn take(&mut self, piece: &Piece) -> Result<bool, DropReason> {
        if !Datagram::<P>::admits(piece) {
            return Err(DropReason::FragmentTooLong);
        }
        let (start, end) = (piece.start as u16, piece.end() as u16);
        self.check_end(end, piece.more)?;
        match self.runs.fit(start, end) {
            Fit::New => {}
            Fit::There if self.holds(piece) => return Err(DropReason::FragmentDuplicate),
            Fit::There | Fit::Overlap => return Err(DropReason::FragmentOverlap),
        }
        self.copy(piece)?;
        if !self.runs.insert(start, end) {
            return Err(DropReason::FragmentTooLong);
        }
        if piece.more {
            self.reach = self.reach.max(end);
        } else {
            self.total = Some(end);
        }
        self.codepoints |= 1 << piece.ecn;
        self.largest = self.largest.max(piece.packet_len);
        self.fragments += 1;
        Ok(self.header_len != 0 && self.total.is_some_and(|total| self.runs.cover(total)))
    }

    /// That the datagram has one end, and nothing follows it: else two datagrams are mixed up, or somebody tries
    /// what happens.
    fn check_end(&self, end: u16, more: bool) -> Result<(), DropReason> {
        let agrees = match self.total {
            Some(total) if more => end < total,
            Some(total) => end == total,
            None => more || self.reach < end,
        };
        if agrees {
            Ok(())
        } else {
            Err(DropReason::FragmentOverlap)
        }
    }

    /// Whether the same bytes stand at a piece's place.
    fn holds(&self, piece: &Piece) -> bool {
        self.packet.bytes().get(HEAD + piece.start..HEAD + piece.end()) == Some(piece.data)
    }

    /// Copies a piece to its place, and the header if it is the first one.
    fn copy(&mut self, piece: &Piece) -> Result<(), DropReason> {
        let end = HEAD + piece.end();
        if self.packet.bytes().len() < end && !self.packet.resize(end) {
            return Err(DropReason::FragmentTooLong);
        }
        let bytes = self.packet.bytes_mut();
        bytes[HEAD + piece.start..end].copy_from_slice(piece.data);
        if piece.start == 0 {
            let header = &mut bytes[HEAD - piece.header.len()..HEAD];
            header.copy_from_slice(piece.header);
            if let Some((field, next_header)) = piece.mend {
                header[field] = next_header;
            }
            self.header_len = piece.header.len() as u16;
        }
        Ok(())
    }

    /// The packet as its sender made it, once [`Datagram::take`] has said that it is whole.
    ///
    /// # Errors
    /// [`DropReason::FragmentOverlap`]: fragments disagree on whether the sender hears of congestion.
    pub(super) fn finish(mut self, is_v6: bool) -> Result<P, DropReason> {
        let congested = self.codepoints & CONGESTED != 0;
        // RFC 3168 5.3: the mark must neither get lost nor reach somebody who does not know it.
        if congested && self.codepoints & NOT_ECT != 0 {
            return Err(DropReason::FragmentOverlap);
        }
        let (header_len, total) = (usize::from(self.header_len), usize::from(self.total.unwrap_or(0)));
        if !self.packet.resize(HEAD + total) || !self.packet.trim_front(HEAD - header_len) {
            return Err(DropReason::FragmentTooLong);
        }
        let packet = &mut self.packet.bytes_mut()[L3..];
        if is_v6 {
            ipv6::set_payload_len(packet, (packet.len() - ipv6::HEADER_LEN) as u16);
            if congested {
                packet[1] |= 3 << 4;
            }
        } else {
            if congested {
                packet[1] |= 3;
            }
            // "Don't fragment" goes: fragments are no use to path MTU discovery.
            ipv4::set_fragment(packet, packet.len() as u16, 0, false);
        }
        Ok(self.packet)
    }
}
