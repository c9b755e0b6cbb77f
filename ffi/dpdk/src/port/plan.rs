//! From what was asked and what the device can do to what is asked of the device.

use std::mem::zeroed;

use dpdk_sys as sys;

use super::error::failed;
use super::{PortError, PortOptions, RSS_KEY_LEN};
use crate::{DeviceId, Mempool, text_of};

pub(super) const RSS: u32 = sys::TG_FEATURE_RSS_IPV4_TCP | sys::TG_FEATURE_RSS_IPV4_UDP;
const CHECKSUM: u32 =
    sys::TG_FEATURE_RX_IPV4_CHECKSUM | sys::TG_FEATURE_RX_TCP_CHECKSUM | sys::TG_FEATURE_RX_UDP_CHECKSUM;
const ETHERNET_MIN_MTU: u16 = 68;

/// How many descriptors a queue may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorLimits {
    /// At least.
    pub min: u16,
    /// At most.
    pub max: u16,
    /// A multiple of this.
    pub align: u16,
}

impl DescriptorLimits {
    fn from_raw(raw: sys::tg_descriptor_limits) -> DescriptorLimits {
        DescriptorLimits {
            min: raw.min,
            max: raw.max,
            align: raw.align.max(1),
        }
    }

    /// The number nearest to `wanted` that the device takes. Drivers that do not care state 0 as their maximum.
    fn clamp(self, wanted: u16) -> u16 {
        let max = if self.max == 0 { u16::MAX } else { self.max };
        let bounded = wanted.max(1).min(max).max(self.min);
        let down = bounded - bounded % self.align;
        if down >= self.min.max(1) {
            down
        } else {
            down.saturating_add(self.align).min(max)
        }
    }
}

/// What a device is and can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortInfo {
    /// The device's name: a PCI address, or a vdev's name.
    pub device: String,
    /// The driver's name.
    pub driver: String,
    /// The most receive queues.
    pub max_rx_queues: u16,
    /// The most transmit queues.
    pub max_tx_queues: u16,
    /// Descriptors of a receive queue.
    pub rx_descriptors: DescriptorLimits,
    /// Descriptors of a transmit queue.
    pub tx_descriptors: DescriptorLimits,
    /// The smallest MTU.
    pub min_mtu: u16,
    /// The largest MTU.
    pub max_mtu: u16,
    /// The MTU before it was configured.
    pub mtu: u16,
    /// Whether it checks IPv4 header checksums.
    pub ipv4_checksum: bool,
    /// Whether it checks TCP and UDP checksums.
    pub l4_checksum: bool,
    /// Whether it spreads a long frame over several buffers.
    pub scatter: bool,
    /// Whether it hashes TCP and UDP over IPv4 by a key of ours.
    pub rss: bool,
    /// Whether it reports that hash with each frame.
    pub rss_hash: bool,
    /// The size of its redirection table; 0 when it has none.
    pub reta_size: u16,
    /// Its NUMA node.
    pub socket: Option<u32>,
    /// Bytes of a frame that are not MTU.
    pub(super) frame_overhead: u32,
    /// The shim's feature bits.
    pub(super) features: u32,
}

