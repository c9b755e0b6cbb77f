//! Waiting for conditions, never for time.

use std::time::{Duration, Instant};

/// How long anything may take that takes milliseconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until `look` sees something.
///
/// # Panics
/// It did not before the deadline.
pub(crate) fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(
            Instant::now() < deadline,
            "gave up after {limit:?} waiting for {what}"
        );
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
