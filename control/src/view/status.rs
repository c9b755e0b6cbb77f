//! The gateway as a whole.

use crate::gateway::{Gateway, Reloaded, Reloads};
use crate::model::Changes;
use serde::{Deserialize, Serialize};

/// The gateway as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The configuration file.
    pub config: String,
    /// The epoch of the newest snapshot.
    pub epoch: u64,
    /// Seconds since the start.
    pub uptime: u64,
    /// How many workers there are.
    pub workers: usize,
    /// How many Ethernet ports there are.
    pub ports: usize,
    /// How many services there are.
    pub services: usize,
    /// How many servers there are; one of several services counts for each.
    pub servers: usize,
    /// How reloads have gone.
    pub reloads: Reloads,
    /// Warnings of the configuration in force, one a line.
    pub warnings: Vec<String>,
}

/// The gateway as a whole.
#[must_use]
pub fn status(gateway: &Gateway) -> Status {
    let state = gateway.state();
    Status {
        name: state.config.node.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: state.config.file.clone(),
        epoch: state.model.epoch(),
        uptime: gateway.uptime(),
        workers: gateway.workers().len(),
        ports: state.config.ports.len(),
        services: state.model.services().count(),
        servers: state
            .model
            .services()
            .map(|entry| entry.service.servers.len())
            .sum(),
        reloads: gateway.reloads(),
        warnings: state.config.warnings.iter().map(ToString::to_string).collect(),
    }
}

/// What a reload did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reload {
    /// The epoch that all workers use now.
    pub epoch: u64,
    /// What has changed, as numbers.
    pub changes: Changes,
    /// The same as a sentence.
    pub summary: String,
    /// Warnings of the file, one a line.
    pub warnings: Vec<String>,
}

impl From<&Reloaded> for Reload {
    fn from(reloaded: &Reloaded) -> Reload {
        Reload {
            epoch: reloaded.epoch,
            changes: reloaded.changes,
            summary: reloaded.changes.to_string(),
            warnings: reloaded.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}
