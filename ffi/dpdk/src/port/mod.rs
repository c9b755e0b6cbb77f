//! Ethernet ports. `control` configures and starts them and reads their statistics; each worker gets queues.
//!
//! What a driver lacks is done without, where the gateway can: fewer queues or descriptors than asked, no
//! promiscuous mode, no checksum check, no RSS. What was granted can be read back. An MTU that the device or the
//! buffers cannot carry is refused: frames would be lost in silence.

mod bond;
mod error;
mod plan;
mod queue;
mod rss;
mod state;

pub use bond::{Bond, BondMode};
pub use error::PortError;
pub use plan::{DescriptorLimits, PortInfo};
pub use queue::{RxQueue, TxQueue};
pub use rss::soft_rss;
pub use state::{Link, PortStats};

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::sync::Arc;

use dpdk_sys as sys;

use crate::{DeviceId, Eal, Mempool, errno_text, log};

/// The length of an RSS key, bytes.
pub const RSS_KEY_LEN: usize = sys::TG_RSS_KEY_LEN as usize;

const ENOTSUP: i32 = 95;

/// What to ask of a port. Values beyond the device's limits are lowered to them, except the MTU.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Receive queues, at least 1.
    pub rx_queues: u16,
    /// Transmit queues, at least 1.
    pub tx_queues: u16,
    /// Descriptors of each receive queue.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue.
    pub tx_descriptors: u16,
    /// The MTU, without Ethernet header, in bytes. None leaves the device's own.
    pub mtu: Option<u16>,
    /// Where received frames go.
    pub mempool: Mempool,
    /// Whether the device is to check IPv4, TCP and UDP checksums, where it can.
    pub checksum: bool,
    /// Whether to receive frames to other MAC addresses as well.
    pub promiscuous: bool,
    /// Whether to receive every multicast frame: neighbour discovery asks by groups that depend on the address. A
    /// device that cannot is made promiscuous instead, where it can.
    pub all_multicast: bool,
    /// Spread IPv4 TCP and UDP over the queues by a Toeplitz hash with this key, where the device can.
    pub rss_key: Option<[u8; RSS_KEY_LEN]>,
}

impl PortOptions {
    /// One queue each way, 512 descriptors, the device's own MTU, checksums checked, not promiscuous, no RSS.
    #[must_use]
    pub fn new(mempool: Mempool) -> PortOptions {
        PortOptions {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 512,
            tx_descriptors: 512,
            mtu: None,
            mempool,
            checksum: true,
            promiscuous: false,
            all_multicast: false,
            rss_key: None,
        }
    }
}

/// A configured Ethernet port. Stops, closes and detaches its device when it and all its queues are gone.
/// One thread at a time.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    info: PortInfo,
    plan: plan::Plan,
    promiscuous: bool,
    _one_thread: PhantomData<Cell<()>>,
}

/// What keeps the device alive, held by the port and by each of its queues.
#[derive(Debug)]
struct Shared {
    id: DeviceId,
    eal: Eal,
    /// Where the driver allocates.
    _mempool: Mempool,
    /// How a bond works.
    mode: Option<BondMode>,
    /// The devices of a bond: they go after it.
    members: Vec<bond::Member>,
}

impl Port {
    /// Configures an attached device and sets up its queues. It does not receive before [`Port::start`].
    ///
    /// # Errors
    /// Why the device cannot be used as asked.
    pub fn configure(eal: &Eal, id: DeviceId, options: &PortOptions) -> Result<Port, PortError> {
        Port::configure_with(eal, id, options, (None, &mut Vec::new()))
    }

    /// The same for a bond and its members.
    ///
    /// # Errors
    /// Why the bond cannot be used as asked.
    pub fn configure_bond(eal: &Eal, mut bond: Bond, options: &PortOptions) -> Result<Port, PortError> {
        Port::configure_with(eal, bond.id, options, (Some(bond.mode), &mut bond.members))
    }

    fn configure_with(
        eal: &Eal,
        id: DeviceId,
        options: &PortOptions,
        (mode, members): (Option<BondMode>, &mut Vec<bond::Member>),
    ) -> Result<Port, PortError> {
        let alone = eal.control();
        let info = PortInfo::read(id)?;
        let plan = plan::Plan::new(&info, options)?;
        if !eal.claim(id) {
            return Err(PortError::InUse { device: info.device });
        }
        // From here on dropping this gives the device back.
        let shared = Arc::new(Shared {
            id,
            eal: eal.clone(),
            _mempool: options.mempool.clone(),
            mode,
            members: std::mem::take(members),
        });
        let mut port = Port {
            shared,
            info,
            plan,
            promiscuous: false,
            _one_thread: PhantomData,
        };
        let set_up = port.set_up(options);
        drop(alone);
        set_up.map(|()| port)
    }

