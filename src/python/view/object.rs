//! Objects of the class `libcai.View`: what they hold, how they begin and end.

use std::ffi::{CStr, c_int};
use std::mem::offset_of;
use std::ptr;

use crate::abi::{self, cai_array};
use crate::device;
use crate::driver;
use crate::error::{Failure, Result, fail};
use crate::owner::Ref;
use crate::python::class::{Attribute, Contents, Ending, Held, Instance, Method, Readable, entry};
use crate::python::empty;
use crate::python::export::export;
use crate::python::export::object::{CAN_BE_RELEASED, Exported, Reading, shown};
use crate::python::export::pep3118;
use crate::python::owner::Description;
use crate::python::py::{Lent, Obj, Owned, Py};
use crate::python::view::attributes::ATTRIBUTES;
use crate::read::Unchecked;
use crate::sync::consume::{self, Phase};
use crate::sync::notify::{self, Kind};
use crate::sync::release_in_order;

#[repr(C)]
pub struct View {
    body: Exported,
    /// The object that was viewed, until the release.
    pub exporter: Readable,
    /// The stream as it was passed, kept alive while the view uses it.
    stream_object: Held,
    /// The `libcai.Array` that offers the array to others, once one of them asked: it keeps the
    /// memory for those who keep the view, also after the release.
    offered: Held,
    /// The stream that is ordered; `CAI_STREAM_NONE` for none.
    stream: u64,
}

// SAFETY: zeros are a view that was released. Rust does not use `weak_references`.
unsafe impl Contents for View {
    const NAME: &'static CStr = c"libcai.View";
    const DOC: &'static CStr = c"A view of an array of another object, made by libcai.view.";
    const WEAK_REFERENCES: usize = offset_of!(View, body) + offset_of!(Exported, weak_references);

    fn attributes() -> &'static [Attribute<Self>] {
        &ATTRIBUTES
    }

    fn methods() -> &'static [Method<Self>] {
        &METHODS
    }

    fn repr<'py>(py: Py<'py>, this: Instance<'_, Self>) -> Result<Owned<'py>> {
        match this.body.read() {
            Some(array) => py.string(shown("libcai.View", &array).as_str().as_bytes()),
            None => py.string(b"<libcai.View, released>"),
        }
    }

    fn len(_: Py, this: Instance<'_, Self>) -> Result<usize> {
        this.array()?.len()
    }

    /// The package finds the function here.
    fn complete(py: Py, class: Obj) -> Result<()> {
        let module = py.string(b"libcai")?;
        let function = empty::FUNCTION.make(py, None, Some(module.obj()))?;
        class.set_attr(py, py.names.empty_like, function.obj())
    }

    /// The consumer keeps the `libcai.Array` that offers the array, and so the memory, also after
    /// the release of the view.
    fn lend<'py>(py: Py<'py>, this: Instance<'_, Self>, flags: c_int) -> Result<Lent<'py>> {
        match py.exports().instance(this.contents().offered(py)?) {
            Some(offered) => pep3118::lend(py, offered, flags),
            None => Err(Failure::internal()),
        }
    }

    /// The producer is not made to wait: an integer keeps no stream, which may be gone by now.
    fn finalize(&mut self, ending: Ending) {
        self.stream_object.end(ending);
        self.offered.end(ending);
        self.exporter.end(ending);
        self.body.end();
    }
}

static METHODS: [Method<View>; 5] = [
    Method::new(
        c"release",
        entry!(View => release),
        c"release($self, /)\n--\n\n\
          Makes the producer wait for the work on the view's stream, and gives up the array.",
    ),
    Method::new(
        c"synchronize",
        entry!(View => synchronize),
        c"synchronize($self, /)\n--\n\n\
          Blocks until the producer's work on the array, and that on the view's stream, is done.",
    ),
    Method::new(
        c"__enter__",
        entry!(View => enter),
        c"__enter__($self, /)\n--\n\nReturns the view.",
    ),
    Method::ignoring(
        c"__exit__",
        entry!(View => release),
        c"__exit__($self, /, *exception)\n--\n\nReleases the view.",
    ),
    Method::END,
];

pub struct Ordered<'a> {
    /// The stream that is ordered; `CAI_STREAM_NONE` for none.
    pub stream: u64,
    pub object: Option<Obj<'a>>,
    pub exporter: Obj<'a>,
}

