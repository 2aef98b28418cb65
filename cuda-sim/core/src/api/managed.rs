//! Managed memory: advice, prefetches, and what ranges say of them.
//!
//! Memory does not move, so advice and prefetches only have their place in the stream and are
//! remembered for the whole allocation.

use super::pools::Location;
use crate::access::{Access, WRITE};
use crate::api::macros::api;
use crate::ffi::{put, slice};
use crate::memory::Kind;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, Sim};
use crate::work::Work;
use std::ffi::c_void;

const CPU: i32 = -1;
const INVALID: i32 = -2;

// `CUmemLocationType`.
const DEVICE: i32 = 1;
const HOST: i32 = 2;
const HOST_NUMA: i32 = 3;
const HOST_NUMA_CURRENT: i32 = 4;

/// Returns the base of the managed allocation that contains a range.
fn managed(sim: &Sim, address: u64, size: usize) -> Result<u64> {
    let found = sim.memory.find(address).filter(|found| found.kind == Kind::Managed);
    let inside = |base: u64, end: u64| {
        let last = address.checked_add(size as u64)?;
        (last <= end).then_some(base)
    };
    found.and_then(|found| inside(found.base, found.end())).ok_or(Code::INVALID_VALUE)
}

/// Returns the place of an ordinal, of which -1 is the host.
fn place_of(device: i32) -> Location {
    if device == CPU {
        Location { kind: HOST, id: 0 }
    } else {
        Location { kind: DEVICE, id: device }
    }
}

/// `CUmemLocation` that is passed by value.
fn unpack(location: u64) -> Location {
    Location { kind: location as i32, id: (location >> 32) as i32 }
}

