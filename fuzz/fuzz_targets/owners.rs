//! Sequences of owner operations over structures of all sizes, beside a model: what a release destroys is what the
//! model says, once, and in the order that the headers promise.
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, dlpack::*, owner::*, sync::*};
use cai_fuzz::tensor::call_deleter;
use cai_fuzz::{Foreign, Placed, Size, filled, is_legal};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    sizes: [Size; 4],
    operations: Vec<Operation>,
}

/// Numbers select slots and references, modulo how many there are.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Operation {
    Owner { gives: Option<u8> },
    Foreign { table: Size },
    Put { reference: u8, slot: u8, ndim: u8 },
    Retain { reference: u8 },
    Release { reference: u8 },
    ReleaseAfter { reference: u8 },
    Create { from: u8, masks: [Option<Option<u8>>; 3], slot: u8, gives: Option<u8> },
    Share { from: u8, slot: u8 },
    ShareMask { from: u8, slot: u8 },
    RetainArray { slot: u8 },
    ReleaseArray { slot: u8 },
    ReleaseArrayAfter { slot: u8 },
    Attach { slot: u8, gives: Option<u8> },
    ToDlpack { slot: u8, is_versioned: bool },
    FromDlpack { tensor: u8, slot: u8 },
    DeleteTensor { tensor: u8 },
    Resize { slot: u8, size: Size },
}

/// An owner in the model: its references, and those that it releases when it is destroyed.
#[derive(Default)]
struct Node {
    references: usize,
    before: Vec<*mut cai_owner>,
    context: Option<usize>,
    after: Option<*mut cai_owner>,
}

#[derive(Default)]
struct Model {
    nodes: HashMap<*mut cai_owner, Node>,
    expected: Vec<usize>,
    /// Pairs of numbers: the first must be destroyed before the second.
    order: Vec<(usize, usize)>,
    /// Number of references to each owner that the present operation has released.
    released: HashMap<*mut cai_owner, usize>,
}

impl Model {
    fn add(&mut self, owner: *mut cai_owner, node: Node) {
        let node = Node { references: 1, ..node };
        assert!(self.nodes.insert(owner, node).is_none(), "an owner with the address of a live one");
    }

    fn retain(&mut self, owner: *mut cai_owner) {
        self.nodes.get_mut(&owner).expect("a live owner").references += 1;
    }

    /// Returns the number of what is destroyed first of all that the owner held, if it was the last reference, and the
    /// only one when the operation began. Of several references within one operation, any may be the last: destructions
    /// that nest deeply wait, and so do the references that they release.
    fn release(&mut self, owner: *mut cai_owner) -> Option<usize> {
        let node = self.nodes.get_mut(&owner).expect("a live owner");
        node.references -= 1;
        let released = self.released.entry(owner).or_default();
        *released += 1;
        let is_only = *released == 1;
        if node.references > 0 {
            return None;
        }
        let node = self.nodes.remove(&owner).unwrap_or_default();
        let earlier: Vec<usize> = node.before.iter().filter_map(|owner| self.release(*owner)).collect();
        if let Some(number) = node.context {
            self.order.extend(earlier.iter().map(|earlier| (*earlier, number)));
            self.expected.push(number);
        }
        if let Some(owner) = node.after {
            self.release(owner);
        }
        node.context.or(earlier.last().copied()).filter(|_| is_only)
    }
}

/// Context of a destroy function: its number, and a reference that it gives up.
struct Context {
    number: usize,
    gives: *mut cai_owner,
}

thread_local!(static DESTROYED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) });

fn gone(number: usize) {
    DESTROYED.with_borrow_mut(|destroyed| destroyed.push(number));
}

unsafe extern "C-unwind" fn destroy(context: *mut c_void) {
    // SAFETY: `World::context` made it, and a destroy function runs once.
    let context = unsafe { Box::from_raw(context.cast::<Context>()) };
    gone(context.number);
    // SAFETY: NULL, or a reference that this function was given.
    unsafe { cai_owner_release(context.gives) };
}

struct World {
    slots: Vec<(Placed, u32)>,
    references: Vec<*mut cai_owner>,
    tensors: Vec<(*mut c_void, bool, *mut cai_owner)>,
    model: Model,
    contexts: usize,
    numbers: Vec<Vec<i64>>,
}

const LEAST: usize = size_of::<cai_array>();

impl World {
    fn reference(&self, index: u8) -> Option<usize> {
        (!self.references.is_empty()).then(|| usize::from(index) % self.references.len())
    }