impl View {
    pub fn array(&self) -> Result<Reading<'_>> {
        match self.body.read() {
            Some(array) => Ok(array),
            None => released(),
        }
    }

    /// Returns the array with the view's stream, which waits for the array's, if it has one.
    fn on_stream(&self, array: &Reading) -> cai_array {
        let mut array = **array;
        if self.stream != abi::CAI_STREAM_NONE && device::may_be_cuda(array.device.r#type) {
            array.stream = self.stream;
            (array.stream_id, array.context, array.event) = (0, ptr::null_mut(), ptr::null_mut());
        }
        array
    }

    /// Returns the object that offers the array through every protocol that can have it.
    pub fn offered<'a>(&'a self, py: Py<'a>) -> Result<Obj<'a>> {
        let array = self.array()?;
        // SAFETY: the array was validated, and `array` keeps its owner alive. Its version allows for
        // any stream: it was imported, not stated by a caller.
        self.offered.get_or_set(py, || unsafe { export(py, &self.on_stream(&array), 0) })
    }

    /// Makes a view and orders its stream after the array's.
    ///
    /// # Safety
    /// `imported` was imported: it has an owner, and was validated.
    #[inline]
    pub unsafe fn make<'py>(
        py: Py<'py>,
        mut imported: Description,
        ordered: Ordered<'_>,
        readonly: bool,
    ) -> Result<Owned<'py>> {
        if readonly {
            imported.array.flags |= abi::CAI_ARRAY_READONLY;
        }
        let Ordered { stream, object, exporter } = ordered;
        let array = imported.array;
        let owner = imported.take_owner()?;
        // The object comes first, so that a failure orders no stream.
        let view = py.views().object(|view| {
            // SAFETY: the array was imported (this function's contract) with this owner.
            unsafe { view.body.fill(&array, owner, CAN_BE_RELEASED) };
            view.exporter.set(exporter.share(py));
            view.stream = stream;
            if let Some(object) = object.filter(|_| stream != abi::CAI_STREAM_NONE) {
                view.stream_object.set(object.share(py));
            }
        })?;
        if stream != abi::CAI_STREAM_NONE {
            // SAFETY: the array was imported (this function's contract); the view keeps its owner alive.
            unsafe { order(Phase::Begin, Unchecked::new(&array), stream) }?;
        }
        Ok(view)
    }
}

/// Orders a view's stream and that of its array.
///
/// # Safety
/// The owners of the array and of its masks are alive.
#[inline]
unsafe fn order(phase: Phase, array: Unchecked, stream: u64) -> Result<()> {
    let access = consume::access(&array);
    if consume::is_fast_path(&array, stream, access) && !notify::is_watched() {
        return Ok(());
    }
    // SAFETY: the owners are alive (this function's contract).
    unsafe { order_slowly(phase, array, stream, access) }
}

/// # Safety
/// As for [`order`].
#[inline(never)]
unsafe fn order_slowly(phase: Phase, array: Unchecked, stream: u64, access: u32) -> Result<()> {
    let result = consume::exchange(phase, array, stream, access);
    if notify::is_watched() {
        let kind = if phase == Phase::Begin { Kind::Begin } else { Kind::End };
        let status = result.as_ref().map_or_else(Failure::status, |()| abi::CAI_OK);
        notify::array(kind, array, stream, access, status);
    }
    result
}

/// Makes the producer wait for the view's stream, and gives up what the view holds. Does nothing
/// if it was released before. On failure nothing is given up.
fn release<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    if let Some(array) = this.body.read() {
        if this.stream != abi::CAI_STREAM_NONE {
            // SAFETY: the owners are alive while `array` exists.
            unsafe { order(Phase::End, array.unchecked(), this.stream) }?;
        }
        let kept = kept_until_done(&this, &array)?;
        drop(array);
        this.body.release();
        this.exporter.release(py);
        if let Some((owner, on_stream)) = kept {
            release_in_order::release(owner, &on_stream, ptr::null_mut());
        }
        this.stream_object.release(py);
    }
    Ok(py.none().share(py))
}

/// Returns a reference to release after the work on the view's stream, with the array on that stream,
/// if the producer cannot be made to wait, and would use the memory again at once.
fn kept_until_done(view: &View, array: &Reading) -> Result<Option<(Ref, cai_array)>> {
    let is_ordered = view.stream == abi::CAI_STREAM_NONE || array.stream < abi::CAI_STREAM_UNKNOWN;
    let r#type = array.device.r#type;
    if is_ordered || !device::may_be_cuda(r#type) || driver::is_absent(r#type) {
        return Ok(None);
    }
    Ok(Some((array.retain()?, view.on_stream(array))))
}

fn synchronize<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    let array = this.array()?;
    if array.device.r#type == abi::CAI_DEVICE_CPU {
        return Ok(py.none().share(py));
    }
    let (on_stream, access) = (this.on_stream(&array), consume::access(&array));
    // Where the stream of the producer is not known, neither does the view's stream wait for it.
    let wait = || {
        consume::synchronize(array.unchecked(), access)?;
        // SAFETY: as `array`, whose owner is alive, on another stream.
        consume::synchronize(unsafe { Unchecked::new(&on_stream) }, access)
    };
    // SAFETY: waiting uses no Python.
    unsafe { py.without_lock(wait) }?;
    Ok(py.none().share(py))
}

fn enter<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    this.array()?;
    Ok(this.object().share(py))
}

#[cold]
pub fn released<T>() -> Result<T> {
    fail!(CAI_ERR_VALUE, "view"; found "one that was released"; expected "a view in use")
}
