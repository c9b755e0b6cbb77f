//! Rules of SNAT.

use super::about::*;
use super::family::{Sample, Text};
use crate::gateway::ServerTotals;
use crate::view::SnatRule;

/// All of them, also those that exempt.
pub(super) fn rules(text: &mut Text, rules: &[SnatRule]) {
    let opened = rules
        .iter()
        .map(|rule| Sample([&rule.name], rule.totals.connections as f64));
    text.family(&SNAT_OPENED, opened);
    let refused = rules.iter().map(|rule| Sample([&rule.name], rule.refused as f64));
    text.family(&SNAT_REFUSED, refused);
    pair(text, &SNAT_CONNECTIONS, rules, |totals| {
        [("active", totals.active), ("inactive", totals.inactive)]
    });
    pair(text, &SNAT_PACKETS, rules, |totals| {
        [
            ("inbound", totals.inbound_packets),
            ("outbound", totals.outbound_packets),
        ]
    });
    pair(text, &SNAT_BYTES, rules, |totals| {
        [
            ("inbound", totals.inbound_bytes),
            ("outbound", totals.outbound_bytes),
        ]
    });
}

/// Two series of each rule, with the value of the second label.
fn pair(
    text: &mut Text,
    about: &About,
    rules: &[SnatRule],
    values: fn(&ServerTotals) -> [(&'static str, u64); 2],
) {
    let samples = rules.iter().flat_map(|rule| {
        let values = values(&rule.totals).into_iter();
        values.map(move |(which, value)| Sample([&*rule.name, which], value as f64))
    });
    text.family(about, samples);
}
