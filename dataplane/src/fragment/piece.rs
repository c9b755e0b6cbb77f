//! One received fragment, read: which bytes of which datagram it holds. The parser has validated its headers; what
//! only matters for putting pieces together is checked here. Changes nothing.

use super::L3;
use super::key::DatagramKey;
use crate::drops::DropReason;
use crate::packet::{Headers, PortId, ipv4, ipv6};

/// A fragment, read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// The datagram that it belongs to.
    pub(super) key: DatagramKey,
    /// The frame up to the datagram's part in it: Ethernet, and the IP header with its options; for IPv6 with the
    /// extension headers before the fragment header.
    pub(super) header: &'a [u8],
    /// What the fragment holds of the datagram; at least 1 byte, except in [`Piece::is_whole`].
    pub(super) data: &'a [u8],
    /// Where `data` belongs in the datagram's payload, in bytes: below 65,536.
    pub(super) start: usize,
    /// Whether other fragments follow.
    pub(super) more: bool,
    /// The explicit congestion notification field: 2 bits (RFC 3168 5).
    pub(super) ecn: u8,
    /// The length of the IP packet, header included, in bytes.
    pub(super) packet_len: u16,
    /// For the first fragment of IPv6: where in `header` the number of the fragment header stands, and what belongs
    /// there instead when that header is gone.
    pub(super) mend: Option<(usize, u8)>,
}

impl<'a> Piece<'a> {
    /// Reads a fragment that the parser has let pass.
    ///
    /// # Errors
    /// [`DropReason::BadIpHeader`]: it is none, is empty, ends within 8 bytes though it is not the last one, or its
    /// chain of headers does not lead to its fragment header.
    pub(super) fn read(frame: &'a [u8], headers: &Headers, port: PortId) -> Result<Piece<'a>, DropReason> {
        let piece = Piece::locate(frame, headers, port).ok_or(DropReason::BadIpHeader)?;
        let (empty, ragged) = (piece.data.is_empty(), piece.data.len() % 8 != 0);
        if (piece.more && ragged) || (empty && !piece.is_whole()) {
            return Err(DropReason::BadIpHeader);
        }
        Ok(piece)
    }

    fn locate(frame: &'a [u8], headers: &Headers, port: PortId) -> Option<Piece<'a>> {
        let key = DatagramKey::of(frame, headers, port)?;
        let (l4, end) = (usize::from(headers.l4), usize::from(headers.end));
        let least = if key.is_v6() {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN
        };
        let header = frame.get(..l4).filter(|header| header.len() >= L3 + least)?;
        let packet = frame.get(L3..end)?;
        let packet_len = u16::try_from(packet.len()).ok()?;
        if !key.is_v6() {
            return Some(Piece {
                key,
                header,
                data: frame.get(l4..end)?,
                start: usize::from(ipv4::fragment_offset(packet)),
                more: ipv4::more_fragments(packet),
                ecn: ipv4::tos(packet) & 3,
                packet_len,
                mend: None,
            });
        }
        let (fragment, data) = frame
            .get(l4..end)?
            .split_first_chunk::<{ ipv6::FRAGMENT_LEN }>()?;
        let fragment = ipv6::Fragment::read(fragment);
        let mend = if fragment.offset == 0 {
            let chain = ipv6::walk(packet).ok()?;
            if (chain.protocol, L3 + chain.at) != (ipv6::FRAGMENT, l4) {
                return None;
            }
            Some((L3 + chain.named_at, fragment.next_header))
        } else {
            None
        };
        Some(Piece {
            key,
            header,
            data,
            start: usize::from(fragment.offset),
            more: fragment.more,
            ecn: ipv6::traffic_class(packet) & 3,
            packet_len,
            mend,
        })
    }

    /// Where the piece ends in the datagram's payload, in bytes. It may lie beyond what a datagram can hold.
    pub(super) fn end(&self) -> usize {
        self.start + self.data.len()
    }

    /// Whether this is a whole datagram with a fragment header all the same (RFC 6946).
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && !self.more
    }
}
