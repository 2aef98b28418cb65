"""Mutants of the import and export of Python objects: name, file, text that occurs once, what takes its place, and the
tests in tests/python that must fail."""

READER, FAST, DICT, OPTIONS, REQUIRED, FIELDS = (
    f"src/python/import/{name}.rs" for name in ("dict_reader", "dict_fast", "dict", "options", "requirements", "fields")
)
IMPORT, DLPACK, EXCHANGE = (f"src/python/import/{name}.rs" for name in ("mod", "dlpack", "exchange_table"))
TRIVIAL, READ, OFFERS = "src/dtype/fields.rs", "src/read.rs", "src/python/offers.rs"
CAI_DICT, OBJECT, TABLE = (f"src/python/export/{name}.rs" for name in ("cai_dict", "object", "exchange_table"))

MUTANTS = [
    # --- dictionaries
    ("another number of strides", READER, "        if count != to.array.ndim as usize {", "        if false {", "import_dictionary import_types"),
    ("booleans as numbers", "src/python/convert.rs", "    if py.type_of(object) == capi.bool_type {", "    if false {", "import_types import_dictionary"),
    ("no address of empty arrays in strict mode", READER, "address.get() == capi.none && empty && !self.options.strict()", "address.get() == capi.none && empty", "import_options import_dictionary"),
    ("no address of arrays", READER, "address.get() == capi.none && empty && !self.options.strict()", "address.get() == capi.none && !self.options.strict()", "import_dictionary import_types"),
    ("addresses of empty arrays in strict mode", READER, "    if empty && address != 0 && options.strict() &&", "    if false && empty && address != 0 && options.strict() &&", "import_options import_dictionary"),
    ("three items of data", READER, "        if count != 2 {", "        if count < 2 {", "import_dictionary import_types"),
    ("stream 0 by default", READER, "Ok(0) if self.options.lenient() => abi::CAI_STREAM_LEGACY,", "Ok(0) => abi::CAI_STREAM_LEGACY,", "import_options import_dictionary"),
    ("stream None is unknown", READER, "            to.array.stream = abi::CAI_STREAM_NONE;\n            return Ok(());", "            to.array.stream = abi::CAI_STREAM_UNKNOWN;\n            return Ok(());", "import_dictionary import_types"),
    ("no stream in version 3", READER, "if to.array.version < 3 { abi::CAI_STREAM_UNKNOWN }", "if to.array.version < 4 { abi::CAI_STREAM_UNKNOWN }", "import_dictionary import_types producers"),
    ("handles that mean no stream", READER, "            Ok(abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN) | Err(_) => {", "            Err(_) => {", "import_dictionary import_types"),
    ("streams in version 2 in strict mode", READER, "before.filter(|_| self.options.strict())", "before.filter(|_| false)", "import_options import_dictionary"),
    ("typestrs without order in strict mode", READER, "dtype::parse_lenient(text).filter(|_| !self.options.strict())", "dtype::parse_lenient(text)", "import_options import_types"),
    ("fast: versions above 3", FAST, ".filter(|version| (0..=3).contains(version))?", "?", "import_dictionary import_options"),
    ("fast: another number of strides", FAST, ", &mut to.strides)? != ndim {", ", &mut to.strides)? > ndim {", "import_dictionary import_types"),
    ("fast: stream 0 in dictionaries", FAST, ".filter(|&stream| stream > 0)? as u64", "? as u64", "import_dictionary import_options"),
    ("fast: no address", FAST, "        } else if address == 0 {\n            return None;\n        }\n", "        }\n", "import_dictionary import_types"),
    ("fast: flags that are no booleans", FAST, "            abi::CAI_ARRAY_READONLY\n        } else {\n            return None;\n        };", "            abi::CAI_ARRAY_READONLY\n        } else {\n            abi::CAI_ARRAY_READONLY\n        };", "import_types import_dictionary"),
    ("fast: lists in strict mode", FAST, "self.row(values[SHAPE], !strict, ", "self.row(values[SHAPE], true, ", "import_options import_dictionary"),
    ("fast: streams in version 2 in strict mode", FAST, "        } else if strict && version < 3 {\n            return None;\n        } else {", "        } else {", "import_options import_dictionary"),
    ("fast: fields of other kinds", FAST, "    } else if is_none(descr) || text[1] != b'V' {", "    } else if is_none(descr) {", "import_dictionary import_types import_fields"),
    # --- masks of cuDF
    ("masks of cuDF of exactly the right size", DICT, "bytes.checked_mul(8).is_none_or(|bits| bits >= extent);", "bytes.checked_mul(8).is_none_or(|bits| bits > extent);", "producers import_types"),
    ("masks of cuDF that are too short", DICT, "bytes.checked_mul(8).is_none_or(|bits| bits >= extent);", "bytes.checked_mul(8).is_none_or(|bits| bits + 8 >= extent);", "producers import_types"),
    ("masks of others as bits", DICT, "(of_cudf || (options.lenient() && bytes != extent))", "(of_cudf || bytes != extent)", "producers import_types"),
    ("masks of cuDF with strides", DICT, "    if stride == 1 && enough &&", "    if enough &&", "producers import_types"),
    # --- fields
    ("nameless rows with sub-arrays are trivial", TRIVIAL, "row.nested != NOTHING || row.ndim != 0 {", "row.nested != NOTHING {", "import_fields import_types"),
    ("nameless rows with titles are trivial", TRIVIAL, "row.name.is_empty() && row.title.is_none());", "row.name.is_empty());", "import_fields import_types"),
    ("four items of a field", FIELDS, "        if !(2..=3).contains(&count) {", "        if count < 2 {", "import_fields import_types"),
    ("tuples of fields in strict mode", FIELDS, "py.is(object, capi.list_type) || (!self.strict && py.is(object, capi.tuple_type))", "py.is(object, capi.list_type) || py.is(object, capi.tuple_type)", "import_fields import_options"),
    # --- options
    ("options: unknown bits", OPTIONS, "        if options.flags & !FLAGS != 0 {", "        if false {", "import_options"),
    ("options: both modes", OPTIONS, "        if parsed.strict() && parsed.lenient() {", "        if false {", "import_options"),
    ("options: reserved space", OPTIONS, "        if options.reserved != [0; 3] {", "        if false {", "import_options"),
    ("options: stream 0", OPTIONS, "        if options.stream == 0 {", "        if false {", "import_options"),
    ("options: a tail", READ, "    if let Some(position) = tail.into_iter().position(|&byte| byte != 0) {", "    if let Some(position) = tail.into_iter().position(|_| false) {", "import_options"),
    ("options: read-only arrays", REQUIRED, "    if options.has(abi::CAI_IMPORT_REQUIRE_WRITABLE) && array.flags", "    if false && array.flags", "import_options"),
    ("options: dimensions", REQUIRED, "options.has(abi::CAI_IMPORT_REQUIRE_NDIM) && array.ndim != raw.ndim {", "options.has(abi::CAI_IMPORT_REQUIRE_NDIM) && array.ndim > raw.ndim {", "import_options"),
    ("options: byte order", REQUIRED, "    if options.has(abi::CAI_IMPORT_REQUIRE_NATIVE) && !native()? {", "    if false && !native()? {", "import_options"),
    ("options: type", REQUIRED, "        if !dtype::equal(&described.dtype, &wanted) {", "        if described.dtype.kind != wanted.kind {", "import_options import_types"),
    ("options: meaning of one byte", REQUIRED, "            (_, b'1', 0) => raw.opaque_8bit,", "            (b'V', b'1', 0) => raw.opaque_8bit,", "import_options import_types"),
    # --- tables
    ("tables of another layout", OFFERS, "    if data_abi != abi::CAI_DATA_ABI {\n        return Ok(None);\n    }\n", "", "import_protocols import_options bridge_edges"),
    ("short tables of types", OFFERS, "    if (size as usize) < sizes::EXCHANGE_API {", "    if false {", "import_protocols import_options bridge_edges"),
    ("tables without an owner", EXCHANGE, "    if to.array.owner.is_null() {", "    if false {", "import_protocols import_options bridge_edges leaks"),
    ("arrays of tables not checked", EXCHANGE, "    to.array.stream = 0;\n", "", "import_protocols import_options bridge_edges leaks"),
    ("tensors of tables not deleted", DLPACK, "                Tensor::Versioned(tensor) => dlpack::delete_versioned(tensor),", "                Tensor::Versioned(tensor) => drop(tensor),", "dlpack import_protocols bridge_edges"),
    ("conjugates through tables", "src/python/import/grad.rs", "    if offer.may_be_conjugate {", "    if false {", "bridge_edges"),
    # --- out
    ("out: strides of dense arrays", CAI_DICT, "if flags & abi::CAI_EXPORT_STRIDES == 0 && strides.is_none() {", "if strides.is_none() {", "export_dictionary"),
    ("out: no reference", TABLE, "        owner::retain(array.owner)?;\n", "", "import_objects"),
    ("out: no reference to the array as it is", TABLE, "        owner::retain(reading.owner)?;\n", "", "import_objects"),
    ("own objects: no reference", TABLE, "if !as_is || owner::retain(array.owner).is_err() {", "if !as_is {", "import_objects"),
    ("own objects: masks", TABLE, "        && array.mask.is_null()\n", "", "import_types"),
    ("own objects: host memory", TABLE, "        && array.device.r#type != abi::CAI_DEVICE_CPU\n", "", "import_objects"),
    ("types: an address that another type had", "src/python/cache.rs", "            && nothing.number.load(Ordering::Relaxed) == version.number", "", "import_grad"),
    ("types: a table that another version had", "src/python/cache.rs", "            || self.number.load(Ordering::Relaxed) != version.number\n", "", "import_grad"),
    ("types: an answer of a descriptor", OFFERS, "        is_lasting.set(false);\n", "", "import_grad"),
    ("types: objects that look attributes up", OFFERS, "    if own.map(|own| own.get()) != usual.map(|usual| usual.get()) {\n        return Ok(None);\n    }\n", "", "import_grad"),
    ("own objects: streams of other threads", TABLE, "        && outgoing::is_final(array);", ";", "stream_export"),
    # --- what needs the driver to refuse
    ("reachable from the current context", "src/validate/device.rs", "        driver::device_pointer(thread, array.data)\n            .map_err(|failure| failure.at(format_args!(\"data\")))?;\n", "", "driver"),
    ("the limit of 4,096 bytes", "src/environment.rs", "    const SIZE: usize = 4096;", "    const SIZE: usize = 1024;", "driver"),
]  # fmt: skip