impl PortInfo {
    /// Asks the device.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn read(id: DeviceId) -> Result<PortInfo, PortError> {
        // SAFETY: all zeros is a valid value of a struct of numbers.
        let mut raw: sys::tg_port_info = unsafe { zeroed() };
        // SAFETY: a `DeviceId` comes from a running EAL; the id is checked by DPDK; `raw` is a place for the struct.
        let code = unsafe { sys::tg_port_info(id.number(), &raw mut raw) };
        if code != 0 {
            return Err(failed(
                &format!("number {}", id.number()),
                "ask what the device can do",
                code,
            ));
        }
        Ok(PortInfo::from_raw(&raw))
    }

    fn from_raw(raw: &sys::tg_port_info) -> PortInfo {
        let has = |feature: u32| raw.features & feature == feature;
        let longest = raw
            .max_frame
            .saturating_sub(raw.frame_overhead)
            .min(u32::from(u16::MAX));
        let longest = u16::try_from(longest).unwrap_or(u16::MAX);
        PortInfo {
            device: text_of(&raw.device),
            driver: text_of(&raw.driver),
            max_rx_queues: raw.max_rx_queues,
            max_tx_queues: raw.max_tx_queues,
            rx_descriptors: DescriptorLimits::from_raw(raw.rx_descriptors),
            tx_descriptors: DescriptorLimits::from_raw(raw.tx_descriptors),
            min_mtu: raw.min_mtu.max(ETHERNET_MIN_MTU),
            max_mtu: if raw.max_mtu == 0 {
                longest
            } else {
                raw.max_mtu.min(longest)
            },
            mtu: raw.mtu,
            ipv4_checksum: has(sys::TG_FEATURE_RX_IPV4_CHECKSUM),
            l4_checksum: has(sys::TG_FEATURE_RX_TCP_CHECKSUM | sys::TG_FEATURE_RX_UDP_CHECKSUM),
            scatter: has(sys::TG_FEATURE_RX_SCATTER),
            rss: raw.features & RSS != 0,
            rss_hash: has(sys::TG_FEATURE_RX_RSS_HASH),
            reta_size: raw.reta_size,
            socket: u32::try_from(raw.socket).ok(),
            frame_overhead: raw.frame_overhead,
            features: raw.features,
        }
    }
}

/// What is asked of the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) rx_queues: u16,
    pub(super) tx_queues: u16,
    pub(super) rss: bool,
    rx_descriptors: u16,
    tx_descriptors: u16,
    mtu: u16,
    features: u32,
}

impl Plan {
    pub(super) fn new(info: &PortInfo, options: &PortOptions) -> Result<Plan, PortError> {
        let room = options.mempool.data_room();
        Plan::from_parts(info, options.into(), room)
    }

    fn from_parts(info: &PortInfo, wanted: Wanted, data_room: u16) -> Result<Plan, PortError> {
        let mtu = wanted.mtu.unwrap_or(info.mtu);
        if !(info.min_mtu..=info.max_mtu).contains(&mtu) {
            let device = info.device.clone();
            return Err(PortError::Mtu {
                device,
                wanted: mtu,
                min: info.min_mtu,
                max: info.max_mtu,
            });
        }
        let needed = u32::from(mtu) + info.frame_overhead + u32::from(Mempool::HEADROOM);
        let fits = needed <= u32::from(data_room);
        // A device that frees or receives by reference (rings) states no buffers, and is not told apart here.
        if !fits && !info.scatter {
            return Err(PortError::Buffer {
                device: info.device.clone(),
                mtu,
                needed,
                have: data_room,
            });
        }
        let rss = wanted.rss && info.rss;
        let mut features = sys::TG_FEATURE_TX_MULTI_SEGS;
        if wanted.checksum {
            features |= CHECKSUM;
        }
        if !fits {
            // Only where it is needed: with it, drivers leave their fastest receive path.
            features |= sys::TG_FEATURE_RX_SCATTER;
        }
        if rss {
            features |= RSS | sys::TG_FEATURE_RX_RSS_HASH;
        }
        Ok(Plan {
            rx_queues: wanted.rx_queues.max(1).min(info.max_rx_queues),
            tx_queues: wanted.tx_queues.max(1).min(info.max_tx_queues),
            rss,
            rx_descriptors: info.rx_descriptors.clamp(wanted.rx_descriptors),
            tx_descriptors: info.tx_descriptors.clamp(wanted.tx_descriptors),
            mtu,
            features: features & info.features,
        })
    }

    pub(super) fn setup(&self, options: &PortOptions) -> sys::tg_port_setup {
        sys::tg_port_setup {
            pool: options.mempool.as_ptr(),
            features: self.features,
            rx_queues: self.rx_queues,
            tx_queues: self.tx_queues,
            rx_descriptors: self.rx_descriptors,
            tx_descriptors: self.tx_descriptors,
            mtu: self.mtu,
            rss_key: options.rss_key.unwrap_or([0; RSS_KEY_LEN]),
        }
    }
}

