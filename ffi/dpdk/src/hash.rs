//! DPDK's own hash table, from 16-byte keys to 32-bit values: the baseline that the connection table is measured
//! against, and nothing that the gateway runs on otherwise.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use dpdk_sys as sys;
use thiserror::Error;

use crate::mempool::node;
use crate::{Eal, c_string, errno_text};

/// The key's length, bytes.
pub const KEY_LEN: usize = sys::TG_HASH_KEY_LEN as usize;
/// How many keys [`Hash::lookup_bulk`] takes.
pub const BULK_MAX: usize = sys::TG_HASH_BULK_MAX as usize;
/// The value that stands for "not there" in [`Hash::lookup_bulk`]. It cannot be stored.
pub const MISS: u32 = sys::TG_HASH_MISS;

/// Why the table refuses.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum HashError {
    /// It cannot be made.
    #[error("hash {name}: {reason}: names are unique and at most 25 characters; or give DPDK more memory")]
    Create {
        /// The table.
        name: String,
        /// DPDK's reason.
        reason: String,
    },
    /// No room for this key: the table is full, or, without extendable buckets, its two buckets are.
    #[error("the hash has no room for this key")]
    Full,
    /// [`MISS`] cannot be stored.
    #[error("the value {MISS} stands for a miss and cannot be stored")]
    Value,
}

/// The table. One thread at a time.
#[derive(Debug)]
pub struct Hash {
    raw: NonNull<sys::tg_hash>,
    _eal: Eal,
    _one_thread: PhantomData<Cell<()>>,
}

// SAFETY: the table belongs to no thread; `Hash` is its only handle and is not `Sync`, so one thread at a time
// uses it, which is what a table without concurrency flags asks for.
unsafe impl Send for Hash {}

impl Hash {
    /// A table for `entries` keys. Extendable buckets let it take all of them; without, a key whose two buckets
    /// are full is refused earlier. `socket` is a NUMA node, None for any. The hash function is CRC32c.
    ///
    /// # Errors
    /// Too little memory, or a name that is taken or too long.
    pub fn new(
        eal: &Eal,
        name: &str,
        entries: u32,
        extendable: bool,
        socket: Option<u32>,
    ) -> Result<Hash, HashError> {
        let text = c_string(name);
        let mut code = 0;
        let extendable = i32::from(extendable);
        // SAFETY: EAL runs, as `eal` exists; the name is terminated and copied by DPDK.
        let raw =
            unsafe { sys::tg_hash_create(text.as_ptr(), entries, node(socket), extendable, &raw mut code) };
        let create = || HashError::Create {
            name: name.to_owned(),
            reason: errno_text(code),
        };
        let raw = NonNull::new(raw).ok_or_else(create)?;
        Ok(Hash {
            raw,
            _eal: eal.clone(),
            _one_thread: PhantomData,
        })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`HashError::Full`], or [`HashError::Value`] for [`MISS`].
    pub fn add(&mut self, key: &[u8; KEY_LEN], value: u32) -> Result<(), HashError> {
        if value == MISS {
            return Err(HashError::Value);
        }
        // SAFETY: the table is valid and ours alone; the key has the table's key length.
        let code = unsafe { sys::tg_hash_add(self.raw.as_ptr(), key.as_ptr(), value) };
        if code < 0 { Err(HashError::Full) } else { Ok(()) }
    }

    /// Removes a key; false when it was not there.
    pub fn remove(&mut self, key: &[u8; KEY_LEN]) -> bool {
        // SAFETY: as in `add`.
        unsafe { sys::tg_hash_remove(self.raw.as_ptr(), key.as_ptr()) == 0 }
    }

    /// The value of a key.
    #[inline]
    #[must_use]
    pub fn lookup(&self, key: &[u8; KEY_LEN]) -> Option<u32> {
        // SAFETY: the table is valid and not written meanwhile; the key has the table's key length.
        let value = unsafe { sys::tg_hash_lookup(self.raw.as_ptr(), key.as_ptr()) };
        (value != MISS).then_some(value)
    }

    /// The values of up to [`BULK_MAX`] keys at once, [`MISS`] for each one that is not there. Looks up as many
    /// as `keys`, `values` and the limit allow, and returns how many that is.
    #[inline]
    pub fn lookup_bulk(&self, keys: &[[u8; KEY_LEN]], values: &mut [u32]) -> usize {
        let count = keys.len().min(values.len()).min(BULK_MAX);
        if count > 0 {
            // SAFETY: as in `lookup`; `count` keys lie one after the other, there is room for `count` values.
            unsafe {
                let keys = keys.as_ptr().cast();
                sys::tg_hash_lookup_bulk(self.raw.as_ptr(), keys, count as u32, values.as_mut_ptr());
            }
        }
        count
    }

    /// How many keys are in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: the table is valid as long as `self`.
        unsafe { sys::tg_hash_count(self.raw.as_ptr()) as usize }
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Hash {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { sys::tg_hash_free(self.raw.as_ptr()) }
    }
}
