# The two commands: `make demo` and `make test`. Both set up what they need inside build/ and target/. `make help` lists
# all: what stands behind two number signs after a target is its line there, of at most 62 characters.
#
# A fresh machine has cargo, gcc, make and Python 3 with pip; everything else comes from pip and cargo. `make install`
# needs CMake instead of Python.

CARGO  ?= cargo
# Where cargo builds: where the user's environment says, otherwise target/. Exported, because the commands here and
# those of the tests must agree, also where cargo's own settings name a third folder.
ifeq ($(CARGO_TARGET_DIR),)
override CARGO_TARGET_DIR := $(CURDIR)/target
else ifeq ($(filter /%,$(CARGO_TARGET_DIR)),)
override CARGO_TARGET_DIR := $(CURDIR)/$(CARGO_TARGET_DIR)
endif
export CARGO_TARGET_DIR
BUILT := $(CARGO_TARGET_DIR)/release
PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
# Below PREFIX: lib/x86_64-linux-gnu, for example.
LIBDIR ?= lib

VENV := build/venv
BIN  := $(CURDIR)/$(VENV)/bin
PY   := $(BIN)/python
# The simulated driver, as cuda-sim/ installs it. Exported: tests read it. Another one: CUDA_SIM_ROOT=its prefix.
CUDA_SIM_ROOT ?= $(CURDIR)/build/sim
export CUDA_SIM_ROOT
SIM := "$(CUDA_SIM_ROOT)/bin/cuda-sim"
MAKE_SIM = $(MAKE) --no-print-directory -C cuda-sim VENV="$(CURDIR)/$(VENV)" ENVIRONMENT= QUIET="$(QUIET)"
HAS_SIM := $(wildcard cuda-sim/Makefile)
# Where the environment's packages lie, NVIDIA's headers among them, and Python's own; asked once, when there is one.
path_of = $(shell $(PY) -c "import sysconfig; print(sysconfig.get_path('$(1)'))")
SITE = $(eval SITE := $$(call path_of,purelib))$(SITE)
PYTHON_INCLUDE = $(eval PYTHON_INCLUDE := $$(call path_of,include))$(PYTHON_INCLUDE)

# The longest first, for machines that cannot run all at once.
TEST_PARTS := test-python test-library $(if $(HAS_SIM),test-simulator) test-loom

.PHONY: all help demo test built-bindings built-release built-debug $(TEST_PARTS) test-targets test-pythons gpu-test gpu-programs \
    docs docs-serve lint deny header format install uninstall install-sim uninstall-sim release lib bindings sim fuzz \
    fuzz-targets fuzz-count mutants mutants-random clean dist dist-test target-link two-trees recipes FORCE

all: lib

help: ## lists these targets
	@echo "Targets, with the time of a first run on two cores, without downloads:"
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	    while IFS='|' read -r name text; do printf '  %-15s %s\n' "$$name" "$$text"; done
	@echo "Variables: CARGO_TARGET_DIR, PREFIX, DESTDIR, LIBDIR: docs/src/packaging.md."

# --- set-up -----------------------------------------------------------------------------------------------

# An environment FOLDER of its own, with packages: $(call environment,FOLDER,WORDS FOR PIP). Where Python has no venv module
# (Debian splits it off), virtualenv replaces it.
PIP := -m pip --disable-pip-version-check -q
define environment
	@rm -rf $(1)
	@$(PYTHON) -m venv $(1) || { \
	    rm -rf $(1) build/virtualenv; \
	    $(PYTHON) $(PIP) install --target build/virtualenv virtualenv && \
	    PYTHONPATH=build/virtualenv $(PYTHON) -m virtualenv -q $(1); }
	@$(1)/bin/python $(PIP) install $(2)
endef

$(VENV)/ready: tools/requirements.txt
	@echo "Setting up what the tests need, with pip: 720 MB in $(VENV)"
	$(call environment,$(VENV),-r tools/requirements.txt)
	@touch $@

# The part that the demo needs, in the versions of the whole, which may have been made by now (`make interop`).
$(VENV)/demo: tools/requirements-demo.txt
	$(if $(shell test -e $(VENV)/ready && echo whole),,$(DEMO_ALONE))
	@touch $@