    fn slot(&self, index: u8) -> (*mut cai_array, u32, bool) {
        let (placed, claimed) = &self.slots[usize::from(index) % self.slots.len()];
        (placed.array(), *claimed, is_legal(*claimed, LEAST))
    }

    /// The owner of a slot, which the prefix of any size has.
    fn owner(&self, index: u8) -> *mut cai_owner {
        // SAFETY: each slot has at least the prefix.
        unsafe { (*self.slot(index).0).owner }
    }

    /// A slot whose structure can be read, and has an owner.
    fn full(&self, index: u8) -> Option<(*mut cai_array, *mut cai_owner)> {
        let (array, _, is_whole) = self.slot(index);
        (is_whole && !self.owner(index).is_null()).then(|| (array, self.owner(index)))
    }

    fn context(&mut self, gives: Option<u8>) -> (*mut Context, Node) {
        let gives = gives.and_then(|index| self.reference(index)).map(|index| self.references.swap_remove(index));
        let number = self.contexts;
        self.contexts += 1;
        let context = Box::into_raw(Box::new(Context { number, gives: gives.unwrap_or(null_mut()) }));
        (context, Node { context: Some(number), after: gives, ..Node::default() })
    }

    /// The reference that a context would have given up goes back if its owner was not made.
    unsafe fn take_back(&mut self, context: *mut Context) {
        // SAFETY: made by `context`, and not passed on.
        let context = unsafe { Box::from_raw(context) };
        if !context.gives.is_null() {
            self.references.push(context.gives);
        }
    }

    /// Releases what a slot holds.
    unsafe fn empty(&mut self, slot: u8, after: bool) {
        let (array, claimed, is_whole) = self.slot(slot);
        let owner = self.owner(slot);
        // SAFETY: the slot holds nothing, or a reference.
        unsafe {
            if !after {
                cai_array_release(array);
                self.slots[usize::from(slot) % self.slots.len()].0.assert_cleared(claimed);
            } else {
                let status = cai_array_release_after(array, CAI_STREAM_NONE, null_mut());
                assert_eq!(status == CAI_OK, is_whole, "{status}");
                if !is_whole {
                    return;
                }
                assert!((*array).owner.is_null());
            }
        }
        if !owner.is_null() {
            self.model.release(owner);
        }
    }

