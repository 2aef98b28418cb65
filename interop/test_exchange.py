"""Each library in one table: import and export protocols, layouts, types, streams, lifetime.

What is peculiar to a library has a file of its own.
"""

import ctypes as c
import gc
import inspect

import adapters
import numpy as np
import pytest
from adapters import LAYOUTS, WHOLE, view
from cai_python import give, make

import cai_python as P

LIBRARIES = adapters.of_this_environment()
ON_DEVICE = [library for library in LIBRARIES if isinstance(library, adapters.OnDevice)]


def imports(library):
    return library.ways


def ways(library):
    """And "made": the array is no import, but described by hand."""
    return [*library.ways, "made"] if "made" not in library.without else library.ways


def backs(library, way="made", *_):
    return library.backs_of(way) or ["none"]


def layouts(library, way, *_):
    return [layout for layout in LAYOUTS if way == "made" or layout not in library.without]


def types(library, *_):
    return library.types


def table(*columns, libraries=LIBRARIES):
    """A case for each library and each combination of what these functions of it give."""

    def rows(library):
        found = [(library,)]
        for column in columns:
            found = [(*row, value) for row in found for value in column(*row)]
        return found

    def parametrize(test):
        names = [name for name in inspect.signature(test).parameters if name != "request"]
        values = [row for library in libraries for row in rows(library)]
        return pytest.mark.parametrize(names, values, ids=["-".join([row[0].name, *row[1:]]) for row in values])(test)

    return parametrize


@pytest.fixture(autouse=True)
def nothing_pending(request):
    yield
    request.node.callspec.params["library"].settle()


