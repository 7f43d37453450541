STACK ?= dev
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# One type-check cache for every clone: the cloud SDKs take minutes to read the first time.
export MYPY_CACHE_DIR ?= $(or $(GPU_CLUSTER_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-cluster)/mypy

# What a real node runs, built on demand: rehearsal/gpu_node.
REAL_NODE := kubelet containerd runc cni-plugins device-plugin container-toolkit

# $(call flag,KEEP,--keep): the flag, unless the variable is empty or says no.
NO := 0 n N no No NO false False FALSE off Off OFF
flag = $(if $(filter-out $(NO),$($1)),$2)
# $(call option,NODE,--node): the flag with what the variable says.
option = $(if $($1),$2 '$($1)')

# What each target takes, beside PYTHON. Anything else given to it is refused: with `STAK=train` a
# command would be about another stack than the one that was meant.
TAKES_rehearse := STACK KEEP REPLACE NODE
TAKES_real-node := STACK NODE
TAKES_down := STACK
TAKES_quota := STACK REHEARSAL JSON
TAKES_gpus := STACK REHEARSAL KUBECONFIG_FILE JSON
TAKES_leftovers := STACK REHEARSAL KUBECONFIG_FILE JSON
TAKES_check := STACK REHEARSAL KUBECONFIG_FILE JSON
TAKES_cost := STACK COMPARE CEILING JSON
TAKES_recover := STACK ADOPT_ORPHANS YES
TAKES_cards := FILES
TAKES_prove := PARTS MINUTES
TAKES_bench := PARTS RUNS
TAKES_lock := UPGRADE
TAKEN := PYTHON $(foreach goal,$(MAKECMDGOALS),$(TAKES_$(goal)))
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
# Wherever it is set: a command that does not know it would ask the live cloud.
GIVEN += $(call flag,REHEARSAL,REHEARSAL)
WRONG := $(firstword $(filter-out $(TAKEN),$(GIVEN)))
ifneq ($(WRONG),)
$(error $(shell $(PYTHON) tools/nearest.py $(WRONG) "make $(MAKECMDGOALS)" $(TAKEN)))
endif
ifneq ($(filter recover,$(MAKECMDGOALS)),)
ifeq ($(origin STACK),file)
$(error name the stack, as its state is changed: make recover STACK=dev)
endif
endif

LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-emit-index-url --custom-compile-command "make lock" $(call flag,UPGRADE,--upgrade)
ASKED = '$(STACK)' $(call flag,REHEARSAL,--rehearsal) $(call flag,JSON,--json)

.PHONY: help setup engine rehearse real-node down list quota gpus leftovers check cards cost recover \
  prove test lint unit coverage readme bench lock clean

define HELP
make rehearse STACK=dev   rehearse an environment on this machine; KEEP=1 leaves it running,
                          REPLACE=1 ends the one that runs already
make rehearse STACK=onprem NODE=gpu   with this machine's GPUs and kubelet, as root (make real-node
                          builds what that needs)
make down STACK=dev       end what KEEP=1 left running
make list                 the rehearsals of this folder, and whether they run
make quota STACK=dev      whether the cloud's GPU quotas let the pools grow to maxNodes
make gpus STACK=dev       every node's GPUs, and what GPU nodes lack
make leftovers STACK=dev  what Services, Ingresses and volumes made in the cloud, which destroy
                          would leave there
make check STACK=dev      what the acceptance test (gpuTest) measured on the stack's GPUs
                          quota, gpus, leftovers, check: REHEARSAL=1 asks the rehearsal that KEEP=1 left;
                          gpus, leftovers, check: KUBECONFIG_FILE=FILE asks that cluster
make cost STACK=dev       what it costs per hour and month, idle and full (COMPARE=REV, CEILING=DOLLARS)
                          quota, gpus, leftovers, check, cost: JSON=1 prints JSON
make recover STACK=dev    puts the state in order after a killed up or destroy (ADOPT_ORPHANS=1: a
                          lost answer; YES=1: without asking)
make setup                what the others need: Python packages, the engine, a control plane
make engine               the same without the control plane: what recover, gpus, leftovers and check need
make clean                removes the Python packages and every rehearsal's report

For developers
make test                 all tests and linters (make unit, make lint)
make prove                every fault at every operation, every change; under an hour (PARTS="dev-kills",
                          MINUTES=45)
make bench                what the program costs in time, memory and money (PARTS="b d", RUNS=5)
make coverage             what the fast tests run of the code, which must not fall
make readme               writes the generated pages of docs/
make lock                 pins every Python package with its hashes, after a change of
                          requirements*.txt; UPGRADE=1 takes newer releases
make cards FILES="a.json" adds measured GPUs to the benchmark page