    /// # Safety
    /// Called for one operation after the other.
    unsafe fn run(&mut self, operation: Operation) {
        // SAFETY: pointers are NULL or valid; each reference is released once, as the model states.
        unsafe {
            match operation {
                Operation::Owner { gives } => {
                    let (context, node) = self.context(gives);
                    let mut owner = null_mut();
                    assert_eq!(cai_owner_create(context.cast(), Some(destroy), &mut owner, null_mut()), CAI_OK);
                    self.model.add(owner, node);
                    self.references.push(owner);
                }
                Operation::Foreign { table } => {
                    let number = self.contexts;
                    self.contexts += 1;
                    let owner = Foreign::make(table, number, gone);
                    self.model.add(owner, Node { context: Some(number), ..Node::default() });
                    if Foreign::is_sound(owner) {
                        self.references.push(owner);
                        return;
                    }
                    // A broken table: nothing takes it, and a release leaks it.
                    let mut array = filled(&[], owner);
                    let mut out = filled(&[], null_mut());
                    assert_eq!(cai_owner_retain(owner, null_mut()), CAI_ERR_OWNER_OPS);
                    assert_eq!(cai_array_retain(&array, null_mut()), CAI_ERR_OWNER_OPS);
                    assert_eq!(cai_array_share(&array, &mut out, null_mut()), CAI_ERR_OWNER_OPS);
                    assert_eq!(cai_array_attach(&mut array, null_mut(), None, null_mut()), CAI_ERR_OWNER_OPS);
                    let created = cai_array_create(&array, null_mut(), None, &mut out, null_mut());
                    assert_eq!(created, CAI_ERR_OWNER_OPS);
                    cai_owner_release(owner);
                    Foreign::release(owner);
                    self.model.release(owner);
                }
                Operation::Put { reference, slot, ndim } => {
                    let Some(index) = self.reference(reference) else { return };
                    let (array, claimed, is_whole) = self.slot(slot);
                    if !is_whole || !(*array).owner.is_null() {
                        return;
                    }
                    self.numbers.push(vec![2; usize::from(ndim % 5)]);
                    let extents = self.numbers.last().map_or(&[][..], Vec::as_slice);
                    array.write(cai_array { struct_size: claimed, ..filled(extents, self.references[index]) });
                    self.references.swap_remove(index);
                }
                Operation::Retain { reference } => {
                    let Some(index) = self.reference(reference) else { return };
                    let owner = self.references[index];
                    assert_eq!(cai_owner_retain(owner, null_mut()), CAI_OK);
                    self.model.retain(owner);
                    self.references.push(owner);
                }
                Operation::Release { reference } => {
                    let Some(index) = self.reference(reference) else { return };
                    let owner = self.references.swap_remove(index);
                    cai_owner_release(owner);
                    self.model.release(owner);
                }
                Operation::ReleaseAfter { reference } => {
                    let Some(index) = self.reference(reference) else { return };
                    let owner = self.references.swap_remove(index);
                    assert_eq!(cai_owner_release_after(owner, CAI_STREAM_NONE, null_mut()), CAI_OK);
                    self.model.release(owner);
                }
                Operation::Create { from, masks, slot, gives } => self.create(from, masks, slot, gives),
                Operation::Share { from, slot } => {
                    let (from_array, _, from_whole) = self.slot(from);
                    let (out, claimed, is_whole) = self.slot(slot);
                    if out == from_array || !self.owner(slot).is_null() {
                        return;
                    }
                    let owner = self.owner(from);
                    let status = cai_array_share(from_array, out, null_mut());
                    assert_eq!(status == CAI_OK, from_whole && is_whole && !owner.is_null(), "{status}");
                    if status == CAI_OK {
                        self.model.retain(owner);
                        self.slots[usize::from(slot) % self.slots.len()].0.assert_written(claimed);
                    }
                }
                Operation::ShareMask { from, slot } => {
                    let Some((array, owner)) = self.full(from) else { return };
                    let (out, _, is_whole) = self.slot(slot);
                    if (*array).mask.is_null() || out == array || !self.owner(slot).is_null() {
                        return;
                    }
                    let mask = (*array).mask;
                    assert_eq!((*mask).owner, owner, "a copied mask has the array's owner");
                    let status = cai_array_share(mask, out, null_mut());
                    assert_eq!(status == CAI_OK, is_whole);
                    if status == CAI_OK {
                        self.model.retain(owner);
                    }
                }
                Operation::RetainArray { slot } => {
                    let (array, _, is_whole) = self.slot(slot);
                    let owner = self.owner(slot);
                    let status = cai_array_retain(array, null_mut());
                    assert_eq!(status == CAI_OK, is_whole && !owner.is_null());
                    if status == CAI_OK {
                        self.model.retain(owner);
                        self.references.push(owner);
                    }
                }
                Operation::ReleaseArray { slot } => self.empty(slot, false),
                Operation::ReleaseArrayAfter { slot } => {
                    if !self.owner(slot).is_null() {
                        self.empty(slot, true);
                    }
                }
                Operation::Attach { slot, gives } => {
                    let (array, _, is_whole) = self.slot(slot);
                    let old = self.owner(slot);
                    let (context, mut node) = self.context(gives);
                    let status = cai_array_attach(array, context.cast(), Some(destroy), null_mut());
                    assert_eq!(status == CAI_OK, is_whole && !old.is_null());
                    if status != CAI_OK {
                        assert_eq!(self.owner(slot), old);
                        self.take_back(context);
                        return;
                    }
                    // The reference of the structure moves to the new owner.
                    node.before.push(old);
                    self.model.add((*array).owner, node);
                }
                Operation::ToDlpack { slot, is_versioned } => {
                    let Some((array, owner)) = self.full(slot) else { return };
                    let (mut versioned, mut unversioned) = (null_mut(), null_mut());
                    let (status, tensor) = if is_versioned {
                        let status = cai_array_to_dlpack(array, 0, &mut versioned, null_mut());
                        (status, versioned.cast::<c_void>())
                    } else {
                        let status = cai_array_to_dlpack_unversioned(array, 0, &mut unversioned, null_mut());
                        (status, unversioned.cast::<c_void>())
                    };
                    let expected = if (*array).mask.is_null() { CAI_OK } else { CAI_ERR_CONVERT_MASK };
                    assert_eq!(status, expected);
                    if status == CAI_OK {
                        self.model.retain(owner);
                        self.tensors.push((tensor, is_versioned, owner));
                    }
                }
                Operation::FromDlpack { tensor, slot } => {
                    let (out, _, is_whole) = self.slot(slot);
                    if self.tensors.is_empty() || !self.owner(slot).is_null() {
                        return;
                    }
                    let index = usize::from(tensor) % self.tensors.len();
                    let (tensor, is_versioned, owner) = self.tensors[index];
                    let status = if is_versioned {
                        cai_array_from_dlpack(tensor.cast(), CAI_STREAM_NONE, 0, out, null_mut())
                    } else {
                        cai_array_from_dlpack_unversioned(tensor.cast(), CAI_STREAM_NONE, 0, out, null_mut())
                    };
                    assert_eq!(status == CAI_OK, is_whole);
                    if status == CAI_OK {
                        self.tensors.swap_remove(index);
                        self.model.add((*out).owner, Node { before: vec![owner], ..Node::default() });
                    }
                }
                Operation::DeleteTensor { tensor } => {
                    if self.tensors.is_empty() {
                        return;
                    }
                    let index = usize::from(tensor) % self.tensors.len();
                    let (tensor, is_versioned, owner) = self.tensors.swap_remove(index);
                    call_deleter(tensor, is_versioned);
                    self.model.release(owner);
                }
                Operation::Resize { slot, size } => {
                    if self.owner(slot).is_null() {
                        let index = usize::from(slot) % self.slots.len();
                        let claimed = size.of(LEAST);
                        self.slots[index] = (Placed::init(claimed), claimed);
                    }
                }
            }
        }
    }

