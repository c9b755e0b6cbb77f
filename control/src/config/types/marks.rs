//! Firewall marks: which packets get which.

use dataplane::service::Protocol;

use super::{PortRange, Prefix};
use crate::config::Place;

/// A rule that gives packets a mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The mark, never 0.
    pub mark: u32,
    /// Where the packets go to; never empty.
    pub destinations: Vec<Prefix>,
    /// Where they come from; empty = anywhere.
    pub sources: Vec<Prefix>,
    /// Their protocol; none = any.
    pub protocol: Option<Protocol>,
    /// Their destination ports; empty = all.
    pub ports: Vec<PortRange>,
    /// The port that they come in by, an index into `ports` of the configuration; none = any.
    pub input: Option<usize>,
    /// Where it stands.
    pub place: Place,
}
