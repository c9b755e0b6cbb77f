//! The section `vips`: VIPs that services have, each once.

use std::collections::HashMap;

use super::addresses::Addresses;
use crate::config::read::Raw;
use crate::config::report::{Fault, Report};
use crate::config::types::Vip;

/// Checks the section.
pub(crate) fn vips(raw: &Raw, addresses: &Addresses, report: &mut Report) -> Vec<Vip> {
    let unread = raw.services.iter().any(|service| service.listeners.incomplete());
    let mut seen = HashMap::new();
    let mut vips = Vec::new();
    for (index, vip) in raw.vips.iter().enumerate() {
        let Some(address) = vip.address else { continue };
        let path = || format!("vips[{index}].address");
        if let Some(first) = seen.insert(address.value, address.place.line) {
            let problem = format!("{} is there already, on line {first}", address.value);
            let fault = Fault::new(problem, "write all that holds for a VIP in one place");
            report.error(address.place, path(), fault);
        } else if !addresses.is_vip(address.value) && !unread {
            let problem = format!("no service listens on {}", address.value);
            let fault = Fault::new(problem, "write the VIP of a service, or remove this");
            report.error(address.place, path(), fault);
        }
        vips.push(Vip {
            address: address.value,
            policy: vip.policy,
            place: vip.place,
        });
    }
    vips
}
