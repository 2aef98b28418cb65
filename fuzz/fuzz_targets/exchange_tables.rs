//! Exchange tables of both kinds: those of foreign types, with any header and functions that give any array or tensor or
//! fail in any way, and those of this library's own type, with structures of any size. Each reference and each tensor
//! is given up exactly once.
#![no_main]

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use arbitrary::Arbitrary;
use cai::abi::*;
use cai::ffi::{array::*, owner::*, python::*, unstable::exchange::*, validate::*};
use cai_fuzz::python::{Object, exported, python};
use cai_fuzz::tensor::{self, Given, Tensor, call_deleter, deleted};
use cai_fuzz::{Placed, Size, extents, filled, is_legal, typestr};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Clone, Debug)]
struct Input {
    ours: Option<Ours>,
    theirs: Option<Theirs>,
    options: (u16, Option<[u8; 4]>),
    published: bool,
    out: Size,
    own: (Size, Size, Given),
}

/// Content of a table of this library's kind, and the behavior of its function.
#[derive(Arbitrary, Clone, Debug)]
struct Ours {
    size: Option<u8>,
    data_abi: Option<u32>,
    without: bool,
    status: Option<i32>,
    raises: bool,
    text: u8,
    array: Array,
}

#[derive(Arbitrary, Clone, Debug)]
struct Array {
    flags: u8,
    has_owner: bool,
    data: u64,
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    ndim: Option<i32>,
    version: u8,
    code: Option<u16>,
    typestr: ([u8; 16], u8),
    stream: Option<u64>,
    stream_id: Option<u64>,
    device: (u8, Option<i32>),
    byte_offset: Option<u64>,
    has_mask: bool,
}

/// Content of a table of DLPack's kind, and the behavior of its functions.
#[derive(Arbitrary, Clone, Debug)]
struct Theirs {
    major: Option<u32>,
    previous: u8,
    without: bool,
    code: Option<i8>,
    raises: bool,
    gives_nothing: bool,
    stream: Option<(i8, u64)>,
    tensor: Given,
}

#[repr(C)]
struct DlpackTable {
    major: u32,
    minor: u32,
    previous: *const DlpackTable,
    allocator: *const c_void,
    from_object: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut *mut c_void) -> c_int>,
    to_object: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut *mut c_void) -> c_int>,
    view: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut Tensor) -> c_int>,
    stream: Option<unsafe extern "C-unwind" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

thread_local! {
    static INPUT: RefCell<Option<Input>> = const { RefCell::new(None) };
    static NUMBERS: RefCell<Vec<Vec<i64>>> = const { RefCell::new(Vec::new()) };
    static GIVEN: Cell<usize> = const { Cell::new(0) };
    static DESTROYED: Cell<usize> = const { Cell::new(0) };
    static TENSORS: Cell<(usize, *mut c_void)> = const { Cell::new((0, null_mut())) };
}

unsafe extern "C-unwind" fn destroy(_: *mut c_void) {
    DESTROYED.set(DESTROYED.get() + 1);
}

fn raise() {
    let python = python();
    // SAFETY: the main thread holds the lock.
    unsafe {
        let kind = (python.attribute)((python.main)(c"builtins".as_ptr()), c"OSError".as_ptr());
        (python.raise)(kind, c"mine".as_ptr());
        (python.release)(kind);
    }
}

fn pointer(values: Option<Vec<i64>>) -> *const i64 {
    values.map_or(null(), |values| {
        NUMBERS.with_borrow_mut(|kept| {
            kept.push(values);
            kept.last().map_or(null(), |values| values.as_ptr())
        })
    })
}

/// A mask that broadcasts to every array.
fn mask() -> *const cai_array {
    static MASK: OnceLock<usize> = OnceLock::new();
    *MASK.get_or_init(|| {
        let typestr = typestr([0; 16], 1);
        Box::into_raw(Box::new(cai_array { typestr, ..filled(&[], null_mut()) })) as usize
    }) as *const cai_array
}

