# Tests of the adapters, for ../Makefile: `make test` and `make interop` run them beside those of the library.

.PHONY: contrib-test contrib-interop

# Those that need only what pip installs for `make test`; and the others, by the environment of ../interop/rules.mk.
CONTRIB_PYTHON := contrib/tests/casters contrib/tests/mdspan/test_example.py
CONTRIB_SIMULATOR := contrib/tests/tensors
CONTRIB_HOST := contrib/tests/mpi contrib/tests/xla_ffi
CONTRIB_NVCC := contrib/tests/nccl contrib/tests/mdspan/test_mdspan.py

contrib-test: target-link $(VENV)/ready lib sim
	$(CARGO) test -q --test programs contrib/
	$(call in_python,$(CONTRIB_PYTHON))

contrib-interop: target-link $(INTEROP)/ready $(INTEROP_HOST)/ready $(INTEROP_NVCC)/ready lib sim
	$(call in_simulator,$(CONTRIB_SIMULATOR))
	$(call in_host,$(CONTRIB_HOST))
	$(call in_nvcc,$(CONTRIB_NVCC))
