//! What a text means as an address: addresses of both families, prefixes, ranges, MAC addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::value::number;
use crate::config::Place;
use crate::config::report::Fault;
use crate::config::types::{AddressRange, Prefix};
use crate::config::yaml::shown;

/// Any IPv4 or IPv6 address.
fn any_address(text: &str) -> Result<IpAddr, Fault> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => native(address).map(IpAddr::V6),
        Ok(address) => Ok(address),
        Err(_) if text.starts_with('[') || text.matches(':').count() > 1 => Err(not_ipv6(text)),
        Err(_) => Err(not_ipv4(text)),
    }
}

/// Refuses an IPv4 address in an IPv6 one: on the wire it is something else (RFC 4291 section 2.5.5).
fn native(address: Ipv6Addr) -> Result<Ipv6Addr, Fault> {
    match address.to_ipv4_mapped() {
        None => Ok(address),
        Some(inner) => Err(Fault::new(
            format!("{address} is an IPv4 address in IPv6's notation"),
            format!("write {inner}"),
        )),
    }
}

fn not_ipv6(text: &str) -> Fault {
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
    {
        let problem = format!("`{}` has a zone id", shown(text));
        let remedy = "write the address alone: which link a link-local address is on, `port` tells";
        return Fault::new(problem, remedy);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bare.and_then(|bare| bare.parse::<Ipv6Addr>().ok()) {
        let problem = format!("`{}` stands in brackets", shown(text));
        return Fault::new(
            problem,
            format!("write \"{address}\": brackets are for an address with a port"),
        );
    }
    let remedy =
        "write up to eight groups of hexadecimal digits, such as 2001:db8::11; names are not looked up";
    Fault::new(format!("`{}` is not an IPv6 address", shown(text)), remedy)
}

fn not_ipv4(text: &str) -> Fault {
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
            return Fault::new(problem, format!("write {address}"));
        }
    }
    let remedy =
        "write four numbers from 0 to 255, such as 10.0.0.11, or an IPv6 address; names are not looked up";
    Fault::new(format!("`{}` is not an IP address", shown(text)), remedy)
}

/// The address of one host, wherever it is.
pub(crate) fn address(text: &str) -> Result<IpAddr, Fault> {
    let address = neighbour(text)?;
    beyond_link(address)?;
    Ok(address)
}

fn beyond_link(address: IpAddr) -> Result<(), Fault> {
    if is_link_local(address) {
        let problem = format!("{address} is a link-local address, and does not tell on which link");
        return Err(Fault::new(problem, "write a global or unique local address"));
    }
    Ok(())
}

/// The address of one host on a port's link.
pub(crate) fn neighbour(text: &str) -> Result<IpAddr, Fault> {
    let address = any_address(text)?;
    host(address)?;
    Ok(address)
}

/// Whether it means another host on each link (RFC 4291 section 2.5.6). IPv4's are routed like any other here.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The address of a server, which has its port elsewhere.
pub(crate) fn server_address(text: &str) -> Result<IpAddr, Fault> {
    if let Ok(end) = text.parse::<std::net::SocketAddr>() {
        let problem = format!("`{}` has the port in it", shown(text));
        let (address, port) = (end.ip(), end.port());
        return Err(Fault::new(
            problem,
            format!("write `address: {address}, port: {port}`"),
        ));
    }
    address(text)
}

/// Refuses an address that no host on a network has (RFC 6890).
fn host(address: IpAddr) -> Result<(), Fault> {
    let kind = match address {
        IpAddr::V4(address) => special4(address),
        IpAddr::V6(address) => special6(address),
    };
    let Some(kind) = kind else { return Ok(()) };
    Err(Fault::new(
        format!("{address} is {kind}"),
        "write the unicast address of a host",
    ))
}

fn special4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("an address of \"this network\" (0.0.0.0/8)"),
        [127, ..] => Some("a loopback address, and the host's own stack is not behind the gateway"),
        [224..=239, ..] => Some("a multicast address"),
        [255, 255, 255, 255] => Some("the broadcast address"),
        [240..=255, ..] => Some("a reserved address (240.0.0.0/4)"),
        _ => None,
    }
}

fn special6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("the unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => {
            Some("the loopback address, and the host's own stack is not behind the gateway")
        }
        [0, 0, 0, 0, 0, 0, ..] => Some("an IPv4-compatible address, which is out of use (RFC 4291)"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => None,
    }
}

