//! The mapping `tunnel` of services and servers: how a TUN server's packets are wrapped.

use dataplane::service::{Tunnel, TunnelChecksum, TunnelKind};

use super::field::{Field, Fields};
use super::typed::placed_number;
use super::{At, value};
use crate::config::report::{Fault, Report};
use crate::config::schema::Section;

/// The UDP port that IANA has given to GUE.
const GUE_PORT: u16 = 6080;

/// The encapsulations by name, before the port of GUE is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Ipip,
    Gue,
    Gre,
}

const TYPES: [(&str, Type); 3] = [("ipip", Type::Ipip), ("gue", Type::Gue), ("gre", Type::Gre)];
const CHECKSUMS: [(&str, TunnelChecksum); 3] = [
    ("none", TunnelChecksum::None),
    ("outer", TunnelChecksum::Outer),
    ("remote", TunnelChecksum::Remote),
];

/// A `tunnel`; none when it could not be read.
pub(crate) fn tunnel(field: Field<'_>, section: &'static Section, report: &mut Report) -> Option<At<Tunnel>> {
    let fields = Fields::open(field, section, report);
    let kind = fields.required("type", "`type: ipip`, `type: gue` or `type: gre`", report);
    let kind = kind.and_then(|field| {
        field.value("`ipip`, `gue` or `gre`", report, |text| {
            value::choice(text, &TYPES)
        })
    });
    let port: Option<At<u16>> = placed_number(&fields, "port", 1..=65_535, report);
    let checksum = fields.get("checksum").and_then(|field| {
        field.value("`none`, `outer` or `remote`", report, |text| {
            value::choice(text, &CHECKSUMS)
        })
    });
    let kind = kind?.value;
    if let Some(field) = fields.get("port").filter(|_| kind != Type::Gue) {
        let fault = Fault::new(
            "only a `gue` tunnel has a port: the others are IP protocols of their own",
            "remove `port`, or write `type: gue`",
        );
        field.error(fault, report);
    }
    let checksum = checksum.map_or(TunnelChecksum::None, |at| at.value);
    let remedy = match (kind, checksum) {
        (Type::Ipip, TunnelChecksum::Outer | TunnelChecksum::Remote) => {
            Some("remove `checksum`, or write `type: gue` or `type: gre`")
        }
        (Type::Gre, TunnelChecksum::Remote) => Some("write `checksum: outer`, or `type: gue`"),
        _ => None,
    };
    if let (Some(remedy), Some(field)) = (remedy, fields.get("checksum")) {
        let problem = match kind {
            Type::Ipip => "an `ipip` tunnel has no checksum",
            Type::Gue | Type::Gre => "remote checksums are a part of `gue` only",
        };
        field.error(Fault::new(problem, remedy), report);
    }
    let kind = match kind {
        Type::Ipip => TunnelKind::Ipip,
        Type::Gue => TunnelKind::Gue {
            port: port.map_or(GUE_PORT, |at| at.value),
        },
        Type::Gre => TunnelKind::Gre,
    };
    let (value, place) = (Tunnel { kind, checksum }, field.place());
    Some(At { value, place })
}
