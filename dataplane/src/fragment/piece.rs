//! One received fragment, read: which bytes of which datagram it holds. The parser has validated its headers; what
//! only matters for putting pieces together is checked here. Changes nothing.

use super::key::DatagramKey;
use super::{FRAGMENT_HEADER, FRAGMENT_HEADER_LEN, HEADER6_LEN, L3, chain, word};
use crate::drops::DropReason;
use crate::packet::{Headers, PortId, ipv4};

const FLAGS4: usize = L3 + 6;
const MORE4: u16 = 0x2000;
const OFFSET4: u16 = 0x1fff;
const MORE6: u16 = 0x0001;
/// The offset of IPv6 stands in the upper 13 bits, so that the word without its flags is the offset in bytes.
const OFFSET6: u16 = 0xfff8;

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
        let least = L3
            + if key.is_v6() {
                HEADER6_LEN
            } else {
                ipv4::HEADER_LEN
            };
        let header = frame.get(..l4).filter(|header| header.len() >= least)?;
        let packet_len = u16::try_from(end.checked_sub(L3)?).ok()?;
        if !key.is_v6() {
            let flags = word(header, FLAGS4);
            return Some(Piece {
                key,
                header,
                data: frame.get(l4..end)?,
                start: usize::from(flags & OFFSET4) * 8,
                more: flags & MORE4 != 0,
                ecn: header.get(L3 + 1)? & 3,
                packet_len,
                mend: None,
            });
        }
        let flags = word(frame, l4 + 2);
        let start = usize::from(flags & OFFSET6);
        let mend = if start == 0 {
            let field = chain::field_of(header, l4)?;
            if header.get(field) != Some(&FRAGMENT_HEADER) {
                return None;
            }
            Some((field, *frame.get(l4)?))
        } else {
            None
        };
        Some(Piece {
            key,
            header,
            data: frame.get(l4 + FRAGMENT_HEADER_LEN..end)?,
            start,
            more: flags & MORE6 != 0,
            // The traffic class lies across two bytes.
            ecn: header.get(L3 + 1)? >> 4 & 3,
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