/// The longest prefix of the address's family.
fn longest(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

/// Splits `address/length`. The examples are prefixes of both families.
fn cidr(text: &str, examples: [&str; 2]) -> Result<(IpAddr, u8), Fault> {
    let Some((address, length)) = text.split_once('/') else {
        let address = any_address(text)?;
        let usual = if address.is_ipv6() { 64 } else { 24 };
        let problem = format!("{address} has no prefix length");
        return Err(Fault::new(
            problem,
            format!("write it as {address}/{usual}, with the length of its network"),
        ));
    };
    let address = any_address(address)?;
    let longest = longest(address);
    let length = number(length, 0..=longest.into()).map_err(|_| {
        let problem = format!("`/{}` is not a prefix length", shown(length));
        let example = examples[usize::from(address.is_ipv6())];
        Fault::new(
            problem,
            format!("write a length from 0 to {longest}, such as {example}"),
        )
    })?;
    Ok((address, u8::try_from(length).unwrap_or(longest)))
}

/// A host's address with the length of its prefix, such as 10.0.0.1/24.
pub(crate) fn interface_address(text: &str) -> Result<(IpAddr, u8), Fault> {
    let (address, length) = cidr(text, ["10.0.0.1/24", "2001:db8::1/64"])?;
    if length == 0 {
        let (usual, default) = if address.is_ipv6() {
            (64, "default6")
        } else {
            (24, "default")
        };
        let remedy =
            format!("write {address}/{usual} with the length of its network, and a route `to: {default}`");
        return Err(Fault::new(
            "a prefix length of 0 makes the whole Internet a neighbour",
            remedy,
        ));
    }
    let prefix = Prefix::around(address, length);
    if !prefix.has_host(address)
        && let IpAddr::V4(network) = prefix.address()
    {
        let kind = if address == prefix.last() {
            "broadcast"
        } else {
            "network"
        };
        let problem = format!("{address} is the {kind} address of {prefix}");
        let first = Ipv4Addr::from_bits(network.to_bits() | 1);
        return Err(Fault::new(
            problem,
            format!("write an address of a host, such as {first}/{length}"),
        ));
    }
    host(address)?;
    Ok((address, length))
}

/// A prefix without host bits, or `default` and `default6`.
pub(crate) fn prefix(text: &str) -> Result<Prefix, Fault> {
    match text {
        "default" => return Ok(Prefix::DEFAULT),
        "default6" => return Ok(Prefix::DEFAULT6),
        _ => {}
    }
    let (address, length) = cidr(text, ["10.1.0.0/16", "2001:db8:1::/48"])?;
    let prefix = Prefix::around(address, length);
    if prefix.address() != address {
        let problem = format!("{address} is not the first address of a /{length}");
        return Err(Fault::new(problem, format!("write {prefix}")));
    }
    Ok(prefix)
}

/// A prefix of addresses beyond a link.
pub(crate) fn routed_prefix(text: &str) -> Result<Prefix, Fault> {
    let prefix = prefix(text)?;
    beyond_link(prefix.address())?;
    Ok(prefix)
}

/// A prefix of addresses that a host can have.
pub(crate) fn host_prefix(text: &str) -> Result<Prefix, Fault> {
    let prefix = prefix(text)?;
    for address in [prefix.address(), prefix.last()] {
        host(address)?;
        beyond_link(address)?;
    }
    Ok(prefix)
}

/// Addresses of one family: one, a range `10.0.0.200-10.0.0.203`, for IPv4 also `10.0.0.200-203`, or a prefix, all of
/// which counts.
pub(crate) fn address_range(text: &str, place: Place) -> Result<AddressRange, Fault> {
    if text.contains('/') {
        let prefix = host_prefix(text)?;
        return Ok(AddressRange {
            first: prefix.address(),
            last: prefix.last(),
            place,
        });
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
    let last = match (first, last.trim()) {
        (IpAddr::V4(first), last) => match last.parse::<u8>() {
            Ok(octet) => Ipv4Addr::from_bits(first.to_bits() & !0xff | u32::from(octet)).into(),
            Err(_) => address(last)?,
        },
        (IpAddr::V6(first), last) if !last.contains(':') => {
            let problem = format!("`{}` does not end a range that starts at {first}", shown(last));
            return Err(Fault::new(
                problem,
                "write the last address as a whole: only IPv4's may be short",
            ));
        }
        (IpAddr::V6(_), last) => address(last)?,
    };
    if first.is_ipv6() != last.is_ipv6() {
        let problem = format!("the range starts at {first}, and ends at {last} in the other family");
        return Err(Fault::new(problem, "write a range for each family"));
    }
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
