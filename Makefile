# Spillway. `make help` lists what there is; everything installs into .venv, as whoever calls it.
#
# The locked sets run.txt, dev.txt and docs.txt have the same versions and share one .venv, so
# `make run`, `make docs` and `make test` can follow each other in any order. Stamps in .venv remember
# what is installed; a lock file that changes is installed again.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PYTHONS := python3.11 /usr/bin/python3.11 python3.12 /usr/bin/python3.12 python3 python3.13
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
# Built with profiles of how it runs, as distributions and python.org's images do it: a call costs a
# fifth less then (docs/explanation/call-cost.md).
QUICK := import sys, sysconfig; sys.exit(not (sys.base_prefix == "/usr" \
  or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")))

# Debian packages that tests need. Only root installs them; a test without its package skips itself.
DEBIAN := curl chromium prometheus

# For the settings that ship, which name their secrets. Nothing is called with these.
SECRETS := SPILLWAY_KEY=unused CLOUD_API_KEY=unused

# Hundreds of processes that compile the same modules again would be a good part of the tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
# Annotated texts for make bench-classify: JSONL files, as loadtests/classify/accuracy.py says.
DATA := $(wildcard ../shared/data/pii)

.PHONY: help run test docs quick check format models patterns compiled as-shipped test-compiled lock clean \
  debian node bench load fuzz peers bench-classify simulate-seeds

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  ARGS=...      go on to what is run, pytest or a module of loadtests; e.g. make run ARGS=--once"
	@echo "  JOBS=...      as many processes run the tests (6: most of them wait most of the time)"
	@echo "  PYTHON=...    the interpreter of a new $(VENV); by default the first that fits and is quick"

run: $(STAMPS)/run models ## install, build the models, run the demo until Ctrl-C
	@$(BIN)/spillway demo $(ARGS)

test: $(STAMPS)/dev $(STAMPS)/docs models patterns debian node ## install what tests need and run all of them
	@$(BIN)/python -m pytest -n $(or $(JOBS),6) $(ARGS)

docs: $(STAMPS)/docs ## build docs/ as a site with a search into var/site; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet $(ARGS)
	@echo "var/site/index.html"

quick: $(STAMPS)/dev ## formatting, lint, types and the unit tests that start no process, in a minute
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q .
	@$(BIN)/mypy --strict & types=$$!; \
	  $(BIN)/python -m pytest -q -n $(or $(JOBS),2) --quick $(ARGS) || { wait $$types; exit 1; }; wait $$types

check: $(STAMPS)/dev ## formatting, lint, types, names, the Dockerfiles and the settings that ship
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict
	$(BIN)/python -m pytest -q tests/unit/test_architecture.py tests/unit/test_identifiers.py
	$(BIN)/hadolint Dockerfile deploy/triton.Dockerfile
	@for file in gateway/default.yaml deploy/spillway.yaml; do \
	  echo "spillway check --file-only $$file"; $(SECRETS) $(BIN)/spillway check --file-only $$file || exit; done

bench: $(STAMPS)/dev ## what each stage of a call costs by itself, in microseconds
	@$(BIN)/python -m loadtests.bench $(ARGS)

load: $(STAMPS)/dev ## load on a gateway of yours: ARGS="--url http://127.0.0.1:8080 --model chat"
	@$(BIN)/python -m loadtests.load $(ARGS)

fuzz: $(STAMPS)/dev patterns ## look for the costliest input, two minutes; ARGS="--family frames --seconds 600"
	@$(BIN)/python -m loadtests.fuzz $(ARGS)

peers: $(STAMPS)/dev patterns as-shipped ## Spillway beside other gateways, in turns; ARGS="--rounds 1 --only ..."
	@$(BIN)/python -m loadtests.peers $(ARGS)

bench-classify: $(STAMPS)/dev ## what classification costs and finds; DATA=folder of annotated texts
	$(BIN)/python -m loadtests.classify.engine
	$(BIN)/python -m loadtests.classify.first_verdict
	$(BIN)/python -m loadtests.classify.worst_case
	$(BIN)/python -m loadtests.classify.names $(if $(DATA),--data $(DATA))
	$(BIN)/python -m loadtests.classify.start
	$(if $(DATA),$(BIN)/python -m loadtests.classify.accuracy --data $(DATA) --held-out,\
	  @echo "no annotated texts: make bench-classify DATA=folder counts what is found in them")

simulate-seeds: $(STAMPS)/dev ## a gateway in 100,000 worlds that fail; SEEDS=... JOBS=..., goes on where it was
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),100000) --jobs $(or $(JOBS),2) \
	  --progress var/seeds.jsonl

