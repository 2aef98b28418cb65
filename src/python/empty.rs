//! Arrays that the library of another object allocates.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_error, cai_import_options, cai_status};
use crate::dtype::{self, NATIVE, table};
use crate::error::{Failure, Result, Shown, Text, fail, failure};
use crate::python::class::{Arguments, Function, entry};
use crate::python::export::export;
use crate::python::import::exchange_table::foreign;
use crate::python::import::import;
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::python::py::{Builtin, Dictionary, Int, Name, Obj, Owned, Py, Type};
use crate::python::stream::{self, Accepted};
use crate::read::{self, Unchecked};
use crate::validate;

const DOC: &CStr = c"empty_like(prototype, /, shape=None, dtype=None, stream=None)\n--\n\n\
    Returns a new array of the library of `prototype`, on its device, in C order. Its elements are \
    not set.\n\n\
    `shape`: None, an integer or a tuple of integers. None: that of `prototype`.\n\
    `dtype`: a typestr, a name such as 'float32', or a type of NumPy or the library. None: \
    that of `prototype`.\n\
    `stream`: the stream that the memory belongs to, as libcai.view takes it; of CuPy and PyTorch \
    only. None: the library's current stream.";

/// The function `libcai.empty_like`.
pub static FUNCTION: Function =
    Function::with_keywords(c"empty_like", entry!(call, arguments), DOC);

/// Function of a caller that allocates where the library is not known.
pub type Allocate = unsafe extern "C-unwind" fn(
    like: *const cai_array,
    stream: abi::cai_stream,
    context: *mut c_void,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status;

/// Wanted array.
pub struct Request<'a> {
    /// `None`: the shape of the prototype.
    pub shape: Option<Obj<'a>>,
    /// `None`: the type of the prototype.
    pub element: Option<Element<'a>>,
    /// The stream that the memory belongs to. 0: the library's current one.
    pub stream: u64,
}

pub enum Element<'a> {
    Known(Known),
    /// A type of the library, or its name.
    Object(Obj<'a>),
}

/// A type that a typestr and a code name.
#[derive(Clone, Copy)]
pub struct Known {
    dtype: abi::cai_dtype,
    typestr: [u8; CAI_TYPESTR_SIZE],
}

impl Known {
    /// Fails for a wrong typestr, and for one that does not say all.
    pub fn new(array: &Unchecked) -> Result<Option<Self>> {
        let typestr = array.typestr.map(|letter| letter as u8);
        let text = typestr.split(|letter| *letter == 0).next().unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        if !array.descr.is_null() {
            return fail!(CAI_ERR_CONVERT_TYPE, "like->descr";
                found "fields"; expected "NULL, or an empty typestr for the type of the prototype");
        }
        let mut dtype =
            dtype::parse(text).map_err(|failure| failure.within(format_args!("like->")))?;
        dtype.code = array.dtype_code;
        Ok(Some(Known { dtype, typestr }))
    }

    fn text(&self) -> &[u8] {
        self.typestr.split(|letter| *letter == 0).next().unwrap_or_default()
    }

    /// Returns the name that libraries have for the type.
    fn name(&self) -> Result<&'static str> {
        let is_native =
            matches!(self.dtype.byte_order as u8, b'|' | NATIVE) || self.dtype.itemsize == 1;
        match table::of(&self.dtype).filter(|_| is_native || self.dtype.code != 0) {
            Some(r#type) => Ok(r#type.name),
            None => fail!(CAI_ERR_CONVERT_TYPE, "typestr";
                found "{} with dtype_code {}", Shown(self.text()), self.dtype.code;
                expected "a type that has a name, in the byte order of this machine"),
        }
    }
}

/// Result of a library.
pub enum Made<'py> {
    Array(Owned<'py>),
    /// No library is known that allocates for the object, or its arrays cannot be written.
    Nothing(Failure),
}

