//! Calls that end an object: it is set aside before the real call, and restored if that fails.
//!
//! After the real call, another thread may already have received the same address or handle.

use crate::passed_on::passed_on;
use cudasim_core::api::{memory, pools};
use cudasim_core::follow::{notify, outside};
use cudasim_core::results::{Code, Result};
use cudasim_core::sim::{Locked, Sim};

/// Frees the allocations between two addresses.
fn free(
    symbol: &'static str,
    default: u64,
    (base, end): (u64, u64),
    real: impl FnOnce() -> i32,
    body: impl FnOnce(&mut Locked, u64) -> Result,
) -> i32 {
    let mut aside = Vec::new();
    notify(symbol, default, 0, |sim, _| {
        aside = sim.memory.set_aside(base, end);
        Ok(())
    });
    let result = outside(real);
    if !aside.is_empty() {
        notify(symbol, default, 0, |sim, default| {
            let newer: Vec<_> =
                aside.iter().flat_map(|old| sim.memory.set_aside(old.base, old.end())).collect();
            sim.memory.allocations.extend(aside.into_iter().map(|old| (old.base, old)));
            let wrapper = if result == 0 { body(sim, default) } else { Ok(()) };
            newer.into_iter().for_each(|allocation| sim.memory.insert(allocation));
            wrapper
        });
    }
    result
}

fn at(address: u64) -> (u64, u64) {
    (address, address.saturating_add(1))
}

fn of_host(address: u64) -> (u64, u64) {
    at(cudasim_core::sim::lock()
        .and_then(|sim| sim.memory.find(address).map(|found| found.base))
        .unwrap_or(address))
}

fn unmap(sim: &mut Locked, address: u64, size: u64) -> Result {
    let bases: Vec<u64> =
        sim.memory.allocations.range(address..address + size).map(|(base, _)| *base).collect();
    bases.into_iter().try_for_each(|base| memory::end(sim, base, "cuMemUnmap"))
}

passed_on! {
    fn cuMemFree_v2(address: u64) |real| {
        free("cuMemFree", 1, at(address), || real(address), |sim, _| memory::free(sim, address))
    }
    fn cuMemFreeHost(address: u64) |real| {
        free("cuMemFreeHost", 1, at(address), || real(address), |sim, _| memory::end(sim, address, "cuMemFreeHost"))
    }
    fn cuMemHostUnregister(address: u64) |real| {
        free("cuMemHostUnregister", 1, of_host(address), || real(address), |sim, _| memory::unregister(sim, address))
    }
    fn cuMemFreeAsync / cuMemFreeAsync_ptsz(address: u64, stream: u64) |real, default| {
        free("cuMemFreeAsync", default, at(address), || real(address, stream), |sim, default| {
            pools::free(sim, address, stream, default)
        })
    }
    fn cuMemUnmap(address: u64, size: usize) |real| {
        let range = (address, address.saturating_add(size as u64));
        free("cuMemUnmap", 1, range, || real(address, size), |sim, _| unmap(sim, address, size as u64))
    }
    fn cuIpcCloseMemHandle(address: u64) |real| {
        free("cuIpcCloseMemHandle", 1, at(address), || real(address), |sim, _| {
            if sim.memory.is_still_open(address) {
                return Ok(());
            }
            memory::end(sim, address, "cuIpcCloseMemHandle")
        })
    }
    fn cuStreamDestroy_v2(stream: u64) |real| {
        let mut aside = None;
        notify("cuStreamDestroy", 1, 0, |sim, _| {
            aside = sim.streams.rename(stream, None);
            Ok(())
        });
        let result = outside(|| real(stream));
        notify("cuStreamDestroy", 1, 0, |sim, _| {
            let Some(aside) = aside else { return Ok(()) };
            if result != 0 {
                sim.streams.rename(aside, Some(stream));
                return Ok(());
            }
            let stream = sim.streams.remove(aside).ok_or(Code::INVALID_HANDLE)?;
            let capture =
                Sim::get(sim, stream).and_then(|stream| stream.lane.as_ref()).map(|lane| lane.capture);
            capture.into_iter().for_each(|capture| sim.invalidate(capture));
            sim.stream_of_export_ends(stream);
            sim.destroy_stream(stream);
            Ok(())
        });
        result
    }
    fn cuEventDestroy_v2(event: u64) |real| {
        let mut aside = None;
        notify("cuEventDestroy", 1, 0, |sim, _| {
            aside = sim.events.rename(event, None);
            Ok(())
        });
        let result = outside(|| real(event));
        notify("cuEventDestroy", 1, 0, |sim, _| {
            match aside {
                Some(aside) if result == 0 => drop(sim.events.remove(aside)),
                Some(aside) => drop(sim.events.rename(aside, Some(event))),
                None => {}
            }
            Ok(())
        });
        result
    }
}
