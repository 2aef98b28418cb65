//! Order of operations: the rules of the default streams, and what the checker learns.

use crate::access::Access;
use crate::actor::Actor;
use crate::actor::Who;
use crate::clock::Clock;
use crate::console::print;
use crate::shown::shown;
use crate::sim::objects::StreamKind;
use crate::sim::state::{Sim, end_of_thread, has_ended, thread_id};
use crate::site::{AllocationInfo, Content, Moment};
use crate::work::{StreamRef, Work};
use std::borrow::Cow;

impl Sim {
    /// Returns the actor of the calling thread. If the order between host threads is not observed,
    /// they are one actor, ordered by their calls.
    pub fn host_actor(&mut self) -> Actor {
        let number = thread_id();
        if !self.config.threads_seen {
            if let Some(actor) = self.one_host {
                return actor;
            }
            let Some(checker) = &mut self.checker else { return 0 };
            let actor = checker.actor(None, Who::Host { thread: u64::from(number) });
            self.one_host = Some(actor);
            return actor;
        }
        let thread = self.threads.entry(number).or_default();
        if let Some(actor) = thread.actor {
            return actor;
        }
        let Some(checker) = &mut self.checker else { return 0 };
        let actor = checker.actor(None, Who::Host { thread: u64::from(number) });
        thread.actor = Some(actor);
        if has_ended() {
            checker.hb_after(actor, end_of_thread());
        }
        actor
    }

    /// Orders everything that these streams did so far before the next work of the calling thread.
    pub fn host_knows(&mut self, streams: &[StreamRef]) {
        if self.checker.is_some() {
            let host = self.host_actor();
            for stream in streams {
                let actor = self.get(*stream).and_then(|stream| stream.actor);
                self.order_actors(actor, Some(host));
            }
        }
    }

    /// Does the same for a call that may return before the work of a stream is done.
    pub fn host_perhaps_knows(&mut self, stream: StreamRef) {
        let host = self.host_actor();
        let actor = self.get(stream).and_then(|stream| stream.actor);
        if let (Some(actor), Some(checker)) = (actor, &mut self.checker) {
            checker.order_perhaps(actor, host);
        }
    }

    /// Records that a copy of pageable memory may access it after the call has returned.
    pub fn pageable_copy(&mut self, stream: StreamRef, access: &Access, label: &'static str) {
        let label = self.label(label);
        let actor = self.stream_mut(stream).actor;
        if let (Some(actor), Some(checker)) = (actor, &mut self.checker) {
            checker.pageable_copy(actor, access, label, u64::from(thread_id()));
        }
    }

    pub fn this_thread_learns(&mut self, clock: Option<&Clock>) {
        let host = self.host_actor();
        if let (Some(clock), Some(checker)) = (clock, &mut self.checker) {
            checker.learn(host, clock);
        }
    }

    /// Returns the current knowledge of a stream.
    pub fn knowledge(&mut self, actor: Option<Actor>) -> Option<Clock> {
        Some(self.checker.as_mut()?.snapshot(actor?))
    }

    /// Keeps the work of a destroyed stream in the order: the legacy stream, and waits for the
    /// context, still wait for it.
    pub(super) fn remember_destroyed(&mut self, stream: StreamRef, context: u64) {
        let (kind, actor) = (self.stream_mut(stream).kind, self.stream_mut(stream).actor);
        let (Some(checker), Some(context)) = (&mut self.checker, self.contexts.get_mut(context))
        else {
            return;
        };
        let blocking = matches!(kind, StreamKind::Blocking | StreamKind::PerThread);
        for (gone, counts) in context.gone.iter_mut().zip([blocking, true]) {
            if counts {
                let gone = *gone.get_or_insert_with(|| checker.actor(None, Who::Destroyed));
                actor.iter().for_each(|actor| checker.order(*actor, gone));
            }
        }
    }

    /// Orders everything that a context was given before the next work of the calling thread.
    pub fn host_knows_context(&mut self, context: u64) {
        let all = self.streams_of(context);
        self.host_knows(&all);
        if self.checker.is_some() {
            let host = self.host_actor();
            for gone in self.gone_of(context) {
                self.order_actors(Some(gone), Some(host));
            }
        }
    }

    pub(super) fn order_actors(&mut self, earlier: Option<Actor>, later: Option<Actor>) {
        if let (Some(earlier), Some(later), Some(checker)) = (earlier, later, &mut self.checker) {
            checker.order(earlier, later);
        }
    }