def steps(shape, strides, itemsize):
    """Strides of the dimensions that have more than one element."""
    if strides is None:
        strides = [itemsize * int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    return [step for step, extent in zip(strides, shape) if extent > 1] if 0 not in shape else []


def refused(library, name, *what):
    found = [library.refuses[name, each] for each in what if (name, each) in library.refuses]
    return pytest.raises(tuple(found)) if found else None


def exchange(library, way, back, layout, name):
    """A view of an array of that type in, and out again. NumPy's view of the same bytes is the expected one."""
    typestr, code = library.types[name]
    size = int(typestr[2:])
    numbers = np.arange(12 * size, dtype="u1") % (2 if name == "bool" else 255)
    whole, model = library.typed(numbers, name), view(numbers.view(f"V{size}").reshape(3, 4), layout)
    library.settle()
    place = library.place(whole, model.ctypes.data - numbers.ctypes.data) if model.size else (0, 0)
    if way == "made":
        taken = make(model.shape, typestr, place[0], model.strides, device=library.device, dtype_code=code)
    else:
        array = library.view(whole, layout)
        if refusal := refused(library, way, layout, name):
            with refusal:
                library.take(way, array)
            return
        options = {}
        if way in library.opaque and code:
            with library.take(way, array) as taken:
                assert (taken.typestr, taken.dtype_code) == (typestr, 0)
            options = {f"opaque_{8 * size}bit": code}
        taken = library.take(way, array, **options)
        assert (taken.stream, taken.readonly) == (library.streams[way], library.readonly(array, way))
    with taken:
        assert (taken.typestr, taken.dtype_code) == (library.typestr(way, typestr), code)
        assert taken.shape == model.shape
        assert steps(taken.shape, taken.strides, size) == steps(model.shape, model.strides, size)
        assert (taken.data, taken.byte_offset) == place and taken.contiguous() == model.flags.c_contiguous
        assert taken.device == ((P.UNKNOWN, 0) if way in library.deviceless else library.device)
        if back == "none":
            return
        if refusal := refused(library, back, layout, name):
            with refusal:
                library.back(back, taken)
            return
        theirs = library.back(back, taken)
    assert tuple(theirs.shape) == model.shape and library.type_of(theirs) == name and library.is_where_it_was(theirs)
    if back not in library.copies:
        assert steps(model.shape, library.strides(theirs), size) == steps(model.shape, model.strides, size)
        assert not model.size or library.address(theirs) == place[0]
        assert library.readonly(theirs) == (taken.readonly and (back, "read-only") not in library.ignores)
    if model.size and (model.flags.c_contiguous or back in library.copies):
        assert library.bytes(theirs) in (None, model.tobytes())
    del theirs
    # The memory of what was made is that of `whole`.
    assert way != "made" or P.soon(lambda: taken.counted.gone == 1)


@table(ways, backs, layouts)
def test_layouts(library, way, back, layout):
    exchange(library, way, back, layout, "float32")


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@table(ways, backs, types)
def test_types(library, way, back, name):
    for layout in ("whole", "rows", "one row", "no rows", "element", "transposed", "repeated columns"):
        if layout not in library.without or way == "made":
            exchange(library, way, back, layout, name)


@table(ways, backs)
def test_object_dropped_first(library, way, back):
    """The memory stays as long as an array of it, and goes with the last one."""
    array = library.array(WHOLE)
    library.settle()
    address, alive = library.address(array), library.weak(array)
    if way == "made":
        taken = make((3, 4), "<f4", address, device=library.device)
    else:
        taken = library.take(way, array)
        del array
    theirs = None
    if back != "none":
        theirs = library.back(back, taken)
        taken.release()
    gc.collect()
    assert alive() is not None and (way != "made" or taken.counted.gone == 0)
    others = [library.array(0 * WHOLE) for _ in range(20)]
    assert back in library.copies or all(library.address(other) != address for other in others)
    if back == "none":
        taken.release(P.free)
    else:
        assert library.values(theirs) is None or (library.values(theirs) == WHOLE).all()
        if "default" in library.ways:
            with library.take("default", theirs) as again:
                assert back in library.copies or again.data == address
    del theirs
    gc.collect()
    assert P.soon(lambda: taken.counted.gone == 1 if way == "made" else alive() is None or alive() is library)


@table(backs, lambda *_: ["read-only", "mask"], libraries=[library for library in LIBRARIES if "made" in ways(library)])
def test_what_may_be_lost(library, back, what):
    """Refused, kept or ignored, as the library's table says."""
    array = library.array(WHOLE)
    memory = {"device": library.device, "data": library.address(array)}
    mask = make((3, 4), "|b1", **memory)
    with make((3, 4), readonly=what == "read-only", mask=mask if what == "mask" else None, **memory) as ours:
        if refusal := refused(library, back, what):
            with refusal:
                library.back(back, ours)
            del refusal  # its traceback holds the object
        else:
            theirs = library.back(back, ours)
            assert library.address(theirs) == library.address(array)
            assert library.readonly(theirs) == (what == "read-only" and (back, what) not in library.ignores)
            assert what == "read-only" or (back, what) in library.ignores
            theirs = None
    assert P.soon(lambda: ours.counted.gone == 1)
    mask.release()


@table(libraries=[library for library in LIBRARIES if library.keys])
def test_what_it_writes(library):
    """Other fields, or another order of them, are a new release to look at."""
    array = library.array(WHOLE)
    found = array.__cuda_array_interface__
    assert list(found) == library.keys.split() and found["version"] == (3 if "stream" in found else 2)
    assert found["strides"] is None and found.get("stream", P.STREAM_UNKNOWN) == library.streams["dictionary"]
    with library.take("dictionary", array, device=True) as taken:
        assert taken.device == library.device  # asked of the driver


@table(imports, libraries=ON_DEVICE)
def test_streams(library, way):
    """The stream of the library's work, where it has a current one; and to the consumers of our object."""
    source, (stream, handle, current) = library.array(WHOLE), library.new_stream()
    library.settle()
    with current:
        array = library.pending(source, stream)
        with library.take(way, array) as taken:
            assert taken.stream == (handle if way in library.current else library.streams[way])
            if way in library.current:
                assert give(taken).__cuda_array_interface__["stream"] == handle
    library.settle()


@table(ways, lambda library, way: [*library.backs_of(way), "none"], libraries=ON_DEVICE)
def test_order(request, library, way, back):
    """The library's consumer on another stream than the producer's. "none" is the same without us: a race."""
    source = library.array(WHOLE)
    (producer, produces, in_producer), (consumer, consumes, in_consumer) = library.new_stream(), library.new_stream()
    library.settle()
    with in_producer:
        array = library.pending(source, producer)
        if way == "made":
            taken = make((3, 4), "<f4", library.address(array), stream=produces)
        else:
            taken = library.take(way, array, **({"stream": consumes} if way in ("dlpack", "tensor") else {}))
    with in_consumer:
        theirs = array if back == "none" else library.back(back, taken)
        found = library.copied(theirs, consumer)
    c.CDLL("libcuda.so.1").cuStreamSynchronize(c.c_void_p(consumes))
    ordered = way in ("dlpack", "tensor") or (back in library.waits and (way in library.current or way == "made"))
    ordered |= (way, back) in library.waits
    count, text = request.getfixturevalue("simulator").take_report()
    assert (count == 0) == ordered, text
    assert ordered or library.reported in text
    if ordered:
        assert library.values(found) is None or (library.values(found) == WHOLE).all()
    library.settle()
    del theirs
    taken.release()
    assert way != "made" or P.soon(lambda: taken.counted.gone == 1)