/// The part of [`PortOptions`] that is compared with limits.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    rx_queues: u16,
    tx_queues: u16,
    rx_descriptors: u16,
    tx_descriptors: u16,
    mtu: Option<u16>,
    checksum: bool,
    rss: bool,
}

impl From<&PortOptions> for Wanted {
    fn from(options: &PortOptions) -> Wanted {
        Wanted {
            rx_queues: options.rx_queues,
            tx_queues: options.tx_queues,
            rx_descriptors: options.rx_descriptors,
            tx_descriptors: options.tx_descriptors,
            mtu: options.mtu,
            checksum: options.checksum,
            rss: options.rss_key.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted {
        rx_queues: 4,
        tx_queues: 4,
        rx_descriptors: 512,
        tx_descriptors: 512,
        mtu: None,
        checksum: true,
        rss: true,
    };
    const ROOM: u16 = Mempool::DEFAULT_DATA_ROOM;

    /// A small virtual device: one queue, frames of up to 2,048 bytes, nothing else.
    fn poor() -> PortInfo {
        // SAFETY: all zeros is a valid value of a struct of numbers.
        let mut raw: sys::tg_port_info = unsafe { zeroed() };
        raw.max_frame = 2048;
        raw.frame_overhead = 18;
        raw.max_mtu = u16::MAX;
        raw.mtu = 1500;
        raw.max_rx_queues = 1;
        raw.max_tx_queues = 1;
        raw.socket = -1;
        PortInfo::from_raw(&raw)
    }

    #[test]
    fn a_poor_device_gets_what_it_can() {
        let plan = Plan::from_parts(&poor(), WANTED, ROOM).unwrap();
        assert_eq!(
            (plan.rx_queues, plan.tx_queues, plan.rss, plan.features),
            (1, 1, false, 0)
        );
        assert_eq!((plan.rx_descriptors, plan.mtu), (512, 1500));
        assert_eq!((poor().max_mtu, poor().socket), (2030, None));
    }

    #[test]
    fn an_mtu_beyond_the_device_is_refused() {
        let wanted = Wanted {
            mtu: Some(9000),
            ..WANTED
        };
        let error = Plan::from_parts(&poor(), wanted, ROOM).unwrap_err().to_string();
        assert!(
            error.contains("MTU 9000") && error.contains("68 to 2030"),
            "{error}"
        );
    }

    #[test]
    fn jumbo_takes_scatter_or_larger_buffers() {
        let wanted = Wanted {
            mtu: Some(9000),
            ..WANTED
        };
        let mut info = PortInfo {
            max_mtu: 9600,
            ..poor()
        };
        let error = Plan::from_parts(&info, wanted, ROOM).unwrap_err().to_string();
        assert!(error.contains("needs buffers of 9146 bytes"), "{error}");
        assert_eq!(Plan::from_parts(&info, wanted, 9146).unwrap().features, 0);
        info.scatter = true;
        info.features = sys::TG_FEATURE_RX_SCATTER | CHECKSUM;
        assert_eq!(
            Plan::from_parts(&info, wanted, ROOM).unwrap().features,
            info.features
        );
        assert_eq!(Plan::from_parts(&info, WANTED, ROOM).unwrap().features, CHECKSUM);
    }

    #[test]
    fn descriptors_follow_limits_and_alignment() {
        let limits = |min, max, align| DescriptorLimits { min, max, align };
        assert_eq!(limits(0, 0, 1).clamp(512), 512);
        assert_eq!(limits(0, 0, 1).clamp(0), 1);
        assert_eq!(limits(0, 256, 1).clamp(512), 256);
        assert_eq!(limits(64, 4096, 32).clamp(1), 64);
        assert_eq!(limits(50, 4096, 32).clamp(1), 64);
        assert_eq!(limits(64, 4096, 32).clamp(1000), 992);
    }
}
