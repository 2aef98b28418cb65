-- Makes an array of six floats in LuaJIT's memory, and prints 24, their bytes:
--
--     luajit array.lua cai.cdef libcai.so.1
local ffi = require("ffi")
ffi.cdef(io.open(arg[1]):read("*a"))
local lib = ffi.load(arg[2])

local why = ffi.new("cai_error[1]")
local function check(status)
    if status ~= 0 then error(ffi.string(why[0].message)) end
end

local function new_array()
    local array = ffi.new("cai_array[1]")
    check(lib.cai_array_init(array, ffi.sizeof("cai_array")))
    return array
end

local data = ffi.new("float[6]") -- must stay referenced until the release
local shape = ffi.new("int64_t[2]", 2, 3)
local description, array = new_array(), new_array()
local layout = ffi.new("cai_layout[1]")
description[0].data = data
description[0].shape = shape
description[0].ndim = 2
description[0].typestr = "<f4"
description[0].device.type = lib.CAI_DEVICE_CPU
description[0].stream = 0xffffffffffffffffULL -- CAI_STREAM_NONE
check(lib.cai_array_create(description, nil, nil, array, why))
check(lib.cai_array_layout(array, layout, why))
print(tonumber(layout[0].nbytes))
lib.cai_array_release(array)
