//! EAL, DPDK's start: memory, drivers, devices, threads. `control` starts it once, before anything else here.
//!
//! The last handle of [`Eal`] to go ends DPDK, if that is safe by then. Nothing here runs on the packet path.

mod error;
mod folder;
mod options;

pub use error::EalError;
pub use options::{EalOptions, Hugepages};

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use dpdk_sys as sys;

use crate::{c_string, log};
use folder::{Folder, TELEMETRY};

/// Set when EAL was started, or failed to: DPDK cannot start twice in a process.
static STARTED: AtomicBool = AtomicBool::new(false);

/// The number of an attached Ethernet device in DPDK's own order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub(crate) u16);

impl DeviceId {
    /// The number itself, as telemetry and received mbufs show it.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// A running DPDK. Cheap to clone; everything made from it holds one, so DPDK ends only after all of that.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where EAL was started: this thread has an lcore id, hence mempool caches, without a [`ThreadGuard`].
    thread: ThreadId,
    state: Mutex<State>,
    /// Held over what changes devices: DPDK's buses and ports are not made for two threads at once.
    control: Mutex<()>,
    /// The runtime folder: last but the arguments, so that it goes after DPDK has ended.
    _folder: Option<Folder>,
    /// EAL may keep pointers into its arguments.
    _arguments: Vec<CString>,
}

#[derive(Debug, Default)]
struct State {
    pools: Vec<PoolPtr>,
    claimed: Vec<u16>,
}

#[derive(Debug)]
struct PoolPtr(NonNull<sys::tg_pool>);

// SAFETY: a mempool's functions may be called from any thread; the pointer is valid until `Inner` drops.
unsafe impl Send for PoolPtr {}

