//! What several workers cannot do yet.

use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::config::types::Node;

/// Refuses persistence where the file asks for several workers: each would remember clients by itself, and a client's
/// connections are dealt out to all of them by their ports.
pub(super) fn persistence(node: &Node, services: &[RawService], report: &mut Report) {
    if !node.has_several_workers() {
        return;
    }
    for (index, service) in services.iter().enumerate() {
        if let Some(persistence) = &service.persistence {
            let fault = Fault::new(
                "clients are remembered by one worker only, and `node` asks for several",
                "write one CPU in node.workers, or a scheduler such as `sh` or `mh`, which keeps clients without it",
            );
            report.error(persistence.place, format!("services[{index}].persistence"), fault);
        }
    }
}
