//! What a scenario needs of a gateway, read from its commands and events: what the tables of unsupported things and
//! of deviations judge by.

use super::recording::{Recording, Shape};
use std::collections::BTreeSet;
use std::net::IpAddr;
use tidegate::ipvsadm::{self, Command, Family, Forwarding, Protocol, ServiceId};

/// The shape of a recording, without its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Sched,
    States,
    Flows,
    Errors,
    Text,
}

/// A forwarding mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Mode {
    Dr,
    Nat,
    Tun,
    Fullnat,
}

/// What a scenario needs.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) kind: Kind,
    pub(super) ipv6: bool,
    pub(super) sctp: bool,
    pub(super) modes: BTreeSet<Mode>,
    pub(super) schedulers: BTreeSet<String>,
    pub(super) persistence: bool,
    pub(super) engine: bool,
    pub(super) marks: bool,
    /// A server that is the gateway itself.
    pub(super) local_server: bool,
    pub(super) sysctls: BTreeSet<String>,
    /// Shell commands other than ipvsadm's that are part of the scenario.
    pub(super) shell: Vec<String>,
    /// An ICMP message other than an echo request comes in.
    pub(super) icmp_in: bool,
    pub(super) fragments_in: bool,
    /// The command of an error scenario.
    pub(super) cmd: String,
}

/// The facts of a recording.
pub(super) fn of(recording: &Recording) -> Facts {
    let kind = match recording.shape {
        Shape::Sched(_) => Kind::Sched,
        Shape::States(_) => Kind::States,
        Shape::Flows(_) => Kind::Flows,
        Shape::Errors(_) => Kind::Errors,
        Shape::Text => Kind::Text,
    };
    let mut facts = Facts {
        kind,
        ipv6: false,
        sctp: false,
        modes: BTreeSet::new(),
        schedulers: BTreeSet::new(),
        persistence: false,
        engine: false,
        marks: false,
        local_server: false,
        sysctls: BTreeSet::new(),
        shell: Vec::new(),
        icmp_in: false,
        fragments_in: false,
        cmd: String::new(),
    };
    facts.read(&recording.shape);
    facts
}

impl Facts {
    /// Whether only what commands say is compared: no packet moves.
    pub(super) fn is_command(&self) -> bool {
        self.kind == Kind::Errors
    }

    fn read(&mut self, shape: &Shape) {
        match shape {
            Shape::Sched(s) => {
                let edits = s.events.iter().filter_map(|event| event.cmd.as_ref());
                s.ipvsadm.iter().chain(edits).for_each(|line| self.command(line));
                self.sysctls.extend(s.sysctl.keys().cloned());
                self.sysctls
                    .extend(s.events.iter().filter_map(|event| event.key.clone()));
            }
            Shape::States(s) => {
                self.sctp = s.events.iter().any(|event| event.chunk.is_some());
                self.modes.extend(mode_of(&s.fwd));
                self.sysctls.extend(s.sysctl.keys().cloned());
            }
            Shape::Flows(s) => {
                s.ipvsadm.iter().for_each(|line| self.command(line));
                for event in &s.events {
                    match (event.op.as_str(), &event.cmd) {
                        ("ipvsadm", Some(line)) => self.command(line),
                        (_, Some(line)) => self.shell.push(line.clone()),
                        _ => event.in_hex.iter().for_each(|hex| self.packet(hex)),
                    }
                }
                self.sysctls.extend(s.sysctl.keys().cloned());
            }
            Shape::Errors(s) => {
                self.cmd.clone_from(&s.cmd);
                // What the grammar refuses never reaches the table.
                if ipvsadm::parse_line(&s.cmd).is_ok() {
                    s.setup.iter().for_each(|line| self.command(line));
                    self.command(&s.cmd);
                }
            }
            Shape::Text => {}
        }
    }

    fn command(&mut self, line: &str) {
        let Ok(command) = ipvsadm::parse_line(line) else {
            return;
        };
        match command {
            Command::AddService(service) | Command::EditService(service) => {
                self.id(service.id);
                self.schedulers.insert(service.scheduler);
                self.persistence |= service.persistence.is_some();
                self.engine |= service.engine.is_some();
            }
            Command::AddServer(id, server) | Command::EditServer(id, server) => {
                self.id(id);
                let address = server.endpoint.address;
                self.ipv6 |= address.is_ipv6();
                self.local_server |= address.is_loopback() || address == IpAddr::from([10, 0, 0, 1]);
                self.modes.insert(match server.forwarding {
                    Forwarding::Dr => Mode::Dr,
                    Forwarding::Nat => Mode::Nat,
                    Forwarding::Tun(_) => Mode::Tun,
                    Forwarding::Fullnat => Mode::Fullnat,
                });
            }
            Command::DeleteService(id) | Command::DeleteServer(id, _) => self.id(id),
            Command::Clear | Command::SetTimeouts { .. } => {}
        }
    }

    fn id(&mut self, id: ServiceId) {
        self.ipv6 |= id.family() == Family::V6;
        match id {
            ServiceId::Mark { .. } => self.marks = true,
            ServiceId::Address { protocol, .. } => self.sctp |= protocol == Protocol::Sctp,
        }
    }

    fn packet(&mut self, hex: &str) {
        let byte = |at: usize| {
            hex.get(2 * at..2 * at + 2)
                .and_then(|b| u8::from_str_radix(b, 16).ok())
                .unwrap_or(0)
        };
        if byte(0) >> 4 == 6 {
            self.ipv6 = true;
        } else {
            self.fragments_in |= byte(6) & 0x3f != 0 || byte(7) != 0;
            // An echo request is no error about a connection.
            self.icmp_in |= byte(9) == 1 && byte(20) != 8;
        }
    }
}

fn mode_of(fwd: &str) -> Option<Mode> {
    match fwd {
        "dr" => Some(Mode::Dr),
        "nat" => Some(Mode::Nat),
        "tun" => Some(Mode::Tun),
        "fullnat" => Some(Mode::Fullnat),
        _ => None,
    }
}
