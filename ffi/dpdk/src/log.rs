//! DPDK's log: handed to the caller's sink line by line, and kept for the moment so that an error can quote the
//! line that explains it. DPDK's functions return bare numbers; the reason is only ever in the log.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How grave a line of DPDK's log is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something works otherwise than asked.
    Warning,
    /// Normal, but worth seeing.
    Info,
    /// For those who search a fault.
    Debug,
}

impl LogLevel {
    /// From DPDK's number, which is syslog's plus one.
    fn from_dpdk(level: u32) -> LogLevel {
        match level {
            0..=4 => LogLevel::Error,
            5 => LogLevel::Warning,
            6 | 7 => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }
}

/// Where lines of DPDK's log go: without line end, from any thread. It must not call into this crate.
pub type LogSink = fn(LogLevel, &str);

const KEPT: usize = 16;
/// Follows each failed attach, after the line with the reason.
const SAYS_NOTHING: &str = "Failed to attach device on primary process";

static SINK: OnceLock<LogSink> = OnceLock::new();
/// The last lines at warning or above, oldest first.
static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn recent() -> MutexGuard<'static, VecDeque<String>> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes over DPDK's log. Without a sink only warnings and errors are kept, nothing is printed.
pub(crate) fn capture(sink: Option<LogSink>) {
    if let Some(sink) = sink {
        // A second EAL in one process is refused before this, so the first sink is the only one.
        let _ = SINK.set(sink);
    }
    // SAFETY: `on_text` lives as long as the process and may be called from any thread.
    let _ = unsafe { dpdk_sys::tg_log_capture(Some(on_text)) };
}

/// Forgets what was said before; what [`explanation`] returns afterwards belongs to the step that follows.
pub(crate) fn forget() {
    recent().clear();
}

/// The warnings and errors since [`forget`], as one line; empty when there were none.
pub(crate) fn explanation() -> String {
    let lines = recent();
    let told = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.contains(SAYS_NOTHING));
    told.collect::<Vec<_>>().join("; ")
}

unsafe extern "C" fn on_text(level: u32, text: *const c_char, len: usize) {
    // SAFETY: the shim passes the bytes that DPDK just wrote; they stay as they are until we return.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        accept(LogLevel::from_dpdk(level), line);
    }
}

fn accept(level: LogLevel, line: &str) {
    if level <= LogLevel::Warning {
        let mut lines = recent();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
    if let Some(sink) = SINK.get() {
        sink(level, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_grave_lines() {
        forget();
        accept(LogLevel::from_dpdk(7), "just information");
        assert_eq!(explanation(), "");
        for n in 0..20 {
            accept(LogLevel::from_dpdk(4), &format!("line {n}"));
        }
        assert!(explanation().starts_with("line 4; line 5"));
        assert!(explanation().ends_with("line 19"));
        forget();
        assert_eq!(explanation(), "");
    }
}
