//! Options of a service that need a protocol, a forwarding mode or one another.

use dataplane::flow::Mode;
use dataplane::service::{ClientAddress, Protocol};

use super::pool::KnownServer;
use crate::config::read::At;
use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::config::types::{Listener, Service};

/// The forwarding modes that a service uses: those of its servers, or its own while it has none.
pub(crate) struct Modes(Vec<Mode>);

impl Modes {
    /// Those of one service, or of all queues of one.
    pub(crate) fn of<'s>(services: impl Iterator<Item = (&'s Service, &'s [KnownServer])>) -> Modes {
        let mut modes = Vec::new();
        for (service, servers) in services {
            let used = servers.iter().map(|known| service.mode_of(&known.server));
            let own = Some(service.mode).filter(|_| servers.is_empty());
            for mode in used.chain(own) {
                if !modes.contains(&mode) {
                    modes.push(mode);
                }
            }
        }
        Modes(modes)
    }

    pub(crate) fn has(&self, mode: Mode) -> bool {
        self.0.contains(&mode)
    }

    /// The first mode that is another.
    fn other_than(&self, mode: Mode) -> Option<Mode> {
        self.0.iter().copied().find(|other| *other != mode)
    }
}

/// Checks the options of the service that stands at `path`.
pub(crate) fn check(raw: &RawService, modes: &Modes, path: &str, report: &mut Report) {
    one_packet(raw, modes, path, report);
    translate_replies(raw, modes, path, report);
    hairpin_snat(raw, modes, path, report);
    mss_clamp(raw, path, report);
    client_address(raw, modes, path, report);
    if let Some(at) = raw.tunnel.filter(|_| !modes.has(Mode::Tun)) {
        let fault = Fault::new("not used: no server of this service is `tun`", "remove the key");
        report.warn(at.place, format!("{path}.tunnel"), fault);
    }
}

/// The first listener of another protocol.
fn other_than(raw: &RawService, protocol: Protocol) -> Option<&Listener> {
    let mut listeners = raw.listeners.iter().map(|(_, listener)| listener);
    listeners.find(|listener| listener.key.protocol() != Some(protocol))
}

/// The name of a listener's protocol, as people write it.
fn protocol_of(listener: &Listener) -> String {
    let protocol = listener.key.protocol();
    protocol.map_or_else(String::new, |protocol| protocol.name().to_uppercase())
}

pub(super) fn set(flag: Option<At<bool>>) -> Option<At<bool>> {
    flag.filter(|at| at.value)
}

/// One-packet scheduling is for datagrams.
fn one_packet(raw: &RawService, modes: &Modes, path: &str, report: &mut Report) {
    let Some(at) = set(raw.one_packet) else { return };
    let path = format!("{path}.one_packet");
    if let Some(listener) = other_than(raw, Protocol::Udp) {
        let protocol = protocol_of(listener);
        let problem = format!("one-packet scheduling is for UDP only, and {listener} is {protocol}");
        let remedy = "remove `one_packet`, or put the UDP listeners into a service of their own";
        report.error(at.place, &path, Fault::new(problem, remedy));
    }
    if modes.has(Mode::Fullnat) {
        let problem = "`one_packet` with `fullnat` comes with a later release";
        let remedy = "remove `one_packet`, or use `mode: nat`, `dr` or `tun`";
        report.error(at.place, path, Fault::new(problem, remedy));
    }
}

fn translate_replies(raw: &RawService, modes: &Modes, path: &str, report: &mut Report) {
    let Some(at) = set(raw.translate_replies) else {
        return;
    };
    let path = format!("{path}.translate_replies");
    if set(raw.one_packet).is_none() {
        let problem =
            "`translate_replies` without `one_packet`: the answers of a connection are always translated";
        let fault = Fault::new(problem, "remove it, or write `one_packet: true`");
        report.error(at.place, path, fault);
    } else if raw.mark.is_some() {
        let problem = "`translate_replies` with `mark`: an answer does not tell which VIP was asked";
        report.error(
            at.place,
            path,
            Fault::new(problem, "remove it, or listen on a VIP"),
        );
    } else if !modes.has(Mode::Nat) {
        let problem = "`translate_replies` without a `nat` server: no other answer passes the gateway";
        report.error(
            at.place,
            path,
            Fault::new(problem, "remove it, or use `mode: nat`"),
        );
    }
}

