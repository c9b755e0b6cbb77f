//! The section `snat`: rules of SNAT.

use dataplane::flow::Timeouts;

use super::field::{Field, Fields, OneOrMore};
use super::network::own_name;
use super::service::local_addresses;
use super::timeout::{file_timeouts, timeouts};
use super::typed::{flag, number};
use super::{At, address, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{PortRange, Prefix, SnatProtocol};

/// More connections than a gateway has.
const MOST_CONNECTIONS: u64 = 0x7fff_ffff;

/// A rule as it was written.
pub(crate) struct RawSnat {
    pub(crate) name: Option<At<String>>,
    pub(crate) sources: OneOrMore<At<Prefix>>,
    pub(crate) destinations: OneOrMore<At<Prefix>>,
    pub(crate) protocols: OneOrMore<At<SnatProtocol>>,
    pub(crate) ports: OneOrMore<At<PortRange>>,
    /// Names of groups; none when the key is missing.
    pub(crate) local_addresses: Option<At<OneOrMore<At<String>>>>,
    pub(crate) timeouts: Option<At<Timeouts>>,
    pub(crate) client_limit: u32,
    pub(crate) exempt: bool,
    /// Keys of which an exempt rule has no use, as far as they are there: name and place.
    pub(crate) beside_exempt: Vec<(&'static str, Place)>,
    pub(crate) place: Place,
}

/// An element of `snat`. What its own timeouts do not name is as in `usual`.
pub(crate) fn rule(field: Field<'_>, usual: &Timeouts, report: &mut Report) -> RawSnat {
    let fields = Fields::open(field, &schema::SNAT, report);
    let name = own_name(&fields, "`name: office`, say", report);
    fields.required(
        "source",
        "`source: 10.1.0.0/16`, say: where the inside hosts are",
        report,
    );
    let own = fields.get("timeouts").map(|field| At {
        value: timeouts(Some(field), &file_timeouts(usual), report),
        place: field.place(),
    });
    let beside = ["local_addresses", "timeouts", "connections_per_client"];
    let beside = beside.map(|key| Some((key, fields.get(key)?.place())));
    RawSnat {
        name,
        sources: prefixes(&fields, "source", "write a prefix such as 10.1.0.0/16", report),
        destinations: prefixes(
            &fields,
            "destination",
            "write a prefix such as 203.0.113.0/24, or remove the key for all destinations",
            report,
        ),
        protocols: list(
            &fields,
            "protocol",
            "`tcp`, `udp`, `sctp` or `icmp`",
            "write `tcp`, `udp`, `sctp` or `icmp`, or remove the key for all of them",
            report,
            protocol,
        ),
        ports: list(
            &fields,
            "ports",
            "a port, or a range such as 8000-8100",
            "write a port such as 443, or remove the key for all ports",
            report,
            value::port_range,
        ),
        local_addresses: local_addresses(&fields, report),
        timeouts: own,
        client_limit: number(&fields, "connections_per_client", 0..=MOST_CONNECTIONS, 0, report),
        exempt: flag(&fields, "exempt", false, report),
        beside_exempt: beside.into_iter().flatten().collect(),
        place: field.place(),
    }
}

fn prefixes(
    fields: &Fields<'_>,
    key: &'static str,
    at_least: &str,
    report: &mut Report,
) -> OneOrMore<At<Prefix>> {
    list(
        fields,
        key,
        "a prefix such as 10.1.0.0/16",
        at_least,
        report,
        |text| {
            // One host may be written without its length.
            match text.parse() {
                Ok(host) => address::address(text)
                    .map(|_| Prefix::around(host, if host.is_ipv6() { 128 } else { 32 })),
                Err(_) => address::routed_prefix(text),
            }
        },
    )
}

/// What `parse` makes of the values of a list, which must not be empty when it is there.
fn list<T>(
    fields: &Fields<'_>,
    key: &'static str,
    expected: &str,
    at_least: &str,
    report: &mut Report,
    parse: impl Fn(&str) -> Result<T, Fault>,
) -> OneOrMore<At<T>> {
    let Some(field) = fields.get(key) else {
        return OneOrMore::none();
    };
    let list = field.one_or_more(report, |field, report| field.value(expected, report, &parse));
    if list.items.is_empty() {
        field.error(Fault::new("an empty list", at_least), report);
    }
    list
}

fn protocol(text: &str) -> Result<SnatProtocol, Fault> {
    if matches!(text, "icmpv6" | "icmp6") {
        let problem = format!("`{text}` is not known here");
        return Err(Fault::new(
            problem,
            "write `icmp`: in a rule for IPv6 it is that of ICMPv6",
        ));
    }
    value::choice(text, &SnatProtocol::ALL.map(|known| (known.name(), known)))
}
