//! What the text of a scalar means: numbers, words, addresses. Each function is total: any text gives a value or
//! a fault with a remedy.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::config::report::Fault;
use crate::config::suggest;
use crate::config::types::{AddressRange, Listener, PortRange, Prefix, Protocol};
use crate::config::yaml::shown;
use crate::config::{Mode, Place, Scheduler};

/// An unsigned decimal number in `range`; `_` may group its digits.
pub(crate) fn number(text: &str, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    let (low, high) = (range.start(), range.end());
    let remedy = format!("write a whole number from {low} to {high}");
    let digits = text.replace('_', "");
    if digits.is_empty() || digits.bytes().any(|byte| !byte.is_ascii_digit()) || text.starts_with('_') {
        let negative = digits
            .strip_prefix('-')
            .is_some_and(|rest| rest.parse::<u64>().is_ok());
        let problem = match negative {
            true => format!("{} is negative", shown(text)),
            false => format!("`{}` is not a whole number", shown(text)),
        };
        return Err(Fault::new(problem, remedy));
    }
    let value = digits.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| Fault::new(format!("{} is out of range", shown(text)), remedy))
}

/// `true` or `false`.
pub(crate) fn flag(text: &str) -> Result<bool, Fault> {
    choice(text, &[("true", true), ("false", false)])
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Fault> {
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names = || words.iter().map(|(word, _)| *word);
            let remedy = suggest::nearest(text, names()).map_or_else(
                || format!("write `{}`", names().collect::<Vec<_>>().join("` or `")),
                |nearest| format!("did you mean `{nearest}`?"),
            );
            Fault::new(format!("`{}` is not known here", shown(text)), remedy)
        })
}

/// A forwarding mode.
pub(crate) fn mode(text: &str) -> Result<Mode, Fault> {
    match text {
        "nat" | "tun" => Err(Fault::new(
            format!("forwarding mode `{text}` comes with a later release"),
            "write `fullnat` or `dr`",
        )),
        _ => choice(text, &[("fullnat", Mode::Fullnat), ("dr", Mode::Dr)]),
    }
}

/// A scheduler.
pub(crate) fn scheduler(text: &str) -> Result<Scheduler, Fault> {
    const LATER: [&str; 11] = [
        "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq", "fo", "ovf",
    ];
    let problem = match text {
        "rr" => return Ok(Scheduler::Rr),
        "wrr" => return Ok(Scheduler::Wrr),
        _ if LATER.contains(&text) => format!("scheduler `{text}` comes with a later release"),
        _ => format!("unknown scheduler `{}`", shown(text)),
    };
    Err(Fault::new(problem, "available: `rr`, `wrr`"))
}

/// A name: what other keys, logs, metrics and commands call a thing.
pub(crate) fn name(text: &str) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@/".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
        let remedy = "write 1 to 64 of the characters A-Z a-z 0-9 - _ . : @ /";
        return Err(Fault::new(format!("`{}` cannot be a name", shown(text)), remedy));
    }
    Ok(text.to_owned())
}

/// Any IPv4 address.
fn any_address(text: &str) -> Result<Ipv4Addr, Fault> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text
        .trim_start_matches('[')
        .split([']', '/', '%'])
        .next()
        .unwrap_or_default();
    if bare.parse::<Ipv6Addr>().is_ok() {
        let problem = format!("`{}` is an IPv6 address", shown(text));
        return Err(Fault::new(problem, "IPv6 comes later; write an IPv4 address"));
    }
    let octets: Vec<&str> = text.split('.').collect();
    let padded = |octet: &&str| octet.len() > 1 && octet.starts_with('0');
    if octets.len() == 4 && octets.iter().any(padded) {
        // Some programs read 010 as 8, others as 10 (RFC 6943 section 3.1.1).
        let plain: Vec<&str> = octets.iter().map(|octet| octet.trim_start_matches('0')).collect();
        let plain: Vec<&str> = plain
            .iter()
            .map(|octet| if octet.is_empty() { "0" } else { octet })
            .collect();
        if let Ok(address) = plain.join(".").parse::<Ipv4Addr>() {
            let problem = format!("`{}` has a number with a leading zero", shown(text));
            return Err(Fault::new(problem, format!("write {address}")));
        }
    }
    let remedy = "write four numbers from 0 to 255, such as 10.0.0.11; names are not looked up";
    Err(Fault::new(
        format!("`{}` is not an IPv4 address", shown(text)),
        remedy,
    ))
}

