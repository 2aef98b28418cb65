"""`libcai.empty_like` and cai_unstable_python_empty_like: which library allocates, with which arguments, and what is held
afterwards. ../../interop has the libraries themselves; here modules of their names record the calls."""

import ctypes as c
import gc
import inspect
import sys
import types
import weakref

import cai_ctypes as T
import cai_python as P
import pytest
from producers import ADDRESS

from libcai import _view

empty_like = _view.function(str(P.LIBRARY)).__self__._empty_like
ALLOCATE = c.CFUNCTYPE(c.c_int, c.POINTER(T.Array), c.c_uint64, c.c_void_p, c.POINTER(T.Array), c.POINTER(T.Error))
function = P.held.cai_unstable_python_empty_like
function.argtypes = [
    c.py_object, c.POINTER(T.Array), c.c_uint64, ALLOCATE, c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(T.Array),
    c.POINTER(T.Error),
]  # fmt: skip
NO_CALL = ALLOCATE()


def call(prototype, like=None, stream=0, allocate=NO_CALL, describe=True):
    """The object and its array, or the status. An exception is raised."""
    made, array, error = c.c_void_p(), T.new_array(), T.Error()
    status = function(prototype, like, stream, allocate, 7, made, array if describe else None, error)
    assert status == 0, error.message
    result = c.cast(made, c.py_object).value
    c.pythonapi.Py_DecRef(c.py_object(result))
    return result, P.Taken(array)


def wanted(shape, typestr="", code=0):
    like = T.new_array()
    like.ndim, like.typestr, like.dtype_code = len(shape), typestr.encode(), code
    like.shape = (c.c_int64 * len(shape))(*shape)
    return like


class Memory:
    """A foreign array of any library."""

    def __init__(self, shape=(2, 3), readonly=False, stream=None, **attributes):
        interface = dict(shape=shape, typestr="<f4", data=(ADDRESS, readonly), version=3, strides=None, stream=stream)
        self.__cuda_array_interface__ = interface
        self.shape, self.dtype, self.device = shape, "own", "here"
        vars(self).update(attributes)


class Manager:
    """A context manager that records."""

    def __init__(self, log, *name):
        self.log, self.name = log, name

    def __enter__(self):
        self.log.append(("in", *self.name))

    def __exit__(self, *exception):
        assert exception == (None, None, None) and sys.exc_info()[0] is None
        self.log.append(("out", *self.name))


@pytest.fixture
def log():
    return []


@pytest.fixture
def cupy(monkeypatch, log):
    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(Stream=None, ExternalStream=lambda handle: Manager(log, "stream", handle))
    module.ndarray = type("ndarray", (Memory,), {"__module__": "cupy._core.core"})

    def empty(shape, dtype):
        log.append((shape, dtype))
        return module.ndarray(shape, **module.more)

    module.empty, module.more = empty, {}
    module.prototype = module.ndarray(device=Manager(log, "device"))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def torch(monkeypatch, log):
    module = types.ModuleType("torch")
    module.dtype = type("dtype", (), {"__module__": "torch"})
    module.float32, module.bfloat16 = module.dtype(), module.dtype()
    module.cuda = types.SimpleNamespace(
        ExternalStream=lambda handle, device: ("external", handle, device), default_stream=lambda device: ("default", device),
        stream=lambda stream: Manager(log, *stream),
    )  # fmt: skip

    def new_empty(self, *shape, **more):
        log.append((shape, more))
        return Memory(*shape)

    tensor = type("Tensor", (Memory,), {"__module__": "torch", "new_empty": new_empty})
    # A class of another module is one as well.
    module.prototype = type("Own", (tensor,), {"__module__": "own"})(dtype=module.float32, is_cuda=True)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_numpy():
    np = pytest.importorskip("numpy")
    given = np.arange(6, dtype="<i2").reshape(3, 2).T
    made = empty_like(given)
    assert type(made) is np.ndarray and made.shape == (2, 3) and made.dtype == given.dtype and made.flags.c_contiguous
    assert empty_like(given, 4).shape == empty_like(given, (4,)).shape == empty_like(given, shape=[4]).shape == (4,)
    assert empty_like(given, dtype="float32").dtype == empty_like(given, None, "<f4").dtype == np.float32
    assert empty_like(given, (), np.int8, None).dtype == np.int8
    made, taken = call(given)
    assert taken.data == made.ctypes.data and taken.device[0] == P.CPU
    made, taken = call(given, wanted((5, 0), "<c8"))
    assert made.shape == taken.shape == (5, 0) and made.dtype == np.complex64
    assert call(given, wanted((5,)))[0].dtype == given.dtype
    fields = np.zeros(2, "<f4,<i8")
    assert empty_like(fields).dtype == fields.dtype == call(fields)[0].dtype
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert call(given, wanted((5,), "<V2", P.BFLOAT16))[0].dtype == ml_dtypes.bfloat16


