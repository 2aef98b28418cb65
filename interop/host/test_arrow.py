"""Arrow's C device interface: PyArrow's and nanoarrow's arrays in, ours out, and their values compared."""

import ctypes as c
import gc
import pathlib
import re
import types
import weakref

import nanoarrow as na
import numpy as np
import pyarrow as pa
import pytest

import cai_ctypes as T
import cai_python as P
from cai_python import give, held, take
from libcai import _arrow


class Pair:
    """Both structures, with what is not taken over released at the end."""

    def __init__(self):
        self.array, self.schema = _arrow._Batch(), _arrow._Schema()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.array.end()
        self.schema.end()

    @property
    def addresses(self):
        return c.addressof(self.array), c.addressof(self.schema)


def from_arrow(pair):
    """cai_unstable_array_from_arrow."""
    array, error = T.new_array(), T.Error()
    status = held.cai_unstable_array_from_arrow(c.byref(pair.array), c.byref(pair.schema), c.byref(array), c.byref(error))
    if status:
        assert pair.array.release
        raise P.Refused(status, error.message.decode())
    assert not pair.array.release and pair.schema.release
    return P.Taken(array)


def to_arrow(taken, pair, flags=0):
    error = T.Error()
    status = held.cai_unstable_array_to_arrow(
        c.byref(taken.array), flags, c.byref(pair.array), c.byref(pair.schema), c.byref(error)
    )
    if status:
        raise P.Refused(status, error.message.decode())


def from_pyarrow(array):
    with Pair() as pair:
        array._export_to_c_device(*pair.addresses)
        return from_arrow(pair)


def from_capsules(obj):
    return take(obj, host=True, allow_mask=True, protocols=[P.ARROW])


def to_pyarrow(taken, flags=0):
    with Pair() as pair:
        to_arrow(taken, pair, flags)
        array = pa.Array._import_from_c_device(*pair.addresses)
        assert not pair.array.release and not pair.schema.release
    array.validate(full=True)
    return array


@pytest.mark.parametrize("permutation", [None, [0, 1], [1, 0]])
def test_tensors(permutation):
    values = np.arange(24, dtype="<f4")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 12)
    array = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [3, 4], permutation=permutation), lists)
    for part in (array, array.slice(1)):
        with from_pyarrow(part) as taken:
            assert np.array_equal(np.asarray(give(taken)), part.to_numpy_ndarray())


@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1)])
@pytest.mark.parametrize("tensor", [0, T.abi.CAI_UNSTABLE_ARROW_TENSOR])
def test_tensors_out(axes, tensor):
    """An array whose dimensions after the first are stored in another order is one of tensors."""
    values = np.arange(24, dtype="<f4").reshape(2, 3, 4).transpose(axes)
    with take(values, host=True) as taken:
        array = to_pyarrow(taken, tensor)
        assert isinstance(array.type, pa.FixedShapeTensorType) == bool(tensor or axes != (0, 1, 2))
        if tensor or axes != (0, 1, 2):
            assert np.array_equal(array.to_numpy_ndarray(), values) and array.type.permutation in (None, [1, 0])
        if axes != (0, 1, 2):
            assert pa.array(give(taken)).storage.flatten().equals(array.storage.flatten())
        with from_pyarrow(array) as again:
            assert np.array_equal(np.asarray(give(again)), values)
    del array
    with pytest.raises(P.Refused), take(values.transpose(2, 0, 1), host=True) as taken:
        to_pyarrow(taken)


