"""The array interfaces of XGBoost's inputs as JSON text, read by libcai. Takes the place of four functions of
`_data_utils.py`."""

import ctypes
import json

import libcai
from libcai import _abi

_lib = ctypes.PyDLL(libcai.library())
_abi.declare(_lib)


def _text(data, protocol, flags):
    flags |= _abi.CAI_IMPORT_ALLOW_MASK | _abi.CAI_IMPORT_REFUSE_OBJECTS
    options = _abi.init(_lib, _abi.cai_import_options, flags=flags, protocols=(protocol,))
    array, error, text = _abi.init(_lib, _abi.cai_array), _abi.cai_error(), ctypes.create_string_buffer(8192)
    _lib.cai_array_from_python(data, options, array, error)
    try:
        if _lib.cai_unstable_array_to_json(array, text, len(text), None, error):
            _lib.cai_python_raise(error)
    finally:
        # The caller keeps `data` until XGBoost has read the text.
        _lib.cai_array_release(array)
    return text.value


def cuda_array_interface(data):
    return _text(data, _abi.CAI_PROTOCOL_CUDA_ARRAY_INTERFACE, 0)


def array_interface(data):
    return _text(data, _abi.CAI_PROTOCOL_ARRAY_INTERFACE, _abi.CAI_IMPORT_ALLOW_HOST)


def cuda_array_interface_dict(data):
    return json.loads(cuda_array_interface(data))


def array_interface_dict(data):
    return json.loads(array_interface(data))
