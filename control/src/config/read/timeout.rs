//! The `timeouts` sections: seconds in the file, ticks from here on.

use std::ops::RangeInclusive;

use dataplane::flow::{SctpState, TcpState, Timeouts};
use dataplane::time::seconds;

use super::field::{Field, Fields};
use super::value;
use crate::config::report::Report;
use crate::config::schema::{self, Section};

/// Up to 31 days: longer lives are not worth a table entry, and the data plane counts ticks in 31 bits.
pub(crate) const SECONDS: RangeInclusive<u64> = 1..=2_678_400;

const TCP: [(&str, TcpState); 10] = [
    ("established", TcpState::Established),
    ("syn_sent", TcpState::SynSent),
    ("syn_recv", TcpState::SynRecv),
    ("fin_wait", TcpState::FinWait),
    ("time_wait", TcpState::TimeWait),
    ("close", TcpState::Close),
    ("close_wait", TcpState::CloseWait),
    ("last_ack", TcpState::LastAck),
    ("listen", TcpState::Listen),
    ("synack", TcpState::SynAck),
];

const SCTP: [(&str, SctpState); 13] = [
    ("established", SctpState::Established),
    ("init1", SctpState::Init1),
    ("init", SctpState::Init),
    ("cookie_sent", SctpState::CookieSent),
    ("cookie_replied", SctpState::CookieReplied),
    ("cookie_wait", SctpState::CookieWait),
    ("cookie", SctpState::Cookie),
    ("cookie_echoed", SctpState::CookieEchoed),
    ("shutdown_sent", SctpState::ShutdownSent),
    ("shutdown_received", SctpState::ShutdownReceived),
    ("shutdown_ack_sent", SctpState::ShutdownAckSent),
    ("rejected", SctpState::Rejected),
    ("closed", SctpState::Closed),
];

/// Where timeouts stand, and what holds for those that are not named.
pub(crate) struct Sections<'u> {
    all: &'static Section,
    tcp: &'static Section,
    sctp: &'static Section,
    usual: &'u Timeouts,
}

/// The `timeouts` of the file, over LVS's.
pub(crate) fn file_timeouts(usual: &Timeouts) -> Sections<'_> {
    Sections {
        all: &schema::TIMEOUTS,
        tcp: &schema::TCP_TIMEOUTS,
        sctp: &schema::SCTP_TIMEOUTS,
        usual,
    }
}

/// The `timeouts` of a service, over those of the file.
pub(crate) fn service_timeouts(usual: &Timeouts) -> Sections<'_> {
    Sections {
        all: &schema::SERVICE_TIMEOUTS,
        tcp: &schema::SERVICE_TCP_TIMEOUTS,
        sctp: &schema::SERVICE_SCTP_TIMEOUTS,
        usual,
    }
}

/// A `timeouts` section.
pub(crate) fn timeouts(field: Option<Field<'_>>, sections: &Sections<'_>, report: &mut Report) -> Timeouts {
    let fields = Fields::open_optional(field, sections.all, report);
    let mut timeouts = *sections.usual;
    let tcp = TCP.map(|(key, state)| (key, state as usize));
    let sctp = SCTP.map(|(key, state)| (key, state as usize));
    states(fields.get("tcp"), sections.tcp, &tcp, &mut timeouts.tcp, report);
    states(
        fields.get("sctp"),
        sections.sctp,
        &sctp,
        &mut timeouts.sctp,
        report,
    );
    timeouts.udp = ticks(&fields, "udp", timeouts.udp, report);
    // Services have no echo.
    if sections.all.keys.contains(&"icmp") {
        timeouts.icmp = ticks(&fields, "icmp", timeouts.icmp, report);
    }
    timeouts
}

/// The timeouts of a protocol by state: what the file names replaces what is there.
fn states(
    field: Option<Field<'_>>,
    section: &'static Section,
    keys: &[(&'static str, usize)],
    timeouts: &mut [u32],
    report: &mut Report,
) {
    let fields = Fields::open_optional(field, section, report);
    for (key, state) in keys {
        timeouts[*state] = ticks(&fields, key, timeouts[*state], report);
    }
}

fn ticks(fields: &Fields<'_>, key: &'static str, usual: u32, report: &mut Report) -> u32 {
    let Some(field) = fields.get(key) else {
        return usual;
    };
    let expected = "a time such as 900, 90s, 15m, 2h or 1d";
    let written = field.value(expected, report, |text| value::duration(text, SECONDS));
    written.map_or(usual, |at| seconds(u32::try_from(at.value).unwrap_or(u32::MAX)))
}
