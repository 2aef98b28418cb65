# Measurements, for ../Makefile: `make bench`. run.py says how a row is added.

.PHONY: bench bench-docs bench-programs bench-pythons bench-scale bench-adopters

BENCH := build/bench
BENCH_GCC := gcc -O2 -std=gnu11 -Wall -Wextra -Iinclude -Ibench
BENCH_HEADERS := $(wildcard bench/*.h)
# A program lies beside the library, of which run.py copies both.
BENCH_LINK := $(BENCH)/libcai.so.1 -ldl -lpthread -Wl,-rpath,'$$ORIGIN'
BENCH_SIM = $(SIM) run --races=off --exchanges=hidden --schedule=eager --runtime=13 --

# Each is NAME=COMMAND, run in a copy of the folder; NAME is that of a block of the book. What a machine lacks prints so.
BENCH_PROGRAMS = exchange=./exchange \
    streams="CAI_CUDA_DRIVER=./null_driver.so ./streams 'a driver that does nothing'" \
    simulated="$(BENCH_SIM) ./streams 'the simulated driver'" \
    channel="$(BENCH_SIM) ./channel" \
    python="$(BENCH_PYTHON) -B $(CURDIR)/bench/python_bench.py" \
    arrow=$(call bench_if,$(NANOARROW),./arrow,nanoarrow) \
    mpich=$(call bench_if,$(INTEROP_HOST)/ready,./mpich,MPICH) \
    openmpi=$(call bench_if,$(INTEROP_HOST)/ready,"OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ./openmpi",Open MPI) \
    view=./view
bench_if = $(if $(wildcard $(1)),$(2),"printf 'without\t$(3)\n'")

# The environment of `make interop` has the peers, and the same Python.
ifneq ($(wildcard $(INTEROP)/ready),)
BENCH_PYTHON = LD_LIBRARY_PATH=$(CURDIR)/$(INTEROP)/stubs $(BENCH_SIM) $(CURDIR)/$(INTEROP)/bin/python
else
BENCH_PYTHON = $(PY)
endif

# Ratios between ways to do the same, measured side by side.
bench: bench-programs ## measures libcai beside other ways (4 minutes)
	$(PY) bench/run.py $(BENCH) $(BENCH_BOOK) $(BENCH_PROGRAMS)

bench-docs: BENCH_BOOK = --write docs/src/performance.md --write docs/src/packaging.md --write README.md
bench-docs: bench bench-scale bench-adopters ## the same, and writes it into the book

# Imports of dictionaries under every CPython, with readers compiled for each: PYTHONS are some of them.
bench-pythons: $(VENV)/ready $(BENCH)/libcai.so.1 ## measures imports under every CPython (20 minutes)
	cd bench && $(PY) pythons.py $(CURDIR)/$(BENCH)-pythons $(CURDIR)/docs/src/performance.md $(PYTHONS)

# What grows with the input, and how. The free-threaded CPython is one that `make test-pythons` has set up.
FREE_THREADED = $(lastword $(wildcard build/pythons/3.*t/freeze_core/python build/pythons/3.*t/bin/python3.*t))
bench-scale: $(VENV)/ready $(BENCH)/scale.so ## measures what grows with the input (2 minutes)
	BENCH_PROCESSES=2 $(PY) bench/run.py $(BENCH) $(BENCH_BOOK) scale="$(PY) -B $(CURDIR)/bench/scale.py" \
	    threads="$(foreach python,$(PY) $(FREE_THREADED),$(abspath $(python)) $(CURDIR)/bench/scale.py threads &&) true"

# What a program pays that uses the library: to compile, to ship, to start.
bench-adopters: $(VENV)/ready $(BENCH)/startup sim ## measures compiling, size and start (3 minutes)
	$(MAKE) -s install PREFIX=$(CURDIR)/$(BENCH)-prefix
	$(PY) bench/adopters.py $(BENCH)-prefix $(filter %/packaging.md,$(BENCH_BOOK))
	BENCH_PROCESSES=3 $(PY) bench/run.py $(BENCH) $(BENCH_BOOK) startup="$(BENCH_SIM) ./startup"

bench-programs: $(VENV)/ready lib sim $(addprefix $(BENCH)/,exchange streams null_driver.so channel view python_ways.so) \
    $(addprefix $(BENCH)/,pybind11_ways.so pybind11_casters.so nanobind_casters.so $(if $(wildcard $(INTEROP)/ready),tvm_casters.so)) \
    $(if $(wildcard $(NANOARROW)),$(BENCH)/arrow) $(if $(wildcard $(INTEROP_HOST)/ready),$(BENCH)/mpich $(BENCH)/openmpi)

$(BENCH)/libcai.so.1: lib
	@mkdir -p $(BENCH)
	@cmp -s "$(BUILT)"/libcai.so $@ || cp "$(BUILT)"/libcai.so $@

$(BENCH)/%: bench/%.c $(BENCH_HEADERS) $(BENCH)/libcai.so.1
	$(BENCH_GCC) $(filter %.c,$^) -o $@ $(BENCH_LINK)
$(BENCH)/exchange: bench/by_hand.c

$(BENCH)/null_driver.so: bench/null_driver.c
	$(BENCH_GCC) -shared -fPIC $< -o $@

$(BENCH)/python_ways.so: bench/python.c $(BENCH_HEADERS) $(BENCH)/libcai.so.1
	$(BENCH_GCC) -shared -fPIC -isystem "$(PYTHON_INCLUDE)" $< -o $@ $(BENCH_LINK)

$(BENCH)/scale.so: bench/scale.c $(BENCH_HEADERS) $(BENCH)/libcai.so.1
	$(BENCH_GCC) -shared -fPIC $< -o $@ $(BENCH_LINK)

# Without NDEBUG, which every build system defines, pybind11 asks CPython for the lock at each reference that it counts.
BENCH_CXX := g++ -O2 -std=c++17 -DNDEBUG -fPIC -fvisibility=hidden
$(BENCH)/%_ways.so: bench/%_ways.cpp $(BENCH)/libcai.so.1
	$(BENCH_CXX) -Wall -Wextra -shared -isystem "$(PYTHON_INCLUDE)" \
	    -isystem "$(SITE)/pybind11/include" $< -o $@ $(BENCH_LINK)

# Bound functions, and nanobind's own part, which is compiled as its CMake functions do.
BENCH_CASTERS := $(wildcard contrib/include/cai/*.hpp include/cai/*.hpp)
$(BENCH)/pybind11_casters.so: bench/casters.cpp $(BENCH_CASTERS) $(BENCH)/libcai.so.1
	$(BENCH_CXX) -Wall -Wextra -shared -Iinclude -Icontrib/include -isystem "$(PYTHON_INCLUDE)" \
	    -isystem "$(SITE)/pybind11/include" $< -o $@ $(BENCH_LINK)
$(BENCH)/nanobind.o: $(VENV)/ready
	@mkdir -p $(BENCH)
	$(BENCH_CXX) -fno-strict-aliasing -isystem "$(PYTHON_INCLUDE)" -isystem "$(SITE)/nanobind/include" \
	    -isystem "$(SITE)/nanobind/ext/robin_map/include" -c "$(SITE)/nanobind/src/nb_combined.cpp" -o $@
$(BENCH)/nanobind_casters.so: bench/casters.cpp $(BENCH)/nanobind.o $(BENCH_CASTERS) $(BENCH)/libcai.so.1
	$(BENCH_CXX) -Wall -Wextra -shared -DUSE_NANOBIND -Iinclude -Icontrib/include -isystem "$(PYTHON_INCLUDE)" \
	    -isystem "$(SITE)/nanobind/include" $< $(BENCH)/nanobind.o -o $@ $(BENCH_LINK)
BENCH_TVM = $(wildcard $(CURDIR)/$(INTEROP)/lib/python3*/site-packages/tvm_ffi)
$(BENCH)/tvm_casters.so: bench/tvm_casters.cpp
	$(BENCH_CXX) -shared -isystem "$(BENCH_TVM)/include" $< -o $@ -L"$(BENCH_TVM)/lib" -ltvm_ffi \
	    -Wl,-rpath,"$(BENCH_TVM)/lib"