/// Allocates an array through the library of `prototype`. `use_it` receives it while the stream is
/// the library's current one.
pub fn empty_like<'py>(
    py: Py<'py>,
    prototype: Obj,
    request: &Request,
    use_it: impl FnOnce(Obj) -> Result<()>,
) -> Result<Made<'py>> {
    let used = |made: Owned<'py>| use_it(made.obj()).map(|()| made);
    let library = library_of(py, Type::of(py, prototype).obj())?;
    let made = match library.as_str() {
        "numpy" => used(positional(py, "numpy", prototype, request)?)?,
        "cupy" => of_cupy(py, prototype, request, used)?,
        // They have functions like those below, whose results nothing may write to.
        "jax" | "jaxlib" => {
            return Ok(Made::Nothing(failure!(abi::CAI_ERR_READONLY, "prototype";
                found "an array of JAX, whose arrays cannot be written";
                expected "an array of another library, or an allocator")));
        }
        _ => match prototype.optional_attr(py, py.names.new_empty)? {
            Some(new_empty) => of_torch(py, prototype, new_empty.obj(), request, used)?,
            None => match prototype.optional_attr(py, py.names.array_namespace)? {
                Some(namespace) => {
                    let namespace = namespace.obj().call(py, [])?;
                    used(standard(py, namespace.obj(), prototype, request)?)?
                }
                None => {
                    return Ok(Made::Nothing(failure!(abi::CAI_ERR_NO_PROTOCOL, "prototype";
                        found "an object of type {}", prototype.type_name(py);
                        expected "an array of NumPy or CuPy, or one with new_empty or \
                            __array_namespace__")));
                }
            },
        },
    };
    Ok(Made::Array(made))
}

/// Returns the first part of the name of a type's module.
fn library_of(py: Py, r#type: Obj) -> Result<Text<64>> {
    let module = r#type.optional_attr(py, py.names.module)?;
    let text = module.as_ref().and_then(|module| module.obj().text(py)).unwrap_or_default();
    let root = text.split(|letter| *letter == b'.').next().unwrap_or_default();
    Ok(Text::new(format_args!("{}", std::str::from_utf8(root).unwrap_or_default())))
}

/// Returns the module of a library, which was imported before an object of it was made.
fn module<'py>(py: Py<'py>, name: &str) -> Result<Owned<'py>> {
    match py.imported(py.string(name.as_bytes())?.obj())? {
        Some(module) => Ok(module),
        None => fail!(CAI_ERR_NO_PROTOCOL, "prototype";
            found "an object of a module {name} that is not in sys.modules";
            expected "a library that is imported"),
    }
}

fn attribute<'py>(py: Py<'py>, of: Obj, name: &str) -> Result<Owned<'py>> {
    of.attr(py, py.string(name.as_bytes())?.obj())
}

fn shape<'py>(py: Py<'py>, prototype: Obj, request: &Request) -> Result<Owned<'py>> {
    match request.shape {
        Some(shape) => Ok(shape.share(py)),
        None => prototype.attr(py, py.names.shape),
    }
}

/// Returns the type as NumPy and CuPy take it.
fn numpys_type<'py>(py: Py<'py>, prototype: Obj, request: &Request) -> Result<Owned<'py>> {
    match &request.element {
        None => prototype.attr(py, py.names.dtype),
        Some(Element::Object(object)) => Ok(object.share(py)),
        Some(Element::Known(known)) if known.dtype.code == 0 => py.string(known.text()),
        Some(Element::Known(known)) => py.string(known.name()?.as_bytes()),
    }
}

/// Returns the type as an attribute of a module, which has the names of types.
fn type_in<'py>(py: Py<'py>, module: Obj, element: &Element) -> Result<Owned<'py>> {
    let known = match element {
        Element::Known(known) => *known,
        Element::Object(object) => {
            let (mut object, named) = (*object, numpys_name(py, *object)?);
            if let Some(name) = &named {
                object = name.obj();
            }
            let Some(text) = object.is_a(py, Builtin::Str).then(|| object.text(py)).flatten()
            else {
                return Ok(object.share(py));
            };
            let Ok(dtype) = dtype::parse(text) else { return module.attr(py, object) };
            let mut typestr = [0; CAI_TYPESTR_SIZE];
            typestr.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            Known { dtype, typestr }
        }
    };
    attribute(py, module, known.name()?)
}

/// Returns the typestr of a type of NumPy, or its name if another package registered it: of a
/// `numpy.dtype`, such as that of a view, or of a class.
fn numpys_name<'py>(py: Py<'py>, object: Obj) -> Result<Option<Owned<'py>>> {
    let library = match object.is_a(py, Builtin::Type) {
        true => library_of(py, object)?,
        false => library_of(py, Type::of(py, object).obj())?,
    };
    if !matches!(library.as_str(), "numpy" | "ml_dtypes") {
        return Ok(None);
    }
    // `numpy.dtype` makes objects of the classes in `numpy.dtypes`.
    let empty = module(py, "numpy")?.obj().attr(py, py.names.empty_array)?;
    let array = empty.obj().call(py, [py.int(0)?.obj(), object])?;
    let dtype = array.obj().attr(py, py.names.dtype)?;
    // Types of other packages, such as ml_dtypes', have a name of their own.
    let is_builtin = dtype.obj().attr(py, py.names.isbuiltin)?;
    let is_registered = matches!(is_builtin.obj().int(py)?, Int::Value(2));
    attribute(py, dtype.obj(), if is_registered { "name" } else { "str" }).map(Some)
}

