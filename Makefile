# XBENCH_PYTHON: the interpreter that .venv is made from. XBENCH_ENV: an environment of your own, used as it is.
XBENCH_PYTHON ?= python3
PACKAGES := models studies data metrics stats host converters store runtimes parity workers proof experiments recommend reports cli
# One file a process, because what a file's tests share is made once, in the order of tests/conftest.py; few processes,
# because each holds frameworks, but one more than there are CPUs, because each waits now and then.
PROCESSES := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST_ARGS ?= --numprocesses $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

ifdef XBENCH_ENV
BIN := $(XBENCH_ENV)/bin
READY :=
else
BIN := .venv/bin
READY := .venv/.ready
endif
PYTHON := $(BIN)/python
XBENCH := $(BIN)/xbench

.DEFAULT_GOAL := help
.PHONY: help env run readme screenshots commands docs node-suite parity modules studies scaling runtimes tuning gpu compiled test test-all check types clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(READY) ## .venv with every CPU runtime and the tools, at the pinned versions

# torch goes first and alone: once a CPU build is there (name its index in PIP_EXTRA_INDEX_URL where your index has only
# the CUDA build), nothing that follows can pull another.
.venv/.ready: pyproject.toml constraints.txt
	@$(XBENCH_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "xbench needs Python 3.11: make env XBENCH_PYTHON=python3.11")'
	@echo "[1/3] making .venv"
	$(XBENCH_PYTHON) -m venv .venv
	@echo "[2/3] installing torch"
	.venv/bin/python -m pip install -c constraints.txt torch
	@echo "[3/3] installing the other runtimes, the tools and xbench"
	.venv/bin/python -m pip install -c constraints.txt -e '.[cpu,dev]'
	@touch $@

run: env ## the default suite on every runtime: convert, then time, then the table
	@echo "[1/2] converting the default suite"
	$(XBENCH) convert --oracle --compile
	@echo "[2/2] checking parity and timing"
	$(XBENCH) time --budget 1
	@echo "Results: xbench-results/results.jsonl. Print them again with: $(XBENCH) show"

readme: env ## the results of the last `make run` into README.md and docs/default-suite.md
	$(PYTHON) tools/pages/readme.py $(XBENCH)

screenshots: env ## pictures of `xbench report` of the last `make run`: docs/report-light.png and -dark.png (needs Chromium)
	$(PYTHON) tools/pages/screenshots.py $(XBENCH)

node-suite: env ## ONNX's own operator tests on our tables and on the runtimes: node-suite.json, docs/node-suite.md
	$(PYTHON) tools/pages/node_suite.py --json node-suite.json --markdown docs/node-suite.md

parity: env ## every network on every runtime against the float64 oracle (some hours): docs/parity.md
	$(XBENCH) check all --json > parity.json
	$(PYTHON) tools/pages/parity.py parity.json > docs/parity.md

modules: env ## 60 networks of transformers, timm, diffusers, ... on five runtimes (an hour): docs/modules.md
	$(PYTHON) tools/pages/modules.py > docs/modules.md

studies: env ## the five studies at --scale tiny (an hour on two cores): docs/studies
	@for name in dlbench s-sgd minibatch rosetta bahrampour; do \
	  $(XBENCH) study $$name --scale tiny || exit 1; \
	  rm -rf docs/studies/$$name && mkdir -p docs/studies && cp -r xbench-results/$$name-tiny docs/studies/$$name && \
	  rm docs/studies/$$name/*.jsonl || exit 1; \
	done

gpu: env ## the fault kit, parity and times of all installed runtimes on a GPU, within 25 minutes: docs/gpu.md
	$(PYTHON) tools/pages/gpu.py > docs/gpu.md

runtimes: env ## what every installed runtime is and takes, and one ranked table (half an hour): docs/runtimes.md
	$(PYTHON) tools/pages/runtimes.py > docs/runtimes.md

tuning: env ## lenet and cifar_vgg, tuned and untuned (a quarter of an hour): docs/tuning.md
	$(PYTHON) tools/pages/tuning.py > docs/tuning.md

scaling: env ## lenet, fcn5_mnist and alexnet_cifar by 1, 2 and 4 workers, in a quiet moment: docs/scaling-figures.md
	$(PYTHON) tools/pages/scaling.py --pictures docs > docs/scaling-figures.md

commands: env ## docs/commands.md, from the commands' own help
	@$(PYTHON) -P -m typer xbench.cli._app utils docs --name xbench > docs/commands.md

docs: commands ## the site: every command that a page shows is run and must print what the page says (minutes)
	@echo "[1/2] running the commands that the pages show"
	@XBENCH_CACHE=$(CURDIR)/build/docs-cache $(PYTHON) docs/shown.py
	@echo "[2/2] making the pages"
	@$(PYTHON) -m sphinx -b html -W --keep-going -q docs build/site
	@echo "The site: build/site/index.html"

# Hundreds of processes start. Where PYTHONDONTWRITEBYTECODE is set, each would compile the sources again.
compiled: env
	@$(PYTHON) -m compileall -q -j 0 api $(PACKAGES)

test: compiled ## the fast tier: every runtime, mode and command, one row of each operator (minutes)
	$(PYTHON) -m pytest --durations=10 -m "not slow" $(PYTEST_ARGS)

test-all: compiled ## every test (three quarters of an hour on two cores)
	$(PYTHON) -m pytest --durations=10 $(PYTEST_ARGS)

check: env types ## lint, format, types and the rules of the house
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest tests/house/test_house.py tests/house/test_contributing.py -m "not slow" --quiet

# mypy cannot read setuptools' package-dir map: it sees the packages through links.
types: ## .types/xbench: links through which mypy sees the packages
	@mkdir -p .types/xbench
	@for package in $(PACKAGES); do ln -sfn ../../$$package .types/xbench/$$package; done
	@for file in api/*.py; do ln -sfn ../../$$file .types/xbench/$$(basename $$file); done

clean: ## remove what make wrote, results excepted
	rm -rf .venv .types build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
