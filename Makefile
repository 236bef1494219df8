# What a user calls: `make run`, `make test`. Everything is installed into .venv by this file alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXAMPLE := examples/gray_scott/settings.toml
TIER := quick
# Of the site: `cache` executes the notebooks that have changed, `off` shows them as they are stored.
NOTEBOOKS := cache

.PHONY: run test test-gpu test-all test-slow lint types unit adios2-mpi bench bench-quick bench-gpu bench-peers docs site site-links lock clean

run: $(VENV)/.run
	$(BIN)/ridgeline run $(EXAMPLE) -n 2
	$(BIN)/ridgeline plot gray_scott.bp --slice z=mid -o gray_scott.png

# The quick tests. CONTRIBUTING.md says what the other three tiers run, and how long each of them takes.
test: lint types unit

test-gpu: TIER := gpu
test-gpu: unit

test-all: TIER := all
test-all: $(VENV)/.docs lint types unit

test-slow: TIER := slow
test-slow: unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vermin -q --no-tips --no-parse-comments --violations --target=3.11- src tests tools docs benchmarks examples centre

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python tools/run_tests.py $(TIER)

# ADIOS2 with MPI, from its source distribution, against this environment's MPI (docs/adios2-mpi.md).
adios2-mpi: $(VENV)/.dev
	$(BIN)/python tools/build_adios2_mpi.py

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/gray_scott.py

# Every kernel with a goal: met or missed, better or worse than recorded. QUICK="--record" keeps the figures.
bench-quick: $(VENV)/.dev
	$(BIN)/python benchmarks/quick.py $(QUICK)

# All that is to be asked of this node's GPUs: tests, benchmarks, figures with a goal. GPU="--only nekbone" for some.
bench-gpu: $(VENV)/.dev
	$(BIN)/python benchmarks/gpu_all.py $(GPU)

# Other programs beside ours. PEERS="--hpcg DIR" for those that are compiled from a checkout.
bench-peers: $(VENV)/.dev
	$(BIN)/python benchmarks/peers.py $(PEERS)

docs: $(VENV)/.dev
	$(BIN)/python tools/generate_settings_doc.py
	$(BIN)/python tools/generate_benchmarks_doc.py

# The pages as a web site: build/site/index.html. Warnings are errors.
site: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -c docs/sphinx -D nb_execution_mode=$(NOTEBOOKS) \
	  -d build/doctrees . build/site

# Do the links to other hosts lead somewhere? Needs the network; the tests look at all other links.
site-links: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -b linkcheck -c docs/sphinx -D nb_execution_mode=off . build/site-links

lock: $(VENV)/.dev
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --extra adios2-mpi-build --universal --python-version 3.11 \
	  --no-emit-index-url --no-header -q -o requirements-ci.txt

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11; use make PYTHON=python3.11 (or newer)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "error: $(PYTHON) cannot make environments; apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/pyvenv.cfg pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[all]'
	@touch $@

# The lock file pins what the tests run with; the package itself states ranges.
$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml requirements-ci.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -c requirements-ci.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install -q --disable-pip-version-check -c requirements-ci.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
