//! How reloads have gone: what `show status` and the metrics tell of them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Reloads so far. The configuration of the start counts as the first success.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Reloads {
    /// Reloads that succeeded.
    pub succeeded: u64,
    /// Reloads that were refused, or that a worker did not take.
    pub failed: u64,
    /// Whether the last one succeeded.
    pub last_succeeded: bool,
    /// When the configuration in force was loaded, in seconds of UNIX time.
    pub loaded_at: u64,
}

impl Default for Reloads {
    /// No reload yet; loaded now.
    fn default() -> Reloads {
        Reloads {
            succeeded: 0,
            failed: 0,
            last_succeeded: true,
            loaded_at: unix_time(),
        }
    }
}

impl Reloads {
    pub(super) fn count(&mut self, success: bool) {
        self.last_succeeded = success;
        if success {
            self.succeeded += 1;
            self.loaded_at = unix_time();
        } else {
            self.failed += 1;
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "shown to people and Prometheus; nothing is timed by it"
)]
fn unix_time() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
