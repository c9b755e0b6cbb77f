//! The host beside the gateway: a TAP device for each port with `exception`, by which the kernel has what arrives there
//! and is its own; addresses that the kernel has as the configuration says; and those that are ours only while it does.
//!
//! All that takes a privilege is open before the gateway becomes another user. What takes one later is done by
//! [`helper`], a process of its own.

mod addresses;
pub(crate) mod helper;
mod keeper;
mod message;
mod owners;
mod path;
mod quiet;
mod tap;

pub(super) use keeper::Keeper;
pub(super) use owners::Watcher;
pub(super) use path::{KernelWay, Path, ROOM};

use crate::config::Config;
use anyhow::Result;
use dataplane::service::PortSettings;
use dpdk::{Eal, Mempool};
use helper::Helper;
use nix::sched::CpuSet;
use parking_lot::Mutex;

/// What the gateway has of its host.
pub(super) struct Host {
    path: Option<Path>,
    /// Taken by the thread that keeps addresses.
    helper: Mutex<Option<Helper>>,
}

impl Host {
    /// Makes the devices, and starts what passes packets between them and so many workers; the ways of these, by number.
    /// None of them turns yet.
    ///
    /// # Errors
    /// A device cannot be made, with what to do.
    pub(super) fn open(
        config: &Config,
        settings: &[PortSettings],
        workers: usize,
        (eal, pool): (&Eal, &Mempool),
        cpus: CpuSet,
    ) -> Result<(Host, Vec<Option<KernelWay>>)> {
        let devices = tap::open_all(config, settings)?;
        let (path, ways) = if devices.is_empty() {
            (None, (0..workers).map(|_| None).collect())
        } else {
            let (path, ways) = Path::start(devices, workers, eal, pool, cpus)?;
            (Some(path), ways)
        };
        let wanted = path.is_some() || config.announces_any();
        let helper = wanted.then(|| Helper::start(config)).transpose()?;
        let host = Host {
            path,
            helper: Mutex::new(helper),
        };
        Ok((host, ways))
    }

    /// Lets the devices have a carrier where their ports have a link.
    pub(super) fn mirror_links(&self, is_up: impl Fn(usize) -> bool) {
        if let Some(path) = &self.path {
            path.mirror_links(is_up);
        }
    }

    /// The helper, once.
    pub(super) fn take_helper(&self) -> Option<Helper> {
        self.helper.lock().take()
    }

    /// Ends it: the devices are gone with their addresses. To be called when no worker turns any more.
    pub(super) fn close(self) {
        drop(self.path);
        if let Some(helper) = self.helper.into_inner() {
            helper.end();
        }
    }
}
