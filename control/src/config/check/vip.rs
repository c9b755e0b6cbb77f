//! The section `vips`: each VIP once. They are VIPs also while no service listens there.

use std::collections::HashMap;

use crate::config::read::vip::RawVip;
use crate::config::report::{Fault, Report};
use crate::config::types::Vip;

/// Checks the section.
pub(crate) fn vips(raw: &[RawVip], report: &mut Report) -> Vec<Vip> {
    let mut seen = HashMap::new();
    let mut vips = Vec::new();
    for (index, vip) in raw.iter().enumerate() {
        let Some(address) = vip.address else { continue };
        let path = || format!("vips[{index}].address");
        if let Some(first) = seen.insert(address.value, address.place.line) {
            let problem = format!("{} is there already, on line {first}", address.value);
            let fault = Fault::new(problem, "write all that holds for a VIP in one place");
            report.error(address.place, path(), fault);
        }
        vips.push(Vip {
            address: address.value,
            policy: vip.policy,
            owner: vip.owner,
            announce: vip.announce,
            place: vip.place,
        });
    }
    vips
}