unsafe extern "C-unwind" fn array_of(_: *mut _object, out: *mut cai_array, error: *mut cai_error) -> cai_status {
    let Some(ours) = INPUT.with_borrow(|input| input.as_ref().and_then(|input| input.ours.clone())) else {
        return CAI_ERR_INTERNAL;
    };
    // SAFETY: the library passes an initialized array and a writable error.
    unsafe {
        assert_eq!((*out).struct_size as usize, size_of::<cai_array>());
        if let Some(status) = ours.status.filter(|status| *status != CAI_OK) {
            if ours.raises {
                raise();
            }
            if ours.text % 3 == 1 {
                (*error).code = status;
                (*error).field = [0; 96];
                (*error).message = [0; 408];
                (*error).message[0] = ours.text as c_char;
            }
            return status;
        }
        let given = &ours.array;
        let ndim = given.ndim.unwrap_or(given.shape.as_ref().map_or(0, Vec::len) as i32);
        let mut owner = null_mut();
        if given.has_owner {
            assert_eq!(cai_owner_create(null_mut(), Some(destroy), &mut owner, null_mut()), CAI_OK);
            GIVEN.set(GIVEN.get() + 1);
        }
        let mut array = cai_array {
            struct_size: size_of::<cai_array>() as u32,
            flags: u32::from(given.flags % 3),
            owner,
            data: given.data as *mut c_void,
            shape: pointer(extents(&given.shape, ndim)),
            strides: pointer(extents(&given.strides, ndim)),
            ndim,
            version: u16::from(given.version % 5),
            dtype_code: given.code.unwrap_or(0),
            typestr: typestr(given.typestr.0, given.typestr.1),
            descr: null(),
            mask: null(),
            stream: given.stream.unwrap_or(CAI_STREAM_NONE),
            stream_id: given.stream_id.unwrap_or(0),
            event: null_mut(),
            device: cai_device { r#type: i32::from(given.device.0 % 20), id: given.device.1.unwrap_or(0) },
            context: null_mut(),
            byte_offset: given.byte_offset.unwrap_or(0),
        };
        if given.has_mask {
            array.mask = mask();
        }
        out.write(array);
    }
    CAI_OK
}

unsafe extern "C-unwind" fn tensor_of(_: *mut c_void, out: *mut *mut c_void) -> c_int {
    let Some(theirs) = INPUT.with_borrow(|input| input.as_ref().and_then(|input| input.theirs.clone())) else {
        return -1;
    };
    if let Some(code) = theirs.code.filter(|code| *code != 0) {
        if theirs.raises {
            raise();
        }
        return c_int::from(code);
    }
    if theirs.gives_nothing {
        return 0;
    }
    let tensor = theirs.tensor.versioned().make();
    TENSORS.set((TENSORS.get().0 + 1, tensor));
    // SAFETY: the library passes a writable pointer.
    unsafe { out.write(tensor) };
    0
}

unsafe extern "C-unwind" fn stream_of(_: i32, _: i32, out: *mut *mut c_void) -> c_int {
    let theirs = INPUT.with_borrow(|input| input.as_ref().and_then(|input| input.theirs.clone()));
    let (code, stream) = theirs.and_then(|theirs| theirs.stream).unwrap_or((0, 0));
    if code % 4 == 3 {
        return -1;
    }
    // SAFETY: the library passes a writable pointer.
    unsafe { out.write(stream as *mut c_void) };
    0
}

/// A type and its object, and tables that live as long as the process.
struct World {
    r#type: Object,
    object: Object,
    other: Object,
    ours: *mut cai_unstable_exchange_api,
    theirs: *mut [DlpackTable; 12],
    capsules: [Object; 2],
    own: Object,
    own_table: *const cai_unstable_exchange_api,
    own_dlpack: *const DlpackTable,
}
// SAFETY: one thread runs.
unsafe impl Send for World {}
// SAFETY: one thread runs.
unsafe impl Sync for World {}

const EMPTY: DlpackTable = DlpackTable {
    major: 1,
    minor: 3,
    previous: null(),
    allocator: null(),
    from_object: None,
    to_object: None,
    view: None,
    stream: None,
};

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let python = python();
        let text = "class Type: pass\nclass Other: pass\nobject_ = Type()\n";
        let main = python.run(text);
        // SAFETY: the interpreter has started, and this is its thread.
        unsafe {
            let get = |name: &std::ffi::CStr| (python.attribute)(main, name.as_ptr());
            let ours = Box::into_raw(Box::new(cai_unstable_exchange_api {
                struct_size: 24,
                data_abi: CAI_DATA_ABI,
                from_object: Some(array_of),
                to_object: None,
            }));
            let theirs = Box::into_raw(Box::new([EMPTY; 12]));
            let names = [c"cai_exchange_api_1", c"dlpack_exchange_api"];
            let tables: [*mut c_void; 2] = [ours.cast(), theirs.cast()];
            let capsules = [0, 1].map(|index| (python.capsule)(tables[index], names[index].as_ptr(), null()));
            let own = exported(CAI_DEVICE_CPU, false);
            let table = |attribute: &std::ffi::CStr, name: &std::ffi::CStr| {
                let capsule = (python.attribute)((python.type_of)(own), attribute.as_ptr());
                assert!(!capsule.is_null());
                (python.pointer)(capsule, name.as_ptr())
            };
            let own_table = table(c"__cai_exchange_api__", names[0]).cast_const().cast();
            let own_dlpack = table(c"__dlpack_c_exchange_api__", names[1]).cast_const().cast();
            let (r#type, object, other) = (get(c"Type"), get(c"object_"), get(c"Other"));
            World { r#type, object, other, ours, theirs, capsules, own, own_table, own_dlpack }
        }
    })
}

