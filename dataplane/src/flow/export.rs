//! A connection as the outside sees it: by addresses, never by slots, records or workers, so that it means the
//! same on another gateway, after a reload, and to a person. Listings are made of it; so will be whatever
//! else carries connections from one process to another. Made by the worker that owns the connection, between
//! bursts, never on the packet path.

use std::net::SocketAddr;

use super::addresses::Ends;
use super::record::{Flags, Mode, Record};
use super::sctp::SctpState;
use super::state::TcpState;
use super::template::Template;
use super::timeouts::Timeouts;
use crate::time::{TICKS_PER_SECOND, Tick};

/// One connection or template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The IP protocol number; 0 for the template of a firewall mark.
    pub protocol: u8,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The virtual address and port that the client asked for.
    pub virtual_address: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// FULLNAT: the gateway's own address and port that the server sees as its client.
    pub local: Option<SocketAddr>,
    /// The forwarding mode.
    pub mode: Mode,
    /// Opened by a rule of SNAT, from inside to the server itself: the virtual address is the server's.
    pub snat: bool,
    /// The state's name as in the kernel's listing: a TCP or SCTP state, or the protocol's name.
    pub state: &'static str,
    /// Whole seconds until it ends if no more packets come, rounded down.
    pub remaining: u32,
    /// Counted as inactive.
    pub inactive: bool,
    /// Not a connection, but the memory of a persistent client's server.
    pub template: bool,
}

impl Connection {
    /// The version of this description: it grows by one with every change that an older reader would
    /// misunderstand.
    pub const VERSION: u32 = 1;

    /// Describes a record between these ends. `server` is the identity of the server in its slot: only FULLNAT and
    /// NAT records hold it themselves. With SNAT the slot is a rule's, and `server` is that of `ends`.
    #[must_use]
    pub fn describe(
        record: &Record,
        ends: &Ends,
        server: SocketAddr,
        timeouts: &Timeouts,
        now: Tick,
    ) -> Connection {
        let server = match (record.has_outbound(), server.port()) {
            (true, _) => ends.server,
            // Such a server gets packets on the port that they have.
            (false, 0) => SocketAddr::new(server.ip(), ends.virtual_address.port()),
            (false, _) => server,
        };
        Connection {
            protocol: record.protocol,
            client: ends.client,
            virtual_address: ends.virtual_address,
            server,
            local: (record.mode() == Mode::Fullnat).then_some(ends.local),
            mode: record.mode(),
            snat: record.flags.has(Flags::SNAT),
            state: state_name(record),
            remaining: timeouts.deadline(record).since(now) / TICKS_PER_SECOND,
            inactive: record.flags.has(Flags::INACTIVE),
            template: false,
        }
    }

    /// Describes the record of a template. `server` is as for [`Connection::describe`].
    #[must_use]
    pub fn describe_template(
        record: &Record,
        template: &Template,
        server: SocketAddr,
        now: Tick,
    ) -> Connection {
        let [client, virtual_address, server] = template.ends(server);
        let deadline = record.last_seen().after(record.template_timeout());
        Connection {
            protocol: template.protocol,
            client,
            virtual_address,
            server,
            local: None,
            mode: record.mode(),
            snat: false,
            state: record.template_state(),
            remaining: deadline.since(now) / TICKS_PER_SECOND,
            inactive: false,
            template: true,
        }
    }

    /// The mode's name in listings: that of the forwarding mode, or `snat`.
    #[must_use]
    pub const fn mode_name(&self) -> &'static str {
        if self.snat { "snat" } else { self.mode.name() }
    }

    /// The protocol's name in listings.
    #[must_use]
    pub const fn protocol_name(&self) -> &'static str {
        protocol_name(self.protocol)
    }
}

fn state_name(record: &Record) -> &'static str {
    match record.protocol {
        6 => TcpState::from_number(record.state).name(),
        132 => SctpState::from_number(record.state).name(),
        protocol => protocol_name(protocol),
    }
}

const fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        1 => "ICMP",
        6 => "TCP",
        17 => "UDP",
        58 => "ICMPv6",
        132 => "SCTP",
        _ => "IP",
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::packet::FlowKey;

    #[test]
    fn a_fullnat_connection_shows_all_four_endpoints() {
        let [client, vip, server, local] = [1u8, 2, 3, 4].map(|n| Ipv4Addr::new(10, 0, 0, n));
        let mut record = Record::new(
            6,
            Mode::Fullnat,
            FlowKey::new(client, 1024, vip, 80),
            FlowKey::new(server, 8080, local, 2000),
        );
        record.state = TcpState::TimeWait as u8;
        record.flags.set(Flags::INACTIVE, true);
        record.stamp(Tick(100));
        let shown = Connection::describe(
            &record,
            &Ends::new(&record, None),
            SocketAddr::new(server.into(), 8080),
            &Timeouts::default(),
            Tick(101),
        );
        assert_eq!(shown.client.to_string(), "10.0.0.1:1024");
        assert_eq!(shown.virtual_address.to_string(), "10.0.0.2:80");
        assert_eq!(shown.server.to_string(), "10.0.0.3:8080");
        assert_eq!(
            shown.local.map(|l| l.to_string()).as_deref(),
            Some("10.0.0.4:2000")
        );
        assert_eq!(
            (shown.state, shown.remaining, shown.inactive),
            ("TIME_WAIT", 119, true)
        );
        assert_eq!((shown.protocol_name(), shown.template), ("TCP", false));
    }

    #[test]
    fn an_sctp_connection_has_states_of_its_own() {
        let ip = Ipv4Addr::new(10, 0, 0, 1);
        let mut record = Record::new(132, Mode::Nat, FlowKey::new(ip, 1, ip, 2), FlowKey::default());
        record.state = SctpState::CookieEchoed as u8;
        let server = SocketAddr::from((ip, 2905));
        let shown = Connection::describe(
            &record,
            &Ends::new(&record, None),
            server,
            &Timeouts::default(),
            Tick(100),
        );
        assert_eq!(
            (shown.protocol_name(), shown.state, shown.remaining),
            ("SCTP", "C-ECHOED", 60)
        );
    }

    #[test]
    fn a_dr_connection_has_no_local_address() {
        let ip = Ipv4Addr::new(10, 0, 0, 1);
        let record = Record::new(17, Mode::Dr, FlowKey::new(ip, 53, ip, 53), FlowKey::default());
        let shown = Connection::describe(
            &record,
            &Ends::new(&record, None),
            SocketAddr::new(ip.into(), 53),
            &Timeouts::default(),
            Tick(50_000),
        );
        assert_eq!((shown.local, shown.state, shown.remaining), (None, "UDP", 0));
    }
}
