"""Imports: tensors that require grad."""

import ctypes as c
import gc
import sysconfig

import cai_python as P
import pytest
from cai_python import even, make, take
from importing import interface, publish, refused, share
from test_import_protocols import Dlpack


class Tensor:
    """An object with the attribute of PyTorch's tensors, and a dictionary that does not look at it."""

    def __init__(self, requires_grad, **others):
        self._requires_grad, self.asked = requires_grad, 0
        self.__dict__.update(others)

    @property
    def requires_grad(self):
        self.asked += 1
        return self._requires_grad


def with_dictionary(requires_grad):
    return Tensor(requires_grad, __cuda_array_interface__=interface())


class DlpackTensor(Dlpack):
    """The same, with `__dlpack__`, which does not look either."""

    requires_grad = False


def with_dlpack(requires_grad):
    tensor = DlpackTensor(make((5,)))
    tensor.requires_grad = requires_grad
    return tensor


def with_table(requires_grad):
    """Its type publishes a table: the way on which PyTorch's tensors come in."""
    source = make((5,))

    class Published(Tensor):
        pass

    assert publish(Published, share(source))[0] == 0
    return Published(requires_grad)


WAYS = [(with_dictionary, P.CUDA_ARRAY_INTERFACE), (with_dlpack, P.DLPACK), (with_table, P.EXCHANGE)]


@pytest.mark.parametrize("options", [{}, {"writable": True}, {"protocols": None}], ids=str)
@pytest.mark.parametrize("make_tensor, protocol", WAYS)
def test_tensors(make_tensor, protocol, options):
    """Those that require grad are refused, and can be allowed."""
    if "protocols" in options:
        options = {"protocols": [protocol]}
    text = refused(make_tensor(True), BufferError, "requires_grad", "CONVERT_GRAD", **options)
    assert "detach()" in text and "CAI_IMPORT_ALLOW_GRAD" in text
    for requires_grad in (True, False):
        tensor = make_tensor(requires_grad)
        with even(tensor), take(tensor, grad=requires_grad, **options) as taken:
            assert taken.shape in ((5,), (3, 4)) and not taken.readonly


def test_a_mask_that_requires_grad():
    def masked(requires_grad):
        mask = Tensor(requires_grad, __cuda_array_interface__=interface(typestr="|b1"))
        return P.Exporter(interface(mask=mask))

    refused(masked(True), BufferError, "['mask'].requires_grad", "CONVERT_GRAD", allow_mask=True)
    take(masked(True), allow_mask=True, grad=True).release()
    take(masked(False), allow_mask=True).release()


@pytest.mark.parametrize("make_tensor, protocol", WAYS)
def test_values_that_are_computed_later(make_tensor, protocol):
    """No door hands out memory whose values have another sign."""
    tensor = make_tensor(False)

    class Later(type(tensor)):
        is_negative = True

        def is_conj(self):
            return False

        def is_neg(self):
            return self.is_negative

    tensor.__class__ = Later
    refused(tensor, BufferError, "is_neg", "CONVERT_TYPE")
    tensor.is_negative = False
    take(tensor).release()


class FromC:
    """A type whose attribute is implemented in C, as that of PyTorch's tensors."""

    class Definition(c.Structure):
        _fields_ = [("name", c.c_char_p), *((name, c.c_void_p) for name in ("get", "set", "doc", "closure"))]

    def __init__(self, answer):
        self.answer, self.calls = answer, []

        def get(obj, closure):
            self.calls.append((type(obj), closure))
            return self.answer

        self.get = c.PYFUNCTYPE(c.py_object, c.py_object, c.c_void_p)(get)
        self.definition = self.Definition(b"requires_grad", c.cast(self.get, c.c_void_p).value, None, None, 77)
        new = c.pythonapi.PyDescr_NewGetSet
        new.restype, new.argtypes = c.py_object, [c.py_object, c.c_void_p]

        class Native(P.Exporter):
            pass

        Native.requires_grad = new(Native, c.addressof(self.definition))
        self.type = Native
        SHARED.append(self)


SHARED = []


def test_an_attribute_that_is_implemented_in_c():
    """Its function is called, with the object and its argument."""
    native = FromC(False)

    class Derived(native.type):
        pass

    for kind in (native.type, Derived):
        obj = kind(interface())
        native.answer = False
        with even(obj):
            take(obj).release()
        native.answer = True
        refused(obj, BufferError, "requires_grad", "CONVERT_GRAD")
        assert set(native.calls) == {(kind, 77)}
        native.calls.clear()
        take(obj, grad=True).release()
        assert not native.calls

    # Elsewhere than on its own type it is no attribute of the object: CPython refuses it.
    class Other(P.Exporter):
        requires_grad = vars(native.type)["requires_grad"]

    with pytest.raises(TypeError):
        take(Other(interface()))
    assert not native.calls


