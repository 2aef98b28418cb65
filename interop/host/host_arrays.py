"""Objects of this library over NumPy's memory, which stands in for a device's."""

from cai_python import give, make


class OnlyDictionary:
    """Hides the other protocols, which some readers ask for first."""

    def __init__(self, obj):
        self.obj = obj

    @property
    def __cuda_array_interface__(self):
        return self.obj.__cuda_array_interface__


def out(memory, hide=False, **options):
    with make(memory.shape, memory.dtype.str, memory.ctypes.data, **options) as array:
        obj = give(array)
    return OnlyDictionary(obj) if hide else obj
