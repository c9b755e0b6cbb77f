//! What the log says when local ports of SNAT run low or out. Called by the watch; the data plane knows rules by their
//! slots only, so that the names come from the model.

use crate::gateway::Gateway;
use dataplane::packet::{ipv4, ipv6};
use dataplane::service::Protocol;
use dataplane::worker::Event;
use std::net::{IpAddr, SocketAddr};

/// How an event of SNAT reads, and whether no port is left; none for other events.
pub(super) fn words(event: &Event, name: impl Fn(u32) -> String) -> Option<(bool, String)> {
    match *event {
        Event::SnatPortsExhausted {
            rule,
            destination,
            destination_port,
            protocol,
        } => Some((
            true,
            format!(
                "no local port is left for {} to {}: new connections are dropped; give the rule more local_addresses",
                name(rule),
                end(destination, destination_port, protocol)
            ),
        )),
        Event::SnatPortsLow {
            rule,
            destination,
            destination_port,
            protocol,
            pressure,
            used,
            capacity,
        } => Some((
            false,
            format!(
                "local ports run low: {} % or more of those for {} towards {} are in use, {used} of {capacity}; with \
                 none left new connections are dropped: give the rule more local_addresses",
                pressure.percent(),
                name(rule),
                end(destination, destination_port, protocol)
            ),
        )),
        _ => None,
    }
}

/// What the rule in that slot is called. It may have been removed since the worker spoke.
pub(super) fn name(gateway: &Gateway, slot: u32) -> String {
    let state = gateway.state();
    let mut rules = state.model.snat();
    let found = rules.find(|(_, rule)| rule.slot == slot);
    found.map_or_else(
        || "an SNAT rule that is gone".to_owned(),
        |(name, _)| format!("the SNAT rule `{name}`"),
    )
}

fn end(address: IpAddr, port: u16, protocol: u8) -> String {
    match Protocol::from_number(protocol) {
        Some(protocol) => format!("{}/{}", SocketAddr::new(address, port), protocol.name()),
        None if matches!(protocol, ipv4::ICMP | ipv6::ICMP) => format!("{address} (echo)"),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::local::Pressure;

    #[test]
    fn the_rule_and_the_destination_are_named() {
        let rule = |slot| format!("the SNAT rule `r{slot}`");
        let event = Event::SnatPortsExhausted {
            rule: 7,
            destination: [192, 0, 2, 1].into(),
            destination_port: 443,
            protocol: 6,
        };
        let (none_left, text) = words(&event, rule).unwrap();
        assert!(none_left && text.contains("`r7` to 192.0.2.1:443/tcp"), "{text}");
        let event = Event::SnatPortsLow {
            rule: 8,
            destination: [192, 0, 2, 1].into(),
            destination_port: 0,
            protocol: 1,
            pressure: Pressure::High,
            used: 80,
            capacity: 100,
        };
        let (none_left, text) = words(&event, rule).unwrap();
        assert!(
            !none_left && text.contains("`r8` towards 192.0.2.1 (echo)"),
            "{text}"
        );
        assert!(text.contains("80 %") && text.contains("80 of 100"), "{text}");
        assert_eq!(words(&Event::TableFull, rule), None);
    }
}