impl Eal {
    /// Starts DPDK, on this thread and once per process. The thread's CPU affinity stays as it is, and EAL's
    /// log goes to the options' sink from here on.
    ///
    /// # Errors
    /// Says what is missing (hugepages, permission, a device) and what to do about it.
    pub fn init(options: &EalOptions) -> Result<Eal, EalError> {
        let host = options::Host::read();
        let arguments = options.arguments(&host)?;
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(EalError::AlreadyStarted);
        }
        let folder = Folder::take(&options.program, &options.prefix(&host))?;
        log::capture(options.log);
        log::forget();
        let arguments: Vec<CString> = arguments.iter().map(|a| c_string(a)).collect();
        let mut pointers: Vec<*mut c_char> = arguments.iter().map(|a| a.as_ptr().cast_mut()).collect();
        let count = i32::try_from(pointers.len()).unwrap_or(0);
        pointers.push(std::ptr::null_mut());
        // SAFETY: `pointers` is a terminated argv of strings that `Inner` keeps; EAL reorders the pointers only.
        let code = unsafe { sys::tg_eal_init(count, pointers.as_mut_ptr()) };
        if code < 0 {
            return Err(EalError::start(code, &log::explanation(), &host));
        }
        Ok(Eal(Arc::new(Inner {
            thread: thread::current().id(),
            state: Mutex::default(),
            control: Mutex::default(),
            _folder: folder,
            _arguments: arguments,
        })))
    }

    /// DPDK's version as it runs, such as `DPDK 22.11.11`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: returns a string constant of the library.
        unsafe { CStr::from_ptr(sys::tg_version()) }
            .to_string_lossy()
            .into_owned()
    }

    /// Whether packet memory lies in hugepages.
    #[must_use]
    pub fn has_hugepages(&self) -> bool {
        // SAFETY: reads a variable that EAL set at start.
        unsafe { sys::tg_eal_has_hugepages() == 1 }
    }

    /// The folder of this process's files, such as `/var/run/dpdk/PREFIX`.
    #[must_use]
    pub fn runtime_dir(&self) -> PathBuf {
        // SAFETY: returns a string that EAL keeps until the process ends.
        let dir = unsafe { CStr::from_ptr(sys::tg_runtime_dir()) };
        PathBuf::from(dir.to_string_lossy().into_owned())
    }

    /// The socket on which DPDK's telemetry answers.
    #[must_use]
    pub fn telemetry_socket(&self) -> PathBuf {
        self.runtime_dir().join(TELEMETRY)
    }

    /// Attaches one device, by PCI address (`0000:03:00.0`) or as a vdev string (`net_tap0,iface=wan`), and
    /// finds its port. A device that is attached already is only found.
    ///
    /// # Errors
    /// [`EalError::Device`] with DPDK's reason and what to do about it.
    pub fn probe(&self, devargs: &str) -> Result<DeviceId, EalError> {
        let text = c_string(devargs);
        {
            let _alone = self.control();
            log::forget();
            // SAFETY: EAL runs; the string is terminated and copied by DPDK; nobody else changes devices.
            let code = unsafe { sys::tg_dev_probe(text.as_ptr()) };
            if code < 0 && code != -EEXIST {
                return Err(EalError::device(devargs, code, &log::explanation()));
            }
        }
        self.find(devargs)
    }

    /// The port of a device that is attached already: by [`EalOptions::vdevs`], [`EalOptions::allow_pci`] or
    /// [`Eal::probe`].
    ///
    /// # Errors
    /// [`EalError::NoPort`] when the device has no Ethernet port.
    pub fn find(&self, devargs: &str) -> Result<DeviceId, EalError> {
        let text = c_string(devargs);
        let _alone = self.control();
        // SAFETY: EAL runs; the string is terminated and only read; nobody changes devices meanwhile.
        let port = unsafe { sys::tg_port_find(text.as_ptr()) };
        u16::try_from(port).map(DeviceId).map_err(|_| EalError::NoPort {
            device: devargs.to_owned(),
        })
    }

    /// Makes the calling thread known to DPDK, which gives it a cache in every mempool: without one, each
    /// allocation goes to the pool's shared ring.
    ///
    /// # Errors
    /// [`EalError::Thread`] when DPDK has no lcore id left.
    pub fn register_thread(&self) -> Result<ThreadGuard, EalError> {
        // A thread that EAL made, or the one that started it, has an id already.
        let registered = self.lcore_id().is_none();
        if registered {
            // SAFETY: EAL runs, as `self` exists, and this thread is not registered.
            let code = unsafe { sys::tg_thread_register() };
            if code < 0 {
                return Err(EalError::Thread {
                    reason: crate::errno_text(code),
                });
            }
        }
        Ok(ThreadGuard {
            registered,
            _eal: self.clone(),
            _here: PhantomData,
        })
    }

    /// The calling thread's lcore id, when it has one.
    #[must_use]
    pub fn lcore_id(&self) -> Option<u32> {
        // SAFETY: reads a thread-local variable.
        let id = unsafe { sys::tg_lcore_id() };
        (id != u32::MAX).then_some(id)
    }

    /// Reserves a device for one [`crate::Port`]. False when another port has it.
    pub(crate) fn claim(&self, id: DeviceId) -> bool {
        let mut state = self.state();
        let free = !state.claimed.contains(&id.0);
        if free {
            state.claimed.push(id.0);
        }
        free
    }

    pub(crate) fn release(&self, id: DeviceId) {
        self.state().claimed.retain(|&other| other != id.0);
    }

    /// Keeps a mempool until EAL ends.
    pub(crate) fn keep_pool(&self, pool: NonNull<sys::tg_pool>) {
        self.state().pools.push(PoolPtr(pool));
    }

    /// To be held while devices or ports are changed.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        self.0.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const EEXIST: i32 = 17;

/// While it lives, its thread has an lcore id. Cannot leave its thread.
#[derive(Debug)]
pub struct ThreadGuard {
    registered: bool,
    _eal: Eal,
    _here: PhantomData<*const ()>,
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        if self.registered {
            // SAFETY: this thread registered itself in `register_thread`; the guard is not `Send`.
            unsafe { sys::tg_thread_unregister() }
        }
    }
}

impl Drop for Inner {
    /// Ends DPDK, unless mbufs are still out or this is another thread than the one that started it: then its
    /// memory stays mapped until the process ends, which is what those mbufs need.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: pools in the list are valid until freed right below. Ports, rings and thread guards are gone,
        // as each holds an `Eal`; so no thread but this one has a mempool cache, and a count read as complete
        // means that no free is under way.
        let all_home = state
            .pools
            .iter()
            .all(|p| unsafe { sys::tg_pool_in_use(p.0.as_ptr()) } == 0);
        if !all_home || thread::current().id() != self.thread {
            return;
        }
        for pool in state.pools.drain(..) {
            // SAFETY: every mbuf of it is home, and no handle of it is left.
            unsafe { sys::tg_pool_free(pool.0.as_ptr()) }
        }
        // SAFETY: EAL runs since `init` and nothing that uses it is left.
        unsafe {
            sys::tg_eal_cleanup();
        }
    }
}
