//! The section `vips`: VIPs that are there without services too, and what single ones do otherwise than `settings`
//! says.

use std::net::IpAddr;

use dataplane::service::{NoServer, NoService, VipPolicy};

use super::At;
use super::address;
use super::field::{Field, Fields};
use super::network::{OWNERS, announce};
use super::typed::{optional_word, word};
use crate::config::Place;
use crate::config::report::Report;
use crate::config::schema;
use crate::config::types::Owner;

/// What a packet to a port without a service gets.
pub(crate) const NO_SERVICE: [(&str, NoService); 2] =
    [("reject", NoService::Reject), ("drop", NoService::Drop)];
/// What a packet to a server towards which no local port is left gets.
pub(crate) const NO_LOCAL_PORT: [(&str, NoServer); 3] = [
    ("drop", NoServer::Drop),
    ("reset", NoServer::Reset),
    ("icmp", NoServer::Icmp),
];
/// What a packet to a service without a usable server gets.
pub(crate) const NO_SERVER: [(&str, NoServer); 3] = [
    ("icmp", NoServer::Icmp),
    ("reset", NoServer::Reset),
    ("drop", NoServer::Drop),
];

/// An element of `vips` as it was written.
pub(crate) struct RawVip {
    pub(crate) address: Option<At<IpAddr>>,
    pub(crate) policy: VipPolicy,
    pub(crate) owner: Owner,
    pub(crate) announce: Option<bool>,
    pub(crate) place: Place,
}

/// An element of `vips`.
pub(crate) fn vip(field: Field<'_>, report: &mut Report) -> RawVip {
    let fields = Fields::open(field, &schema::VIP, report);
    let address = fields.required("address", "`address:` with a VIP", report);
    RawVip {
        address: address.and_then(|field| field.value("a VIP", report, address::address)),
        policy: VipPolicy {
            no_service: optional_word(&fields, "no_service", &NO_SERVICE, report),
            no_server: optional_word(&fields, "no_server", &NO_SERVER, report),
        },
        owner: word(&fields, "owner", &OWNERS, report),
        announce: announce(&fields, report),
        place: field.place(),
    }
}
