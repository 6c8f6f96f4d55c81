# Everything runs in .venv, which the first command makes and the next ones find ready.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS_READY := .venv-peers/.ready

.PHONY: demo test check bench bench-peers bench-page docs explore clean

demo: $(READY)
	$(BIN)/python -m sim.demo

test: $(READY)
	$(BIN)/python -m pytest -q -n 2

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

# The peers have an environment of their own, with Evenhand in it too.
bench-peers: $(PEERS_READY)
	@echo 'now: $(BIN)/python -m benchmarks --peers'

# docs/performance.md, from a run beside all peers; who had to be left out is missing there, and that is all.
bench-page: $(READY) $(PEERS_READY)
	-$(BIN)/python -m benchmarks --peers --json > benchmarks/figures.jsonl
	$(BIN)/python -m benchmarks.page

# The variable keeps a notice about versions to come out of the output. Warnings are errors, see mkdocs.yml.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "built into build/site; to read it with its search: $(BIN)/python -m http.server -d build/site"

# The same properties, many more examples.
explore: $(READY)
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -q -n 2 tests

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

$(PEERS_READY): pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --editable '.[peers]'
	touch $(PEERS_READY)

clean:
	rm -rf .venv .venv-peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
