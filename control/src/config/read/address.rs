//! What a text means as an address: IPv4 addresses, prefixes, ranges of them, MAC addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::value::number;
use crate::config::Place;
use crate::config::report::Fault;
use crate::config::types::{AddressRange, Prefix};
use crate::config::yaml::shown;

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

/// The address of a server, which has its port elsewhere.
pub(crate) fn server_address(text: &str) -> Result<Ipv4Addr, Fault> {
    if let Some((host, port)) = text.split_once(':')
        && let (Ok(host), Ok(port)) = (host.parse::<Ipv4Addr>(), port.parse::<u16>())
    {
        let problem = format!("`{}` has the port in it", shown(text));
        return Err(Fault::new(
            problem,
            format!("write `address: {host}, port: {port}`"),
        ));
    }
    address(text)
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
