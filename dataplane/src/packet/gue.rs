//! Generic UDP encapsulation (draft-ietf-intarea-gue, variant 0): a UDP header and four bytes of its own between the
//! outer IP header and the packet that a tunnel carries. TUN servers' packets are wrapped in it, and ICMP errors
//! quote it. Control messages, flags and extension fields are neither written nor read.

use super::{udp, wire};

/// The length of both headers in bytes.
pub const HEADER_LEN: usize = udp::HEADER_LEN + 4;

const DESTINATION: usize = 2;
const LENGTH: usize = 4;
/// Variant, control flag and length of the extension fields in one byte; then what is carried; then flags.
const VARIANT: usize = 8;
const CARRIED: usize = 9;
const FLAGS: usize = 10;

/// Writes both headers at the front of `datagram`, which holds the packet behind them, without a UDP checksum: a
/// tunnel may leave it out over IPv6 too (RFC 6935). Ports in host order; `carried` is the packet's IP protocol
/// number, 4 or 41. It panics on a datagram shorter than the headers; its length has to fit into 16 bits.
pub fn write(datagram: &mut [u8], source_port: u16, port: u16, carried: u8) {
    let length = datagram.len() as u16;
    datagram[..HEADER_LEN].fill(0);
    wire::put_u16(datagram, 0, source_port);
    wire::put_u16(datagram, DESTINATION, port);
    wire::put_u16(datagram, LENGTH, length);
    datagram[CARRIED] = carried;
}

/// The destination port, in host order; `None` when the datagram does not hold it.
#[must_use]
pub fn port(datagram: &[u8]) -> Option<u16> {
    let header = datagram.first_chunk::<4>()?;
    Some(wire::get_u16(header, DESTINATION))
}

/// The IP protocol number of what the datagram carries, and where that begins. `None` when the headers are not
/// whole, or are some that [`write()`] never makes.
#[must_use]
pub fn payload(datagram: &[u8]) -> Option<(u8, usize)> {
    let header = datagram.first_chunk::<HEADER_LEN>()?;
    let plain = header[VARIANT] == 0 && wire::get_u16(header, FLAGS) == 0;
    plain.then(|| (header[CARRIED], HEADER_LEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers_are_as_recorded() {
        let mut datagram = [0xee; 13];
        write(&mut datagram, 0x80da, 6080, 4);
        let expected = [0x80, 0xda, 0x17, 0xc0, 0, 13, 0, 0, 0, 4, 0, 0, 0xee];
        assert_eq!(datagram, expected);
        assert_eq!((port(&datagram), payload(&datagram)), (Some(6080), Some((4, 12))));
    }

    #[test]
    fn headers_that_we_never_send_are_not_read() {
        let mut datagram = [0; 16];
        write(&mut datagram, 50000, 6080, 41);
        // Variant 1, a control message, extension fields, a flag.
        for (at, value) in [(8, 0x40), (8, 0x20), (8, 0x01), (10, 0x80), (11, 0x01)] {
            let mut other = datagram;
            other[at] = value;
            assert_eq!(payload(&other), None);
        }
        for cut in 0..HEADER_LEN {
            assert_eq!(payload(&datagram[..cut]), None);
        }
        assert_eq!((port(&datagram[..3]), port(&datagram[..4])), (None, Some(6080)));
    }
}