/// The address of one host.
pub(crate) fn address(text: &str) -> Result<Ipv4Addr, Fault> {
    let address = any_address(text)?;
    host(address)?;
    Ok(address)
}

/// Refuses an address that no host on a network has (RFC 6890).
fn host(address: Ipv4Addr) -> Result<(), Fault> {
    let kind = match address.octets() {
        [0, ..] => "an address of \"this network\" (0.0.0.0/8)",
        [127, ..] => "a loopback address, and the host's own stack is not behind the gateway",
        [224..=239, ..] => "a multicast address",
        [255, 255, 255, 255] => "the broadcast address",
        [240..=255, ..] => "a reserved address (240.0.0.0/4)",
        _ => return Ok(()),
    };
    Err(Fault::new(
        format!("{address} is {kind}"),
        "write the unicast address of a host",
    ))
}

/// Splits `address/length`.
fn cidr(text: &str, example: &str) -> Result<(Ipv4Addr, u8), Fault> {
    let Some((address, length)) = text.split_once('/') else {
        let address = any_address(text)?;
        let problem = format!("{address} has no prefix length");
        return Err(Fault::new(
            problem,
            format!("write it as {address}/24, with the length of its network"),
        ));
    };
    let address = any_address(address)?;
    let length = number(length, 0..=32).map_err(|_| {
        let problem = format!("`/{}` is not a prefix length", shown(length));
        Fault::new(problem, format!("write a length from 0 to 32, such as {example}"))
    })?;
    Ok((address, u8::try_from(length).unwrap_or(32)))
}

/// A host's address with the length of its prefix, such as 10.0.0.1/24.
pub(crate) fn interface_address(text: &str) -> Result<(Ipv4Addr, u8), Fault> {
    let (address, length) = cidr(text, "10.0.0.1/24")?;
    if length == 0 {
        let remedy = format!("write {address}/24 with the length of its network, and a route `to: default`");
        return Err(Fault::new(
            "a prefix length of 0 makes the whole Internet a neighbour",
            remedy,
        ));
    }
    let prefix = Prefix::new(address, length);
    if prefix.is_reserved(address) {
        let kind = if address == prefix.last() {
            "broadcast"
        } else {
            "network"
        };
        let problem = format!("{address} is the {kind} address of {prefix}");
        let first = Ipv4Addr::from_bits(prefix.network().to_bits() | 1);
        return Err(Fault::new(
            problem,
            format!("write an address of a host, such as {first}/{length}"),
        ));
    }
    host(address)?;
    Ok((address, length))
}

/// A prefix without host bits, or `default`.
pub(crate) fn prefix(text: &str) -> Result<Prefix, Fault> {
    if text == "default" {
        return Ok(Prefix::new(Ipv4Addr::UNSPECIFIED, 0));
    }
    let (address, length) = cidr(text, "10.1.0.0/16")?;
    let prefix = Prefix::new(address, length);
    if prefix.network() != address {
        let problem = format!("{address} is not the first address of a /{length}");
        return Err(Fault::new(problem, format!("write {prefix}")));
    }
    Ok(prefix)
}

/// Addresses: one, a range `10.0.0.200-10.0.0.203` or `10.0.0.200-203`, or a prefix, all of which counts.
pub(crate) fn address_range(text: &str, place: Place) -> Result<AddressRange, Fault> {
    if text.contains('/') {
        let prefix = prefix(text)?;
        let (first, last) = (prefix.network(), prefix.last());
        host(first)?;
        host(last)?;
        return Ok(AddressRange { first, last, place });
    }
    let Some((first, last)) = text.split_once('-') else {
        let first = address(text)?;
        return Ok(AddressRange {
            first,
            last: first,
            place,
        });
    };
    let first = address(first.trim())?;
    let last = last.trim();
    let last = match last.parse::<u8>() {
        Ok(octet) => Ipv4Addr::from_bits(first.to_bits() & !0xff | u32::from(octet)),
        Err(_) => address(last)?,
    };
    if last < first {
        let problem = format!("the range ends at {last}, before it starts at {first}");
        return Err(Fault::new(problem, format!("write {last}-{first}")));
    }
    Ok(AddressRange { first, last, place })
}

