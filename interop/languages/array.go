// Makes an array of six floats in C's memory, and prints 24, their bytes:
//
//	CGO_CFLAGS="-I FOLDER OF cai/" CGO_LDFLAGS="FILE libcai.so.1" go run array.go
package main

/*
#include <cai/cai.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"unsafe"
)

func check(status C.cai_status, why *C.cai_error) {
	if status != C.CAI_OK {
		panic(C.GoString(&why.message[0]))
	}
}

func main() {
	var description, array C.cai_array
	var layout C.cai_layout
	var why C.cai_error
	check(C.cai_array_init(unsafe.Pointer(&description), C.sizeof_cai_array), &why)
	check(C.cai_array_init(unsafe.Pointer(&array), C.sizeof_cai_array), &why)
	// Memory that outlives a call must be C's.
	shape := (*[2]C.int64_t)(C.malloc(16))
	shape[0], shape[1] = 2, 3
	data := C.calloc(6, 4)
	description.data = data
	description.shape = &shape[0]
	description.ndim = 2
	for i, letter := range "<f4" {
		description.typestr[i] = C.char(letter)
	}
	description.device._type = C.CAI_DEVICE_CPU
	description.stream = C.CAI_STREAM_NONE
	// The array owns the data.
	check(C.cai_array_create(&description, data, (*[0]byte)(C.free), &array, &why), &why)
	C.free(unsafe.Pointer(shape))
	check(C.cai_array_layout(&array, &layout, &why), &why)
	fmt.Println(layout.nbytes)
	C.cai_array_release(&array)
}
