"""What the target import_options imports: objects of every protocol, right ones and wrong ones.

`host`, `device` and `mask` are objects that the library made. OBJECTS is the list.
"""


class Has:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def cai(**changes):
    found = dict(shape=(2, 3), typestr="<f4", data=(0x70000000, False), version=3) | changes
    return Has(__cuda_array_interface__={key: value for key, value in found.items() if value is not ...})


def sycl(**changes):
    found = dict(shape=(4,), typestr="|i8", data=(0x70000000, False), version=1, strides=None, offset=0, syclobj=Has())
    return Has(__sycl_usm_array_interface__=found | changes)


def numpy(**changes):
    return Has(__array_interface__=dict(shape=(5,), typestr="<i2", data=(0x70000000, True), version=3) | changes)


class Raises:
    @property
    def __cuda_array_interface__(self):
        raise OSError("mine")


class Tensor:
    def __init__(self, array, older=False):
        self.array, self.older = array, older

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None, max_version=None):
        if self.older and max_version is not None:
            raise TypeError
        return self.array.__dlpack__(max_version=max_version)


OBJECTS = [
    cai(),
    cai(strides=(12, 4)),
    cai(strides=(4, 8)),
    cai(strides=(-12, 4), data=(0x70000000, True)),
    cai(shape=[2, 3], data=[0x70000000, False]),
    cai(shape=(), typestr="<c16"),
    cai(shape=(0, 5), data=(0, False)),
    cai(shape=(0, 5), data=(0, False), version=2),
    cai(stream=7),
    cai(stream=1),
    cai(stream=0),
    cai(stream=None),
    cai(version=2),
    cai(version=1),
    cai(version=0),
    cai(version=4),
    cai(version=...),
    cai(typestr="f4"),
    cai(typestr=">i8"),
    cai(typestr="<V2"),
    cai(typestr="|V1"),
    cai(typestr="<f1"),
    cai(typestr="|t1"),
    cai(typestr="|O"),
    cai(typestr="|V8", descr=[("x", "<f4"), ("y", "<i4")]),
    cai(typestr="|V24", descr=[("x", "<f4", (2, 2)), ("y", [("z", ">i4"), ("", "|V4")])]),
    cai(mask=cai(typestr="|b1")),
    cai(mask=cai(typestr="|u1", shape=(3,), mask=cai(typestr="|b1", shape=()))),
    cai(mask=numpy(typestr="|b1", shape=(2, 3))),
    cai(mask=5),
    cai(shape=(2**40, 2**40)),
    cai(shape=(1,) * 64),
    cai(shape=(1,) * 65),
    cai(data=(-1, False)),
    cai(data=(None, False)),
    cai(version=4, stream=7, device=(2, 0), context=0x5000, stream_id=7, event=0x6000, dtype="float32"),
    cai(version=2, device=(13, 1), event=0x6000, dtype="bfloat16", typestr="<V2"),
    cai(version=4, device=(1, 0)),
    cai(version=4, device="cuda"),
    cai(version=4, context=-1),
    cai(version=4, stream_id=7),
    cai(version=4, event=2**70),
    cai(version=4, dtype="float64"),
    cai(version=4, dtype=4, mask=cai(version=4, event=0)),
    cai(data=5),
    sycl(),
    sycl(syclobj=None, strides=(2,), offset=3),
    sycl(version=2),
    Has(buffer=0x70000000, offset=0, dtype="<f4", shape=(2,), strides=None),
    Has(base_data=0x70000000, offset=4, dtype="<f4", shape=(2,), strides=(4,), queue=None),
    numpy(),
    numpy(strides=(-2,), data=(0x70000000, False)),
    numpy(descr=[("", "<i2")]),
    Raises(),
    Tensor(host),
    Tensor(host, older=True),
    Tensor(device),
    host,
    device,
    mask,
    object(),
    5,
    None,
    Has(__cuda_array_interface__={}),
    Has(__cuda_array_interface__=[]),
    Has(__dlpack__=lambda **_: 5, __dlpack_device__=lambda: (2, 0)),
    Has(__dlpack__=lambda **_: 5, __dlpack_device__=lambda: (1, None)),
    Has(__array_struct__=5),
]
