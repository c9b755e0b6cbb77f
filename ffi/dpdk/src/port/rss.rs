//! RSS: by which key a device hashes, and which queue a hash leads to. Set by `control` while the port is started.

use dpdk_sys as sys;

use super::{Port, PortError, RSS_KEY_LEN, plan};

impl Port {
    /// Changes the key of the Toeplitz hash.
    ///
    /// # Errors
    /// The driver's reason; many virtual drivers cannot.
    pub fn set_rss_key(&self, key: &[u8; RSS_KEY_LEN]) -> Result<(), PortError> {
        let (key, features) = (key.as_ptr(), plan::RSS & self.info.features);
        // SAFETY: the port is ours; the key is as long as said.
        let code = unsafe { sys::tg_port_set_rss_key(self.number(), key, RSS_KEY_LEN as u8, features) };
        self.check("set the RSS key", code)
    }

    /// The key of the Toeplitz hash.
    ///
    /// # Errors
    /// The driver's reason; many virtual drivers cannot tell.
    pub fn rss_key(&self) -> Result<[u8; RSS_KEY_LEN], PortError> {
        let mut key = [0; RSS_KEY_LEN];
        // SAFETY: the port is ours; there is room for so many bytes.
        let code = unsafe { sys::tg_port_rss_key(self.number(), key.as_mut_ptr(), RSS_KEY_LEN as u8) };
        self.check("read the RSS key", code).map(|()| key)
    }

    /// Sets the redirection table: the queue of each hash, by its lowest bits. `queue` is asked for each entry; what it
    /// says must be one of the port's queues.
    ///
    /// # Errors
    /// The driver's reason; many virtual drivers have no such table.
    pub fn set_redirection(&self, queue: impl Fn(u16) -> u16) -> Result<(), PortError> {
        let size = self.info.reta_size;
        let queues: Vec<u16> = (0..size).map(queue).collect();
        // SAFETY: the port is ours; there are `size` entries.
        let code = unsafe { sys::tg_port_set_reta(self.number(), size, queues.as_ptr()) };
        self.check("set the RSS redirection table", code)
    }

    /// The queue of each entry of the redirection table.
    ///
    /// # Errors
    /// The driver's reason; many virtual drivers have no such table.
    pub fn redirection(&self) -> Result<Vec<u16>, PortError> {
        let mut queues = vec![0; usize::from(self.info.reta_size)];
        // SAFETY: the port is ours; there is room for as many entries as said.
        let code = unsafe { sys::tg_port_reta(self.number(), self.info.reta_size, queues.as_mut_ptr()) };
        self.check("read the RSS redirection table", code)
            .map(|()| queues)
    }
}

/// The Toeplitz hash that a device with this key computes: over source address, destination address, and source
/// port << 16 | destination port for the 4-tuple of IPv4, all in host order. At most 9 words.
#[must_use]
pub fn soft_rss(words: &[u32], key: &[u8; RSS_KEY_LEN]) -> u32 {
    let count = words.len().min(RSS_KEY_LEN / 4 - 1);
    // SAFETY: `count` words are read, and one word of the key more than that.
    unsafe { sys::tg_softrss(words.as_ptr(), count as u32, key.as_ptr()) }
}
