"""A dictionary without its object: `cai_array_from_python_dict`, as `numba.cuda.from_cuda_array_interface(desc, owner)`."""

import ctypes as c
import gc
import weakref

import cai_ctypes as T
import cai_python as P
import pytest
from cai_python import ERRORS, Refused, Taken, even
from importing import Boom, exporter, interface
from producers import ADDRESS, STREAM


class Memory:
    """What keeps the data alive."""


def take_dict(dictionary, owner=None, **options):
    array, error = T.new_array(stream=0), T.Error()
    given = c.byref(P.import_options(**options)) if options else None
    arguments = id(dictionary), owner and id(owner), given, c.byref(array), c.byref(error)
    try:
        status = P.held.cai_array_from_python_dict(*arguments)
    except Exception as raised:
        assert not options.get("quiet")
        assert error.code == ERRORS["PYTHON_EXCEPTION"] or str(raised.args[0]) == error.message.decode()
        status = error.code
    if status:
        assert not array.owner
        raise Refused(status, error.message.decode())
    return Taken(array)


def refused(status, dictionary, owner=None, **options):
    with pytest.raises(Refused) as raised:
        take_dict(dictionary, owner, **options)
    assert raised.value.code == ERRORS[status], str(raised.value)
    return str(raised.value)


def test_a_dictionary_and_its_owner():
    owner, dictionary = Memory(), interface(stream=STREAM, strides=(32, 8))
    gone = weakref.ref(owner)
    taken = take_dict(dictionary, owner)
    assert taken.shape == (3, 4) and taken.strides == (32, 8) and taken.typestr == "<f4"
    assert taken.data == ADDRESS and taken.stream == STREAM and taken.version == 3
    del owner, dictionary
    gc.collect()
    assert gone() is not None
    taken.release()
    gc.collect()
    assert gone() is None


def test_nothing_is_kept_but_the_owner():
    class Dictionary(dict):
        pass

    owner, dictionary = Memory(), Dictionary(interface())
    with even(owner):
        gone = weakref.ref(dictionary)
        with take_dict(dictionary, owner):
            del dictionary
            gc.collect()
            assert gone() is None


def test_without_an_owner_the_dictionary_is_kept():
    class Dictionary(dict):
        pass

    dictionary = Dictionary(interface())
    gone = weakref.ref(dictionary)
    taken = take_dict(dictionary)
    del dictionary
    gc.collect()
    assert gone() is not None
    taken.release()
    gc.collect()
    assert gone() is None


def test_the_owners_own_protocols_are_not_asked():
    class Owner:
        @property
        def __cuda_array_interface__(self):
            raise Boom

        def __dlpack__(self, **_):
            raise Boom

    with take_dict(interface(shape=(5,)), Owner()) as taken:
        assert taken.shape == (5,)


def test_what_is_refused():
    """What is in the dictionary: import_rows.py."""
    owner = Memory()
    with even(owner):
        refused("KEY", {}, owner)
        for found in ([1], None, exporter()):
            refused("TYPE", found, owner)
        refused("STREAM_ZERO", interface(stream=0), owner, quiet=True)


def test_other_interfaces():
    owner = Memory()
    host = dict(shape=(3,), typestr="<f4", data=(ADDRESS, False), version=3)
    with take_dict(host, owner, protocols=[P.ARRAY_INTERFACE], host=True) as taken:
        assert taken.device == (P.CPU, 0)
    refused("HOST_MEMORY", host, owner, protocols=[P.ARRAY_INTERFACE])
    with take_dict(interface(), owner, protocols=[P.CUDA_ARRAY_INTERFACE]) as taken:
        assert taken.device == (P.UNKNOWN, 0)
    for protocols in ([P.DLPACK], [P.EXCHANGE], [P.CUDA_ARRAY_INTERFACE, P.DLPACK]):
        refused("ARGUMENT", interface(), owner, protocols=protocols)


def test_the_object_in_place_of_its_dictionary():
    text = refused("TYPE", exporter())
    assert text.startswith("dictionary: found an object of type") and text.endswith(
        "expected its dictionary; cai_array_from_python takes the object"
    )
    assert "takes the object" not in refused("TYPE", [1])

    # A dictionary may have the attribute as well: a wrong value in it is the fault then.
    class Both(dict):
        __cuda_array_interface__ = property(dict)

    assert refused("TYPE", Both(interface(shape=4))).startswith("__cuda_array_interface__['shape']")