def bits(address, count):
    packed = np.ctypeslib.as_array((c.c_uint8 * ((count + 7) // 8)).from_address(address))
    return np.unpackbits(packed, count=count, bitorder="little").astype(bool)


def shape_of(array):
    return tuple(array.shape[: array.ndim])


def values_of(array):
    """Values in host memory as NumPy has them, and where they are valid."""
    shape, typestr = shape_of(array), array.typestr.decode()
    valid = np.ones(shape, bool)
    mask = array.mask
    while mask:
        mask = c.cast(mask, c.POINTER(T.Array)).contents
        valid &= bits(mask.data, int(np.prod(shape_of(mask)))).reshape(shape_of(mask))
        mask = mask.mask
    if 0 in shape:
        return np.zeros(shape, "?" if typestr == "|t1" else typestr), valid
    if typestr == "|t1":
        return bits(array.data, int(np.prod(shape))).reshape(shape), valid
    interface = {"data": (array.data, True), "shape": shape, "typestr": typestr, "version": 3}
    return np.array(type("View", (), {"__array_interface__": interface})()), valid


def expected(array):
    """Values and validity of a PyArrow array, level by level, from what PyArrow says of it."""
    valid = np.array(array.is_valid())
    shape = [len(array)]
    while pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        # `flatten` leaves out the elements of null lists, and `values` ignores the offset.
        array = array.values.slice(array.offset * size, len(array) * size)
        shape.append(size)
        valid = np.repeat(valid, size) & np.array(array.is_valid())
    return array, valid.reshape(shape), tuple(shape)


PLAIN = {
    "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8",
    "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8",
}  # fmt: skip
TYPES = {
    **{name: (getattr(pa, name)(), typestr) for name, typestr in PLAIN.items()},
    "bool": (pa.bool_(), "|t1"), "bool8": (pa.bool8(), "|b1"),
    **{f"timestamp_{unit}": (pa.timestamp(unit), f"<M8[{unit}]") for unit in ("s", "ms", "us", "ns")},
    "zone": (pa.timestamp("us", tz="Asia/Tokyo"), "<M8[us]"),
    **{f"duration_{unit}": (pa.duration(unit), f"<m8[{unit}]") for unit in ("s", "ms", "us", "ns")},
    "date32": (pa.date32(), "<i4"), "date64": (pa.date64(), "<M8[ms]"), "time32_s": (pa.time32("s"), "<i4"),
    "time32_ms": (pa.time32("ms"), "<i4"), "time64_us": (pa.time64("us"), "<m8[us]"),
    "time64_ns": (pa.time64("ns"), "<m8[ns]"), "binary": (pa.binary(5), "|V5"),
}  # fmt: skip
# What comes back as another type of Arrow, because the array interface has one of both only.
BACK = {
    "zone": pa.timestamp("us"), "date32": pa.int32(), "date64": pa.timestamp("ms"), "time32_s": pa.int32(),
    "time32_ms": pa.int32(), "time64_us": pa.duration("us"), "time64_ns": pa.duration("ns"),
}  # fmt: skip


def made(name, count, rng, nulls):
    """A PyArrow array of any values."""
    arrow = TYPES[name][0]
    mask = rng.random(count) < 0.3 if nulls else None
    if name in ("bool", "bool8"):
        array = pa.array(rng.random(count) < 0.5, pa.bool_(), mask=mask)
        return array if name == "bool" else pa.ExtensionArray.from_storage(arrow, array.cast(pa.int8()))
    if name == "binary":
        return pa.array([bytes(row) for row in rng.integers(0, 256, (count, 5), np.uint8)], arrow, mask=mask)
    if name.startswith("float"):
        return pa.array(rng.random(count).astype(name), arrow, mask=mask)
    days = rng.integers(0, 100, count)
    if name == "date64":
        days *= 86_400_000
    plain = name in PLAIN
    return pa.array(days.astype(name if plain else "i4" if arrow.bit_width == 32 else "i8"), None if plain else pa.int32() if arrow.bit_width == 32 else pa.int64(), mask=mask).cast(arrow)


def same(values, valid, array):
    """Are these the values of a flat PyArrow array, where it has any?"""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_fixed_size_binary(array.type):
        theirs = np.array([value or bytes(5) for value in array.to_pylist()], "V5")
        flat = values.reshape(-1).view("V5")
    else:
        if not pa.types.is_boolean(array.type):
            width = array.type.bit_width // 8
            kind = "f" if pa.types.is_floating(array.type) else "i"
            array = array.view({4: pa.int32(), 8: pa.int64()}[width]) if pa.types.is_temporal(array.type) else array
            theirs = np.array([0 if value is None else value for value in array.to_pylist()])
            theirs = theirs.astype(f"{kind}{width}") if values.dtype.kind in "mM" else theirs.astype(values.dtype)
            flat = values.reshape(-1)
            flat = flat.view("i8") if values.dtype.kind in "mM" else flat
        else:
            theirs = np.array([bool(value) for value in array.to_pylist()])
            flat = values.reshape(-1)
    good = valid.reshape(-1)
    return np.array_equal(flat[good], theirs[good])


@pytest.mark.parametrize(
    "array, typestr",
    [(pa.array([1, 2]), "<i8"), (pa.array([1, None]), "<i8"), (pa.array([True]), "|t1"), (pa.array([1], pa.timestamp("s")), "<M8[s]")],
    ids=["numbers", "nulls", "bits", "times"],
)
def test_the_default_order_of_protocols(array, typestr):
    """PyArrow's `__dlpack__` comes first, and raises a TypeError for all but the first."""
    with take(array, host=True, allow_mask=True) as taken:
        assert (taken.typestr, taken.shape, bool(taken.mask)) == (typestr, (len(array),), array.null_count > 0)
    with pytest.raises(TypeError, match="DLPack"):
        take(pa.array(["text"]), host=True)


@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize("levels", [(), (3,), (2, 3), (1,), (0,)], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_pyarrow_in_and_out(name, levels, nulls):
    """Random arrays with nulls on every level, whole and sliced at every offset in bits."""
    rng = np.random.default_rng(len(levels) * 7 + nulls)
    for count, offset, length in [(21, 0, 21), (21, 8, 13), (21, 3, 11), (21, 20, 1), (21, 5, 0), (0, 0, 0)]:
        if levels == (0,):
            # PyArrow makes lists of no elements from lists only, and none of an extension type.
            if name == "bool8":
                continue
            array = pa.array([[]] * count, pa.list_(TYPES[name][0], 0))
        else:
            size = count * int(np.prod(levels or (1,)))
            array = made(name, size, rng, nulls)
            for number in reversed(levels):
                size = len(array) // number
                mask = pa.array(rng.random(size) < 0.3) if nulls else None
                array = pa.FixedSizeListArray.from_arrays(array, number, mask=mask)
        array = array.slice(offset, length)
        with from_pyarrow(array) as taken:
            assert taken.array.typestr.decode() == TYPES[name][1]
            assert taken.array.flags == T.abi.CAI_ARRAY_READONLY and taken.array.stream == P.STREAM_NONE
            assert (taken.array.device.type, taken.array.device.id) == (P.CPU, 0)
            flat, valid, shape = expected(array)
            assert shape_of(taken.array) == shape
            values, ours = values_of(taken.array)
            assert np.array_equal(ours, valid)
            assert same(values, valid, flat)
            again = to_pyarrow(taken)
            assert pa.array(give(taken)).equals(again)
        del taken
        back, valid_back, _ = expected(again)
        assert np.array_equal(valid_back, valid)
        wanted = array
        if name in BACK:
            kind = BACK[name]
            for number in reversed(levels):
                kind = pa.list_(kind, number)
            assert again.type == kind
            wanted = array.view(kind) if not levels else None
        if nulls and levels == (1,):
            # Nulls of a list of one are those of its element.
            wanted = None
        if wanted is not None:
            assert again.type == wanted.type and again.equals(wanted)


REFUSED = {
    "string": pa.array(["a"]), "large_string": pa.array(["a"], pa.large_string()), "binary": pa.array([b"a"]),
    "view": pa.array(["a"], pa.string_view()), "list": pa.array([[1]]), "struct": pa.array([{"a": 1}]),
    "null": pa.nulls(3), "decimal128": pa.array([1], pa.decimal128(5, 2)), "decimal256": pa.array([1], pa.decimal256(50)),
    "dictionary": pa.array([1, 1]).dictionary_encode(), "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
    "run_end": pa.RunEndEncodedArray.from_arrays([2], [1]), "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    "list_of_strings": pa.array([["a"]], pa.list_(pa.string(), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    before = pa.total_allocated_bytes()
    with pytest.raises(P.Refused) as refused:
        from_pyarrow(REFUSED[name])
    assert refused.value.code == P.ERRORS["CONVERT_TYPE"]
    gc.collect()
    assert pa.total_allocated_bytes() == before


def test_memory_lives_as_long_as_needed():
    """In both directions: released exactly once, and not before the last user."""
    before = pa.total_allocated_bytes()
    array = pa.array(np.arange(1000))
    taken = from_pyarrow(array.slice(3))
    del array
    gc.collect()
    assert pa.total_allocated_bytes() > before and values_of(taken.array)[0][0] == 3
    taken.release()
    assert pa.total_allocated_bytes() == before
    numbers = np.arange(24).reshape(2, 3, 4).view(type("Weak", (np.ndarray,), {}))
    gone = weakref.ref(numbers)
    with take(numbers, host=True) as taken:
        lists = to_pyarrow(taken)
    del numbers, taken
    inner = lists.values.values
    del lists
    gc.collect()
    assert gone() is not None and inner.to_pylist() == list(range(24))
    del inner
    gc.collect()
    assert gone() is None


def test_capsules_of_pyarrow():
    array = pa.array([1.5, None, 2.5])
    with from_capsules(array) as taken:
        values, valid = values_of(taken.array)
        assert values[0] == 1.5 and valid.tolist() == [True, False, True]


@pytest.mark.parametrize("count", [0, 1, 9, 100])
@pytest.mark.parametrize("name", [*PLAIN, "bool"])
def test_nanoarrow(name, count):
    """nanoarrow's device arrays in, and ours in its reader."""
    from nanoarrow import device

    numbers = [None if index % 5 == 2 else index % 2 for index in range(count)]
    theirs = na.c_array(numbers, getattr(na, "bool_" if name == "bool" else name)())
    with from_capsules(device.c_device_array(theirs)) as taken:
        values, valid = values_of(taken.array)
        assert valid.tolist() == [number is not None for number in numbers]
        assert values[valid].tolist() == [number for number in numbers if number is not None]
        ours = device.c_device_array(give(taken))
        assert ours.device_type_id == 1 and ours.device_id == -1
        assert na.Array(ours.array).to_pylist() == numbers
        del ours


def test_numpy_to_nanoarrow_in_levels():
    from nanoarrow import device

    numbers = np.arange(24, dtype="f4").reshape(2, 3, 4)
    with take(numbers, host=True) as taken:
        ours = device.c_device_array(give(taken))
    schema = ours.schema
    assert schema.format == "+w:3" and schema.child(0).format == "+w:4"
    assert na.Array(ours.array).to_pylist() == numbers.tolist()


def test_an_object_of_ours():
    """Arrow's array as a Python object of the library, which NumPy reads."""
    array = pa.array(np.arange(12.0))
    with from_pyarrow(array) as taken:
        view = np.asarray(give(taken))
    assert not view.flags.writeable and view.tolist() == array.to_pylist()
    assert view.__array_interface__["data"][0] == array.buffers()[1].address


def arrow_batches(obj, columns=None):
    return _arrow.ArrowBatches(obj, columns, str(P.LIBRARY))


def arrow_stream(batches, **options):
    return _arrow.arrow_stream(batches, path=str(P.LIBRARY), **options)


COLUMNS = {"whole": np.arange(7), "number": np.arange(7) * 0.5, "pair": np.arange(14.0).reshape(7, 2)}


def of_duckdb():
    import duckdb

    return duckdb.sql("select range as whole, range * 0.5::double as number, 'x' as text from range(7)")


def of_polars():
    import polars

    return polars.DataFrame({"whole": range(7), "number": COLUMNS["number"], "text": ["x"] * 7})


# Tables of each library, sliced and in several batches, with a column that is no array.
TABLES = {
    "pyarrow": lambda: pa.table({"whole": range(-1, 9), "number": np.arange(-1, 9) * 0.5, "text": ["x"] * 10}).slice(1, 7),
    "reader": lambda: pa.table({"whole": range(7), "number": COLUMNS["number"]}).to_reader(max_chunksize=3),
    "batch": lambda: pa.record_batch({"whole": range(-1, 9), "number": np.arange(-1, 9) * 0.5}).slice(1, 7),
    "nanoarrow": lambda: na.ArrayStream(pa.table({"whole": range(7), "number": COLUMNS["number"]})),
    "polars": of_polars,
    "duckdb": of_duckdb,
}


@pytest.mark.parametrize("library", TABLES)
def test_tables_in(library):
    batches = list(arrow_batches(TABLES[library](), ["whole", "number"]))
    for name in ("whole", "number"):
        assert np.concatenate([np.asarray(batch[name]) for batch in batches]).tolist() == COLUMNS[name].tolist()


def test_the_program_of_the_page():
    """docs/src/elsewhere.md: what it reads is what went in, and its table has the columns."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/src/elsewhere.md"
    [text] = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    found = []
    names = {
        "libcai": types.SimpleNamespace(arrow_batches=arrow_batches, arrow_stream=arrow_stream),
        "pyarrow": pa,
        "table": pa.table({"text": ["x"] * 7, "x": COLUMNS["whole"], "y": COLUMNS["number"]}),
        "use": lambda x, y: found.append((np.asarray(x).tolist(), np.asarray(y).tolist())),
        "x": COLUMNS["whole"],
        "y": COLUMNS["number"],
    }
    exec(text, names)
    assert found == [(COLUMNS["whole"].tolist(), COLUMNS["number"].tolist())]
    assert names["table"].to_pydict() == {"x": found[0][0], "y": found[0][1]}


def test_nulls_of_tables():
    table = pa.table({"x": [1.5, None, 2.5, None]}).slice(1)
    [batch] = arrow_batches(table)
    with take(batch["x"], host=True, allow_mask=True) as taken:
        values, valid = values_of(taken.array)
        assert values[1] == 2.5 and valid.tolist() == [False, True, False]


def test_tables_out():
    import duckdb
    import polars

    stream = arrow_stream([COLUMNS, {name: column[:2] for name, column in COLUMNS.items()}])
    expected = {name: [*column.tolist(), *column[:2].tolist()] for name, column in COLUMNS.items()}
    assert pa.table(stream).to_pydict() == expected
    assert pa.RecordBatchReader.from_stream(stream).read_all().to_pydict() == expected
    assert na.ArrayStream(stream).read_all().to_pylist() == pa.table(stream).to_pylist()
    assert polars.DataFrame(stream).to_dict(as_series=False) == expected
    assert duckdb.sql("select sum(whole), sum(number) from stream").fetchall() == [(22, 11.0)]


def test_batches_of_c():
    """`cai_unstable_arrays_to_arrow`: PyArrow's record batch, which its last column releases."""
    columns = {name: column.view(type("Weak", (np.ndarray,), {})) for name, column in COLUMNS.items()}
    gone = [weakref.ref(column) for column in columns.values()]
    taken = [take(column, host=True) for column in columns.values()]
    places = (c.POINTER(T.Array) * 3)(*(c.pointer(one.array) for one in taken))
    names, error = (c.c_char_p * 3)(*(name.encode() for name in columns)), T.Error()
    with Pair() as pair:
        status = held.cai_unstable_arrays_to_arrow(places, names, 3, 0, *pair.addresses, c.byref(error))
        assert status == 0, error.message
        batch = pa.RecordBatch._import_from_c_device(*pair.addresses)
    for one in taken:
        one.release()
    del columns, taken, places, one
    batch.validate(full=True)
    assert batch.to_pydict() == {name: column.tolist() for name, column in COLUMNS.items()}
    column = batch["pair"]
    del batch
    gc.collect()
    assert all(reference() is not None for reference in gone)
    assert column.to_pylist() == COLUMNS["pair"].tolist()
    del column
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3


@pytest.mark.parametrize("fetch", ["fetch_arrow", "fetch_record_batch", "fetch_arrow_table"])
def test_databases(fetch):
    """A table goes into SQLite through ADBC, in batches, and the answer to a query comes out of it."""
    from adbc_driver_sqlite import dbapi

    columns = {name: column.view(type("Weak", (np.ndarray,), {})) for name, column in COLUMNS.items() if name != "pair"}
    gone = [weakref.ref(column) for column in columns.values()]
    with dbapi.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("numbers", arrow_stream([columns, columns]))
        del columns
        gc.collect()
        assert [reference() for reference in gone] == [None] * 2
        cursor.execute("select whole, number + 1 as more, 'x' as text from numbers where whole > 1 order by whole")
        with arrow_batches(getattr(cursor, fetch)(), ["whole", "more"]) as batches:
            [batch] = batches
    # The connection is closed.
    assert np.asarray(batch["whole"]).tolist() == np.repeat(COLUMNS["whole"][2:], 2).tolist()
    assert np.asarray(batch["more"]).tolist() == np.repeat(COLUMNS["number"][2:] + 1, 2).tolist()


def test_tensors_of_tables():
    table = pa.table(arrow_stream(COLUMNS, tensors=True))
    assert isinstance(table["pair"].type, pa.FixedShapeTensorType)
    assert np.array_equal(table["pair"].chunk(0).to_numpy_ndarray(), COLUMNS["pair"])


def test_memory_of_tables():
    before = pa.total_allocated_bytes()
    batches = arrow_batches(pa.table({"x": np.arange(1000) + 1, "y": pa.array(["x"] * 1000)}).to_reader(max_chunksize=300), ["x"])
    columns = [batch["x"] for batch in batches]
    gc.collect()
    assert pa.total_allocated_bytes() > before and np.asarray(columns[3])[-1] == 1000
    del columns, batches
    gc.collect()
    assert pa.total_allocated_bytes() == before


def test_a_reader_that_fails():
    def produce():
        yield pa.record_batch({"x": [1]})
        raise ValueError("no more")

    with arrow_batches(pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), produce())) as batches:
        assert np.asarray(next(batches)["x"]).tolist() == [1]
        with pytest.raises(OSError, match="no more"):
            next(batches)
