# pgstow: set up, check, test, show. Every target sets up what it needs in .venv.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export CARGO_PROFILE_DEV_OPT_LEVEL := 1
export PATH := $(PATH):/usr/sbin:/sbin
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock
CRATES := --workspace --exclude pgstow-python  # that one links only inside a Python process

PYTEST := $(BIN)/python -m pytest --durations=20 --durations-min=5
WHERE := tests/server tests/lab tests/browser

.NOTPARALLEL:
.PHONY: help setup check lint test nightly unit rust demo lock wheel clean

help:
	@echo 'make setup  prepare .venv: Python packages, the extension, system packages'
	@echo 'make demo   the whole loop on emulated volumes; the report is in build/demo'
	@echo 'make check  linters, Rust tests and unit tests: a few minutes'
	@echo 'make test   linters and the tests; those that need root skip aloud without it'
	@echo 'make nightly  what make test leaves out, as it takes long'
	@echo 'make unit   unit tests alone'
	@echo 'make lock   pin the versions now in .venv;  make wheel  build one into dist'

setup: $(STAMPS)/system $(STAMPS)/packages $(STAMPS)/extension $(STAMPS)/amcheck

$(STAMPS)/venv: scripts/create-venv.sh
	@scripts/require-cargo.sh
	@scripts/create-venv.sh $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/system: scripts/install-system-packages.sh | $(STAMPS)/venv
	@scripts/install-system-packages.sh
	@touch $@

$(STAMPS)/packages: $(STAMPS)/venv pyproject.toml requirements.lock scripts/list_requirements.py
	@$(BIN)/python scripts/list_requirements.py demo dev >$(STAMPS)/requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint requirements.lock --requirement $(STAMPS)/requirements.txt
	@touch $@

$(STAMPS)/extension: $(STAMPS)/system $(STAMPS)/packages $(RUST)
	@scripts/require-cargo.sh linker
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 PIP_CONSTRAINT=requirements.lock \
		$(BIN)/maturin develop --quiet --release --locked
	@touch $@

$(STAMPS)/amcheck: scripts/fetch-amcheck.sh $(STAMPS)/system
	@scripts/fetch-amcheck.sh $(VENV)/share/pgstow/amcheck
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings

rust: setup
	cargo test --quiet --locked $(CRATES)

check: lint rust unit

# Most tests wait more than they compute; those that measure time then run with nothing beside them.
test: lint rust unit
	@status=0; \
	$(PYTEST) -n $$(( 2 * $$(nproc) )) --dist loadgroup -m "not alone and not nightly" \
		$(WHERE) || status=1; \
	$(PYTEST) -m "alone and not nightly" $(WHERE) || status=1; \
	exit $$status

nightly: setup # what make test leaves out
	@$(PYTEST) -m nightly tests

unit: setup # pure, so as many at once as there are processors
	@$(PYTEST) -n auto --dist loadfile tests/unit

demo: setup
	@$(BIN)/pgstow demo --out build/demo

lock: setup
	@$(BIN)/python -m pip freeze --exclude-editable --exclude pgstow >requirements.lock

wheel: setup
	@$(BIN)/maturin build --quiet --release --locked --out dist
	@ls dist

clean:
	rm -rf build dist target $(VENV)