fn check(sim: &Sim, place: Location) -> Result {
    match place.kind {
        DEVICE => super::devices::check(sim, place.id).map(|_| ()),
        HOST | HOST_NUMA_CURRENT => Ok(()),
        // How many nodes the host has is not known.
        HOST_NUMA if place.id >= 0 => Ok(()),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn advise(sim: &mut Locked, address: u64, size: usize, advice: i32, place: Location) -> Result {
    let base = managed(sim, address, size)?;
    // Only READ_MOSTLY and UNSET_PREFERRED_LOCATION need no place. [cuMemAdvise]
    if matches!(advice, 3 | 5 | 6) {
        check(sim, place)?;
    }
    // Nodes of the host do not access memory: the host does. [cuMemAdvise]
    if matches!(advice, 5 | 6) && !matches!(place.kind, DEVICE | HOST) {
        return Err(Code::INVALID_VALUE);
    }
    let place = (place.kind, place.id);
    let known = sim.advice.entry(base).or_default();
    match advice {
        1 | 2 => known.read_mostly = advice == 1,
        3 => known.preferred = Some(place),
        4 => known.preferred = None,
        5 => {
            known.accessed_by.insert(place);
        }
        6 => {
            known.accessed_by.remove(&place);
        }
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}

fn prefetch(
    sim: &mut Locked,
    address: u64,
    size: usize,
    place: Location,
    stream: u64,
    default: u64,
) -> Result {
    let base = managed(sim, address, size)?;
    check(sim, place)?;
    let stream = sim.stream(stream, default)?;
    crate::capture::submit(sim, stream, Work::Nothing, Vec::new(), "cuMemPrefetchAsync")?;
    sim.advice.entry(base).or_default().prefetched = Some((place.kind, place.id));
    Ok(())
}

/// Returns the values of an attribute: one, or as many as there is memory for.
fn attribute(sim: &Sim, base: u64, which: i32, count: usize) -> Result<Vec<i32>> {
    let nothing = Default::default();
    let known = sim.advice.get(&base).unwrap_or(&nothing);
    let ordinal = |place: Option<(i32, i32)>| match place {
        None => INVALID,
        Some((DEVICE, id)) => id,
        Some(_) => CPU,
    };
    let kind = |place: Option<(i32, i32)>| place.map_or(0, |(kind, _)| kind);
    Ok(vec![match which {
        1 => i32::from(known.read_mostly),
        2 => ordinal(known.preferred),
        3 => {
            let places = known.accessed_by.iter().map(|place| ordinal(Some(*place)));
            return Ok(places.chain(std::iter::repeat(INVALID)).take(count).collect());
        }
        4 => ordinal(known.prefetched),
        5 => kind(known.preferred),
        6 => ordinal(known.preferred),
        7 => kind(known.prefetched),
        8 => ordinal(known.prefetched),
        _ => return Err(Code::INVALID_VALUE),
    }])
}

fn get_attribute(
    sim: &mut Locked,
    to: *mut c_void,
    size: usize,
    which: i32,
    address: u64,
    count: usize,
) -> Result {
    let base = managed(sim, address, count)?;
    // One number, or for ACCESSED_BY several.
    if count == 0 || size == 0 || size % 4 != 0 || (which != 3 && size != 4) {
        return Err(Code::INVALID_VALUE);
    }
    for (i, value) in attribute(sim, base, which, size / 4)?.into_iter().enumerate() {
        put(if to.is_null() { to.cast() } else { to.cast::<i32>().wrapping_add(i) }, value)?;
    }
    Ok(())
}

/// Checks the ranges of a batch. [cuMemPrefetchBatchAsync]
fn check_batch(
    sim: &mut Locked,
    addresses: *const u64,
    sizes: *const usize,
    count: usize,
    flags: u64,
) -> Result<Vec<(u64, usize)>> {
    let (addresses, sizes) = (slice(addresses, count)?, slice(sizes, count)?);
    refuse_if(count == 0 || flags != 0, Code::INVALID_VALUE)?;
    let ranges = || addresses.iter().copied().zip(sizes.iter().copied());
    for (address, size) in ranges() {
        managed(sim, address, size)?;
    }
    Ok(ranges().collect())
}

/// Discards ranges: their bytes may be anything afterwards, as after a write.
fn discard(
    sim: &mut Locked,
    ranges: &[(u64, usize)],
    stream: u64,
    default: u64,
    label: &'static str,
) -> Result {
    let stream = sim.stream(stream, default)?;
    let write = |(address, size): &(u64, usize)| Access::range(*address, *size as u64, WRITE);
    let accesses = ranges.iter().map(write).collect();
    crate::capture::submit(sim, stream, Work::Nothing, accesses, label)?;
    Ok(())
}

fn check_places(
    sim: &mut Locked,
    ranges: &[(u64, usize)],
    places: &[Location],
    first: &[usize],
) -> Result {
    if first.first() != Some(&0) || !first.is_sorted() || first.len() > ranges.len() {
        return Err(Code::INVALID_VALUE);
    }
    places.iter().try_for_each(|place| check(sim, *place))
}

/// Prefetches ranges, each to the last place whose index is not above its own.
fn prefetch_batch(
    sim: &mut Locked,
    ranges: &[(u64, usize)],
    places: &[Location],
    first: &[usize],
    stream: u64,
    default: u64,
) -> Result {
    check_places(sim, ranges, places, first)?;
    for (i, (address, size)) in ranges.iter().enumerate() {
        let at = first.partition_point(|first| *first <= i) - 1;
        prefetch(sim, *address, *size, places[at], stream, default)?;
    }
    Ok(())
}

api! {
    fn cuMemAdvise(address: u64, size: usize, advice: i32, device: i32) |sim| {
        advise(sim, address, size, advice, place_of(device))
    }
    fn cuMemAdvise_v2(address: u64, size: usize, advice: i32, location: u64) |sim| {
        advise(sim, address, size, advice, unpack(location))
    }
    fn cuMemPrefetchAsync / cuMemPrefetchAsync_ptsz(
        address: u64, size: usize, device: i32, stream: u64,
    ) |sim, default| {
        prefetch(sim, address, size, place_of(device), stream, default)
    }
    fn cuMemPrefetchAsync_v2 / cuMemPrefetchAsync_v2_ptsz(
        address: u64, size: usize, location: u64, flags: u32, stream: u64,
    ) |sim, default| {
        refuse_if(flags != 0, Code::INVALID_VALUE)?;
        prefetch(sim, address, size, unpack(location), stream, default)
    }
    fn cuMemPrefetchBatchAsync / cuMemPrefetchBatchAsync_ptsz(
        addresses: *const u64, sizes: *const usize, count: usize, places: *const Location, first: *const usize,
        number: usize, flags: u64, stream: u64,
    ) |sim, default| {
        let ranges = check_batch(sim, addresses, sizes, count, flags)?;
        let (places, first) = (slice(places, number)?, slice(first, number)?);
        prefetch_batch(sim, &ranges, places, first, stream, default)
    }
    fn cuMemDiscardBatchAsync / cuMemDiscardBatchAsync_ptsz(
        addresses: *const u64, sizes: *const usize, count: usize, flags: u64, stream: u64,
    ) |sim, default| {
        let ranges = check_batch(sim, addresses, sizes, count, flags)?;
        discard(sim, &ranges, stream, default, "cuMemDiscardBatchAsync")
    }
    fn cuMemDiscardAndPrefetchBatchAsync / cuMemDiscardAndPrefetchBatchAsync_ptsz(
        addresses: *const u64, sizes: *const usize, count: usize, places: *const Location, first: *const usize,
        number: usize, flags: u64, stream: u64,
    ) |sim, default| {
        let ranges = check_batch(sim, addresses, sizes, count, flags)?;
        let (places, first) = (slice(places, number)?, slice(first, number)?);
        check_places(sim, &ranges, places, first)?;
        discard(sim, &ranges, stream, default, "cuMemDiscardAndPrefetchBatchAsync")?;
        prefetch_batch(sim, &ranges, places, first, stream, default)
    }
    fn cuMemRangeGetAttribute(to: *mut c_void, size: usize, which: i32, address: u64, count: usize) |sim| {
        get_attribute(sim, to, size, which, address, count)
    }
    fn cuMemRangeGetAttributes(
        to: *const *mut c_void, sizes: *const usize, which: *const i32, number: usize, address: u64, count: usize,
    ) |sim| {
        refuse_if(number == 0, Code::INVALID_VALUE)?;
        let (to, sizes) = (slice(to, number)?, slice(sizes, number)?);
        for ((to, size), which) in to.iter().zip(sizes).zip(slice(which, number)?) {
            get_attribute(sim, *to, *size, *which, address, count)?;
        }
        Ok(())
    }
}
