# pgstow: set up, check, test, show. Every target sets up what it needs in .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export CARGO_PROFILE_DEV_OPT_LEVEL := 1
export CARGO_PROFILE_DEV_DEBUG := 0
export CARGO_INCREMENTAL := 0
export PATH := $(PATH):/usr/sbin:/sbin
# Tests start the command hundreds of times: what Python compiled of it is kept.
unexport PYTHONDONTWRITEBYTECODE
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock
CRATES := --workspace --exclude pgstow-python  # that one links only inside a Python process
# With its own jobs, not make's.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo
LINKER := $(if $(shell command -v cc),,$(STAMPS)/system)

# What does not need each other side by side; what each says is shown when it has ended.
AT_ONCE := $(MAKE) --no-print-directory --jobs=3 --output-sync=target
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest --durations=20 --durations-min=5

.PHONY: help setup check lint test nightly unit rust demo lock wheel clean
.PHONY: ready style clippy rust-tests

help:
	@echo 'make setup  prepare .venv: Python packages, the extension, system packages'
	@echo 'make demo   the whole loop on emulated volumes; the report is in build/demo'
	@echo 'make check  linters, Rust tests and unit tests: a few minutes'
	@echo 'make test   linters and the tests; those that need root skip aloud without it'
	@echo 'make nightly  what make test leaves out, as it takes long'
	@echo 'make unit   unit tests alone'
	@echo 'make lock   pin the versions now in .venv;  make wheel  build one into dist'

setup:
	@$(AT_ONCE) ready

ready: $(STAMPS)/system $(STAMPS)/packages $(STAMPS)/extension $(STAMPS)/amcheck
	@:

$(STAMPS)/venv: scripts/create-venv.sh
	@scripts/require-cargo.sh
	@scripts/create-venv.sh $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/system: scripts/install-system-packages.sh | $(STAMPS)/venv
	@scripts/install-system-packages.sh
	@touch $@

$(STAMPS)/maturin: $(STAMPS)/venv requirements.lock
	@$(PIP) install --constraint requirements.lock maturin
	@touch $@

$(STAMPS)/packages: $(STAMPS)/maturin pyproject.toml requirements.lock scripts/list_requirements.py
	@$(BIN)/python scripts/list_requirements.py demo dev >$(STAMPS)/requirements.txt
	@$(PIP) install --no-compile \
		--constraint requirements.lock --requirement $(STAMPS)/requirements.txt
	@touch $@

# Compiled while packages are being installed; put in place when they are.
$(STAMPS)/compiled: $(STAMPS)/maturin $(LINKER) $(RUST)
	@scripts/require-cargo.sh linker
	@env -u MAKEFLAGS -u MFLAGS VIRTUAL_ENV=$(CURDIR)/$(VENV) \
		$(BIN)/maturin develop --quiet --release --locked --skip-install
	@touch $@

$(STAMPS)/extension: $(STAMPS)/compiled $(STAMPS)/packages
	@env -u MAKEFLAGS -u MFLAGS VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 PIP_CONSTRAINT=requirements.lock \
		$(BIN)/maturin develop --quiet --release --locked
	@touch $@

$(STAMPS)/amcheck: scripts/fetch-amcheck.sh $(STAMPS)/system
	@scripts/fetch-amcheck.sh $(VENV)/share/pgstow/amcheck
	@touch $@

lint:
	@$(AT_ONCE) style clippy

style: $(STAMPS)/packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports # the package is being installed meanwhile
	cargo fmt --all --check

clippy: $(STAMPS)/venv $(LINKER)
	$(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings

rust: rust-tests

rust-tests: $(STAMPS)/venv $(LINKER)
	$(CARGO) test --quiet --locked $(CRATES)

check:
	@$(AT_ONCE) ready style clippy rust-tests
	@$(MAKE) --no-print-directory unit

test:
	@$(AT_ONCE) ready style clippy rust-tests
	@scripts/run-tests.sh $(BIN)/python $$(( 2 * $$(nproc) )) # unit tests compute while others wait

nightly: setup # what make test leaves out
	@$(PYTEST) -m nightly tests

unit: setup # pure, so as many at once as there are processors
	@$(PYTEST) -n auto --dist loadgroup --no-loadscope-reorder tests/unit

demo: setup
	@$(BIN)/pgstow demo --out build/demo

lock: setup
	@$(BIN)/python -m pip freeze --exclude-editable --exclude pgstow >requirements.lock

wheel: setup
	@$(BIN)/maturin build --quiet --release --locked --out dist
	@ls dist

clean:
	rm -rf build dist target $(VENV)
