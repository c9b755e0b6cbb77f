//! What cannot be replayed yet, with the issue that closes it. A scenario is unsupported when a row covers it, by
//! what it needs and never by its name; closing an issue deletes its rows.

use super::facts::{Facts, Kind};

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    /// The issue that closes it.
    pub(super) issue: u8,
    /// What is missing.
    pub(super) what: &'static str,
    covers: fn(&Facts) -> bool,
}

/// The settings that exist.
const SYSCTLS: &[&str] = &[
    "sloppy_tcp",
    "sloppy_sctp",
    "conn_reuse_mode",
    "expire_nodest_conn",
    "expire_quiescent_template",
    "pmtu_disc",
    "nat_icmp_send",
    "schedule_icmp",
    "secure_tcp",
];

/// The commands that ipvsadm's parser has no counterpart for; none at all is `-L`.
const OTHER_COMMANDS: &[&str] = &[
    "-L",
    "-l",
    "-S",
    "-R",
    "-Z",
    "-h",
    "-v",
    "--version",
    "--start-daemon",
    "--stop-daemon",
];

const fn row(issue: u8, what: &'static str, covers: fn(&Facts) -> bool) -> Row {
    Row { issue, what, covers }
}

static TABLE: &[Row] = &[
    row(8, "what ipvsadm prints", |f| f.kind == Kind::Text),
    row(
        8,
        "ipvsadm commands that show, save, restore or zero, and the sync daemon's",
        |f| {
            f.kind == Kind::Errors
                && (f.cmd.is_empty() || OTHER_COMMANDS.iter().any(|other| f.cmd.starts_with(other)))
        },
    ),
    row(5, "other settings of IPVS", |f| {
        f.sysctls.iter().any(|name| !SYSCTLS.contains(&&**name))
    }),
];

/// The row for views in the middle of a scenario: the rest of it is replayed, and may fail.
pub(super) static VIEW: Row = row(8, "what ipvsadm shows in the middle of a scenario", |_| false);
/// The row for the saved table after a command: the command itself is compared.
pub(super) static SAVED: Row = row(8, "what ipvsadm saves after a command", |_| false);

/// The row for what takes one worker.
static PERSISTENCE: Row = row(4, "persistence with several workers", |f| {
    f.is_persistent && f.kind != Kind::Errors
});

/// The row that covers a whole scenario, on a gateway of so many workers.
pub(super) fn whole(facts: &Facts, workers: u8) -> Option<&'static Row> {
    if workers > 1 && (PERSISTENCE.covers)(facts) {
        return Some(&PERSISTENCE);
    }
    TABLE.iter().find(|row| (row.covers)(facts))
}
