STACK ?= dev
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
COMMAND := $(RUN) -m gpu_cluster.cli
QUALITY := $(RUN) -m quality
# One type-check cache for every clone: the cloud SDKs take minutes to read the first time.
export MYPY_CACHE_DIR ?= $(or $(GPU_CLUSTER_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-cluster)/mypy

# $(call flag,KEEP,--keep): the flag, unless the variable is empty or says no.
NO := 0 n N no No NO false False FALSE off Off OFF
flag = $(if $(filter-out $(NO),$($1)),$2)
# $(call option,NODE,--node): the flag with what the variable says.
option = $(if $($1),$2 '$($1)')

# Without what Python has compiled, each of a rehearsal's processes would compile the SDKs again.
unexport PYTHONDONTWRITEBYTECODE

# What each target takes, beside PYTHON. Anything else given to it is refused: with `STAK=train` a
# command would be about another stack than the one that was meant.
TAKES_rehearse := STACK KEEP REPLACE NODE
TAKES_down := STACK
TAKES_inject-faults := PARTS MINUTES
TAKES_docs := FIGURES
TAKES_lock := UPGRADE

TAKEN := PYTHON $(foreach goal,$(MAKECMDGOALS),$(TAKES_$(goal)))
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
WRONG := $(firstword $(filter-out $(TAKEN),$(GIVEN)))
ifneq ($(WRONG),)
$(error $(shell $(PYTHON) gpu_cluster/tools/nearest.py $(WRONG) "make $(MAKECMDGOALS)" $(TAKEN)))
endif

# With their extras: pip, which checks hashes, takes `name[extra]` for a package that is not pinned.
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-strip-extras --no-emit-index-url --custom-compile-command "make lock" $(call flag,UPGRADE,--upgrade)

.PHONY: help setup packages rehearse down inject-faults test slice lint unit coverage docs lock clean change

define HELP
make rehearse STACK=dev   rehearse an environment on this machine; KEEP=1 leaves it running,
                          REPLACE=1 ends the one that runs already
make rehearse STACK=onprem NODE=gpu   with this machine's GPUs and kubelet, as root
make down STACK=dev       end what KEEP=1 left running
make setup                install the Python packages, build the engine and a control plane
make packages             install only the Python packages and the command gpu-cluster: enough
                          for everything except rehearsals
make clean                removes the Python packages and every rehearsal's report

Everything else is a command, with exit codes of its own: $(SCRIPT) --help

For developers
make change               what follows from your change is written again and tested, and the
                          settings that it concerns are rehearsed
make test                 the linters and every test that is not slow (make lint, make unit)
make inject-faults        every fault at every operation, every change; under an hour
                          (PARTS="dev-kills", MINUTES=45)
make slice                slow tests for 20 minutes, other ones with each commit
make coverage             what the fast tests run of the code, which must not fall
make docs                 writes the generated pages; FIGURES=1 adds what the last rehearsal
                          and tests measured
make lock                 pins every Python package with its hashes, after a change of
                          requirements*.txt; UPGRADE=1 takes newer releases

PYTHON=python3.12 chooses the Python. 0, no, false and off turn an option off. make exits with 2
on any failure.
endef

help:
	$(info $(HELP))@:

setup: $(VENV)/.ready
	@$(RUN) -m gpu_cluster.tools build

packages: $(VENV)/.ready

# What runs programs that are built here; they are built while packages are installed. For a stack
# that is not there, nothing is.
BUILDS := setup test unit inject-faults change $(if $(wildcard Pulumi.$(STACK).yaml),rehearse)
BESIDE = $(if $(filter $(BUILDS),$(MAKECMDGOALS)),$(RUN) -m gpu_cluster.tools build)
# Python compiles what it imports: a tenth of what is installed, which pip would compile for a minute.
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/.ready: requirements.lock requirements-dev.lock pyproject.toml
	@$(PYTHON) gpu_cluster/tools/version.py
	@echo "python packages: installing, usually one to two minutes"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m gpu_cluster.tools.meanwhile '$(BESIDE)' \
	  '$(PIP) --require-hashes -r requirements-dev.lock' \
	  '$(PIP) --no-deps --no-build-isolation --editable .' \
	  '$(RUN) -m gpu_cluster.tools.checkout'
	@touch $@

# After a change of requirements*.txt: every package with its version and hashes, for all Pythons that
# the program supports. UPGRADE=1 takes newer releases within the ranges.
lock:
	@command -v uv > /dev/null || \
	  { echo "uv is needed: https://docs.astral.sh/uv/getting-started/installation"; exit 1; }
	@$(LOCK) requirements.txt $(addprefix requirements-,jobs.txt checks.txt rehearsal.txt dev.txt) \
	  --output-file requirements-dev.lock
	@$(LOCK) requirements.txt --output-file requirements.lock --constraints requirements-dev.lock

# Builds what is not built yet, once the stack and with NODE=gpu the machine have been looked at.
rehearse: $(VENV)/.ready
	@$(COMMAND) rehearse '$(STACK)' $(call flag,KEEP,--keep) $(call flag,REPLACE,--replace) \
	  $(call option,NODE,--node)

down: $(VENV)/.ready
	@$(COMMAND) down '$(STACK)'

inject-faults: setup
	@$(QUALITY) inject-faults $(PARTS) $(call option,MINUTES,--minutes)
	@$(if $(MINUTES)$(PARTS),,$(RUN) -m pytest -m prove -n 3 --dist loadgroup)

# The linters run beside the first tests, which wait for what they start more than they compute.
test: setup
	@$(MAKE) --no-print-directory -j2 lint unit

lint: $(VENV)/.ready
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(VENV)/bin/lint-imports --no-cache --no-logo
	@$(RUN) -m gpu_cluster.tools build actionlint
	@"$$($(RUN) -m gpu_cluster.tools path actionlint)"
	@echo "mypy: checking, usually 10 s, the first time half a minute"
	@$(RUN) -m mypy

COVERED := tests/unit tests/integration tests/policy tests/components

# Built before, so that no test waits for a build, and no folder's budget pays for one.
unit: setup
	@$(RUN) -m gpu_cluster.tools build jobset kueue
	@$(RUN) -m pytest -n auto --dist loadgroup --no-loadscope-reorder

# Each commit begins with other slow tests.
slice: setup
	@$(RUN) -m pytest -m prove -n 3 --dist loadgroup --no-loadscope-reorder --slice "$$(git rev-parse HEAD)"

# Lines and branches that these run; the floor is in pyproject.toml.
coverage: $(VENV)/.ready
	@$(RUN) -m pytest -q -n 2 --dist loadfile --cov --cov-report=term $(COVERED)

docs: $(VENV)/.ready
	@$(QUALITY) docs $(call flag,FIGURES,--figures)

change: setup
	@$(QUALITY) change

clean:
	@$(PYTHON) -m gpu_cluster.tools.clean
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
