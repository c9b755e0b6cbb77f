//! What was measured, as a table or as JSON lines.

use super::flows::Distribution;
use super::measure::Cost;
use super::request::Family;
use std::fmt;

/// The forwarding mode that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// FULLNAT, both directions.
    Fullnat,
    /// NAT, both directions.
    Nat,
    /// DR: replies do not pass the gateway.
    Dr,
    /// TUN by IPIP: replies do not pass the gateway.
    Tun,
}

impl Mode {
    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [Mode; 4] = [Mode::Fullnat, Mode::Nat, Mode::Dr, Mode::Tun];

    /// Whether replies pass the gateway.
    pub(super) fn has_replies(self) -> bool {
        matches!(self, Mode::Fullnat | Mode::Nat)
    }
}

/// The way of packets through the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Path {
    pub(super) mode: Mode,
    pub(super) family: Family,
}

impl Path {
    /// Each that there is.
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = Path> {
        let of = |family| Mode::ALL.map(|mode| Path { mode, family });
        of(Family::V4)
            .into_iter()
            .chain(of(Family::V6))
            .chain(of(Family::V64))
            .filter(|path| path.is_possible())
    }

    /// Whether there is such a way: only FULLNAT leads from IPv6 to IPv4.
    pub(super) fn is_possible(self) -> bool {
        self.mode == Mode::Fullnat || self.family != Family::V64
    }

    /// Of IPv4.
    pub(super) fn v4(mode: Mode) -> Path {
        Path {
            mode,
            family: Family::V4,
        }
    }

    /// Whether the bare loop does the same.
    pub(super) fn has_floor(self) -> bool {
        self == Path::v4(Mode::Fullnat)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Fullnat => "fullnat",
            Mode::Nat => "nat",
            Mode::Dr => "dr",
            Mode::Tun => "tun",
        })
    }
}

/// The index of the connection table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// Our own.
    Tag,
    /// DPDK's `rte_hash`.
    RteHash,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Table::Tag => "tag",
            Table::RteHash => "rte-hash",
        })
    }
}

/// Prints a row: as a line of its table, or as a JSON object.
///
/// # Errors
/// It cannot be written as JSON.
pub(super) fn print(json: bool, row: &(impl serde::Serialize + fmt::Display)) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(row)?);
    } else {
        println!("{row}");
    }
    Ok(())
}

/// Packets of known connections.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) family: Family,
    pub(super) table: Table,
    pub(super) flows: u32,
    pub(super) distribution: Distribution,
    /// Bytes of a frame from a client.
    pub(super) frame: usize,
    /// The whole pipeline.
    pub(super) pipeline: Cost,
    /// Its best window in cycles of the time stamp counter.
    pub(super) cycles: f64,
    /// The bare loop of lookup and rewrite; FULLNAT over IPv4 only.
    pub(super) floor: Option<Cost>,
    /// The plain forwarder.
    pub(super) mac_swap: Cost,
    pub(super) bytes_per_connection: f64,
}

impl Row {
    /// The heading of [`Row`]'s lines.
    pub(super) const HEADING: &'static str = "\
mode    ip table       flows  frame  ns/packet  median  cycles    Mpps   MAC swap  /swap    floor  /floor  bytes/conn";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, table) = (self.mode.to_string(), self.table.to_string());
        let best = self.pipeline.best;
        write!(
            f,
            "{mode:<7} {:>2} {table:<8} {:>8}  {:>5}  {best:>9.1} {:>7.1}  {:>6.0} {:>7.2}   {:>8.1}  {:>5.1}",
            self.family.text(),
            self.flows,
            self.frame,
            self.pipeline.median,
            self.cycles,
            1000.0 / best,
            self.mac_swap.best,
            best / self.mac_swap.best,
        )?;
        match self.floor {
            Some(floor) => write!(f, "  {:>7.1}  {:>6.2}", floor.best, best / floor.best)?,
            None => write!(f, "  {:>7}  {:>6}", "-", "-")?,
        }
        write!(f, "  {:>10.1}", self.bytes_per_connection)
    }
}

/// Connections that come and go.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Opening {
    /// What happens to each.
    pub(super) what: &'static str,
    pub(super) mode: Mode,
    pub(super) family: Family,
    pub(super) table: Table,
    /// Packets of each connection.
    pub(super) packets: u64,
    /// How many are there meanwhile, at the end.
    pub(super) present: u64,
    /// ns for each connection.
    pub(super) connection: Cost,
    /// The best window in cycles of the time stamp counter.
    pub(super) cycles: f64,
    /// The plain forwarder, ns for as many packets.
    pub(super) mac_swap: Cost,
}

impl Opening {
    /// The heading of [`Opening`]'s lines.
    pub(super) const HEADING: &'static str = "\
mode    ip table    packets  ns/connection   median  cycles  connections/s   MAC swap  /swap   present  what";
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, table) = (self.mode.to_string(), self.table.to_string());
        let best = self.connection.best;
        write!(
            f,
            "{mode:<7} {:>2} {table:<8} {:>7}  {best:>13.0} {:>8.0}  {:>6.0}  {:>13.0}   {:>8.0}  {:>5.1}  {:>8}  {}",
            self.family.text(),
            self.packets,
            self.connection.median,
            self.cycles,
            1e9 / best,
            self.mac_swap.best,
            best / self.mac_swap.best,
            self.present,
            self.what,
        )
    }
}
