# Measurements, for ../Makefile: `make bench`.

.PHONY: bench bench-arrow bench-mpi bench-python bench-docs

BENCH_GCC := gcc -O2 -std=gnu11 -Wall -Wextra

# Ratios between ways to exchange an array, measured side by side in one run.
bench: $(VENV)/ready lib sim ## measures an exchange beside other ways
	mkdir -p build/bench
	$(BENCH_GCC) -Iinclude -Ibench bench/exchange.c bench/by_hand.c -o build/bench/exchange \
	    -L"$(BUILT)" -lcai -Wl,-rpath,$(CURDIR)/build/bench
	ln -sf "$(BUILT)"/libcai.so build/bench/libcai.so.1
	build/bench/exchange
	$(BENCH_GCC) -shared -fPIC bench/null_driver.c -o build/bench/null_driver.so
	$(BENCH_GCC) -Iinclude bench/streams.c -o build/bench/streams \
	    -L"$(BUILT)" -lcai -ldl -Wl,-rpath,$(CURDIR)/build/bench
	CAI_CUDA_DRIVER="$(CURDIR)/build/bench/null_driver.so" build/bench/streams "with a driver that does nothing"
	CUDASIM_SCHEDULE=eager CUDASIM_RACES=off CAI_CUDA_DRIVER="$$($(SIM) libdir)/libcuda.so.1" \
	    build/bench/streams "with the simulated driver"
	+$(if $(HAS_SIM),$(MAKE_SIM) bench)
	if [ -d "$(NANOARROW)" ]; then $(MAKE) -s bench-arrow; \
	    else echo "nanoarrow is not there (make interop fetches it): Arrow is left out"; fi
	if [ -f "$(INTEROP_HOST)/ready" ]; then $(MAKE) -s bench-mpi; \
	    else echo "MPI is not there (make interop fetches it): messages are left out"; fi
	$(CARGO) bench -q -p libcai --bench view
	if [ -f "$(PYTHON_INCLUDE)/Python.h" ]; then $(MAKE) -s bench-python; \
	    else echo "Python's headers are not there: exchange with Python objects is left out"; fi

# Arrow's structures beside nanoarrow's C library, whose sources are in its Python package's.
bench-arrow: lib
	mkdir -p build/bench/nanoarrow
	printf '#define NANOARROW_VERSION "0"\n#define NANOARROW_VERSION_INT 0\n#define NANOARROW_CXX_NAMESPACE_BEGIN\n#define NANOARROW_CXX_NAMESPACE_END\n' \
	    >build/bench/nanoarrow/nanoarrow_config.h
	ln -sf "$(BUILT)"/libcai.so build/bench/libcai.so.1
	$(BENCH_GCC) -Iinclude -isystem build/bench -isystem "$(NANOARROW)" \
	    -isystem "$(NANOARROW)/nanoarrow" bench/arrow.c \
	    $(addprefix "$(NANOARROW)"/nanoarrow/,common/array.c common/schema.c common/utils.c common/array_stream.c device/device.c) \
	    -o build/bench/arrow -L"$(BUILT)" -lcai -Wl,-rpath,$(CURDIR)/build/bench
	build/bench/arrow

# Messages beside datatypes made by hand, with MPICH and then Open MPI.
bench-mpi: lib
	mkdir -p build/bench
	ln -sf "$(BUILT)"/libcai.so build/bench/libcai.so.1
	for mpi in $(INTEROP_HOST) $(INTEROP_HOST)/openmpi; do \
	    $$mpi/bin/mpicc -O2 -std=gnu11 -Wall -Wextra -Iinclude -Icontrib/include -isystem $$mpi/include bench/halo.c -o build/bench/halo \
	        "$(BUILT)"/libcai.so -Wl,-rpath,$(CURDIR)/build/bench -Wl,-rpath,$(CURDIR)/$$mpi/lib && \
	    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 build/bench/halo || exit 1; \
	done

# Exchange with Python objects, beside the peers of `make interop` where they are installed; that environment has the
# same Python. bench-docs needs them, and writes table and chart into the book.
ifneq ($(wildcard $(INTEROP)/ready),)
BENCH_PYTHON = LD_LIBRARY_PATH="$(CURDIR)/$(INTEROP)/stubs" $(SIM) run --races=off --exchanges=hidden --schedule=eager \
    --runtime=13 -- $(INTEROP)/bin/python
else
BENCH_PYTHON = $(PY)
endif
bench-python: build/bench/python_ways.so
	$(BENCH_PYTHON) -B bench/python_bench.py build/bench $(BOOK)

bench-docs: BOOK = docs/src
bench-docs: bench-python

build/bench/python_ways.so: bench/python.c bench/python_pybind11.cpp $(wildcard include/cai/*.h) $(VENV)/ready lib sim
	mkdir -p build/bench
	ln -sf "$(BUILT)"/libcai.so build/bench/libcai.so.1
	$(BENCH_GCC) -fPIC -Iinclude -isystem "$(PYTHON_INCLUDE)" -c bench/python.c -o build/bench/python.o
	g++ -O2 -std=c++17 -Wall -Wextra -fPIC -fvisibility=hidden -isystem "$(PYTHON_INCLUDE)" \
	    -isystem "$(SITE)/pybind11/include" -c bench/python_pybind11.cpp -o build/bench/python_pybind11.o
	g++ -shared build/bench/python.o build/bench/python_pybind11.o -o $@ build/bench/libcai.so.1 -ldl \
	    -Wl,-rpath,'$$ORIGIN'
