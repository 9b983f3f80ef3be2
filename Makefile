# check, test, lint, generate, docs and bench are all there is to know; each sets up .venv when it is missing or stale.
PYTHON ?= python3
EXAMPLES ?= 40
JOBS ?= 2
SEED ?= 0
MARKS ?= not slow
PART ?= 1/1
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: check test lint generate docs bench faults

check: $(STAMP)
	$(BIN)/specsim check --examples $(EXAMPLES) --seed $(SEED) --jobs $(JOBS)

test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "$(MARKS)" --part $(PART)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell -D tests/quality/words.txt README.md docs gpu properties reference specsim tests
	$(BIN)/mypy
	$(BIN)/lint-imports

# What follows from the tables and the catalogues: stubs, exports and pages. Tests compare each of them.
generate: $(STAMP)
	$(BIN)/python -m specsim.operations.derived.stub
	$(BIN)/python -m specsim.conformance.stub
	$(BIN)/python -m specsim.conformance.page > docs/host-functions.md
	$(BIN)/python -m specsim.reports.engines page docs/results > docs/engine-matrix.md
	$(BIN)/python -m specsim.vectors.pictures docs/reference
	$(BIN)/python -m specsim.properties.suite.pages docs
	$(BIN)/python -m specsim.cli.simulating.algorithms_page LICENSE > docs/algorithms.md
	$(BIN)/python -m specsim.engines.page docs/engines.md

# The site, in build/site. Whatever Sphinx warns of is an error, and no page may ask the network for anything.
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs build/site
	$(BIN)/python -m specsim.properties.suite.live docs/live build/site/live
	$(BIN)/python -m tests.site build/site

# The whole attack: calls, modules, documents, interrupts and surroundings that are wrong. Every attack runs, which takes
# an hour, and it fails if anything was mishandled.
faults: $(STAMP)
	@failed=0; for attack in "mutated_calls specsim.reference --calls 25000" "mutated_calls specsim.gpu --calls 5000" \
		"attack_documents --documents 11000" "attack_modules --jobs $(JOBS)" attack_interrupts attack_surroundings; do \
		echo "python -m tests.faults.$$attack"; $(BIN)/python -m tests.faults.$$attack || failed=1; done; exit $$failed

bench: $(STAMP)
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only
	$(BIN)/specsim bench

# NOTE: torch goes first, so that its pinned triton is there before anything else asks for one.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	touch $(STAMP)

$(VENV)/docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@