    /// Applies the rules of the default streams to an operation that is about to be enqueued: the
    /// legacy stream waits for all blocking streams of its context, and they wait for it.
    pub fn default_stream_rules(&mut self, stream: StreamRef) {
        let (kind, handle, actor) = {
            let found = self.stream_mut(stream);
            (found.kind, found.context, found.actor)
        };
        match kind {
            StreamKind::NonBlocking => {}
            StreamKind::Legacy => {
                let Some(context) = self.contexts.get_mut(handle) else { return };
                let gone = context.gone[0];
                let dirty = std::mem::take(&mut context.dirty);
                self.order_actors(gone, actor);
                for other in dirty {
                    let Some(found) = self.get_mut(other) else { continue };
                    found.dirty = false;
                    self.wait_for_stream(stream, other);
                }
            }
            StreamKind::Blocking | StreamKind::PerThread => {
                let Some(context) = self.contexts.get(handle) else { return };
                let legacy = context.legacy;
                let Some(found) = self.get(legacy) else { return };
                let (position, completed, theirs) = (found.enqueued, found.completed, found.actor);
                if self.stream_mut(stream).legacy_seen < position {
                    self.stream_mut(stream).legacy_seen = position;
                    self.order_actors(theirs, actor);
                    if completed < position {
                        self.push(stream, Work::Wait(legacy, position));
                    }
                }
                if !self.stream_mut(stream).dirty {
                    self.stream_mut(stream).dirty = true;
                    if let Some(context) = self.contexts.get_mut(handle) {
                        context.dirty.push(stream);
                    }
                }
            }
        }
    }

    /// Prepares an operation on a stream: applies the rules of the default streams, and orders the
    /// past of the calling thread before it.
    pub fn prepare(&mut self, stream: StreamRef) {
        self.comes_after_barrier(stream);
        self.default_stream_rules(stream);
        if self.checker.is_some() {
            self.learn_from_processes();
            let host = self.host_actor();
            let actor = self.stream_mut(stream).actor;
            self.order_actors(Some(host), actor);
        }
    }

    pub fn label(&mut self, name: &'static str) -> Cow<'static, str> {
        match &self.thread().label {
            None => Cow::Borrowed(name),
            Some(label) => Cow::Owned(format!("{label} ({name})")),
        }
    }

    /// Returns the text with the lifetime of the process. Programs have few names.
    pub fn interned(&mut self, text: &str) -> &'static str {
        match self.names.get(text) {
            Some(name) => name,
            None => {
                let name: &'static str = Box::leak(text.to_owned().into_boxed_str());
                self.names.insert(name);
                name
            }
        }
    }

