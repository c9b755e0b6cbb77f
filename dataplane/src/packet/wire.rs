//! Big-endian integers in byte slices, for the header views. Offsets are the views' own constants.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The 16-bit word at `at`, in host order.
#[inline]
pub(super) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    let mut word = [0; 2];
    word.copy_from_slice(&bytes[at..at + 2]);
    u16::from_be_bytes(word)
}

/// The 16-bit word at `at` as the machine loads it.
#[inline]
pub(super) fn load_u16(bytes: &[u8], at: usize) -> u16 {
    let mut word = [0; 2];
    word.copy_from_slice(&bytes[at..at + 2]);
    u16::from_ne_bytes(word)
}

/// Writes a word at `at` that [`load_u16`] finds there again.
#[inline]
pub(super) fn store_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// The 32-bit word at `at`, in host order.
#[inline]
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

/// The IPv4 address at `at`.
#[inline]
pub(super) fn get_address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(get_u32(bytes, at))
}

/// The IPv6 address at `at`.
#[inline]
pub(super) fn get_address6(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    Ipv6Addr::from(octets)
}

/// Writes a host-order word at `at`.
#[inline]
pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a host-order word at `at`.
#[inline]
pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Writes an IPv6 address at `at`.
#[inline]
pub(super) fn put_address6(bytes: &mut [u8], at: usize, address: Ipv6Addr) {
    bytes[at..at + 16].copy_from_slice(&address.octets());
}