fn positional<'py>(
    py: Py<'py>,
    library: &str,
    prototype: Obj,
    request: &Request,
) -> Result<Owned<'py>> {
    let (shape, dtype) = (shape(py, prototype, request)?, numpys_type(py, prototype, request)?);
    let empty = module(py, library)?.obj().attr(py, py.names.empty_array)?;
    empty.obj().call(py, [shape.obj(), dtype.obj()])
}

/// CuPy allocates on the current device and stream.
fn of_cupy<'py>(
    py: Py<'py>,
    prototype: Obj,
    request: &Request,
    used: impl FnOnce(Owned<'py>) -> Result<Owned<'py>>,
) -> Result<Owned<'py>> {
    let device = prototype.attr(py, py.names.device)?;
    within(py, device.obj(), || {
        let make = || used(positional(py, "cupy", prototype, request)?);
        if request.stream == 0 {
            return make();
        }
        within(py, cupys_stream(py, request.stream)?.obj(), make)
    })
}

/// Returns a stream of CuPy, to which the legacy default stream is 0.
fn cupys_stream(py: Py<'_>, stream: u64) -> Result<Owned<'_>> {
    let handle = py.unsigned(if stream == abi::CAI_STREAM_LEGACY { 0 } else { stream })?;
    let cuda = attribute(py, module(py, "cupy")?.obj(), "cuda")?;
    let class = attribute(py, cuda.obj(), "Stream")?;
    let name = py.string(b"from_external")?;
    let Some(from) = class.obj().optional_attr(py, name.obj())? else {
        // Before CuPy 14, which replaces it.
        return attribute(py, cuda.obj(), "ExternalStream")?.obj().call(py, [handle.obj()]);
    };
    // An object with a method that returns version and handle.
    let tuple = py.pair(py.int(0)?, handle)?;
    let partial = attribute(py, py.import(c"functools")?.obj(), "partial")?;
    let method = partial.obj().call(py, [py.builtin(Builtin::Tuple), tuple.obj()])?;
    let keywords = Dictionary::new(py)?;
    keywords.set(py.names.cuda_stream, method.obj())?;
    let object = attribute(py, py.import(c"types")?.obj(), "SimpleNamespace")?;
    let object = object.obj().call_with(py, 0, [].into_iter(), Some(keywords.dict()))?;
    from.obj().call(py, [object.obj()])
}

/// PyTorch's method, and that of libraries which have it too.
fn of_torch<'py>(
    py: Py<'py>,
    prototype: Obj,
    new_empty: Obj,
    request: &Request,
    used: impl FnOnce(Owned<'py>) -> Result<Owned<'py>>,
) -> Result<Owned<'py>> {
    let shape = shape(py, prototype, request)?;
    // A derived class may be of another module, but not the type of its elements.
    let torch = |py| -> Result<Owned<'py>> {
        let dtype = prototype.attr(py, py.names.dtype)?;
        let library = library_of(py, Type::of(py, dtype.obj()).obj())?;
        if library.as_str() == "builtins" {
            return fail!(CAI_ERR_NO_PROTOCOL, "prototype.dtype";
                found "an object of type {}", dtype.obj().type_name(py);
                expected "one of the library's own type, such as torch.float32");
        }
        module(py, library.as_str())
    };
    let keywords = match &request.element {
        None => None,
        Some(element) => {
            let keywords = Dictionary::new(py)?;
            keywords.set(py.names.dtype, type_in(py, torch(py)?.obj(), element)?.obj())?;
            Some(keywords)
        }
    };
    let make = || {
        let keywords = keywords.as_ref().map(Dictionary::dict);
        used(new_empty.call_with(py, 1, [shape.obj()].into_iter(), keywords)?)
    };
    if request.stream == 0 || !attribute(py, prototype, "is_cuda")?.obj().is_true(py)? {
        return make();
    }
    let (cuda, device) =
        (attribute(py, torch(py)?.obj(), "cuda")?, prototype.attr(py, py.names.device)?);
    let stream = if request.stream == abi::CAI_STREAM_LEGACY {
        // An ExternalStream of 0 would be a new stream.
        attribute(py, cuda.obj(), "default_stream")?.obj().call(py, [device.obj()])?
    } else {
        let made = attribute(py, cuda.obj(), "ExternalStream")?;
        made.obj().call(py, [py.unsigned(request.stream)?.obj(), device.obj()])?
    };
    let manager = attribute(py, cuda.obj(), "stream")?.obj().call(py, [stream.obj()])?;
    within(py, manager.obj(), make)
}

