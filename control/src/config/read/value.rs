//! What the text of a scalar means: numbers, words, ports, listeners. Each function is total: any text gives a value or
//! a fault with a remedy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use dataplane::flow::Mode;
use dataplane::service::{ClientAddress, Protocol, ServiceKey};

use super::address::address;
use crate::config::Place;
use crate::config::report::Fault;
use crate::config::suggest;
use crate::config::types::{Listener, PortRange};
use crate::config::yaml::shown;

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

/// A time in seconds: a number of them, or one with a unit, such as `90s`, `15m`, `2h` or `1d`.
pub(crate) fn duration(text: &str, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let written = UNITS.iter().find_map(|(unit, seconds)| {
        let count = text.strip_suffix(*unit)?.parse::<u32>().ok()?;
        Some(u64::from(count) * seconds)
    });
    match written {
        None => number(text, range.clone()).map_err(|fault| {
            let (low, high) = (range.start(), range.end());
            let remedy = format!("write {low} to {high} seconds, such as 900, 90s, 15m, 2h or 1d");
            Fault::new(fault.problem, remedy)
        }),
        Some(seconds) if range.contains(&seconds) => Ok(seconds),
        Some(seconds) => {
            let (low, high) = (range.start(), range.end());
            let problem = format!("`{}` is {seconds} seconds, which is out of range", shown(text));
            Err(Fault::new(problem, format!("write {low} to {high} seconds")))
        }
    }
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
                || format!("write {}", listed(names())),
                |nearest| format!("did you mean `{nearest}`?"),
            );
            Fault::new(format!("`{}` is not known here", shown(text)), remedy)
        })
}

/// Words to choose from: "`a`, `b` or `c`".
pub(crate) fn listed<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
        None => String::new(),
    }
}

/// A forwarding mode.
pub(crate) fn mode(text: &str) -> Result<Mode, Fault> {
    choice(
        text,
        &[
            ("nat", Mode::Nat),
            ("dr", Mode::Dr),
            ("tun", Mode::Tun),
            ("fullnat", Mode::Fullnat),
        ],
    )
}

/// How servers learn the client's address.
pub(crate) fn client_address(text: &str) -> Result<ClientAddress, Fault> {
    let known = [ClientAddress::None, ClientAddress::Toa, ClientAddress::ProxyV2];
    choice(text, &known.map(|known| (known.name(), known)))
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

/// An L4 port, host order.
pub(crate) fn l4_port(text: &str) -> Result<u16, Fault> {
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

/// Where a service listens: `203.0.113.100:80/tcp` or `[2001:db8::1]:80/tcp`.
pub(crate) fn listener(text: &str, place: Place) -> Result<Listener, Fault> {
    let (endpoint, protocol) = match text.rsplit_once('/') {
        Some((endpoint, protocol)) => (endpoint, Some(protocol)),
        None => (text, None),
    };
    let (host, port) = split_port(endpoint, protocol)?;
    let address = address(host)?;
    let port = match port {
        // All ports; whether the service can have them depends on more than this.
        "0" => 0,
        _ => l4_port(port)?,
    };
    let end = SocketAddr::new(address, port);
    let protocol = match protocol {
        Some("tcp") => Protocol::Tcp,
        Some("udp") => Protocol::Udp,
        Some("sctp") => Protocol::Sctp,
        other => {
            let problem = match other {
                Some(other) => format!("`{}` is not a protocol", shown(other)),
                None => format!("`{}` names no protocol", shown(text)),
            };
            return Err(Fault::new(
                problem,
                format!("write {end}/tcp, {end}/udp or {end}/sctp"),
            ));
        }
    };
    Ok(Listener {
        key: ServiceKey::new(address, port, protocol),
        place,
    })
}

/// Where a service with queues listens, each of which has its port: `203.0.113.100/tcp` or `2001:db8::1/tcp`.
pub(crate) fn queues_vip(text: &str) -> Result<(IpAddr, Protocol), Fault> {
    let Some((host, protocol)) = text.rsplit_once('/') else {
        let problem = format!("`{}` names no protocol", shown(text));
        return Err(Fault::new(problem, format!("write {}/tcp, say", shown(text))));
    };
    if let Ok((host, port)) = split_port(host, Some(protocol)) {
        let problem = format!(
            "`{}` names port {}, and with `mq` each queue has its own",
            shown(text),
            shown(port)
        );
        let remedy = format!("write {}/{}", shown(host), shown(protocol));
        return Err(Fault::new(problem, remedy));
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let address = address(bare.unwrap_or(host))?;
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let known = protocols.into_iter().find(|known| known.name() == protocol);
    let known = known.ok_or_else(|| {
        let problem = format!("`{}` is not a protocol", shown(protocol));
        Fault::new(
            problem,
            format!("write {address}/tcp, {address}/udp or {address}/sctp"),
        )
    })?;
    Ok((address, known))
}

/// Splits `address:port`, where an IPv6 address stands in brackets, which go. `protocol` is what stands behind it.
fn split_port<'t>(endpoint: &'t str, protocol: Option<&str>) -> Result<(&'t str, &'t str), Fault> {
    let protocol = protocol.unwrap_or("tcp");
    let whole = endpoint.parse::<Ipv6Addr>().is_ok();
    let split = match endpoint.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once("]:"),
        None => endpoint.rsplit_once(':').filter(|_| !whole),
    };
    let Some((host, port)) = split else {
        return Err(no_port(endpoint, protocol));
    };
    if host.is_empty() {
        let problem = format!("`{}` has no address", shown(endpoint));
        let remedy = format!(
            "write the VIP before it, such as 203.0.113.100:{}/{protocol}",
            shown(port)
        );
        return Err(Fault::new(problem, remedy));
    }
    let (bracketed, ipv6) = (endpoint.starts_with('['), host.parse::<Ipv6Addr>().is_ok());
    if bracketed && host.parse::<Ipv4Addr>().is_ok() {
        let problem = format!("`{}` has an IPv4 address in brackets", shown(endpoint));
        let remedy = format!("write {host}:{}/{protocol}", shown(port));
        return Err(Fault::new(problem, remedy));
    }
    // Without brackets it cannot be told which group is the last.
    if ipv6 && !bracketed {
        let problem = format!("`{}` has an IPv6 address without brackets", shown(endpoint));
        let remedy = format!("write \"[{host}]:{}/{protocol}\"", shown(port));
        return Err(Fault::new(problem, remedy));
    }
    Ok((host, port))
}

/// What is wrong with an endpoint that has no port.
fn no_port(endpoint: &str, protocol: &str) -> Fault {
    if endpoint.starts_with('[') && !endpoint.contains(']') {
        let problem = format!("`{}` has no closing bracket", shown(endpoint));
        let remedy = format!("write it as \"[2001:db8::1]:80/{protocol}\", in quotes");
        return Fault::new(problem, remedy);
    }
    let bare = endpoint.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match address(bare.unwrap_or(endpoint)) {
        Ok(address @ IpAddr::V4(_)) => Fault::new(
            format!("`{}` has no port", shown(endpoint)),
            format!("write it as {address}:80/{protocol}"),
        ),
        Ok(address @ IpAddr::V6(_)) => Fault::new(
            format!(
                "`{}` has no port that can be told from the address",
                shown(endpoint)
            ),
            format!("write the address in brackets, in quotes: \"[{address}]:80/{protocol}\""),
        ),
        Err(fault) => fault,
    }
}