fn hairpin_snat(raw: &RawService, modes: &Modes, path: &str, report: &mut Report) {
    let Some(at) = set(raw.hairpin_snat) else { return };
    let path = format!("{path}.hairpin_snat");
    if !modes.has(Mode::Nat) {
        let problem = "`hairpin_snat` without a `nat` server";
        report.error(
            at.place,
            &path,
            Fault::new(problem, "remove it, or use `mode: nat`"),
        );
    }
    if set(raw.one_packet).is_some() {
        let problem = "`hairpin_snat` with `one_packet`: there is no connection to hold a local port";
        report.error(at.place, path, Fault::new(problem, "remove one of them"));
    }
}

fn mss_clamp(raw: &RawService, path: &str, report: &mut Report) {
    let Some((at, listener)) = raw.mss_clamp.zip(other_than(raw, Protocol::Tcp)) else {
        return;
    };
    let protocol = protocol_of(listener);
    let problem = format!("only TCP has an MSS, and {listener} is {protocol}");
    let remedy = "remove `mss_clamp`, or put the TCP listeners into a service of their own";
    report.error(at.place, format!("{path}.mss_clamp"), Fault::new(problem, remedy));
}

/// FULLNAT servers are told of the client; those of every other mode see it as it is.
fn client_address(raw: &RawService, modes: &Modes, path: &str, report: &mut Report) {
    let Some(at) = raw.client_address else { return };
    let path = format!("{path}.client_address");
    match at.value {
        ClientAddress::None => {}
        ClientAddress::Toa => toa(raw, modes, at, &path, report),
        ClientAddress::ProxyV2 => proxy_v2(raw, modes, at, &path, report),
    }
}

/// TOA is an option of TCP, which servers that do not know it skip.
fn toa(raw: &RawService, modes: &Modes, at: At<ClientAddress>, path: &str, report: &mut Report) {
    let name = at.value.name();
    if let Some(listener) = other_than(raw, Protocol::Tcp) {
        let protocol = protocol_of(listener);
        let problem = format!("`{name}` is an option of TCP, and {listener} is {protocol}");
        let remedy = "remove `client_address`, or put the TCP listeners into a service of their own";
        report.error(at.place, path, Fault::new(problem, remedy));
    }
    if !modes.has(Mode::Fullnat) {
        let problem = format!("`{name}` without a `fullnat` server: all others see the client's address");
        let remedy = "remove `client_address`, or use `mode: fullnat`";
        report.error(at.place, path, Fault::new(problem, remedy));
    }
}

/// A server either expects a header or takes it for data: all servers of the service have to get it.
fn proxy_v2(raw: &RawService, modes: &Modes, at: At<ClientAddress>, path: &str, report: &mut Report) {
    let name = at.value.name();
    let mut listeners = raw.listeners.iter().map(|(_, listener)| listener);
    if let Some(listener) = listeners.find(|listener| listener.key.protocol() == Some(Protocol::Sctp)) {
        let problem = format!("`{name}` is for TCP and UDP, and {listener} is SCTP");
        let remedy = "remove `client_address`, or put the SCTP listeners into a service of their own";
        report.error(at.place, path, Fault::new(problem, remedy));
    }
    if let Some(mode) = modes.other_than(Mode::Fullnat) {
        let problem = format!(
            "`{name}` with a `{}` server: only `fullnat` servers get the header",
            mode.name()
        );
        let remedy = "remove `client_address`, or use `mode: fullnat` for all servers";
        report.error(at.place, path, Fault::new(problem, remedy));
    }
}
