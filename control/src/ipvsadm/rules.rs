//! Which options belong to which command, and which of several faults is reported.

use super::UsageError;
use super::command::{Forwarding, Tunnel, TunnelChecksum};
use super::options::{Group, Verb};

/// The option groups that a line has named.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen(u64);

impl Seen {
    pub(super) fn has(self, group: Group) -> bool {
        self.0 & (1 << group as u32) != 0
    }

    /// Notes a group; false when it was there already.
    pub(super) fn add(&mut self, group: Group) -> bool {
        let fresh = !self.has(group);
        self.0 |= 1 << group as u32;
        fresh
    }
}

/// Refuses the commands that have no counterpart here.
pub(super) fn supported(verb: Verb) -> Result<(), UsageError> {
    let instead = match verb {
        Verb::List | Verb::Save => "`tidegate show services` shows the table",
        Verb::Restore => "give the lines one by one, or `tidegate reload`",
        Verb::Zero => "`tidegate zero [SERVICE]` does it",
        Verb::StartDaemon | Verb::StopDaemon => "there is no sync daemon",
        Verb::Help | Verb::Version => "`tidegate help` says what there is",
        _ => return Ok(()),
    };
    Err(UsageError::new(format!(
        "the '{}' command is not supported: {instead}",
        verb.name()
    )))
}

enum Rule {
    Required,
    Allowed,
    Illegal,
}

fn rule(verb: Verb, group: Group) -> Rule {
    use Group as G;
    match (verb, group) {
        (Verb::Flush | Verb::Set, _) => Rule::Illegal,
        (_, G::ServiceAddress) => Rule::Required,
        (Verb::AddServer | Verb::EditServer | Verb::DeleteServer, G::RealServer) => Rule::Required,
        (
            Verb::AddService | Verb::EditService,
            G::Scheduler | G::Persistent | G::Netmask | G::Ops | G::Pe | G::SchedFlags | G::LocalAddresses,
        ) => Rule::Allowed,
        (
            Verb::AddServer | Verb::EditServer,
            G::ForwardingMethod | G::Weight | G::UThreshold | G::LThreshold,
        ) => Rule::Allowed,
        (
            Verb::AddServer | Verb::EditServer,
            G::TunType | G::TunPort | G::TunNocsum | G::TunCsum | G::TunRemcsum,
        ) => Rule::Allowed,
        _ => Rule::Illegal,
    }
}

/// The first fault, in ipvsadm's order, between a command and its options.
pub(super) fn check(verb: Verb, seen: Seen) -> Result<(), UsageError> {
    for group in Group::ALL {
        let (name, verb_name) = (group.name(), verb.name());
        match (seen.has(group), rule(verb, group)) {
            (false, Rule::Required) => {
                let text = format!("You need to supply the '{name}' option for the '{verb_name}' command");
                return Err(UsageError::new(text));
            }
            (true, Rule::Illegal) => {
                return Err(UsageError::new(format!(
                    "Illegal '{name}' option with the '{verb_name}' command"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The kinds of tunnel, before their port and checksum are known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum TunnelKind {
    #[default]
    Ipip,
    Gue,
    Gre,
}

impl TunnelKind {
    pub(super) fn of(name: &str) -> Option<TunnelKind> {
        [TunnelKind::Ipip, TunnelKind::Gue, TunnelKind::Gre]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            TunnelKind::Ipip => "ipip",
            TunnelKind::Gue => "gue",
            TunnelKind::Gre => "gre",
        }
    }

    fn allows(self, group: Group) -> bool {
        match self {
            TunnelKind::Ipip => false,
            TunnelKind::Gue => true,
            TunnelKind::Gre => matches!(group, Group::TunNocsum | Group::TunCsum),
        }
    }
}

/// Whether any tunnel option was given.
pub(super) fn names_tunnel(seen: Seen) -> bool {
    let of_tunnels = [
        Group::TunType,
        Group::TunPort,
        Group::TunNocsum,
        Group::TunCsum,
        Group::TunRemcsum,
    ];
    of_tunnels.into_iter().any(|group| seen.has(group))
}

/// The tunnel that the options describe.
pub(super) fn tunnel(kind: TunnelKind, seen: Seen, port: u16) -> Result<Forwarding, UsageError> {
    let kind_name = kind.name();
    let mut checksum: Option<Group> = None;
    for group in [
        Group::TunPort,
        Group::TunNocsum,
        Group::TunCsum,
        Group::TunRemcsum,
    ] {
        let name = group.name();
        if kind == TunnelKind::Gue && group == Group::TunPort && !seen.has(group) {
            let text = format!("You need to supply the '{name}' option for the '{kind_name}' tunnel type");
            return Err(UsageError::new(text));
        }
        if !seen.has(group) {
            continue;
        }
        if !kind.allows(group) {
            return Err(UsageError::new(format!(
                "Illegal '{name}' option with the '{kind_name}' tunnel type"
            )));
        }
        if group == Group::TunPort {
            continue;
        }
        if let Some(first) = checksum {
            let first = first.name();
            return Err(UsageError::new(format!(
                "The option '{name}' conflicts with the '{first}' option in the '{kind_name}' tunnel type"
            )));
        }
        checksum = Some(group);
    }
    let checksum = match checksum {
        Some(Group::TunCsum) => TunnelChecksum::Full,
        Some(Group::TunRemcsum) => TunnelChecksum::Remote,
        _ => TunnelChecksum::None,
    };
    Ok(Forwarding::Tun(match kind {
        TunnelKind::Ipip => Tunnel::Ipip,
        TunnelKind::Gue => Tunnel::Gue { port, checksum },
        TunnelKind::Gre => Tunnel::Gre { checksum },
    }))
}
