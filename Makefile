STACK ?= dev
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# One type-check cache for every clone: the cloud SDKs take minutes to read the first time.
export MYPY_CACHE_DIR ?= $(or $(GPU_CLUSTER_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-cluster)/mypy

# What a real node runs, built on demand: rehearsal/node.
REAL_NODE := kubelet containerd runc cni-plugins device-plugin container-toolkit

.PHONY: help setup engine rehearse real-node down quota gpus check cards cost recover prove test lint unit readme bench clean

help:
	@echo "make rehearse STACK=dev   rehearse an environment on this machine (KEEP=1 leaves it running)"
	@echo "make rehearse STACK=onprem NODE=gpu   with this machine's GPUs and kubelet, as root"
	@echo "make down STACK=dev       end what KEEP=1 left running"
	@echo "make quota STACK=dev      whether the cloud's GPU quotas let the pools grow to maxNodes"
	@echo "make gpus STACK=dev       every node's GPUs, and what GPU nodes lack (REHEARSAL=1: of KEEP=1's)"
	@echo "make check STACK=dev      what the acceptance workload (gpuCheck) measured on the stack's GPUs"
	@echo "make cost STACK=dev       what it costs per hour and month, idle and full (COMPARE=REV, CEILING=DOLLARS)"
	@echo "make recover STACK=dev    puts the state in order after a killed up or destroy (UNHEARD=1: a lost answer)"
	@echo "make prove                every fault at every operation, every change, every single mistake; under an hour"
	@echo "make test                 all tests and linters"
	@echo "make bench                what the program costs in time, memory and money (RUNS=5)"
	@echo "make setup                what the others need: Python packages, the engine, a control plane"

setup: $(VENV)/.ready
	@$(RUN) -m tools build

$(VENV)/.ready: requirements.txt requirements-dev.txt
	@echo "python packages: installing, usually 1 to 2 minutes"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# Of the setup, what asks or mends a live stack: no control plane, and no engine where PATH has one.
engine: $(VENV)/.ready
	@$(RUN) -m tools path pulumi > /dev/null 2>&1 || $(RUN) -m tools build pulumi

rehearse: $(if $(NODE),real-node) setup
	@$(RUN) -m rehearsal run $(STACK) $(if $(KEEP),--keep) $(if $(NODE),--node $(NODE))

# NODE=gpu: this machine as one of the nodes. Says at once where it cannot be, then builds.
real-node: $(VENV)/.ready
	@$(RUN) -m rehearsal.node $(STACK) --node $(NODE)
	@$(RUN) -m tools build $(REAL_NODE)

down: $(VENV)/.ready
	@$(RUN) -m rehearsal down $(STACK)

# make ends with 2 whenever a recipe fails; the check's own code, 1 or 2, is in its last line, or
# run the command itself.
quota: $(VENV)/.ready
	@$(RUN) -m checks.quota $(STACK) $(if $(REHEARSAL),--rehearsal) $(if $(JSON),--json)

gpus: engine
	@$(RUN) -m checks.gpus $(STACK) $(if $(REHEARSAL),--rehearsal) $(if $(JSON),--json) \
	  $(if $(KUBECONFIG_FILE),--kubeconfig $(KUBECONFIG_FILE))

check: engine
	@$(RUN) -m checks.check $(STACK) $(if $(REHEARSAL),--rehearsal) $(if $(JSON),--json) \
	  $(if $(KUBECONFIG_FILE),--kubeconfig $(KUBECONFIG_FILE))

# Writes the README's table of measured cards; FILES are results to add to docs/measured.
cards: $(VENV)/.ready
	@$(RUN) -m checks.check_cards $(FILES)

cost: $(VENV)/.ready
	@$(RUN) -m checks.cost $(STACK) $(if $(JSON),--json) $(if $(COMPARE),--compare $(COMPARE)) \
	  $(if $(CEILING),--ceiling $(CEILING))

recover: engine
	@$(RUN) -m recovery $(STACK) $(if $(UNHEARD),--unheard) $(if $(YES),--yes)

prove: setup
	@$(RUN) -m prove $(PARTS) $(if $(MINUTES),--minutes $(MINUTES))
	@$(if $(MINUTES)$(PARTS),,$(RUN) -m pytest -m prove -n 3 --dist loadgroup)

test: setup lint unit

lint: $(VENV)/.ready
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m tools build actionlint
	@"$$($(RUN) -m tools path actionlint)"
	@echo "mypy: checking, usually 10 s, the first time 6 minutes"
	@$(RUN) -m mypy

unit: setup
	@$(RUN) -m pytest -n 2 --dist loadfile || \
	  { echo "once more, alone: what failed, in case the machine was only too busy"; \
	    $(RUN) -m pytest --last-failed --last-failed-no-failures none; }

# Writes into the README what commands print: the config keys, the last rehearsal of dev, the last tests.
readme: $(VENV)/.ready
	@$(RUN) -m checks.readme

# Results go to .rehearsal/bench and, as a section and pictures, into the README. A quiet machine,
# please: 20 minutes on two cores. PARTS="b d" measures these again and leaves the rest.
bench: setup
	@$(RUN) -m bench $(PARTS) --runs $(or $(RUNS),5) --readme

clean:
	rm -rf $(VENV) .rehearsal .mypy_cache .ruff_cache .pytest_cache .hypothesis
