//! Keeps the kernel's addresses as the configuration in force says: on `lo` the VIPs that are announced and can be
//! served, for a routing daemon to export, and on each port's device the port's own. Of a server that is gone or has
//! weight 0 the snapshots tell, so each is looked at once.

use super::helper::{Helper, LOOPBACK};
use crate::config::Config;
use crate::gateway::{Gateway, State};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How often to look whether there is another snapshot.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait after the kernel has refused something.
const RETRY: Duration = Duration::from_secs(5);
/// How long packets are moved on after VIPs have been withdrawn: the routing daemon, whose session goes by us, has to
/// tell the routers, and these have to send their packets elsewhere.
const FAREWELL: Duration = Duration::from_secs(1);

/// A device, and one of its addresses with its length.
type Place = (String, (IpAddr, u8));

/// Somebody who keeps the addresses.
pub(in super::super) struct Keeper {
    stop: Arc<AtomicBool>,
    done: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Keeps the addresses on a thread of the runtime that it is called in.
    pub(in super::super) fn start(gateway: &Arc<Gateway>, helper: Option<Helper>) -> Keeper {
        let stop = Arc::new(AtomicBool::new(false));
        let done = helper.map(|helper| {
            let (gateway, stop) = (Arc::clone(gateway), Arc::clone(&stop));
            tokio::task::spawn_blocking(move || keep(&gateway, helper, &stop))
        });
        Keeper { stop, done }
    }

    /// Withdraws the VIPs, and lets those who send to them hear of it.
    pub(in super::super) async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(done) = self.done {
            let _ = done.await;
        }
    }
}

fn keep(gateway: &Gateway, mut helper: Helper, stop: &AtomicBool) {
    let mut present = on_devices(&gateway.state().config);
    let mut epoch = None;
    let mut retry: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let wanted = {
            let state = gateway.state();
            let again = retry.is_some_and(|at| Instant::now() >= at);
            (again || epoch.replace(state.model.epoch()) != Some(state.model.epoch())).then(|| wanted(&state))
        };
        if let Some(wanted) = wanted {
            let refused = approach(&mut present, &wanted, |add, (device, address)| {
                helper.change(add, device, *address)
            });
            retry = refused.then(|| Instant::now() + RETRY);
        }
        sleep(LOOK);
    }
    let announced = present.iter().any(|(device, _)| device == LOOPBACK);
    helper.end();
    if announced {
        tracing::info!("no VIP is announced any more; packets are moved on for a second");
        sleep(FAREWELL);
    }
}

/// Brings what is present to what is wanted; whether anything was refused, and is to be tried again.
fn approach(
    present: &mut BTreeSet<Place>,
    wanted: &BTreeSet<Place>,
    mut change: impl FnMut(bool, &Place) -> anyhow::Result<()>,
) -> bool {
    let gone = present.difference(wanted).map(|place| (false, place.clone()));
    let new = wanted.difference(present).map(|place| (true, place.clone()));
    let changes: Vec<_> = gone.chain(new).collect();
    let mut refused = false;
    for (add, place) in changes {
        let (device, (address, length)) = &place;
        match change(add, &place) {
            Ok(()) => {
                if add {
                    tracing::info!(device, "the kernel has {address}/{length} now");
                    present.insert(place);
                } else {
                    tracing::info!(device, "the kernel has {address}/{length} no more");
                    present.remove(&place);
                }
            }
            Err(error) => {
                refused = true;
                let kept = if add { "does not get" } else { "keeps" };
                tracing::warn!(device, "the kernel {kept} {address}/{length}: {error:#}");
            }
        }
    }
    refused
}

fn wanted(state: &State) -> BTreeSet<Place> {
    let is_announced = state.config.announces();
    let vips = state.model.usable_vips().into_iter();
    let vips = vips.filter(|vip| is_announced(*vip)).map(|vip| {
        let length = if vip.is_ipv4() { 32 } else { 128 };
        (LOOPBACK.to_owned(), (vip, length))
    });
    vips.chain(on_devices(&state.config)).collect()
}

/// The ports' own addresses.
fn on_devices(config: &Config) -> BTreeSet<Place> {
    let ports = config.ports.iter();
    let own = ports.filter_map(|port| Some((port, port.exception.as_ref()?)));
    own.flat_map(|(port, own)| {
        let addresses = port.own_addresses().into_iter();
        addresses.map(move |address| (own.device.clone(), address))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(device: &str, address: [u8; 4]) -> Place {
        (device.to_owned(), (address.into(), 32))
    }

    #[test]
    fn what_is_refused_is_tried_again() {
        let (old, new, odd) = (place("lo", [1; 4]), place("lo", [2; 4]), place("tg0", [3; 4]));
        let mut present = BTreeSet::from([old.clone()]);
        let wanted = BTreeSet::from([new.clone(), odd.clone()]);
        let mut asked = Vec::new();
        let refused = approach(&mut present, &wanted, |add, place| {
            asked.push((add, place.clone()));
            anyhow::ensure!(place.0 == "lo", "refused");
            Ok(())
        });
        assert!(refused);
        assert_eq!(asked, [(false, old), (true, new.clone()), (true, odd.clone())]);
        assert_eq!(present, BTreeSet::from([new]));
        let mut asked = Vec::new();
        let refused = approach(&mut present, &wanted, |add, place| {
            asked.push((add, place.clone()));
            Ok(())
        });
        assert!(!refused && present == wanted);
        assert_eq!(asked, [(true, odd)]);
    }
}