PYTHON=python3.12 chooses the Python. 0, no, false and off are no. Exit code 0: fine. make ends with
2 whatever fails; .venv/bin/python -m cli quota dev and so on tell 1 (a finding) from 2.
endef

help:
	$(info $(HELP))@:

setup: $(VENV)/.ready
	@$(RUN) -m tools build

$(VENV)/.ready: requirements.lock requirements-dev.lock
	@$(PYTHON) tools/version.py
	@echo "python packages: installing, usually 1 to 2 minutes"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# After a change of requirements*.txt: every package with its version and hashes, for all Pythons that
# the program supports. UPGRADE=1 takes newer releases within the ranges.
lock:
	@command -v uv > /dev/null || \
	  { echo "uv is needed: https://docs.astral.sh/uv/getting-started/installation"; exit 1; }
	@$(LOCK) requirements.txt requirements-dev.txt --output-file requirements-dev.lock
	@$(LOCK) requirements.txt --output-file requirements.lock --constraints requirements-dev.lock

# Of the setup, what asks or mends a live stack: no control plane, and no engine where PATH has one.
engine: $(VENV)/.ready
	@$(RUN) -m tools path pulumi > /dev/null 2>&1 || $(RUN) -m tools build pulumi

rehearse: $(if $(NODE),real-node) setup
	@$(RUN) -m cli rehearse '$(STACK)' $(call flag,KEEP,--keep) $(call flag,REPLACE,--replace) \
	  $(call option,NODE,--node)

# NODE=gpu: this machine as one of the nodes. Says at once where it cannot be, then builds.
real-node: $(VENV)/.ready
	@$(RUN) -m rehearsal.gpu_node '$(STACK)' $(call option,NODE,--node)
	@$(RUN) -m tools build $(REAL_NODE)

down: $(VENV)/.ready
	@$(RUN) -m cli down '$(STACK)'

list: $(VENV)/.ready
	@$(RUN) -m cli list

# make ends with 2 whenever a recipe fails; the check's own code, 1 or 2, is in its last line, or
# run the command itself.
quota: $(VENV)/.ready
	@$(RUN) -m cli quota $(ASKED)

gpus: engine
	@$(RUN) -m cli gpus $(ASKED) $(call option,KUBECONFIG_FILE,--kubeconfig)

leftovers: engine
	@$(RUN) -m cli leftovers $(ASKED) $(call option,KUBECONFIG_FILE,--kubeconfig)

check: engine
	@$(RUN) -m cli test-gpus $(ASKED) $(call option,KUBECONFIG_FILE,--kubeconfig)

# Writes the table of measured GPUs; FILES are results to add to docs/measured.
cards: $(VENV)/.ready
	@$(RUN) -m cli.docs.gpus $(FILES)

cost: $(VENV)/.ready
	@$(RUN) -m cli cost $(ASKED) $(call option,COMPARE,--compare) $(call option,CEILING,--ceiling)

recover: engine
	@$(RUN) -m stacks.recovery '$(STACK)' $(call flag,ADOPT_ORPHANS,--adopt-orphans) $(call flag,YES,--yes)

prove: setup
	@$(RUN) -m quality.faults $(PARTS) $(call option,MINUTES,--minutes)
	@$(if $(MINUTES)$(PARTS),,$(RUN) -m pytest -m prove -n 3 --dist loadgroup)

test: setup lint unit

lint: $(VENV)/.ready
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(VENV)/bin/lint-imports --no-cache --no-logo
	@$(RUN) -m tools build actionlint
	@"$$($(RUN) -m tools path actionlint)"
	@echo "mypy: checking, usually 10 s, the first time 6 minutes"
	@$(RUN) -m mypy

COVERED := tests/unit tests/policy tests/components

unit: setup
	@$(RUN) -m pytest -n 2 --dist loadfile

# Lines and branches that tests/unit, tests/policy and tests/components run; the floor is in
# pyproject.toml.
coverage: $(VENV)/.ready
	@$(RUN) -m pytest -q -n 2 --dist loadfile --cov --cov-report=term $(COVERED)

# Writes the generated pages: the reference, the last rehearsal of dev, the last tests.
readme: $(VENV)/.ready
	@$(RUN) -m cli.docs.write

# Results go to .rehearsal/bench and, as a section and pictures, into docs/. A quiet machine,
# please: 20 minutes on two cores. PARTS="b d" measures these again and leaves the rest.
bench: setup
	@$(RUN) -m quality.bench $(PARTS) --runs $(or $(RUNS),5) --docs

clean:
	rm -rf $(VENV) .rehearsal .mypy_cache .ruff_cache .pytest_cache .hypothesis
