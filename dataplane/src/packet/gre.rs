//! Generic routing encapsulation (RFC 2784): the header between the outer IP header and the packet that a tunnel
//! carries. TUN servers' packets are wrapped in it, and ICMP errors quote it. Keys and sequence numbers (RFC 2890)
//! are neither written nor read.

use super::{checksum, wire};

/// The IP protocol number.
pub const PROTOCOL: u8 = 47;

const ETHERTYPE: usize = 2;
const CHECKSUM: usize = 4;
const CHECKSUM_PRESENT: u16 = 0x8000;

/// The header's length in bytes; a checksum brings a reserved word with it.
#[must_use]
pub const fn header_len(with_checksum: bool) -> usize {
    if with_checksum { 8 } else { 4 }
}

/// Writes the header at the front of `message`, which holds the packet of that ethertype behind it. The checksum
/// goes over both, so the packet has to be as it is sent. It panics on a message shorter than the header.
pub fn write(message: &mut [u8], ethertype: u16, with_checksum: bool) {
    message[..header_len(with_checksum)].fill(0);
    wire::put_u16(message, ETHERTYPE, ethertype);
    if with_checksum {
        wire::put_u16(message, 0, CHECKSUM_PRESENT);
        let checksum = !checksum::sum(message);
        wire::put_u16(message, CHECKSUM, checksum);
    }
}

/// The ethertype of what the message carries, and where that begins. `None` when the header is not whole, or is
/// one that [`write()`] never makes. The checksum is not looked at: a quoted message is seldom whole.
#[must_use]
pub fn payload(message: &[u8]) -> Option<(u16, usize)> {
    let header = message.first_chunk::<4>()?;
    let with_checksum = match wire::get_u16(header, 0) {
        0 => false,
        CHECKSUM_PRESENT => true,
        _ => return None,
    };
    let start = header_len(with_checksum);
    (message.len() >= start).then(|| (wire::get_u16(header, ETHERTYPE), start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_header_is_flags_and_type() {
        let mut message = *b"....packet";
        write(&mut message, 0x0800, false);
        assert_eq!(message, *b"\x00\x00\x08\x00packet");
        assert_eq!(payload(&message), Some((0x0800, 4)));
    }

    #[test]
    fn the_checksum_covers_header_and_packet() {
        let mut message = *b"........packe";
        write(&mut message, 0x86dd, true);
        // 8000 + 86dd + 7061 + 636b + 6500, by hand: 23fa9, folded 3fab.
        assert_eq!(message, *b"\x80\x00\x86\xdd\xc0\x54\x00\x00packe");
        assert_eq!(checksum::sum(&message), 0xffff);
        assert_eq!(payload(&message), Some((0x86dd, 8)));
    }

    #[test]
    fn headers_that_we_never_send_are_not_read() {
        for flags in [0x2000u16, 0x1000, 0x4000, 0x0001, 0xa000, 0x8007] {
            let [high, low] = flags.to_be_bytes();
            assert_eq!(
                payload(&[high, low, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                None,
                "{flags:#06x}"
            );
        }
        for cut in 0..4 {
            assert_eq!(payload(&[0; 4][..cut]), None);
        }
        assert_eq!(payload(&[0x80, 0, 8, 0, 1, 2, 0]), None);
    }
}