/// An L4 port, host order.
pub(crate) fn l4_port(text: &str) -> Result<u16, Fault> {
    if text.parse() == Ok(0u64) {
        let remedy = "write the port, 1 to 65535";
        return Err(Fault::new(
            "port 0, which stands for all ports, needs persistence, which comes later",
            remedy,
        ));
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let remedy = well_known(text).map_or("write its number, 1 to 65535".to_owned(), |port| {
            format!("write {port}")
        });
        return Err(Fault::new(
            format!("`{}`: names of ports are not looked up", shown(text)),
            remedy,
        ));
    }
    number(text, 1..=65535).map(|port| port as u16)
}

/// The numbers of services that are often balanced, for the remedy only: a name that is looked up means another
/// port on a host with another /etc/services.
fn well_known(name: &str) -> Option<u16> {
    const NAMES: [(&str, u16); 14] = [
        ("ftp", 21),
        ("ssh", 22),
        ("smtp", 25),
        ("domain", 53),
        ("dns", 53),
        ("http", 80),
        ("pop3", 110),
        ("ntp", 123),
        ("imap", 143),
        ("snmp", 161),
        ("ldap", 389),
        ("https", 443),
        ("syslog", 514),
        ("mysql", 3306),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, port)| *port)
}

/// L4 ports: `1024-65535`, or one.
pub(crate) fn port_range(text: &str) -> Result<PortRange, Fault> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (l4_port(first.trim())?, l4_port(last.trim())?);
    if last < first {
        let problem = format!("the range ends at {last}, before it starts at {first}");
        return Err(Fault::new(problem, format!("write {last}-{first}")));
    }
    Ok(PortRange { first, last })
}

/// Where a service listens: `203.0.113.100:80/tcp`.
pub(crate) fn listener(text: &str, place: Place) -> Result<Listener, Fault> {
    let (endpoint, protocol) = match text.rsplit_once('/') {
        Some((endpoint, protocol)) => (endpoint, Some(protocol)),
        None => (text, None),
    };
    let Some((host, port)) = endpoint
        .rsplit_once(':')
        .filter(|(host, _)| host.parse::<Ipv6Addr>().is_err())
    else {
        let address = address(endpoint)?;
        let problem = format!("`{}` has no port", shown(text));
        let remedy = format!("write it as {address}:80/{}", protocol.unwrap_or("tcp"));
        return Err(Fault::new(problem, remedy));
    };
    let address = address(host)?;
    let port = l4_port(port)?;
    let protocol = match protocol {
        Some("tcp") => Protocol::Tcp,
        Some("udp") => Protocol::Udp,
        Some("sctp") => {
            return Err(Fault::new(
                "SCTP comes with a later release",
                "write `tcp` or `udp` after the slash",
            ));
        }
        Some(other) => {
            let problem = format!("`{}` is not a protocol", shown(other));
            return Err(Fault::new(
                problem,
                format!("write {address}:{port}/tcp or {address}:{port}/udp"),
            ));
        }
        None => {
            let problem = format!("`{}` names no protocol", shown(text));
            return Err(Fault::new(
                problem,
                format!("write {address}:{port}/tcp or {address}:{port}/udp"),
            ));
        }
    };
    Ok(Listener {
        address,
        port,
        protocol,
        place,
    })
}

/// The MAC address of one station.
pub(crate) fn mac(text: &str) -> Result<[u8; 6], Fault> {
    let remedy = "write six bytes in hexadecimal, such as 02:00:00:00:00:01";
    let not_one = || Fault::new(format!("`{}` is not a MAC address", shown(text)), remedy);
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2).ok_or_else(not_one)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| not_one())?;
    }
    if parts.next().is_some() || text.contains('+') {
        return Err(not_one());
    }
    if mac[0] & 1 != 0 || mac == [0; 6] {
        let problem = format!("`{text}` is not the address of one station");
        return Err(Fault::new(
            problem,
            "write a unicast MAC address: an even first byte, and not all zero",
        ));
    }
    Ok(mac)
}
