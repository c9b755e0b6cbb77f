//! A port's `bond`: several devices that are one port.

use super::At;
use super::field::{Field, Fields};
use super::port::device_of;
use super::typed::optional_word;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{Bond, BondMode, Device};

/// The most members: what switches take, and more than anybody has.
const MOST: usize = 8;

/// The bond in `field`; none when something in it is wrong, which has been reported.
pub(super) fn bond(field: Field<'_>, with_drivers: bool, report: &mut Report) -> Option<At<Device>> {
    let fields = Fields::open(field, &schema::BOND, report);
    let example = "`mode: active-backup` or `802.3ad`";
    fields.required("mode", example, report);
    let mode = optional_word(&fields, "mode", &BondMode::WORDS, report);
    let device = |field: Field<'_>, report: &mut Report| {
        field.value("a PCI address or a DPDK device", report, |text| {
            device_of(text, with_drivers)
        })
    };
    let example = "the devices, such as `members: [0000:03:00.0, 0000:03:00.1]`";
    let raw = fields.required_list("members", example, report, |field, report| {
        let member = device(field, report)?.value;
        Some(member).filter(|member| fits(field, member, report))
    });
    let count = raw.len();
    let members: Vec<Device> = raw.into_iter().flatten().collect();
    if count > MOST {
        let fault = Fault::new(
            format!("{count} members, and a bond has {MOST} at most"),
            "remove the others",
        );
        report.error(fields.place(), fields.path(), fault);
    }
    let primary = fields.get("primary").and_then(|field| {
        let wanted = device(field, report)?.value;
        primary(field, &wanted, mode, &members, report)
    });
    let mode = mode?;
    let names: Vec<&str> = members.iter().map(Device::argument).collect();
    let label = format!("{} of {}", mode.name(), names.join("; "));
    let value = Device::Bond(Bond {
        mode,
        primary,
        label,
        members,
    });
    let place = field.place();
    (count > 0 && names_all(&value, count)).then_some(At { value, place })
}

/// Whether every member could be read.
fn names_all(bond: &Device, count: usize) -> bool {
    bond.parts().len() == count
}

/// Whether a device can be a member; why not is reported.
fn fits(field: Field<'_>, member: &Device, report: &mut Report) -> bool {
    if member.name().starts_with("net_bonding") {
        let problem = format!("`{}` is a bond itself", member.name());
        field.error(
            Fault::new(problem, "write the devices that it is made of"),
            report,
        );
        return false;
    }
    if member.name().starts_with("net_memif") {
        let problem = format!("the driver of `{}` cannot change its MAC address", member.name());
        let remedy = "write devices that can, as a bond has one address for all: PCI devices, `net_af_packet`, `net_tap`";
        field.error(Fault::new(problem, remedy), report);
        return false;
    }
    true
}

/// Which member is named.
fn primary(
    field: Field<'_>,
    wanted: &Device,
    mode: Option<BondMode>,
    members: &[Device],
    report: &mut Report,
) -> Option<usize> {
    if mode.is_some_and(|mode| mode != BondMode::ActiveBackup) {
        let problem = "a `primary` where all members send";
        field.error(
            Fault::new(problem, "remove it, or write `mode: active-backup`"),
            report,
        );
        return None;
    }
    let found = members.iter().position(|member| member.name() == wanted.name());
    if found.is_none() {
        let names: Vec<&str> = members.iter().map(Device::name).collect();
        let problem = format!("`{}` is no member", wanted.name());
        let fault = Fault::new(problem, format!("write one of `{}`", names.join("`, `")));
        field.error(fault, report);
    }
    found
}
