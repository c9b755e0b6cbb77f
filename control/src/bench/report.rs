//! What was measured, as a table or as JSON lines.

use super::measure::Cost;
use std::fmt;

/// The forwarding mode that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// FULLNAT, both directions.
    Fullnat,
    /// DR: replies do not pass the gateway.
    Dr,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Fullnat => "fullnat",
            Mode::Dr => "dr",
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
    pub(super) table: Table,
    pub(super) flows: u32,
    /// The whole pipeline.
    pub(super) pipeline: Cost,
    /// The bare loop of lookup and rewrite; FULLNAT only.
    pub(super) floor: Option<Cost>,
    /// The plain forwarder.
    pub(super) mac_swap: Cost,
    pub(super) bytes_per_connection: f64,
}

impl Row {
    /// The heading of [`Row`]'s lines.
    pub(super) const HEADING: &'static str = "\
mode     table       flows   ns/packet  median    Mpps   MAC swap  /swap    floor  /floor  bytes/conn";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, table) = (self.mode.to_string(), self.table.to_string());
        let best = self.pipeline.best;
        write!(
            f,
            "{mode:<8} {table:<8} {:>8}   {best:>9.1} {:>7.1} {:>7.2}   {:>8.1}  {:>5.1}",
            self.flows,
            self.pipeline.median,
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
    pub(super) table: Table,
    /// Packets of each connection.
    pub(super) packets: u64,
    /// ns for each connection.
    pub(super) connection: Cost,
    /// The plain forwarder, ns for as many packets.
    pub(super) mac_swap: Cost,
}

impl Opening {
    /// The heading of [`Opening`]'s lines.
    pub(super) const HEADING: &'static str = "\
mode     table     packets  ns/connection   median  connections/s   MAC swap  what";
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, table) = (self.mode.to_string(), self.table.to_string());
        write!(
            f,
            "{mode:<8} {table:<8} {:>8}  {:>13.0} {:>8.0}  {:>13.0}   {:>8.0}  {}",
            self.packets,
            self.connection.best,
            self.connection.median,
            1e9 / self.connection.best,
            self.mac_swap.best,
            self.what,
        )
    }
}
