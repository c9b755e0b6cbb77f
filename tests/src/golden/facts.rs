//! What a scenario needs of a gateway, read from its commands and events: what the tables of unsupported things and
//! of deviations judge by.

use super::recording::{Recording, Shape};
use std::collections::BTreeSet;
use tidegate::ipvsadm::{self, Command, Forwarding, Tunnel};

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    pub(super) sysctls: BTreeSet<String>,
    /// The UDP port that tunnels of GUE lead to.
    pub(super) gue_port: Option<u16>,
    /// The command of an error scenario.
    pub(super) cmd: String,
    /// The schedulers of its services.
    pub(super) schedulers: BTreeSet<String>,
    /// Whether a service remembers its clients.
    pub(super) is_persistent: bool,
    /// Whether a service schedules each packet by itself.
    pub(super) one_packet: bool,
    /// Whether a server has thresholds.
    pub(super) has_thresholds: bool,
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
    let mut facts = none();
    facts.kind = kind;
    facts.read(&recording.shape);
    facts
}

/// Those of a scenario that needs nothing.
pub(super) fn none() -> Facts {
    Facts {
        kind: Kind::Flows,
        sysctls: BTreeSet::new(),
        gue_port: None,
        cmd: String::new(),
        schedulers: BTreeSet::new(),
        is_persistent: false,
        one_packet: false,
        has_thresholds: false,
    }
}

impl Facts {
    fn read(&mut self, shape: &Shape) {
        match shape {
            Shape::Sched(s) => {
                let edits = s.events.iter().filter_map(|event| event.cmd.as_ref());
                s.ipvsadm.iter().chain(edits).for_each(|line| self.command(line));
                self.sysctls.extend(s.sysctl.keys().cloned());
                self.sysctls
                    .extend(s.events.iter().filter_map(|event| event.key.clone()));
            }
            Shape::States(s) => self.sysctls.extend(s.sysctl.keys().cloned()),
            Shape::Flows(s) => {
                s.ipvsadm.iter().for_each(|line| self.command(line));
                let edits = s.events.iter().filter(|event| event.op == "ipvsadm");
                let edits = edits.filter_map(|event| event.cmd.as_ref());
                edits.for_each(|line| self.command(line));
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
                self.schedulers.insert(service.scheduler);
                self.is_persistent |= service.persistence.is_some();
                self.one_packet |= service.one_packet;
            }
            Command::AddServer(_, server) | Command::EditServer(_, server) => {
                self.has_thresholds |= server.upper_threshold != 0;
                if let Forwarding::Tun(Tunnel::Gue { port, .. }) = server.forwarding {
                    self.gue_port = Some(port);
                }
            }
            _ => {}
        }
    }

    /// Whether the order of servers is each worker's own: these go by what they have picked before.
    pub(super) fn takes_turns(&self) -> bool {
        let by_turns = ["rr", "wrr", "lblc", "lblcr"];
        self.schedulers.iter().any(|name| by_turns.contains(&&**name))
    }
}
