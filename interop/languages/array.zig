// Makes an array of six floats, and exits with 24, their bytes:
//
//     zig build-exe array.zig libcai.so.1 -lc && ./array; echo $?
const std = @import("std");

// The structures of cai.cdef.
const cai_array = extern struct {
    struct_size: u32,
    flags: u32,
    owner: ?*anyopaque,
    data: ?*anyopaque,
    shape: ?[*]const i64,
    strides: ?[*]const i64,
    ndim: i32,
    version: u16,
    dtype_code: u16,
    typestr: [16]u8,
    descr: ?*const anyopaque,
    mask: ?*const cai_array,
    stream: usize,
    stream_id: u64,
    event: ?*anyopaque,
    device: extern struct { type: i32, id: i32 },
    context: ?*anyopaque,
    byte_offset: u64,
};
const cai_layout = extern struct {
    count: i64,
    nbytes: i64,
    lower: i64,
    upper: i64,
    flags: u32,
    reserved: u32,
    itemsize: i64,
    reserved_tail: [2]u64,
};
const cai_error = extern struct { code: i32, driver_code: i32, field: [96]u8, message: [408]u8 };

extern fn cai_array_init(array: *cai_array, size: usize) i32;
extern fn cai_array_create(
    description: *const cai_array,
    context: ?*anyopaque,
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    out: *cai_array,
    why: ?*cai_error,
) i32;
extern fn cai_array_layout(array: *const cai_array, out: *cai_layout, why: ?*cai_error) i32;
extern fn cai_array_release(array: *cai_array) void;

var data: [6]f32 = @splat(0);

fn check(status: i32) !void {
    if (status != 0) return error.Cai;
}

pub fn main() !u8 {
    const shape = [_]i64{ 2, 3 };
    var description: cai_array = undefined;
    var array: cai_array = undefined;
    var layout: cai_layout = undefined;
    try check(cai_array_init(&description, @sizeOf(cai_array)));
    try check(cai_array_init(&array, @sizeOf(cai_array)));
    description.data = &data;
    description.shape = &shape;
    description.ndim = shape.len;
    @memcpy(description.typestr[0..3], "<f4");
    description.device.type = 1; // CAI_DEVICE_CPU
    description.stream = std.math.maxInt(usize); // CAI_STREAM_NONE
    try check(cai_array_create(&description, null, null, &array, null));
    defer cai_array_release(&array);
    try check(cai_array_layout(&array, &layout, null));
    return @intCast(layout.nbytes);
}
