//! The values of options: numbers, addresses, ports and masks in the forms that ipvsadm takes. Host names are
//! not looked up: a gateway's table must not depend on a name server.

use super::command::{Mask, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A decimal number between `low` and `high`, as C's `strtol` reads it: leading blanks and a sign are fine,
/// anything behind the digits is not.
pub(super) fn number(text: &str, low: i64, high: i64) -> Option<i64> {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let value: i64 = digits.parse().ok()?;
    (low..=high).contains(&value).then_some(value)
}

/// The number that `text` starts with, whatever follows it.
fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// An IPv4 address with one to four parts, each decimal, octal or hexadecimal, the last filling what is left.
pub(super) fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = text.split('.').map(part).collect::<Option<_>>()?;
    let (last, heads) = parts.split_last()?;
    if heads.len() > 3 || heads.iter().any(|&head| head > 255) {
        return None;
    }
    let left = 4 - heads.len() as u32;
    if left < 4 && *last >= 1 << (8 * left) {
        return None;
    }
    let high = heads
        .iter()
        .enumerate()
        .fold(0, |sum, (i, head)| sum | head << (24 - 8 * i));
    Some(Ipv4Addr::from_bits(high | last))
}

fn part(text: &str) -> Option<u32> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match text.strip_prefix('0') {
        Some("") => Some(0),
        Some(octal) => match octal.strip_prefix(['x', 'X']) {
            Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok(),
            Some(_) => None,
            None => u32::from_str_radix(octal, 8).ok(),
        },
        None => text.parse().ok(),
    }
}

/// `ADDRESS`, `ADDRESS:PORT` or `[IPV6]:PORT`; the port as a number or, when the protocol is known, a name.
pub(super) fn endpoint(text: &str, protocol: Option<Protocol>) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some((address.into(), None));
    }
    let (address, port_text) = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port_text) = bracketed.split_once("]:")?;
        (address.parse::<Ipv6Addr>().ok()?.into(), port_text)
    } else {
        match text.split_once(':') {
            Some((address, port_text)) => (host(address)?, port_text),
            None => return Some((host(text)?, None)),
        }
    };
    Some((address, Some(port(port_text, protocol)?)))
}

fn host(text: &str) -> Option<IpAddr> {
    match text {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        _ => ipv4(text).map(IpAddr::V4),
    }
}

fn port(text: &str, protocol: Option<Protocol>) -> Option<u16> {
    match number(text, 0, 65535) {
        Some(port) => u16::try_from(port).ok(),
        None => named_port(text, protocol?),
    }
}

/// Ports by name, as IANA assigns them: those that balancers serve. No file is read, so that a line means the
/// same on every machine.
fn named_port(name: &str, protocol: Protocol) -> Option<u16> {
    const TCP: &[(&str, u16)] = &[
        ("ftp-data", 20),
        ("ftp", 21),
        ("ssh", 22),
        ("telnet", 23),
        ("smtp", 25),
        ("mail", 25),
        ("http", 80),
        ("www", 80),
        ("kerberos", 88),
        ("pop3", 110),
        ("nntp", 119),
        ("imap2", 143),
        ("imap", 143),
        ("ldap", 389),
        ("https", 443),
        ("submissions", 465),
        ("submission", 587),
        ("ldaps", 636),
        ("domain-s", 853),
        ("ftps", 990),
        ("imaps", 993),
        ("pop3s", 995),
        ("ms-sql-s", 1433),
        ("mysql", 3306),
        ("postgresql", 5432),
        ("amqp", 5672),
        ("http-alt", 8080),
    ];
    const UDP: &[(&str, u16)] = &[
        ("bootps", 67),
        ("tftp", 69),
        ("kerberos", 88),
        ("ntp", 123),
        ("snmp", 161),
        ("ldap", 389),
        ("https", 443),
        ("syslog", 514),
        ("openvpn", 1194),
        ("radius", 1812),
        ("radius-acct", 1813),
    ];
    const BOTH: &[(&str, u16)] = &[
        ("domain", 53),
        ("sunrpc", 111),
        ("nfs", 2049),
        ("sip", 5060),
        ("sip-tls", 5061),
    ];
    let own = match protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
        Protocol::Sctp => return None,
    };
    own.iter()
        .chain(BOTH)
        .find(|(known, _)| *known == name)
        .map(|&(_, port)| port)
}

/// The mask of IPv4 persistence, in the forms of an address.
pub(super) fn mask_v4(text: &str) -> Option<Mask> {
    ipv4(text).map(Mask::V4)
}

/// The prefix length of IPv6 persistence; what follows the digits does not count.
pub(super) fn mask_v6(text: &str) -> Option<Mask> {
    let length = u8::try_from(leading_number(text)?).ok()?;
    (1..=128).contains(&length).then_some(Mask::V6(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_in_short_octal_and_hexadecimal_form() {
        let is = |text: &str, octets: [u8; 4]| assert_eq!(ipv4(text), Some(octets.into()), "{text}");
        is("10.0.0.100", [10, 0, 0, 100]);
        is("10.0.100", [10, 0, 0, 100]);
        is("10.1", [10, 0, 0, 1]);
        is("167772260", [10, 0, 0, 100]);
        is("4294967295", [255; 4]);
        is("010.0.0.1", [8, 0, 0, 1]);
        is("0x7f000001", [127, 0, 0, 1]);
        for bad in [
            "",
            ".",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.65536",
            "4294967296",
            "08.1.1.1",
            "256.1",
            "1..2",
            "+1.1",
        ] {
            assert_eq!(ipv4(bad), None, "{bad}");
        }
    }

    #[test]
    fn ports_by_number_and_name() {
        let v4 = |port| Some((IpAddr::V4(Ipv4Addr::new(10, 0, 0, 100)), port));
        assert_eq!(endpoint("10.0.0.100:80", None), v4(Some(80)));
        assert_eq!(endpoint("10.0.0.100:domain", Some(Protocol::Udp)), v4(Some(53)));
        assert_eq!(endpoint("10.0.0.100:http", Some(Protocol::Udp)), None);
        assert_eq!(endpoint("10.0.0.100:http", None), None);
        assert_eq!(endpoint("10.0.0.100", None), v4(None));
        for bad in [
            "10.0.0.100:",
            "10.0.0.100:65536",
            "10.0.0.100:80 ",
            ":80",
            "[fd00::1]",
            "[fd00::1:80",
            "[]:80",
        ] {
            assert_eq!(endpoint(bad, Some(Protocol::Tcp)), None, "{bad}");
        }
        let (address, port) = endpoint("[fd00::100]:80", None).unwrap();
        assert_eq!((address.to_string().as_str(), port), ("fd00::100", Some(80)));
        assert_eq!(endpoint("fd00::100:80", None).unwrap().1, None);
    }

    proptest! {
        #[test]
        fn any_dotted_quad_is_itself(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(ipv4(&address.to_string()), Some(address));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = (endpoint(&text, Some(Protocol::Tcp)), mask_v6(&text), number(&text, 0, 9));
        }
    }
}
