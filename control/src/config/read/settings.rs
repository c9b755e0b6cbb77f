//! The sections that hold for all services, and for how the gateway is watched: API, metrics, settings.

use std::net::SocketAddr;
use std::path::PathBuf;

use dataplane::service::Settings;
use dataplane::time::{TICKS_PER_SECOND, seconds};

use super::address;
use super::field::{Field, Fields};
use super::timeout::{file_timeouts, timeouts};
use super::typed::{account, flag, number, optional_word, path, word};
use super::vip::{NO_LOCAL_PORT, NO_SERVER, NO_SERVICE};
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{Api, Metrics, Prefix};
use crate::config::yaml::shown;

/// The `api` section.
pub(crate) fn api(field: Option<Field<'_>>, report: &mut Report) -> Api {
    let fields = Fields::open_optional(field, &schema::API, report);
    // The kernel's sun_path has 108 bytes with the zero at its end.
    let socket = fields
        .get("socket")
        .and_then(|field| field.value("a path", report, |text| path(text, 107)));
    let octal = |text: &str| {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let mode = u32::from_str_radix(digits, 8)
            .ok()
            .filter(|mode| *mode <= 0o777 && !digits.starts_with('+'));
        mode.ok_or_else(|| {
            Fault::new(
                format!("`{}` is not a file mode", shown(text)),
                "write three octal digits, such as 0660",
            )
        })
    };
    let mode = fields
        .get("mode")
        .and_then(|field| field.value("a file mode such as 0660", report, octal));
    if let (Some(mode), Some(field)) = (mode, fields.get("mode"))
        && mode.value & 0o002 != 0
    {
        let problem = "every user of this host may change the gateway";
        field.warn(
            Fault::new(problem, "write 0660, and name a `group` for those who may"),
            report,
        );
    }
    Api {
        socket: socket.map_or_else(|| PathBuf::from("/run/tidegate/api.sock"), |at| at.value),
        mode: mode.map_or(0o660, |at| at.value),
        group: account(&fields, "group", "the name of a group", report),
        place: fields.place(),
    }
}

/// The `metrics` section.
pub(crate) fn metrics(field: Option<Field<'_>>, report: &mut Report) -> Metrics {
    let fields = Fields::open_optional(field, &schema::METRICS, report);
    let parse = |text: &str| match text {
        "off" => Ok(None),
        _ => text
            .parse::<SocketAddr>()
            .ok()
            .filter(|listen| listen.port() != 0)
            .map(Some)
            .ok_or_else(|| {
                let problem = format!("`{}` is not an address and port of this host", shown(text));
                Fault::new(problem, "write it as 127.0.0.1:9101, or `off`")
            }),
    };
    let listen = fields
        .get("listen")
        .and_then(|field| field.value("an address and port, or `off`", report, parse));
    Metrics {
        listen: listen.map_or_else(|| Some(SocketAddr::from(([127, 0, 0, 1], 9101))), |at| at.value),
        place: fields.place(),
    }
}

/// The `timeouts` and `settings` sections.
pub(crate) fn settings(
    timeouts_field: Option<Field<'_>>,
    field: Option<Field<'_>>,
    report: &mut Report,
) -> Settings {
    let usual = Settings::default();
    let timeouts = timeouts(timeouts_field, &file_timeouts(&usual.timeouts), report);
    let fields = Fields::open_optional(field, &schema::SETTINGS, report);
    let [tunnel_source, tunnel_source6] = tunnel_sources(fields.get("tunnel_source"), report);
    let wait = usual.fragment_timeout / TICKS_PER_SECOND;
    Settings {
        timeouts,
        sloppy_tcp: flag(&fields, "sloppy_tcp", usual.sloppy_tcp, report),
        sloppy_sctp: flag(&fields, "sloppy_sctp", usual.sloppy_sctp, report),
        conn_reuse_mode: number(&fields, "conn_reuse_mode", 0..=3, usual.conn_reuse_mode, report),
        expire_nodest_conn: flag(&fields, "expire_nodest_conn", usual.expire_nodest_conn, report),
        expire_quiescent_template: flag(
            &fields,
            "expire_quiescent_template",
            usual.expire_quiescent_template,
            report,
        ),
        secure_tcp: secure_tcp(&fields, report),
        embryonic_limit: number(&fields, "embryonic_limit", 1..=100, usual.embryonic_limit, report),
        no_service: word(&fields, "no_service", &NO_SERVICE, report),
        no_server: word(&fields, "no_server", &NO_SERVER, report),
        no_local_port: optional_word(&fields, "no_local_port", &NO_LOCAL_PORT, report)
            .unwrap_or(usual.no_local_port),
        schedule_icmp: flag(&fields, "schedule_icmp", usual.schedule_icmp, report),
        nat_icmp_send: flag(&fields, "nat_icmp_send", usual.nat_icmp_send, report),
        pmtu_disc: flag(&fields, "pmtu_disc", usual.pmtu_disc, report),
        transit: flag(&fields, "transit", usual.transit, report),
        tunnel_source,
        tunnel_source6,
        fragment_timeout: seconds(number(&fields, "fragment_timeout", 1..=120, wait, report)),
        icmp_rate: number(&fields, "icmp_rate", 0..=1_000_000, usual.icmp_rate, report),
    }
}

/// By LVS's number, or in words.
fn secure_tcp(fields: &Fields<'_>, report: &mut Report) -> u8 {
    const WORDS: [(&str, u8); 6] = [("false", 0), ("true", 3), ("0", 0), ("1", 1), ("2", 2), ("3", 3)];
    word(fields, "secure_tcp", &WORDS, report)
}

/// Where tunnels take their source addresses from: at most one prefix of each family, IPv4 first.
fn tunnel_sources(field: Option<Field<'_>>, report: &mut Report) -> [Option<Prefix>; 2] {
    let mut sources: [Option<Prefix>; 2] = [None; 2];
    let Some(field) = field else { return sources };
    let each = |field: Field<'_>, report: &mut Report| {
        let expected = "a prefix such as 10.200.0.0/24";
        let prefix = field.value(expected, report, address::host_prefix)?.value;
        let source = &mut sources[usize::from(prefix.address().is_ipv6())];
        if let Some(first) = source {
            let problem = format!("a second prefix of its family, beside {first}");
            field.error(
                Fault::new(problem, "write one of IPv4, one of IPv6, or one of each"),
                report,
            );
        }
        *source = Some(prefix);
        Some(())
    };
    if field.one_or_more(report, each).items.is_empty() {
        let fault = Fault::new(
            "an empty list",
            "write a prefix such as 10.200.0.0/24, or remove the key",
        );
        field.error(fault, report);
    }
    sources
}
