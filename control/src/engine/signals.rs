//! Signals as messages. They are blocked in every thread and taken by one that waits for nothing else, so that no
//! worker is ever interrupted and nothing has to be safe in a signal handler.

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::sync::mpsc::{Receiver, channel};

/// What the process is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Read the configuration again (SIGHUP).
    Reload,
    /// End in order (SIGTERM, SIGINT).
    End,
}

/// Takes over SIGHUP, SIGTERM and SIGINT. To be called before any other thread starts: threads inherit what is
/// blocked.
///
/// # Errors
/// The system refuses a thread.
pub fn take() -> Result<Receiver<Request>> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT] {
        set.add(signal);
    }
    set.thread_block().context("cannot block signals")?;
    let (sender, receiver) = channel();
    let wait = move || {
        while let Ok(signal) = set.wait() {
            let request = match signal {
                Signal::SIGHUP => Request::Reload,
                _ => Request::End,
            };
            if sender.send(request).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .context("no thread for signals")?;
    Ok(receiver)
}
