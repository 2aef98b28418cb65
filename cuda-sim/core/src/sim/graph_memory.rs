//! Memory that graphs allocate and free.
//!
//! A graph may free what it allocates, or leave that to the program or to another graph. The
//! addresses belong to the node for good, so that launches of one graph use the same ones.

use crate::access::{Access, WRITE};
use crate::memory::{self, Allocation, Kind};
use crate::results::{Code, Result, refuse_if};
use crate::shadow::Shadow;
use crate::sim::graphs::GraphMemory;
use crate::sim::objects::{DEVICE, PINNED, PoolLocation};
use crate::sim::state::{Locked, Sim};
use crate::site::Moment;

const USED: usize = 0;
const USED_HIGH: usize = 1;
const RESERVED: usize = 2;
const RESERVED_HIGH: usize = 3;

impl Sim {
    /// Takes addresses for an allocation node.
    pub fn new_graph_memory(&mut self, device: i32, size: u64) -> Result<u64> {
        let pool = self.graph_memory_use.get(&device).map_or(0, |found| found.pool);
        let pool = if pool == 0 {
            let place = PoolLocation { kind: PINNED, location: DEVICE, id: device };
            let pool = self.new_pool(place, 0, 0, true);
            self.graph_memory_use.entry(device).or_default().pool = pool;
            pool
        } else {
            pool
        };
        let base = self.take_from_pool(pool, size)?;
        let buffer_id = self.memory.next_buffer_id();
        let allocation = Allocation::new(Kind::Pool, base, size, device, 0);
        self.memory.insert(Allocation { buffer_id, pool, ..allocation });
        self.graph_memory
            .insert(base, GraphMemory { size, device, exists: false, freed: None, owners: 1 });
        Ok(base)
    }

    pub fn is_graph_memory(&self, base: u64) -> bool {
        self.graph_memory.contains_key(&base)
    }

    /// Begins the memory in a launch. Nothing else may have it. Accesses that are not ordered after
    /// that are races.
    pub fn graph_memory_begins(&mut self, base: u64, moment: Option<Moment>) {
        let Some(found) = self.graph_memory.get_mut(&base) else { return };
        found.freed = None;
        if let (Some(moment), Some(memory)) = (moment, self.memory.allocations.get_mut(&base)) {
            memory.shadow = Shadow::begin(base, base + memory.size, moment.mark);
        }
        if !std::mem::replace(&mut found.exists, true) {
            let (device, size) = (found.device, found.size);
            let values = &mut self.graph_memory_use.entry(device).or_default().attributes;
            values[USED] += size.next_multiple_of(2 << 20);
            values[USED_HIGH] = values[USED_HIGH].max(values[USED]);
            values[RESERVED] = values[RESERVED].max(values[USED]);
            values[RESERVED_HIGH] = values[RESERVED_HIGH].max(values[RESERVED]);
        }
    }

    /// Ends the memory: a graph or the program frees it. Returns an error if it does not exist.
    pub fn graph_memory_ends(&mut self, base: u64, moment: Option<&Moment>) -> Result {
        let found = self.graph_memory.get_mut(&base).ok_or(Code::INVALID_VALUE)?;
        refuse_if(!found.exists, Code::INVALID_VALUE)?;
        let (device, size) = (found.device, found.size);
        if let Some(moment) = moment {
            self.check_at(moment, &[Access::range(base, size, WRITE)]);
        }
        if let Some(found) = self.graph_memory.get_mut(&base) {
            found.exists = false;
            found.freed = moment.map(|moment| moment.mark.site.clone());
        }
        let values = &mut self.graph_memory_use.entry(device).or_default().attributes;
        values[USED] = values[USED].saturating_sub(size.next_multiple_of(2 << 20));
        Ok(())
    }

    pub fn graph_memory_attribute(&self, device: i32, which: i32) -> Result<u64> {
        let which = usize::try_from(which).ok().filter(|which| *which < 4);
        let values = self.graph_memory_use.get(&device).map_or([0; 4], |found| found.attributes);
        which.map(|which| values[which]).ok_or(Code::INVALID_VALUE)
    }

    /// Resets a high mark.
    pub fn reset_graph_memory_attribute(&mut self, device: i32, which: i32) -> Result {
        let values = &mut self.graph_memory_use.entry(device).or_default().attributes;
        match usize::try_from(which) {
            Ok(USED_HIGH) => values[USED_HIGH] = values[USED],
            Ok(RESERVED_HIGH) => values[RESERVED_HIGH] = values[RESERVED],
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    pub fn trim_graph_memory(&mut self, device: i32) {
        let values = &mut self.graph_memory_use.entry(device).or_default().attributes;
        values[RESERVED] = values[USED];
    }
}

/// Counts one node or executable graph less. The last one gives the addresses back, unless the
/// memory exists: destroying a graph frees nothing. [CUDA programming guide, graph memory nodes]
pub fn release_graph_memory(sim: &mut Locked, base: u64) {
    let Some(found) = sim.graph_memory.get_mut(&base) else { return };
    found.owners -= 1;
    if found.owners > 0 {
        return;
    }
    if !found.exists {
        // Launches of the graph may still use it.
        Sim::wait_everything(sim);
        give_back(sim, base);
    }
}

/// Gives back the addresses of memory that was freed after its graphs were destroyed, unless work
/// may still use it.
pub fn give_back_graph_memory(sim: &mut Locked) {
    let unused =
        |(base, found): (&u64, &GraphMemory)| (found.owners == 0 && !found.exists).then_some(*base);
    let bases: Vec<u64> = sim.graph_memory.iter().filter_map(unused).collect();
    if !bases.is_empty() && sim.busy.is_empty() {
        bases.into_iter().for_each(|base| give_back(sim, base));
    }
}

fn give_back(sim: &mut Locked, base: u64) {
    let Some(GraphMemory { size, device, .. }) = sim.graph_memory.remove(&base) else { return };
    sim.end_allocation(base, None);
    let pool = sim.graph_memory_use.get(&device).map_or(0, |found| found.pool);
    if let Some(arena) = sim.pools.get(pool).map(|pool| pool.arena) {
        sim.unguarded(|sim| {
            memory::poison(base, size);
            sim.memory.arenas[arena].release(base, size);
        });
    }
}