format: $(STAMPS)/dev ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

models: ## build what models/ does not carry (needs an installation: run or test)
	@$(BIN)/python models/build.py

patterns: ## compile what scans look for, once for an installation (the demo does it by itself)
	@XDG_CACHE_HOME="$(CURDIR)/$(VENV)/share" $(BIN)/spillway prepare

as-shipped: $(STAMPS)/dev
	@$(BIN)/python -m loadtests.build >/dev/null || ! command -v cc >/dev/null \
	  || $(MAKE) --no-print-directory compiled

test-compiled: $(STAMPS)/dev models patterns as-shipped ## the tests, of the build that make compiled makes
	@$(BIN)/python -m loadtests.build
	@PYTHONPATH="$(CURDIR)/var/compiled:$(CURDIR)" PYTHONSAFEPATH=1 \
	  $(BIN)/python -m pytest --import-mode=append -n $(or $(JOBS),3) $(ARGS)

compiled: $(STAMPS)/dev ## compile the gateway into var/compiled (needs a C compiler; docs/explanation/compiled.md)
	@rm -rf var/compiled build
	@SPILLWAY_COMPILE=1 $(BIN)/python -m pip --disable-pip-version-check install --quiet \
	  --no-deps --no-build-isolation --no-index --target var/compiled .
	@PYTHONPATH=var/compiled $(BIN)/python -P -m gateway --version

lock: ## resolve pyproject.toml into requirements/ again (needs uv; UV=... names it)
	@command -v "$${UV:-uv}" >/dev/null || { echo "make lock needs uv; UV=/path/to/uv names it" >&2; exit 1; }
	requirements/lock

clean: ## remove .venv, caches and build products; records in var/ stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find gateway models tests loadtests -name __pycache__ -prune -exec rm -rf {} +

debian:
	@[ -z "$(DEBIAN)" ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
	  || dpkg -s $(DEBIAN) >/dev/null 2>&1 \
	  || { apt-get update -q && apt-get install -qy --no-install-recommends $(DEBIAN); }

# The SDKs of callers that run in Node; without npm, or its registry, their tests skip themselves.
node:
	@cd tests/clients/node && { ! command -v npm >/dev/null || cmp -s package-lock.json node_modules/.lock \
	  || { npm ci --silent --no-audit --no-fund && cp package-lock.json node_modules/.lock; } \
	  || echo "npm ci failed: the tests of the SDKs in Node skip themselves"; }

# A python that is only a shim, too old, or without venv (Debian packs it apart) is passed over.
$(STAMPS)/venv:
	@found= quick=; for python in $(or $(PYTHON),$(PYTHONS)); do \
	  if "$$python" -c '$(FITS)' >/dev/null 2>&1; then \
	    found=$${found:-$$python}; \
	    if "$$python" -c '$(QUICK)'; then quick=$$python; break; fi; \
	  fi; \
	done; \
	if [ -n "$$found" ] && [ -z "$$quick" ]; then \
	  echo "$$found was built without --enable-optimizations: calls cost a quarter more with it"; \
	fi; \
	found=$${quick:-$$found}; \
	if $(BIN)/python -c '$(FITS)' >/dev/null 2>&1; then found=; \
	elif [ -z "$$found" ]; then \
	  echo "Spillway needs Python 3.11 or 3.12 (3.13 without the embedded Triton) with venv." >&2; \
	  echo "Tried: $(or $(PYTHON),$(PYTHONS)). Name another: make run PYTHON=/path/to/python3.12" >&2; \
	  echo "On Debian and Ubuntu, apt-get install python3-venv may be all that is missing." >&2; \
	  exit 1; \
	fi; \
	if [ -n "$$found" ]; then echo "creating $(VENV) with $$found"; "$$found" -m venv --clear $(VENV); fi
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: requirements/dev.txt pyproject.toml | $(STAMPS)/venv
	@$(BIN)/python requirements/install.py requirements/dev.txt
	@touch $(STAMPS)/run $@

$(STAMPS)/docs: requirements/docs.txt | $(STAMPS)/venv
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes \
	  --requirement requirements/docs.txt
	@touch $@

$(STAMPS)/run: requirements/run.txt pyproject.toml | $(STAMPS)/venv
	@$(BIN)/python requirements/install.py requirements/run.txt
	@touch $@