    pub fn kernel_label(&mut self, function: u64) -> &'static str {
        let name = self.functions.get(function).map(|function| shown(function.name.to_bytes()));
        name.map_or("a kernel", |name| self.interned(&name))
    }

    /// Checks the accesses of an operation on a stream.
    pub fn check(
        &mut self,
        stream: StreamRef,
        accesses: &[Access],
        label: &'static str,
        content: Content,
    ) {
        if self.checker.is_none() || accesses.is_empty() {
            return;
        }
        let label = self.label(label);
        let Some(actor) = self.stream_mut(stream).actor else { return };
        let Some(checker) = &mut self.checker else { return };
        let thread = u64::from(thread_id());
        let moment = checker.step_of(actor, actor, label, thread, content);
        self.check_at(&moment, accesses);
    }

    /// Returns the moment of the next operation of a stream.
    pub fn moment_on(&mut self, stream: StreamRef, label: &'static str) -> Option<Moment> {
        let (actor, label) = (self.stream_mut(stream).actor?, self.label(label));
        Some(self.checker.as_mut()?.step(actor, label, u64::from(thread_id())))
    }

    /// Checks accesses of the calling thread itself.
    pub fn check_host(&mut self, accesses: &[Access], label: Cow<'static, str>) -> Option<Moment> {
        self.learn_from_processes();
        let host = self.host_actor();
        let checker = self.checker.as_mut()?;
        let moment = checker.host(host, label, u64::from(thread_id()));
        for access in accesses {
            let access = self.memory.on_device(access);
            let memory = self.memory.find(access.address);
            if let Some(checker) = &mut self.checker {
                checker.remark(memory.map(|at| (&at.shadow, at.info())), &access, &moment);
            }
        }
        self.check_at(&moment, accesses);
        Some(moment)
    }

    /// Returns the moment of a call that frees memory.
    pub fn freeing(&mut self, label: &'static str) -> Option<Moment> {
        self.learn_from_processes();
        let host = self.host_actor();
        let label = self.label(label);
        Some(self.checker.as_mut()?.host_frees(host, label, u64::from(thread_id())))
    }

    /// Records that a synchronous call returned before its work on a stream was done.
    pub fn synchronous_call(&mut self, stream: StreamRef) {
        let host = self.host_actor();
        if let (Some(actor), Some(checker)) =
            (self.get(stream).and_then(|stream| stream.actor), &mut self.checker)
        {
            checker.order_before_free(actor, host);
        }
    }

    pub fn check_at(&mut self, moment: &Moment, accesses: &[Access]) {
        for access in accesses {
            let given = access.address;
            let access = self.memory.on_device(access);
            let others = self.aliases(&access);
            self.check_one(moment, &access);
            self.check_others(moment, &others);
            self.share_number(&access, moment.mark.site.content, moment);
            // Races with work behind a wait are held until it is known whether this ends the wait.
            for access in std::iter::once(&access).chain(&others) {
                let content = moment.mark.site.content.moved(access.address.wrapping_sub(given));
                let checker = self.checker.iter_mut();
                checker.for_each(|checker| checker.touched(access, content, moment));
            }
        }
    }

    /// Returns an access at the other addresses of the same memory.
    pub(super) fn aliases(&self, access: &Access) -> Vec<Access> {
        let mut all = Vec::new();
        if !self.memory.has_mappings() {
            return all;
        }
        let (from, to) = access.hull();
        let Some(first) = self.memory.find(from) else { return all };
        let mut bases = vec![first.base];
        if first.end() < to {
            bases = self.memory.inside(from, to);
        }
        for base in bases {
            for other in self.memory.other_bases(base) {
                let address = access.address.wrapping_add(other.wrapping_sub(base));
                all.push(Access { address, ..*access });
            }
        }
        all
    }

    /// Checks an access against those at other addresses of the same memory, each of which has the
    /// history of its own address: only that ends with it.
    fn check_others(&mut self, moment: &Moment, others: &[Access]) {
        for access in others {
            let (from, to) = access.hull();
            for base in self.memory.inside(from, to) {
                if let (Some(checker), Some(other)) =
                    (&mut self.checker, self.memory.allocations.get(&base))
                {
                    checker.compare(&other.shadow, &other.info(), access, moment);
                }
            }
        }
    }

    fn check_one(&mut self, moment: &Moment, access: &Access) {
        let Some(checker) = &mut self.checker else { return };
        let Some(allocation) = self.memory.find_mut(access.address) else {
            if let Some((base, size, site)) = self.memory.was_freed(access.address) {
                let info =
                    AllocationInfo { base, size, device: -1, kind: "memory that was freed," };
                checker.use_after_free(site.clone(), &info, access, moment);
            }
            return;
        };
        let info = allocation.info();
        let freed = self.graph_memory.get(&info.base).and_then(|memory| memory.freed.clone());
        if let Some(site) = freed {
            let info = AllocationInfo { kind: "memory that was freed,", ..info };
            return checker.use_after_free(site, &info, access, moment);
        }
        checker.access(&mut allocation.shadow, &info, access, moment);
        self.shared.check(checker, &info, access, moment);
        // Adjacent mappings are one range for the program.
        let (from, to) = access.hull();
        if from < info.base || to > info.base + info.size {
            for other in self.memory.inside(from, to).into_iter().filter(|base| *base != info.base)
            {
                let Some(allocation) = self.memory.allocations.get_mut(&other) else {
                    continue;
                };
                let info = allocation.info();
                checker.access(&mut allocation.shadow, &info, access, moment);
            }
        }
    }

    /// Applies the rules of the default streams to a wait for a stream: a wait for the legacy
    /// stream waits for everything that it would wait for.
    pub fn default_stream_rules_for_wait(&mut self, stream: StreamRef) {
        if self.stream_mut(stream).kind == StreamKind::Legacy {
            self.default_stream_rules(stream);
        }
    }

    /// Writes the races found since the last call to the journal, and prints them on stderr.
    pub fn report_now(&mut self) {
        if let (Some(checker), Some(journal)) = (&mut self.checker, &mut self.journal) {
            checker.write(journal);
        }
        if let Some(checker) = self.checker.as_mut().filter(|_| !self.config.print_at_exit) {
            for text in checker.print() {
                print(&text);
            }
        }
    }
}
