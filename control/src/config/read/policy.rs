//! How connections of a service live, end and are limited: `timeouts`, `on_remove`, `drain_deadline`, `on_idle`,
//! `expire_quiescent`, `limits`, `slow_start` and `bound` of `services[]`.

use std::ops::RangeInclusive;

use dataplane::flow::Timeouts;
use dataplane::service::{Limits, OnRemove, Policy};
use dataplane::time::seconds;

use super::field::{Field, Fields};
use super::timeout::{self, SECONDS, service_timeouts};
use super::typed::{placed_number, word};
use super::{At, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::yaml::shown;

/// As many as there can be connections.
const CONNECTIONS: RangeInclusive<u64> = 1..=0x7fff_ffff;
/// New connections in a second.
const RATE: RangeInclusive<u64> = 1..=1_000_000_000;

const ON_REMOVE: [(&str, OnRemove); 4] = [
    ("keep", OnRemove::Keep),
    ("drain", OnRemove::Drain),
    ("reset", OnRemove::Reset),
    ("reschedule", OnRemove::Reschedule),
];
/// Whether both ends are told of an idle connection's end.
const ON_IDLE: [(&str, bool); 2] = [("end", false), ("reset", true)];

/// What a service says, with the places of what needs something else.
pub(crate) struct RawPolicy {
    pub(crate) policy: Policy,
    /// The whole set, where the service has any of its own.
    pub(crate) timeouts: Option<Timeouts>,
    pub(crate) drain_deadline: Option<Place>,
    pub(crate) reset_idle: Option<Place>,
    pub(crate) expire_quiescent: Option<Place>,
    /// Limits of what only connections can be counted for, by their key.
    pub(crate) counted: Vec<(&'static str, Place)>,
    pub(crate) slow_start: Option<Place>,
    pub(crate) bound: Option<Place>,
}

/// Reads the keys of a service. `usual` are the timeouts of the file.
pub(crate) fn policy(fields: &Fields<'_>, usual: &Timeouts, report: &mut Report) -> RawPolicy {
    let deadline: Option<At<u32>> = placed_number(fields, "drain_deadline", SECONDS, report);
    let on_idle = fields
        .get("on_idle")
        .and_then(|field| field.value("`end` or `reset`", report, |text| value::choice(text, &ON_IDLE)));
    let quiescent = fields
        .get("expire_quiescent")
        .and_then(|field| field.value("`true` or `false`", report, value::flag));
    let place_of = |flag: Option<At<bool>>| flag.filter(|at| at.value).map(|at| at.place);
    let slow_start: Option<At<u32>> = placed_number(fields, "slow_start", 1..=3600, report);
    let bound = fields
        .get("bound")
        .and_then(|field| field.value("a number such as 1.25", report, percent));
    let (limits, counted) = limits(fields.get("limits"), report);
    RawPolicy {
        policy: Policy {
            on_remove: word(fields, "on_remove", &ON_REMOVE, report),
            drain_deadline: deadline.map_or(0, |at| seconds(at.value)),
            reset_idle: on_idle.is_some_and(|at| at.value),
            expire_quiescent: quiescent.is_some_and(|at| at.value),
            limits,
            slow_start: slow_start.map_or(0, |at| seconds(at.value)),
            bound: bound.map_or(0, |at| at.value),
        },
        timeouts: fields
            .get("timeouts")
            .map(|field| timeout::timeouts(Some(field), &service_timeouts(usual), report)),
        drain_deadline: deadline.map(|at| at.place),
        reset_idle: place_of(on_idle),
        expire_quiescent: place_of(quiescent),
        counted,
        slow_start: slow_start.map(|at| at.place),
        bound: bound.map(|at| at.place),
    }
}

/// A factor above 1, with up to two decimals, in percent.
pub(super) fn percent(text: &str) -> Result<u32, Fault> {
    let fault = || {
        Fault::new(
            format!("`{}` is not a bound", shown(text)),
            "write a number from 1.01 to 100 with up to two decimals, such as 1.25",
        )
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || whole.len() > 3 || decimals.len() > 2 {
        return Err(fault());
    }
    let hundredths: u32 = format!("{whole}{decimals:0<2}").parse().map_err(|_| fault())?;
    (101..=10_000)
        .contains(&hundredths)
        .then_some(hundredths)
        .ok_or_else(fault)
}

fn limits(field: Option<Field<'_>>, report: &mut Report) -> (Limits, Vec<(&'static str, Place)>) {
    let fields = Fields::open_optional(field, &schema::SERVICE_LIMITS, report);
    let mut counted = Vec::new();
    let mut limit = |key, range, needs_connections: bool| {
        let at: Option<At<u32>> = placed_number(&fields, key, range, report);
        if let Some(at) = at.filter(|_| needs_connections) {
            counted.push((key, at.place));
        }
        at.map_or(0, |at| at.value)
    };
    let limits = Limits {
        connections: limit("connections", CONNECTIONS, true),
        rate: limit("rate", RATE, false),
        client_connections: limit("client_connections", CONNECTIONS, true),
        client_rate: limit("client_rate", RATE, true),
    };
    (limits, counted)
}