/// `empty` of Python's standard for arrays.
fn standard<'py>(
    py: Py<'py>,
    namespace: Obj,
    prototype: Obj,
    request: &Request,
) -> Result<Owned<'py>> {
    let shape = shape(py, prototype, request)?;
    let dtype = match &request.element {
        None => prototype.attr(py, py.names.dtype)?,
        Some(element) => type_in(py, namespace, element)?,
    };
    let keywords = Dictionary::new(py)?;
    keywords.set(py.names.dtype, dtype.obj())?;
    keywords.set(py.names.device, prototype.attr(py, py.names.device)?.obj())?;
    let empty = namespace.attr(py, py.names.empty_array)?;
    empty.obj().call_with(py, 1, [shape.obj()].into_iter(), Some(keywords.dict()))
}

/// Returns the extents of the wanted array of a C caller.
pub fn extents<'a>(like: &Unchecked<'_, 'a>) -> Result<&'a [i64]> {
    read::check_shape(like.ndim, like.shape)
        .map_err(|failure| failure.within(format_args!("like->")))?;
    Ok(like.common_dimensions().map(|(shape, _)| shape).unwrap_or_default())
}

/// Runs `body` as a `with` statement does, but tells the manager of no exception.
fn within<T>(py: Py, manager: Obj, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let exit = attribute(py, manager, "__exit__")?;
    attribute(py, manager, "__enter__")?.obj().call(py, [])?;
    let result = body();
    let raised = py.take_exception();
    let exited = exit.obj().call(py, [py.none(); 3]);
    if result.is_err() {
        // The first failure is reported.
        py.clear();
        raised.restore();
        return result;
    }
    exited.and(result)
}

/// Describes an array that was allocated for the caller to write.
pub fn describe(
    py: Py,
    object: Obj,
    like: Option<&Unchecked>,
    stream: u64,
    to: &mut Description,
) -> Result<()> {
    let options = ImportOptions {
        raw: cai_import_options {
            flags: abi::CAI_IMPORT_ALLOW_HOST | abi::CAI_IMPORT_REQUIRE_WRITABLE,
            dlpack_stream: if stream == 0 { abi::CAI_STREAM_UNKNOWN } else { stream },
            ..ImportOptions::NONE.raw
        },
    };
    import(py, object, &options, to)?;
    if stream != 0 && to.array.stream == abi::CAI_STREAM_UNKNOWN {
        // The library has no name for it, but allocated there.
        to.array.stream = stream;
    }
    like.map_or(Ok(()), |like| has_shape(to, extents(like)?))
}

/// Fails for another shape than the wanted one, because callers write as many elements.
fn has_shape(made: &Description, wanted: &[i64]) -> Result<()> {
    // SAFETY: the array was imported or validated.
    let found = extents(&unsafe { Unchecked::new(&made.array) })?;
    if found == wanted {
        return Ok(());
    }
    fail!(CAI_ERR_VALUE, "shape"; found "{found:?}"; expected "{wanted:?}, as requested")
}

/// Fails for what a caller that asked for `wanted` cannot write.
fn is_as_wanted(made: &Description, wanted: &cai_array) -> Result<()> {
    // SAFETY: the caller validated the shape.
    has_shape(made, extents(&unsafe { Unchecked::new(wanted) })?)?;
    if !dtype::equal(&dtype::of_array(&made.array)?, &dtype::of_array(wanted)?) {
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
            found "another type than requested"; expected "that of `like`");
    }
    if made.array.flags & abi::CAI_ARRAY_READONLY != 0 {
        return fail!(CAI_ERR_READONLY, "flags";
            found "CAI_ARRAY_READONLY"; expected "an array that can be written");
    }
    Ok(())
}