def test_the_standard(log):
    """An object with a namespace, which has types as attributes."""
    namespace = types.SimpleNamespace(float32="f", bfloat16="b", empty=lambda *shape, **more: log.append((shape, more)) or Memory(*shape))
    prototype = Memory(__array_namespace__=lambda: namespace)
    empty_like(prototype)
    empty_like(prototype, 4, "<f4")
    empty_like(prototype, dtype="bfloat16")
    empty_like(prototype, dtype=prototype)
    call(prototype, wanted((5,), "<V2", P.BFLOAT16))
    here = {"device": "here"}
    assert log == [
        (((2, 3),), {"dtype": "own", **here}), (((4,),), {"dtype": "f", **here}), (((2, 3),), {"dtype": "b", **here}),
        (((2, 3),), {"dtype": prototype, **here}), (((5,),), {"dtype": "b", **here}),
    ]  # fmt: skip
    for typestr, code in ((">f4", 0), ("<V8", 0), ("<V2", 99)):
        with pytest.raises(BufferError, match="expected a type that has a name"):
            call(prototype, wanted((5,), typestr, code))
    with pytest.raises(AttributeError, match="int8"):
        empty_like(prototype, dtype="|i1")
    with pytest.raises(ValueError, match="^like->typestr: "):
        call(prototype, wanted((5,), "f"))


@pytest.mark.parametrize("stream, handle", [(0, None), (1, 0), (2, 2), (96, 96)])
@pytest.mark.parametrize("newest", [False, True])
def test_cupy(cupy, log, stream, handle, newest):
    """On the device and the stream; the array is described while they are current."""
    cupy.more["stream"] = 5
    if newest:
        cupy.cuda.Stream = types.SimpleNamespace(from_external=lambda of: Manager(log, "stream", of.__cuda_stream__()[1]))
        cupy.cuda.ExternalStream = None
    made, taken = call(cupy.prototype, wanted((4,), "<f8"), stream)
    assert type(made) is cupy.ndarray and taken.stream == 5
    inner = [] if handle is None else [("stream", handle)]
    entered = [("in", "device"), *(("in", *name) for name in inner)]
    left = [*(("out", *name) for name in inner), ("out", "device")]
    assert log == [*entered, ((4,), "<f8"), *left]
    log.clear()
    empty_like(cupy.prototype, stream=stream or None)
    assert log == [*entered, ((2, 3), "own"), *left]


@pytest.mark.parametrize("stream, entered", [(0, None), (1, ("default", "here")), (96, ("external", 96, "here"))])
def test_torch(torch, log, stream, entered):
    made, taken = call(torch.prototype, wanted((4,), "<V2", P.BFLOAT16), stream)
    calls = [(((4,),), {"dtype": torch.bfloat16})]
    assert log == (calls if entered is None else [("in", *entered), *calls, ("out", *entered)])
    log.clear()
    torch.prototype.is_cuda = False  # memory of the host belongs to no stream
    empty_like(torch.prototype, stream=stream or None)
    empty_like(torch.prototype, dtype="float32")
    assert log == [(((2, 3),), {}), (((2, 3),), {"dtype": torch.float32})]
    log.clear()
    np = pytest.importorskip("numpy")
    names = ("float32", "bfloat16", "float8_e5m2")
    torch.float8_e5m2 = torch.dtype()
    for name in names:  # the type of a view, and its class
        kind = getattr(np if name == "float32" else pytest.importorskip("ml_dtypes"), name)
        empty_like(torch.prototype, dtype=np.dtype(kind))
        empty_like(torch.prototype, dtype=kind)
        assert log == [(((2, 3),), {"dtype": getattr(torch, name)})] * 2
        log.clear()
    empty_like(torch.prototype, dtype=np.dtypes.Float32DType)
    assert log == [(((2, 3),), {"dtype": torch.float32})]
    with pytest.raises(BufferError, match="found >f4"):
        empty_like(torch.prototype, dtype=np.dtype(">f4"))