def test_it_is_asked_once_and_only_of_tensors():
    tensor = with_dictionary(False)
    take(tensor).release()
    assert tensor.asked == 1

    class Plain(P.Exporter):
        def __getattr__(self, name):
            assert name != "requires_grad"
            raise AttributeError(name)

    for _ in range(300):
        take(Plain(interface())).release()


def test_an_exception_of_the_attribute_is_passed_on():
    class Raises(Tensor):
        @property
        def requires_grad(self):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        take(Raises(False, __cuda_array_interface__=interface()))


def test_a_type_at_the_address_of_another():
    """What is known of a type ends with it: the next one at its address is asked."""

    def plain():
        class Plain:
            __cuda_array_interface__ = interface()

        take(Plain()).release()
        return id(Plain)

    known, again = set(), 0
    for _ in range(30):
        known |= {plain() for _ in range(4)}
        gc.collect()
        types = []
        for _ in range(8):

            class Tensor:
                __cuda_array_interface__ = interface()
                requires_grad = True

            with pytest.raises(BufferError, match="requires_grad"):
                take(Tensor())
            types.append(Tensor)
            again += id(Tensor) in known
    # Free-threaded builds give addresses out again when they like.
    assert again or sysconfig.get_config_var("Py_GIL_DISABLED")


def change(kind, name, value):
    """Sets an attribute of a type, or deletes it."""
    delattr(kind, name) if value is None else setattr(kind, name, value)


def own(kind):
    return kind


def base(kind):
    return kind.__mro__[1]


@pytest.mark.parametrize("where", [own, base])
@pytest.mark.parametrize("make_table", [False, True])
def test_a_type_that_changes(make_table, where):
    """What is remembered of a type ends with its next change, or with that of a base."""
    source = make((5,))

    class Base(P.Exporter):
        pass

    class Late(Base):
        pass

    if make_table:
        assert publish(Base, share(source))[0] == 0
    obj = Late(interface())
    for answer in (True, property(lambda _: True), FromC(True).type.requires_grad):
        for _ in range(3):
            take(obj).release()
        change(where(Late), "requires_grad", answer)
        with pytest.raises(TypeError if type(answer) not in (bool, property) else BufferError):
            take(obj)
        change(where(Late), "requires_grad", None)
    take(obj).release()


def test_a_type_whose_table_changes():
    """A table counts from the moment at which the type has it, until it has it no more."""
    tables = {}
    for extent in (5, 6):

        class Donor:
            pass

        source = make((extent,))
        SHARED.append(source)

        assert publish(Donor, share(source))[0] == 0
        tables[extent] = Donor.__cai_exchange_api__

    class Base(P.Exporter):
        pass

    class Late(Base):
        pass

    def extents():
        shapes = []
        for obj in (Late(interface()), Base(interface())):
            with take(obj) as taken:
                shapes.append(taken.shape)
        return shapes

    for _ in range(3):
        assert extents() == [(3, 4)] * 2
        Base.__cai_exchange_api__ = tables[5]
        assert extents() == [(5,)] * 2
        Late.__cai_exchange_api__ = tables[6]
        assert extents() == [(6,), (5,)]
        del Late.__cai_exchange_api__
        assert extents() == [(5,)] * 2
        Base.__cai_exchange_api__ = tables[6]
        assert extents() == [(6,)] * 2
        del Base.__cai_exchange_api__
    # By other bases, by another class of the object, and by a descriptor that returns what it likes.
    assert extents() == [(3, 4)] * 2

    class Other(P.Exporter):
        __cai_exchange_api__ = tables[5]

    Late.__bases__ = (Other,)
    assert extents() == [(5,), (3, 4)]
    obj = Late(interface())
    obj.__class__ = Base
    with take(obj) as taken:
        assert taken.shape == (3, 4)

    class Choice:
        extent = None

        def __get__(self, obj, kind):
            return tables.get(self.extent)

    Base.__cai_exchange_api__ = Choice()
    for extent in (None, 5, 6, None, 6, 5):
        Choice.extent = extent
        assert extents() == [(5,), (extent,) if extent else (3, 4)]


def test_an_attribute_in_c_that_is_overtaken():
    """A type that looks its attributes up in its own way has them looked up in that way."""
    native = FromC(False)

    class Late(native.type):
        pass

    obj = Late(interface())
    take(obj).release()

    def look(self, name):
        return True if name == "requires_grad" else object.__getattribute__(self, name)

    Late.__getattribute__ = look
    refused(obj, BufferError, "requires_grad", "CONVERT_GRAD")
    del Late.__getattribute__
    take(obj).release()