/// Allocates through a function of the caller, and makes a Python object.
///
/// # Safety
/// `allocate` keeps to what the header requires of it, for this `context`.
pub unsafe fn by_callback<'py>(
    py: Py<'py>,
    prototype: Obj,
    like: Option<&Unchecked>,
    stream: u64,
    (allocate, context): (Allocate, *mut c_void),
    to: &mut Description,
) -> Result<Owned<'py>> {
    let mut of_prototype = Description::new();
    let options = ImportOptions {
        raw: cai_import_options {
            flags: abi::CAI_IMPORT_ALLOW_HOST | abi::CAI_IMPORT_ALLOW_MASK,
            // Its elements are not read.
            dlpack_stream: abi::CAI_STREAM_NONE,
            ..ImportOptions::NONE.raw
        },
    };
    import(py, prototype, &options, &mut of_prototype)?;
    let mut wanted = of_prototype.array;
    if let Some(like) = like {
        (wanted.ndim, wanted.shape) = (like.ndim, like.shape);
        if like.typestr[0] != 0 {
            (wanted.typestr, wanted.dtype_code) = (like.typestr, like.dtype_code);
            wanted.descr = ptr::null();
        }
    }
    (wanted.owner, wanted.data, wanted.byte_offset) = (ptr::null_mut(), ptr::null_mut(), 0);
    (wanted.strides, wanted.mask, wanted.flags) = (ptr::null(), ptr::null(), 0);
    (wanted.stream, wanted.stream_id, wanted.event) = (abi::CAI_STREAM_NONE, 0, ptr::null_mut());
    let mut error = MaybeUninit::<cai_error>::zeroed();
    // SAFETY: what the header states of the arguments (this function's contract): `wanted` refers to
    // shape and fields of `like` and of the prototype, which `of_prototype` keeps alive.
    let status = unsafe {
        allocate(&raw const wanted, stream, context, &raw mut to.array, error.as_mut_ptr())
    };
    if status != abi::CAI_OK {
        // A function that fails gives no reference, whatever it wrote.
        to.taken();
        // SAFETY: terminated texts: zeros, or what the function wrote by its contract.
        return Err(unsafe { foreign(py, status, error.as_ptr(), "allocate") });
    }
    // SAFETY: the function filled the array by its contract.
    unsafe { validate::array(&raw const to.array, abi::CAI_CHECK_LAYOUT) }
        .and_then(|()| is_as_wanted(to, &wanted))
        .map_err(|failure| failure.within(format_args!("allocate: ")))?;
    if to.array.owner.is_null() {
        return fail!(CAI_ERR_BORROWED, "allocate: owner";
            found "NULL"; expected "an owner that keeps the data alive");
    }
    // SAFETY: the array was validated.
    unsafe { export(py, &to.array, 0) }
}

struct Call<'a> {
    prototype: Option<Obj<'a>>,
    /// `shape`, `dtype` and `stream`.
    rest: [Option<Obj<'a>>; 3],
}

impl<'a> Call<'a> {
    fn read(py: Py<'_>, arguments: Arguments<'a>) -> Result<Self> {
        let mut call = Call { prototype: arguments.positional.first().copied(), rest: [None; 3] };
        let more = arguments.positional.get(1..).unwrap_or_default();
        if call.prototype.is_none() || more.len() > call.rest.len() {
            return fail!(CAI_ERR_TYPE, "empty_like";
                found "{} positional arguments", arguments.positional.len();
                expected "an array, and at most a shape, a type and a stream");
        }
        for (to, from) in call.rest.iter_mut().zip(more) {
            *to = Some(*from);
        }
        let names: [Name; 3] = [py.names.shape, py.names.dtype, py.names.stream];
        for (name, value) in arguments.keywords(py) {
            let is = |known: &Name| {
                name == Obj::from(*known) || name.text(py) == Obj::from(*known).text(py)
            };
            match names.iter().position(is).and_then(|index| call.rest.get_mut(index)) {
                Some(to @ None) => *to = Some(value),
                _ => {
                    return fail!(CAI_ERR_TYPE, "empty_like";
                        found "a keyword {}", name.text(py).unwrap_or_default().escape_ascii();
                        expected "shape, dtype or stream, if it is not passed by position");
                }
            }
        }
        call.rest = call.rest.map(|given| given.filter(|given| !given.is_none(py)));
        Ok(call)
    }
}

fn call<'py>(py: Py<'py>, arguments: Arguments<'_>) -> Result<Owned<'py>> {
    let Call { prototype, rest: [shape, dtype, stream] } = Call::read(py, arguments)?;
    let prototype = prototype.ok_or_else(|| Failure::null("prototype"))?;
    // A number is a shape of one dimension, which not every library accepts.
    let one = match shape {
        Some(shape) if shape.is_a(py, Builtin::Int) => Some(py.tuple(1, |_| Ok(shape.share(py)))?),
        _ => None,
    };
    let accepted = Accepted { none: 0, zero: false };
    let request = Request {
        shape: one.as_ref().map(Owned::obj).or(shape),
        element: dtype.map(Element::Object),
        stream: stream.map_or(Ok(0), |given| stream::of_object(py, given, accepted))?,
    };
    match empty_like(py, prototype, &request, |_| Ok(()))? {
        Made::Array(made) => Ok(made),
        Made::Nothing(failure) => Err(failure),
    }
}