def test_a_stream_without_a_name(cupy):
    """An array of which the library does not say the stream belongs to the one that was current."""
    cupy.more["__cuda_array_interface__"] = dict(shape=(2, 3), typestr="<f4", data=(ADDRESS, False), version=2)
    assert call(cupy.prototype)[1].stream == P.STREAM_UNKNOWN
    assert call(cupy.prototype, stream=96)[1].stream == 96


def test_refused():
    jax = type("ArrayImpl", (Memory,), {"__module__": "jaxlib._jax", "__array_namespace__": None})()
    with pytest.raises(BufferError, match="^prototype: found an array of JAX, whose arrays cannot be written"):
        empty_like(jax)
    for other in (3, None, "text", [1.0], Memory()):
        with pytest.raises(TypeError, match=f"^prototype: found an object of type {type(other).__name__}, expected"):
            empty_like(other)
    text = Memory(new_empty=lambda *shape, **more: Memory(*shape))  # its dtype does not lead to a library
    with pytest.raises(TypeError, match=r"^prototype\.dtype: found an object of type str, expected"):
        empty_like(text, dtype="float32")
    assert type(empty_like(text)) is Memory
    with pytest.raises(ValueError, match="^like->ndim"):
        call(Memory(new_empty=None), T.new_array(ndim=65))
    for arguments in ((), (1, 2, 3, 4, 5)):
        with pytest.raises(TypeError, match="positional arguments"):
            empty_like(*arguments)
    for keywords in ({"order": 1}, {"prototype": 1}, {"shape": 1, "\ud800": 2}):
        with pytest.raises(TypeError, match="found a keyword"):
            empty_like(Memory(), **keywords)
    with pytest.raises(TypeError, match="found a keyword shape"):
        empty_like(Memory(), 1, shape=1)
    with pytest.raises(ValueError, match="^stream: found 0"):
        empty_like(Memory(), stream=0)
    lost = type("Array", (Memory,), {"__module__": "numpy.lost"})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(TypeError, match="not in sys.modules"):
        patch.delitem(sys.modules, "numpy", raising=False)
        empty_like(lost())
    assert empty_like.__module__ == "libcai" and empty_like.__doc__.startswith("Returns a new array")
    assert str(inspect.signature(empty_like)) == "(prototype, /, shape=None, dtype=None, stream=None)"


def test_failures_hold_nothing(cupy, log):
    """Whatever fails: the managers are left in order, the library's exception stays, and nothing is kept."""
    gone = []

    def made(shape, dtype):
        result = cupy.ndarray(shape, **cupy.more)
        gone.append(weakref.ref(result))
        return result

    def fail(*_):
        raise OSError("own")

    cupy.empty = fail
    for stream in (0, 96):
        log.clear()
        with pytest.raises(OSError, match="own"):
            call(cupy.prototype, stream=stream)
        assert [entry[0] for entry in log] == (["in", "out"] if stream == 0 else ["in", "in", "out", "out"])
    cupy.empty = made
    # The result is read-only, or no array at all.
    for more, error in (({"readonly": True}, BufferError), ({"__cuda_array_interface__": 3}, TypeError)):
        cupy.more = more
        with pytest.raises(error):
            call(cupy.prototype)
        call(cupy.prototype, describe=False)
    # A manager that fails: nothing was allocated, or it is released.
    cupy.more = {}
    for name in ("__enter__", "__exit__"):
        broken = type("Broken", (Manager,), {name: fail})
        cupy.cuda.ExternalStream = lambda handle, broken=broken: broken(log, handle)
        log.clear()
        with pytest.raises(OSError, match="own"):
            call(cupy.prototype, stream=96)
        assert log[-1] == ("out", "device")
        # The first failure is reported.
    cupy.empty = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        call(cupy.prototype, stream=96)
    gc.collect()
    assert len(gone) == 5 and not any(ref() for ref in gone)


def test_references(cupy):
    made, taken = call(cupy.prototype)
    gone = weakref.ref(made)
    count = sys.getrefcount(cupy.prototype)
    del made
    gc.collect()
    assert gone() is not None  # the array holds it
    taken.release()
    gc.collect()
    count -= sys.getrefcount(cupy.prototype)
    assert gone() is None and count == 0