/// Puts the tables on the type. The library forgets what it knew of types when a table is published.
unsafe fn publish(input: &Input) {
    let (python, world) = (python(), world());
    // SAFETY: the tables live as long as the process; the thread holds the lock.
    unsafe {
        let set = |name: &std::ffi::CStr, object| assert_eq!((python.set_attribute)(world.r#type, name.as_ptr(), object), 0);
        set(c"__cai_exchange_api__", null_or(&input.ours, world.capsules[0]));
        set(c"__dlpack_c_exchange_api__", null_or(&input.theirs, world.capsules[1]));
        let right = cai_unstable_exchange_api {
            struct_size: 24,
            data_abi: CAI_DATA_ABI,
            from_object: Some(array_of),
            to_object: None,
        };
        let table = input.ours.as_ref().map_or(right, |ours| cai_unstable_exchange_api {
            struct_size: ours.size.map_or(24, u32::from),
            data_abi: ours.data_abi.unwrap_or(CAI_DATA_ABI),
            from_object: if ours.without { None } else { right.from_object },
            ..right
        });
        world.ours.write(table);
        if let Some(theirs) = &input.theirs {
            let count = usize::from(theirs.previous) % (*world.theirs).len();
            for (index, entry) in (*world.theirs).iter_mut().enumerate() {
                let is_last = index >= count;
                *entry = DlpackTable {
                    major: if is_last { theirs.major.unwrap_or(1) } else { 2 + index as u32 },
                    previous: if is_last { null() } else { world.theirs.cast::<DlpackTable>().add(index + 1) },
                    from_object: if theirs.without { None } else { Some(tensor_of) },
                    stream: theirs.stream.map(|_| stream_of as _),
                    ..EMPTY
                };
            }
        }
        let is_sound = table.struct_size >= 24 && table.data_abi == CAI_DATA_ABI && table.from_object.is_some();
        let target = if input.published && input.ours.is_some() { world.r#type } else { world.other };
        let published = cai_unstable_python_publish(target, world.ours, null_mut());
        assert_eq!(published == CAI_OK, is_sound, "{published}");
        if published != CAI_OK {
            assert!(python.raised());
            // Something must be published, so that the types are looked at again.
            static RIGHT: cai_unstable_exchange_api = cai_unstable_exchange_api {
                struct_size: 24,
                data_abi: CAI_DATA_ABI,
                from_object: Some(array_of),
                to_object: None,
            };
            assert_eq!(cai_unstable_python_publish(world.other, &raw const RIGHT, null_mut()), CAI_OK);
        }
    }
}

/// `None` where there is no table.
fn null_or<T>(table: &Option<T>, capsule: Object) -> Object {
    static NONE: OnceLock<usize> = OnceLock::new();
    let none = *NONE.get_or_init(|| {
        let main = python().run("nothing = None");
        // SAFETY: the thread holds the lock.
        unsafe { (python().attribute)(main, c"nothing".as_ptr()) as usize }
    });
    if table.is_some() { capsule } else { none as Object }
}

fuzz_target!(|input: Input| {
    let (python, world) = (python(), world());
    // SAFETY: pointers are NULL or valid; the thread holds the lock.
    unsafe {
        INPUT.set(Some(input.clone()));
        publish(&input);
        let (flags, list) = input.options;
        let mut options = std::mem::zeroed::<cai_import_options>();
        (options.struct_size, options.dlpack_stream) = (size_of::<cai_import_options>() as u32, CAI_STREAM_UNKNOWN);
        // Without those that make the driver known, and that contradict one another.
        options.flags = u32::from(flags) & 0x7ff & !(CAI_IMPORT_QUERY_DEVICE | CAI_IMPORT_ALLOW_STREAM_ZERO);
        if let Some(list) = list {
            options.protocols[..4].copy_from_slice(&list.map(|number| number % 10));
        }
        let (given, destroyed) = (GIVEN.get(), DESTROYED.get());
        let (tensors, gone) = (TENSORS.get().0, deleted());
        let claimed = input.out.of(size_of::<cai_array>());
        let out = Placed::init(claimed);
        let before = python.references(world.object);
        let status = cai_array_from_python(world.object, &options, out.array(), null_mut());
        let raised = python.raised();
        if status == CAI_OK {
            assert!(!raised);
            out.assert_written(claimed);
            assert_eq!(cai_array_validate(out.array(), CAI_CHECK_LAYOUT, null_mut()), CAI_OK);
            assert!(!(*out.array()).owner.is_null());
            cai_array_release(out.array());
        } else {
            out.assert_untouched(claimed);
        }
        assert!(status == CAI_OK || raised || options.flags & CAI_IMPORT_NO_EXCEPTION != 0);
        assert_eq!(DESTROYED.get() - destroyed, GIVEN.get() - given, "references of arrays, status {status}");
        let made = TENSORS.get().0 - tensors;
        let has_deleter = input.theirs.as_ref().is_some_and(|theirs| theirs.tensor.has_deleter());
        assert_eq!(deleted() - gone, if has_deleter { made } else { 0 }, "tensors, status {status}");
        if made > 0 && !has_deleter {
            let theirs = input.theirs.as_ref().map(|theirs| theirs.tensor.clone());
            theirs.into_iter().for_each(|given| given.versioned().free(TENSORS.get().1));
        }
        assert_eq!(python.references(world.object), before, "references of the object, status {status}");
        NUMBERS.with_borrow_mut(Vec::clear);
        own_tables(&input);
    }
});

/// The tables of this library's type.
unsafe fn own_tables(input: &Input) {
    let (python, world) = (python(), world());
    let least = size_of::<cai_array>();
    let (size, again, given) = (input.own.0.of(least), input.own.1.of(least), &input.own.2);
    // SAFETY: pointers are NULL or valid; the thread holds the lock; each structure has the size that it claims.
    unsafe {
        let (from, to) = ((*world.own_table).from_object.unwrap(), (*world.own_table).to_object.unwrap());
        let before = python.references(world.own);
        let out = Placed::init(size);
        let mut error = std::mem::zeroed::<cai_error>();
        let status = from(world.own.cast(), out.array(), &mut error);
        assert_eq!(status == CAI_OK, is_legal(size, least));
        // A table's function may raise as well.
        assert!(!python.raised() || status != CAI_OK);
        if status == CAI_OK {
            out.assert_written(size);
            // Into an object, from a structure of another size, which may claim too much.
            let source = Placed::init(again);
            if is_legal(again, least) {
                assert_eq!(cai_array_share(out.array(), source.array(), null_mut()), CAI_OK);
            }
            let mut object = null_mut();
            let made = to(source.array(), &mut object, &mut error);
            assert_eq!(made == CAI_OK, is_legal(again, least));
            assert!(!python.raised() || made != CAI_OK);
            if made == CAI_OK {
                (python.release)(object.cast());
            }
            cai_array_release(source.array());
            cai_array_release(out.array());
        }
        assert_eq!(python.references(world.own), before);

        let table = &*world.own_dlpack;
        let mut tensor = null_mut();
        assert_eq!(table.from_object.unwrap()(world.own.cast(), &mut tensor), 0);
        assert_eq!(tensor::inside(tensor, true).data, 0x7000_0000);
        call_deleter(tensor, true);
        assert_ne!(table.from_object.unwrap()(world.object.cast(), &mut tensor), 0);
        assert!(python.raised());
        // A tensor is given away, whether it is taken or not.
        let gone = deleted();
        let given = given.clone().versioned();
        let tensor = given.make();
        let mut object = null_mut();
        let code = table.to_object.unwrap()(tensor, &mut object);
        assert_eq!(python.raised(), code != 0);
        if code == 0 {
            (python.release)(object.cast());
        }
        assert_eq!(deleted() - gone, usize::from(given.has_deleter()));
        if !given.has_deleter() {
            given.free(tensor);
        }
    }
}