define DEMO_ALONE
@echo "Setting up NumPy and NVIDIA's cuda.h, with pip: 110 MB in $(VENV)"
$(call environment,$(VENV),-r tools/requirements-demo.txt -c tools/requirements.txt)
endef
DEMO_ENVIRONMENT := $(if $(wildcard $(VENV)/ready),,$(VENV)/demo)

# The tests look for cargo's results in target/. Where the user has another folder, target is a link to it.
target-link: FORCE
	@if test "$(CARGO_TARGET_DIR)" != "$(CURDIR)/target"; then \
	    mkdir -p "$(CARGO_TARGET_DIR)"; \
	    if test -L target; then rm -f target; fi; \
	    test -e target || ln -s "$(CARGO_TARGET_DIR)" target; \
	    test target -ef "$(CARGO_TARGET_DIR)" || { echo "The tests look for cargo's results in target/. There is an \
	earlier build, and CARGO_TARGET_DIR is $(CARGO_TARGET_DIR): remove target/, or unset CARGO_TARGET_DIR." >&2; exit 1; }; \
	fi

# Cargo knows best whether the library is fresh. The static library alone, because beside an rlib there is no
# link-time optimization; the shared one is linked from it, which gives it symbol versions. They are of ELF: on
# macOS, cargo links the shared library. `make demo` shows cargo's progress.
QUIET := -q
demo: QUIET :=
lib: bindings ## builds the library (40 seconds)
	@echo "Building the library$(if $(QUIET),, (40 seconds on two cores))"
	@$(CARGO) rustc $(QUIET) --release --lib --crate-type staticlib
ifeq ($(shell uname),Darwin)
	@$(CARGO) rustc $(QUIET) --release --lib --crate-type cdylib
else
	@abi/link.sh "$(BUILT)"/libcai.a "$(BUILT)"/libcai.so $(CC)
endif

# The declarations for other languages, which are not tracked: cai.cdef, cai.pxd, unstable.pxd and python/libcai/_abi.py.
bindings: FORCE
	@$(CARGO) run -q -p cai-headers

# Another simulator than that of cuda-sim/ is used as it is.
sim: FORCE ## builds the simulated driver and the race checker (1 minute)
ifeq ($(if $(HAS_SIM),$(CUDA_SIM_ROOT)),$(CURDIR)/build/sim)
	@echo "Building the simulated driver$(if $(QUIET),, (one minute))"
	@+$(MAKE_SIM) install PREFIX="$(CUDA_SIM_ROOT)" DESTDIR=
else
	@$(SIM) --version >/dev/null || { echo "CUDA_SIM_ROOT: expected the prefix of an installed cuda-sim" >&2; exit 1; }
endif

# --- the main targets -------------------------------------------------------------------------------------

# The parts are independent of each other and run at the same time; what they share is built first, debug and release
# builds side by side: the linker's optimization, which takes most of a release build, uses one core, and pip waits for
# downloads. Each prints its whole output when it ends, a failed one does not stop the others, and the failed tests are
# listed at the end. The variables of make are kept from the parts, because cargo and the tests' own calls of make would
# look for its job server.
JOBS ?= $(shell nproc)
ALONE := env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS

test: target-link ## runs all tests that need no other library (25 minutes)
	$(MAKE) --no-print-directory -j3 --output-sync=target built-release built-debug $(VENV)/ready
	@rm -f build/test.passed
	{ $(MAKE) --no-print-directory -k -j$(JOBS) --output-sync=target $(TEST_PARTS) && touch build/test.passed; } 2>&1 \
	    | tee build/test.log
	@test -e build/test.passed || { echo "Failed (the whole output is in build/test.log):"; \
	    awk -f tools/failed.awk build/test.log; exit 1; }

# Of cargo's debug builds, which wait for each other: first the one that the release builds wait for.
built-bindings:
	@$(ALONE) $(MAKE) --no-print-directory bindings

built-release: built-bindings
	@$(ALONE) $(MAKE) --no-print-directory lib
	@$(ALONE) $(MAKE) --no-print-directory sim

built-debug: built-bindings
	$(ALONE) $(CARGO) test -q --no-run
	$(ALONE) $(CARGO) test -q --no-run -p libcai
	$(ALONE) $(CARGO) test -q --no-run -p cai-headers --features headers
	$(if $(HAS_SIM),$(ALONE) $(MAKE_SIM) built-debug)

