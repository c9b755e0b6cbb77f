//! Where Tidegate means to differ from IPVS. A rule sees what a scenario needs, the operation and the recorded
//! expectation, and says what to expect instead, and why. It never sees a name.

use super::facts::Facts;
use std::fmt;

/// Something that is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// Where a packet went: `rsN`, `icmp:3/3`, `rst`, `drop`, joined by `+`.
    Went(String),
    /// A connection's state and whole seconds left; `None` when there is none.
    State(Option<(String, u64)>),
    /// A server's active and inactive connections; `None` when it is no server.
    Counts(String, Option<(u32, u32)>),
    /// Packets that came out: port, to whom, the layer-3 bytes in hexadecimal.
    Packets(Vec<Packet>),
    /// The connection table, a line each.
    Table(Vec<String>),
    /// What a command printed: exit status, standard output, standard error.
    Printed(u8, String, String),
    /// A setting was taken.
    Setting(String, bool),
}

/// A packet that came out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Packet {
    /// `client` or `rs`.
    pub(super) side: String,
    /// `rsN`, `router` or a MAC.
    pub(super) to: String,
    pub(super) hex: String,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Went(went) => f.write_str(went),
            Expected::State(None) => f.write_str("no connection"),
            Expected::State(Some((state, seconds))) => write!(f, "{state} {seconds} s"),
            Expected::Counts(server, None) => write!(f, "{server} is no server"),
            Expected::Counts(server, Some((active, inactive))) => {
                write!(f, "{server} active {active} inactive {inactive}")
            }
            Expected::Packets(packets) if packets.is_empty() => f.write_str("no packet"),
            Expected::Packets(packets) => {
                let lines: Vec<_> = packets
                    .iter()
                    .map(|p| format!("{} {} {}", p.side, p.to, p.hex))
                    .collect();
                f.write_str(&lines.join("\n           "))
            }
            Expected::Table(rows) if rows.is_empty() => f.write_str("no connections"),
            Expected::Table(rows) => f.write_str(&rows.join("\n           ")),
            Expected::Printed(exit, stdout, stderr) => write!(f, "exit {exit}, {stdout:?}, {stderr:?}"),
            Expected::Setting(name, true) => write!(f, "setting {name}"),
            Expected::Setting(name, false) => write!(f, "no setting {name}"),
        }
    }
}

/// A deviation.
pub(super) struct Rule {
    /// Why we differ; one sentence, for the report and the documentation.
    pub(super) reason: &'static str,
    /// What to expect instead, when the rule applies.
    pub(super) change: fn(&Facts, op: &str, &Expected) -> Option<Expected>,
}

/// The rules. None yet: what is supported behaves as IPVS does.
pub(super) const RULES: &[Rule] = &[];
