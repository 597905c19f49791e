# make demo   set everything up, synthesize an AllGather for two NDv2 nodes, verify it and show it
# make test   set everything up, then lint, type-check and test
# make study  the tests that draw examples, with thirty times as many of each
# make docs   the pages of docs/ as a site in build/site, where a link that leads nowhere is an error
# make package  wheel and source distribution in dist/, tried in clean environments of all Pythons that are here
# make clean  remove what the others made

PYTHON ?= python3
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Loops as machine code: tests want them at once, and the demo does without.
LOOPS  := $(VENV)/.compiled
# What only `make docs` and `make package` need.
SITE   := $(VENV)/.site

# Many tests start processes of their own, which must not compile every module anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test study lint tests docs package clean

demo: $(STAMP)
	mkdir -p build
	$(BIN)/taccl synthesize --sketch sketches/ndv2-sk-1.yaml --collective allgather --size 16MB \
		--gap 0.02 --time-limit 20 -o build/allgather.xml --schedule build/allgather.json
	$(BIN)/taccl verify build/allgather.xml
	head -n 12 build/allgather.xml

# mypy takes half a minute on one core: beside the two processes that compile loops it leaves no core idle.
test: $(STAMP)
	$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(LOOPS)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

study: $(LOOPS)
	TACCL_STUDY=30 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal $$(grep -rl "^from studies import" tests)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(SITE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(SITE)
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/installed.py dist $(PYTHONS)

$(SITE): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs,package]'
	touch $@

$(STAMP): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(LOOPS): $(STAMP)
	$(BIN)/taccl compile
	touch $@

clean:
	rm -rf $(VENV) build dist