class Allocator:
    """An allocator of a caller, which counts its owners."""

    def __init__(self, status=0, message="", owned=True, typestr=None, **more):
        self.destroyed = self.made = 0
        self.more = more
        self.status, self.message, self.owned, self.typestr = status, message, owned, typestr
        self.function = ALLOCATE(self.run)
        self.destroy = c.CFUNCTYPE(None, c.c_void_p)(self.count)

    def count(self, _):
        self.destroyed += 1

    def run(self, like, stream, context, out, error):
        self.seen = like[0]
        self.shape = tuple(like[0].shape[: like[0].ndim])
        assert context == 7 and not (like[0].owner or like[0].data or like[0].mask or like[0].strides)
        if self.status:
            P.held.cai_error_set(error, self.status, b"pool", self.message.encode())
        if self.status:
            return self.status
        described = T.new_array(ndim=like[0].ndim, shape=like[0].shape, typestr=self.typestr or like[0].typestr, data=ADDRESS)
        described.dtype_code, described.device, described.stream = like[0].dtype_code, like[0].device, stream or 5
        for name, value in self.more.items():
            setattr(described, name, value)
        if not self.owned:
            out[0] = described
            return 0
        owner = c.c_void_p()
        assert P.held.cai_owner_create(None, self.destroy, c.byref(owner), None) == 0
        self.made += 1
        described.owner = owner.value
        out[0] = described
        return 0


def test_an_allocator(cupy):
    """For objects of no known library, and for JAX."""
    for prototype in (Memory(), type("ArrayImpl", (Memory,), {"__module__": "jaxlib._jax"})()):
        allocator = Allocator()
        made, taken = call(prototype, None, 96, allocator.function)
        assert allocator.shape == taken.shape == (2, 3) and allocator.seen.typestr == b"<f4" and taken.stream == 96
        assert type(made).__name__ == "Array" and made.__cuda_array_interface__["data"] == (ADDRESS, False)
        del made
        assert allocator.destroyed == 0
        taken.release()
        assert allocator.destroyed == allocator.made == 1
        made, _ = call(prototype, wanted((7,), "<V2", P.BFLOAT16), 0, allocator.function, describe=False)
        assert allocator.shape == (7,) and allocator.seen.dtype_code == P.BFLOAT16
        del made
        assert allocator.destroyed == allocator.made == 2
    allocator = Allocator()
    call(cupy.prototype, None, 0, allocator.function)
    assert allocator.made == 0


def test_a_prototype_is_not_waited_for():
    """Of a tensor, only shape and type are read, so its producer orders no stream."""

    class Tensor:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, *, stream=None, **_):
            raise OSError(stream)

    with pytest.raises(OSError, match="^-1$"):
        call(Tensor(), None, 0, Allocator().function)


def test_values_that_name_no_stream(cupy, log):
    for stream, name in ((P.STREAM_NONE, "NONE"), (P.STREAM_UNKNOWN, "UNKNOWN")):
        allocator = Allocator()
        for prototype in (cupy.prototype, Memory()):
            with pytest.raises(ValueError, match=f"^stream: found CAI_STREAM_{name}"):
                call(prototype, None, stream, allocator.function)
        assert not log and not allocator.made


def test_another_shape_than_requested(cupy):
    cupy.empty = lambda shape, dtype: cupy.ndarray((1,))
    with pytest.raises(ValueError, match=r"^shape: found \[1\], expected \[4\]"):
        call(cupy.prototype, wanted((4,), "<f4"))


def test_an_allocator_that_fails():
    for allocator, error, text in (
        (Allocator(P.ERRORS["NO_MEMORY"], "found 3, expected 4"), MemoryError, "found 3, expected 4"),
        (Allocator(P.ERRORS["UNSUPPORTED"], ""), Exception, "^pool|^allocate: found a failure"),
        (Allocator(P.ERRORS["PYTHON_EXCEPTION"], ""), Exception, "allocate"),
        (Allocator(owned=False), ValueError, "^allocate: owner: found NULL"),
        (Allocator(typestr=b"<f3"), ValueError, "^allocate: typestr"),
        # Callers write what they asked for.
        (Allocator(ndim=1), ValueError, r"^allocate: shape: found \[2\], expected \[2, 3\]"),
        (Allocator(shape=(c.c_int64 * 2)(2, 2)), ValueError, r"^allocate: shape: found \[2, 2\]"),
        (Allocator(typestr=b"<i4"), BufferError, "^allocate: typestr"),
        (Allocator(typestr=b"|V4", dtype_code=0), BufferError, "^allocate: typestr"),
        (Allocator(flags=1), BufferError, "^allocate: flags: found CAI_ARRAY_READONLY"),
    ):
        with pytest.raises(error, match=text):
            call(Memory(), None, 0, allocator.function)
        assert allocator.destroyed == allocator.made
    with pytest.raises(TypeError, match="object is not a GPU array|is not an array"):
        call(3, None, 0, Allocator().function)