test-library:
	$(ALONE) $(CARGO) test -q
	$(ALONE) $(CARGO) test -q -p libcai
	$(ALONE) $(CARGO) test -q -p cai-headers --features headers

test-simulator:
	$(ALONE) $(MAKE_SIM) test-parts

# What it takes to move cuda-sim/ to a repository of its own.
two-trees: $(VENV)/ready
	$(ALONE) tools/two_trees.sh

# Optimized for loom's sake, which runs each model many times. Link-time optimization, and optimized packages that only
# other tests use, would take longer to build than the models run.
LOOM := --config 'profile.release.lto="off"' --config profile.release.codegen-units=16 \
    --config 'profile.release.package."*".opt-level=0' --config profile.release.package.loom.opt-level=3 \
    --config profile.release.package.generator.opt-level=3

test-loom:
	$(ALONE) RUSTFLAGS="--cfg loom" $(CARGO) $(LOOM) test -q --release --lib --target-dir target/loom

# All tests of a file run in one process: what its fixtures build is built once. Files that take long come first, as
# tests/python/conftest.py orders them.
define in_python
$(ALONE) PATH="$(BIN):$$PATH" $(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder $(1)
endef
test-python:
	$(call in_python,tests/python $(CONTRIB_PYTHON))

# The oldest Rust, and other platforms, in Debian's packages below build/targets, which installs nothing and needs a
# Debian or Ubuntu with apt-get, dpkg-deb and unshare, and root or unprivileged user namespaces. DEBIAN_MIRROR is a mirror
# in place of the machine's. PARTS are some of native, aarch64, windows, check; a failed one does not stop the others.
test-targets: ## builds and tests for Rust 1.85, aarch64, Windows (6 GB)
	tools/targets/run.sh $(PARTS)

# The tests about Python objects under every CPython from 3.9 to 3.15 and the free-threaded 3.13, which come from the
# machine or from Debian's archive into build/pythons: see tools/pythons.py. PYTHONS are some of them.
test-pythons: target-link $(VENV)/ready lib sim ## tests under every CPython from 3.9 to 3.15
	$(PY) tools/pythons.py $(PYTHONS)

# Everything that needs a real driver, into one report: build/gpu/gpu.md. Where there is cargo, the programs are built
# first; a machine with a GPU needs build/gpu, the sources and Python.
gpu-test: ## runs what needs a GPU, writes one report
	@if command -v $(CARGO) >/dev/null; then $(MAKE) -s gpu-programs; fi
	@$(PYTHON) tools/gpu_test.py --programs build/gpu

GPU_GCC = gcc -std=gnu11 -O1 -g -Wall -Wextra -isystem "$(SITE)/nvidia/cu13/include" -Iinclude -I"$(CUDA_SIM_ROOT)/include"
GPU_PROGRAMS = $(basename $(shell grep -l '^ \* run: .*gpu' capi-tests/sync/*.c)) bench/streams bench/pingpong
gpu-programs: $(VENV)/ready lib sim
	mkdir -p build/gpu/simulated
	cp "$$($(SIM) libdir)"/libcuda.so.1 build/gpu/simulated/
	+$(if $(HAS_SIM),$(MAKE_SIM) gpu-programs OUT="$(CURDIR)/build/gpu")
	rm -f build/gpu/libcai.so.*
	cp "$(BUILT)"/libcai.so build/gpu/libcai.so.1
	$(GPU_GCC) -shared -fPIC capi-tests/sync/shim.c -o build/gpu/libshim.so -Wl,--no-as-needed \
	    build/gpu/simulated/libcuda.so.1 -ldl
	for program in $(GPU_PROGRAMS); do \
	    $(GPU_GCC) $$program.c -o build/gpu/$$(basename $$program) build/gpu/libcai.so.1 \
	        build/gpu/simulated/libcuda.so.1 -lpthread -ldl -Wl,-rpath,'$$ORIGIN' || exit 1; \
	done

# What is generated and checked in: the C headers, the lists in abi/, pages of the book.
header: target-link $(VENV)/ready sim ## writes the generated files
	$(CARGO) run -q -p cai-headers --features headers
	CAI_BLESS=1 PATH="$(BIN):$$PATH" $(PY) -m pytest -q -k generated tests/python/test_hops.py

# The site: the pages of docs/src and cuda-sim/docs, and a reference from the headers. Warnings are errors: a link or an
# anchor that leads nowhere is one.
DOCS := build/docs
$(DOCS)/ready: docs/requirements.txt
	@echo "Setting up Sphinx and Matplotlib, with pip: 290 MB in $(DOCS)"
	$(call environment,$(DOCS),-r docs/requirements.txt)
	@touch $@

docs: $(DOCS)/ready $(DEMO_ENVIRONMENT) ## builds the site, build/site (1 minute, 290 MB)
	+$(if $(HAS_SIM),@$(MAKE_SIM) docs)
	@$(DOCS)/bin/python docs/prepare.py build/site-src
	@$(DOCS)/bin/sphinx-build -q -W --keep-going -b html -c docs build/site-src build/site
	@echo "build/site/index.html"

docs-serve: docs ## builds the site, and shows it at port 8000
	$(DOCS)/bin/python -m http.server --bind 127.0.0.1 --directory build/site 8000

# Cargo's folder elsewhere may be shared with other projects: it stays.
clean: ## removes what was built
	rm -rf build target

# Fuzzes each target for SECONDS from its checked-in corpus, and imports hostile Python objects. `make fuzz-count` adds
# the inputs tried since the last count to fuzz/README.md.
SECONDS ?= 60
fuzz: target-link fuzz-targets lib ## fuzzes each target for SECONDS=60 (10 minutes)
	CAI_FUZZ_SECONDS=$(SECONDS) CAI_FUZZ_SEEDS="$$(date +%s),$$(date +%N)" $(PY) -m pytest -q tests/python/test_hostile.py

fuzz-targets: $(VENV)/ready
	$(PY) tools/fuzz.py --seconds $(SECONDS)

fuzz-count: $(VENV)/ready
	$(PY) tools/fuzz.py --count

# Breaks one thing at a time in the library and looks whether a test fails: half an hour; or COUNT of them, chosen by
# SEED, or else by the time.
COUNT ?= 20
SEED ?=
mutants: target-link $(VENV)/ready lib sim ## changes one line at a time; a test must fail (an hour)
	PATH="$(BIN):$$PATH" $(PY) tools/mutants.py

mutants-random: target-link $(VENV)/ready lib sim
	PATH="$(BIN):$$PATH" $(PY) tools/mutants.py --random $(COUNT) $(if $(SEED),--seed $(SEED))

C_FILES = $(shell git ls-files '*.c' '*.h' '*.cpp' '*.hpp' ':!cuda-sim' | xargs grep -L '^ \* Generated from the sources of libcai')

# Style: rustfmt and clippy with warnings denied, clang-format for C and C++; and the licence of every file.
# Pyright, with its own Node.js from pip: a second opinion about types, and the one that editors have.
PYRIGHT := build/pyright
$(PYRIGHT)/ready: tools/requirements-pyright.txt
	@echo "Setting up pyright, with pip: 280 MB in $(PYRIGHT)"
	$(call environment,$(PYRIGHT),-r $<)
	@touch $@

lint: $(VENV)/ready $(PYRIGHT)/ready bindings ## checks style, types and licences (2 minutes)
	$(CARGO) fmt --check
	$(CARGO) clippy -q --workspace --all-targets --features cai-headers/headers -- -D warnings
	$(CARGO) clippy -q -p libcai --features cudarc --all-targets -- -D warnings
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	+$(if $(HAS_SIM),$(MAKE_SIM) lint)
	$(PY) -m mypy
	for project in . $(if $(HAS_SIM),cuda-sim); do \
	    $(PYRIGHT)/bin/basedpyright --project $$project --pythonpath $(PY) || exit 1; \
	done
	$(PY) -m reuse lint --lines

# Licences and origins of all crates. In lint, every fresh clone would build cargo-deny first (1 minute of one core).
DENY_VERSION := 0.20.2
DENY := build/cargo-tools/deny-$(DENY_VERSION)
$(DENY)/bin/cargo-deny:
	@echo "Building cargo-deny $(DENY_VERSION) (2 minutes)"
	@$(ALONE) env -u CARGO_TARGET_DIR $(CARGO) install -q --debug --locked --root $(DENY) cargo-deny@$(DENY_VERSION)

deny: $(DENY)/bin/cargo-deny ## checks licences and origins of crates (2 minutes)
	for crates in . $(if $(HAS_SIM),cuda-sim); do \
	    $< --manifest-path $$crates/Cargo.toml --all-features --locked --config deny.toml check licenses bans sources || exit 1; \
	done

format: $(VENV)/ready ## formats Rust, C and C++
	$(CARGO) fmt
	$(BIN)/clang-format -i $(C_FILES)
	+$(if $(HAS_SIM),$(MAKE_SIM) format)

# What users without Rust install, in dist/, with Debian's compilers below build/dist-tools, which needs what test-targets needs. PARTS are
# platforms or scripts of tools/dist, each of which can be called alone with the folder for its results.
dist: ## builds archives and wheels for users (30 minutes, 4 GB)
	$(ALONE) PYTHON="$(PYTHON)" tools/dist/run.sh $(PARTS)

build/dist-tools/venv/ready: tools/dist/requirements.txt
	$(call environment,build/dist-tools/venv,-r $<)
	@touch $@

# What `make dist` built, as users install it, and once more in another folder: tools/dist/test.sh lists the PARTS.
dist-test: ## tests what `make dist` built on other systems (1 hour, 10 GB)
	$(ALONE) PYTHON="$(PYTHON)" tools/dist/test.sh $(PARTS)

# PREFIX and DESTDIR as usual. Needs cargo, a C compiler and CMake; no Python.
install: FORCE ## installs the library (40 seconds): PREFIX=/usr/local
	@$(ALONE) PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" LIBDIR="$(LIBDIR)" CMAKE="$(CMAKE)" tools/install.sh

# Removes these files, and the library's own folders if they are empty then.
INSTALLED := share/licenses/cai/LICENSE-APACHE share/licenses/cai/LICENSE-MIT share/licenses/cai/LICENSE-THIRD-PARTY \
    $(wildcard include/cai/*.* include/cai/unstable/*) $(patsubst contrib/%,%,$(wildcard contrib/include/cai/*))
INSTALLED_LIB = libcai.a libcai.so libcai.so.$(shell sed -n 's/.*CAI_ABI_MAJOR.*= \(.*\);/\1/p' src/abi/version.rs) \
    libcai.so.$(shell sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' Cargo.toml) pkgconfig/cai.pc \
    $(addprefix cmake/cai/,caiConfig.cmake caiConfigVersion.cmake caiTargets.cmake)
uninstall: ## removes it again: with the same variables
	@cd "$(DESTDIR)$(PREFIX)" && rm -f $(INSTALLED) $(addprefix $(LIBDIR)/,$(INSTALLED_LIB)) && \
	    rmdir --ignore-fail-on-non-empty share/licenses/cai include/cai/unstable include/cai $(LIBDIR)/cmake/cai

# The simulated driver, for use elsewhere.
install-sim: FORCE ## installs the simulated driver (1 minute): PREFIX
	@+$(MAKE_SIM) install PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)"

uninstall-sim: FORCE ## removes it again: PREFIX
	@+$(MAKE_SIM) uninstall PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)"

# The recipes for other package managers, filled for these sources and run, in an environment of their own:
# docs/src/packaging.md.
recipes: build/recipes/ready ## runs the recipes of packaging/ (4 minutes)
	$(ALONE) build/recipes/bin/python -m pytest -q -rs packaging

build/recipes/ready: packaging/requirements.txt
	$(call environment,build/recipes,-r $<)
	@touch $@

# Everything up to the upload: versions, checks, artefacts, commit and tag: see CONTRIBUTING.md. DRY_RUN=1 shows
# what would change; SKIP="test dist" leaves parts out.
release: ## checks, builds and tags a release: VERSION=x.y.z DRY_RUN=1
	@$(PYTHON) tools/release.py "$(VERSION)" $(if $(filter-out 0,$(DRY_RUN)),--dry-run) --skip "$(SKIP)"

# --- parts with rules of their own ------------------------------------------------------------------------

include $(addprefix $(dir $(firstword $(MAKEFILE_LIST))),examples-c/demo/rules.mk interop/rules.mk contrib/rules.mk bench/rules.mk)