    /// An array of a description on the stack, with masks that have owners of their own or none.
    unsafe fn create(&mut self, from: u8, masks: [Option<Option<u8>>; 3], slot: u8, gives: Option<u8>) {
        let (out, claimed, is_whole) = self.slot(slot);
        if !self.owner(slot).is_null() {
            return;
        }
        let owner = self.owner(from);
        let (context, mut node) = self.context(gives);
        let mut before: Vec<_> = (!owner.is_null()).then_some(owner).into_iter().collect();
        let mut chain: Vec<cai_array> = Vec::with_capacity(masks.len());
        for mask in masks.into_iter().flatten() {
            let index = mask.and_then(|index| self.reference(index));
            let owner = index.map_or(null_mut(), |index| self.references[index]);
            before.extend((!owner.is_null()).then_some(owner));
            let mut mask = filled(&[], owner);
            mask.mask = chain.last().map_or(null(), |next| &raw const *next);
            chain.push(mask);
        }
        let mut description = filled(&[], owner);
        description.mask = chain.last().map_or(null(), |next| &raw const *next);
        // SAFETY: all pointers are valid; the owners are alive.
        unsafe {
            let status = cai_array_create(&description, context.cast(), Some(destroy), out, null_mut());
            assert_eq!(status == CAI_OK, is_whole, "{status}");
            if status != CAI_OK {
                self.take_back(context);
                return;
            }
            self.slots[usize::from(slot) % self.slots.len()].0.assert_written(claimed);
            before.iter().for_each(|owner| self.model.retain(*owner));
            node.before = before;
            self.model.add((*out).owner, node);
        }
    }

    /// Compares what was destroyed with what the model expects, and the order of both.
    fn compare(&mut self) {
        self.model.released.clear();
        let found = DESTROYED.take();
        let expected = std::mem::take(&mut self.model.expected);
        let (mut sorted_found, mut sorted_expected) = (found.clone(), expected.clone());
        sorted_found.sort_unstable();
        sorted_expected.sort_unstable();
        assert_eq!(sorted_found, sorted_expected, "destroyed");
        for (first, second) in std::mem::take(&mut self.model.order) {
            let position = |number| found.iter().position(|found| *found == number);
            assert!(position(first) < position(second), "{first} before {second} in {found:?}");
        }
    }
}

fuzz_target!(|input: Input| {
    let slots = input.sizes.iter().map(|size| size.of(LEAST)).map(|claimed| (Placed::init(claimed), claimed)).collect();
    let mut world = World {
        slots,
        references: Vec::new(),
        tensors: Vec::new(),
        model: Model::default(),
        contexts: 0,
        numbers: Vec::new(),
    };
    // SAFETY: the model follows each operation.
    unsafe {
        for operation in input.operations.iter().take(200) {
            world.run(*operation);
            world.compare();
        }
        while let Some((tensor, is_versioned, owner)) = world.tensors.pop() {
            call_deleter(tensor, is_versioned);
            world.model.release(owner);
        }
        for slot in 0..world.slots.len() {
            world.empty(slot as u8, false);
        }
        while let Some(owner) = world.references.pop() {
            cai_owner_release(owner);
            world.model.release(owner);
        }
        world.compare();
        assert!(world.model.nodes.is_empty(), "an owner is left");
    }
});
