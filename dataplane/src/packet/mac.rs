//! MAC addresses: read from configuration, compared by the parser, printed for operators.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address, its bytes in the order of the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address that every station listens to.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether it names a group of stations: multicast, or the broadcast (IEEE 802.3, the I/G bit).
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

/// As operators write it: `02:00:00:00:00:01`.
impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What was written is no MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a MAC address: write six bytes in hexadecimal, such as 02:00:00:00:00:01")]
pub struct ParseMacError;

impl FromStr for MacAddr {
    type Err = ParseMacError;

    /// Reads six groups of two hexadecimal digits with colons between them, in either case.
    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let mut mac = [0; 6];
        let mut groups = text.split(':');
        for byte in &mut mac {
            let group = groups.next().ok_or(ParseMacError)?;
            // from_str_radix alone would also take "+1".
            if group.len() != 2 || !group.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *byte = u8::from_str_radix(group, 16).map_err(|_| ParseMacError)?;
        }
        match groups.next() {
            None => Ok(MacAddr(mac)),
            Some(_) => Err(ParseMacError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read() {
        let mac = MacAddr([0x02, 0, 0, 0xab, 0, 1]);
        assert_eq!(mac.to_string(), "02:00:00:ab:00:01");
        assert_eq!("02:00:00:AB:00:01".parse(), Ok(mac));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:01",
            "é:00",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn groups_are_told_from_stations() {
        assert!(MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr([0x01, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(!MacAddr([0x02, 0, 0, 0, 0, 1]).is_multicast());
    }
}
