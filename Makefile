# Everything a contributor or a CI job types. Sets up its own virtual environment; needs Python 3.11, venv, make and git.

PYTHON ?= python3.11
VENV ?= .venv
SEEDS ?= 20
ARGS ?=
TARGET ?=
TARGETS ?=
NAME ?= evict
VLLM_WHEELS ?=

BIN := $(VENV)/bin
# Where the environment is up to date, a file named after what it was made from lies in it.
STAMP := $(VENV)/.made-from-$(shell cat requirements.lock pyproject.toml Makefile | git hash-object --stdin)
LINTED := prefixproof_plugin.py conftest.py conformance engine reference_gateway load tests $(if $(wildcard benchmarks/*.py),benchmarks)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_ROOT_USER_ACTION := ignore
export VLLM_WHEELS

.DEFAULT_GOAL := help
.PHONY: help conformance test lint format matrix visibility aa load incident targets engine-vllm test-vllm lock clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*##[ ]*(.*)/  make \1            \2/p' $(MAKEFILE_LIST) | sed -E 's/^(.{20}) */\1/'

conformance: $(STAMP)  ## judge the embedded pair, or a gateway: make conformance TARGET=http://gw:3000 ARGS="--model NAME"
	$(BIN)/prefixproof $(if $(TARGET),--target '$(TARGET)') $(ARGS)

test: $(STAMP)  ## the project's own tests; ARGS="-k NAME" narrows them
	$(BIN)/pytest tests -q -n 4 --dist worksteal $(ARGS)

lint: $(STAMP)  ## formatting, lint and types; changes nothing
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/ruff check $(LINTED)
	$(BIN)/mypy $(LINTED)
	$(BIN)/mypy tests/conftest.py

format: $(STAMP)  ## format the code and mend what the linter can
	$(BIN)/ruff format $(LINTED)
	$(BIN)/ruff check --fix $(LINTED)

matrix: $(STAMP)  ## every fault against every rule, with SEEDS=20 seeds
	$(BIN)/python -m conformance.matrix --seeds $(SEEDS) $(ARGS)

visibility: $(STAMP)  ## measure which faults show to whom: docs/visibility.md
	$(BIN)/python -m conformance.visibility --write docs/visibility.md

aa: $(STAMP)  ## the clean pair against itself under noise: false-fail and power figures
	$(BIN)/python -m conformance.aa $(ARGS)

load: $(STAMP)  ## evict sessions from the embedded pair's cache and call them back; NAME=steady, ARGS="--fault l2-write-only"
	$(BIN)/prefixproof-load $(NAME) $(if $(filter evict,$(NAME)),--gate load/second_tier.toml) $(ARGS)

incident: $(STAMP)  ## the day of the incident, switches off, on, and on with a second tier
	$(BIN)/prefixproof-load incident $(ARGS)

targets: $(STAMP)  ## install and judge gateways nobody here wrote; TARGETS="litellm-1.108.7 ccr-2.0.0" for some
	$(BIN)/python tests/targets/run_targets.py $(TARGETS) $(ARGS)

engine-vllm: $(STAMP)  ## install real vLLM for CPU (once, 3 GB, outside the checkout); VLLM_WHEELS=DIR names wheels pip lacks
	@$(BIN)/python -m engine.vllm.install

test-vllm: $(STAMP)  ## the suite and the tier on real vLLM; needs `make engine-vllm`; ARGS="-m slow" for the incident, load and `prove`
	PREFIXPROOF_TEST_VLLM=1 $(BIN)/pytest tests/vllm -q $(or $(ARGS),-m "not slow")

lock: $(STAMP)  ## write requirements.lock from the environment
	@head -n 2 requirements.lock > $(VENV)/lock
	@$(BIN)/python -m pip list --format=freeze --exclude-editable --exclude pip >> $(VENV)/lock
	@mv $(VENV)/lock requirements.lock

clean:  ## remove the environment and everything built or cached
	rm -rf $(VENV) build dist reports *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP):
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or later, or name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: name a newer one with PYTHON=..." >&2; exit 1; }
	@echo "setting up $(VENV) (once; some minutes on a slow line) ..."
	@rm -f $(VENV)/.made-from-*
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments: install its venv package" >&2; exit 1; }
	@echo "  packages of requirements.lock"
	@$(BIN)/python -m pip install --quiet --no-deps -r requirements.lock
	@echo "  prefixproof itself"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
