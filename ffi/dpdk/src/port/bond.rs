//! Bonds: several devices that are one port, by DPDK's bonding driver. `control` makes one before it configures the port.

use dpdk_sys as sys;

use super::error::failed;
use super::{Port, PortError};
use crate::{DeviceId, Eal, c_string, log};

/// How the members of a bond share the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BondMode {
    /// One sends, another one when its link is down.
    ActiveBackup,
    /// All send that the other end agrees to by LACP (IEEE 802.1AX): each flow by one of them, by its addresses and ports.
    Lacp,
}

impl BondMode {
    fn number(self) -> i32 {
        let number = match self {
            BondMode::ActiveBackup => sys::TG_BOND_ACTIVE_BACKUP,
            BondMode::Lacp => sys::TG_BOND_8023AD,
        };
        number as i32
    }
}

/// A device that belongs to a bond. Closes and detaches it when it goes away, after the bond.
#[derive(Debug)]
pub(super) struct Member {
    id: DeviceId,
    eal: Eal,
}

impl Drop for Member {
    fn drop(&mut self) {
        let alone = self.eal.control();
        // SAFETY: the bond is gone, so nobody receives or sends by it. One that does not close is left to EAL.
        unsafe {
            let _ = sys::tg_port_stop(self.id.0);
            let _ = sys::tg_port_remove(self.id.0);
        }
        drop(alone);
        self.eal.release(self.id);
    }
}

/// A bond of attached devices, to be configured as a port.
#[derive(Debug)]
pub struct Bond {
    pub(super) id: DeviceId,
    pub(super) mode: BondMode,
    pub(super) members: Vec<Member>,
}

impl Bond {
    /// Makes a bond; `name` begins with `net_bonding` and is no other device's. The first member gives it its MAC address
    /// and, at first, sends, unless `primary` names another one by its place among them.
    ///
    /// # Errors
    /// A member is in use, or does not suit the others; the driver's reason.
    pub fn create(
        eal: &Eal,
        name: &str,
        mode: BondMode,
        members: &[DeviceId],
        primary: Option<usize>,
    ) -> Result<Bond, PortError> {
        let mut owned = Vec::new();
        for &id in members {
            if !eal.claim(id) {
                let device = super::PortInfo::read(id)?.device;
                return Err(PortError::InUse { device });
            }
            let eal = eal.clone();
            owned.push(Member { id, eal });
        }
        let _alone = eal.control();
        log::forget();
        // SAFETY: EAL runs; the name is terminated and copied; nobody else changes devices.
        let code = unsafe { sys::tg_bond_create(c_string(name).as_ptr(), mode.number()) };
        let id = u16::try_from(code).map_err(|_| refused(name, "make the bond", code))?;
        for member in &owned {
            // SAFETY: both exist, the member is ours and not configured.
            let code = unsafe { sys::tg_bond_add(id, member.id.0) };
            if code != 0 {
                // SAFETY: nobody knows the bond yet. Its members are let go.
                unsafe {
                    let _ = sys::tg_port_remove(id);
                }
                let step = format!("take device number {} into the bond", member.id.0);
                return Err(refused(name, &step, code));
            }
        }
        if let Some(primary) = primary.and_then(|primary| owned.get(primary)) {
            // SAFETY: both are ours. One that cannot be preferred yet is once the bond runs.
            unsafe {
                let _ = sys::tg_bond_prefer(id, primary.id.0);
            }
        }
        Ok(Bond {
            id: DeviceId(id),
            mode,
            members: owned,
        })
    }

    /// Its device, for [`super::PortInfo::read`].
    #[must_use]
    pub fn id(&self) -> DeviceId {
        self.id
    }
}

impl Drop for Bond {
    /// A bond that has become a port has no members any more, and is the port's to remove.
    fn drop(&mut self) {
        let Some(first) = self.members.first() else {
            return;
        };
        let _alone = first.eal.control();
        // SAFETY: it was never started.
        unsafe {
            let _ = sys::tg_port_remove(self.id.0);
        }
    }
}

/// With the driver's own words, which are those since `log::forget`.
fn refused(device: &str, step: &str, code: i32) -> PortError {
    let said = log::explanation();
    match said.is_empty() {
        true => failed(device, step, code),
        false => PortError::Driver {
            device: device.to_owned(),
            step: step.to_owned(),
            reason: said,
        },
    }
}

impl Port {
    /// Which of the members of an active-backup bond sends, by their order; none of any other port.
    #[must_use]
    pub fn sender(&self) -> Option<usize> {
        if self.shared.mode != Some(BondMode::ActiveBackup) {
            return None;
        }
        // SAFETY: the port is ours.
        let code = unsafe { sys::tg_bond_sender(self.number()) };
        self.shared
            .members
            .iter()
            .position(|member| i32::from(member.id.0) == code)
    }

    /// Has this member of an active-backup bond send, by their order.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn prefer(&self, member: usize) -> Result<(), PortError> {
        let Some(member) = self.shared.members.get(member) else {
            return Ok(());
        };
        // SAFETY: port and member are ours.
        let code = unsafe { sys::tg_bond_prefer(self.number(), member.id.0) };
        self.check("let another member send", code)
    }

    /// Of each member of a bond, whether its link is up as far as its driver knows, and whether the bond uses it. Empty of
    /// any other port.
    #[must_use]
    pub fn members(&self) -> Vec<(bool, bool)> {
        let seen = |member: &Member| {
            let mut speed = 0;
            // SAFETY: port and member are ours; `speed` is a place for one number.
            unsafe {
                (
                    sys::tg_port_link(member.id.0, &raw mut speed) == 1,
                    sys::tg_bond_uses(self.number(), member.id.0) == 1,
                )
            }
        };
        self.shared.members.iter().map(seen).collect()
    }
}
