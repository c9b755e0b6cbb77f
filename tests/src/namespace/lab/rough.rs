//! A bad cable between the gateway and server 1: a thread in the switch's place, which carries each frame by a rule.

use super::raw::RawSocket;
use super::{Host, Lab};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How long a frame is held at the most, in milliseconds, when no other passes it.
const HELD: i32 = 30;

/// Where a frame comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Gateway,
    Server,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Passes,
    IsLost,
    /// It passes twice.
    Doubles,
    /// It passes behind so many others of its side.
    IsLate(usize),
}

/// The cable. It ends with this value.
pub(crate) struct Rough {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rough {
    /// Takes the gateway and server 1 off the switch's bridge, and carries their frames by `rule`, which is given each
    /// frame from its Ethernet header on.
    pub(crate) fn start(lab: &Lab, rule: impl FnMut(Side, &[u8]) -> Fate + Send + 'static) -> Rough {
        let switch = lab.host("switch");
        let ends = ["gateway", "server1"].map(|interface| end(&switch, interface));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || carry(&ends, rule, &stopped));
        Rough {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Rough {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn end(switch: &Host, interface: &str) -> RawSocket {
    switch.run(&format!("ip link set {interface} nomaster promisc on"));
    RawSocket::listening(switch, interface)
}

fn carry(ends: &[RawSocket; 2], mut rule: impl FnMut(Side, &[u8]) -> Fate, stop: &AtomicBool) {
    let mut room = vec![0; 65_536];
    let mut late: [Vec<(usize, Vec<u8>)>; 2] = [Vec::new(), Vec::new()];
    while !stop.load(Ordering::Relaxed) {
        RawSocket::wait([&ends[0], &ends[1]], HELD);
        let mut idle = true;
        for (from, side) in [Side::Gateway, Side::Server].into_iter().enumerate() {
            let to = &ends[1 - from];
            while let Some(frame) = ends[from].receive(&mut room) {
                idle = false;
                match rule(side, frame) {
                    Fate::Passes => to.send(frame),
                    Fate::IsLost => {}
                    Fate::Doubles => {
                        to.send(frame);
                        to.send(frame);
                    }
                    Fate::IsLate(behind) => {
                        late[from].push((behind, frame.to_vec()));
                        continue;
                    }
                }
                overtake(&mut late[from], to);
            }
        }
        if idle {
            for (from, held) in late.iter_mut().enumerate() {
                for (_, frame) in held.drain(..) {
                    ends[1 - from].send(&frame);
                }
            }
        }
    }
}

/// One frame has passed those that are late; sends what has been passed often enough.
fn overtake(late: &mut Vec<(usize, Vec<u8>)>, to: &RawSocket) {
    for (behind, frame) in late.iter_mut() {
        *behind = behind.saturating_sub(1);
        if *behind == 0 {
            to.send(frame);
        }
    }
    late.retain(|(behind, _)| *behind > 0);
}
