//! The exception path between workers and TAP devices. A worker only puts packets into a ring of its own, and the first
//! one takes those of the kernel out of another; the system calls are this thread's. Neither waits for the other: a full
//! ring is a counted drop on the way in, and on the way out the kernel's own queue of the device.

use super::super::io::Frame;
use super::tap::Device;
use anyhow::{Context, Result};
use crossbeam::queue::ArrayQueue;
use dataplane::packet::{Packet, PortId};
use dataplane::worker::BURST;
use dpdk::{Eal, Mbuf, Mempool};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::unistd::Pid;
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Packets that may wait for the kernel, of each worker, and for the first worker.
pub(in super::super) const ROOM: usize = 1024;
/// Those of them that are kept for vital packets.
const RESERVE: usize = ROOM / 4;
/// Packets that one round takes from each ring and each device.
const ROUND: usize = 2 * BURST;
/// How long the thread sleeps without work: a worker cannot wake it, so this is what a packet waits at the most. Shorter
/// while packets come.
const REST: i64 = 1000;
const SHORT_REST: i64 = 100;
/// Rounds without work after which it sleeps longer.
const PATIENCE: u32 = 100;

type Ring = Arc<ArrayQueue<(PortId, Frame)>>;

/// A worker's way to the kernel.
pub(in super::super) struct KernelWay {
    give: Ring,
    /// Of the first worker.
    take: Option<Ring>,
}

impl KernelWay {
    /// Gives a packet to the kernel; gives it back when too many wait.
    pub(in super::super) fn give(&self, port: PortId, vital: bool, packet: Frame) -> Result<(), Frame> {
        if !vital && self.give.len() >= ROOM - RESERVE {
            return Err(packet);
        }
        self.give.push((port, packet)).map_err(|(_, packet)| packet)
    }

    /// What the kernel wants to be sent next.
    #[inline]
    pub(in super::super) fn take(&self) -> Option<(PortId, Frame)> {
        self.take.as_ref()?.pop()
    }
}

/// The running path.
pub(in super::super) struct Path {
    devices: Arc<Vec<Device>>,
    /// The carrier of each device, as told last: all have one at first.
    carriers: Mutex<Vec<bool>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Starts it between these devices and so many workers, on these CPUs.
    pub(super) fn start(
        devices: Vec<Device>,
        workers: usize,
        eal: &Eal,
        pool: &Mempool,
        cpus: CpuSet,
    ) -> Result<(Path, Vec<Option<KernelWay>>)> {
        let ring = || Arc::new(ArrayQueue::new(ROOM));
        let to_kernel: Vec<Ring> = (0..workers).map(|_| ring()).collect();
        let from_kernel = ring();
        let ways = to_kernel.iter().enumerate().map(|(number, give)| {
            Some(KernelWay {
                give: Arc::clone(give),
                take: (number == 0).then(|| Arc::clone(&from_kernel)),
            })
        });
        let ways = ways.collect();
        let devices = Arc::new(devices);
        let stop = Arc::new(AtomicBool::new(false));
        let (told, ready) = sync_channel(1);
        let (eal, pool, stopped) = (eal.clone(), pool.clone(), Arc::clone(&stop));
        let carrier = Carrier {
            devices: Arc::clone(&devices),
            to_kernel,
            from_kernel,
            pool,
        };
        let run = move || {
            // The thread that starts this one is bound to the first CPU, by DPDK.
            let spread = sched_setaffinity(Pid::from_raw(0), &cpus).context("the exception path's CPUs");
            let prepared = spread.and_then(|()| Ok(eal.register_thread()?));
            match prepared {
                Ok(_registered) => {
                    let _ = told.send(Ok(()));
                    carrier.run(&stopped);
                }
                Err(error) => drop(told.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new()
            .name("exception".to_owned())
            .spawn(run);
        let thread = thread.context("no thread for the exception path")?;
        ready.recv().context("the exception path died at its start")??;
        let carriers = Mutex::new(vec![true; devices.len()]);
        let path = Path {
            devices,
            carriers,
            stop,
            thread: Some(thread),
        };
        Ok((path, ways))
    }

    /// Lets each device have a carrier where its port has a link.
    pub(super) fn mirror_links(&self, is_up: impl Fn(usize) -> bool) {
        let mut carriers = self.carriers.lock();
        for (device, carrier) in self.devices.iter().zip(carriers.iter_mut()) {
            let up = is_up(device.link);
            if *carrier == up {
                continue;
            }
            match device.tap.set_carrier(up) {
                Ok(()) => tracing::info!(device = device.name, up, "the device follows its port's link"),
                Err(error) => {
                    tracing::warn!(device = device.name, "the carrier cannot be told: {error}");
                }
            }
            *carrier = up;
        }
    }
}

/// Ends it; the devices are gone then.
impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the exception path died of a panic");
        }
    }
}

/// What the thread works with.
struct Carrier {
    devices: Arc<Vec<Device>>,
    to_kernel: Vec<Ring>,
    from_kernel: Ring,
    pool: Mempool,
}

impl Carrier {
    fn run(&self, stop: &AtomicBool) {
        let mut idle = 0;
        while !stop.load(Ordering::Relaxed) {
            if self.round() > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            self.rest(if idle < PATIENCE { SHORT_REST } else { REST });
        }
    }

    /// Moves what there is, a round at the most; how many packets that were.
    fn round(&self) -> usize {
        let mut moved = 0;
        for ring in &self.to_kernel {
            for _ in 0..ROUND {
                let Some((port, packet)) = ring.pop() else { break };
                moved += 1;
                let device = self.devices.iter().find(|device| device.port == port);
                if let Some(device) = device {
                    // The device may be down, or the kernel have no room: then it is lost, as on any cable.
                    let _ = device.tap.send(packet.bytes());
                }
            }
        }
        for device in &*self.devices {
            for _ in 0..ROUND {
                let Some(frame) = self.receive(device) else { break };
                moved += 1;
                // There was room, and nobody else puts anything in.
                let _ = self.from_kernel.push((device.port, frame));
            }
        }
        moved
    }

    /// The next frame that the kernel sends by a device; none while the worker has no room for one.
    fn receive(&self, device: &Device) -> Option<Frame> {
        if self.from_kernel.is_full() {
            return None;
        }
        let mut mbuf: Mbuf = self.pool.alloc()?;
        if !mbuf.resize(device.frame) {
            return None;
        }
        let length = loop {
            match device.tap.receive(mbuf.bytes_mut()) {
                Ok(length) => break length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // None there, or the device is down.
                Err(_) => return None,
            }
        };
        (length > 0 && mbuf.resize(length)).then(|| Frame::from(mbuf))
    }

    /// Waits for the kernel so many microseconds at most.
    fn rest(&self, micros: i64) {
        if self.from_kernel.is_full() {
            // Devices would say that they have something.
            return std::thread::sleep(Duration::from_micros(micros.unsigned_abs()));
        }
        let devices = self.devices.iter();
        let mut ready: Vec<PollFd<'_>> = devices
            .map(|device| PollFd::new(device.tap.as_fd(), PollFlags::POLLIN))
            .collect();
        let _ = ppoll(&mut ready, Some(TimeSpec::microseconds(micros)), None);
        // A device that is down is ready with an error at once.
        if ready.iter().any(|device| {
            let events = device.revents().unwrap_or(PollFlags::empty());
            events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
        }) {
            std::thread::sleep(Duration::from_micros(micros.unsigned_abs()));
        }
    }
}