    fn set_up(&mut self, options: &PortOptions) -> Result<(), PortError> {
        let setup = self.plan.setup(options);
        let mut step: *const c_char = c"configure".as_ptr();
        log::forget();
        // SAFETY: the port is ours alone; `setup` names a valid pool, which `Shared` keeps.
        let code = unsafe { sys::tg_port_configure(self.number(), &raw const setup, &raw mut step) };
        if code != 0 {
            // SAFETY: the shim sets it to string constants.
            let step = unsafe { CStr::from_ptr(step) }.to_string_lossy().into_owned();
            return Err(self.refused(&step, code));
        }
        // A bond gives its members the MTU that it was configured with when it starts, and cannot before.
        if let Some(mtu) = options.mtu
            && self.shared.members.is_empty()
        {
            self.set_mtu(mtu)?;
        }
        if options.promiscuous {
            // SAFETY: the port is configured.
            self.promiscuous = unsafe { sys::tg_port_promiscuous(self.number()) } == 0;
        }
        if options.all_multicast && !self.promiscuous {
            // SAFETY: the port is configured.
            let granted = unsafe { sys::tg_port_all_multicast(self.number()) } == 0;
            if !granted {
                // SAFETY: the port is configured.
                self.promiscuous = unsafe { sys::tg_port_promiscuous(self.number()) } == 0;
            }
        }
        Ok(())
    }

    /// Starts the port and hands out its queues, receive and transmit, in order.
    ///
    /// # Errors
    /// The driver's reason; [`PortError::QueuesHeld`] when it is started already.
    pub fn start(&mut self) -> Result<(Vec<RxQueue>, Vec<TxQueue>), PortError> {
        self.none_held()?;
        let _alone = self.shared.eal.control();
        log::forget();
        // SAFETY: the port is configured and no queue of it is out.
        let code = unsafe { sys::tg_port_start(self.number()) };
        if code != 0 {
            return Err(self.refused("start", code));
        }
        let receive = (0..self.plan.rx_queues)
            .map(|queue| RxQueue::new(&self.shared, queue))
            .collect();
        let transmit = (0..self.plan.tx_queues)
            .map(|queue| TxQueue::new(&self.shared, queue))
            .collect();
        Ok((receive, transmit))
    }

    /// Stops the port, whose queues must be gone. It can be started again.
    ///
    /// # Errors
    /// [`PortError::QueuesHeld`], or the driver's reason.
    pub fn stop(&mut self) -> Result<(), PortError> {
        self.none_held()?;
        let _alone = self.shared.eal.control();
        log::forget();
        // SAFETY: no queue is out, so nobody receives or sends.
        match unsafe { sys::tg_port_stop(self.number()) } {
            0 => Ok(()),
            code => Err(self.refused("stop", code)),
        }
    }

    fn none_held(&self) -> Result<(), PortError> {
        // Only queues hold a second reference, and nobody but this port makes them.
        if Arc::strong_count(&self.shared) > 1 {
            return Err(PortError::QueuesHeld {
                device: self.info.device.clone(),
            });
        }
        Ok(())
    }

    fn number(&self) -> u16 {
        self.shared.id.0
    }

    /// With the driver's own words, which are those since `log::forget`.
    fn refused(&self, step: &str, code: i32) -> PortError {
        let said = log::explanation();
        let reason = if said.is_empty() { errno_text(code) } else { said };
        PortError::Driver {
            device: self.info.device.clone(),
            step: step.to_owned(),
            reason,
        }
    }

    /// The device's number.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        self.shared.id
    }

    /// What the device is and can do.
    #[must_use]
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// The driver's name, such as `net_tap`.
    #[must_use]
    pub fn driver_name(&self) -> &str {
        &self.info.driver
    }

    /// How many receive queues were granted.
    #[must_use]
    pub fn rx_queues(&self) -> u16 {
        self.plan.rx_queues
    }

    /// How many transmit queues were granted.
    #[must_use]
    pub fn tx_queues(&self) -> u16 {
        self.plan.tx_queues
    }

    /// Whether promiscuous mode was asked for, or needed for multicast, and granted.
    #[must_use]
    pub fn promiscuous(&self) -> bool {
        self.promiscuous
    }

    /// Whether the transmit queues are to be called on in any case, ten times a second at least: LACP sends there.
    #[must_use]
    pub fn needs_calls(&self) -> bool {
        self.shared.mode == Some(BondMode::Lacp)
    }

    /// Whether the device spreads TCP and UDP over IPv4 by our key.
    #[must_use]
    pub fn rss(&self) -> bool {
        self.plan.rss
    }

    /// Tells the device its MTU. A driver without this notion took it when it was configured.
    fn set_mtu(&self, mtu: u16) -> Result<(), PortError> {
        // SAFETY: the port is ours and not started.
        match unsafe { sys::tg_port_set_mtu(self.number(), mtu) } {
            code if code == 0 || code == -ENOTSUP => Ok(()),
            code => Err(self.refused(&format!("set the MTU to {mtu}"), code)),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let alone = self.eal.control();
        // SAFETY: the port and all its queues are gone, so nobody receives or sends. Stopping a stopped port
        // does nothing; a device that does not close cleanly is left to EAL.
        unsafe {
            let _ = sys::tg_port_stop(self.id.0);
            let _ = sys::tg_port_remove(self.id.0);
        }
        drop(alone);
        self.eal.release(self.id);
    }
}