$(BENCH)/view: rust/benches/view.rs lib
	@$(CARGO) build -q --release -p libcai --bench view
	@cp "$$(ls -t "$(BUILT)"/deps/view-* | grep -v '\.d$$' | head -1)" $@

# Arrow's structures beside nanoarrow's C library, whose sources are in its Python package's.
$(BENCH)/arrow: bench/arrow.c $(BENCH_HEADERS) $(BENCH)/libcai.so.1
	mkdir -p $(BENCH)/nanoarrow
	printf '#define NANOARROW_VERSION "0"\n#define NANOARROW_VERSION_INT 0\n#define NANOARROW_CXX_NAMESPACE_BEGIN\n#define NANOARROW_CXX_NAMESPACE_END\n' \
	    >$(BENCH)/nanoarrow/nanoarrow_config.h
	$(BENCH_GCC) -isystem $(BENCH) -isystem "$(NANOARROW)" -isystem "$(NANOARROW)/nanoarrow" $< \
	    $(addprefix "$(NANOARROW)"/nanoarrow/,common/array.c common/schema.c common/utils.c common/array_stream.c device/device.c) \
	    -o $@ $(BENCH_LINK)

# Messages beside datatypes made by hand.
$(BENCH)/mpich $(BENCH)/openmpi: bench/halo.c $(BENCH_HEADERS) $(BENCH)/libcai.so.1
	$(eval MPI := $(INTEROP_HOST)$(if $(findstring openmpi,$@),/openmpi))
	$(MPI)/bin/mpicc -O2 -std=gnu11 -Wall -Wextra -Iinclude -Icontrib/include -isystem $(MPI)/include $< -o $@ \
	    $(BENCH_LINK) -Wl,-rpath,$(CURDIR)/$(MPI)/lib
